"""LearnPSDD (Liang, Bekker and Van den Broeck 2017): scored splits and clones, best first.

In:  a `GrowingCircuit` and the options of the search.
Out: `LearnPsddSearch.next()`, the operation to do.

A candidate is a split of an edge on a variable below it, or a clone: a copy of a sum for some of
the edges that lead to it. All are scored by what they add to the training log-likelihood, exactly
and from counts, per edge that they add to the circuit. A score is current until something changes
at the vtree nodes that it depends on.

All edges that lead to a sum are at the parent of its vtree node, so rows distinguish them. One
table of counts, edges above against edges below, gives the gain of a clone for every subset of
those above. A split divides the rows of a sum that it copies into three: those of the edge with a
one, those with a zero, and all others. Their contributions, less that of the old sum, are the gain.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel._numba import kernel, lowest_bit, popcount
from strudel._types import NONE, AnyArray, FloatArray, IntArray, WordArray
from strudel.data.bits import x_log_x_in, x_log_x_table
from strudel.learning.growing.growing_circuit import GrowingCircuit, Operation
from strudel.learning.growing.growth import (
    ALIVE,
    N_EDGES,
    STAMP,
    Growth,
    count_of,
    count_ones,
    places_in,
    rows_through,
    undecided,
)
from strudel.learning.options import LearnPSDD
from strudel.learning.search.best_first import ScoredSearch, histogram

MAX_PARENTS = 3  # of one clone
SHORT_LIST = 8  # edges above whose pairs and triples are tried, the best by themselves
RENEW = 0.5  # when the best score has fallen to this share, find all scores again
LEAST = 1e-9  # gain of an operation, as a share of the rows' weight; smaller ones are rounding


class LearnPsddSearch(ScoredSearch):
    """By gain per edge or in all, deeper copies included; a clone serves up to three edges."""

    EDGES_PER_CLONE = (MAX_PARENTS,)
    PREFERS_CLONES = False

    def __init__(self, growing: GrowingCircuit, search: LearnPSDD) -> None:
        g, depth = growing.growth, growing.vtree.depth
        wanted = {"minimal": 0, "depth": search.copy_levels, "complete": depth}[search.copies]
        self.n_levels = min(wanted, depth)  # of sums that are copied beyond what must be
        self.per_edge = search.operation_score == "per_edge"
        self.both_sides = search.split_sides == "both"
        self.least = LEAST * growing.train_total
        self.table = x_log_x_table(g.train_weight)
        self.rows = np.empty(len(g.train_weight), dtype=np.int32)
        self.changed = np.zeros(len(g.vtree), dtype=np.int64)  # when a vtree node last changed
        self.changed_below = np.zeros(len(g.vtree), dtype=np.int64)  # it, or anything below
        self._local = np.empty(0, dtype=np.int32)
        super().__init__(growing, clones=search.clones, min_rows=float(np.nextafter(0.0, 1.0)))

    @property
    def local(self) -> IntArray:
        """Room to work in, for all nodes and edges; all NONE before and after."""
        g = self.growing.growth
        if len(self._local) < len(g.node) + len(g.edge):
            self._local = np.full(len(g.node) + len(g.edge), NONE, dtype=np.int32)
        return self._local

    def _best_clones(self, nodes: AnyArray) -> None:
        g = self.growing.growth
        nodes = nodes[(g.node["uses"][nodes] > 1) & (g.node["first"][nodes] != NONE)]
        g.size[STAMP] += 1
        g.node["stamp"][nodes] = g.size[STAMP]
        for v in np.unique(g.node["vtree"][nodes]).tolist():
            score_clones(
                g, v, int(g.size[STAMP]), self.n_levels, self.per_edge, self.table, self.local,
                self.node_score, self.node_edges,
            )  # fmt: skip

    def _best_splits(self, edges: AnyArray) -> None:
        _score_splits(
            self.growing.growth, edges, self.both_sides, self.n_levels, self.per_edge, self.table,
            self.local, self.rows, self.edge_score, self.edge_place,
        )  # fmt: skip

    def _clone(self, node: int, edges: IntArray) -> Operation:
        first, *others = edges[edges != NONE].tolist()
        return Operation(first, target=node, n_levels=self.n_levels, others=tuple(others))

    def _split(self, edge: int, place: int) -> Operation:
        return Operation(edge, place=place, n_levels=self.n_levels)

    def _sums_to_score(self) -> AnyArray:
        """Those that new edges lead to; notes where the circuit changed."""
        g, now = self.growing.growth, self.growing.n_splits
        new = np.arange(self._n_edges, int(g.size[N_EDGES]))
        new = new[g.edge["death"][new] == ALIVE]
        for v in np.unique(g.node["vtree"][g.edge["parent"][new]]).tolist():
            self.changed[v] = now
            while v != NONE and self.changed_below[v] != now:
                self.changed_below[v] = now
                v = int(g.vtree["parent"][v])
        below = np.concatenate([g.edge["left"][new], g.edge["right"][new]])
        return np.unique(below[below != NONE])

    def _edges_to_score(self) -> AnyArray:  # the last score of one that died counts for the level
        g = self.growing.growth
        return np.flatnonzero(g.edge["death"][: int(g.size[N_EDGES])] == ALIVE)

    def _clone_changed(self, node: int) -> int:  # with an edge above, or anything below the sum
        g = self.growing.growth
        v = g.node["vtree"][node]
        return int(max(self.changed[g.vtree["parent"][v]], self.changed_below[v]))

    def _split_changed(self, edge: int) -> int:  # with anything below the edge
        g = self.growing.growth
        return int(self.changed_below[g.node["vtree"][g.edge["parent"][edge]]])

    def _must_renew(self, best: float) -> bool:  # when it has halved, or nothing gains any more
        is_new = self._all_scored == self.growing.n_splits
        return not is_new and best < max(RENEW * self._level, self.least)

    def _new_level(self, best: float) -> float:
        return best

    def _is_worth_it(self, best: float) -> bool:
        return best >= self.least


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


@kernel
def score_clones(
    g: Growth,
    c: int,
    wanted: int,
    n_levels: int,
    per_edge: bool,
    table: FloatArray,
    local: IntArray,
    node_score: FloatArray,
    node_parents: IntArray,
) -> None:
    """Score the sums at vtree node c with stamp `wanted`; fills their best edges above and score.

    `local`, all NONE, is room to work in.
    """
    if g.vtree[c]["parent"] == NONE:
        return
    active = g.train_active[c]
    n_rows = len(active)
    nodes = np.empty(n_rows, dtype=np.int32)
    start = np.zeros(n_rows + 1, dtype=np.int32)
    n_nodes, n_found = 0, 0
    for s in range(n_rows):
        if active[s] == NONE:
            continue
        n = g.edge[active[s]]["parent"]
        if g.node[n]["stamp"] != wanted or g.node[n]["uses"] < 2:
            continue
        if local[n] == NONE:
            local[n] = n_nodes
            nodes[n_nodes] = n
            n_nodes += 1
        start[local[n] + 1] += 1
        n_found += 1
    for j in range(n_nodes):
        start[j + 1] += start[j]
    rows = np.empty(n_found, dtype=np.int32)
    end = start[: n_nodes + 1].copy()
    for s in range(n_rows):
        if active[s] == NONE:
            continue
        n = g.edge[active[s]]["parent"]
        if g.node[n]["stamp"] == wanted and local[n] != NONE:
            rows[end[local[n]]] = s
            end[local[n]] += 1
    for j in range(n_nodes):
        local[nodes[j]] = NONE
    for j in range(n_nodes):
        parents, counts, sign, width, total = clone_table(
            g, nodes[j], rows[start[j] : start[j + 1]], n_levels, table, local
        )
        score, best = _best_subset(counts, sign, width, total, per_edge, table)
        node_score[nodes[j]] = score
        for i in range(MAX_PARENTS):
            node_parents[nodes[j], i] = parents[best[i]] if best[i] != NONE else NONE


@kernel
def clone_table(
    g: Growth, n: int, rows: IntArray, n_levels: int, table: FloatArray, local: IntArray
) -> tuple[IntArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Weights of the `rows` of sum n, by the edge above that they come through.

    Columns are the edges and sums that the rows pass in n and in the levels below. Edges count with
    sign 1 and sums with sign -1 in the log-likelihood; `width` is the number of edges of a sum, 0
    for an edge, and `total` the weight of all training rows.
    """
    c = g.node[n]["vtree"]
    above = g.train_active[g.vtree[c]["parent"]]
    behind = len(g.node)
    parents = np.empty(min(len(rows), g.node[n]["uses"]), dtype=np.int32)
    n_parents = 0
    for s in rows:
        if local[behind + above[s]] == NONE:
            local[behind + above[s]] = n_parents
            parents[n_parents] = above[s]
            n_parents += 1
    parents = parents[:n_parents]
    vtree_nodes: list[Any] = [np.int64(c)]
    first, last = 0, 1
    for _ in range(n_levels):
        for i in range(first, last):
            if g.vtree[vtree_nodes[i]]["left"] != NONE:
                vtree_nodes.append(np.int64(g.vtree[vtree_nodes[i]]["left"]))
                vtree_nodes.append(np.int64(g.vtree[vtree_nodes[i]]["right"]))
        first, last = last, len(vtree_nodes)
    # Every edge and every sum on the way gets a column; sums with one edge only cost.
    columns: list[Any] = [np.int64(0) for _ in range(0)]
    if n_parents > 1:
        for u in vtree_nodes:
            for s in rows:
                e = g.train_active[u, s]
                if e == NONE:
                    continue
                m = g.edge[e]["parent"]
                if local[m] == NONE:
                    local[m] = len(columns)
                    columns.append(np.int64(m))
                if local[behind + e] == NONE and g.node[m]["width"] > 1:
                    local[behind + e] = len(columns)
                    columns.append(np.int64(behind + e))
    counts = np.zeros((n_parents, len(columns)))
    if n_parents > 1:
        for u in vtree_nodes:
            for s in rows:
                e = g.train_active[u, s]
                if e == NONE:
                    continue
                k = local[behind + above[s]]
                counts[k, local[g.edge[e]["parent"]]] += g.train_weight[s]
                if local[behind + e] != NONE:
                    counts[k, local[behind + e]] += g.train_weight[s]
    sign, width, total = np.zeros(len(columns)), np.zeros(len(columns)), np.zeros(len(columns))
    for i in range(len(columns)):
        x = columns[i]
        local[x] = NONE
        if x >= behind:
            sign[i] = 1.0
            total[i] = g.edge[x - behind]["train"]
        else:
            sign[i] = -1.0 if g.node[x]["width"] > 1 else 0.0
            width[i] = g.node[x]["width"]
            total[i] = count_of(g, x)
    for e in parents:
        local[behind + e] = NONE
    return parents, counts, sign, width, total


