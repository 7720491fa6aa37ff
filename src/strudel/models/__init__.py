"""Tables -> fitted estimators of scikit-learn: check, call, keep.

Reading order: `base`, `strudel`; then `classifier`, `regressor`, `imputer`, `predictor_circuits`.
Estimators are dataclasses; their fields are options.
"""

from strudel._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __path__)
