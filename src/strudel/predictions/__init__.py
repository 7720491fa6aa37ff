"""A model, a predictor and partly known rows -> what the predictor would say, and why.

Reading order: `predictor_forms` (predictors of any origin take one of a few forms), `raw_columns`
(also those fitted on the columns of a table), `expected` (their moments under a model are exact),
`decision` and `same_decision`, `agreement`, `players` (whose values explain), `explanation`,
`shapley`.
"""

from strudel._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __path__)
