"""The growing circuit whose rows are elsewhere, in partitions.

In:  the first circuit, and the parts of the training and validation rows.
Out: `PartitionedCircuit`, which grows like `GrowingCircuit` and never sees a row.

A split changes the circuit here at once. What it needs to know of the rows, the new counts of the
edges it touched, is asked of all parts together with what the next splits will want to know: pair
counts of the edges that come next. As long as a split does not touch an edge, its rows and their
pair counts stay what they were, so all is exactly as if it had been asked in turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from strudel._types import NONE, AnyArray, CountArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.data.bits import BitMatrix
from strudel.learning.growing.growing_circuit import GrowingCircuit, Operation
from strudel.learning.growing.growth import (
    ALIVE,
    N_EDGES,
    N_HEAP,
    N_NODES,
    Growth,
    refresh,
    undecided_places,
)
from strudel.learning.growing.split import close_split, open_split
from strudel.learning.partitioned.counted_per_part import PairCounts, Question
from strudel.learning.partitioned.engines import Engine
from strudel.learning.partitioned.partition import Answer, Partition, Request, answer
from strudel.learning.search.greedy import best_place
from strudel.trees.mutual_information import pairwise_mutual_information

AHEAD = 16  # edges whose pair counts are asked for together
SENT_AGAIN = 5  # how often operations are sent from the beginning before giving up


class PartitionedCircuit(GrowingCircuit):
    """A growing circuit with its rows on an engine."""

    def __init__(
        self,
        circuit: Circuit,
        engine: Engine,
        train: list[object],
        valid: list[object],
        totals: tuple[float, float],
        *,
        pseudocount: float = 1.0,
        asks_pairs: bool = True,
    ) -> None:
        nothing = BitMatrix(np.zeros((circuit.n_vars, 0), dtype=np.uint64), 0)
        super().__init__(circuit, nothing, nothing, pseudocount=pseudocount)
        self.engine = engine
        self._asks_pairs = asks_pairs
        self.parts = engine.place(Partition, train, circuit, False)
        self.parts += engine.place(Partition, valid, circuit, True)
        self.train_total, self.valid_total = totals
        self.operations: list[Operation] = []
        self._known: dict[int, CountArray] = {}  # pair counts by edge
        self._update(np.arange(circuit.n_edges, dtype=np.int32), ())
        self._refresh_all()

    def split(self, edge: int, place: int) -> None:
        """Split `edge` on the variable at `place`, here and in every part."""
        first_edge = int(self.growth.size[N_EDGES])
        rows_moved = self.growth.edge["train"][edge]
        while True:
            ones, n_found, first_copy = open_split(self.growth, edge, place)
            if ones != NONE:
                break
            self._double()
        g = self.growth
        copied = (_edges_of(g, n) for n in g.node_found[:n_found].tolist())
        new = np.arange(first_edge, g.size[N_EDGES], dtype=np.int32)
        touched = np.concatenate([np.array([edge], dtype=np.int32), *copied, new])
        self.operations.append(Operation(edge, place))
        # The new edges have most of the rows of the old one: their turn comes soon.
        halves = (ones, ones + 1)
        self._update(touched, tuple(e for e in halves if self.growth.edge["is_candidate"][e]))
        close_split(self.growth, ones, n_found, first_copy, self.pseudocount)
        self.rows_moved = int(rows_moved)

    def clone(self, edge: int, target: int) -> None:
        """Give `edge` its own copy of the sum `target`, here and in every part."""
        g = self.growth
        first_node, first_edge = int(g.size[N_NODES]), int(g.size[N_EDGES])
        rows_moved = g.edge["train"][edge]
        sums = _sums_between(g, edge, target)
        super().clone(edge, target)  # no rows: only the counts of what it copies must be asked for
        g = self.growth
        new = np.arange(first_edge, g.size[N_EDGES], dtype=np.int32)
        self.operations.append(Operation(edge, target=target))
        self._update(np.concatenate([*(_edges_of(g, n) for n in sums), new]), ())
        for n in (*sums, *range(first_node, int(g.size[N_NODES]))):
            refresh(g, n, self.pseudocount)
        self.rows_moved = int(rows_moved)

    def ask(self, *questions: Question) -> tuple[Any, ...]:
        """What the training rows of all parts answer."""
        return self._ask(np.zeros(0, dtype=np.int32), questions).found

    def information(self, edge: int, alpha: float) -> AnyArray:
        """How much each undecided variable below an edge tells about the others, added up."""
        if edge not in self._known:
            self._update(np.zeros(0, dtype=np.int32), (edge, *self._next_edges(edge)))
        total = float(self.growth.edge["train"][edge])
        return pairwise_mutual_information(self._known[edge], total, alpha).sum(axis=1)

    @contextmanager
    def without_pairs(self) -> Iterator[None]:
        """Do not look ahead, while splits are known anyway."""
        before, self._asks_pairs = self._asks_pairs, False
        try:
            yield
        finally:
            self._asks_pairs = before

    def _next_edges(self, edge: int) -> list[int]:
        """The edges of the heap that will probably be split soon, in about their order."""
        g = self.growth
        heap = g.heap[: min(int(g.size[N_HEAP]), 8 * AHEAD)]
        found: list[int] = []
        for entry in heap[np.argsort(-heap["key"], kind="stable")]:
            e = int(entry["edge"])
            is_current = g.edge["death"][e] == ALIVE and g.edge["train"][e] == entry["key"]
            if is_current and e != edge and e not in self._known and e not in found:
                found.append(e)
        return found[: AHEAD - 1]

    def _update(self, edges: IntArray, pairs: tuple[int, ...]) -> None:
        """Ask all parts for the new counts of edges, and for pair counts to come."""
        if not self._asks_pairs:
            pairs = ()
        found = self._ask(edges, tuple(PairCounts(edge) for edge in pairs))
        self.growth.edge["train"][edges] = found.count[0]
        self.growth.edge["valid"][edges] = found.count[1]
        for e in edges.tolist():
            self._known.pop(e, None)
        self._known.update(zip(pairs, found.found, strict=True))

    def _ask(self, edges: IntArray, questions: tuple[Question, ...]) -> Answer:
        """The sum of the answers of all parts, each brought up to date."""
        # The last operation is new to all. A part that was made again says so, and gets all.
        first = max(len(self.operations) - 1, 0)
        for _ in range(SENT_AGAIN):
            request = Request(first, self.operations[first:], edges, questions)
            found: Answer = self.engine.total(answer, self.parts, request)
            if not found.n_behind:
                return found
            first = 0
        raise RuntimeError(
            f"Partitions were lost {SENT_AGAIN} times while they were computed again. Workers may "
            "be short of memory: use smaller partitions, or give structure_rows."
        )


def _sums_between(g: Growth, edge: int, target: int) -> list[int]:
    """The sums from an edge down to one below it, which is the last; the others have one edge."""
    place = g.vtree["first"][g.node["vtree"][target]]
    sums: list[int] = []
    while not sums or sums[-1] != target:
        e = int(g.node["first"][sums[-1]]) if sums else edge
        v = g.node["vtree"][g.edge["parent"][e]]
        is_left = place < g.vtree["last"][g.vtree["left"][v]]
        sums.append(int(g.edge["left" if is_left else "right"][e]))
    return sums


def _edges_of(g: Growth, n: int) -> IntArray:
    """The edges of a sum."""
    edges = []
    e = int(g.node["first"][n])
    while e != NONE:
        edges.append(e)
        e = int(g.edge["next"][e])
    return np.array(edges, dtype=np.int32)


def pick_place(growing: PartitionedCircuit, edge: int, alpha: float) -> int:
    """The place of the variable that tells most about the others (vMI), as in memory."""
    g = growing.growth
    scores = growing.information(edge, alpha)
    return int(best_place(g.place_var, undecided_places(g, edge), scores, growing.train_total))
