"""Own copies: edges stop sharing the sums below them with the rest of the circuit.

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
from strudel.learning.growing.growth import (
    ALIVE,
    N_NODES,
    N_SPLITS,
    SHRINKS,
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
def n_sums_below(g: Growth, edge: int, n_levels: int) -> tuple[int, int]:
    """How many sums there are in the levels below an edge, and how many edges they have."""
    g.size[STAMP] += 1
    stamp = g.size[STAMP]
    n_nodes, n_edges = 0, 0
    edges: list[Any] = [np.int64(edge)]
    for _ in range(n_levels):
        below: list[Any] = [np.int64(0) for _ in range(0)]
        for e in edges:
            for side in range(2):
                n = g.edge["left"][e] if side == 0 else g.edge["right"][e]
                if n == NONE or g.node["stamp"][n] == stamp:
                    continue
                g.node["stamp"][n] = stamp
                if g.node["first"][n] == NONE:
                    continue
                n_nodes += 1
                f = g.node["first"][n]
                while f != NONE:
                    n_edges += 1
                    below.append(np.int64(f))
                    f = g.edge["next"][f]
        edges = below
    return n_nodes, n_edges


@kernel
def own_copies_after_split(
    g: Growth, ones: int, first_new: int, n_levels: int, pseudocount: float
) -> None:
    """Give the two new edges of a split, each by itself, their own copies of the sums below.

    Nodes from `first_new` on were made by the split and serve one of the edges only.
    """
    v = g.node["vtree"][g.edge["parent"][ones]]
    for e in range(ones, ones + 2):
        n_train = rows_through(g.train_active[v], e, g.train_rows)
        n_valid = rows_through(g.valid_active[v], e, g.valid_rows)
        edges = np.empty(1, dtype=np.int64)
        edges[0] = e
        _own_copies(g, v, edges, 2, first_new, n_levels, n_train, n_valid, pseudocount)


@kernel
def clone_deeply(
    g: Growth, parents: IntArray, is_left: bool, n_levels: int, pseudocount: float
) -> None:
    """Give edges that lead to one sum a common copy of it, and of the levels of sums below it."""
    g.size[N_SPLITS] += 1
    v = g.node["vtree"][g.edge["parent"][parents[0]]]
    moved = np.empty(len(parents), dtype=np.int64)
    n_train, n_valid = 0, 0
    for i in range(len(parents)):
        e = parents[i]
        new = new_edge(g, g.edge["parent"][e], g.edge["left"][e], g.edge["right"][e], True)
        g.edge["prior"][new] = g.edge["prior"][e]
        moved[i] = new
        _take_place(g, e, new)
        kill(g, e)
        n = rows_through(g.train_active[v], e, g.train_rows[n_train:])
        _take_rows(g.train_active[v], g.train_rows[n_train : n_train + n], e, new, g.edge["train"])
        n_train += n
        n = rows_through(g.valid_active[v], e, g.valid_rows[n_valid:])
        _take_rows(g.valid_active[v], g.valid_rows[n_valid : n_valid + n], e, new, g.edge["valid"])
        n_valid += n
    side = 0 if is_left else 1
    first_new = g.size[N_NODES]
    _own_copies(g, v, moved, side, first_new, n_levels + 1, n_train, n_valid, pseudocount)


@kernel
def _take_place(g: Growth, edge: int, new: int) -> None:
    """Put a new edge where `edge` stands in its sum."""
    before, after = g.edge["previous"][edge], g.edge["next"][edge]
    g.edge["previous"][new], g.edge["next"][new] = before, after
    if before == NONE:
        g.node["first"][g.edge["parent"][edge]] = new
    else:
        g.edge["next"][before] = new
    if after != NONE:
        g.edge["previous"][after] = new


@kernel
def _take_rows(active: IntArray, rows: IntArray, edge: int, new: int, count: CountArray) -> None:
    """Give all rows of `edge` to the edge that takes its place."""
    for s in rows:
        active[s] = new
    count[new] = count[edge]
    count[edge] = 0.0


@kernel
def _own_copies(
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
    copied, own = g.size[STAMP] - 1, g.size[STAMP]  # stamps of originals, and of what serves us
    first_copy = g.size[N_NODES]
    originals: list[Any] = [np.int64(0) for _ in range(0)]
    for e in edges:
        g.edge["stamp"][e] = own
    vtree_nodes: list[Any] = [np.int64(top)]
    edges_at = [edges]
    for level in range(n_levels):
        nodes_below: list[Any] = [np.int64(0) for _ in range(0)]
        edges_below = [edges[:0]]
        for i in range(len(vtree_nodes)):
            v = vtree_nodes[i]
            if g.vtree["left"][v] == NONE:
                continue
            for side in range(2):
                if level == 0 and sides != 2 and sides != side:
                    continue
                u = g.vtree["left"][v] if side == 0 else g.vtree["right"][v]
                found = _copy_side(
                    g, v, edges_at[i], side, n_train, first_new, copied, own, originals
                )
                rows = g.train_rows[:n_train]
                _enter(g, v, u, own, copied, g.train_active, g.train_weight, rows, g.edge["train"])
                rows = g.valid_rows[:n_valid]
                _enter(g, v, u, own, copied, g.valid_active, g.valid_weight, rows, g.edge["valid"])
                nodes_below.append(np.int64(u))
                edges_below.append(found)
        vtree_nodes = nodes_below
        edges_at = edges_below[1:]
    for n in originals:
        if g.node["uses"][n] == 0:
            e = g.node["first"][n]
            while e != NONE:
                if g.edge["death"][e] == ALIVE:
                    kill(g, e)
                e = g.edge["next"][e]
    for n in originals:
        refresh(g, n, pseudocount)
    for n in range(first_copy, g.size[N_NODES]):
        refresh(g, n, pseudocount)


@kernel
def _copy_side(
    g: Growth,
    v: int,
    edges: Any,
    side: int,
    n_train: int,
    first_new: int,
    copied: int,
    own: int,
    originals: list[Any],
) -> Any:
    """Copy the children of `edges` on one side that have rows; returns the copies' edges."""
    found: list[Any] = [np.int64(0) for _ in range(0)]
    for e in edges:  # what the split made serves us already
        n = g.edge["left"][e] if side == 0 else g.edge["right"][e]
        if n >= first_new and g.node["first"][n] != NONE and g.node["stamp"][n] != own:
            g.node["stamp"][n] = own
            _list_edges(g, n, own, found)
    for s in g.train_rows[:n_train]:
        a = g.train_active[v, s]
        n = g.edge["left"][a] if side == 0 else g.edge["right"][a]
        if (
            g.node["first"][n] == NONE
            or g.node["stamp"][n] == copied
            or g.node["stamp"][n] == own
            or g.train_weight[s] == 0.0
        ):
            continue
        m = _copy_sum(g, n)
        g.node["stamp"][n] = copied
        g.node["stamp"][m] = own
        g.node_copy[n, 0] = m
        originals.append(np.int64(n))
        _list_edges(g, m, own, found)
    for e in edges:
        n = g.edge["left"][e] if side == 0 else g.edge["right"][e]
        if g.node["stamp"][n] == copied:
            if side == 0:
                g.edge["left"][e] = g.node_copy[n, 0]
            else:
                g.edge["right"][e] = g.node_copy[n, 0]
            g.node["uses"][n] -= 1
            g.node["uses"][g.node_copy[n, 0]] += 1
    edges_below = np.empty(len(found), dtype=np.int64)
    for i in range(len(found)):
        edges_below[i] = found[i]
    return edges_below


