"""Best-first search: of all splits and clones, the one that gains most for what it costs.

In:  a `GrowingCircuit`.
Out: `BestFirstSearch.next()`, the operation to do; `Gains`: the best context of every sum, the best
     variable of every edge, each with its exact gain per new parameter.

A split of an edge on a variable makes new choices; a clone lets an old choice depend on more. Both
are scored by the exact gain of training likelihood per new parameter, from counts alone. Every
operation may change every score, so only those that were found after the last one are current.

A clone serves the edge above, its context, that gains most by a copy. A split is credited with the
copies beside its way that it makes possible: by itself it often gains nothing, and only what its
two sides stop sharing does.

`ScoredSearch` is what it shares with LearnPSDD. Every edge has the score of its best split, every
sum that of its best clone. What an operation made or touched is scored at once. All other scores
are kept as they are and found again when they come first, so that the winner's is exact. Old scores
may also be too low, so all are found again when the best one has fallen far enough.

Nothing depends on the order of the rows, nor on whether equal ones were merged: counts are added up
in the order of edges, and which rows are looked at first is decided by what they hold.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from strudel._numba import kernel, lowest_bit, run_blocks
from strudel._types import NONE, AnyArray, FloatArray, IntArray, WordArray
from strudel.data.bits import x_log_x_in, x_log_x_table
from strudel.learning.growing.growing_circuit import GrowingCircuit, Operation
from strudel.learning.growing.growth import (
    ALIVE,
    N_EDGES,
    N_NODES,
    STAMP,
    Growth,
    count_of,
    count_ones,
    places_in,
    rows_through,
    undecided,
    words_in,
)

FALL = 0.1  # when the best score has fallen to this share, find all scores again
LOWEST = 0.1  # nats per parameter: below, nothing is learned that lasts
LEAST_GAIN = 3.0  # nats per parameter: copies that gain less are not counted to a split
MUCH = 2e6  # rows by vtree nodes: with less to do, threads cost more than they save
N_LANES = 4  # shares of the edges to score; the result does not depend on it
MOST_PLACES = 64  # variables that are compared at all, the most balanced ones
LONG = 2048  # rows of an edge beyond which its variables are first compared on a part of them
SHORT_LIST = 12  # variables that are then compared on all rows
N_PRICED = 3  # the best of them, for which the copied edges are counted also
EDGE_PRICE = 0.05  # of an edge without rows, in parameters; else circuits grow and learn nothing
SCORES = (
    "node_score",
    "node_edges",
    "node_time",
    "edge_score",
    "edge_place",
    "edge_time",
)


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


class BestFirstSearch(ScoredSearch):
    """By gain per new parameter; a clone serves one edge, and only sums of one edge lie between."""

    PREFERS_CLONES = True

    def __init__(
        self, growing: GrowingCircuit, *, clones: bool = True, min_rows: float = 20.0
    ) -> None:
        self.gains = Gains(growing)
        super().__init__(growing, clones=clones, min_rows=min_rows)

    def _best_clones(self, nodes: AnyArray) -> None:
        self.gains.of_clones(nodes, self.node_score, self.node_edges)

    def _best_splits(self, edges: AnyArray) -> None:
        self.gains.of_splits(edges, self.edge_score, self.edge_place)

    def _clone(self, node: int, edges: IntArray) -> Operation:
        return Operation(int(edges), target=node)

    def _split(self, edge: int, place: int) -> Operation:
        return Operation(edge, place=place)

    def _sums_to_score(self) -> AnyArray:  # the new ones, and those that new edges lead to
        g = self.growing.growth
        found = np.empty(len(g.node), dtype=np.int32)
        return found[: _sums_with_new_contexts(g, self._n_nodes, self._n_edges, found)]

    def _edges_to_score(self) -> AnyArray:  # all, so that those that died lose their score
        return np.arange(self.growing.growth.size[N_EDGES])

    def _clone_changed(self, node: int) -> int:  # with every operation
        return self.growing.n_splits

    def _split_changed(self, edge: int) -> int:
        return self.growing.n_splits

    def _must_renew(self, best: float) -> bool:
        return self._level > LOWEST and best <= max(FALL * self._level, LOWEST)

    def _new_level(self, best: float) -> float:  # a tenth of the last one, or less
        return min(FALL * self._level, best)

    def _is_worth_it(self, best: float) -> bool:
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
        self._split_room = split_room(g, self._ranks)

    def of_clones(self, nodes: AnyArray, node_score: FloatArray, node_edge: IntArray) -> None:
        """Score the best clone of each of these sums that has one."""
        self._have_room()
        g = self.growing.growth
        g.size[STAMP] += 1
        g.node["stamp"][nodes] = g.size[STAMP]
        for v in np.unique(g.node["vtree"][nodes]):
            _score_clones(
                g, v, self.table, self.unit, self._pair_room, self._clone_room,
                node_score, node_edge,
            )  # fmt: skip

    def of_splits(self, edges: AnyArray, edge_score: FloatArray, edge_place: IntArray) -> None:
        """Score the best split of each of these edges."""
        self._have_room()
        g, room = self.growing.growth, self._split_room
        rows = np.minimum(g.edge["train"][edges], LONG).sum()
        n_lanes = N_LANES if rows * len(g.vtree) > MUCH else 1
        shares = [np.ascontiguousarray(edges[lane::n_lanes]) for lane in range(n_lanes)]

        def score(part: slice) -> None:
            lane = part.start
            _score_splits(
                g, shares[lane], self.table, self.least_gain, room, lane, edge_score, edge_place
            )

        run_blocks(score, n_lanes, 1)

    def best_place(self, edge: int) -> int:
        """On which variable to split an edge: its place."""
        self._have_room()
        g, room = self.growing.growth, self._split_room
        score, place = np.empty(len(g.edge)), np.empty(len(g.edge), dtype=np.int32)
        _score_splits(g, np.array([edge]), self.table, self.least_gain, room, 0, score, place)
        return int(place[edge])

    def _have_room(self) -> None:
        """Keep the working memory as large as the circuit has become."""
        g = self.growing.growth
        if len(self._clone_room.gain) < len(g.edge) or self._split_room.seen.shape[1] < len(g.node):
            self._clone_room, self._split_room = clone_room(g), split_room(g, self._ranks)


class PairRoom(NamedTuple):
    """A hash table of pairs of edges; empty before and after."""

    keys: AnyArray  # (2**k,) int64 NONE: the edge above and the edge below
    counts: FloatArray  # the values of `keys`
    slots: AnyArray  # (2**(k - 1) + 1,) the keys in use


class CloneRoom(NamedTuple):
    """What `_score_clones` works in; as it should be again afterwards."""

    gain: AnyArray  # (n_edges,) int64 0
    occupied: IntArray  # (n_edges,) 0
    target: IntArray  # (n_edges,)
    contexts: IntArray  # (n_edges,)


def pair_room(n_pairs: int) -> PairRoom:
    """Room for this many pairs."""
    n_keys = 1 << (2 * n_pairs + 16).bit_length()
    return PairRoom(
        keys=np.full(n_keys, NONE, dtype=np.int64),
        counts=np.zeros(n_keys),
        slots=np.empty(n_keys // 2 + 1, dtype=np.int64),
    )


def clone_room(g: Growth) -> CloneRoom:
    """Room for a circuit as large as `g` may become before it moves."""
    n_edges = len(g.edge)
    return CloneRoom(
        gain=np.zeros(n_edges, dtype=np.int64),
        occupied=np.zeros(n_edges, dtype=np.int32),
        target=np.zeros(n_edges, dtype=np.int32),
        contexts=np.empty(n_edges, dtype=np.int32),
    )


@kernel
def _count_pairs(g: Growth, c: int, room: PairRoom) -> int:
    """Count the pairs (context, edge) of the sums at vtree node c with the stamp.

    A context is an edge above through which some of the sum's rows come: an edge that leads to it,
    or, where that one is the only edge of its sum, the next edge further up that is a choice.
    Returns the number of pairs, which are in `slots`.
    """
    top, wanted = g.vtree[c]["parent"], g.size[STAMP]
    if top == NONE:
        return 0
    active = g.train_active
    keys, counts, slots = room.keys, room.counts, room.slots
    n_slots = 0
    mask = len(keys) - 1
    for s in range(active.shape[1]):
        a = active[c, s]
        if a == NONE:
            continue
        n = g.edge[a]["parent"]
        if g.node[n]["stamp"] != wanted or g.node[n]["width"] < 2:
            continue
        p = top
        b = active[p, s]
        while g.node[g.edge[b]["parent"]]["width"] == 1 and g.vtree[p]["parent"] != NONE:
            p = g.vtree[p]["parent"]
            b = active[p, s]
        key = (np.int64(b) << np.int64(32)) | np.int64(a)
        h = np.int64(b) * np.int64(1_000_003) + np.int64(a)
        i = (h ^ (h >> np.int64(17))) & mask
        while keys[i] != NONE and keys[i] != key:
            i = (i + 1) & mask
        if keys[i] == NONE:
            keys[i] = key
            counts[i] = 0.0
            slots[n_slots] = i
            n_slots += 1
        counts[i] += g.train_weight[s]
    return n_slots


@kernel
def _score_clones(
    g: Growth,
    c: int,
    table: FloatArray,
    unit: float,
    pairs: PairRoom,
    room: CloneRoom,
    node_score: FloatArray,
    node_edge: IntArray,
) -> None:
    """For every sum at vtree node c with the stamp: its best context, and the gain per parameter.

    The pairs may come in any order, since gains are added up as whole numbers: a nat is `unit` of
    them. Both rooms are left as they were.
    """
    n_pairs = _count_pairs(g, c, pairs)
    keys, counts, slots = pairs.keys, pairs.counts, pairs.slots
    gain, occupied, target, contexts = room.gain, room.occupied, room.target, room.contexts
    n_contexts = 0
    for k in range(n_pairs):
        i = slots[k]
        b, a = keys[i] >> np.int64(32), keys[i] & np.int64(0xFFFFFFFF)
        keys[i] = NONE
        if occupied[b] == 0:
            contexts[n_contexts] = b
            n_contexts += 1
            target[b] = g.edge[a]["parent"]
        occupied[b] += 1
        x, whole = counts[i], g.edge[a]["train"]
        gain[b] += np.int64(
            np.rint(
                unit
                * (x_log_x_in(table, x) + x_log_x_in(table, whole - x) - x_log_x_in(table, whole))
            )
        )
    for k in range(n_contexts):
        node_score[target[contexts[k]]] = -np.inf
    for k in range(n_contexts):
        b = contexts[k]
        n = target[b]
        total = count_of(g, n)
        inside = g.edge[b]["train"]
        if total - inside > 1e-9 * total:
            value = (
                gain[b] / unit
                - x_log_x_in(table, inside)
                - x_log_x_in(table, total - inside)
                + x_log_x_in(table, total)
            )
            score = value / max(1, min(g.node[n]["width"] - 1, occupied[b]))
            if score > node_score[n] or (score == node_score[n] and b < node_edge[n]):
                node_score[n] = score
                node_edge[n] = b
        gain[b] = 0
        occupied[b] = 0


class SplitRoom(NamedTuple):
    """What the kernels here work in; one lane per thread."""

    rank: IntArray  # (n_rows,) of its number among those of all rows
    seen_rank: AnyArray  # (n_lanes, n_rows) False
    local: IntArray  # (n_lanes, n_edges) NONE
    local_node: IntArray  # (n_lanes, n_nodes) NONE
    seen: IntArray  # (n_lanes, n_nodes)
    round: IntArray  # (n_lanes,)
    rows: IntArray  # (n_lanes, n_rows)


def split_room(g: Growth, rank: IntArray) -> SplitRoom:
    """Room for a circuit as large as `g` may become before it moves."""
    n_nodes, n_edges, n_rows = len(g.node), len(g.edge), g.train_active.shape[1]
    return SplitRoom(
        rank=rank,
        seen_rank=np.zeros((N_LANES, n_rows), dtype=np.bool_),
        local=np.full((N_LANES, n_edges), NONE, dtype=np.int32),
        local_node=np.full((N_LANES, n_nodes), NONE, dtype=np.int32),
        seen=np.zeros((N_LANES, n_nodes), dtype=np.int32),
        round=np.zeros(N_LANES, dtype=np.int32),
        rows=np.empty((N_LANES, n_rows), dtype=np.int32),
    )


def row_ranks(words: WordArray) -> IntArray:
    """The rank of a number for every row that looks random; equal rows have the same."""
    number = np.zeros(len(words), dtype=np.uint64)
    for w in range(words.shape[1]):
        number = (number ^ words[:, w]) * np.uint64(0x9E3779B97F4A7C15)
        number ^= number >> np.uint64(32)
    number *= np.uint64(0xD6E8FEB86659FD93)
    return np.unique(number, return_inverse=True)[1].astype(np.int32)


@kernel
def _score_splits(
    g: Growth,
    edges: AnyArray,
    table: FloatArray,
    least: float,
    room: SplitRoom,
    lane: int,
    edge_score: FloatArray,
    edge_place: IntArray,
) -> None:
    """For every one of `edges` its best place, and the gain of that split per unit of its cost."""
    for e in edges:
        edge_score[e], edge_place[e] = _score_split(g, e, table, least, room, lane)


@kernel
def _score_split(
    g: Growth, edge: int, table: FloatArray, least: float, room: SplitRoom, lane: int
) -> tuple[float, int]:
    """The score of an edge's best split, and its place; some undecided place where none gains."""
    v = g.node[g.edge[edge]["parent"]]["vtree"]
    rows, local, local_node = room.rows[lane], room.local[lane], room.local_node[lane]
    rows = rows[: rows_through(g.train_active[v], edge, rows)]
    first, last = g.vtree[v]["first"], g.vtree[v]["last"]
    mask = undecided(g, edge, True)
    gains = np.full(last - first, -np.inf)
    costs = np.ones(last - first)
    places = places_in(mask)
    if len(places) > MOST_PLACES:  # keep those whose rarer value is most frequent
        one = np.zeros(last - first)
        total = count_ones(g, rows, mask, first, one)
        for place in places:
            gains[place - first] = min(one[place - first], total - one[place - first])
        _keep_best(MOST_PLACES, first, mask, gains, costs)
    if len(rows) > LONG:
        some = _some_rows(rows, room.rank, room.seen_rank[lane])
        if len(some) > 0:
            split_gains(g, v, some, mask, True, table, least, local, local_node, gains, costs)
            _keep_best(SHORT_LIST, first, mask, gains, costs)
    split_gains(g, v, rows, mask, False, table, least, local, local_node, gains, costs)
    best_score, best_place = -np.inf, places[0]
    for _ in range(N_PRICED):  # by gain for what it costs, copied edges included
        i, gain = _take_best(gains, costs)
        if gain > 0.0:
            room.round[lane] += 1
            n_edges = _n_copied(g, edge, first + i, room.seen[lane], room.round[lane])
            score = gain / (costs[i] + EDGE_PRICE * n_edges)
            if score > best_score or (score == best_score and first + i < best_place):
                best_score, best_place = score, first + i
    return best_score, best_place


