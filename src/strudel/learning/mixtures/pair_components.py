"""Components of independent columns that say of every two columns what the rows say.

In:  for every row the value of each column, NONE where it is unknown, and the row's weight.
Out: `PairComponents`: a `BitMixture` on the structure of independent columns, and triples of
     columns that depend on one another beyond their pairs.

Whole rows are most likely with few, smooth components. A question is about two or three columns,
and of these few components forget a part of what the rows say. So hundreds of components are
learned from the tables of all pairs of columns instead: a pair of values is drawn by drawing a
component, and then both values from it. This is a factorisation of all pair tables at once, with
factors that are not negative; EM for it is two products of matrices a step (Lee and Seung 2001, for
the Kullback-Leibler divergence). No number in it is about a single row.

What three columns say together nearly always follows from their pairs. Where it surely does not, as
for an alarm that rings if one of two doors is open but not both, their table takes part as well.

An unknown value is one more value of its column: who did not say is like others who did not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from strudel._compiling import NO_LIMIT, Clock
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.learning.bits.compile import compile_column_tree
from strudel.learning.bits.flows import compute_flows
from strudel.learning.bits.likelihood import rows_log_likelihood
from strudel.learning.bits.mixture import BitMixture
from strudel.tables.column_codes import ColumnCode
from strudel.trees.column_tree import ColumnTree, column_tops
from strudel.trees.vtree import Vtree

MOST_ROWS = 100_000  # of larger tables, a sample
MOST_COUNTED = 4e9  # rows times squared columns, whose pairs are counted: some seconds
N_STEPS = 600
FURTHER = 0.8  # than EM goes: where it creeps, it arrives in half of the steps
FEWEST = 32  # components, however many values there are
WORK = 8e7  # components times squared values, at most: some seconds
PRIOR_ROWS = 0.0003  # virtual rows of every component, as the column's own shares
LEAST = 1e-9  # of these shares, in every component: passes are quick where no number is absurd
MOST_PARTS = 150  # groups of values among which triples are looked for
MOST_TRIPLES, MOST_CELLS = 10, 2500  # whose tables take part, and the cells of these tables
ROWS_OF_TRIPLES = 5000  # that are looked at
ROWS_WITHOUT = 500  # without a value of a column, that say which components are alike
SHARE_OF_OTHERS = 0.05  # how often its rows have a value, where a component and others say as much
LEAST_Z = 6.0  # what three columns say together is surely not what their pairs say
SIGNS = np.prod(np.meshgrid(*[[-1.0, 1.0]] * 3), axis=0)  # of the cells of three groups, in or out
TRIPLE = 5.0  # how often the table of a triple counts: there are many pairs for each


def learn_pair_components(
    values: IntArray,
    weight: FloatArray,
    columns: Sequence[ColumnCode],
    vtree: Vtree,
    *,
    n_components: int,
    rng: np.random.Generator,
    clock: Clock = NO_LIMIT,
) -> PairComponents | None:
    """At most so many components; `values` are `(n_columns, n_rows)`, `columns` all columns.

    None if time is up before they are learned.
    """
    most_rows = int(min(MOST_ROWS, MOST_COUNTED / len(columns) ** 2))
    if values.shape[1] > most_rows:
        drawn = rng.multinomial(most_rows, weight / weight.sum())
        values, weight = values[:, drawn > 0], drawn[drawn > 0].astype(np.float64)
    rows = _Rows.of(values, weight, columns)
    size = min(n_components, int(np.count_nonzero(rows.share)), rows.most_components)
    start = rows.places[:, rng.choice(len(rows.share), size, replace=False, p=rows.share)]
    with threadpool_limits(1, "blas"):  # the same sums on any number of threads
        found = _factors(rows, start, (), clock)
        if found is None:
            return None
        triples = _missed_triples(rows, *found, columns, rng)
        if triples:
            found = _factors(rows, start, [one.columns for one in triples], clock) or found
        p, share = found
        known = _fill_missing(rows, p, share)
    return PairComponents(_mixture(rows, p, share, known, columns, vtree), triples)


@dataclass(frozen=True, eq=False)
class Triple:
    """Three columns, a group of values of each, and rows that are in these groups or not."""

    columns: tuple[int, ...]
    literals: tuple[tuple[int, int], ...]  # the variable of each group, and its value in the group
    counts: AnyArray  # (2, 2, 2) of rows that know all three

    def is_lost_by(self, model: BitMixture) -> bool:
        """Whether a model surely says something else of how the three depend on one another."""
        evidence = np.full((8, model.n_vars), np.nan)
        for axis, (var, value) in enumerate(self.literals):
            is_in = np.arange(8) >> (2 - axis) & 1 == 1
            evidence[:, var] = np.where(is_in, value, 1 - value)
        said = np.exp(rows_log_likelihood(model, evidence)).reshape(2, 2, 2)
        return bool(_interaction(self.counts, said * self.counts.sum()) > LEAST_Z)


@dataclass(frozen=True, eq=False)
class PairComponents:
    """What was learned from pairs of columns."""

    mixture: BitMixture
    triples: list[Triple]


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of places: the values of all columns are numbered one after another."""

    places: AnyArray  # (n_columns, n_rows); a missing value is the last place of its column
    share: FloatArray  # (n_rows,) adds up to one; equal rows may be one
    n_rows: float  # that they stand for
    n_values: AnyArray  # (n_columns,)
    first: AnyArray  # (n_columns + 1,) the first place of every column

    @staticmethod
    def of(values: IntArray, weight: FloatArray, columns: Sequence[ColumnCode]) -> _Rows:
        n_values = np.array([column.n_values for column in columns])
        is_missing = values == NONE
        first = np.append(0, np.cumsum(n_values + is_missing.any(axis=1)))
        places = np.where(is_missing, n_values[:, np.newaxis], values) + first[:-1, np.newaxis]
        # A weight is a number of equal rows, unless weights are shares.
        n_rows = max(float(weight.sum()), float(len(weight)))
        return _Rows(places, weight / weight.sum(), n_rows, n_values, first)

    @property
    def n_places(self) -> int:
        return int(self.first[-1])

    @property
    def most_components(self) -> int:
        """Components that are learned in some seconds."""
        return max(FEWEST, int(WORK / self.n_places**2))

    @cached_property
    def alone(self) -> FloatArray:
        """The shares of each column's values, `(n_places, 1)`; half a row for one that none has."""
        every = np.tile(self.share, len(self.places))
        count = np.bincount(self.places.ravel(), every, minlength=self.n_places)
        return self.normalised(count[:, np.newaxis] + 0.5 / self.n_rows)

    @cached_property
    def pair(self) -> FloatArray:
        """The share of the rows with two values, for all values of two different columns."""
        found = np.zeros((self.n_places, self.n_places))
        for a, (top, bottom) in enumerate(pairwise(self.first.tolist())):
            for b, (low, high) in enumerate(pairwise(self.first[: a + 1].tolist())):
                shape = bottom - top, high - low
                flat = (self.places[a] - top) * shape[1] + self.places[b] - low
                counted = np.bincount(flat, self.share, minlength=shape[0] * shape[1])
                found[top:bottom, low:high] = counted.reshape(shape)
        return found + found.T

    def normalised(self, count: AnyArray) -> FloatArray:
        """Counts as probabilities of the places of each column."""
        total = np.add.reduceat(count, self.first[:-1], axis=0)
        return np.asarray(count / np.repeat(total, np.diff(self.first), axis=0))


