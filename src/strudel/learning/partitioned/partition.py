"""The rows of one part of a table, with their flows through a circuit that grows elsewhere.

In:  packed rows, the first circuit, and the splits and clones made so far.
Out: the weight of the rows through some edges, and answers to questions about them. The answers of
     all parts, added with `+`, are those of the whole table.

A part carries out every operation itself, by the kernels of `learning/`, on its own copy of the
circuit: nodes and edges are numbered by the operations alone, not by the rows, so all copies agree.
It knows how many it has done. One that was made anew, or put back in time, catches up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, CountArray, FloatArray, IntArray, WordArray
from strudel.circuits.circuit import Circuit
from strudel.data.bits import BitMatrix
from strudel.data.counts import pair_counts
from strudel.learning.growing.counts import places_in, undecided_places
from strudel.learning.growing.growing_circuit import GrowingCircuit
from strudel.learning.growing.growth import STAMP, Growth, rows_through
from strudel.learning.growing.operations import Operation, apply
from strudel.learning.partitioned.engines import file_backed
from strudel.learning.search.best_first_clones import count_pairs, pair_room
from strudel.learning.search.best_first_splits import LONG, histogram, row_numbers
from strudel.learning.search.information_scores import gather_columns

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
                edges, here, ones = histogram(g, u, rows, mask, first, column, len(places), local)
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


class Partition:
    """Rows that move with every operation."""

    def __init__(self, rows: BitMatrix, circuit: Circuit, is_valid: bool) -> None:
        self.is_valid = is_valid  # validation rows are only counted
        nothing = BitMatrix(np.zeros((rows.n_vars, 0), dtype=np.uint64), 0)
        self.growing = GrowingCircuit(circuit, rows, nothing).without_queue()
        self.n_done = 0
        self._lock = Lock()

    def catch_up(self, request: Request) -> bool:
        """Do what this part has not done; False if the request begins too late."""
        if self.n_done < request.first:
            return False
        for operation in request.operations[self.n_done - request.first :]:
            apply(self.growing, operation)
            self.n_done += 1
        return True

    def __getstate__(self) -> dict[str, Any]:
        # A copy, between two operations: a worker may write a part to disk while it is at work.
        with self._lock:
            kept = {name: value for name, value in self.__dict__.items() if name != "_lock"}
            return deepcopy(kept)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = Lock()

    def __sizeof__(self) -> int:
        return sum(array.nbytes for array in self.growing.growth)

    def to_files(self) -> None:
        """Keep the active edges, four bytes per row and vtree node, on disk."""
        growth = self.growing.growth
        self.growing.growth = growth._replace(train_active=file_backed(growth.train_active))


@dataclass(frozen=True, eq=False)
class Request:
    """What is asked of every part at once."""

    first: int  # number of the first operation sent
    operations: list[Operation]
    edges: IntArray  # whose counts are wanted
    questions: tuple[Question, ...] = ()

    def __sizeof__(self) -> int:
        arrays = [self.edges, *(value for one in self.questions for value in vars(one).values())]
        return 100 * len(self.operations) + sum(getattr(array, "nbytes", 0) for array in arrays)


@dataclass(frozen=True, eq=False)
class Answer:
    """Counts of one part, or the sum of several."""

    count: CountArray  # (2, n_edges_asked) of training and of validation rows
    found: tuple[Any, ...] = ()  # for every question; nothing of validation rows
    n_behind: int = 0  # parts that lack operations sent before

    def __add__(self, other: Answer) -> Answer:
        if self.n_behind or other.n_behind:
            return Answer(np.zeros((2, 0)), (), self.n_behind + other.n_behind)
        if not self.found or not other.found:
            return Answer(self.count + other.count, self.found or other.found)
        found = tuple(a + b for a, b in zip(self.found, other.found, strict=True))
        return Answer(self.count + other.count, found)


def answer(partition: Partition, request: Request) -> Answer:
    """Do the operations of a request, then count."""
    with partition._lock:  # a task that is run again must not meet itself
        if not partition.catch_up(request):
            return Answer(np.zeros((2, 0)), (), 1)
        g = partition.growing.growth
        count = np.zeros((2, len(request.edges)))
        count[int(partition.is_valid)] = g.edge["train"][request.edges]
        asked = () if partition.is_valid else request.questions
        return Answer(count, tuple(question.of(g) for question in asked))
