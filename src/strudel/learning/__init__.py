"""Rows -> a learned `BitCircuit` or `BitMixture`.

Reading order: `fit` (the way of every fit), `options`, `parameters`, `search` with `growing`,
`progress`, `learn_mixture` with `mixtures`; then `incomplete` and `structural_em` (rows with
unknown values), `class_models`, `flow_predictors` and `fill_in` (predictions), and `blocks` (Dask).
"""

from strudel._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __path__)
