"""Copies: a clone, which gives an edge its own copy of a sum, and deeper copies after a split.

In:  `Growth`, an edge and a sum below it; or the first of the two new edges of a split, and how
     many levels of sums to copy.
Out: the same arrays, changed.

A split copies only what conditioning forces. `copy_depth` asks for more: fresh copies of the next
levels, as a tree, whatever was shared.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, CountArray, FloatArray, IntArray
from strudel.learning.growing.copy_sum import (
    copy_sum,
    finish_copies,
    follow_copies,
    replace_edge,
    take_rows,
)
from strudel.learning.growing.growth import (
    N_EDGES,
    N_NODES,
    N_SPLITS,
    STAMP,
    Growth,
    refresh,
    rows_through,
)


@kernel
def clone(g: Growth, edge: int, target: int, pseudocount: float) -> int:
    """Give `edge` its own copy of sum `target` below it, and of the unary sums between.

    Returns the rows moved, or NONE (nothing done) for lack of room.
    """
    v = g.node[g.edge[edge]["parent"]]["vtree"]
    c = g.node[target]["vtree"]
    n_steps = g.vtree[c]["depth"] - g.vtree[v]["depth"]
    if g.size[N_NODES] + n_steps > len(g.node) or g.size[N_EDGES] + 2 * n_steps + g.node[target][
        "width"
    ] > len(g.edge):
        return NONE
    g.size[N_SPLITS] += 1
    place = g.vtree[c]["first"]
    e = edge
    moved = 0
    while True:
        is_left = place < g.vtree[g.vtree[v]["left"]]["last"]
        child = g.edge[e]["left"] if is_left else g.edge[e]["right"]
        if g.node[child]["uses"] > 1:
            e, moved = _clone_child(g, e, is_left, pseudocount)
        if child == target:
            return moved
        child = g.edge[e]["left"] if is_left else g.edge[e]["right"]
        e = g.node[child]["first"]
        v = g.vtree[v]["left"] if is_left else g.vtree[v]["right"]


@kernel
def _clone_child(g: Growth, edge: int, is_left: bool, pseudocount: float) -> tuple[int, int]:
    """Clone the child of `edge` on one side; returns the edge that replaces it and its rows."""
    g.size[STAMP] += 1
    top = g.edge[edge]["parent"]
    v = g.node[top]["vtree"]
    l, r = g.edge[edge]["left"], g.edge[edge]["right"]
    n = l if is_left else r
    c = g.node[n]["vtree"]
    m = copy_sum(g, n, g.size[STAMP])
    new = replace_edge(g, edge, m if is_left else l, r if is_left else m)
    n_rows = _move_rows(
        g, v, c, edge, new, g.train_active, g.train_weight, g.train_rows, g.edge["train"]
    )
    _move_rows(g, v, c, edge, new, g.valid_active, g.valid_weight, g.valid_rows, g.edge["valid"])
    refresh(g, top, pseudocount)
    refresh(g, n, pseudocount)
    refresh(g, m, pseudocount)
    return new, n_rows


@kernel
def _move_rows(
    g: Growth,
    v: int,
    c: int,
    edge: int,
    new: int,
    active: IntArray,
    weight: FloatArray,
    rows: IntArray,
    count: CountArray,
) -> int:
    """Move the rows of `edge` to the edge that replaced it, and below to the copies."""
    rows = rows[: rows_through(active[v], edge, rows)]
    take_rows(active[v], rows, edge, new, count)
    stamp = g.size[STAMP]
    follow_copies(active[c], rows, 0, stamp, g.edge["stamp"], g.edge_copy, weight, count)
    return len(rows)


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
                n = g.edge[e]["left"] if side == 0 else g.edge[e]["right"]
                if n == NONE or g.node[n]["first"] == NONE:
                    continue
                m = copy_sum(g, n, stamp)
                if side == 0:
                    g.edge[e]["left"] = m
                else:
                    g.edge[e]["right"] = m
                g.node[n]["uses"] -= 1
                g.node[m]["uses"] += 1
                originals.append(np.int64(n))
                f = g.node[m]["first"]
                while f != NONE:
                    below.append(np.int64(f))
                    f = g.edge[f]["next"]
        edges = below

    v = g.node[g.edge[ones]["parent"]]["vtree"]
    for e in range(ones, ones + 2):
        n_rows = rows_through(g.train_active[v], e, g.train_rows)
        _enter_copies(
            g, v, n_levels, g.train_active, g.train_weight, g.train_rows[:n_rows], g.edge["train"]
        )
        n_rows = rows_through(g.valid_active[v], e, g.valid_rows)
        _enter_copies(
            g, v, n_levels, g.valid_active, g.valid_weight, g.valid_rows[:n_rows], g.edge["valid"]
        )
    finish_copies(g, originals, first_copy, pseudocount)


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
    """Move rows into the copies below vtree node `top`.

    A sum may have several copies, and `edge_copy` knows those of the last one. In all of them an
    edge has the same rank.
    """
    vtree_nodes: list[Any] = [np.int64(top)]
    for _ in range(n_levels):
        below: list[Any] = [np.int64(0) for _ in range(0)]
        for v in vtree_nodes:
            if g.vtree[v]["left"] == NONE:
                continue
            for side in range(2):
                u = g.vtree[v]["left"] if side == 0 else g.vtree[v]["right"]
                below.append(np.int64(u))
                for s in rows:
                    if active[v, s] == NONE:
                        continue
                    copy = (
                        g.edge[active[v, s]]["left"] if side == 0 else g.edge[active[v, s]]["right"]
                    )
                    old = active[u, s]
                    if old == NONE:
                        continue
                    last_copy = g.node_copy[g.edge[old]["parent"], 0]
                    rank = g.edge_copy[old, 0] - g.node[last_copy]["first"]
                    new = g.node[copy]["first"] + rank
                    active[u, s] = new
                    count[old] -= weight[s]
                    count[new] += weight[s]
        vtree_nodes = below
