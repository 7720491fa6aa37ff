"""What all estimators share: input checks and the queries as methods, each one line."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from strudel._types import ByteArray, FloatArray
from strudel.data.validation import check_binary
from strudel.queries.likelihood import log_likelihood
from strudel.queries.marginal import log_conditional, log_marginal
from strudel.queries.most_probable import most_probable_state
from strudel.queries.sampling import sample, sample_conditional


def check_rows(estimator: Any, X: Any, *, reset: bool) -> ByteArray:
    """A clean 0/1 matrix; keeps (or compares) the number and names of the features."""
    X = X if hasattr(X, "shape") or hasattr(X, "__dataframe__") else np.asarray(X)
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    n_vars = None if reset else estimator.n_features_in_
    table, _ = check_binary(X, n_vars=n_vars)
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

    def most_probable_state(self, given: Any = None, k: int = 1) -> tuple[ByteArray, FloatArray]:
        """The k most probable completions, and their joint log-probabilities with what is given."""
        return most_probable_state(self._fitted(), given, k)

    def sample(self, n: int = 1, rng: Any = None) -> ByteArray:
        """Draw rows from the model."""
        return sample(self._fitted(), n, rng)

    def sample_conditional(self, given: Any, n: int = 1, rng: Any = None) -> ByteArray:
        """Draw completions of partly observed rows."""
        return sample_conditional(self._fitted(), given, n, rng)

    def _fitted(self) -> Any:
        check_is_fitted(self)
        return self.circuit_
