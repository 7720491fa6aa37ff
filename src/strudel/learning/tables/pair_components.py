"""Components of independent columns that say of every two columns what the rows say.

In:  rows of cells.
Out: `PairComponents`: `Components`, and triples of columns that depend on one another beyond pairs.

Whole rows are most likely with few, smooth components. A question is about two or three columns,
and of these few components forget a part of what the rows say. So hundreds of components are
learned from the tables of all pairs of columns instead: a pair of values is drawn by drawing a
component, and then both values from it. This is a factorisation of all pair tables at once, with
factors that are not negative; EM for it is two products of matrices a step (Lee and Seung 2001, for
the Kullback-Leibler divergence). No number in it is about a single row.

What three columns say together nearly always follows from their pairs. Where it surely does not, as
for an alarm that rings if one of two doors is open but not both, their table takes part as well.

Where it depends on other columns whether a value is missing, that is one more place of its column:
who did not say is like others who did not. Else rows without a value do not count in its pairs.
Fine cells are counted in their groups, and are in a group as they are in all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import scipy.sparse
import scipy.special

from strudel._compiling import NO_LIMIT, Clock
from strudel._types import AnyArray, FloatArray
from strudel.learning.tables.components import Components
from strudel.learning.tables.em import CellRows

MOST_ROWS = 100_000  # of larger tables, a sample
MOST_COUNTED = 4e9  # rows times squared columns, whose pairs are counted: some seconds
N_STEPS = 600
FURTHER = 0.8  # than EM goes: where it creeps, it arrives in half of the steps
FEWEST = 32  # components, however many places there are
WORK = 8e7  # components times squared places, at most: some seconds
PRIOR_ROWS = 0.0001  # virtual rows of every component, as the column's own shares
LEAST = 1e-9  # of these shares, in every component: passes are quick where no number is absurd
MOST_PARTS = 150  # groups of values among which triples are looked for
MOST_TRIPLES, MOST_CELLS = 10, 2500  # whose tables take part, and the cells of these tables
ROWS_OF_TRIPLES = 5000  # that are looked at
ROWS_WITHOUT = 500  # without a value of a column, that say which components are alike
SHARE_OF_OTHERS = 0.05  # how often its rows have a value, where a component and others say as much
LEAST_Z = 6.0  # what three columns say together is surely not what their pairs say
SIGNS = np.prod(np.meshgrid(*[[-1.0, 1.0]] * 3), axis=0)  # of the cells of three groups, in or out
TRIPLE = 5.0  # how often the table of a triple counts: there are many pairs for each


@dataclass(frozen=True, eq=False)
class Triple:
    """Three columns, a group of cells of each, and rows that are in these groups or not."""

    columns: tuple[int, ...]
    groups: tuple[FloatArray, ...]  # (n_cells,) 1 for the cells of each group
    counts: AnyArray  # (2, 2, 2) of rows that know all three


@dataclass(frozen=True, eq=False)
class PairComponents:
    """What was learned from pairs of columns."""

    components: Components
    triples: list[Triple]


def learn_pair_components(
    rows: CellRows,
    n_components: int,
    *,
    rng: np.random.Generator,
    clock: Clock = NO_LIMIT,
) -> PairComponents | None:
    """At most so many components; None if time is up before they are learned."""
    most_rows = int(min(MOST_ROWS, MOST_COUNTED / len(rows.columns) ** 2))
    if len(rows) > most_rows:
        drawn = rng.multinomial(most_rows, rows.weight / rows.weight.sum(dtype=np.float64))
        some = rows.take(drawn > 0)
        rows = CellRows(rows.columns, some.places, drawn[drawn > 0].astype(np.float64))
    numbered = _Rows.of(rows)
    size = min(n_components, int(np.count_nonzero(rows.weight)), numbered.most_components)
    chosen = rng.choice(len(rows), size, replace=False, p=numbered.share)
    start = numbered.places[:, chosen]
    factors = _factors(numbered, start, (), clock)
    if factors is None:
        return None
    triples = _missed_triples(numbered, *factors, rng)
    if triples:
        named = [triple.columns for triple in triples]
        factors = _factors(numbered, start, named, clock) or factors
    p, share = factors
    _fill_missing(numbered, p, share)
    return PairComponents(numbered.components(p, share), triples)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of places: the groups of cells of all columns are numbered one after another."""

    rows: CellRows
    places: AnyArray  # (n_columns, n_rows); n_places where nothing is counted
    share: FloatArray  # (n_rows,) adds up to one
    n_values: AnyArray  # (n_columns,)
    first: AnyArray  # (n_columns + 1,) the first place of every column

    @staticmethod
    def of(rows: CellRows) -> _Rows:
        n_values = np.array([column.n_groups for column in rows.columns])
        is_caused = np.isin(rows.columns.names, list(rows.columns.missingness.caused))
        has_place = is_caused & (rows.places == rows.columns.n_cells).any(axis=0)
        first = np.append(0, np.cumsum(n_values + has_place))
        places = []
        for column, own, start, last in zip(
            rows.columns, rows.places.T, first[:-1], has_place, strict=True
        ):
            missing = start + column.n_groups if last else first[-1]
            places.append(np.append(column.group_of_cell + start, missing)[own])
        weight = rows.weight.astype(np.float64)
        return _Rows(rows, np.stack(places), weight / weight.sum(), n_values, first)

    @property
    def n_rows(self) -> float:
        return self.rows.total

    @property
    def n_places(self) -> int:
        return int(self.first[-1])

    @property
    def most_components(self) -> int:
        """Components that are learned in some seconds."""
        return max(FEWEST, int(WORK / self.n_places**2))

    @cached_property
    def alone(self) -> FloatArray:
        """The shares of each column's places, `(n_places, 1)`; half a row for one that none has."""
        every = np.tile(self.share, len(self.places))
        count = np.bincount(self.places.ravel(), every, minlength=self.n_places)[: self.n_places]
        return self.normalised(count[:, np.newaxis] + 0.5 / self.n_rows)

    @cached_property
    def pair(self) -> FloatArray:
        """How often two values come together, of the rows that have both columns' values."""
        pairs = np.zeros((self.n_places, self.n_places))
        counts = self.places < self.n_places
        for a, (top, bottom) in enumerate(pairwise(self.first.tolist())):
            for b, (low, high) in enumerate(pairwise(self.first[: a + 1].tolist())):
                shape, both = (bottom - top, high - low), counts[a] & counts[b]
                share = self.share[both]
                flat = (self.places[a, both] - top) * shape[1] + self.places[b, both] - low
                counted = np.bincount(flat, share, minlength=shape[0] * shape[1]).reshape(shape)
                if share.sum() > 0.0:
                    counted /= share.sum()
                else:  # no row has both
                    counted = self.alone[top:bottom] * self.alone[low:high].T
                pairs[top:bottom, low:high] = counted
        return pairs + pairs.T

    def normalised(self, count: AnyArray) -> FloatArray:
        """Counts as probabilities of the places of each column."""
        total = np.add.reduceat(count, self.first[:-1], axis=0)
        return np.asarray(count / np.repeat(total, np.diff(self.first), axis=0))

    def components(self, p: FloatArray, share: FloatArray) -> Components:
        """Components with these probabilities of places; a group's cells as in all rows."""
        tables = []
        for column, (top, bottom) in zip(self.rows.columns, pairwise(self.first), strict=True):
            cells = column.share_of_group[:, np.newaxis] * p[top:bottom][column.group_of_cell]
            is_complete = bottom - top == column.n_groups
            tables.append(np.vstack([cells, np.ones(len(share)) if is_complete else p[bottom - 1]]))
        return Components(tables, share)


