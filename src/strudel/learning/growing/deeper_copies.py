"""Deeper copies: give the two edges of a split their own copies of the sums below them.

In:  `Growth`, the first of the two new edges, and how many levels of sums to copy.
Out: the same arrays, changed.

A split copies only what conditioning forces. `copy_depth` asks for more: fresh copies of the next
levels, as a tree, whatever was shared.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, CountArray, FloatArray, IntArray
from strudel.learning.growing.growth import (
    N_NODES,
    STAMP,
    Growth,
    append_edge,
    kill,
    new_edge,
    new_node,
    refresh,
    rows_through,
)


@kernel
def n_copies_below(g: Growth, ones: int, n_levels: int) -> tuple[int, int]:
    """How many nodes and edges `copy_below` will add."""
    nodes: list[Any] = [np.int64(0) for _ in range(0)]
    for e in range(ones, ones + 2):
        _add_sums_below(g, e, nodes)
    n_nodes, n_edges = 0, 0
    for _ in range(n_levels):
        below: list[Any] = [np.int64(0) for _ in range(0)]
        for n in nodes:
            n_nodes += 1
            e = g.node["first"][n]
            while e != NONE:
                n_edges += 1
                _add_sums_below(g, e, below)
                e = g.edge["next"][e]
        nodes = below
    return n_nodes, n_edges


@kernel
def _add_sums_below(g: Growth, e: int, nodes: list[Any]) -> None:
    """Append the children of an edge that are sums."""
    if g.node["first"][g.edge["left"][e]] != NONE:
        nodes.append(np.int64(g.edge["left"][e]))
    if g.edge["right"][e] != NONE and g.node["first"][g.edge["right"][e]] != NONE:
        nodes.append(np.int64(g.edge["right"][e]))


@kernel
def copy_below(g: Growth, ones: int, n_levels: int, pseudocount: float) -> None:
    """Give the edges `ones` and `ones + 1` their own copies of the sums below, as a tree."""
    g.size[STAMP] += 1
    stamp = g.size[STAMP]
    first_copy = g.size[N_NODES]
    originals: list[Any] = [np.int64(0) for _ in range(0)]
    edges: list[Any] = [np.int64(ones), np.int64(ones + 1)]
    for _ in range(n_levels):
        below: list[Any] = [np.int64(0) for _ in range(0)]
        for e in edges:
            for side in range(2):
                n = g.edge["left"][e] if side == 0 else g.edge["right"][e]
                if n == NONE or g.node["first"][n] == NONE:
                    continue
                m = _copy_sum(g, n, stamp)
                if side == 0:
                    g.edge["left"][e] = m
                else:
                    g.edge["right"][e] = m
                g.node["uses"][m] += 1
                originals.append(np.int64(n))
                f = g.node["first"][m]
                while f != NONE:
                    below.append(np.int64(f))
                    f = g.edge["next"][f]
        edges = below

    v = g.node["vtree"][g.edge["parent"][ones]]
    for e in range(ones, ones + 2):
        n_rows = rows_through(g.train_active[v], e, g.train_rows)
        _enter_copies(
            g, v, n_levels, g.train_active, g.train_weight, g.train_rows[:n_rows], g.edge["train"]
        )
        n_rows = rows_through(g.valid_active[v], e, g.valid_rows)
        _enter_copies(
            g, v, n_levels, g.valid_active, g.valid_weight, g.valid_rows[:n_rows], g.edge["valid"]
        )

    for n in originals:
        g.node["uses"][n] -= 1
        if g.node["uses"][n] == 0:
            e = g.node["first"][n]
            while e != NONE:
                kill(g, e)
                e = g.edge["next"][e]
    for n in originals:
        refresh(g, n, pseudocount)
    for n in range(first_copy, g.size[N_NODES]):
        refresh(g, n, pseudocount)


@kernel
def _copy_sum(g: Growth, n: int, stamp: int) -> int:
    """A copy with the same children; `edge_copy` keeps the rank of each original edge."""
    m = new_node(g, g.node["vtree"][n])
    g.node["is_open"][m] = g.node["is_open"][n]
    for w in range(g.node_one.shape[1]):
        g.node_one[m, w] = g.node_one[n, w]
        g.node_zero[m, w] = g.node_zero[n, w]
    rank = 0
    last = NONE
    e = g.node["first"][n]
    while e != NONE:
        new = new_edge(g, m, g.edge["left"][e], g.edge["right"][e], True)
        g.edge["stamp"][e] = stamp
        g.edge_copy[e, 0] = rank
        rank += 1
        append_edge(g, m, last, new)
        last = new
        e = g.edge["next"][e]
    return m


@kernel
def _enter_copies(
    g: Growth,
    top: int,
    n_levels: int,
    active: IntArray,
    weight: FloatArray,
    rows: IntArray,
    count: CountArray,
) -> None:
    """Move rows into the copies below vtree node `top`: a new edge has the old one's rank."""
    vtree_nodes: list[Any] = [np.int64(top)]
    for _ in range(n_levels):
        below: list[Any] = [np.int64(0) for _ in range(0)]
        for v in vtree_nodes:
            if g.vtree["left"][v] == NONE:
                continue
            for side in range(2):
                u = g.vtree["left"][v] if side == 0 else g.vtree["right"][v]
                below.append(np.int64(u))
                for s in rows:
                    if active[v, s] == NONE:
                        continue
                    copy = (
                        g.edge["left"][active[v, s]] if side == 0 else g.edge["right"][active[v, s]]
                    )
                    old = active[u, s]
                    if old == NONE:
                        continue
                    new = g.node["first"][copy] + g.edge_copy[old, 0]
                    active[u, s] = new
                    count[old] -= weight[s]
                    count[new] += weight[s]
        vtree_nodes = below
