"""Copy a sum, put edges in the place of others, and move rows into the copies.

In:  `Growth`, a sum or an edge.
Out: the same arrays, changed.

Clones, deeper copies and copies that are no longer shared are made of these steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, CountArray, FloatArray, IntArray
from strudel.learning.growing.counts import count_of
from strudel.learning.growing.growth import (
    ALIVE,
    N_NODES,
    SHRINKS,
    STAMP,
    Growth,
    append_edge,
    kill,
    new_edge,
    new_node,
    refresh,
)


@kernel
def n_sums_below(g: Growth, edge: int, n_levels: int, is_tree: bool) -> tuple[int, int]:
    """How many sums there are in the levels below an edge, and how many edges they have.

    In a tree every way to a sum counts, otherwise every sum counts once.
    """
    g.size[STAMP] += 1
    stamp = g.size[STAMP]
    n_nodes, n_edges = 0, 0
    edges: list[Any] = [np.int64(edge)]
    for _ in range(n_levels):
        below: list[Any] = [np.int64(0) for _ in range(0)]
        for e in edges:
            for side in range(2):
                n = g.edge[e]["left"] if side == 0 else g.edge[e]["right"]
                if n == NONE or (g.node[n]["stamp"] == stamp and not is_tree):
                    continue
                g.node[n]["stamp"] = stamp
                if g.node[n]["first"] == NONE:
                    continue
                n_nodes += 1
                f = g.node[n]["first"]
                while f != NONE:
                    n_edges += 1
                    below.append(np.int64(f))
                    f = g.edge[f]["next"]
        edges = below
    return n_nodes, n_edges


@kernel
def copy_sum(g: Growth, n: int, stamp: int) -> int:
    """A copy of sum n with the same children.

    `node_copy` and `edge_copy` say what became what, and the originals get the stamp. Where copies
    are drawn to their originals, both are drawn to what the original was before its first copy.
    """
    m = new_node(g.size, g.node, g.node[n]["vtree"], g.strength[0])
    g.node[m]["is_open"] = g.node[n]["is_open"]
    for w in range(g.node_one.shape[1]):
        g.node_one[m, w] = g.node_one[n, w]
        g.node_zero[m, w] = g.node_zero[n, w]
    shrinks = g.size[SHRINKS] != 0
    is_first = g.node[n]["stamp"] != stamp
    total, strength = count_of(g, n), g.node[n]["strength"]
    last = NONE
    e = g.node[n]["first"]
    while e != NONE:
        new = new_edge(g.size, g.node, g.edge, m, g.edge[e]["left"], g.edge[e]["right"], True)
        append_edge(g.node, g.edge, m, last, new)
        if shrinks:
            prior = g.edge[e]["prior"]
            if is_first:
                prior = (g.edge[e]["train"] + strength * prior) / (total + strength)
            g.edge[e]["prior"] = prior
            g.edge[new]["prior"] = prior
        g.edge_copy[e, 0] = new
        g.edge[e]["stamp"] = stamp
        last = new
        e = g.edge[e]["next"]
    g.node_copy[n, 0] = m
    g.node[n]["stamp"] = stamp
    g.node[n]["strength"] = g.strength[0]
    return m


@kernel
def replace_edge(g: Growth, edge: int, left: int, right: int) -> int:
    """End an edge; the new one with these children has its place in the sum, but no rows yet."""
    top = g.edge[edge]["parent"]
    new = new_edge(g.size, g.node, g.edge, top, left, right, True)
    g.edge[new]["prior"] = g.edge[edge]["prior"]
    before, after = g.edge[edge]["previous"], g.edge[edge]["next"]
    g.edge[new]["previous"], g.edge[new]["next"] = before, after
    if before == NONE:
        g.node[top]["first"] = new
    else:
        g.edge[before]["next"] = new
    if after != NONE:
        g.edge[after]["previous"] = new
    kill(g.size, g.node, g.edge, edge)
    return new


@kernel
def take_rows(active: IntArray, rows: IntArray, edge: int, new: int, count: CountArray) -> None:
    """Give all rows of `edge` to the edge that replaced it."""
    for s in rows:
        active[s] = new
    count[new] = count[edge]
    count[edge] = 0.0


@kernel
def follow_copies(
    active: IntArray,
    rows: IntArray,
    x: int,
    stamp: int,
    edge_stamp: IntArray,
    edge_copy: IntArray,
    weight: FloatArray,
    count: CountArray,
) -> None:
    """Move rows at one vtree node to the copies (number x) of edges with the stamp."""
    for i in range(len(rows)):
        s = rows[i]
        old = active[s]
        if old != NONE and edge_stamp[old] == stamp:
            new = edge_copy[old, x]
            active[s] = new
            count[old] -= weight[s]
            if new != NONE:
                count[new] += weight[s]


@kernel
def finish_copies(g: Growth, originals: list[Any], first_copy: int, pseudocount: float) -> None:
    """End originals that nothing leads to any more; bring likelihoods up to date with the counts.

    The copies are all nodes from `first_copy` on.
    """
    for n in originals:
        if g.node[n]["uses"] == 0:
            e = g.node[n]["first"]
            while e != NONE:
                if g.edge[e]["death"] == ALIVE:
                    kill(g.size, g.node, g.edge, e)
                e = g.edge[e]["next"]
    for n in originals:
        refresh(g, n, pseudocount)
    for n in range(first_copy, g.size[N_NODES]):
        refresh(g, n, pseudocount)
