"""One clone: an edge gets its own copy of a sum that it shares with others.

In:  `Growth`, an edge and a sum below it.
Out: the same arrays, changed.
"""

from __future__ import annotations

from strudel._numba import kernel
from strudel._types import NONE, CountArray, FloatArray, IntArray
from strudel.learning.growing.copy_sum import copy_sum, follow_copies, replace_edge, take_rows
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
