"""Learn structured-decomposable probabilistic circuits, and ask them exact questions.

What people type is here; everything else is one package down. Reading order: `data` and `tables`
(rows), `trees`, `circuits`, `logic`, `queries`, `algebra`, `learning`, `predictions`, `models`
(estimators), `io`, `plotting`, `errors`. Names are imported on first use.
"""

from strudel._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __path__)
