"""The first step of a fit, for a partitioned table: checked, packed, and divided where it is.

In:  `FitInput` with a Dask array or frame.
Out: `PreparedPartitions`, which answers what `PreparedRows` does in memory.

Held-out rows, the sample for the search (`structure_rows`), the rows that an encoder is fitted on
and those that k-means looks at are drawn by the number of a row, so they are the same for any
partitions and any number of workers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from strudel._compiling import NO_LIMIT, Clock
from strudel._names import names_of
from strudel._types import AnyArray, ByteArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.data.bits import BitMatrix, pack_columns
from strudel.errors import NoRowsError, NothingKnownWarning
from strudel.learning.options import BaggedEM, Method, MixtureOptions, SearchOptions
from strudel.learning.partitioned.em import CLUSTERED_ROWS, fit_partitioned_mixture
from strudel.learning.partitioned.engines import find_engine
from strudel.learning.partitioned.incomplete_rows import IncompletePartitions
from strudel.learning.partitioned.learn_structure import (
    PartitionedRun,
    fit_partitioned_parameters,
    grow_partitioned,
)
from strudel.learning.partitioned.packed_rows import Share, n_known, n_unknown
from strudel.learning.partitioned.partitioned_table import (
    PartitionedRows,
    PartitionedTable,
    partition_table,
    sample_of,
)
from strudel.learning.prepared_rows import FitInput, Prepared, PreparedRows
from strudel.learning.progress import MixtureHistory
from strudel.learning.structural_em import IncompleteRows, first_mixture, first_tree
from strudel.queries.likelihood import rows_log_likelihood
from strudel.queries.model import Model
from strudel.tables.encoder import is_binary, new_encoder, raise_with_advice
from strudel.tables.table_code import CodedNames, table_log_density

CODED_BY = 100_000  # rows on which an encoder is fitted
FIRST_ROWS = 2**16  # rows from which the model that completes others is learned
SHOWN = 8  # columns that an error names


@dataclass(frozen=True, eq=False, kw_only=True)
class PreparedPartitions(Prepared):
    """Rows in partitions."""

    train: PartitionedRows
    valid: PartitionedRows | None
    table: PartitionedTable
    seed: int

    is_partitioned = True

    @cached_property
    def gaps(self) -> IncompletePartitions | None:
        """The rows themselves, if values are unknown."""
        has_gaps = self.train.table.has_gaps or (
            self.valid is not None and self.valid.table.has_gaps
        )
        return IncompletePartitions(self.train, self.valid) if has_gaps else None

    @property
    def names(self) -> Sequence[str] | None:
        """What to call the variables."""
        return self.table.feature_names if self.encoder is None else CodedNames(self.encoder.code_)

    def sample(self, n_rows: int) -> tuple[ByteArray, FloatArray]:
        """About this many of the rows to learn from as codes, in memory, and their weights."""
        return self.train.sample(n_rows, self.seed + 2)  # numbers of their own

    def valid_sample(self, n_rows: int) -> tuple[ByteArray, FloatArray] | None:
        """About this many of the rows to stop by, if there are any."""
        return None if self.valid is None else self.valid.sample(n_rows, self.seed + 2)

    def with_rows(self, train: PartitionedRows, valid: PartitionedRows | None) -> Self:
        """The same with complete rows."""
        return replace(self, train=train, valid=valid)

    def part(self, n_rows: int | None) -> Prepared:
        """About this many of the rows, in memory; these themselves if they are fewer."""
        if n_rows is None or n_rows >= self.table.n_rows:
            return self
        valid = self.valid_sample(n_rows)
        return PreparedRows(
            train=pack_columns(*self.sample(n_rows)),
            valid=None if valid is None else pack_columns(*valid),
            rng=self.rng,
            columns=self.columns,
        )

    def grow(self, search: SearchOptions, on_split: Any = None) -> PartitionedRun:
        """Search for a structure on the rows."""
        return grow_partitioned(
            self.train,
            self.valid,
            search=search,
            rng=self.rng,
            on_split=on_split,
        )

    def fit_parameters(self, circuit: Circuit, pseudocount: float) -> Circuit:
        """A circuit with parameters from all rows."""
        return fit_partitioned_parameters(circuit, self.train, pseudocount)

    def train_mixture(
        self,
        structure: Circuit,
        method: Method,
        options: MixtureOptions,
        on_iteration: Callable[[MixtureHistory], None],
    ) -> Mixture:
        """Train a mixture on one structure."""
        return fit_partitioned_mixture(
            structure,
            self.train,
            self.valid,
            options=options,
            sample=self.sample(CLUSTERED_ROWS),
            rng=self.rng,
            n_bags=method.n_bags if isinstance(method, BaggedEM) else None,
            on_iteration=on_iteration,
        )[0]

    def _mean_of_complete(self, model: Model, rows: PartitionedRows) -> float:
        return float(rows.engine.total(_log_likelihood, rows.parts, model) / rows.total_weight)

    def first_model(self, clock: Clock = NO_LIMIT, *, is_quick: bool = False) -> Model:
        """The model that completes the rows for the first round, from a sample of them."""
        train, weight = self.sample(FIRST_ROWS)
        valid, valid_weight = self.valid_sample(FIRST_ROWS) or (None, None)
        sample = IncompleteRows(train, weight, valid, valid_weight)
        tree = first_tree(sample, self.columns)
        return tree if is_quick else first_mixture(tree, sample, self.rng, clock)


def _log_likelihood(rows: BitMatrix, model: Model) -> float:
    """Log-likelihood of the rows of one partition."""
    return float(rows.weights @ rows_log_likelihood(model, rows.unpack())) if rows.n_rows else 0.0


def prepare_partitions(given: FitInput, search: SearchOptions) -> PreparedPartitions:
    """Check and pack the tables of a fit, and hold rows out if there are none to stop by."""
    estimator = given.estimator
    if estimator.constraint is not None:
        raise ValueError(
            "A constraint needs all rows in memory: take a sample of the rows, or leave it out."
        )
    X, X_valid, sample_weight = given.X, given.X_valid, given.sample_weight
    engine = find_engine()
    seed = int(given.random_state.randint(2**31))
    columns, encoder = search.columns, None
    if estimator.columns is not None or not is_binary(X):
        encoder = new_encoder(estimator.columns)
    log_density = 0.0  # of numbers given their cells: of the sample that the encoder sees
    if encoder is not None:
        # Numbers of their own: those of `seed` say which rows are held out.
        sample = sample_of(X, engine, CODED_BY, seed + 1, sample_weight=sample_weight)
        log_density = float(np.mean(table_log_density(sample, encoder.fit(sample).code_)))
        columns = encoder.code_.columns if encoder.respect_one_hot else columns
    code = None if encoder is None else encoder.code_
    if code is not None and code.unknown == "warn":  # it saw a sample: that is no reason to forget
        code = replace(code, unknown="error")
    try:
        table = partition_table(X, engine, sample_weight=sample_weight, code=code)
    except ValueError as error:
        raise_with_advice(error)
    valid: PartitionedRows | None = None
    if X_valid is not None:
        names = table.feature_names
        valid_table = partition_table(
            X_valid, engine, code=code, feature_names=names, name="X_valid"
        )
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
    rng = np.random.default_rng(given.random_state.randint(2**31))
    rows = PreparedPartitions(
        train=train,
        valid=valid,
        rng=rng,
        columns=columns,
        features=features,
        encoder=encoder,
        data=_describe(table),
        held_out=_held_out(table, valid),
        log_density=(log_density, log_density),
        table=table,
        seed=seed,
    )
    if table.has_gaps:
        _warn_of_rows(table, "Training")
        _check_columns(rows)
    return rows


def _describe(table: PartitionedTable) -> dict[str, Any]:
    """What the table is like, for provenance."""
    facts = {"rows": table.n_rows, "columns": table.n_vars, "sha256": None}
    if table.has_gaps:
        facts["unknown"] = table.engine.total(n_unknown, table.parts)
    return facts


def _held_out(table: PartitionedTable, valid: PartitionedRows | None) -> AnyArray | None:
    """Numbers of the rows that were held out."""
    if valid is None or valid.table is not table or valid.share == Share():
        return None
    return np.flatnonzero(valid.share.holds(0, table.n_rows))


def _rows_to_stop_by(table: PartitionedTable) -> PartitionedRows | None:
    """The validation rows, if something is known of any."""
    if not table.has_gaps:
        return table.rows()
    _warn_of_rows(table, "Validation")
    try:
        return table.rows()
    except NoRowsError:
        return None


def _warn_of_rows(table: PartitionedTable, name: str) -> None:
    *_, n_rows = table.engine.total(n_known, table.parts)
    if n_rows:
        warnings.warn(
            f"{name} rows without a known value are left out: {n_rows} of {table.n_rows}.",
            NothingKnownWarning,
            stacklevel=6,
        )


def _check_columns(rows: PreparedPartitions) -> None:
    """Refuse columns without a known value."""
    known = rows.table.engine.total(n_known, rows.train.parts)[:-1]
    names = names_of(rows.table.n_vars, rows.names)
    unknown = [names[var] for var in np.flatnonzero(known == 0)]
    if unknown:
        more = ", ..." if len(unknown) > SHOWN else ""
        raise ValueError(
            "Every column of a partitioned table needs a known value, but the training rows have "
            f"none in {', '.join(map(repr, unknown[:SHOWN]))}{more}: leave out such columns."
        )
