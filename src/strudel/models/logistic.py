"""The estimator of a logistic circuit."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from strudel._types import AnyArray, FloatArray
from strudel.data.validation import check_binary, check_sample_weight
from strudel.learning.supervised.losses import LogLoss
from strudel.models.flow_predictor import FlowPredictor, by_block, check_lengths


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

    def fit(
        self, X: Any, y: Any, *, X_valid: Any = None, y_valid: Any = None, sample_weight: Any = None
    ) -> LogisticCircuit:
        """Learn from complete rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_vars)
            0 and 1; numpy, lists, scipy sparse, pandas, polars.
        y : array-like of shape (n_rows,)
            Classes, at least two.
        X_valid, y_valid : array-like, optional
            Rows to choose by; a part of every class is held out when not given.
        sample_weight : array-like of shape (n_rows,), optional
            How often each row counts.

        Returns
        -------
        LogisticCircuit
            Itself.
        """
        self._check_options(X_valid is not None)
        table, _ = check_binary(X)
        labels = _as_labels(y)
        check_lengths(table, labels, "X", "y")
        if (X_valid is None) != (y_valid is None):
            raise ValueError("X_valid and y_valid belong together: give both, or none.")
        counting = labels
        if sample_weight is not None:
            counting = labels[check_sample_weight(sample_weight, len(table)) > 0.0]
        classes = np.unique(counting)
        if len(classes) < 2:
            raise ValueError(
                f"y must hold at least two classes, but holds only 1 class, {classes.tolist()[0]!r}"
            )
        valid_target = None
        if y_valid is not None:
            valid_labels = _as_labels(y_valid)
            unseen = np.setdiff1d(valid_labels, classes)
            if len(unseen):
                raise ValueError(
                    f"y_valid holds {unseen.tolist()[0]!r}, a class that y does not have."
                )
            valid_target = _columns(valid_labels, classes)
        valid = self._valid_rows(X_valid, valid_target, table.shape[1])
        self._learn(X, _columns(labels, classes), valid, sample_weight, LogLoss())
        self.classes_ = classes
        return self

    def _groups(self, target: FloatArray) -> list[Any]:
        """The rows of every class: none of them may be held out altogether."""
        _, group = np.unique(target, axis=0, return_inverse=True)
        return [np.flatnonzero(group.ravel() == k) for k in range(int(group.max()) + 1)]

    @by_block("X")
    def decision_function(self, X: Any) -> FloatArray:
        """The log-odds: of the second class, or of every class against all others.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_vars)
            0 and 1.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_classes)
        """
        output = self._output(X)
        return output[:, 0] if len(self.classes_) == 2 else output

    @by_block("X")
    def predict_proba(self, X: Any) -> FloatArray:
        """The probability of every class; with more than two, scaled to add up to one.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_vars)
            0 and 1.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
        """
        output = self._output(X)
        if len(self.classes_) == 2:
            return np.hstack([expit(-output), expit(output)])
        # Logs, so that a row that no class wants does not end in 0 / 0.
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
        """The most probable class for complete rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_vars)
            0 and 1.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        output = self._output(X)
        place = (output[:, 0] > 0).astype(int) if len(self.classes_) == 2 else output.argmax(axis=1)
        return np.asarray(self.classes_[place])


def _as_labels(y: Any) -> AnyArray:
    """One class per row."""
    if y is None:  # in scikit-learn's words, which its estimator checks look for
        raise ValueError(
            "This LogisticCircuit estimator requires y to be passed, but the target y is None."
        )
    labels = column_or_1d(y, warn=True)
    if np.asarray(labels).dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    return np.asarray(labels)


def _columns(labels: AnyArray, classes: AnyArray) -> FloatArray:
    """One 0/1 column for two classes, one for each class of more."""
    wanted = classes[1:] if len(classes) == 2 else classes
    return (labels[:, np.newaxis] == wanted).astype(np.float64)
