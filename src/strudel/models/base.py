"""What estimators share: checks of rows and targets, scores, and the queries as methods."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from copy import copy
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import assert_all_finite, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from strudel import algebra, explorer, predictions, queries
from strudel._display import plotting
from strudel._numba import use_threads
from strudel._types import AnyArray, ByteArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.data.lazy import is_lazy
from strudel.data.validation import check_binary
from strudel.errors import MisfitWarning, outer_stack_level
from strudel.learning.fit import Fitted
from strudel.learning.options import METHODS, SEARCHES, named_options
from strudel.learning.prepared_rows import FitInput, LogLikelihoods, Prepared
from strudel.queries.given import circuit_of
from strudel.queries.pair_check import Check, check_cells, most_rows
from strudel.tables.columns import is_missing
from strudel.tables.encoder import TableEncoder, names_to_match, text_names
from strudel.tables.missingness import MissingRule

P = ParamSpec("P")
R = TypeVar("R")


class NotebookSummary:
    """Adds sizes, a drawing and the learning curve to what scikit-learn shows for an estimator."""

    def _repr_html_inner(self) -> str:
        return super()._repr_html_inner() + self._summary()  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:  # what scikit-learn is set to show
            bundle["text/html"] += self._summary()
        return bundle

    def _summary(self) -> str:
        return str(plotting("notebook").summary_of(self))


def check_rows(estimator: Any, X: Any, *, reset: bool, name: str = "X") -> ByteArray:
    """A clean 0/1 matrix; keeps (or compares) the number and names of the features."""
    # The cells come first, so that a table that is refused leaves a fitted model as it was.
    table, _ = check_binary(X, n_vars=None, name=name)
    _check_features(estimator, X, table, reset)
    return table


def _check_features(estimator: Any, X: Any, table: Any, reset: bool) -> None:
    features = X if hasattr(X, "columns") else table
    validate_data(estimator, features, reset=reset, skip_check_array=True)


def as_method(query: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A query as a method of a fitted model, with its arguments and the first line about it."""

    @wraps(query)
    def ask(self: Any, /, *args: P.args, **options: P.kwargs) -> R:
        return query(self._fitted(), *args, **options)

    ask.__doc__ = (query.__doc__ or "").partition("\n")[0]
    return ask


class QueryMethods:
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
        if rows is not None:
            return queries.check(self._fitted(), rows, sample_weight=sample_weight)
        self._fitted()
        if getattr(self, "check_", None) is None:
            raise ValueError(
                "This model has no check of the rows that it was learned from: give rows to "
                "compare with."
            )
        found: Check = self.check_  # type: ignore[attr-defined]
        return found

    @property
    def missing_(self) -> list[MissingRule]:
        """On which columns it depends whether values are missing."""
        check_is_fitted(self, "circuit_")
        return list(self.circuit_.columns.missingness.rules)

    def _fitted(self) -> Any:
        check_is_fitted(self)
        return circuit_of(self)


