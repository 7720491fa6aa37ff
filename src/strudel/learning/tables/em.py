"""EM for models of cells with hidden states: one loop, and the tables that every leaf gets.

In:  rows of cells (`CellRows`), and a model that says what its expected counts are.
Out: the parameters that were best for the validation rows.

Every parameter is a ratio of expected counts, so EM needs no rate. It goes batch by batch: a batch
has counts of its own, and the running ones move towards them by a share that falls (Cappe and
Moulines 2009). Validation rows say when to stop.

A leaf is a table over cells, one for every state. That of a number is drawn towards a normal curve
of normal scores, so that it is smooth along the line; that of a category towards the shares of all
rows. Rows without a value are like others without one: whether there is a value tells of the state,
too, so it is one more place in the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import ndtr, ndtri

from strudel._compiling import NO_LIMIT, Clock
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.tables.column import Column
from strudel.tables.schema import Columns

BATCH = 1024
EPOCHS, FEWEST_EPOCHS = 60, 10
ROWS_OF_EPOCHS = 5000  # of larger tables, every epoch has more batches, and there are fewer
PATIENCE = 5  # epochs without a gain of GAIN nats a row
GAIN = 1e-3
FIRST_SHARE, LAST_SHARE = 0.3, 0.02  # that a batch has in the running counts
PRIOR = 0.05  # rows that a state has of all others, for the states of another column
OF_KNOWN = 0.2  # rows of a state that are drawn to how often all rows have a value
OF_DEVIATION = 0.1  # rows of deviation 1 that every state has
LEAST_DEVIATION = 0.02  # of the normal scores in a state
OF_ALL = 1e-3  # of a curve's table: the shares of all rows, so that no cell is impossible
TINY = np.float32(1e-30)

OnEpoch = Callable[[float, float], None]  # mean log-likelihoods of training and validation rows


@dataclass(frozen=True, eq=False)
class CellRows:
    """Rows of cells, and how often each counts."""

    columns: Columns
    places: IntArray  # (n_rows, n_columns) a cell, or the number of cells where none is known
    weight: AnyArray  # (n_rows,)

    def __len__(self) -> int:
        return len(self.places)

    @staticmethod
    def of(columns: Columns, cells: AnyArray, weight: AnyArray) -> CellRows:
        """Rows of cells, NONE where a value is missing."""
        places = np.where(cells == NONE, columns.n_cells, cells).astype(np.int32)
        # A weight is a number of equal rows, unless weights are shares.
        scale = max(1.0, len(weight) / weight.sum())
        return CellRows(columns, places, (weight * scale).astype(np.float32))

    @property
    def total(self) -> float:
        """How many rows they stand for."""
        return float(self.weight.sum(dtype=np.float64))

    def take(self, rows: AnyArray) -> CellRows:
        """Some of the rows."""
        return CellRows(self.columns, self.places[rows], self.weight[rows])

    def with_others(self, others: CellRows) -> CellRows:
        """These rows and others of the same columns."""
        return CellRows(
            self.columns,
            np.concatenate([self.places, others.places]),
            np.concatenate([self.weight, others.weight]),
        )

    def mean(self, values: AnyArray) -> float:
        """The mean of a number of every row."""
        return float(np.average(values, weights=self.weight))


@dataclass(frozen=True, eq=False)
class Counts:
    """Expected counts, and in the same shapes the parameters."""

    tables: list[AnyArray]  # by column (n_cells + 1, n_states): of cells, and of no value
    links: list[AnyArray]  # (n_states above, n_states) of states given others; or (1, n_states)

    def move(self, towards: Counts, share: float) -> None:
        """Go a share of the way."""
        for counts, others in ((self.tables, towards.tables), (self.links, towards.links)):
            for table, other in zip(counts, others, strict=True):
                table *= 1.0 - share
                table += share * other

    def parameters(self, leaves: Sequence[Leaf]) -> Counts:
        """The most probable ones, in float32 for speed."""
        tables = [leaf.tables(own) for leaf, own in zip(leaves, self.tables, strict=True)]
        links = [counts + PRIOR / counts.shape[1] for counts in self.links]
        links = [link / link.sum(axis=1, keepdims=True) for link in links]
        return Counts(*([own.astype(np.float32) for own in many] for many in (tables, links)))


class Model(Protocol):
    """What EM asks of a model."""

    @property
    def leaves(self) -> Sequence[Leaf]:
        """How the table of every column is smoothed."""

    def start(self, n_rows: float, rng: np.random.Generator) -> Counts:
        """Counts that differ at random."""

    def expected(self, parameters: Counts, rows: CellRows) -> tuple[Counts, FloatArray]:
        """The counts that are expected of rows, and the log-likelihoods of these."""

    def log_likelihood(self, parameters: Counts, rows: CellRows) -> FloatArray:
        """Log-likelihoods of rows, and of which values they have."""


def epochs_of(n_rows: int) -> int:
    """How often EM sees every row, at most."""
    return max(FEWEST_EPOCHS, min(EPOCHS, EPOCHS * ROWS_OF_EPOCHS // n_rows))


class Learned(NamedTuple):
    """What became of a run."""

    parameters: Counts  # those that were best for the validation rows
    stopped_because: str


def learn(
    model: Model,
    rows: CellRows,
    valid: CellRows,
    rng: np.random.Generator,
    clock: Clock = NO_LIMIT,
    on_epoch: OnEpoch | None = None,
) -> Learned:
    """One run of EM; an interrupt leaves the best so far."""
    n_epochs = epochs_of(len(rows))
    counts = model.start(rows.total, rng)
    best, best_score, waited = counts.parameters(model.leaves), -np.inf, 0
    size = min(BATCH, len(rows))
    n_batches = len(rows) // size
    try:
        for epoch in range(n_epochs):
            order, log_p = rng.permutation(len(rows)), 0.0
            for b in range(n_batches):
                if clock.is_up and b:
                    break
                batch = rows.take(order[b * size : (b + 1) * size])
                scale = np.float32(rows.total / batch.total)
                batch = CellRows(rows.columns, batch.places, batch.weight * scale)
                seen, logs = model.expected(counts.parameters(model.leaves), batch)
                log_p += batch.mean(logs) / n_batches
                falling = FIRST_SHARE * (1.0 - (epoch + b / n_batches) / n_epochs)
                counts.move(seen, LAST_SHARE + falling if epoch else 0.5)
            parameters = counts.parameters(model.leaves)
            score = valid.mean(model.log_likelihood(parameters, valid))
            waited = 0 if score > best_score + GAIN else waited + 1
            if score > best_score:
                best, best_score = parameters, score
            if on_epoch is not None:
                on_epoch(log_p, score)
            if clock.is_up:
                return Learned(best, "max_seconds")
            if waited >= PATIENCE:
                return Learned(best, "patience")
    except KeyboardInterrupt:
        return Learned(best, "interrupted")
    return Learned(best, "max_iter")


def sums_by_place(values: AnyArray, place: IntArray, n_places: int) -> AnyArray:
    """The sums of the rows at each place."""
    order = np.argsort(place, kind="stable")
    first = np.searchsorted(place[order], np.arange(n_places + 1))
    sums = np.zeros((n_places, values.shape[1]))
    is_used = np.diff(first) > 0
    sums[is_used] = np.add.reduceat(values[order], first[:-1][is_used], axis=0)
    return sums


class Prior(NamedTuple):
    """Rows per cell that every state has beside its own."""

    of_category: float  # as all rows are
    of_curve: float  # as a normal curve of its rows


@dataclass(frozen=True, eq=False)
class Leaf:
    """What the tables of a column are drawn towards."""

    share: FloatArray  # (n_cells,) of all rows with a value
    known: float  # of all rows, those with a value
    scores: Scores | None  # of a column with an order
    prior: Prior

    @staticmethod
    def all_of(rows: CellRows, prior: Prior) -> list[Leaf]:
        """Those of all columns."""
        return [
            Leaf.of(column, rows.places[:, c], rows.weight, prior)
            for c, column in enumerate(rows.columns)
        ]

    @staticmethod
    def of(column: Column, places: IntArray, weight: AnyArray, prior: Prior) -> Leaf:
        """That of a column with these values."""
        counts = np.bincount(places, weight, column.n_cells + 1)
        share = (counts[:-1] + 0.5) / (counts[:-1] + 0.5).sum()
        known = (counts[:-1].sum() + 0.5) / (counts.sum() + 1.0) if counts[-1] > 0.0 else 1.0
        has_order = column.is_numeric or column.kind == "ordinal"
        return Leaf(share, float(known), Scores.of(share) if has_order else None, prior)

    def tables(self, counts: FloatArray) -> FloatArray:
        """The probability of each cell, and last of no value, in every state."""
        values, missing = counts[:-1], counts[-1]
        total = values.sum(axis=0)
        if self.scores is None:
            towards, n_rows = self.share[:, np.newaxis], self.prior.of_category * len(self.share)
        else:
            curve = self.scores.curves(values)
            towards = (1.0 - OF_ALL) * curve + OF_ALL * self.share[:, np.newaxis]
            n_rows = self.prior.of_curve * len(self.share)
        p = (values + n_rows * towards) / (total + n_rows)
        if self.known == 1.0:
            return np.vstack([p, np.ones(p.shape[1])])
        known = (total + OF_KNOWN * self.known) / (total + missing + OF_KNOWN)
        return np.vstack([p * known, 1.0 - known])

    def start(self, n_states: int, rng: np.random.Generator) -> FloatArray:
        """Tables that differ at random; those of a column with an order in where they are."""
        if self.scores is None:
            table = self.share[:, np.newaxis] * rng.gamma(0.5, size=(len(self.share), n_states))
        else:
            distance = self.scores.mean[:, np.newaxis] - rng.standard_normal(n_states)
            table = self.share[:, np.newaxis] * np.exp(-2.0 * distance**2)
        table += 1e-9
        table *= self.known / table.sum(axis=0)
        return np.vstack([table, np.full(n_states, 1.0 - self.known)])


@dataclass(frozen=True, eq=False)
class Scores:
    """Where the cells of a column lie if all rows are spread along a normal curve."""

    low: FloatArray  # (n_cells,) the normal scores between which a cell lies
    high: FloatArray
    mean: FloatArray  # (n_cells,) of the scores in a cell
    square: FloatArray  # (n_cells,) the mean of their squares

    @staticmethod
    def of(share: FloatArray) -> Scores:
        """Those of cells with these shares."""
        ends = ndtri(np.concatenate([[0.0], np.clip(np.cumsum(share)[:-1], 0.0, 1.0), [1.0]]))
        density = np.exp(-0.5 * ends**2) / np.sqrt(2.0 * np.pi)
        moment = np.where(np.isfinite(ends), ends, 0.0) * density
        mean = (density[:-1] - density[1:]) / share
        return Scores(ends[:-1], ends[1:], mean, 1.0 + (moment[:-1] - moment[1:]) / share)

    def curves(self, counts: FloatArray) -> FloatArray:
        """The probability of each cell under the normal curve of every state."""
        total, first, second = counts.sum(axis=0), self.mean @ counts, self.square @ counts
        mean, n_rows = first / (total + 0.1), OF_DEVIATION
        variance = second - 2.0 * mean * first + mean**2 * total
        variance = (variance + n_rows) / (total + n_rows)
        deviation = np.sqrt(np.maximum(variance, LEAST_DEVIATION**2))
        ends = ((end[:, np.newaxis] - mean) / deviation for end in (self.low, self.high))
        low, high = map(ndtr, ends)
        chance = np.maximum(high - low, 0.0)
        return np.asarray(chance / np.maximum(chance.sum(axis=0), 1e-300))
