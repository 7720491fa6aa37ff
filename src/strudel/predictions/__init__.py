"""A model, a predictor and partly known rows -> what the predictor would say, and why.

Reading order: `forms` (predictors of any origin take one of a few), `read_predictor`, `asked`;
`cell_codes` with `shared_walks`, `moments`, `expected` (moments under a model are exact);
`decision` with `posterior_bounds`, `same_decision`, `explanation`.
"""

from strudel._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __path__)