class DensityEstimator(NotebookSummary, QueryMethods, DensityMixin, BaseEstimator):  # type: ignore[misc]
    """A model of the joint distribution of columns."""

    validation_fraction: float | None
    random_state: Any
    constraint: Any
    columns: Any
    n_jobs: int | None

    def set_params(self, **params: Any) -> Self:
        """Set options; ``search__copies`` also works if `search` is a name.

        Parameters
        ----------
        **params : dict
            Options by name; those of a search or method after two underscores.
        """
        for option, kinds in (("search", SEARCHES), ("method", METHODS)):
            value = params.get(option, getattr(self, option, None))
            is_name = isinstance(value, str) and value in kinds
            if is_name and any(key.startswith(f"{option}__") for key in params):
                params[option] = named_options(option, value, kinds)
        return super().set_params(**params)

    def _fit_input(
        self, X: Any, y: Any, X_valid: Any, sample_weight: Any, last: Circuit | None
    ) -> FitInput:
        """What `fit` was given, after the checks that scikit-learn makes."""
        if not is_lazy(X):
            text_names(X)  # refuses what are no names
        if not (is_lazy(X) or is_lazy(X_valid)):
            _check_same_features(X, X_valid)
        return FitInput(
            X,
            y,
            X_valid,
            sample_weight,
            self,
            check_random_state(self.random_state),
            last,
            check_features=lambda X, table: _check_features(self, X, table, reset=False),
        )

    def _keep(self, fitted: Fitted) -> Self:
        """Keep what was learned, and what all fits know of their rows."""
        rows = fitted.rows
        validate_data(self, rows.features, reset=True, skip_check_array=True)
        keep_columns(self, rows.encoder)
        self.circuit_ = fitted.circuit
        self.history_: Any = fitted.history
        self.chosen_ = fitted.chosen
        self.trials_ = fitted.trials
        self.data_ = rows.data
        (train, valid), (more, more_valid) = fitted.log_likelihoods, rows.log_density
        self.log_likelihoods_ = LogLikelihoods(train + more, valid + more_valid)
        self.held_out_rows_ = rows.held_out
        return self

    def _check_fit(self, rows: Prepared) -> Self:
        """Compare the model with the rows that it was learned from, and warn of what it lost."""
        assert rows.table is not None
        some = rows.table.some(most_rows(len(rows.table.columns)))
        with use_threads(self.n_jobs):
            self.check_: Check = check_cells(self.circuit_, *some)
        sentences = self.check_.sentences()
        if sentences:
            more = f", and {len(sentences) - 1} more pairs are lost" if len(sentences) > 1 else ""
            said = sentences[0][0].upper() + sentences[0][1:]
            warnings.warn(
                MisfitWarning(f"{said}{more}.", "See model.check_."), stacklevel=outer_stack_level()
            )
        return self

    def score_samples(self, X: Any) -> FloatArray:
        """Log-likelihood of the known values of every row; unknown ones (NaN) are summed out."""
        circuit = self._fitted()
        if circuit.columns.are_bits and not is_lazy(X):
            names_to_match(self, X)  # warns if only one of them has names
        return queries.observed_log_likelihood(circuit, X)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood of the rows, in nats; for lazy rows, block by block."""
        log_p = self.score_samples(X)
        mean = log_p.mean()
        return float(mean.compute() if is_lazy(mean) else mean)

    def from_torch(self, module: Any) -> Self:
        """A copy with the parameters of a module that `to_torch` made of this model.

        Its `log_likelihoods_` are NaN, and it has no `check_`: they were those of the learned
        parameters.
        """
        found = copy(self)
        found.circuit_ = self._fitted().from_torch(module)
        found.log_likelihoods_ = LogLikelihoods(math.nan, math.nan)
        if hasattr(found, "check_"):
            del found.check_
        return found


def _check_same_features(X: Any, X_valid: Any) -> None:
    """Refuse frames whose columns have other names, before a model remembers any."""
    if hasattr(X, "columns") and hasattr(X_valid, "columns"):
        probe = BaseEstimator()
        validate_data(probe, X, reset=True, skip_check_array=True)
        validate_data(probe, X_valid, reset=False, skip_check_array=True)


def keep_columns(estimator: Any, encoder: TableEncoder | None) -> None:
    """Remember the columns of the table that an encoder was fitted on as features."""
    if encoder is None:
        return
    estimator.n_features_in_ = encoder.n_features_in_
    if hasattr(encoder, "feature_names_in_"):
        estimator.feature_names_in_ = encoder.feature_names_in_
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def as_target(y: Any, estimator: Any) -> AnyArray:
    """One value per row."""
    if y is None:  # in scikit-learn's words, which its estimator checks look for
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y "
            "is None."
        )
    return np.asarray(column_or_1d(y, warn=True))


def as_labels(y: Any, estimator: Any) -> AnyArray:
    """One known class per row."""
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
