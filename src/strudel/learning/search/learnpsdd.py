"""LearnPSDD (Liang, Bekker and Van den Broeck 2017): scored splits and clones, best first.

In:  a `GrowingCircuit` and the options of the search.
Out: `LearnPsddPolicy`, by which `ScoredSearch` finds the next operation.

A candidate is a split of an edge on a variable below it, or a clone: a copy of a sum for some of
the edges that lead to it. All are scored by what they add to the training log-likelihood, exactly
and from counts, per edge that they add to the circuit. A score is current until something changes
at the vtree nodes that it depends on.
"""

from __future__ import annotations

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.data.x_log_x import x_log_x_table
from strudel.learning.growing.growing_circuit import GrowingCircuit
from strudel.learning.growing.growth import ALIVE, N_EDGES, STAMP, Growth
from strudel.learning.growing.operations import Operation
from strudel.learning.search.learnpsdd_clones import MAX_PARENTS, score_clones
from strudel.learning.search.learnpsdd_splits import split_gains
from strudel.learning.search.scored_search import Policy
from strudel.learning.search_options import LearnPSDD

RENEW = 0.5  # when the best score has fallen to this share, find all scores again
LEAST = 1e-9  # gain of an operation, as a share of the rows' weight; smaller ones are rounding


def copied_levels(growing: GrowingCircuit, search: LearnPSDD) -> int:
    """Levels of sums that an operation copies beyond what it must."""
    depth = growing.vtree.depth
    wanted = {"minimal": 0, "depth": search.copy_levels, "complete": depth}[search.copies]
    return min(wanted, depth)


class LearnPsddPolicy(Policy):
    """Gains per edge, deeper copies included; a clone serves up to three edges."""

    EDGES_PER_CLONE = (MAX_PARENTS,)
    PREFERS_CLONES = False

    def __init__(self, growing: GrowingCircuit, search: LearnPSDD) -> None:
        self.growing = growing
        self.clones = search.clones
        self.min_rows = float(np.nextafter(0.0, 1.0))  # any
        self.n_levels = copied_levels(growing, search)
        self.per_edge = search.operation_score == "per_edge"
        self.both_sides = search.split_sides == "both"
        g = growing.growth
        self.least = LEAST * growing.train_total
        self.table = x_log_x_table(g.train_weight)
        self.rows = np.empty(len(g.train_weight), dtype=np.int32)
        self.changed = np.zeros(len(g.vtree), dtype=np.int64)  # when a vtree node last changed
        self.changed_below = np.zeros(len(g.vtree), dtype=np.int64)  # it, or anything below
        self._local = np.empty(0, dtype=np.int32)

    @property
    def local(self) -> IntArray:
        """Room to work in, for all nodes and edges; all NONE before and after."""
        g = self.growing.growth
        if len(self._local) < len(g.node) + len(g.edge):
            self._local = np.full(len(g.node) + len(g.edge), NONE, dtype=np.int32)
        return self._local

    def score_clones(self, nodes: AnyArray, node_score: FloatArray, node_edges: IntArray) -> None:
        """By gain, or gain per new edge, for the best few edges above."""
        g = self.growing.growth
        nodes = nodes[(g.node["uses"][nodes] > 1) & (g.node["first"][nodes] != NONE)]
        g.size[STAMP] += 1
        g.node["stamp"][nodes] = g.size[STAMP]
        for v in np.unique(g.node["vtree"][nodes]).tolist():
            score_clones(
                g, v, int(g.size[STAMP]), self.n_levels, self.per_edge, self.table, self.local,
                node_score, node_edges,
            )  # fmt: skip

    def score_splits(self, edges: AnyArray, edge_score: FloatArray, edge_place: IntArray) -> None:
        """By gain, or gain per new edge."""
        _score_splits(
            self.growing.growth, edges, self.both_sides, self.n_levels, self.per_edge, self.table,
            self.local, self.rows, edge_score, edge_place,
        )  # fmt: skip

    def clone(self, node: int, edges: IntArray) -> Operation:
        """For up to three edges, with the levels below."""
        first, *others = edges[edges != NONE].tolist()
        return Operation(first, target=node, n_levels=self.n_levels, others=tuple(others))

    def split(self, edge: int, place: int) -> Operation:
        """With the levels below."""
        return Operation(edge, place=place, n_levels=self.n_levels)

    def sums_to_score(self, first_node: int, first_edge: int) -> AnyArray:
        """Those that new edges lead to; notes where the circuit changed."""
        g, now = self.growing.growth, self.growing.n_splits
        new = np.arange(first_edge, int(g.size[N_EDGES]))
        new = new[g.edge["death"][new] == ALIVE]
        for v in np.unique(g.node["vtree"][g.edge["parent"][new]]).tolist():
            self.changed[v] = now
            while v != NONE and self.changed_below[v] != now:
                self.changed_below[v] = now
                v = int(g.vtree["parent"][v])
        below = np.concatenate([g.edge["left"][new], g.edge["right"][new]])
        return np.unique(below[below != NONE])

    def edges_to_score(self) -> AnyArray:
        """The living ones: the last score of one that died still counts for the level."""
        g = self.growing.growth
        is_alive = g.edge["death"][: int(g.size[N_EDGES])] == ALIVE
        return np.flatnonzero(is_alive)

    def clone_changed(self, node: int) -> int:
        """When an edge above, or anything below the sum, last changed."""
        g = self.growing.growth
        v = g.node["vtree"][node]
        return int(max(self.changed[g.vtree["parent"][v]], self.changed_below[v]))

    def split_changed(self, edge: int) -> int:
        """When anything below the edge last changed."""
        g = self.growing.growth
        return int(self.changed_below[g.node["vtree"][g.edge["parent"][edge]]])

    def must_renew(self, best: float, level: float, *, is_new: bool) -> bool:
        """When the best score has halved, or nothing gains any more."""
        return not is_new and best < max(RENEW * level, self.least)

    def new_level(self, best: float, level: float) -> float:
        """The best score."""
        return best

    def is_worth_it(self, best: float) -> bool:
        """Whether the gain is more than rounding."""
        return best >= self.least

    def state(self) -> dict[str, AnyArray]:
        """When each vtree node changed."""
        return {"changed": self.changed, "changed_below": self.changed_below}


@kernel
def _score_splits(
    g: Growth,
    edges: AnyArray,
    both_sides: bool,
    n_levels: int,
    per_edge: bool,
    table: FloatArray,
    local: IntArray,
    rows: IntArray,
    edge_score: FloatArray,
    edge_place: IntArray,
) -> None:
    """The best place of every edge, and its score."""
    for e in edges:
        places, gains, costs = split_gains(g, e, both_sides, n_levels, table, local, rows)
        for i in range(len(places)):
            # A split may leave fewer edges than there were: as good as one more.
            score = gains[i] / max(1.0, costs[i]) if per_edge else gains[i]
            if score > edge_score[e]:
                edge_score[e] = score
                edge_place[e] = places[i]