def _factors(
    rows: _Rows, start: AnyArray, triples: Sequence[tuple[int, ...]], clock: Clock
) -> tuple[FloatArray, FloatArray] | None:
    """Probabilities of places `(n_places, size)` and shares of components, which start at rows.

    None if time is up.
    """
    n_columns, size = start.shape
    weight = np.ones((n_columns, 1))
    weight[sorted({c for triple in triples for c in triple})] = 3.0  # which they must tell apart
    count = np.repeat(rows.alone, size, axis=1)
    count[start, np.arange(size)] += weight
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
    sums: tuple[Any, ...]  # sparse, of the cells with each place

    @staticmethod
    def of(rows: _Rows, triples: Sequence[tuple[int, ...]]) -> _Tables:
        from scipy.sparse import csr_array

        places: list[AnyArray] = []
        shares: list[AnyArray] = []
        for triple in triples:
            cells, cell = np.unique(rows.places[list(triple)], axis=1, return_inverse=True)
            places.append(cells)
            shares.append(TRIPLE * np.bincount(cell.ravel(), rows.share))
        place, share = np.hstack(places), np.concatenate(shares)
        ones, number = np.ones(len(share)), np.arange(len(share))
        shape = rows.n_places, len(share)
        sums = tuple(csr_array((ones, (own, number)), shape) for own in place)
        return _Tables(place, share, sums)

    def expected(self, p: FloatArray, share: FloatArray) -> FloatArray:
        """The share of every place and component, `(n_places, size)`, given the cells."""
        joint = p[self.place[0]] * p[self.place[1]] * p[self.place[2]] * share
        joint *= (self.share / joint.sum(axis=1))[:, np.newaxis]
        return np.asarray(sum(own @ joint for own in self.sums))


