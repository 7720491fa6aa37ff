"""Tables of 0s and 1s -> `BitMatrix`, packed 64 rows to a word; and the named datasets.

Reading order: `validation`, `bits`, `datasets`; `lazy` is for rows that are read when they are
asked for.
"""

from strudel._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __path__)
