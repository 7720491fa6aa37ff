"""Copies with levels below: edges stop sharing the sums below them with the rest of the circuit.

In:  `Growth`, edges of one vtree node, and how many levels of sums below them to copy.
Out: the same arrays, changed.

A sum is copied once for all the edges that are served, however many ways lead to it, and only if
training rows come along one of these ways: a copy without rows would have nothing to say. The copy
leads to the same children as the original, until these are copied in turn.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, CountArray, FloatArray, IntArray
from strudel.learning.growing.copy_sum import copy_sum, finish_copies, replace_edge, take_rows
from strudel.learning.growing.growth import N_NODES, N_SPLITS, STAMP, Growth, rows_through


@kernel
def unshare_after_split(
    g: Growth, ones: int, first_new: int, n_levels: int, pseudocount: float
) -> None:
    """Give the two new edges of a split, each by itself, their own copies of the sums below.

    Nodes from `first_new` on were made by the split and serve one of the edges only.
    """
    v = g.node[g.edge[ones]["parent"]]["vtree"]
    for e in range(ones, ones + 2):
        n_train = rows_through(g.train_active[v], e, g.train_rows)
        n_valid = rows_through(g.valid_active[v], e, g.valid_rows)
        edges = np.empty(1, dtype=np.int64)
        edges[0] = e
        _unshare(g, v, edges, 2, first_new, n_levels, n_train, n_valid, pseudocount)


@kernel
def clone_deeply(
    g: Growth, parents: IntArray, is_left: bool, n_levels: int, pseudocount: float
) -> None:
    """Give edges that lead to one sum a common copy of it, and of the levels of sums below it."""
    g.size[N_SPLITS] += 1
    v = g.node[g.edge[parents[0]]["parent"]]["vtree"]
    moved = np.empty(len(parents), dtype=np.int64)
    n_train, n_valid = 0, 0
    for i in range(len(parents)):
        e = parents[i]
        new = replace_edge(g, e, g.edge[e]["left"], g.edge[e]["right"])
        moved[i] = new
        n = rows_through(g.train_active[v], e, g.train_rows[n_train:])
        take_rows(g.train_active[v], g.train_rows[n_train : n_train + n], e, new, g.edge["train"])
        n_train += n
        n = rows_through(g.valid_active[v], e, g.valid_rows[n_valid:])
        take_rows(g.valid_active[v], g.valid_rows[n_valid : n_valid + n], e, new, g.edge["valid"])
        n_valid += n
    side = 0 if is_left else 1
    first_new = g.size[N_NODES]
    _unshare(g, v, moved, side, first_new, n_levels + 1, n_train, n_valid, pseudocount)


@kernel
def _unshare(
    g: Growth,
    top: int,
    edges: Any,
    sides: int,
    first_new: int,
    n_levels: int,
    n_train: int,
    n_valid: int,
    pseudocount: float,
) -> None:
    """Copy what the rows of `edges` (at vtree node `top`) pass below: left (0), right (1), both."""
    g.size[STAMP] += 2
    copied, served = g.size[STAMP] - 1, g.size[STAMP]  # stamps of originals, and of what serves
    first_copy = g.size[N_NODES]
    originals: list[Any] = [np.int64(0) for _ in range(0)]
    for e in edges:
        g.edge[e]["stamp"] = served
    vtree_nodes: list[Any] = [np.int64(top)]
    edges_at = [edges]
    for level in range(n_levels):
        nodes_below: list[Any] = [np.int64(0) for _ in range(0)]
        edges_below = [edges[:0]]
        for i in range(len(vtree_nodes)):
            v = vtree_nodes[i]
            if g.vtree[v]["left"] == NONE:
                continue
            for side in range(2):
                if level == 0 and sides != 2 and sides != side:
                    continue
                u = g.vtree[v]["left"] if side == 0 else g.vtree[v]["right"]
                found = _copy_children(
                    g, v, edges_at[i], side, n_train, first_new, copied, served, originals
                )
                rows = g.train_rows[:n_train]
                _enter_copies(
                    g, v, u, served, copied, g.train_active, g.train_weight, rows, g.edge["train"]
                )
                rows = g.valid_rows[:n_valid]
                _enter_copies(
                    g, v, u, served, copied, g.valid_active, g.valid_weight, rows, g.edge["valid"]
                )
                nodes_below.append(np.int64(u))
                edges_below.append(found)
        vtree_nodes = nodes_below
        edges_at = edges_below[1:]
    finish_copies(g, originals, first_copy, pseudocount)


@kernel
def _copy_children(
    g: Growth,
    v: int,
    edges: Any,
    side: int,
    n_train: int,
    first_new: int,
    copied: int,
    served: int,
    originals: list[Any],
) -> Any:
    """Copy the children of `edges` on one side that have rows; returns the copies' edges."""
    found: list[Any] = [np.int64(0) for _ in range(0)]
    for e in edges:  # what the split made serves these edges already
        n = g.edge[e]["left"] if side == 0 else g.edge[e]["right"]
        if n >= first_new and g.node[n]["first"] != NONE and g.node[n]["stamp"] != served:
            _serve(g, n, served, found)
    for s in g.train_rows[:n_train]:
        a = g.train_active[v, s]
        n = g.edge[a]["left"] if side == 0 else g.edge[a]["right"]
        if (
            g.node[n]["first"] == NONE
            or g.node[n]["stamp"] == copied
            or g.node[n]["stamp"] == served
            or g.train_weight[s] == 0.0
        ):
            continue
        m = copy_sum(g, n, copied)
        originals.append(np.int64(n))
        _serve(g, m, served, found)
    for e in edges:
        n = g.edge[e]["left"] if side == 0 else g.edge[e]["right"]
        if g.node[n]["stamp"] == copied:
            if side == 0:
                g.edge[e]["left"] = g.node_copy[n, 0]
            else:
                g.edge[e]["right"] = g.node_copy[n, 0]
            g.node[n]["uses"] -= 1
            g.node[g.node_copy[n, 0]]["uses"] += 1
    edges_below = np.empty(len(found), dtype=np.int64)
    for i in range(len(found)):
        edges_below[i] = found[i]
    return edges_below


@kernel
def _serve(g: Growth, n: int, served: int, found: list[Any]) -> None:
    """Mark a sum as one that serves the edges only, and list its edges."""
    g.node[n]["stamp"] = served
    e = g.node[n]["first"]
    while e != NONE:
        g.edge[e]["stamp"] = served
        found.append(np.int64(e))
        e = g.edge[e]["next"]


@kernel
def _enter_copies(
    g: Growth,
    v: int,
    u: int,
    served: int,
    copied: int,
    active: IntArray,
    weight: FloatArray,
    rows: IntArray,
    count: CountArray,
) -> None:
    """Move rows that pass served edges at v into the copies at u below it."""
    for s in rows:
        old = active[u, s]
        if old == NONE or g.edge[active[v, s]]["stamp"] != served:
            continue
        if g.edge[old]["stamp"] == copied:
            new = g.edge_copy[old, 0]
            active[u, s] = new
            count[old] -= weight[s]
            count[new] += weight[s]
