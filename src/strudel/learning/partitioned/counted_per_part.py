"""What can be asked of the rows of a part, and answers that add up.

In:  `Growth`, the circuit with the flows of the rows of one part.
Out: counts. The answers of all parts, added with `+`, are those of the whole table.

Every question has a method `of`. The counts are those that `learning/` makes its choices by, and
are found by its kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, CountArray, FloatArray, IntArray, WordArray
from strudel.data.bits import BitMatrix, pair_counts
from strudel.learning.growing.growth import STAMP, Growth, places_in, rows_through, undecided_places
from strudel.learning.search.best_first import LONG, count_pairs, histogram, pair_room, row_numbers
from strudel.learning.search.greedy import gather_columns

ALL_ROWS = np.uint64(2**64 - 1)  # no row has a higher number
FIRST_ROOM = 2**12  # pairs of edges; more when they are found


class Question(Protocol):
    """Something to be counted in every part."""

    def of(self, g: Growth) -> Any:
        """The answer of one part."""


@dataclass(frozen=True)
class PairCounts:
    """Pair counts of the variables undecided below an edge, on the rows through it."""

    edge: int

    def of(self, g: Growth) -> CountArray:
        """A matrix, variables in the order of places."""
        places = undecided_places(g, self.edge)
        v = g.node["vtree"][g.edge["parent"][self.edge]]
        rows = g.train_rows[: rows_through(g.train_active[v], self.edge, g.train_rows)]
        columns = np.zeros((len(places), -(-len(rows) // 64)), dtype=np.uint64)
        gather_columns(g.train_words, rows, places, columns)
        weight = g.train_weight[rows]
        is_unit = bool(np.all(weight == 1.0))
        return pair_counts(BitMatrix(columns, len(rows), None if is_unit else weight))


@dataclass(frozen=True)
class FractionalRows:
    """How many rows have a weight that is not whole."""

    def of(self, g: Growth) -> int:
        """A number."""
        return int(np.sum(g.train_weight != np.round(g.train_weight)))


@dataclass(frozen=True, eq=False)
class LowestNumbers:
    """The lowest numbers of the different rows through edges; one more than are looked at."""

    edges: tuple[int, ...]

    def of(self, g: Growth) -> Lowest:
        """They are sorted."""
        found = {e: _lowest_of(g.train_words[rows]) for e, rows in rows_by_edge(g, self.edges)}
        return Lowest(tuple(found[e] for e in self.edges))


@dataclass(frozen=True, eq=False)
class Lowest:
    """Sorted numbers, edge by edge."""

    numbers: tuple[WordArray, ...]

    def __add__(self, other: Lowest) -> Lowest:
        both = zip(self.numbers, other.numbers, strict=True)
        return Lowest(tuple(_lowest(np.concatenate(pair)) for pair in both))


def _lowest_of(words: WordArray) -> WordArray:
    numbers = row_numbers(words)
    # They look random: of very many, those below a bound will do, as a rule.
    low = numbers[numbers <= ALL_ROWS // np.uint64(1 + len(numbers) // (4 * LONG))]
    lowest = _lowest(low)
    return lowest if len(lowest) > LONG else _lowest(numbers)


def _lowest(numbers: WordArray) -> WordArray:
    return np.unique(numbers)[: LONG + 1]


@dataclass(frozen=True, eq=False)
class SplitCounts:
    """For edges, each with a vtree node below: how its rows with a one divide there.

    Keys are the position of the question and an active edge at the vtree node. Values are the
    weight of that edge's rows, and of those among them with a one at each place in the mask.
    """

    edge: IntArray  # (n,)
    limit: WordArray  # (n,) the highest number of a row that counts; one for each edge
    vtree_node: IntArray  # (n,)
    mask: WordArray  # (n, n_words)

    def of(self, g: Growth) -> Sums:
        """The histograms of all, one after another."""
        numbers: dict[int, list[int]] = {}
        for i, edge in enumerate(self.edge.tolist()):
            numbers.setdefault(edge, []).append(i)
        found: dict[int, tuple[AnyArray, FloatArray]] = {}
        local = np.full(len(g.edge), NONE, dtype=np.int32)
        column = np.empty(len(g.place_var), dtype=np.int32)
        first: Any = np.int32(0)
        for edge, rows in rows_by_edge(g, numbers):
            limit = self.limit[numbers[edge][0]]
            if limit != ALL_ROWS:
                rows = rows[row_numbers(g.train_words[rows]) <= limit]
            for i in numbers[edge]:
                u, mask = int(self.vtree_node[i]), self.mask[i]
                places = places_in(mask)
                column[places] = np.arange(len(places))
                edges, here, ones = histogram(
                    g, u, rows, mask, first, column, len(places), local, True
                )
                found[i] = (i << 32) | edges.astype(np.int64), np.column_stack([here, ones])
        return Sums.of([found[i] for i in range(len(self.edge))])


@dataclass(frozen=True, eq=False)
class ClonePairs:
    """Weights of the rows of sums by the edge above and the edge below: the key is both."""

    nodes: IntArray

    def of(self, g: Growth) -> Sums:
        """The pairs of all vtree nodes together."""
        g.size[STAMP] += 1
        g.node["stamp"][self.nodes] = g.size[STAMP]
        keys, counts = [np.empty(0, dtype=np.int64)], [np.empty(0)]
        room = pair_room(FIRST_ROOM)
        for v in np.unique(g.node["vtree"][self.nodes]):
            while (n_pairs := count_pairs(g, v, g.size[STAMP], room)) == NONE:
                room = pair_room(len(room.keys))
            slots = room.slots[:n_pairs]
            keys.append(room.keys[slots])
            counts.append(room.counts[slots])
            room.keys[slots] = NONE
        key, count = np.concatenate(keys), np.concatenate(counts)
        order = np.argsort(key)
        return Sums(key[order], np.ones(len(key), dtype=np.int64), count[order])


@dataclass(frozen=True, eq=False)
class Sums:
    """Rows of numbers by key; the same key always has equally many."""

    keys: AnyArray  # (n,) int64, rising
    width: AnyArray  # (n,) int64
    values: FloatArray  # all rows one after another

    @classmethod
    def of(cls, tables: list[tuple[AnyArray, FloatArray]]) -> Sums:
        """Tables with a key per row, the keys rising from one to the next."""
        keys = np.concatenate([key for key, _ in tables])
        width = np.repeat([t.shape[1] for _, t in tables], [len(t) for _, t in tables])
        return cls(keys, width, np.concatenate([table.ravel() for _, table in tables]))

    def __add__(self, other: Sums) -> Sums:
        keys, place = np.unique(np.concatenate([self.keys, other.keys]), return_inverse=True)
        old = np.concatenate([self.width, other.width])
        width = np.zeros(len(keys), dtype=np.int64)
        width[place] = old
        start = np.cumsum(width) - width
        moved = np.repeat(start[place] - (np.cumsum(old) - old), old)
        values = np.concatenate([self.values, other.values])
        total = np.zeros(int(width.sum()))
        np.add.at(total, moved + np.arange(len(values)), values)
        return Sums(keys, width, total)

    def tables(self, n: int) -> list[tuple[IntArray, FloatArray]]:
        """The active edges and their rows of numbers, for each of n questions of `SplitCounts`."""
        bounds = np.searchsorted(self.keys, np.arange(n + 1, dtype=np.int64) << 32)
        start = np.concatenate([[0], np.cumsum(self.width)])
        edges = (self.keys & 0xFFFFFFFF).astype(np.int32)
        return [
            (edges[a:b], self.values[start[a] : start[b]].reshape(b - a, -1) if b > a else _EMPTY)
            for a, b in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
        ]


_EMPTY = np.empty((0, 1))


def rows_by_edge(g: Growth, edges: Iterable[int]) -> Iterator[tuple[int, IntArray]]:
    """Every edge with its rows, one vtree node after the other."""
    slot = np.full(len(g.edge), NONE, dtype=np.int32)
    asked = np.unique(np.fromiter(edges, dtype=np.int32))
    vtree_node = g.node["vtree"][g.edge["parent"][asked]]
    for v in np.unique(vtree_node):
        here = asked[vtree_node == v]
        slot[here] = np.arange(len(here))
        stop = np.zeros(len(here) + 1, dtype=np.int64)
        _list_rows(g.train_active[v], slot, stop, g.train_rows)
        for edge, start, end in zip(here.tolist(), stop[:-1], stop[1:], strict=True):
            yield edge, g.train_rows[start:end]
        slot[here] = NONE


@kernel
def _list_rows(active: IntArray, slot: IntArray, stop: AnyArray, rows: IntArray) -> None:
    """List the rows of every edge that has a slot, edge by edge, and where each ends."""
    for e in active:
        if e != NONE and slot[e] != NONE:
            stop[slot[e] + 1] += 1
    for k in range(1, len(stop)):
        stop[k] += stop[k - 1]
    end = stop.copy()
    for s in range(len(active)):
        e = active[s]
        if e != NONE and slot[e] != NONE:
            rows[end[slot[e]]] = s
            end[slot[e]] += 1