@kernel
def _best_subset(
    counts: FloatArray,
    sign: FloatArray,
    width: FloatArray,
    total: FloatArray,
    per_edge: bool,
    table: FloatArray,
) -> tuple[float, IntArray]:
    """The best one, two or three rows of the table, and their score."""
    best = np.full(MAX_PARENTS, NONE, dtype=np.int32)
    best_score = -np.inf
    n_parents = len(counts)
    if n_parents < 2:
        return best_score, best
    alone = np.empty(n_parents)
    x = np.empty(counts.shape[1])
    old = 0.0
    for i in range(len(total)):
        old += sign[i] * x_log_x_in(table, total[i])
    for a in range(n_parents):
        gain, cost = _gain(counts[a], sign, width, total, old, table)
        alone[a] = gain / cost if per_edge else gain
        if alone[a] > best_score:
            best_score = alone[a]
            best[0] = a
    if n_parents == 2:
        return best_score, best
    ranks = np.argsort(-alone, kind="mergesort")[:SHORT_LIST]
    for i in range(len(ranks)):
        for j in range(i):
            x[:] = counts[ranks[i]] + counts[ranks[j]]
            gain, cost = _gain(x, sign, width, total, old, table)
            score = gain / cost if per_edge else gain
            if score > best_score:
                best_score = score
                best[0], best[1], best[2] = ranks[j], ranks[i], NONE
            if n_parents == 3:
                continue
            for k in range(j):
                gain, cost = _gain(x + counts[ranks[k]], sign, width, total, old, table)
                score = gain / cost if per_edge else gain
                if score > best_score:
                    best_score = score
                    best[0], best[1], best[2] = ranks[k], ranks[j], ranks[i]
    return best_score, best


