"""A model, a predictor and partly known rows -> what the predictor would say, and why.

Reading order: `predictor_forms` (predictors of any origin take one of a few forms),
`predictor_arguments` (also those fitted on the columns of a table), `shared_passes` and `moments`,
`expected` (moments under a model are exact), `decision` and `same_decision`, `explanation`.
"""

from strudel._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __path__)
