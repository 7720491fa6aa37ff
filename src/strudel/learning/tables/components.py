"""Components of independent columns: all that columns have to do with one another is the component.

They fit every vtree, and so can be averaged with any other model. EM is one product of matrices a
column (`learn_components`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from strudel._compiling import NO_LIMIT, Clock
from strudel._types import AnyArray, FloatArray
from strudel.data.validation import slices
from strudel.learning.tables.em import (
    BATCH,
    CellRows,
    Counts,
    Leaf,
    OnEpoch,
    Prior,
    learn,
    sums_by_place,
)

SMOOTH = Prior(0.2, 2.0)


@dataclass(frozen=True, eq=False)
class Components:
    """Probabilities of cells, and last of no value, in every component; and their shares."""

    tables: list[FloatArray]  # by column (n_cells + 1, n)
    share: FloatArray  # (n,)
    stopped_because: str = ""

    @property
    def n_states(self) -> int:
        """Number of components."""
        return len(self.share)

    def log_likelihood(self, rows: CellRows) -> FloatArray:
        """Log-likelihoods of rows, and of which values they have."""
        return _log_likelihood(self.tables, self.share, rows)


def learn_components(
    rows: CellRows,
    valid: CellRows,
    n: int,
    *,
    rng: np.random.Generator,
    clock: Clock = NO_LIMIT,
    on_epoch: OnEpoch | None = None,
) -> Components:
    """Learn n components by EM, until the `valid` rows are no more likely."""
    best, why = learn(_Alone(Leaf.all_of(rows, SMOOTH), n), rows, valid, rng, clock, on_epoch)
    share = best.links[0][0].astype(np.float64)
    tables = [table.astype(np.float64) for table in best.tables]
    return Components(tables, share / share.sum(), why)


def _log_joint(tables: Sequence[AnyArray], share: AnyArray, rows: CellRows) -> AnyArray:
    """The log-probability of every row with each component."""
    found = np.tile(np.log(share), (len(rows), 1))
    for table, place in zip(tables, rows.places.T, strict=True):
        found += np.log(table)[place]
    return found


def _log_likelihood(tables: Sequence[AnyArray], share: AnyArray, rows: CellRows) -> FloatArray:
    logs = [np.zeros(0)]
    for part in slices(len(rows), 8 * BATCH):
        some = CellRows(rows.columns, rows.places[part], rows.weight[part])
        logs.append(logsumexp(_log_joint(tables, share, some).astype(np.float64), axis=1))
    return np.concatenate(logs)


@dataclass(frozen=True, eq=False)
class _Alone:
    """The model that EM learns: one hidden state, whose columns are independent."""

    leaves: list[Leaf]
    n_states: int

    def start(self, n_rows: float, rng: np.random.Generator) -> Counts:
        each = n_rows / self.n_states
        tables = [leaf.start(self.n_states, rng) * each for leaf in self.leaves]
        return Counts(tables, [np.full((1, self.n_states), each)])

    def expected(self, parameters: Counts, rows: CellRows) -> tuple[Counts, FloatArray]:
        joint = _log_joint(parameters.tables, parameters.links[0][0], rows)
        top = joint.max(axis=1, keepdims=True)
        share = np.exp(joint - top)
        total = share.sum(axis=1)
        share *= (rows.weight / total)[:, np.newaxis]
        tables = [
            sums_by_place(share, place, len(table))
            for place, table in zip(rows.places.T, parameters.tables, strict=True)
        ]
        return Counts(tables, [share.sum(axis=0, keepdims=True)]), top[:, 0] + np.log(total)

    def log_likelihood(self, parameters: Counts, rows: CellRows) -> FloatArray:
        return _log_likelihood(parameters.tables, parameters.links[0][0], rows)
