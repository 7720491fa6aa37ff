"""LearnPSDD (Liang, Bekker and Van den Broeck 2017): scored splits and clones, best first.

In:  a `GrowingCircuit` and the options of the search.
Out: `LearnPsdd.next()`, the operation to do, until none gains anything.

A candidate is a split of an edge on a variable below it, or a clone: a copy of a sum for some of
the edges that lead to it. All are scored by what they add to the training log-likelihood, exactly
and from counts, per edge that they add to the circuit. Scores wait in two arrays, for every edge
that of its best variable and for every sum that of its best clone. An operation changes some of
them: those of what it made are computed at once, others when they come first; and all of them
whenever the best score has halved.
"""

from __future__ import annotations

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.data.x_log_x import x_log_x_table
from strudel.errors import JournalError
from strudel.learning.growing.growing_circuit import GrowingCircuit
from strudel.learning.growing.growth import ALIVE, N_EDGES, N_NODES, STAMP, Growth
from strudel.learning.growing.operations import Operation
from strudel.learning.journal import restore_arrays, take
from strudel.learning.search.learnpsdd_clones import MAX_PARENTS, score_clones
from strudel.learning.search.learnpsdd_splits import split_gains
from strudel.learning.searches import LearnPSDD

RENEW = 0.5  # compute all scores anew when the best one has fallen to this share
SCORES = ("node_score", "node_time", "node_parents", "edge_score", "edge_time", "edge_place")
LEAST = 1e-9  # gain of an operation, as a share of the rows' weight; smaller ones are rounding


def copied_levels(growing: GrowingCircuit, search: LearnPSDD) -> int:
    """Levels of sums that an operation copies beyond what it must."""
    depth = growing.vtree.depth
    wanted = {"minimal": 0, "depth": search.copy_levels, "complete": depth}[search.copies]
    return min(wanted, depth)