def _missed_triples(
    rows: _Rows,
    p: FloatArray,
    share: FloatArray,
    columns: Sequence[ColumnCode],
    rng: np.random.Generator,
) -> list[Triple]:
    """Triples of columns that surely depend on one another in another way, the worst first.

    Values are grouped: the lower values of a number, or a frequent category, and all others. Three
    groups have eight cells, in whose logs the components and the rows may differ by chance.
    """
    n_columns = len(columns)
    if n_columns < 3 or n_columns > MOST_PARTS or not all(map(_has_literals, columns)):
        return []
    parts, own = _parts(rows, columns, 3 if 3 * n_columns <= MOST_PARTS else 1)
    n_looked_at = min(len(rows.share), ROWS_OF_TRIPLES)
    chosen = np.sort(rng.choice(len(rows.share), n_looked_at, replace=False))
    looked_at = rows.share[chosen]
    n_rows = rows.n_rows * looked_at.sum()
    inside = np.stack([part[rows.places[c, chosen]] for part, c in zip(parts, own, strict=True)])
    looked_at = looked_at / looked_at.sum()
    worst: dict[tuple[int, int, int], tuple[float, tuple[int, ...]]] = {}
    for k, column in enumerate(own.tolist()):
        later = np.flatnonzero(own > column)
        counted = _cells(inside, looked_at, k, later) * n_rows
        said = _cells(parts @ p, share, k, later) * n_rows
        z = _interaction(counted, said)
        for i, j in np.argwhere(z > LEAST_Z).tolist():
            a, b = own[later[[i, j]]].tolist()
            found = float(z[i, j]), (k, int(later[i]), int(later[j]))
            if a < b and found > worst.get((column, a, b), (0.0, ())):
                worst[column, a, b] = found
    kept: list[Triple] = []
    n_cells = 0
    for triple in sorted(worst, key=lambda triple: -worst[triple][0]):
        own_cells = np.unique(rows.places[list(triple)], axis=1).shape[1]
        if n_cells + own_cells <= MOST_CELLS and len(kept) < MOST_TRIPLES:
            n_cells += own_cells
            kept.append(_triple(rows, columns, parts, own, worst[triple][1]))
    return kept


def _interaction(counted: AnyArray, said: AnyArray) -> FloatArray:
    """How surely the dependence of three groups differs, in standard deviations.

    What is compared is the logarithm of the ratio of their odds ratios, which neither the shares
    of the groups change nor the dependence of any two of them. Eight cells on the first axes.
    """
    logs = np.log(counted + 0.5) - np.log(said + 0.5)
    variance = (1.0 / (counted + 0.5)).sum(axis=(0, 1, 2))
    return np.asarray(np.abs(np.tensordot(SIGNS, logs, axes=3)) / np.sqrt(variance))


def _triple(
    rows: _Rows,
    columns: Sequence[ColumnCode],
    parts: FloatArray,
    own: AnyArray,
    chosen: tuple[int, ...],
) -> Triple:
    """The triple of three groups, with counts of all rows."""
    literals, inside = [], np.zeros(len(rows.share), dtype=np.int64)
    knows = np.ones(len(rows.share), dtype=bool)
    for part in chosen:
        c = int(own[part])
        column, place = columns[c], rows.places[c]
        members = parts[part, rows.first[c] : rows.first[c] + column.n_values] > 0.0
        if column.is_ordered:  # bit j says that the value is j + 1 or more
            literals.append((column.start + int(np.count_nonzero(members)) - 1, 0))
        else:
            literals.append((column.start + int(np.argmax(members)), 1))
        inside = 2 * inside + (parts[part, place] > 0.0)
        knows &= place < rows.first[c] + column.n_values
    counts = np.bincount(inside[knows], rows.share[knows] * rows.n_rows, minlength=8)
    names = tuple(int(own[part]) for part in chosen)
    return Triple(names, tuple(literals), counts.reshape(2, 2, 2))


def _cells(chance: FloatArray, share: FloatArray, k: int, others: AnyArray) -> FloatArray:
    """Shares of group k and two others: each in or out, `(2, 2, 2, n_others, n_others)`.

    `chance` of every group, `(n_groups, n)`, in each of n parts with these shares.
    """
    found = np.empty((2, 2, 2, len(others), len(others)))
    inner = chance[others]
    total = inner @ share
    both = (inner * share) @ inner.T, (inner * share * chance[k]) @ inner.T
    mine = (inner * share) @ chance[k]
    for is_in, (two, one, of_all) in enumerate(
        (
            (both[0] - both[1], total - mine, float(share @ (1.0 - chance[k]))),
            (both[1], mine, float(share @ chance[k])),
        )
    ):
        found[is_in, 1, 1] = two
        found[is_in, 1, 0] = one[:, np.newaxis] - two
        found[is_in, 0, 1] = one - two
        found[is_in, 0, 0] = of_all - one[:, np.newaxis] - one + two
    return np.maximum(found, 0.0)


