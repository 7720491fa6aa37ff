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
from strudel.learning.growing.copy_sum import copy_sum, finish_copies
from strudel.learning.growing.growth import N_NODES, STAMP, Growth, rows_through


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