class LearnPsdd:
    """Knows the score of every split and clone of a growing circuit."""

    def __init__(
        self,
        growing: GrowingCircuit,
        search: LearnPSDD,
        scores: dict[str, AnyArray] | None = None,
    ) -> None:
        self.growing = growing.without_queue()
        self.clones = search.clones
        self.n_levels = copied_levels(growing, search)
        self.per_edge = search.operation_score == "per_edge"
        self.both_sides = search.split_sides == "both"
        g = growing.growth
        self.table = x_log_x_table(g.train_weight)
        self.rows = np.empty(len(g.train_weight), dtype=np.int32)
        self.changed = np.zeros(len(g.vtree), dtype=np.int64)  # when a vtree node last changed
        self.changed_below = np.zeros(len(g.vtree), dtype=np.int64)  # it, or anything below
        self.level = np.inf  # the best score when all were last computed
        self.all_scored = 0  # when that was
        self.edge_score = np.empty(0)
        self.node_score = np.empty(0)
        self._n_edges = int(g.size[N_EDGES])  # how many there were after the last scoring
        self._make_room()
        if scores:
            self._restore(scores)
        else:
            self._score_all()

    def scores(self) -> dict[str, AnyArray]:
        """All that the next operations depend on, besides the circuit itself."""
        self._make_room()
        kept = {name: getattr(self, name)[:n].copy() for name, n in self._used().items()}
        kept["scored"] = np.array([self.all_scored, self._n_edges], dtype=np.int64)
        return kept | {"level": np.array([self.level])}

    def _restore(self, scores: dict[str, AnyArray]) -> None:
        """Go on with the scores of the same circuit in an earlier process."""
        self._make_room()
        restore_arrays(self, scores, self._used())
        counts = take(scores, "scored", np.int64, (2,))
        n_edges = int(self.growing.growth.size[N_EDGES])
        times = ("changed", "changed_below", "node_time", "edge_time")
        latest = max(int(getattr(self, name).max(initial=0)) for name in times)
        # A score from the future would count as stale for ever.
        is_damaged = latest > self.time or not np.all(
            (counts >= 0) & (counts <= [self.time, n_edges])
        )
        if is_damaged:
            raise JournalError("the scores of a search are damaged")
        self.all_scored, self._n_edges = counts.tolist()
        self.level = float(take(scores, "level", np.float64, (1,))[0])

    def _used(self) -> dict[str, int]:
        """How much of every array counts."""
        g = self.growing.growth
        n_used = {"node": int(g.size[N_NODES]), "edge": int(g.size[N_EDGES])}
        used = {name: n_used[name[:4]] for name in SCORES}
        return used | {"changed": len(g.vtree), "changed_below": len(g.vtree)}

    def next(self) -> Operation | None:
        """The best operation, or None when none gains anything."""
        self._score_new()
        least = LEAST * self.growing.train_total
        while True:
            n, e = int(np.argmax(self.node_score)), int(np.argmax(self.edge_score))
            is_clone = self.node_score[n] > self.edge_score[e]
            top = float(self.node_score[n] if is_clone else self.edge_score[e])
            if self.all_scored < self.time and top < max(RENEW * self.level, least):
                self._score_all()
            elif top < least:
                return None
            elif is_clone and self._is_fresh_clone(n):
                return self.clone_of(n)
            elif not is_clone and self._is_fresh_split(e):
                return Operation(e, place=int(self.edge_place[e]), n_levels=self.n_levels)

    def clone_of(self, n: int) -> Operation:
        """The best clone of a sum."""
        first, *others = self.node_parents[n][self.node_parents[n] != NONE].tolist()
        return Operation(first, target=n, n_levels=self.n_levels, others=tuple(others))

    @property
    def time(self) -> int:
        """Operations so far."""
        return self.growing.n_splits

    def _is_fresh_clone(self, n: int) -> bool:
        """Whether the score of a sum is what it would be now; else computes it."""
        g = self.growing.growth
        v = g.node["vtree"][n]
        changed = max(self.changed[g.vtree["parent"][v]], self.changed_below[v])
        if g.node["uses"][n] == 0:
            self.node_score[n] = -np.inf
        elif self.node_time[n] >= changed:
            return True
        else:
            self._score_sums(np.array([n]))
        return False

    def _is_fresh_split(self, e: int) -> bool:
        """Whether the score of an edge is what it would be now; else computes it."""
        g = self.growing.growth
        if g.edge["death"][e] != ALIVE:
            self.edge_score[e] = -np.inf
        elif self.edge_time[e] >= self.changed_below[g.node["vtree"][g.edge["parent"][e]]]:
            return True
        else:
            self._score_edges(np.array([e]))
        return False

    def _score_new(self) -> None:
        """Note what changed since the last scoring, and score what is new and what it leads to."""
        self._make_room()
        g = self.growing.growth
        new = np.arange(self._n_edges, int(g.size[N_EDGES]))
        self._n_edges = int(g.size[N_EDGES])
        new = new[g.edge["death"][new] == ALIVE]
        for v in np.unique(g.node["vtree"][g.edge["parent"][new]]).tolist():
            self.changed[v] = self.time
            while v != NONE and self.changed_below[v] != self.time:
                self.changed_below[v] = self.time
                v = int(g.vtree["parent"][v])
        below = np.concatenate([g.edge["left"][new], g.edge["right"][new]])
        self._score_sums(np.unique(below[below != NONE]))
        self._score_edges(new)

    def _score_all(self) -> None:
        g = self.growing.growth
        self._score_sums(np.arange(int(g.size[N_NODES])))
        self._score_edges(np.flatnonzero(g.edge["death"][: int(g.size[N_EDGES])] == ALIVE))
        self.level = max(self.node_score.max(), self.edge_score.max())
        self.all_scored = self.time

    def _score_edges(self, edges: AnyArray) -> None:
        g = self.growing.growth
        self.edge_score[edges] = -np.inf
        self.edge_time[edges] = self.time
        edges = edges[g.edge["is_candidate"][edges] & (g.edge["train"][edges] > 0.0)]
        _score_edges(
            g, edges, self.both_sides, self.n_levels, self.per_edge, self.table, self.local,
            self.rows, self.edge_score, self.edge_place,
        )  # fmt: skip

    def _score_sums(self, nodes: AnyArray) -> None:
        if not self.clones:
            return
        g = self.growing.growth
        self.node_score[nodes] = -np.inf
        self.node_time[nodes] = self.time
        nodes = nodes[(g.node["uses"][nodes] > 1) & (g.node["first"][nodes] != NONE)]
        g.size[STAMP] += 1
        g.node["stamp"][nodes] = g.size[STAMP]
        for v in np.unique(g.node["vtree"][nodes]).tolist():
            score_clones(
                g, v, int(g.size[STAMP]), self.n_levels, self.per_edge, self.table, self.local,
                self.node_score, self.node_parents,
            )  # fmt: skip

    def _make_room(self) -> None:
        """Scores for as many nodes and edges as the circuit has room for."""
        g = self.growing.growth
        n_nodes, n_edges = len(g.node), len(g.edge)
        if n_nodes == len(self.node_score) and n_edges == len(self.edge_score):
            return
        old = dict(self.__dict__)
        self.node_score, self.edge_score = np.full(n_nodes, -np.inf), np.full(n_edges, -np.inf)
        self.node_time = np.zeros(n_nodes, dtype=np.int64)
        self.edge_time = np.zeros(n_edges, dtype=np.int64)
        self.node_parents = np.full((n_nodes, MAX_PARENTS), NONE, dtype=np.int32)
        self.edge_place = np.full(n_edges, NONE, dtype=np.int32)
        self.local = np.full(n_nodes + n_edges, NONE, dtype=np.int32)
        for name in SCORES:
            if name in old:
                getattr(self, name)[: len(old[name])] = old[name]


@kernel
def _score_edges(
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
