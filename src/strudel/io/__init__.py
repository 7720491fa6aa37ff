"""Models, trees, formulas and tables <-> files.

`model_file` keeps models in an `archive`; `states` says what of a model is kept. `read_write` knows
the formats of other programs, which are in `formats`. `tables` reads data.
"""

from strudel._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __path__)
