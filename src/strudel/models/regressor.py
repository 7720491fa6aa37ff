"""A regressor that takes any gaps: the exact conditional distribution of a number.

In:  a table, with gaps or without, and a number for every row.
Out: the mean, quantiles and intervals of the number, given what is known of other rows.

It learns one distribution of all columns and the target together, and conditions on what a row
knows; unknown inputs are summed out.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import assert_all_finite, check_is_fitted

from strudel._names import quote
from strudel._types import AnyArray, FloatArray
from strudel.learning.mixture_methods import EM
from strudel.models.base import NotebookSummary, QueryMethods
from strudel.models.strudel import Strudel
from strudel.models.targets import as_target
from strudel.queries.columns.column_posterior import ColumnPosterior
from strudel.queries.columns.value_probabilities import value_probabilities
from strudel.queries.model import Model, model_of
from strudel.tables.coded_column import Column
from strudel.tables.columns import RawColumn, RawTable, read_columns
from strudel.tables.encoder import TableEncoder, new_encoder
from strudel.tables.input_table import dense, keep_features, text_names

ROWS_PER_COMPONENT = 25
MOST_COMPONENTS = 40
# Small tables have more cells than their density pays for, and fewer components: R2 on 400 rows of
# Boston is 0.78 and not 0.64, on diabetes 0.34 and not 0.29, on Caschool 0.76 and not 0.70.
FEW_ROWS, CELLS_OF_FEW, ROWS_PER_COMPONENT_OF_FEW = 1000, 16, 50


@dataclass(eq=False, repr=False)
class StrudelRegressor(NotebookSummary, QueryMethods, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Predicts a number from a table with any gaps: exact means, quantiles and intervals.

    Parameters
    ----------
    estimator : Strudel, optional
        What learns the joint distribution of inputs and target, not fitted; a mixture whose size
        grows with the rows by default.
    columns : dict, optional
        What a column is, where it cannot be seen, as in `Strudel`.
    random_state : int, RandomState or None
        For the fit.
    n_jobs : int or None
        Threads; all cores by default. The result does not depend on it.

    Attributes
    ----------
    circuit_ : Circuit or Mixture
        The joint distribution of the inputs and the target, which is the last column.
    encoder_ : TableEncoder
        The fitted encoder of inputs and target.
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
    _: KW_ONLY
    columns: Any = None
    random_state: Any = None
    n_jobs: int | None = None

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
        assert_all_finite(target, input_name="y")
        if len(target) != table.n_rows:
            raise ValueError(f"X has {table.n_rows} rows, but y has {len(target)}.")
        name = self._target_name(y, table)
        dtype = "integer" if target.dtype.kind in "iu" else "float"
        columns = (*table.columns, RawColumn(name, dtype, target.astype(np.float64)))
        encoder = new_encoder(self.columns)
        if not isinstance(self.columns, TableEncoder) and table.n_rows < FEW_ROWS:
            encoder.n_bins = CELLS_OF_FEW
        encoder.kinds = {name: "number"} | (encoder.kinds or {})
        seed = int(check_random_state(self.random_state).randint(2**31))
        learner = clone(self.estimator) if self.estimator is not None else self._default(table)
        learner.set_params(columns=encoder, random_state=seed, n_jobs=self.n_jobs)
        learner.fit(replace(table, columns=columns), sample_weight=sample_weight)
        keep_features(self, X, len(table.columns))
        self.target_name_ = name
        if len(learner.encoder_.code_.columns) == 1:
            raise ValueError(
                f"There is nothing to predict from: all columns of X, {quote(table.names)}, are to "
                "be ignored or look like identifiers."
            )
        self.encoder_: TableEncoder = learner.encoder_
        self.missing_ = learner.missing_
        self.circuit_: Model = model_of(learner)
        self.check_ = getattr(learner, "check_", None)
        return self

    def _default(self, table: RawTable) -> Strudel:
        if table.n_rows < FEW_ROWS:
            size = max(2, min(table.n_rows // ROWS_PER_COMPONENT_OF_FEW, 10))
            return Strudel(
                size,
                method=EM(n_runs=4),
                max_splits=0,
                validation_fraction=0.1 if size > 2 else None,
            )
        size = int(np.clip(table.n_rows // ROWS_PER_COMPONENT, 2, MOST_COMPONENTS))
        return Strudel(size, method=EM(n_runs=4), max_splits=0, validation_fraction=0.05)

    @staticmethod
    def _target_name(y: Any, table: RawTable) -> str:
        own = getattr(y, "name", None)
        name = own if isinstance(own, str) and own else "y"
        while name in table.names:
            name += "_"
        return name

    def _chances(self, X: Any) -> tuple[Column, FloatArray]:
        """The target's column, and how probable its cells are given each row."""
        check_is_fitted(self, "circuit_")
        code = self.circuit_.table_code
        assert code is not None
        *inputs, target = code.columns
        own = replace(code, columns=tuple(inputs)) if inputs else code
        columns = own.match(read_columns(dense(X)))
        rows = code.encode_columns([*columns, None])
        _, [chances] = value_probabilities(self.circuit_, [target], rows, "predict")
        prior = value_probabilities(
            self.circuit_, [target], np.full((1, code.n_vars), np.nan), "predict"
        )
        return target, np.where(np.isnan(chances), prior[1][0], chances)  # impossible: the prior

    def predict(self, X: Any) -> FloatArray:
        """The mean of the target given what is known of every row."""
        target, chances = self._chances(X)
        return np.asarray(chances @ target.cell_means)

    def predict_quantile(self, X: Any, q: Any = 0.5) -> FloatArray:
        """Quantiles of the target given each row: `(n_rows,)`, or `(n_rows, n_q)` for several."""
        target, chances = self._chances(X)
        found = [
            [ColumnPosterior(target, p).quantile(one) for one in np.atleast_1d(q)] for p in chances
        ]
        table = np.array(found, dtype=np.float64)
        return table if np.ndim(q) else table[:, 0]

    def predict_interval(self, X: Any, share: float = 0.9) -> FloatArray:
        """Two ends, `(n_rows, 2)`, between which the target lies with this probability or more."""
        rest = (1.0 - share) / 2.0
        return self.predict_quantile(X, [rest, 1.0 - rest])

    def predict_variance(self, X: Any) -> FloatArray:
        """The variance of the target given what is known of every row."""
        target, chances = self._chances(X)
        return np.array([ColumnPosterior(target, p).variance for p in chances])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.sparse = True
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags


def _numbers(target: AnyArray) -> AnyArray:
    """The targets as numbers; refuses text, and dates, which would become nanoseconds."""
    kind = target.dtype.kind
    if kind in "biuf":
        return target
    with suppress(ValueError, TypeError):
        if kind not in "mM":
            return target.astype(np.float64)
    raise ValueError(
        f"y must hold numbers, but holds {'dates' if kind in 'mM' else 'text'} or other values. "
        "StrudelClassifier predicts classes."
    )
