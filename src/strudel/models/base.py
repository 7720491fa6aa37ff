"""What estimators share: checks of rows and targets, scores, and the queries as methods."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from strudel import algebra, explorer, predictions, queries
from strudel._estimator import Estimator
from strudel._types import AnyArray, ByteArray
from strudel.circuits.circuit import Circuit
from strudel.data.validation import check_binary
from strudel.queries.given import circuit_of
from strudel.queries.pair_check import Check
from strudel.tables.columns import is_missing
from strudel.tables.missingness import MissingRule

P = ParamSpec("P")
R = TypeVar("R")


def as_method(query: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A query as a method of a fitted model, with its arguments and the first line about it."""

    @wraps(query)
    def ask(self: Any, /, *args: P.args, **options: P.kwargs) -> R:
        return query(self._fitted(), *args, **options)

    ask.__doc__ = (query.__doc__ or "").partition("\n")[0]
    return ask


class QueryMethods(Estimator):
    """The queries as methods of a fitted model; `strudel.queries` and others describe them."""

    circuit_: Circuit

    log_likelihood = as_method(queries.log_likelihood)
    log_marginal = as_method(queries.log_marginal)
    log_conditional = as_method(queries.log_conditional)
    marginal_probabilities = as_method(queries.marginal_probabilities)
    pair_probabilities = as_method(queries.pair_probabilities)
    covariance = as_method(queries.covariance)
    posterior = as_method(queries.posterior)
    expectation = as_method(queries.expectation)
    variance = as_method(queries.variance)
    quantile = as_method(queries.quantile)
    cdf = as_method(queries.cdf)
    pdf = as_method(queries.pdf)
    most_probable_state = as_method(queries.most_probable_state)
    marginal_map = as_method(queries.marginal_map)
    sample = as_method(queries.sample)
    entropy = as_method(queries.entropy)
    mutual_information = as_method(queries.mutual_information)
    count_distribution = as_method(queries.count_distribution)
    responsibilities = as_method(queries.responsibilities)
    correlations = as_method(queries.correlations)
    surprise = as_method(queries.surprise)
    compare = as_method(queries.compare)
    probability = as_method(queries.probability)
    condition = as_method(algebra.condition)
    expected_prediction = as_method(predictions.expected_prediction)
    prediction_variance = as_method(predictions.prediction_variance)
    same_decision_probability = as_method(predictions.same_decision_probability)
    expected_same_decision_probability = as_method(predictions.expected_same_decision_probability)
    classifier_agreement = as_method(predictions.classifier_agreement)
    sufficient_explanation = as_method(predictions.sufficient_explanation)
    shap_values = as_method(predictions.shap_values)
    explore = as_method(explorer.explore)

    def check(self, rows: Any = None, *, sample_weight: Any = None) -> Check:
        """Where the model and rows disagree, for every pair of columns.

        Parameters
        ----------
        rows : array-like or frame, optional
            Rows to compare with; by default those that the model was learned from.
        sample_weight : array-like of shape (n_rows,), optional
            How often each row counts.
        """
        circuit = self._fitted()
        if rows is not None:
            return queries.check(circuit, rows, sample_weight=sample_weight)
        kept: Check | None = getattr(self, "check_", None)
        if kept is None:
            raise ValueError(
                "This model has no check of the rows that it was learned from: give rows to "
                "compare with."
            )
        return kept

    @property
    def missing_(self) -> list[MissingRule]:
        """On which columns it depends whether values are missing."""
        return list(self.circuit_.columns.missingness.rules)

    def _fitted(self) -> Circuit:
        return circuit_of(self)


def check_rows(estimator: Any, X: Any, *, reset: bool, name: str = "X") -> ByteArray:
    """A clean 0/1 matrix; keeps (or compares) the number and names of the features."""
    # The cells come first, so that a table that is refused leaves a fitted model as it was.
    table, _ = check_binary(X, n_vars=None, name=name)
    check_features(estimator, X, table, reset=reset)
    return table


def check_features(estimator: Any, X: Any, table: Any, *, reset: bool = False) -> None:
    """Compare the number and names of the features with those of `fit`, or keep them."""
    from sklearn.utils.validation import validate_data

    features = X if hasattr(X, "columns") else table
    validate_data(estimator, features, reset=reset, skip_check_array=True)


def target_name(y: Any, default: str) -> str:
    """The name of the target: that of its series or only column, if it has one."""
    columns = list(getattr(y, "columns", ()))
    name = columns[0] if len(columns) == 1 else getattr(y, "name", None)
    return name if isinstance(name, str) and name else default


def as_target(y: Any, estimator: Any) -> AnyArray:
    """One value per row."""
    if y is None:  # in scikit-learn's words, which its estimator checks look for
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y "
            "is None."
        )
    from sklearn.utils.validation import column_or_1d

    return np.asarray(column_or_1d(y, warn=True))


def as_labels(y: Any, estimator: Any) -> AnyArray:
    """One known class per row."""
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import assert_all_finite

    labels = as_target(y, estimator)
    # In a list, NaN beside text: NumPy would make it a text of its own.
    cells = y if isinstance(y, list | tuple) else labels.tolist()
    row = next((row for row, label in enumerate(cells) if is_missing(label)), None)
    if row is not None:  # "contains NaN" are scikit-learn's words
        raise ValueError(
            f"Input y contains NaN or None: the class is unknown at row {row}. A classifier learns "
            "from rows whose class is known: drop the others, as with X[y.notna()] in pandas."
        )
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    return labels
