"""The gain and the size of clones, deeper copies included, from counts alone.

In:  `Growth`, sums of one vtree node, and how many levels of sums below them a clone would copy.
Out: for every sum the best few of the edges that lead to it, to be given a common copy.

All edges that lead to a sum stand at the parent of its vtree node, so rows tell them apart. One
table of counts, edges above against edges below, gives the gain of every subset of those above.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, FloatArray, IntArray
from strudel.data.x_log_x import x_log_x_in
from strudel.learning.growing.counts import count_of
from strudel.learning.growing.growth import Growth

MAX_PARENTS = 3  # of one clone
SHORT_LIST = 8  # edges above whose pairs and triples are tried, the best by themselves


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