@kernel
def _gain(
    x: FloatArray,
    sign: FloatArray,
    width: FloatArray,
    total: FloatArray,
    old: float,
    table: FloatArray,
) -> tuple[float, float]:
    """What a copy for rows with counts x gains, and how many edges it has."""
    gain, cost = -old, 0.0
    for i in range(len(x)):
        if sign[i] != 0.0:
            gain += sign[i] * (x_log_x_in(table, x[i]) + x_log_x_in(table, total[i] - x[i]))
        if x[i] > 0.0:
            cost += width[i]
    return gain, cost


@kernel
def split_gains(
    g: Growth,
    edge: int,
    both_sides: bool,
    n_levels: int,
    table: FloatArray,
    local: IntArray,
    rows: IntArray,
) -> tuple[IntArray, FloatArray, FloatArray]:
    """The places that `edge` can be split on, with their gains and numbers of new edges.

    Places where all rows agree are left out. `local`, all NONE, and `rows` are room to work in.
    """
    v = g.node[g.edge[edge]["parent"]]["vtree"]
    first = g.vtree[v]["first"]
    mask = undecided(g, edge, both_sides)
    rows = rows[: rows_through(g.train_active[v], edge, rows)]
    one = np.zeros(g.vtree[v]["last"] - first)
    total = _keep_places_that_differ(g, rows, mask, first, one)
    places = places_in(mask)
    gains, costs = np.empty(len(places)), np.ones(len(places))
    for i in range(len(places)):
        x = one[places[i] - first]
        gains[i] = x_log_x_in(table, x) + x_log_x_in(table, total - x) - x_log_x_in(table, total)
    if len(places) == 0:
        return places, gains, costs

    # The sums of one vtree node after the other, parents first. For each: whether only `edge` leads
    # to it; and for each place, which values lead to it (bits 1 and 2) and whether it stays.
    above = np.full((1, len(places)), 3, dtype=np.uint8)
    stays = np.zeros((1, len(places)), dtype=np.bool_)
    edges = np.full(1, edge, dtype=np.int32)
    pending: list[Any] = [
        (np.int64(v), np.int64(0), edges, np.zeros(1, dtype=np.int32), above, stays)
    ]
    is_only = [np.ones(1, dtype=np.bool_)]
    while len(pending) > 0:
        u, level, edges, edge_sum, above, stays = pending.pop()
        is_ours = is_only.pop()
        for side in range(2):
            c = g.vtree[u]["left"] if side == 0 else g.vtree[u]["right"]
            is_near = level + 1 <= n_levels
            low, high = 0, len(places)
            if not is_near:  # only copies on the way to the variable
                low = np.searchsorted(places, g.vtree[c]["first"])
                high = np.searchsorted(places, g.vtree[c]["last"])
            if low == high:
                continue
            nodes, only, led, kept = _sums_below(
                g, u, edges, edge_sum, side, is_ours, above, stays, places, local, is_near
            )
            if len(nodes) == 0:
                continue
            served = _add_copies(
                g, c, rows, nodes, only, led, kept, is_near, low, high,
                places, first, table, local, gains, costs,
            )  # fmt: skip
            if g.vtree[c]["left"] != NONE:
                below, owner = _edges_of(g, nodes)
                pending.append((np.int64(c), level + 1, below, owner, served, kept))
                is_only.append(only)
    return places, gains, costs


