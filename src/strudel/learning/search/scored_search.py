"""A search by scores: of all splits and clones, do the one with the best score.

In:  a `GrowingCircuit`.
Out: `ScoredSearch.next()`, the operation to do, until none is worth it.

Every edge has the score of its best split, every sum that of its best clone. What an operation made
or touched is scored at once. All other scores are kept as they are and found again when they come
first, so that the winner's is exact. Old scores may also be too low, so all are found again when
the best one has fallen far enough.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from strudel._types import NONE, AnyArray, IntArray
from strudel.learning.growing.growing_circuit import GrowingCircuit, Operation
from strudel.learning.growing.growth import ALIVE, N_EDGES, N_NODES

SCORES = ("node_score", "node_edges", "node_time", "edge_score", "edge_place", "edge_time")


class ScoredSearch(ABC):
    """Knows the score of every split and clone of a growing circuit.

    A subclass says what operations are worth, how they are carried out, and when a score is old.
    """

    EDGES_PER_CLONE: ClassVar[tuple[int, ...]] = ()  # shape, if a clone may serve several edges
    PREFERS_CLONES: ClassVar[bool]  # to splits with the same score

    def __init__(self, growing: GrowingCircuit, *, clones: bool, min_rows: float) -> None:
        self.growing = growing.without_queue()
        self.clones = clones  # whether sums may be cloned
        self.min_rows = min_rows  # weight of the rows of an edge that may be split
        self.edge_score = np.empty(0)
        self.edge_place = np.empty(0, dtype=np.int32)
        self.edge_time = np.empty(0, dtype=np.int64)  # operations before it was scored
        self.node_score = np.empty(0)
        self.node_edges = np.empty((0, *self.EDGES_PER_CLONE), dtype=np.int32)
        self.node_time = np.empty(0, dtype=np.int64)
        self._make_room()
        self._n_nodes = self._n_edges = 0  # how many there were after the last scoring
        self._all_scored = 0  # operations before all were scored
        self._level = np.inf  # the best score then
        self._score_all()

    @abstractmethod
    def _best_clones(self, nodes: AnyArray) -> None:
        """Fill the score of the best clone of each of these sums that has one, and its edges."""

    @abstractmethod
    def _best_splits(self, edges: AnyArray) -> None:
        """Fill the score of the best split of each of these edges that has one, and its place."""

    @abstractmethod
    def _clone(self, node: int, edges: IntArray) -> Operation:
        """The clone of a sum for one or several edges."""

    @abstractmethod
    def _split(self, edge: int, place: int) -> Operation:
        """The split of an edge."""

    @abstractmethod
    def _sums_to_score(self) -> AnyArray:
        """The sums to be scored at once, now that there are more nodes and edges than before."""

    @abstractmethod
    def _edges_to_score(self) -> AnyArray:
        """The edges whose scores change when all are found again."""

    @abstractmethod
    def _clone_changed(self, node: int) -> int:
        """After how many operations the score of a clone last changed, perhaps."""

    @abstractmethod
    def _split_changed(self, edge: int) -> int:
        """After how many operations the score of a split last changed, perhaps."""

    @abstractmethod
    def _must_renew(self, best: float) -> bool:
        """Whether the best score has fallen so far that all scores are to be found again."""

    @abstractmethod
    def _new_level(self, best: float) -> float:
        """The score to compare with from now on: the best one, when all were found again."""

    @abstractmethod
    def _is_worth_it(self, best: float) -> bool:
        """Whether an operation with this score should be done."""

    def next(self) -> Operation | None:
        """The operation with the best score, or None when none is worth it."""
        self._score_new()
        while True:
            n, e = int(np.argmax(self.node_score)), int(np.argmax(self.edge_score))
            clone, split = float(self.node_score[n]), float(self.edge_score[e])
            best = max(clone, split)
            if self._must_renew(best):
                self._score_all()
            elif not self._is_worth_it(best):
                return None
            elif clone > split or (clone == split and self.PREFERS_CLONES):
                if self._is_current_clone(n):
                    return self._clone(n, self.node_edges[n])
                self._score_clones(np.array([n]))
            else:
                if self._is_current_split(e):
                    return self._split(e, int(self.edge_place[e]))
                self._score_splits(np.array([e]))

    def _is_current_clone(self, n: int) -> bool:
        """Whether the score of a sum is what it would be now."""
        is_used = self.growing.growth.node["uses"][n] > 0
        return bool(is_used and self.node_time[n] >= self._clone_changed(n))

    def _is_current_split(self, e: int) -> bool:
        """Whether the score of an edge is what it would be now."""
        is_alive = self.growing.growth.edge["death"][e] == ALIVE
        return bool(is_alive and self.edge_time[e] >= self._split_changed(e))

    def _score_all(self) -> None:
        """Find every score again."""
        g = self.growing.growth
        self._score_clones(np.arange(2 * len(g.place_var), g.size[N_NODES]))
        self._score_splits(self._edges_to_score())
        best = max(self.node_score.max(), self.edge_score.max())
        self._level = self._new_level(float(best))
        self._all_scored = self.growing.n_splits
        self._n_nodes, self._n_edges = int(g.size[N_NODES]), int(g.size[N_EDGES])

    def _score_new(self) -> None:
        """Score what the last operations made, and the sums they touched."""
        self._make_room()
        g = self.growing.growth
        if g.size[N_EDGES] == self._n_edges:
            return
        self._score_clones(self._sums_to_score())
        self._score_splits(np.arange(self._n_edges, g.size[N_EDGES]))
        self._n_nodes, self._n_edges = int(g.size[N_NODES]), int(g.size[N_EDGES])

    def _score_clones(self, nodes: AnyArray) -> None:
        """Score the best clone of each of these sums."""
        if self.clones:
            self.node_score[nodes] = -np.inf
            self.node_time[nodes] = self.growing.n_splits
            self._best_clones(nodes)

    def _score_splits(self, edges: AnyArray) -> None:
        """Score the best split of each of these edges."""
        self.edge_score[edges] = -np.inf
        self.edge_time[edges] = self.growing.n_splits
        edge = self.growing.growth.edge[edges]
        has_rows = edge["train"] >= self.min_rows
        is_open = edge["is_candidate"] & (edge["death"] == ALIVE) & has_rows
        self._best_splits(edges[is_open])

    def _make_room(self) -> None:
        """Make the arrays as long as those of the growing circuit."""
        g = self.growing.growth
        for name in SCORES:
            old = getattr(self, name)
            length = len(g.node) if name.startswith("node") else len(g.edge)
            if length > len(old):
                empty = -np.inf if name.endswith("score") else NONE
                new = np.full((length, *old.shape[1:]), empty, dtype=old.dtype)
                new[: len(old)] = old
                setattr(self, name, new)