def _factors(
    rows: _Rows, start: AnyArray, triples: Sequence[tuple[int, ...]], clock: Clock
) -> tuple[FloatArray, FloatArray] | None:
    """Probabilities of places `(n_places, size)` and shares of components, which start at rows.

    None if time is up.
    """
    n_columns, size = start.shape
    weight = np.ones((n_columns, 1))
    weight[sorted({c for triple in triples for c in triple})] = 3.0  # which they must tell apart
    count = np.vstack([np.repeat(rows.alone, size, axis=1), np.zeros(size)])
    count[start, np.arange(size)] += weight
    count = count[:-1]
    p, share = rows.normalised(count), np.full(size, 1.0 / size)
    prior = PRIOR_ROWS / rows.n_rows * rows.alone * max(n_columns - 1, 1)
    tables = _Tables.of(rows, triples) if triples else None
    for _ in range(N_STEPS if n_columns > 1 else 0):
        if clock.is_up:
            return None
        said = (p * share) @ p.T
        count = p * ((rows.pair / said) @ p) * share
        if tables is not None:
            count += tables.expected(p, share)
        share = count.sum(axis=0) / count.sum()
        step = rows.normalised(count + prior)
        p = rows.normalised(step * (step / p) ** FURTHER)
    return (1.0 - LEAST) * p + LEAST * rows.alone, (1.0 - LEAST) * share + LEAST / size


