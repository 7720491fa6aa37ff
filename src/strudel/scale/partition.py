"""The rows of one part of a table, with their flows through a circuit that grows elsewhere.

In:  packed rows, the first circuit, and the splits made so far.
Out: the weight of the rows through some edges, and pair counts of the rows through others.

A part carries out every split itself, by the kernels of `learning/`, on its own copy of the
circuit: nodes and edges are numbered by the splits alone, not by the rows, so all copies agree. It
knows how many splits it has done. One that was made anew, or put back in time, catches up.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from strudel._types import CountArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.data.bits import BitMatrix
from strudel.data.counts import pair_counts
from strudel.learning.growing import GrowingCircuit
from strudel.learning.growth import Growth, rows_through
from strudel.learning.heuristics import undecided_places
from strudel.learning.information_scores import gather_columns
from strudel.scale.out_of_core import file_backed


class Partition:
    """Rows that move with every split."""

    def __init__(self, rows: BitMatrix, circuit: Circuit, is_valid: bool) -> None:
        self.is_valid = is_valid  # validation rows are only counted
        nothing = BitMatrix(np.zeros((rows.n_vars, 0), dtype=np.uint64), 0)
        self.growing = GrowingCircuit(circuit, rows, nothing).without_queue()
        self.n_done = 0
        self._lock = Lock()

    def catch_up(self, request: Request) -> bool:
        """Do the splits that this part has not done; False if the request begins too late."""
        if self.n_done < request.first:
            return False
        for edge, place in request.splits[self.n_done - request.first :]:
            self.growing.split(int(edge), int(place))
            self.n_done += 1
        return True

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

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

    first: int  # number of the first split sent
    splits: IntArray  # (n, 2) edges and places, in order
    edges: IntArray  # whose counts are wanted
    pairs: tuple[int, ...] = ()  # edges whose pair counts are wanted


@dataclass(frozen=True, eq=False)
class Answer:
    """Counts of one part, or the sum of several."""

    count: CountArray  # (2, n_edges_asked) of training and of validation rows
    pairs: tuple[CountArray, ...] = ()  # (m, m) for every edge asked; none of validation rows
    n_behind: int = 0  # parts that lack splits sent before

    def __add__(self, other: Answer) -> Answer:
        if self.n_behind or other.n_behind:
            return Answer(np.zeros((2, 0)), (), self.n_behind + other.n_behind)
        if not self.pairs or not other.pairs:
            return Answer(self.count + other.count, self.pairs or other.pairs)
        pairs = tuple(a + b for a, b in zip(self.pairs, other.pairs, strict=True))
        return Answer(self.count + other.count, pairs)


def answer(partition: Partition, request: Request) -> Answer:
    """Do the splits of a request, then count."""
    with partition._lock:  # a task that is run again must not meet itself
        if not partition.catch_up(request):
            return Answer(np.zeros((2, 0)), (), 1)
        g = partition.growing.growth
        count = np.zeros((2, len(request.edges)))
        count[int(partition.is_valid)] = g.edge["train"][request.edges]
        asked = () if partition.is_valid else request.pairs
        return Answer(count, tuple(_pair_counts(g, edge) for edge in asked))


def _pair_counts(g: Growth, edge: int) -> CountArray:
    """Pair counts of the variables undecided below an edge, on the rows through it."""
    places = np.empty(len(g.place_var), dtype=np.int32)
    places = places[: undecided_places(g, edge, places)]
    v = g.node["vtree"][g.edge["parent"][edge]]
    rows = g.train_rows[: rows_through(g.train_active[v], edge, g.train_rows)]
    columns = np.zeros((len(places), -(-len(rows) // 64)), dtype=np.uint64)
    gather_columns(g.train_words, rows, places, columns)
    weight = g.train_weight[rows]
    is_unit = bool(np.all(weight == 1.0))
    return pair_counts(BitMatrix(columns, len(rows), None if is_unit else weight))
