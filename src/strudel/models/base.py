"""What all estimators share: input checks and the queries as methods, each one line."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted, validate_data

from strudel._types import ByteArray, FloatArray
from strudel.data.validation import check_binary
from strudel.queries.counting import count_distribution
from strudel.queries.information import entropy, mutual_information
from strudel.queries.likelihood import log_likelihood
from strudel.queries.marginal import log_conditional, log_marginal
from strudel.queries.marginal_map import MarginalMap, marginal_map
from strudel.queries.moments import covariance, marginal_probabilities, pair_probabilities
from strudel.queries.most_probable import most_probable_state
from strudel.queries.sampling import sample, sample_conditional


def check_rows(estimator: Any, X: Any, *, reset: bool, name: str = "X") -> ByteArray:
    """A clean 0/1 matrix; keeps (or compares) the number and names of the features."""
    # The cells come first, so that a table that is refused leaves a fitted model as it was.
    table, _ = check_binary(X, n_vars=None, name=name)
    features = X if hasattr(X, "columns") else table
    validate_data(estimator, features, reset=reset, skip_check_array=True)
    return table


class QueryMethods:
    """The queries of `strudel.queries` as methods of a fitted model."""

    circuit_: Any

    def log_likelihood(self, X: Any) -> FloatArray:
        """Log-likelihood of fully observed rows."""
        return log_likelihood(self._fitted(), X)

    def log_marginal(self, X: Any) -> FloatArray:
        """Log-probability of partly observed rows, unknown values summed out."""
        return log_marginal(self._fitted(), X)

    def log_conditional(self, X: Any, given: Any) -> FloatArray:
        """Log-probability of partly observed rows, given others."""
        return log_conditional(self._fitted(), X, given)

    def marginal_probabilities(self, given: Any = None) -> FloatArray:
        """Probability of every variable to be 1."""
        return marginal_probabilities(self._fitted(), given)

    def pair_probabilities(self, given: Any = None) -> FloatArray:
        """Probability of every two variables to be 1 together."""
        return pair_probabilities(self._fitted(), given)

    def covariance(self, given: Any = None) -> FloatArray:
        """Covariance of every two variables."""
        return covariance(self._fitted(), given)

    def most_probable_state(self, given: Any = None, k: int = 1) -> tuple[ByteArray, FloatArray]:
        """The k most probable completions, and their joint log-probabilities with what is given."""
        return most_probable_state(self._fitted(), given, k)

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

    def _fitted(self) -> Any:
        check_is_fitted(self)
        return self.circuit_