@kernel
def _some_rows(rows: IntArray, rank: IntArray, seen: AnyArray) -> IntArray:
    """The rows with the lowest numbers, `LONG` different ones; none if there are not more."""
    n = 0
    for s in rows:
        if not seen[rank[s]]:
            seen[rank[s]] = True
            n += 1
    limit = -1
    n_left = LONG if n > LONG else 0
    while n_left > 0:
        limit += 1
        if seen[limit]:
            n_left -= 1
    n = 0
    for s in rows:
        seen[rank[s]] = False
        if rank[s] <= limit:
            n += 1
    some = np.empty(n, dtype=np.int32)
    n = 0
    for s in rows:
        if rank[s] <= limit:
            some[n] = s
            n += 1
    return some


@kernel
def _keep_best(
    n_places: int, first: int, mask: WordArray, gains: FloatArray, costs: FloatArray
) -> None:
    """Keep this many places in the mask, the best; then gains and costs are as at the beginning."""
    mask[:] = np.uint64(0)
    for _ in range(n_places):
        i, gain = _take_best(gains, costs)
        if gain > -np.inf:
            mask[(first + i) // 64] |= np.uint64(1) << np.uint64((first + i) % 64)
    gains[:] = -np.inf
    costs[:] = 1.0


@kernel
def _take_best(gains: FloatArray, costs: FloatArray) -> tuple[int, float]:
    """The place with the largest gain per parameter, and its gain, which is then taken out."""
    best = 0
    for i in range(1, len(gains)):
        if gains[i] / costs[i] > gains[best] / costs[best]:
            best = i
    gain = gains[best]
    gains[best] = -np.inf
    return best, gain


@kernel
def _n_copied(g: Growth, edge: int, place: int, seen: IntArray, now: int) -> int:
    """How many edges a split copies, once for each value."""
    word, bit = place // 64, np.uint64(1) << np.uint64(place % 64)
    v = g.node[g.edge[edge]["parent"]]["vtree"]
    is_left = place < g.vtree[g.vtree[v]["left"]]["last"]
    pending = [np.int64(g.edge[edge]["left"] if is_left else g.edge[edge]["right"])]
    n_edges = 0
    while len(pending) > 0:
        n = pending.pop()
        v = g.node[n]["vtree"]
        if g.vtree[v]["left"] == NONE:
            continue
        is_left = place < g.vtree[g.vtree[v]["left"]]["last"]
        e = g.node[n]["first"]
        while e != NONE:
            n_edges += 2
            child = g.edge[e]["left"] if is_left else g.edge[e]["right"]
            if seen[child] != now and g.node_one[child, word] & g.node_zero[child, word] & bit:
                seen[child] = now
                pending.append(np.int64(child))
            e = g.edge[e]["next"]
    return n_edges


@kernel
def split_gains(
    g: Growth,
    v: int,
    rows: IntArray,
    mask: WordArray,
    is_part: bool,
    table: FloatArray,
    least: float,
    local: IntArray,
    local_node: IntArray,
    gains: FloatArray,
    costs: FloatArray,
) -> None:
    """Gain and number of new parameters of splitting an edge on each place in `mask`."""
    first = g.vtree[v]["first"]
    one = np.zeros(len(gains))
    total = count_ones(g, rows, mask, first, one)
    usable = mask.copy()  # the places where both values occur
    for place in places_in(mask):  # what the choice between both contributes
        x = one[place - first]
        if x == 0.0 or x == total:
            usable[place // 64] &= ~(np.uint64(1) << np.uint64(place % 64))
        else:
            gains[place - first] = (
                x_log_x_in(table, x) + x_log_x_in(table, total - x) - x_log_x_in(table, total)
            )
    column = np.empty(len(gains), dtype=np.int32)
    pending: list[Any] = [np.int64(g.vtree[v]["left"]), np.int64(g.vtree[v]["right"])]
    masks = [usable, usable]
    i = 0
    while i < len(pending):  # level by level
        u, mask = pending[i], masks[i]
        i += 1
        places = places_in(mask)
        if len(places) == 0:
            continue
        for k in range(len(places)):
            column[places[k] - first] = k
        edges, here, hist = histogram(g, u, rows, mask, first, column, len(places), local, True)
        if len(edges) == 0:
            continue
        below = _add_gains(
            g, u, edges, here, hist, places, is_part, table, least, first, local_node, gains, costs
        )
        if g.vtree[u]["left"] != NONE:
            pending.append(np.int64(g.vtree[u]["left"]))
            pending.append(np.int64(g.vtree[u]["right"]))
            masks.append(below)
            masks.append(below)


@kernel
def histogram(
    g: Growth,
    u: int,
    rows: IntArray,
    mask: WordArray,
    first: int,
    column: IntArray,
    n_columns: int,
    local: IntArray,
    is_sorted: bool,
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Active edges at u, their weights, and those of rows with a one at a place.

    The edges are in their order, or else in that of the rows. `local` is all NONE, also afterwards.
    """
    active = g.train_active[u]
    edges = np.empty(len(rows), dtype=np.int32)
    n_edges = 0
    for s in rows:
        e = active[s]
        if e != NONE and local[e] == NONE:
            local[e] = n_edges
            edges[n_edges] = e
            n_edges += 1
    edges = edges[:n_edges]
    if is_sorted and _sort(edges):
        for k in range(n_edges):
            local[edges[k]] = k
    here = np.zeros(n_edges)
    hist = np.zeros((n_edges, n_columns))
    low, high = words_in(mask)
    for s in rows:
        e = active[s]
        if e == NONE:
            continue
        k = local[e]
        weight = g.train_weight[s]
        here[k] += weight
        for w in range(low, high):
            word = g.train_words[s, w] & mask[w]
            while word:
                hist[k, column[w * 64 + lowest_bit(word) - first]] += weight
                word &= word - np.uint64(1)
    for e in edges:
        local[e] = NONE
    return edges, here, hist


@kernel
def _sort(edges: IntArray) -> bool:
    """Sort a list that is mostly short, or sorted already; returns whether it was not."""
    n_moves = 0
    for k in range(1, len(edges)):
        e, i = edges[k], k
        while i > 0 and edges[i - 1] > e:
            edges[i] = edges[i - 1]
            i -= 1
        edges[i] = e
        n_moves += k - i
        if n_moves > 16 * len(edges):
            edges[:] = np.sort(edges)
            return True
    return n_moves > 0


@kernel
def _add_gains(
    g: Growth,
    u: int,
    edges: IntArray,
    here: FloatArray,
    hist: FloatArray,
    places: IntArray,
    is_part: bool,
    table: FloatArray,
    least: float,
    first: int,
    local_node: IntArray,
    gains: FloatArray,
    costs: FloatArray,
) -> WordArray:
    """Add the gains of the copies at u; returns the places that reach the vtree nodes below.

    On the way to its leaf a place needs copies. Beside the way a copy is made where it pays; the
    split is what makes it possible, so its gain counts.
    """
    below = np.zeros(g.train_words.shape[1], dtype=np.uint64)
    start, end = g.vtree[u]["first"], g.vtree[u]["last"]
    n_columns = len(places)
    n_nodes = 0
    nodes = np.empty(len(edges), dtype=np.int32)
    for e in edges:
        n = g.edge[e]["parent"]
        if local_node[n] == NONE:
            local_node[n] = n_nodes
            nodes[n_nodes] = n
            n_nodes += 1
    inside = np.zeros(n_nodes)
    one, value = np.zeros((n_nodes, n_columns)), np.zeros((n_nodes, n_columns))
    free = np.full((n_nodes, n_columns), -2.0)
    for k in range(len(edges)):
        j = local_node[g.edge[edges[k]]["parent"]]
        h = here[k]
        inside[j] += h
        if is_part:
            rest = -x_log_x_in(table, h)
        else:
            count = g.edge[edges[k]]["train"]
            rest = x_log_x_in(table, count - h) - x_log_x_in(table, count)
        for i in range(n_columns):
            x = hist[k, i]
            value[j, i] += rest
            if x > 0.0:
                one[j, i] += x
                value[j, i] += x_log_x_in(table, x)
                free[j, i] += 1.0
            if h - x > 0.0:
                value[j, i] += x_log_x_in(table, h - x)
                free[j, i] += 1.0
    for j in range(n_nodes):
        n = nodes[j]
        local_node[n] = NONE
        if is_part:
            rest = x_log_x_in(table, inside[j])
        else:
            total = count_of(g, n)
            rest = x_log_x_in(table, total) - x_log_x_in(table, total - inside[j])
        is_unary = g.node[n]["width"] == 1
        for i in range(n_columns):
            place = places[i]
            word, bit = place // 64, np.uint64(1) << np.uint64(place % 64)
            x = one[j, i]
            gain = value[j, i] + rest - x_log_x_in(table, x) - x_log_x_in(table, inside[j] - x)
            cost = max(0.0, free[j, i])
            if start <= place < end:
                below[word] |= bit
                if not (g.node_one[n, word] & g.node_zero[n, word] & bit):
                    continue  # decided: it is not copied
            elif is_unary:
                below[word] |= bit
                continue
            elif gain > least * max(1.0, cost):
                below[word] |= bit
            else:
                continue
            gains[place - first] += gain
            costs[place - first] += cost
    return below
