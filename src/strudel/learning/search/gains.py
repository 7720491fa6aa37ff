"""Gains for best-first search: how much a clone or a split would raise the training likelihood.

In:  a `GrowingCircuit`; sums at a vtree node, or edges.
Out: `Gains`: the best context of every sum, the best variable of every edge, each with its exact
     gain per new parameter, from counts alone (`learning/growing/growth.py`).
"""

from __future__ import annotations

import numpy as np

from strudel._numba import run_blocks
from strudel._types import AnyArray, FloatArray, IntArray
from strudel.data.x_log_x import x_log_x_table
from strudel.learning.growing.growing_circuit import GrowingCircuit
from strudel.learning.growing.growth import STAMP
from strudel.learning.search.best_first_clones import clone_room, pair_room, score_clones
from strudel.learning.search.best_first_splits import (
    LONG,
    row_ranks,
    score_splits,
    split_room,
)

LEAST_GAIN = 3.0  # nats per parameter: copies that gain less are not counted to a split
MUCH = 2e6  # rows by vtree nodes: with less to do, threads cost more than they save
N_LANES = 4  # shares of the edges to score; the result does not depend on it


class Gains:
    """Scores splits and clones of a growing circuit; keeps its working memory between calls."""

    def __init__(self, growing: GrowingCircuit, least_gain: float = LEAST_GAIN) -> None:
        self.growing = growing
        self.least_gain = float(least_gain)
        g = growing.growth
        self.table = x_log_x_table(g.train_weight)
        # Sums of gains are below the weight of all rows: as whole numbers they have 62 bits.
        self.unit = float(np.ldexp(1.0, min(60, 61 - int(np.frexp(growing.train_total)[1]))))
        self._clone_room = clone_room(g)
        self._pair_room = pair_room(g.train_active.shape[1])
        self._ranks = row_ranks(g.train_words)
        self._split_room = split_room(g, N_LANES, self._ranks)

    def of_clones(self, nodes: AnyArray, node_score: FloatArray, node_edge: IntArray) -> None:
        """Score the best clone of each of these sums that has one."""
        self._have_room()
        g = self.growing.growth
        g.size[STAMP] += 1
        g.node["stamp"][nodes] = g.size[STAMP]
        for v in np.unique(g.node["vtree"][nodes]):
            score_clones(
                g,
                v,
                g.size[STAMP],
                self.table,
                self.unit,
                self._pair_room,
                self._clone_room,
                node_score,
                node_edge,
            )

    def of_splits(
        self,
        edges: AnyArray,
        edge_score: FloatArray,
        edge_place: IntArray,
    ) -> None:
        """Score the best split of each of these edges."""
        self._have_room()
        g, room = self.growing.growth, self._split_room
        rows = np.minimum(g.edge["train"][edges], LONG).sum()
        n_lanes = N_LANES if rows * len(g.vtree) > MUCH else 1
        shares = [np.ascontiguousarray(edges[lane::n_lanes]) for lane in range(n_lanes)]

        def score(part: slice) -> None:
            lane = part.start
            score_splits(
                g, shares[lane], self.table, self.least_gain, room, lane, edge_score, edge_place
            )

        run_blocks(score, n_lanes, 1)

    def best_place(self, edge: int) -> int:
        """On which variable to split an edge: its place."""
        self._have_room()
        g, room = self.growing.growth, self._split_room
        score, place = np.empty(len(g.edge)), np.empty(len(g.edge), dtype=np.int32)
        score_splits(g, np.array([edge]), self.table, self.least_gain, room, 0, score, place)
        return int(place[edge])

    def _have_room(self) -> None:
        """Keep the working memory as large as the circuit has become."""
        g = self.growing.growth
        if len(self._clone_room.gain) < len(g.edge) or self._split_room.seen.shape[1] < len(g.node):
            self._clone_room, self._split_room = (
                clone_room(g),
                split_room(g, N_LANES, self._ranks),
            )
