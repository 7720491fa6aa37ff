"""Tables in parts as `fit` takes them: checked, packed, and divided into rows to learn and stop by.

In:  an estimator, and lazy tables.
Out: `SpreadLearning`.

Held-out rows, the sample for the search (`structure_rows`), the rows that an encoder is fitted on
and those that k-means looks at are drawn by the number of a row, so they are the same for any parts
and any number of workers.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from strudel._types import ByteArray, FloatArray
from strudel.data.names import names_of
from strudel.errors import NoRowsError, NothingKnownWarning
from strudel.learning.journal import Journal
from strudel.learning.partitioned.engines import find_engine
from strudel.learning.partitioned.packed_codes import n_known, n_unknown
from strudel.learning.partitioned.partitioned_table import (
    SpreadRows,
    SpreadTable,
    sample_of,
    spread_table,
)
from strudel.learning.resume import digest_of, open_journal
from strudel.models.base import check_fraction
from strudel.models.encoding import encoder_for, keep_encoder, raise_with_advice
from strudel.tables.coded_column import Column
from strudel.tables.coded_rows import CodedNames
from strudel.tables.encoder import TableEncoder

CODED_BY = 100_000  # rows on which an encoder is fitted
SHOWN = 8  # columns that an error names


@dataclass(frozen=True, eq=False)
class SpreadLearning:
    """Rows in parts to learn from and to stop by."""

    table: SpreadTable
    train: SpreadRows
    valid: SpreadRows | None
    seed: int
    rng: np.random.Generator
    features: Any  # a table with the names of the columns
    journal: Journal
    encoder: TableEncoder | None
    columns: tuple[Column, ...] | None  # whose codes are to be respected

    @property
    def has_gaps(self) -> bool:
        """Whether values are unknown."""
        return any(rows is not None and rows.table.has_gaps for rows in (self.train, self.valid))

    @property
    def names(self) -> Sequence[str] | None:
        """What to call the variables."""
        return self.table.feature_names if self.encoder is None else CodedNames(self.encoder.code_)

    def keep(self, estimator: Any) -> None:
        """Let the estimator know its features, once nothing can be refused any more."""
        validate_data(estimator, self.features, reset=True, skip_check_array=True)
        keep_encoder(estimator, self.encoder)
        n_rows, n_vars = self.table.n_rows, self.table.n_vars
        estimator.data_ = {"rows": n_rows, "columns": n_vars, "sha256": None}
        if self.table.has_gaps:
            estimator.data_["unknown"] = self.table.engine.total(n_unknown, self.table.parts)

    def sample(self, n_rows: int) -> tuple[ByteArray, FloatArray]:
        """About so many of the rows to learn from as codes, in memory, and their weights."""
        return self.train.sample(n_rows, self.seed + 2)  # numbers of their own

    def valid_sample(self, n_rows: int) -> tuple[ByteArray, FloatArray] | None:
        """About so many of the rows to stop by, if there are any."""
        return None if self.valid is None else self.valid.sample(n_rows, self.seed + 2)


def spread_rows(
    estimator: Any, X: Any, X_valid: Any, sample_weight: Any, checkpoint: Any
) -> SpreadLearning:
    """Check and pack the tables of a fit, and hold rows out if there are none to stop by."""
    if estimator.constraint is not None:
        raise ValueError(
            "A constraint needs all rows in one place: take a sample of the rows, or none."
        )
    check_fraction(estimator.validation_fraction)
    if getattr(estimator, "warm_start", False):
        raise ValueError("warm_start needs all rows in one place: take a sample of the rows.")
    engine = find_engine()
    random_state = check_random_state(estimator.random_state)
    seed = int(random_state.randint(2**31))
    encoder = None
    if estimator.encoder is not None:
        # Numbers of their own: those of `seed` say which rows are held out.
        sample = sample_of(X, engine, CODED_BY, seed + 1, sample_weight=sample_weight)
        encoder = encoder_for(estimator, sample)
    code = None if encoder is None else encoder.code_
    try:
        table = spread_table(X, engine, sample_weight=sample_weight, code=code)
    except ValueError as error:
        raise_with_advice(error)
    valid: SpreadRows | None = None
    if X_valid is not None:
        names = table.feature_names
        valid_table = spread_table(X_valid, engine, code=code, feature_names=names, name="X_valid")
        if valid_table.n_vars != table.n_vars:
            raise ValueError(
                f"X_valid has {valid_table.n_vars} features, but X has {table.n_vars}."
            )
        train, valid = table.rows(), _rows_to_stop_by(valid_table) or table.rows()
    elif estimator.validation_fraction is None:
        train = table.rows()
    else:
        train, valid = table.split(estimator.validation_fraction, seed)
    has_names = encoder is None and hasattr(X, "columns")
    features = X._meta if has_names else np.zeros((1, table.n_vars))
    rng = np.random.default_rng(random_state.randint(2**31))
    columns = None
    if encoder is not None and encoder.respect_one_hot:
        columns = encoder.code_.columns
    journal = open_journal(checkpoint, estimator, lambda: _digest(train, valid))
    learning = SpreadLearning(table, train, valid, seed, rng, features, journal, encoder, columns)
    if table.has_gaps:
        _warn_of_rows(table, "Training")
        _check_columns(learning)
    return learning


def _rows_to_stop_by(table: SpreadTable) -> SpreadRows | None:
    """The validation rows, if something is known of any."""
    if not table.has_gaps:
        return table.rows()
    _warn_of_rows(table, "Validation")
    try:
        return table.rows()
    except NoRowsError:
        return None


def _warn_of_rows(table: SpreadTable, name: str) -> None:
    *_, n_rows = table.engine.total(n_known, table.parts)
    if n_rows:
        warnings.warn(
            f"{name} rows without a known value tell nothing and are left out: {n_rows} of "
            f"{table.n_rows}.",
            NothingKnownWarning,
            stacklevel=6,
        )


def _check_columns(learning: SpreadLearning) -> None:
    """Refuse columns of which nothing is known."""
    known = learning.table.engine.total(n_known, learning.train.parts)[:-1]
    names = names_of(learning.table.n_vars, learning.names)
    unknown = [names[var] for var in np.flatnonzero(known == 0)]
    if unknown:
        more = ", ..." if len(unknown) > SHOWN else ""
        raise ValueError(
            "Rows in parts must tell something of every column, but those to learn from tell "
            f"nothing of {', '.join(map(repr, unknown[:SHOWN]))}{more}: leave out such columns."
        )


def _digest(train: SpreadRows, valid: SpreadRows | None) -> str:
    """What tells the rows and their order from others; the same for any parts."""
    tables = [train.table, *([] if valid is None else [valid.table])]
    return digest_of(*(np.array([one.digest(), one.n_rows], dtype=np.uint64) for one in tables))
