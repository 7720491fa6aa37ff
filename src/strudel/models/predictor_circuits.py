"""The estimators of regression circuits and of logistic circuits."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin, RegressorMixin

from strudel._types import AnyArray, FloatArray
from strudel.learning.flow_predictors import LogLoss, SquaredLoss
from strudel.models.flow_predictor import FlowPredictor, by_block
from strudel.models.targets import as_labels, as_target


class RegressionCircuit(RegressorMixin, FlowPredictor):  # type: ignore[misc]
    """A regression on the edges that a row takes through a circuit.

    The predictor has the vtree of a density model, so `expected_prediction` is exact: what it would
    predict on average if the missing values were known. Weights are found by ridge regression on
    flow features: whether a row takes an edge, for every edge, and the variables themselves.

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
        Splits of the density search after which its structure is taken, if `density` is not given.
        "auto" chooses among the circuits of the search.
    target_splits : int or "auto", default="auto"
        Further splits, chosen where the predictor still errs; with "auto", as many as help on the
        validation rows. They do not change the density model.
    validation_fraction : float or None, default=0.1
        Rows held out to choose on, if `fit` gets no `X_valid`; the weights are then found on all
        rows. With None, all of the above must be numbers.
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


class LogisticCircuit(ClassifierMixin, FlowPredictor):  # type: ignore[misc]
    """A classifier by logistic regression on the edges that a row takes through a circuit.

    The classifier has the vtree of a density model, so the expectation of its log-odds under that
    model is exact when values are missing. With more than two classes there is one log-odds for
    each, against all others.

    Parameters
    ----------
    density, alpha, n_splits, target_splits, validation_fraction, random_state, n_jobs
        As in `RegressionCircuit`; `alpha` is the inverse of scikit-learn's `C`.

    Attributes
    ----------
    classes_ : ndarray
        The classes, sorted.
    predictor_, density_, alpha_, n_splits_, n_target_splits_, trials_
        As in `RegressionCircuit`; trials have the mean log-loss on the validation rows.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from strudel.models import LogisticCircuit
    >>> X = np.random.default_rng(0).integers(0, 2, size=(60, 3))
    >>> y = np.where(X[:, 0] > X[:, 1], "yes", "no")
    >>> model = LogisticCircuit(alpha=0.1, n_splits=0, target_splits=4, validation_fraction=None)
    >>> model.fit(X, y).predict([[1, 0, 0], [1, 1, 0]])
    array(['yes', 'no'], dtype='<U3')
    """

    _loss = LogLoss()

    def _target_values(self, y: Any, name: str) -> AnyArray:
        return as_labels(y, self)

    def _classes_of(self, values: AnyArray) -> AnyArray:
        classes = np.unique(values)
        if len(classes) < 2:
            raise ValueError(
                f"y must hold at least two classes, but holds only 1 class, {classes.tolist()[0]!r}"
            )
        return classes

    def _columns(self, values: AnyArray, classes: AnyArray | None) -> FloatArray:
        """One 0/1 column for two classes, one for each class of more."""
        assert classes is not None
        unseen = np.setdiff1d(values, classes)
        if len(unseen):
            raise ValueError(f"y_valid holds {unseen.tolist()[0]!r}, a class that y does not have.")
        wanted = classes[1:] if len(classes) == 2 else classes
        return (values[:, np.newaxis] == wanted).astype(np.float64)

    def _groups(self, target: FloatArray) -> list[Any]:
        """The rows of every class: no class may be held out completely."""
        _, group = np.unique(target, axis=0, return_inverse=True)
        return [np.flatnonzero(group.ravel() == k) for k in range(int(group.max()) + 1)]

    @by_block("X")
    def decision_function(self, X: Any) -> FloatArray:
        """The log-odds of complete 0/1 rows.

        Those of the second class `(n_rows,)`; with more than two classes, those of every class
        against all others `(n_rows, n_classes)`.
        """
        output = self._output(X)
        return output[:, 0] if len(self.classes_) == 2 else output

    @by_block("X")
    def predict_proba(self, X: Any) -> FloatArray:
        """The probability of every class `(n_rows, n_classes)` for complete 0/1 rows.

        With more than two classes, scaled to add up to one.
        """
        output = self._output(X)
        if len(self.classes_) == 2:
            return np.hstack([expit(-output), expit(output)])
        # Logs, so that a row that is improbable in all classes does not give 0 / 0.
        log_share = -np.logaddexp(0.0, -output)
        share = np.exp(log_share - log_share.max(axis=1, keepdims=True))
        return np.asarray(share / share.sum(axis=1, keepdims=True))

    @by_block("X")
    def predict_log_proba(self, X: Any) -> FloatArray:
        """Logarithms of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    @by_block("X")
    def predict(self, X: Any) -> AnyArray:
        """The most probable class `(n_rows,)` for complete 0/1 rows."""
        output = self._output(X)
        place = (output[:, 0] > 0).astype(int) if len(self.classes_) == 2 else output.argmax(axis=1)
        return np.asarray(self.classes_[place])
