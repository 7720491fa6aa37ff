"""Best-first search: of all splits and clones, do the one that gains most for what it costs.

In:  a `GrowingCircuit`.
Out: `BestFirst.next()`, the operation to do, until none is worth it.

A split of an edge on a variable makes new choices; a clone lets an old choice depend on more. Both
are scored by the exact gain of training likelihood per new parameter (`gains.py`), and the
best of all is done. Scores of what an operation made or reached are found at once. All others are
kept as they are and looked at again when they come to the front, so that the winner is exact. Old
scores may also be too low, and all are found anew each time the best has fallen to a tenth.
"""

from __future__ import annotations

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, IntArray
from strudel.errors import JournalError
from strudel.learning.growing.growing_circuit import GrowingCircuit
from strudel.learning.growing.growth import ALIVE, N_EDGES, N_NODES, STAMP, Growth
from strudel.learning.growing.operations import Operation
from strudel.learning.journal import restore_arrays, take
from strudel.learning.search.gains import Gains

FALL = 0.1  # when the best score has fallen to this share, find all scores anew
SCORES = ("node_score", "node_edge", "node_time", "edge_score", "edge_place", "edge_time")
LOWEST = 0.1  # nats per parameter: below, nothing is learned that lasts


class BestFirst:
    """Knows the score of every split and clone of a growing circuit."""

    def __init__(
        self,
        growing: GrowingCircuit,
        *,
        clones: bool = True,
        min_rows: float = 20.0,
        gains: Gains | None = None,
        scores: dict[str, AnyArray] | None = None,
    ) -> None:
        self.growing = growing.without_queue()
        self.clones = clones
        self.min_rows = float(min_rows)
        self.gains = gains or Gains(growing)
        self.edge_score = np.empty(0)
        self.edge_place = np.empty(0, dtype=np.int32)
        self.edge_time = np.empty(0, dtype=np.int32)  # splits and clones when it was scored
        self.node_score = np.empty(0)
        self.node_edge = np.empty(0, dtype=np.int32)
        self.node_time = np.empty(0, dtype=np.int32)
        self._have_room()
        self._n_nodes = self._n_edges = 0  # how many were there after the last scoring
        self._level = np.inf
        if scores:
            self._restore(scores)
        else:
            self._score_all()

    def scores(self) -> dict[str, AnyArray]:
        """All that the next operations depend on, besides the circuit itself."""
        g = self.growing.growth
        self._have_room()
        used = {"node": int(g.size[N_NODES]), "edge": int(g.size[N_EDGES])}
        kept = {name: getattr(self, name)[: used[name[:4]]].copy() for name in SCORES}
        kept["scored"] = np.array([self._n_nodes, self._n_edges], dtype=np.int64)
        return kept | {"level": np.array([self._level])}

    def _restore(self, scores: dict[str, AnyArray]) -> None:
        """Go on with the scores of the same circuit in an earlier process."""
        g = self.growing.growth
        self._have_room()
        used = {"node": int(g.size[N_NODES]), "edge": int(g.size[N_EDGES])}
        restore_arrays(self, scores, {name: used[name[:4]] for name in SCORES})
        counts = take(scores, "scored", np.int64, (2,))
        latest = max(int(self.node_time.max(initial=0)), int(self.edge_time.max(initial=0)))
        is_within = np.all((counts >= 0) & (counts <= list(used.values())))
        if latest > self.growing.n_splits or not is_within:
            raise JournalError("the scores of a search are damaged")
        self._n_nodes, self._n_edges = counts.tolist()
        self._level = float(take(scores, "level", np.float64, (1,))[0])

    def next(self) -> Operation | None:
        """The operation with the best score, or None when none is worth it."""
        self._score_new()
        growing = self.growing
        g, now = growing.growth, growing.n_splits
        nodes, edges = slice(0, int(g.size[N_NODES])), slice(0, int(g.size[N_EDGES]))
        while True:
            n = int(np.argmax(self.node_score[nodes]))
            e = int(np.argmax(self.edge_score[edges]))
            best = max(self.node_score[n], self.edge_score[e])
            if best <= max(FALL * self._level, LOWEST):
                if self._level <= LOWEST:
                    return None
                self._level = FALL * self._level
                self._score_all()
            elif self.node_score[n] >= self.edge_score[e]:
                if self.node_time[n] == now:
                    return Operation(int(self.node_edge[n]), target=n)
                self._score_clones(np.array([n]))
            else:
                if self.edge_time[e] == now:
                    return Operation(e, place=int(self.edge_place[e]))
                self._score_splits(np.array([e]))

    def _score_all(self) -> None:
        """Find every score anew."""
        g = self.growing.growth
        self.node_score[:] = -np.inf
        self.edge_score[:] = -np.inf
        self._score_clones(np.arange(2 * len(g.place_var), g.size[N_NODES]))
        self._score_splits(self.growing.candidates())
        self._n_nodes, self._n_edges = int(g.size[N_NODES]), int(g.size[N_EDGES])
        self._level = min(self._level, max(self.node_score.max(), self.edge_score.max()))

    def _score_new(self) -> None:
        """Score what the last operations made, and the sums they gave new contexts to."""
        self._have_room()
        g = self.growing.growth
        if g.size[N_EDGES] == self._n_edges:
            return
        touched = np.empty(len(g.node), dtype=np.int32)
        touched = touched[: _touched(g, self._n_nodes, self._n_edges, touched)]
        self._score_clones(touched)
        self._score_splits(np.arange(self._n_edges, g.size[N_EDGES]))
        self._n_nodes, self._n_edges = int(g.size[N_NODES]), int(g.size[N_EDGES])

    def _score_clones(self, nodes: IntArray) -> None:
        """Score the best clone of each of these sums."""
        if not self.clones:
            return
        self.node_score[nodes] = -np.inf
        self.node_time[nodes] = self.growing.n_splits
        self.gains.of_clones(nodes, self.node_score, self.node_edge)

    def _score_splits(self, edges: AnyArray) -> None:
        """Score the best split of each of these edges."""
        g = self.growing.growth
        self.edge_score[edges] = -np.inf
        edge = g.edge[edges]
        is_open = edge["is_candidate"] & (edge["death"] == ALIVE) & (edge["train"] >= self.min_rows)
        edges = edges[is_open].astype(np.int32)
        self.edge_time[edges] = self.growing.n_splits
        self.gains.of_splits(edges, self.edge_score, self.edge_place)

    def _have_room(self) -> None:
        """Make the arrays as long as those of the growing circuit."""
        g = self.growing.growth
        n_nodes, n_edges = len(g.node), len(g.edge)
        if len(self.edge_score) == n_edges and len(self.node_score) == n_nodes:
            return
        for name, n, start in (
            ("node_score", n_nodes, -np.inf),
            ("node_edge", n_nodes, NONE),
            ("node_time", n_nodes, NONE),
            ("edge_score", n_edges, -np.inf),
            ("edge_place", n_edges, NONE),
            ("edge_time", n_edges, NONE),
        ):
            old = getattr(self, name)
            new = np.full(n, start, dtype=old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)


@kernel
def _touched(g: Growth, n_nodes: int, n_edges: int, touched: IntArray) -> int:
    """List the new sums and those below new edges; a sum with one edge hands the context down."""
    g.size[STAMP] += 1
    stamp = g.size[STAMP]
    n_touched = 0
    pending = [np.int64(n) for n in range(n_nodes, g.size[N_NODES])]
    for e in range(n_edges, g.size[N_EDGES]):
        pending.append(np.int64(g.edge["left"][e]))
        if g.edge["right"][e] != NONE:
            pending.append(np.int64(g.edge["right"][e]))
    while len(pending) > 0:
        n = pending.pop()
        if g.node["stamp"][n] == stamp or g.node["first"][n] == NONE:
            continue
        g.node["stamp"][n] = stamp
        if g.node["width"][n] > 1:
            touched[n_touched] = n
            n_touched += 1
        else:
            e = g.node["first"][n]
            pending.append(np.int64(g.edge["left"][e]))
            if g.edge["right"][e] != NONE:
                pending.append(np.int64(g.edge["right"][e]))
    return n_touched
