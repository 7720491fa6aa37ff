"""The gain and the size of every split of an edge, deeper copies included, from counts alone.

In:  `Growth`, an edge, and how many levels of sums below it the split would copy.
Out: for every variable it can be split on, the rise of the training log-likelihood (without virtual
     rows), and the number of edges that the circuit grows by.

A split divides the rows of a sum that it copies into three: those of the edge
with a one, those with a zero, and all others. Their contributions, less that of the old sum, are
the gain.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel._numba import kernel, lowest_bit, popcount
from strudel._types import NONE, FloatArray, IntArray, WordArray
from strudel.data.x_log_x import x_log_x_in
from strudel.learning.growing.growth import (
    Growth,
    count_of,
    count_ones,
    places_in,
    rows_through,
    undecided,
)
from strudel.learning.search.best_first_splits import histogram


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