def _has_literals(column: ColumnCode) -> bool:
    """Whether one variable says of each value, or of all values above it, that it is there."""
    return column.is_ordered or np.array_equal(column.codewords, np.eye(column.n_values))


def _parts(rows: _Rows, columns: Sequence[ColumnCode], n_each: int) -> tuple[FloatArray, AnyArray]:
    """Groups of places, `(n_parts, n_places)` of 0 and 1, and the column of each."""
    found, own = [], []
    for c, column in enumerate(columns):
        places = slice(rows.first[c], rows.first[c] + column.n_values)
        counts = rows.alone[places, 0]
        if column.is_ordered:
            below = np.cumsum(counts) / counts.sum()
            bounds = np.array([0.5]) if n_each == 1 else np.linspace(0.25, 0.75, n_each)
            last = np.unique(np.minimum(np.searchsorted(below, bounds), column.n_values - 2))
            groups = np.arange(column.n_values) <= last[:, np.newaxis]
        else:
            often = np.argsort(-counts, kind="stable")[:n_each]
            groups = np.arange(column.n_values) == often[:, np.newaxis]
        part = np.zeros((len(groups), rows.n_places))
        part[:, places] = groups
        found.append(part)
        own += [c] * len(groups)
    return np.vstack(found), np.array(own)


def _fill_missing(rows: _Rows, p: FloatArray, share: FloatArray) -> FloatArray:
    """Change `p` to probabilities of values alone; how often values are known, `(n_columns, size)`.

    A component whose rows hardly ever have a value gets those of other components that its rows are
    like in all other columns.
    """
    from scipy.special import softmax

    known = np.ones((len(rows.places), len(share)))
    log_p, log_share = np.log(p), np.log(share)
    for c in np.flatnonzero(np.diff(rows.first) > rows.n_values).tolist():
        missing = int(rows.first[c + 1]) - 1
        values = slice(int(rows.first[c]), missing)
        known[c] = p[values].sum(axis=0)
        lacking = np.flatnonzero(rows.places[c] == missing)
        lacking = lacking[:: -(-len(lacking) // ROWS_WITHOUT)]
        log_joint = np.tile(log_share, (len(lacking), 1))
        for other in np.delete(np.arange(len(rows.places)), c):
            log_joint += log_p[rows.places[other, lacking]]
        own = softmax(log_joint + log_p[missing], axis=1)
        own *= rows.share[lacking, np.newaxis]
        alike = softmax(log_joint + np.log(known[c]), axis=1)
        expected = (alike @ (p[values] / known[c]).T).T @ own  # (n_values, size)
        expected /= np.maximum(expected.sum(axis=0), np.finfo(np.float64).tiny)
        p[values] = (p[values] + SHARE_OF_OTHERS * expected) / (known[c] + SHARE_OF_OTHERS)
    return known


def _mixture(
    rows: _Rows,
    p: FloatArray,
    share: FloatArray,
    known: FloatArray,
    columns: Sequence[ColumnCode],
    vtree: Vtree,
) -> BitMixture:
    """Components with these probabilities of values, as circuits on one structure."""
    alone = np.full(len(columns), NONE, dtype=np.int32)
    even = tuple(np.full((1, column.n_values), 1.0 / column.n_values) for column in columns)
    structure = compile_column_tree(ColumnTree(tuple(columns), alone, even), vtree)
    # Row j holds value j of every column, or its last: so the edge of each value is found.
    row = np.arange(rows.n_values.max())
    words = [column.codewords[np.minimum(row, column.n_values - 1)] for column in columns]
    active = compute_flows(structure, np.hstack(words)).active_edge
    edge_log_theta = np.zeros((structure.n_edges, len(share)))
    for c, top in enumerate(column_tops(vtree, columns).tolist()):
        own = p[rows.first[c] : rows.first[c] + rows.n_values[c]]
        edge = active[top, : columns[c].n_values]
        if len(edge) > 1:
            edge_log_theta[edge] = np.log(own / own.sum(axis=0))
    if rows.n_places == rows.n_values.sum():  # nothing is missing
        return BitMixture(structure, edge_log_theta, np.log(share))
    n_bits = [column.stop - column.start for column in columns]
    return BitMixture(structure, edge_log_theta, np.log(share), np.repeat(known, n_bits, axis=0))
