"""One clone: an edge gets its own copy of a sum that it shares with others.

In:  `Growth`, an edge and one of its two sides.
Out: the same arrays, changed.
"""

from __future__ import annotations

from strudel._numba import kernel
from strudel._types import NONE, CountArray, FloatArray, IntArray
from strudel.learning.growing.growth import (
    N_EDGES,
    N_NODES,
    N_SPLITS,
    SHRINKS,
    Growth,
    append_edge,
    kill,
    new_edge,
    new_node,
    refresh,
    rows_through,
)


@kernel
def clone(g: Growth, edge: int, target: int, pseudocount: float) -> int:
    """Give `edge` its own copy of sum `target` below it, and of the unary sums between.

    Returns the rows moved, or NONE (nothing done) for lack of room.
    """
    v = g.node["vtree"][g.edge["parent"][edge]]
    c = g.node["vtree"][target]
    n_steps = g.vtree["depth"][c] - g.vtree["depth"][v]
    if g.size[N_NODES] + n_steps > len(g.node) or g.size[N_EDGES] + 2 * n_steps + g.node["width"][
        target
    ] > len(g.edge):
        return NONE
    g.size[N_SPLITS] += 1
    place = g.vtree["first"][c]
    e = edge
    moved = 0
    while True:
        is_left = place < g.vtree["last"][g.vtree["left"][v]]
        child = g.edge["left"][e] if is_left else g.edge["right"][e]
        if g.node["uses"][child] > 1:
            e, moved = _clone_child(g, e, is_left, pseudocount)
        if child == target:
            return moved
        child = g.edge["left"][e] if is_left else g.edge["right"][e]
        e = g.node["first"][child]
        v = g.vtree["left"][v] if is_left else g.vtree["right"][v]


@kernel
def _clone_child(g: Growth, edge: int, is_left: bool, pseudocount: float) -> tuple[int, int]:
    """Clone the child of `edge` on one side; returns the edge that replaces it and its rows."""
    top = g.edge["parent"][edge]
    v = g.node["vtree"][top]
    n = g.edge["left"][edge] if is_left else g.edge["right"][edge]
    other = g.edge["right"][edge] if is_left else g.edge["left"][edge]
    c = g.node["vtree"][n]
    shrinks = g.size[SHRINKS] != 0

    m = new_node(g, c)
    g.node["is_open"][m] = g.node["is_open"][n]
    for w in range(g.node_one.shape[1]):
        g.node_one[m, w] = g.node_one[n, w]
        g.node_zero[m, w] = g.node_zero[n, w]
    total = 0.0
    if shrinks:
        f = g.node["first"][n]
        while f != NONE:
            total += g.edge["train"][f]
            f = g.edge["next"][f]
    last = NONE
    old = g.node["strength"][n]
    f = g.node["first"][n]
    while f != NONE:
        new = new_edge(g, m, g.edge["left"][f], g.edge["right"][f], True)
        g.edge_copy[f, 0] = new
        append_edge(g, m, last, new)
        last = new
        if shrinks:
            theta = (g.edge["train"][f] + old * g.edge["prior"][f]) / (total + old)
            g.edge["prior"][new] = theta
            g.edge["prior"][f] = theta
        f = g.edge["next"][f]
    g.node["strength"][n] = g.strength[0]
    moved = new_edge(g, top, m, other, is_left)
    g.edge["prior"][moved] = g.edge["prior"][edge]
    before, after = g.edge["previous"][edge], g.edge["next"][edge]
    g.edge["previous"][moved], g.edge["next"][moved] = before, after
    if before == NONE:
        g.node["first"][top] = moved
    else:
        g.edge["next"][before] = moved
    if after != NONE:
        g.edge["previous"][after] = moved
    kill(g, edge)
    n_rows = _move(
        g.train_active,
        v,
        c,
        edge,
        moved,
        g.edge_copy,
        g.train_weight,
        g.train_rows,
        g.edge["train"],
    )
    _move(
        g.valid_active,
        v,
        c,
        edge,
        moved,
        g.edge_copy,
        g.valid_weight,
        g.valid_rows,
        g.edge["valid"],
    )
    refresh(g, top, pseudocount)
    refresh(g, n, pseudocount)
    refresh(g, m, pseudocount)
    return moved, n_rows


@kernel
def _move(
    active: IntArray,
    v: int,
    c: int,
    edge: int,
    moved: int,
    edge_copy: IntArray,
    weight: FloatArray,
    rows: IntArray,
    count: CountArray,
) -> int:
    """Move the rows of `edge` to the edge that replaces it, and below to the copies."""
    n_rows = rows_through(active[v], edge, rows)
    count[moved] = count[edge]
    count[edge] = 0.0
    for i in range(n_rows):
        s = rows[i]
        active[v, s] = moved
        old = active[c, s]
        if old != NONE:
            new = edge_copy[old, 0]
            active[c, s] = new
            count[old] -= weight[s]
            count[new] += weight[s]
    return n_rows
