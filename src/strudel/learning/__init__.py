"""Rows -> a learned `Circuit`.

Reading order: `fit` (the way of every fit), `bits` (circuits while they are learned), `options`,
`parameters`, `search` with `growing`,
`progress`, `learn_mixture` with `mixtures`; then `incomplete` and `structural_em` (rows with
unknown values), `class_models`, `flow_predictors` and `fill_in` (predictions), and `blocks` (Dask).
"""

from strudel._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __path__)
