"""Best-first search: of all splits and clones, the one that gains most for what it costs.

In:  a `GrowingCircuit`.
Out: `BestFirstPolicy`, by which `ScoredSearch` finds the next operation.

A split of an edge on a variable makes new choices; a clone lets an old choice depend on more. Both
are scored by the exact gain of training likelihood per new parameter (`gains.py`). Every operation
may change every score, so only those that were found after the last one are current.
"""

from __future__ import annotations

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.learning.growing.growing_circuit import GrowingCircuit, Operation
from strudel.learning.growing.growth import N_EDGES, N_NODES, STAMP, Growth
from strudel.learning.search.gains import Gains
from strudel.learning.search.scored_search import Policy

FALL = 0.1  # when the best score has fallen to this share, find all scores again
LOWEST = 0.1  # nats per parameter: below, nothing is learned that lasts


class BestFirstPolicy(Policy):
    """Gains per parameter; a clone serves one edge."""

    PREFERS_CLONES = True

    def __init__(
        self,
        growing: GrowingCircuit,
        *,
        clones: bool = True,
        min_rows: float = 20.0,
        gains: Gains | None = None,
    ) -> None:
        self.growing = growing
        self.clones = clones
        self.min_rows = float(min_rows)
        self.gains = gains or Gains(growing)

    def score_clones(self, nodes: AnyArray, node_score: FloatArray, node_edges: IntArray) -> None:
        """By gain per new parameter, for the best edge above."""
        self.gains.of_clones(nodes, node_score, node_edges)

    def score_splits(self, edges: AnyArray, edge_score: FloatArray, edge_place: IntArray) -> None:
        """By gain per new parameter, with something for copied edges."""
        self.gains.of_splits(edges, edge_score, edge_place)

    def clone(self, node: int, edges: IntArray) -> Operation:
        """For one edge; only sums of one edge may lie between."""
        return Operation(int(edges), target=node)

    def split(self, edge: int, place: int) -> Operation:
        """With the copies that it must make."""
        return Operation(edge, place=place)

    def sums_to_score(self, first_node: int, first_edge: int) -> AnyArray:
        """The new sums, and those that new edges lead to."""
        g = self.growing.growth
        found = np.empty(len(g.node), dtype=np.int32)
        return found[: _sums_with_new_contexts(g, first_node, first_edge, found)]

    def edges_to_score(self) -> AnyArray:
        """All of them, so that those that died lose their score."""
        return np.arange(self.growing.growth.size[N_EDGES])

    def clone_changed(self, node: int) -> int:
        """With every operation."""
        return self.growing.n_splits

    def split_changed(self, edge: int) -> int:
        """With every operation."""
        return self.growing.n_splits

    def must_renew(self, best: float, level: float, *, is_new: bool) -> bool:
        """When the best score has fallen to a tenth, down to the lowest that counts."""
        return level > LOWEST and best <= max(FALL * level, LOWEST)

    def new_level(self, best: float, level: float) -> float:
        """A tenth of the last one, or less."""
        return min(FALL * level, best)

    def is_worth_it(self, best: float) -> bool:
        """Whether it gains enough per parameter."""
        return best > LOWEST


@kernel
def _sums_with_new_contexts(g: Growth, first_node: int, first_edge: int, found: IntArray) -> int:
    """List the new sums and those below new edges; a sum with one edge hands the context down."""
    g.size[STAMP] += 1
    stamp = g.size[STAMP]
    n_found = 0
    pending = [np.int64(n) for n in range(first_node, g.size[N_NODES])]
    for e in range(first_edge, g.size[N_EDGES]):
        pending.append(np.int64(g.edge[e]["left"]))
        if g.edge[e]["right"] != NONE:
            pending.append(np.int64(g.edge[e]["right"]))
    while len(pending) > 0:
        n = pending.pop()
        if g.node[n]["stamp"] == stamp or g.node[n]["first"] == NONE:
            continue
        g.node[n]["stamp"] = stamp
        if g.node[n]["width"] > 1:
            found[n_found] = n
            n_found += 1
        else:
            e = g.node[n]["first"]
            pending.append(np.int64(g.edge[e]["left"]))
            if g.edge[e]["right"] != NONE:
                pending.append(np.int64(g.edge[e]["right"]))
    return n_found