@kernel
def _keep_places_that_differ(
    g: Growth, rows: IntArray, mask: WordArray, first: int, one: FloatArray
) -> float:
    """Count the ones at the places of `mask`, and keep places with ones and zeros in it.

    Returns the weight of all rows.
    """
    total = count_ones(g, rows, mask, first, one)
    for w in range(len(mask)):
        word = mask[w]
        while word:
            bit = word & (~word + np.uint64(1))
            x = one[w * 64 + lowest_bit(word) - first]
            if x <= 0.0 or total - x <= 1e-12 * total:
                mask[w] &= ~bit
            word &= ~bit
    return total


@kernel
def _edges_of(g: Growth, nodes: IntArray) -> tuple[IntArray, IntArray]:
    """The edges of some sums, and for each the position of its sum."""
    n = 0
    for m in nodes:
        n += g.node[m]["width"]
    edges, owner = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
    k = 0
    for j in range(len(nodes)):
        e = g.node[nodes[j]]["first"]
        while e != NONE:
            edges[k] = e
            owner[k] = j
            k += 1
            e = g.edge[e]["next"]
    return edges, owner


@kernel
def _sums_below(
    g: Growth,
    u: int,
    edges: IntArray,
    edge_sum: IntArray,
    side: int,
    is_ours: Any,
    above: Any,
    stays: Any,
    places: IntArray,
    local: IntArray,
    is_near: bool,
) -> tuple[IntArray, Any, Any, Any]:
    """The sums that `edges` at u lead to on one side, and what leads to each of them."""
    nodes = np.empty(len(edges), dtype=np.int32)
    uses = np.zeros(len(edges), dtype=np.int32)
    n_nodes = 0
    for k in range(len(edges)):
        m = g.edge[edges[k]]["left"] if side == 0 else g.edge[edges[k]]["right"]
        if g.node[m]["first"] == NONE:
            continue
        if local[m] == NONE:
            local[m] = n_nodes
            nodes[n_nodes] = m
            n_nodes += 1
        uses[local[m]] += is_ours[edge_sum[k]]
    nodes = nodes[:n_nodes]
    only = np.zeros(n_nodes, dtype=np.bool_)
    for j in range(n_nodes):
        only[j] = uses[j] == g.node[nodes[j]]["uses"]
    n_places = len(places) if is_near else 0
    led = np.zeros((n_nodes, n_places), dtype=np.uint8)
    kept = np.zeros((n_nodes, n_places), dtype=np.bool_)
    start, middle, end = (
        g.vtree[u]["first"],
        g.vtree[g.vtree[u]["left"]]["last"],
        g.vtree[u]["last"],
    )
    for k in range(len(edges)):
        l, r = g.edge[edges[k]]["left"], g.edge[edges[k]]["right"]
        m = l if side == 0 else r
        if g.node[m]["first"] == NONE:
            continue
        j, parent = local[m], edge_sum[k]
        for i in range(n_places):
            place = places[i]
            values = above[parent, i]
            if start <= place < end:
                child = l if place < middle else r
                word, shift = place // 64, np.uint64(place % 64)
                if not (g.node_one[child, word] >> shift) & np.uint64(1):
                    values &= 2
                if not (g.node_zero[child, word] >> shift) & np.uint64(1):
                    values &= 1
            led[j, i] |= values
            kept[j, i] |= stays[parent, i]
    for m in nodes:
        local[m] = NONE
    return nodes, only, led, kept


