"""A regressor that takes any gaps: the exact conditional distribution of a number.

In:  a table, with gaps or without, and a number for every row.
Out: the mean, quantiles and intervals of the number, given what is known of other rows.

It learns one distribution of all columns and the target together, and conditions on what a row
knows; unknown inputs are summed out. A model in cells knows no slope, so ridge regressions on the
row as the model completes it correct what the model expects, as in `StrudelImputer`; how far they
are off in rows that they did not know says how wide intervals are.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from strudel._estimator import Regressor, clone
from strudel._numba import use_threads
from strudel._types import AnyArray, FloatArray
from strudel.data.argument_checks import seed_from
from strudel.learning.fill_in import (
    FillRegressions,
    TargetErrors,
    cell_variances,
    learn_fill_regressions,
)
from strudel.learning.options import EM
from strudel.models.base import as_target, target_name
from strudel.models.strudel import Strudel, StrudelOptions
from strudel.queries.cells import cell_probabilities
from strudel.queries.column_posterior import check_shares
from strudel.tables.column import Column
from strudel.tables.columns import RawColumn, RawTable, read_columns
from strudel.tables.encoder import dense, evidence_like, text_names
from strudel.tables.evidence import nothing_known

ROWS_PER_COMPONENT = 50
MOST_COMPONENTS = 40


@dataclass(eq=False, repr=False)
class StrudelRegressor(StrudelOptions, Regressor):
    """Predicts a number from a table with any gaps: exact means, quantiles and intervals.

    Parameters
    ----------
    estimator : Strudel, optional
        What learns the joint distribution of inputs and target, not fitted; a mixture whose size
        grows with the rows by default.
    n_components, preset, method, search, init, vtree, max_splits, max_components, max_seconds
        Options of `Strudel`; those that are given replace those of the estimator.
    patience, pseudocount, smoothing, validation_fraction, constraint, columns, device
        The same.
    random_state, n_jobs, verbose
        The same.

    Attributes
    ----------
    circuit_ : Circuit
        The joint distribution of the inputs and the target, which is the last column. Every query
        is answered by it, without the regressions.
    regressions_ : FillRegressions or None
        What corrects the mean of the target, and how far it is off; None for few rows or very many
        columns, where predictions are those of the model.
    target_name_ : str
        The name of the target's column: its own, or "y".
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from strudel import StrudelRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((400, 2))
    >>> model = StrudelRegressor(random_state=0).fit(X, 10 * X[:, 0])
    >>> low, high = model.predict([[0.1, 0.5], [0.9, np.nan]])
    >>> bool(0 < low < 3), bool(7 < high < 10)
    (True, True)
    """

    estimator: Any = None

    def fit(self, X: Any, y: Any, *, sample_weight: Any = None) -> StrudelRegressor:
        """Learn how inputs and target are distributed together.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_columns)
            Numbers, text, dates; NaN or None where a value is unknown.
        y : array-like of shape (n_rows,)
            Numbers, all known.
        sample_weight : array-like of shape (n_rows,), optional
            How often each row counts.
        """
        text_names(X)  # refuses what are no names, before anything is learned
        table = read_columns(dense(X))
        target = _numbers(as_target(y, self))
        if len(target) != table.n_rows:
            raise ValueError(f"X has {table.n_rows} rows, but y has {len(target)}.")
        dtype = "integer" if target.dtype.kind in "iu" else "float"
        column = RawColumn(target_name(y, "y"), dtype, target.astype(np.float64))
        seed = seed_from(self.random_state)
        learner = clone(self.estimator) if self.estimator is not None else self._default(table)
        learner.set_params(**self.given_options() | {"random_state": seed, "n_jobs": self.n_jobs})
        whole = self._learn_with(learner, X, table, column, "number", sample_weight)
        self.regressions_ = self._learn_regressions(whole, sample_weight, seed)
        return self

    def _learn_regressions(
        self, table: RawTable, sample_weight: Any, seed: int
    ) -> FillRegressions | None:
        """What corrects the model, from known values that are hidden."""
        target, rng = len(self.circuit_.columns) - 1, np.random.default_rng(seed)
        with use_threads(self.n_jobs):
            found = learn_fill_regressions(self.circuit_, table, sample_weight, rng, target)
        return None if found is None or found.errors is None else found

    def _default(self, table: RawTable) -> Strudel:
        if self.preset is not None or self.n_components != "auto":
            return Strudel()
        size = int(np.clip(table.n_rows // ROWS_PER_COMPONENT, 2, MOST_COMPONENTS))
        share = 0.05 if size > 2 else None
        return Strudel(size, method=EM(n_runs=4), max_splits=0, validation_fraction=share)

    def _predicted(self, X: Any) -> _Predicted:
        """What the model and the regressions say about the target of each row."""
        circuit = self._fitted()
        columns, last = circuit.columns, len(circuit.columns) - 1
        evidence = evidence_like(self, columns.some(slice(last)), X).among(columns)
        asked = [last] if self.regressions_ is None else range(last + 1)
        with use_threads(self.n_jobs):
            log_p, shares = cell_probabilities(circuit, evidence, asked)
            if np.any(log_p == -np.inf):  # impossible under the model: as if nothing were known
                _, prior = cell_probabilities(circuit, nothing_known(columns), asked)
                shares = [
                    np.where(np.isnan(share), one, share)
                    for share, one in zip(shares, prior, strict=True)
                ]
        target, chances = columns[last], shares[-1]
        if self.regressions_ is None:
            return _Predicted(target, chances, np.einsum("rv,v->r", chances, target.cell_means))
        filled = self.regressions_.fill(evidence, shares)
        return _Predicted(target, chances, filled[-1], self.regressions_.errors)

    def predict(self, X: Any) -> FloatArray:
        """The mean of the target given what is known of every row.

        That of the model, as `expectation` gives it, corrected by the regressions.
        """
        return self._predicted(X).mean

    def predict_quantile(self, X: Any, q: Any = 0.5) -> FloatArray:
        """Quantiles of the target given each row: `(n_rows,)`, or `(n_rows, n_q)` for several.

        They lie as far from the mean as those of errors in rows that were left out, wider where the
        model finds the target less certain, and within the range at fit.
        """
        found = self._predicted(X).quantiles(check_shares(q))
        return found if np.ndim(q) else found[:, 0]

    def predict_interval(self, X: Any, share: float = 0.9) -> FloatArray:
        """Two ends, `(n_rows, 2)`, between which the target lies with about this probability."""
        rest = (1.0 - share) / 2.0
        return self.predict_quantile(X, [rest, 1.0 - rest])

    def predict_variance(self, X: Any) -> FloatArray:
        """The variance of the target given what is known of every row."""
        return self._predicted(X).variance


@dataclass(frozen=True, eq=False)
class _Predicted:
    """What is known of the target of each row."""

    target: Column
    chances: FloatArray  # (n_rows, n_cells) how probable the cells are under the model
    mean: FloatArray  # (n_rows,)
    errors: TargetErrors | None = None  # None: the distribution is that of the model

    @property
    def variance(self) -> FloatArray:
        of_model = cell_variances(self.target, self.chances)
        return of_model if self.errors is None else self.errors.variances(of_model)

    def quantiles(self, q: FloatArray) -> FloatArray:
        if self.errors is None or self.target.density is None:
            return self.target.cells.quantiles(self.chances, q)
        away = self.errors.away(cell_variances(self.target, self.chances), q)
        return np.clip(self.mean[:, np.newaxis] + away, *self.target.density.seen)


def _numbers(target: AnyArray) -> AnyArray:
    """The targets as numbers; refuses text, and dates, which would become nanoseconds."""
    from sklearn.utils.validation import assert_all_finite

    kind = target.dtype.kind
    numbers = target if kind in "biuf" else None
    if kind not in "biufmM":
        with suppress(ValueError, TypeError):
            numbers = target.astype(np.float64)
    if numbers is None:
        raise ValueError(
            f"y must hold numbers, but holds {'dates' if kind in 'mM' else 'text'} or other "
            "values. StrudelClassifier predicts classes."
        )
    assert_all_finite(numbers, input_name="y")
    return numbers
