"""Rows in partitions of which some values are unknown: completed, and counted, where they are.

In:  `PartitionedRows` with gaps, on an engine.
Out: `IncompletePartitions`, of which structural EM asks what it asks of rows in memory.

A completion is drawn by the number of a row, so it does not depend on the parts. Expected counts
are sums of fractions: parts may change their last digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np

from strudel.circuits.mixture import Mixture
from strudel.data.bits import BitMatrix, exact_weights, pack_columns, weight_quantum
from strudel.learning.incomplete import ExpectedFlows, PartialRows, Passes, merge_codes
from strudel.learning.partitioned.engines import Engine
from strudel.learning.partitioned.packed_rows import PackedRows, generator_at
from strudel.learning.partitioned.partitioned_table import PartitionedRows, PartitionedTable
from strudel.learning.structural_em import complete_rows, numbers_per_row
from strudel.queries.model import Model

ENOUGH_ROWS = 2**18  # completed rows to aim for, on which chance hardly tells the search anything
MOST_COPIES = 16


@dataclass(frozen=True, eq=False)
class IncompletePartitions:
    """Training and validation rows in partitions, all of which count and know something."""

    train: PartitionedRows
    valid: PartitionedRows | None

    @property
    def n_copies(self) -> int:
        """Completions of every row that make enough rows together: a power of two."""
        rows = self.train if self.train.table.has_gaps or self.valid is None else self.valid
        wanted = max(ENOUGH_ROWS // max(rows.n_rows, 1), 1)
        return int(min(2 ** (wanted.bit_length() - 1), MOST_COPIES))

    @cached_property
    def train_rows(self) -> PartitionedPartialRows:
        """Training rows, equal ones merged in every part."""
        return _partial(self.train)

    @cached_property
    def valid_rows(self) -> PartitionedPartialRows | None:
        """Validation rows, equal ones merged in every part."""
        return None if self.valid is None else _partial(self.valid)

    def completed(
        self, model: Model, n: int, rng: np.random.Generator
    ) -> tuple[PartitionedRows, PartitionedRows | None]:
        """`n` completions of every training and validation row, each of 1/n of the row's weight."""
        train = _completed(self.train, model, n, int(rng.integers(2**63)))
        if self.valid is None:
            return train, None
        return train, _completed(self.valid, model, n, int(rng.integers(2**63)))


def _completed(rows: PartitionedRows, model: Model, n: int, seed: int) -> PartitionedRows:
    if not rows.table.has_gaps:
        return rows
    engine = rows.engine
    lengths = np.array(engine.each(attrgetter("n_rows"), rows.parts))
    first = np.cumsum(lengths) - lengths  # numbered again: held-out rows and others apart
    total = rows.total_weight
    parts = engine.place(_complete, rows.parts, model, n, seed, total, numbers=first.tolist())
    table = PartitionedTable(
        engine,
        parts,
        (n * first).tolist(),
        rows.n_vars,
        n * rows.n_rows,
        rows.table.feature_names,
        max(rows.quantum / n, weight_quantum(total)),
        n_copies=n,
    )
    return table.rows()


def _complete(
    rows: PackedRows, model: Model, n: int, seed: int, total: float, first: int
) -> BitMatrix:
    """The completions of one part, whose first row has this number; `total` weighs all parts."""
    weight = rows.row_weight
    if n > 1:
        weight = exact_weights(np.repeat(rows.weights / n, n), total)
    codes = rows.unpack()
    if isinstance(rows, BitMatrix):
        completed = np.repeat(codes, n, axis=0)
    else:
        rng = generator_at(seed, first * n * numbers_per_row(model))
        completed = complete_rows(model, codes, n, rng).reshape(-1, codes.shape[1])
    return BitMatrix(pack_columns(completed).words, len(completed), weight)


@dataclass(frozen=True, eq=False)
class PartitionedPartialRows:
    """`PartialRows` in partitions, for EM."""

    engine: Engine
    parts: list[Any]  # of PartialRows
    n_rows: int  # as they came: how many are distinct depends on the parts
    n_vars: int
    total_weight: float

    def expect(self, passes: Passes, mixture: Mixture, n_groups: int = 1) -> ExpectedFlows:
        """Expected flows, added up over the parts."""
        found: ExpectedFlows = self.engine.total(_expect, self.parts, passes, mixture, n_groups)
        return found

    def mean_log_probability(self, passes: Passes, mixture: Mixture) -> float:
        """Mean log-likelihood of what is known of the rows."""
        total = self.engine.total(_log_probability, self.parts, passes, mixture)
        return float(total / self.total_weight)


def _partial(rows: PartitionedRows) -> PartitionedPartialRows:
    engine = rows.engine
    parts = engine.place(_merged, rows.parts)
    share = rows.share.high - rows.share.low
    n_rows = rows.n_rows if rows.table.has_gaps else round(rows.table.n_rows * share)
    return PartitionedPartialRows(engine, parts, n_rows, rows.n_vars, rows.total_weight)


def _merged(rows: PackedRows) -> PartialRows:
    return merge_codes(rows.unpack(), rows.row_weight)


def _expect(rows: PartialRows, passes: Passes, mixture: Mixture, n_groups: int) -> ExpectedFlows:
    if rows.n_rows == 0:
        nothing = np.zeros(mixture.edge_log_theta.shape)
        return ExpectedFlows(nothing, np.zeros(mixture.n_components), 0.0)
    return passes.expect(rows, mixture, n_groups)


def _log_probability(rows: PartialRows, passes: Passes, mixture: Mixture) -> float:
    return float(rows.weight @ passes.log_probabilities(rows, mixture)) if rows.n_rows else 0.0