@dataclass(frozen=True, eq=False)
class _Tables:
    """The tables of some triples of columns: all cells that rows have."""

    place: AnyArray  # (3, n_cells)
    share: FloatArray  # (n_cells,)
    sums: tuple[scipy.sparse.csr_array, ...]  # of the cells with each place

    @staticmethod
    def of(rows: _Rows, triples: Sequence[tuple[int, ...]]) -> _Tables:
        places: list[AnyArray] = []
        shares: list[AnyArray] = []
        for triple in triples:
            own = rows.places[list(triple)]
            is_told = (own < rows.n_places).all(axis=0)
            cells, cell = np.unique(own[:, is_told], axis=1, return_inverse=True)
            share = rows.share[is_told] / rows.share[is_told].sum()
            places.append(cells)
            shares.append(TRIPLE * np.bincount(cell.ravel(), share))
        place, share = np.hstack(places), np.concatenate(shares)
        ones, number = np.ones(len(share)), np.arange(len(share))
        shape = rows.n_places, len(share)
        sums = tuple(scipy.sparse.csr_array((ones, (own, number)), shape) for own in place)
        return _Tables(place, share, sums)

    def expected(self, p: FloatArray, share: FloatArray) -> FloatArray:
        """The share of every place and component, `(n_places, size)`, given the cells."""
        joint = p[self.place[0]] * p[self.place[1]] * p[self.place[2]] * share
        joint *= (self.share / joint.sum(axis=1))[:, np.newaxis]
        return np.asarray(sum(own @ joint for own in self.sums))


def _missed_triples(
    rows: _Rows, p: FloatArray, share: FloatArray, rng: np.random.Generator
) -> list[Triple]:
    """Triples of columns that surely depend on one another in another way, the worst first.

    Values are grouped: the lower values of a number, or a frequent category, and all others. Three
    groups have eight cells, in whose logs the components and the rows may differ by chance.
    """
    n_columns = len(rows.n_values)
    if n_columns < 3 or n_columns > MOST_PARTS:
        return []
    parts, owner = _parts(rows, 3 if 3 * n_columns <= MOST_PARTS else 1)
    n_looked_at = min(len(rows.share), ROWS_OF_TRIPLES)
    chosen = np.sort(rng.choice(len(rows.share), n_looked_at, replace=False))
    looked_at = rows.share[chosen]
    n_rows = rows.n_rows * looked_at.sum()
    inside = np.stack(
        [np.append(part, 0.0)[rows.places[c, chosen]] for part, c in zip(parts, owner, strict=True)]
    )
    looked_at = looked_at / looked_at.sum()
    worst: dict[tuple[int, int, int], tuple[float, tuple[int, ...]]] = {}
    for k, column in enumerate(owner.tolist()):
        later = np.flatnonzero(owner > column)
        counted = _eighths(inside, looked_at, k, later) * n_rows
        said = _eighths(parts @ p, share, k, later) * n_rows
        z = interaction(counted, said)
        for i, j in np.argwhere(z > LEAST_Z).tolist():
            a, b = owner[later[[i, j]]].tolist()
            candidate = float(z[i, j]), (k, int(later[i]), int(later[j]))
            if a < b and candidate > worst.get((column, a, b), (0.0, ())):
                worst[column, a, b] = candidate
    kept: list[Triple] = []
    n_cells = 0
    for triple in sorted(worst, key=lambda triple: -worst[triple][0]):
        n_more = np.unique(rows.places[list(triple)], axis=1).shape[1]
        if n_cells + n_more <= MOST_CELLS and len(kept) < MOST_TRIPLES:
            n_cells += n_more
            kept.append(_triple(rows, parts, owner, worst[triple][1]))
    return kept


def interaction(counted: AnyArray, said: AnyArray) -> FloatArray:
    """How surely the dependence of three groups differs, in standard deviations.

    What is compared is the logarithm of the ratio of their odds ratios, which neither the shares
    of the groups change nor the dependence of any two of them. Eight cells on the first axes.
    """
    logs = np.log(counted + 0.5) - np.log(said + 0.5)
    variance = (1.0 / (counted + 0.5)).sum(axis=(0, 1, 2))
    return np.asarray(np.abs(np.tensordot(SIGNS, logs, axes=3)) / np.sqrt(variance))


