"""The estimator of a regression circuit."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from strudel._types import AnyArray, FloatArray
from strudel.learning.supervised.losses import SquaredLoss
from strudel.models.flow_predictor import FlowPredictor, by_block
from strudel.models.targets import as_target


class RegressionCircuit(RegressorMixin, FlowPredictor):  # type: ignore[misc]
    """A regression on the edges that a row takes through a circuit.

    The predictor has the vtree of a density model, so `expected_prediction` is exact: what it would
    predict on average if the missing values were known. Weights are found by ridge regression on
    flow features: for every edge whether a row takes it, and the variables themselves.

    Parameters
    ----------
    density : Circuit, Mixture or fitted estimator, optional
        The model whose structure and vtree to use; its circuit must be deterministic. Without it, a
        circuit is learned from `X` and kept as `density_`. In cross-validation give
        ``model.circuit_`` rather than the estimator: scikit-learn copies estimators without what
        they learned.
    alpha : float or "auto", default="auto"
        Penalty on squared weights; "auto" chooses it on the validation rows.
    n_splits : int or "auto", default="auto"
        Splits of the density search after which its structure is taken, if none was given. "auto"
        chooses among the circuits that the search passes.
    target_splits : int or "auto", default="auto"
        Further splits, chosen where the predictor still errs; with "auto", as many as help on the
        validation rows. They do not touch the density model.
    validation_fraction : float or None, default=0.1
        Rows held out to choose by, when `fit` gets no `X_valid`; the weights are then found on all
        rows. With None all of the above must be numbers.
    random_state : int, RandomState or None
        For the held-out rows.
    n_jobs : int or None
        Threads; all cores by default. The result does not depend on it.

    Attributes
    ----------
    predictor_ : PredictorCircuit
        The function that was learned.
    density_ : Circuit or Mixture
        The density model on the same vtree.
    alpha_, n_splits_, n_target_splits_
        What was chosen, or given.
    trials_ : list of StructureTrial
        Structures that were tried, with their mean squared error on the validation rows.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from strudel.models import RegressionCircuit
    >>> X = np.random.default_rng(0).integers(0, 2, size=(60, 3))
    >>> y = 3.0 * X[:, 0] - X[:, 1] * X[:, 2]
    >>> model = RegressionCircuit(alpha=0.1, n_splits=0, target_splits=4, validation_fraction=None)
    >>> bool(model.fit(X, y).score(X, y) > 0.95)
    True
    >>> model.predictor_.vtree == model.density_.vtree
    True
    """

    _loss = SquaredLoss()

    @by_block("X")
    def predict(self, X: Any) -> FloatArray:
        """The prediction `(n_rows,)` for complete 0/1 rows.

        `expected_prediction` takes rows with missing values.
        """
        return self._output(X)[:, 0]

    def _target_values(self, y: Any, name: str) -> AnyArray:
        values = as_target(y, self)
        try:
            target = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"{name} must hold numbers, but holds {values.tolist()[0]!r}."
            ) from None
        bad = np.flatnonzero(~np.isfinite(target))
        if len(bad):
            raise ValueError(
                f"{name} must not hold NaN or infinity, but holds {target[bad[0]]} at row {bad[0]}."
            )
        return target
