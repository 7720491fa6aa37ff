"""What all estimators share: input checks, held-out rows, scores, and the queries as methods."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _get_feature_names, check_is_fitted, validate_data

from strudel._numba import use_threads
from strudel._types import ByteArray, FloatArray
from strudel.algebra.event_probability import probability
from strudel.circuits.circuit import Circuit
from strudel.data.bits import BitMatrix, pack_columns
from strudel.data.lazy import is_lazy
from strudel.data.validation import (
    check_binary,
    check_evidence,
    check_partial,
    check_sample_weight,
)
from strudel.learning.constraint import check_satisfied, constraint_circuit, restrict
from strudel.learning.incomplete.checked_rows import Incomplete, as_codes, has_unknown
from strudel.learning.journal import Journal
from strudel.learning.partitioned.engines import lazy_mean
from strudel.learning.resume import digest_of_rows, open_journal
from strudel.learning.search.learn_structure import first_circuit
from strudel.learning.searches import SearchOptions
from strudel.models.encoding import encoder_for, keep_encoder, raise_with_advice
from strudel.models.notebook import NotebookSummary
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
from strudel.queries.model import Model, model_of
from strudel.queries.passes import UNKNOWN
from strudel.queries.probabilities import log_probabilities
from strudel.queries.sampling import sample, sample_conditional
from strudel.queries.variable_probabilities import (
    covariance,
    marginal_probabilities,
    pair_probabilities,
)
from strudel.tables.coded_rows import CodedNames, coded_table
from strudel.tables.input_table import n_rows_of, take_rows
from strudel.tables.table_code import TableCode


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

    def sample(self, n: int = 1, rng: Any = None) -> ByteArray:
        """Draw rows from the model."""
        return sample(self._fitted(), n, rng)

    def sample_conditional(self, given: Any, n: int = 1, rng: Any = None) -> ByteArray:
        """Draw completions of partly observed rows."""
        return sample_conditional(self._fitted(), given, n, rng)

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

    def same_decision_probability(self, decision: Any, X: Any = None, **options: Any) -> Any:
        """Probability that a decision stays the same once hidden variables are known."""
        return same_decision_probability(self._fitted(), decision, X, **options)

    def expected_same_decision_probability(
        self, decision: Any, X: Any = None, **options: Any
    ) -> Any:
        """The same on average after some variables have been observed."""
        return expected_same_decision_probability(self._fitted(), decision, X, **options)

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


CONTINUED = {
    "must": "have a way through the circuit of the last fit, from which warm_start continues",
    "advice": "Leave such rows out, or start anew with warm_start=False.",
}


class LearningRows(NamedTuple):
    """Rows to learn from, and rows that decide when to stop."""

    train: BitMatrix
    valid: BitMatrix | None
    rng: np.random.Generator
    start: Circuit | None  # where a constraint or an earlier fit makes the search start
    search: SearchOptions  # which knows the codes of the columns, if they are to be respected
    incomplete: Incomplete | None  # the rows themselves, if values are unknown
    journal: Journal  # what was done so far, perhaps by an earlier process
    keep: Callable[[], None]  # makes their columns the estimator's, once it has learned


def check_fraction(fraction: Any) -> None:
    """Refuse a share of rows that cannot be held out."""
    is_share = isinstance(fraction, int | float | np.number) and 0.0 < fraction < 1.0
    if fraction is not None and not is_share:
        raise ValueError(
            f"validation_fraction must be between 0 and 1, or None, but is {fraction!r}."
        )


class DensityEstimator(NotebookSummary, QueryMethods, DensityMixin, BaseEstimator):  # type: ignore[misc]
    """A model of the joint distribution of 0/1 columns."""

    validation_fraction: float | None
    random_state: Any
    constraint: Any
    encoder: Any
    n_jobs: int | None

    def _learning_rows(
        self,
        X: Any,
        X_valid: Any,
        sample_weight: Any,
        search: SearchOptions,
        start: Circuit | None = None,
        is_restricted: bool = False,
        checkpoint: Any = None,
        y: Any = None,
    ) -> LearningRows:
        """Check everything, then hold out validation rows if there are none.

        `start` is the circuit of an earlier fit to continue from; `is_restricted` says that all its
        rows satisfy the constraint. `checkpoint` is one, or the journal of one.
        """
        check_fraction(self.validation_fraction)
        # Nothing is kept before all is learned: what is refused leaves a fitted model alone.
        _get_feature_names(X)  # refuses names of several types
        if self.encoder is not None and sample_weight is not None:
            X, y, sample_weight = _rows_that_count(X, y, sample_weight)
        encoder = encoder_for(self, X, y, start)
        if encoder is not None:
            X = encoder.code_.encode(X)
            X_valid = None if X_valid is None else encoder.code_.encode(X_valid, "X_valid")
            start = None if start is None else start.with_table_code(None)
            if encoder.respect_one_hot:
                search = replace(search, columns=encoder.code_.columns)
        try:
            table, names = as_codes(*check_partial(X))
        except ValueError as error:
            raise_with_advice(error)
        names = names if encoder is None else CodedNames(encoder.code_)
        if start is not None and encoder is None:  # the same columns as before
            _check_features(self, X, table, reset=False)
        valid = valid_weight = None
        if X_valid is not None:
            valid, _ = as_codes(*check_partial(X_valid, n_vars=table.shape[1], name="X_valid"))
            _check_same_features(X, X_valid)
            if start is not None and encoder is None:
                _check_features(self, X_valid, valid, reset=False)
        weight = None if sample_weight is None else check_sample_weight(sample_weight, len(table))
        random_state = check_random_state(self.random_state)
        train = table
        if valid is None:
            train, valid, weight, valid_weight = self._hold_out(table, weight, random_state)
        rng = np.random.default_rng(random_state.randint(2**31))
        tables = {"X": table}
        if X_valid is not None:
            assert valid is not None
            tables["X_valid"] = valid
        is_new = start is None
        if start is not None:
            for name, rows in tables.items():
                check_satisfied(start, rows, names, name, **CONTINUED)
        incomplete = None
        if has_unknown(table, valid):
            can_drop = start is None and self.constraint is None and isinstance(search.vtree, str)
            can_drop = can_drop and search.columns is None  # else half of a column might be left
            incomplete = Incomplete.of(train, weight, valid, valid_weight, names, can_drop)
            with use_threads(self.n_jobs):
                train_bits, valid_bits = incomplete.completed(start, rng, search.columns)
        else:
            train_bits = _pack_rows_that_count(train, weight)
            valid_bits = None if valid is None else _pack_rows_that_count(valid, valid_weight)
        if self.constraint is not None and not is_restricted:
            start = start or first_circuit(train_bits, search, rng)
            allowed = constraint_circuit(self.constraint, start.vtree, names)
            for name, rows in tables.items():
                check_satisfied(allowed, rows, names, name)
            start = restrict(start, allowed)
        journal = open_journal(
            checkpoint, self, lambda: digest_of_rows(train_bits, valid_bits, start)
        )
        data = _describe(table)

        def keep() -> None:
            if is_new:
                _check_features(self, X, table, reset=True)
            keep_encoder(self, encoder)
            self.data_ = data

        return LearningRows(train_bits, valid_bits, rng, start, search, incomplete, journal, keep)

    def _end(self, checkpoint: Any) -> Self:
        """Itself, fitted: there is nothing left to continue."""
        if checkpoint is not None:
            checkpoint.remove()
        return self

    def _hold_out(
        self, X: ByteArray, weight: FloatArray | None, random_state: np.random.RandomState
    ) -> tuple[ByteArray, ByteArray | None, FloatArray | None, FloatArray | None]:
        """Training rows, validation rows, and the weights of both."""
        if self.validation_fraction is None:
            return X, None, weight, None
        if len(X) == 1:  # a single row can only be checked against itself
            return X, X, weight, weight
        n_valid = min(max(1, round(self.validation_fraction * len(X))), len(X) - 1)
        order = random_state.permutation(len(X))
        held, kept = np.sort(order[:n_valid]), np.sort(order[n_valid:])
        if weight is None:
            return X[kept], X[held], None, None
        if not (weight[kept].sum() > 0 and weight[held].sum() > 0):
            # All the weight is on one side: there are no other rows to check against.
            return X, X, weight, weight
        return X[kept], X[held], weight[kept], weight[held]

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
            return _score_table(model, model.table_code, X)
        table, _ = check_partial(X)
        _check_features(self, X, table, reset=False)
        return (log_likelihood if table.dtype == np.uint8 else log_marginal)(model, table)

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


def _score_table(model: Model, code: TableCode, X: Any) -> FloatArray:
    """Log-likelihoods of rows in the columns of a table, missing values summed out."""
    rows = coded_table(X, code, "X", may_be_missing=True)
    if rows is None:  # they are the variables already
        rows = check_evidence(
            X, n_vars=model.n_vars, feature_names=tuple(model.feature_names or ())
        )
    if np.isnan(rows).any():
        return log_probabilities(model, rows, "score_samples")
    return rows_log_likelihood(model, rows.astype(np.uint8))


def _check_same_features(X: Any, X_valid: Any) -> None:
    """Refuse frames whose columns have other names, before a model remembers any."""
    if hasattr(X, "columns") and hasattr(X_valid, "columns"):
        probe = BaseEstimator()
        validate_data(probe, X, reset=True, skip_check_array=True)
        validate_data(probe, X_valid, reset=False, skip_check_array=True)


def _rows_that_count(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, FloatArray]:
    """A table without its rows of weight zero: an encoder is not to see them either."""
    weight = check_sample_weight(sample_weight, n_rows_of(X))
    if np.all(weight > 0.0):
        return X, y, weight
    rows = np.flatnonzero(weight > 0.0)
    return take_rows(X, rows), None if y is None else np.asarray(y)[rows], weight[rows]


def _pack_rows_that_count(X: ByteArray, weight: FloatArray | None) -> BitMatrix:
    """Leave out rows of weight zero: not even the order of the others may depend on them."""
    if weight is None or np.all(weight > 0.0):
        return pack_columns(X, weight)
    return pack_columns(X[weight > 0.0], weight[weight > 0.0])


def _describe(X: ByteArray) -> dict[str, Any]:
    """Shape and hash of the training table, for provenance."""
    n_unknown = int(np.count_nonzero(X == UNKNOWN))
    packed = X if n_unknown else np.packbits(X, axis=1)
    digest = hashlib.sha256(packed.tobytes()).hexdigest()
    facts = {"rows": X.shape[0], "columns": X.shape[1], "sha256": digest}
    return facts | {"unknown": n_unknown} if n_unknown else facts