def _triple(rows: _Rows, parts: FloatArray, owner: AnyArray, chosen: tuple[int, ...]) -> Triple:
    """The triple of three groups, with counts of all rows."""
    groups, inside = [], np.zeros(len(rows.share), dtype=np.int64)
    knows = np.ones(len(rows.share), dtype=bool)
    for part in chosen:
        c = int(owner[part])
        end = rows.first[c] + rows.n_values[c]
        groups.append(parts[part, rows.first[c] : end][rows.rows.columns[c].group_of_cell])
        inside = 2 * inside + (np.append(parts[part], 0.0)[rows.places[c]] > 0.0)
        knows &= rows.places[c] < end
    counts = np.bincount(inside[knows], rows.share[knows] * rows.n_rows, minlength=8)
    named = tuple(int(owner[part]) for part in chosen)
    return Triple(named, tuple(groups), counts.reshape(2, 2, 2))


def _eighths(chance: FloatArray, share: FloatArray, k: int, others: AnyArray) -> FloatArray:
    """Shares of group k and two others: each in or out, `(2, 2, 2, n_others, n_others)`.

    `chance` of every group, `(n_groups, n)`, in each of n parts with these shares.
    """
    found = np.empty((2, 2, 2, len(others), len(others)))
    inner = chance[others]
    total = inner @ share
    both = (inner * share) @ inner.T, (inner * share * chance[k]) @ inner.T
    mine = (inner * share) @ chance[k]
    for is_in, (two, alone, of_all) in enumerate(
        (
            (both[0] - both[1], total - mine, float(share @ (1.0 - chance[k]))),
            (both[1], mine, float(share @ chance[k])),
        )
    ):
        found[is_in, 1, 1] = two
        found[is_in, 1, 0] = alone[:, np.newaxis] - two
        found[is_in, 0, 1] = alone - two
        found[is_in, 0, 0] = of_all - alone[:, np.newaxis] - alone + two
    return np.maximum(found, 0.0)


def _parts(rows: _Rows, n_each: int) -> tuple[FloatArray, AnyArray]:
    """Groups of places, `(n_parts, n_places)` of 0 and 1, and the column of each."""
    groups, owner = [], []
    for c, column in enumerate(rows.rows.columns):
        places = slice(rows.first[c], rows.first[c] + rows.n_values[c])
        counts = rows.alone[places, 0]
        if column.is_numeric or column.kind == "ordinal":
            below = np.cumsum(counts) / counts.sum()
            bounds = np.array([0.5]) if n_each == 1 else np.linspace(0.25, 0.75, n_each)
            last = np.unique(np.minimum(np.searchsorted(below, bounds), column.n_groups - 2))
            members = np.arange(column.n_groups) <= last[:, np.newaxis]
        else:
            often = np.argsort(-counts, kind="stable")[:n_each]
            members = np.arange(column.n_groups) == often[:, np.newaxis]
        part = np.zeros((len(members), rows.n_places))
        part[:, places] = members
        groups.append(part)
        owner += [c] * len(members)
    return np.vstack(groups), np.array(owner)


def _fill_missing(rows: _Rows, p: FloatArray, share: FloatArray) -> None:
    """Change how a component's rows without a value would be, in `p`.

    A component whose rows hardly ever have a value gets those of other components that its rows are
    like in all other columns.
    """
    log_p, log_share = np.log(p), np.log(share)
    log_p = np.vstack([log_p, np.zeros(len(share))])  # nothing is known of what does not count
    for c in np.flatnonzero(np.diff(rows.first) > rows.n_values).tolist():
        missing = int(rows.first[c + 1]) - 1
        values = slice(int(rows.first[c]), missing)
        known = p[values].sum(axis=0)
        lacking = np.flatnonzero(rows.places[c] == missing)
        lacking = lacking[:: -(-len(lacking) // ROWS_WITHOUT)]
        log_joint = np.tile(log_share, (len(lacking), 1))
        for other in np.delete(np.arange(len(rows.places)), c):
            log_joint += log_p[rows.places[other, lacking]]
        posterior = scipy.special.softmax(log_joint + log_p[missing], axis=1)
        posterior *= rows.share[lacking, np.newaxis]
        alike = scipy.special.softmax(log_joint + np.log(known), axis=1)
        expected = (alike @ (p[values] / known).T).T @ posterior  # (n_values, size)
        expected /= np.maximum(expected.sum(axis=0), np.finfo(np.float64).tiny)
        p[values] = (p[values] + SHARE_OF_OTHERS * expected) / (known + SHARE_OF_OTHERS)
        p[values] *= known