@kernel
def _add_copies(
    g: Growth,
    c: int,
    rows: IntArray,
    nodes: IntArray,
    only: Any,
    led: Any,
    kept: Any,
    is_near: bool,
    low: int,
    high: int,
    places: IntArray,
    first: int,
    table: FloatArray,
    local: IntArray,
    gains: FloatArray,
    costs: FloatArray,
) -> Any:
    """Add gains and costs of the copies of `nodes` at c, for the places from `low` to `high`.

    Returns for which values every sum is copied, and turns `kept` into whether it stays.
    """
    n_columns = high - low
    for j in range(len(nodes)):
        local[nodes[j]] = j
    here, one, value = _divide(g, c, rows, len(nodes), places[low:high], first, table, local)
    start, end = g.vtree[c]["first"], g.vtree[c]["last"]
    is_leaf = g.vtree[c]["left"] == NONE
    served = np.zeros(led.shape, dtype=np.uint8)
    for j in range(len(nodes)):
        m = nodes[j]
        local[m] = NONE
        width = g.node[m]["width"]
        rest = 0.0
        if here[j] > 0.0:
            count = count_of(g, m)
            rest = x_log_x_in(table, count) - x_log_x_in(table, count - here[j])
        for i in range(n_columns):
            place = places[low + i]
            word, shift = place // 64, np.uint64(place % 64)
            undecided = g.node_one[m, word] & g.node_zero[m, word]
            is_forced = start <= place < end and ((undecided >> shift) & np.uint64(1)) != 0
            if not (is_forced or is_near):
                continue
            x, z = one[j, i], here[j] - one[j, i]
            if here[j] > 0.0:
                gains[low + i] += value[j, i] + rest - x_log_x_in(table, x) - x_log_x_in(table, z)
            if is_forced:
                if not is_leaf:
                    costs[low + i] += _n_conditioned_edges(g, m, c, place)
                if only[j]:
                    costs[low + i] -= width
                if is_near:
                    served[j, i] = 3
                    kept[j, i] = not only[j]
                continue
            values = (1 if x > 0.0 else 0) | (2 if z > 1e-12 * here[j] else 0)
            served[j, i] = values
            costs[low + i] += width * ((values & 1) + (values >> 1))
            if only[j] and not kept[j, i] and led[j, i] & (3 - values) == 0:
                costs[low + i] -= width
            else:
                kept[j, i] = True
    return served


