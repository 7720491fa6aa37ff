"""What all estimators share: input checks, held-out rows, scores, and the queries as methods."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _get_feature_names, check_is_fitted, validate_data

from strudel._display import plotting
from strudel._types import ByteArray, FloatArray
from strudel.algebra.event_probability import probability
from strudel.circuits.circuit import Circuit
from strudel.data.lazy import is_lazy
from strudel.data.validation import (
    check_binary,
    check_evidence,
    check_partial,
)
from strudel.learning.mixture_methods import METHODS
from strudel.learning.options import named_options
from strudel.learning.partitioned.engines import lazy_mean
from strudel.learning.prepared_rows import FitInput, LogLikelihoods, Prepared
from strudel.learning.search_options import SEARCHES
from strudel.predictions.agreement import classifier_agreement
from strudel.predictions.expected import Estimate, expected_prediction, prediction_variance
from strudel.predictions.explanation import (
    SufficientExplanation,
    sufficient_explanation,
)
from strudel.predictions.same_decision import (
    expected_same_decision_probability,
    same_decision_probability,
)
from strudel.predictions.shapley import ShapValues, shap_values
from strudel.queries.by_block import by_block
from strudel.queries.counting import count_distribution
from strudel.queries.information import entropy, mutual_information
from strudel.queries.likelihood import log_likelihood, rows_log_likelihood
from strudel.queries.marginal import log_conditional, log_marginal
from strudel.queries.maximum.marginal_map import MarginalMap, marginal_map
from strudel.queries.maximum.most_probable import most_probable_state
from strudel.queries.model import model_of
from strudel.queries.sampling import sample
from strudel.queries.variable_probabilities import (
    covariance,
    marginal_probabilities,
    pair_probabilities,
)
from strudel.tables.coded_rows import CodedNames, coded_table
from strudel.tables.encoder import TableEncoder


class NotebookSummary:
    """Adds sizes, a drawing and the learning curve to what scikit-learn shows of an estimator."""

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


class QueryMethods:
    """The queries of `strudel.queries` as methods of a fitted model."""

    def log_likelihood(self, X: Any) -> FloatArray:
        """Log-likelihood of fully observed rows."""
        return log_likelihood(self._fitted(), X)

    def log_marginal(self, X: Any) -> FloatArray:
        """Log-probability of partly observed rows, unknown values summed out."""
        return log_marginal(self._fitted(), X)

    def log_conditional(self, X: Any, given: Any) -> FloatArray:
        """Log-probability of partly observed rows, given others."""
        return log_conditional(self._fitted(), X, given)

    def marginal_probabilities(self, given: Any = None) -> Any:
        """Probability of every variable to be 1."""
        return marginal_probabilities(self._fitted(), given)

    def pair_probabilities(self, given: Any = None) -> FloatArray:
        """Probability of every two variables to be 1 together."""
        return pair_probabilities(self._fitted(), given)

    def covariance(self, given: Any = None) -> FloatArray:
        """Covariance of every two variables."""
        return covariance(self._fitted(), given)

    def most_probable_state(
        self, given: Any = None, k: int = 1, **limits: Any
    ) -> tuple[ByteArray, FloatArray]:
        """The k most probable completions, and their joint log-probabilities with what is given."""
        return most_probable_state(self._fitted(), given, k, **limits)

    def marginal_map(self, query: Any, given: Any = None, **limits: Any) -> MarginalMap:
        """The most probable state of some variables, with the rest summed out."""
        return marginal_map(self._fitted(), query, given, **limits)

    def sample(self, n_samples: int = 1, given: Any = None, random_state: Any = None) -> ByteArray:
        """Draw rows from the model, or completions of what is given."""
        return sample(self._fitted(), n_samples, given, random_state)

    def entropy(self, given: Any = None, **options: Any) -> float | FloatArray:
        """Entropy of all variables, in nats."""
        return entropy(self._fitted(), given, **options)

    def mutual_information(
        self, a: Any, b: Any, given: Any = None, **options: Any
    ) -> float | FloatArray:
        """How much two sets of variables tell about each other, in nats."""
        return mutual_information(self._fitted(), a, b, given, **options)

    def count_distribution(self, variables: Any = None, given: Any = None) -> FloatArray:
        """Probability that exactly j of some variables are 1, for every j."""
        return count_distribution(self._fitted(), variables, given)

    def probability(self, event: Any, given: Any = None, **options: Any) -> float | FloatArray:
        """Probability of a logical event."""
        return probability(self._fitted(), event, given, **options)

    def expected_prediction(
        self, predictor: Any, X: Any, moment: int = 1, **options: Any
    ) -> float | FloatArray | Estimate:
        """Expectation of a prediction for partly observed rows, or of a power of it."""
        return expected_prediction(self._fitted(), predictor, X, moment, **options)

    def prediction_variance(self, predictor: Any, X: Any, **options: Any) -> float | FloatArray:
        """Variance of a prediction for partly observed rows."""
        return prediction_variance(self._fitted(), predictor, X, **options)

    def same_decision_probability(self, decision: Any, given: Any = None, **options: Any) -> Any:
        """Probability that a decision stays the same once hidden variables are known."""
        return same_decision_probability(self._fitted(), decision, given, **options)

    def expected_same_decision_probability(
        self, decision: Any, given: Any = None, **options: Any
    ) -> Any:
        """The same on average after some variables have been observed."""
        return expected_same_decision_probability(self._fitted(), decision, given, **options)

    def classifier_agreement(self, f: Any, g: Any, given: Any = None, **options: Any) -> Any:
        """Probability that two classifiers decide alike."""
        return classifier_agreement(self._fitted(), f, g, given, **options)

    def sufficient_explanation(
        self, predictor: Any, row: Any, delta: float = 0.9, **options: Any
    ) -> SufficientExplanation:
        """The smallest set of a row's values that is enough for its decision."""
        return sufficient_explanation(self._fitted(), predictor, row, delta, **options)

    def shap_values(self, predictor: Any, X: Any, **options: Any) -> ShapValues:
        """How much each known value of a row moves the expected output of a predictor."""
        return shap_values(self._fitted(), predictor, X, **options)

    def _fitted(self) -> Any:
        check_is_fitted(self)
        return model_of(self)


