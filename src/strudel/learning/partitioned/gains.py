"""Scores for best-first search on rows in partitions: from the same counts, by the same formulas.

In:  a `PartitionedCircuit`; sums, or edges.
Out: `PartitionedGains`, which scores clones and splits as `Gains` does from rows in memory.

Splits of many edges are scored side by side, all going down the vtree together, so that one round
of questions serves all of them. Scores are good until the next operation. Those that will probably
be asked for before it are found along with the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from strudel._types import NONE, AnyArray, FloatArray, IntArray, WordArray
from strudel.data.bits import x_log_x_table
from strudel.learning.growing.growth import ALIVE, N_NODES, Growth, places_in, undecided
from strudel.learning.partitioned.counted_per_part import (
    ALL_ROWS,
    ClonePairs,
    FractionalRows,
    LowestNumbers,
    SplitCounts,
)
from strudel.learning.partitioned.growing_circuit import PartitionedCircuit
from strudel.learning.search.best_first import (
    LONG,
    SHORT_LIST,
    Gains,
    PairRoom,
    add_gains,
    best_clones,
    best_split,
    has_many_places,
    keep_balanced,
    keep_best,
    start_gains,
)

AHEAD = 2  # more scores than are asked for: that many old ones come first, on average
SIDE_BY_SIDE = 512  # edges that are scored together: their counts are some megabytes
LEVELS = 3  # of the vtree, for which counts are asked together

Table = tuple[IntArray, IntArray, FloatArray]  # places, edges, their rows of counts


class PartitionedGains(Gains):
    """Scores splits and clones without seeing a row."""

    def __init__(self, growing: PartitionedCircuit) -> None:
        super().__init__(growing)
        self.partitioned = growing
        (n_fractional,) = growing.ask(FractionalRows())
        self.is_whole = not n_fractional
        self.table = x_log_x_table(np.array([growing.train_total if self.is_whole else 0.5]))
        self._time = NONE  # of the scores kept: operations done
        self._clones: dict[int, tuple[float, int]] = {}
        self._splits: dict[int, tuple[float, int]] = {}

    def of_clones(self, nodes: AnyArray, node_score: FloatArray, node_edge: IntArray) -> None:
        """Score the best clone of each of these sums that has one."""
        self._forget_old()
        g = self.growing.growth
        new = [n for n in nodes.tolist() if n not in self._clones and g.node["width"][n] > 1]
        if new:
            new += _best(node_score, g.node["uses"] > 0, self._clones)
            self._clones.update(self._score_clones(np.array(new, dtype=np.int32)))
        for n in nodes.tolist():
            node_score[n], node_edge[n] = self._clones.get(n, (-np.inf, NONE))

    def of_splits(self, edges: AnyArray, edge_score: FloatArray, edge_place: IntArray) -> None:
        """Score the best split of each of these edges."""
        self._forget_old()
        g = self.growing.growth
        new = [e for e in edges.tolist() if e not in self._splits]
        if new:
            new += _best(edge_score, g.edge["death"] == ALIVE, self._splits)
            for start in range(0, len(new), SIDE_BY_SIDE):
                self._splits.update(self._score_splits(new[start : start + SIDE_BY_SIDE]))
        for e in edges.tolist():
            edge_score[e], edge_place[e] = self._splits[e]

    def best_place(self, edge: int) -> int:
        """On which variable to split an edge: its place."""
        n_edges = len(self.growing.growth.edge)
        score, place = np.full(n_edges, -np.inf), np.full(n_edges, NONE, dtype=np.int32)
        self.of_splits(np.array([edge]), score, place)
        return int(place[edge])

    def _forget_old(self) -> None:
        self._have_room()
        if self._time != self.growing.n_splits:
            self._time = self.growing.n_splits
            self._clones.clear()
            self._splits.clear()

    def _score_clones(self, nodes: IntArray) -> dict[int, tuple[float, int]]:
        """The best context of every sum that has one."""
        g = self.growing.growth
        (found,) = self.partitioned.ask(ClonePairs(nodes))
        v = g.node["vtree"][g.edge["parent"][found.keys & 0xFFFFFFFF]]
        score = np.full(int(g.size[N_NODES]), -np.inf)
        edge = np.full(len(score), NONE, dtype=np.int32)
        for c in np.unique(v):
            pairs = np.flatnonzero(v == c)
            room = PairRoom(found.keys[pairs], found.values[pairs], np.arange(len(pairs)))
            best_clones(g, room, len(pairs), self.table, self.unit, self._clone_room, score, edge)
        return {n: (float(score[n]), int(edge[n])) for n in nodes.tolist()}

    def _score_splits(self, edges: Iterable[int]) -> dict[int, tuple[float, int]]:
        """The best place of every edge, step by step as in memory."""
        g, room = self.growing.growth, self._split_room
        splits = [Split.of(g, edge) for edge in edges]
        self._leave_out_places([split for split in splits if has_many_places(split.mask)])
        # Where all weights are whole, a row has one at least.
        long = [s for s in splits if g.edge["train"][s.edge] > LONG or not self.is_whole]
        self._compare_on_some_rows(long)
        self._add_gains(splits, is_part=False)
        return {
            s.edge: best_split(g, s.edge, s.default, s.gains, s.costs, room.seen[0], room.round, 0)
            for s in splits
        }

    def _leave_out_places(self, splits: list[Split]) -> None:
        """Keep the most balanced variables of edges with very many."""
        self._ask([(split, split.v, split.mask) for split in splits])
        for split in splits:
            one, total = split.ones(split.mask)
            keep_balanced(one, total, split.first, split.mask, split.gains, split.costs)

    def _compare_on_some_rows(self, splits: list[Split]) -> None:
        """Make short lists of variables for edges with many different rows."""
        if not splits:
            return
        (lowest,) = self.partitioned.ask(LowestNumbers(tuple(split.edge for split in splits)))
        compared = []
        for split, numbers in zip(splits, lowest.numbers, strict=True):
            if len(numbers) > LONG:
                split.limit = numbers[LONG - 1]
                split.known.clear()
                compared.append(split)
        self._add_gains(compared, is_part=True)
        for split in compared:
            split.limit = ALL_ROWS
            split.known.clear()
            keep_best(SHORT_LIST, split.first, split.mask, split.gains, split.costs)

    def _add_gains(self, splits: list[Split], *, is_part: bool) -> None:
        """Gains and costs of all places of some edges, all going down the vtree together."""
        g, local_node = self.growing.growth, self._split_room.local_node[0]
        pending = [(split, split.v, split.mask) for split in splits]
        while pending:
            self._ask([one for one in pending if one[1] not in one[0].known])
            below: list[Asked] = []
            for split, u, mask in pending:
                if u == split.v:
                    one, total = split.ones(mask)
                    mask = start_gains(one, total, split.first, mask, self.table, split.gains)
                else:
                    places = places_in(mask)
                    edges, here, hist = split.histogram(u, places)
                    if len(edges) == 0:
                        continue
                    mask = add_gains(
                        g, u, edges, here, hist, places, is_part, self.table, self.least_gain,
                        split.first, local_node, split.gains, split.costs,
                    )  # fmt: skip
                if mask.any() and g.vtree["left"][u] != NONE:
                    below.append((split, int(g.vtree["left"][u]), mask))
                    below.append((split, int(g.vtree["right"][u]), mask))
            pending = below

    def _ask(self, wanted: list[Asked]) -> None:
        """Ask for histograms at vtree nodes, and at those right below, which may be next."""
        vtree = self.growing.growth.vtree
        asked: list[Asked] = []
        for split, top, mask in wanted:
            level = [top]
            for _ in range(LEVELS):
                asked += [(split, u, mask) for u in level]
                sides = [int(vtree[side][u]) for u in level for side in ("left", "right")]
                level = [u for u in sides if u != NONE]
        if not asked:
            return
        question = SplitCounts(
            np.array([split.edge for split, _, _ in asked], dtype=np.int32),
            np.array([split.limit for split, _, _ in asked], dtype=np.uint64),
            np.array([u for _, u, _ in asked], dtype=np.int32),
            np.array([mask for _, _, mask in asked]),
        )
        (found,) = self.partitioned.ask(question)
        for (split, u, mask), table in zip(asked, found.tables(len(asked)), strict=True):
            split.known[u] = (places_in(mask), *table)


@dataclass(eq=False)
class Split:
    """An edge that is being scored, and the counts that are known of it.

    Its numbers are of the types that kernels call one another with, else they are compiled twice.
    """

    edge: int
    v: int  # its vtree node
    first: int  # the first place there
    mask: WordArray  # places to compare
    default: int  # one of them
    gains: FloatArray  # by place
    costs: FloatArray
    limit: np.uint64 = ALL_ROWS  # the highest number of a row that counts
    known: dict[int, Table] = field(default_factory=dict)  # by vtree node

    @classmethod
    def of(cls, g: Growth, edge: int) -> Split:
        """All undecided places, and nothing known."""
        v = int(g.node["vtree"][g.edge["parent"][edge]])
        first, last = g.vtree["first"][v], g.vtree["last"][v]
        mask = undecided(g, edge, True)
        gains, costs = np.full(last - first, -np.inf), np.ones(last - first)
        return cls(edge, v, first, mask, places_in(mask)[0], gains, costs)

    def histogram(self, u: int, places: IntArray) -> tuple[IntArray, FloatArray, FloatArray]:
        """Active edges at u, their weights, and those of their rows with a one at each place."""
        asked, edges, table = self.known[u]
        if len(edges) == 0:
            return edges, np.empty(0), np.empty((0, len(places)))
        column = 1 + np.searchsorted(asked, places)
        return edges, table[:, 0].copy(), np.ascontiguousarray(table[:, column])

    def ones(self, mask: WordArray) -> tuple[FloatArray, float]:
        """By place the weight of the rows with a one, and that of all rows."""
        places = places_in(mask)
        _, here, hist = self.histogram(self.v, places)
        one = np.zeros(len(self.gains))
        one[places - self.first] = hist.sum(axis=0)
        return one, float(here.sum())


Asked = tuple[Split, int, WordArray]  # a vtree node, and places


def _best(score: FloatArray, is_alive: AnyArray, known: Iterable[int]) -> list[int]:
    """Some with the highest scores, all of them old: the scores that are known are not."""
    score = np.where(is_alive, score, -np.inf)
    score[list(known)] = -np.inf
    best = np.argpartition(-score, AHEAD)[:AHEAD]
    found: list[int] = best[score[best] > -np.inf].tolist()
    return found