@kernel
def _n_conditioned_edges(g: Growth, m: int, c: int, place: int) -> int:
    """Edges of both copies of a sum, conditioned on a place that it has not decided."""
    is_left = place < g.vtree[g.vtree[c]["left"]]["last"]
    word, shift = place // 64, np.uint64(place % 64)
    n = 0
    e = g.node[m]["first"]
    while e != NONE:
        child = g.edge[e]["left"] if is_left else g.edge[e]["right"]
        n += popcount((g.node_one[child, word] >> shift) & np.uint64(1))
        n += popcount((g.node_zero[child, word] >> shift) & np.uint64(1))
        e = g.edge[e]["next"]
    return n


@kernel
def _divide(
    g: Growth,
    c: int,
    rows: IntArray,
    n_nodes: int,
    places: IntArray,
    first: int,
    table: FloatArray,
    local: IntArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """How the counts at c fall into three parts.

    For every sum, whose position is in `local`: the weight of `rows`, that of the rows with a one
    at each place, and the gain without what the sums' own totals contribute.
    """
    n_columns = len(places)
    mask = np.zeros(g.train_words.shape[1], dtype=np.uint64)
    column = np.empty(places[-1] - first + 1, dtype=np.int32)
    for i in range(n_columns):
        mask[places[i] // 64] |= np.uint64(1) << np.uint64(places[i] % 64)
        column[places[i] - first] = i
    # Positions of edges lie in the same room as those of sums, behind all nodes.
    room = local[len(g.node) :]
    edges, weight_here, hist = histogram(g, c, rows, mask, first, column, n_columns, room, False)
    here = np.zeros(n_nodes)
    one = np.zeros((n_nodes, n_columns))
    value = np.zeros((n_nodes, n_columns))
    for k in range(len(edges)):
        e = edges[k]
        j = local[g.edge[e]["parent"]]
        h = weight_here[k]
        here[j] += h
        count = g.edge[e]["train"]
        rest = x_log_x_in(table, count - h) - x_log_x_in(table, count)
        for i in range(n_columns):
            x = hist[k, i]
            one[j, i] += x
            value[j, i] += x_log_x_in(table, x) + x_log_x_in(table, h - x) + rest
    return here, one, value