class DensityEstimator(NotebookSummary, QueryMethods, DensityMixin, BaseEstimator):  # type: ignore[misc]
    """A model of the joint distribution of 0/1 columns."""

    validation_fraction: float | None
    random_state: Any
    constraint: Any
    encoder: Any
    n_jobs: int | None

    def set_params(self, **params: Any) -> Self:
        """Set options; ``search__copies`` also where `search` is a name that stands for an object.

        Parameters
        ----------
        **params : dict
            Options by name, those of a search or method behind two underscores.
        """
        for option, kinds in (("search", SEARCHES), ("method", METHODS)):
            value = params.get(option, getattr(self, option, None))
            is_name = isinstance(value, str) and value in kinds
            if is_name and any(key.startswith(f"{option}__") for key in params):
                params[option] = named_options(option, value, kinds)
        return super().set_params(**params)

    def _fit_input(
        self,
        X: Any,
        y: Any,
        X_valid: Any,
        sample_weight: Any,
        checkpoint: Any,
        last: Circuit | None = None,
        is_restricted: bool = False,
    ) -> FitInput:
        """What `fit` was given, after the checks that scikit-learn makes."""
        if not is_lazy(X):
            _get_feature_names(X)  # refuses names of several types
            _check_same_features(X, X_valid)
        return FitInput(
            X,
            y,
            X_valid,
            sample_weight,
            checkpoint,
            self,
            check_random_state(self.random_state),
            last,
            is_restricted,
            lambda X, table: _check_features(self, X, table, reset=False),
        )

    def _keep(self, rows: Prepared, log_likelihoods: LogLikelihoods, checkpoint: Any) -> Self:
        """Keep what all fits know of their rows; there is nothing left to continue."""
        validate_data(self, rows.features, reset=True, skip_check_array=True)
        keep_encoder(self, rows.encoder)
        self.data_ = rows.data
        self.log_likelihoods_ = log_likelihoods
        self.held_out_rows_ = rows.held_out
        if checkpoint is not None:
            checkpoint.remove()
        return self

    def _feature_names(self) -> tuple[str, ...] | None:
        if hasattr(self, "encoder_"):
            return CodedNames(self.encoder_.code_)
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(names)

    @by_block("X")
    def score_samples(self, X: Any) -> FloatArray:
        """Log-likelihood of every row; where values are unknown (NaN), of those that are known."""
        model = self._fitted()
        if model.table_code is not None:
            rows = coded_table(X, model.table_code, "X", may_be_missing=True)
            if rows is None:  # they are the variables already
                names = tuple(model.feature_names or ())
                rows = check_evidence(X, n_vars=model.n_vars, feature_names=names)
            return rows_log_likelihood(model, rows)
        table, _ = check_partial(X)
        _check_features(self, X, table, reset=False)
        return rows_log_likelihood(model, table)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood of the rows, in nats; of lazy rows, block by block."""
        log_p = self.score_samples(X)
        return lazy_mean(log_p) if is_lazy(log_p) else float(log_p.mean())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        has_encoder = self.encoder is not None
        tags.input_tags.sparse = not has_encoder
        tags.input_tags.string = tags.input_tags.categorical = has_encoder
        tags.input_tags.allow_nan = True
        return tags


def _check_same_features(X: Any, X_valid: Any) -> None:
    """Refuse frames whose columns have other names, before a model remembers any."""
    if hasattr(X, "columns") and hasattr(X_valid, "columns"):
        probe = BaseEstimator()
        validate_data(probe, X, reset=True, skip_check_array=True)
        validate_data(probe, X_valid, reset=False, skip_check_array=True)


def keep_encoder(estimator: Any, encoder: TableEncoder | None) -> None:
    """Remember the encoder, and the table's columns as features."""
    if encoder is None:
        if hasattr(estimator, "encoder_"):
            del estimator.encoder_
        return
    estimator.encoder_ = encoder
    estimator.n_features_in_ = encoder.n_features_in_
    if hasattr(encoder, "feature_names_in_"):
        estimator.feature_names_in_ = encoder.feature_names_in_
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