@kernel
def _list_edges(g: Growth, n: int, own: int, found: list[Any]) -> None:
    """Append the edges of a sum that serves us."""
    e = g.node["first"][n]
    while e != NONE:
        g.edge["stamp"][e] = own
        found.append(np.int64(e))
        e = g.edge["next"][e]


@kernel
def _copy_sum(g: Growth, n: int) -> int:
    """A copy with the same children; `edge_copy` says which edge became which."""
    m = new_node(g, g.node["vtree"][n])
    g.node["is_open"][m] = g.node["is_open"][n]
    for w in range(g.node_one.shape[1]):
        g.node_one[m, w] = g.node_one[n, w]
        g.node_zero[m, w] = g.node_zero[n, w]
    total, strength = 0.0, g.node["strength"][n]
    e = g.node["first"][n]
    while e != NONE:
        total += g.edge["train"][e]
        e = g.edge["next"][e]
    last = NONE
    e = g.node["first"][n]
    while e != NONE:
        new = new_edge(g, m, g.edge["left"][e], g.edge["right"][e], True)
        g.edge_copy[e, 0] = new
        if g.size[SHRINKS]:  # copy and original are drawn to what they were together
            theta = (g.edge["train"][e] + strength * g.edge["prior"][e]) / (total + strength)
            g.edge["prior"][new] = theta
            g.edge["prior"][e] = theta
        append_edge(g, m, last, new)
        last = new
        e = g.edge["next"][e]
    g.node["strength"][n] = g.strength[0]
    return m


@kernel
def _enter(
    g: Growth,
    v: int,
    u: int,
    own: int,
    copied: int,
    active: IntArray,
    weight: FloatArray,
    rows: IntArray,
    count: CountArray,
) -> None:
    """Move rows that pass edges of our own at v into the copies at u below it."""
    for s in rows:
        old = active[u, s]
        if old == NONE or g.edge["stamp"][active[v, s]] != own:
            continue
        if g.node["stamp"][g.edge["parent"][old]] == copied:
            new = g.edge_copy[old, 0]
            active[u, s] = new
            count[old] -= weight[s]
            count[new] += weight[s]
