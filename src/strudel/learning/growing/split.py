"""One split: copy what it must, move the rows it concerns, update counts and likelihoods.

In:  `Growth`, the arrays of a circuit that grows; an edge and the place of a variable.
Out: the same arrays, changed.
"""

from __future__ import annotations

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, CountArray, FloatArray, IntArray, WordArray
from strudel.learning.growing.copy_sum import follow_copies
from strudel.learning.growing.growth import (
    N_EDGES,
    N_HEAP,
    N_NODES,
    N_SPLITS,
    SHRINKS,
    STAMP,
    Growth,
    append_edge,
    collect_scope,
    kill,
    new_edge,
    new_node,
    refresh,
    rows_through,
)


@kernel
def split(g: Growth, edge: int, place: int, pseudocount: float) -> int:
    """Split `edge` at `place`; returns the rows moved, or NONE (nothing done) for lack of room."""
    ones, n_found, first_copy = open_split(g, edge, place)
    if ones == NONE:
        return NONE
    moved = _move_rows(
        g,
        edge,
        ones,
        place,
        g.train_active,
        g.train_words,
        g.train_weight,
        g.train_rows,
        g.edge["train"],
    )
    _move_rows(
        g,
        edge,
        ones,
        place,
        g.valid_active,
        g.valid_words,
        g.valid_weight,
        g.valid_rows,
        g.edge["valid"],
    )
    close_split(g, ones, n_found, first_copy, pseudocount)
    return moved


@kernel
def open_split(g: Growth, edge: int, place: int) -> tuple[int, int, int]:
    """Change the circuit, but move no rows yet.

    Returns the new edge for value 1, behind which comes the one for 0, how many nodes were copied,
    listed in `node_found`, and the first of their copies; all NONE for lack of room.
    """
    g.size[STAMP] += 1
    stamp = g.size[STAMP]
    top = g.edge["parent"][edge]
    v = g.node["vtree"][top]
    n_found, n_copied_edges = find_undecided(g, edge, place, stamp)
    if (
        g.size[N_NODES] + 2 * n_found > len(g.node)
        or g.size[N_EDGES] + 2 * n_copied_edges + 2 > len(g.edge)
        or g.size[N_HEAP] + 3 * n_copied_edges + 2 + g.node["width"][top] > len(g.heap)
    ):
        return NONE, NONE, NONE
    g.size[N_SPLITS] += 1

    first_copy = g.size[N_NODES]
    for i in range(n_found - 1, -1, -1):  # children before parents
        if g.size[SHRINKS]:
            _find_chance(g, g.node_found[i], place, stamp)
        _copy_for_both_values(g, g.node_found[i], place, stamp)

    is_left = place < g.vtree["last"][g.vtree["left"][v]]
    child = g.edge["left"][edge] if is_left else g.edge["right"][edge]
    other = g.edge["right"][edge] if is_left else g.edge["left"][edge]
    ones = new_edge(g, top, g.node_copy[child, 1], other, is_left)
    zeros = new_edge(g, top, g.node_copy[child, 0], other, is_left)
    if g.size[SHRINKS]:
        g.edge["prior"][ones] = g.edge["prior"][edge] * g.node["chance"][child]
        g.edge["prior"][zeros] = g.edge["prior"][edge] * (1.0 - g.node["chance"][child])
    _replace(g, edge, ones, zeros)
    return ones, n_found, first_copy


@kernel
def close_split(g: Growth, ones: int, n_found: int, first_copy: int, pseudocount: float) -> None:
    """Bring the likelihoods of everything that a split touched up to date with the counts."""
    refresh(g, g.edge["parent"][ones], pseudocount)
    for i in range(n_found):
        n = g.node_found[i]
        if not g.node["is_reached"][n]:  # as most sums late in a search: nothing to bring
            continue
        refresh(g, n, pseudocount)
        for x in range(2):
            if g.node_copy[n, x] >= first_copy:  # not a literal
                refresh(g, g.node_copy[n, x], pseudocount)


@kernel
def _is_undecided(g: Growth, n: int, place: int) -> bool:
    """Whether both literals of the variable at `place` are below node n."""
    bit = np.uint64(1) << np.uint64(place % 64)
    return (g.node_one[n, place // 64] & g.node_zero[n, place // 64] & bit) != np.uint64(0)


@kernel
def find_undecided(g: Growth, edge: int, place: int, stamp: int) -> tuple[int, int]:
    """List in `node_found`, parents first, the nodes below `edge` that have not decided `place`.

    They all lie on the vtree path to the variable's leaf. Returns their number and that of their
    edges.
    """
    v = g.node["vtree"][g.edge["parent"][edge]]
    is_left = place < g.vtree["last"][g.vtree["left"][v]]
    v = g.vtree["left"][v] if is_left else g.vtree["right"][v]
    g.node_found[0] = g.edge["left"][edge] if is_left else g.edge["right"][edge]
    g.node["stamp"][g.node_found[0]] = stamp
    n_found, n_edges, level = 1, 0, 0
    while level < n_found:
        end = n_found
        is_leaf = g.vtree["left"][v] == NONE
        is_left = (not is_leaf) and place < g.vtree["last"][g.vtree["left"][v]]
        for i in range(level, end):
            is_reached = False
            e = g.node["first"][g.node_found[i]]
            while e != NONE:
                n_edges += 1
                g.edge["stamp"][e] = stamp
                is_reached |= g.edge["train"][e] > 0.0 or g.edge["valid"][e] > 0.0
                if not is_leaf:
                    child = g.edge["left"][e] if is_left else g.edge["right"][e]
                    if g.node["stamp"][child] != stamp and _is_undecided(g, child, place):
                        g.node["stamp"][child] = stamp
                        g.node_found[n_found] = child
                        n_found += 1
                e = g.edge["next"][e]
            g.node["is_reached"][g.node_found[i]] = is_reached
        level = end
        if not is_leaf:
            v = g.vtree["left"][v] if is_left else g.vtree["right"][v]
    return n_found, n_edges


@kernel
def _find_chance(g: Growth, n: int, place: int, stamp: int) -> None:
    """The probability of a one at `place` below n, before the split; its children are done."""
    v = g.node["vtree"][n]
    strength = g.node["strength"][n]
    total, chance = 0.0, 0.0
    e = g.node["first"][n]
    while e != NONE:
        total += g.edge["train"][e]
        e = g.edge["next"][e]
    is_leaf = g.vtree["left"][v] == NONE
    is_left = (not is_leaf) and place < g.vtree["last"][g.vtree["left"][v]]
    word, bit = place // 64, np.uint64(1) << np.uint64(place % 64)
    e = g.node["first"][n]
    while e != NONE:
        theta = (g.edge["train"][e] + strength * g.edge["prior"][e]) / (total + strength)
        child = g.edge["left"][e] if is_left or is_leaf else g.edge["right"][e]
        if g.node["stamp"][child] == stamp:
            chance += theta * g.node["chance"][child]
        elif g.node_one[child, word] & bit:
            chance += theta
        e = g.edge["next"][e]
    g.node["chance"][n] = chance


@kernel
def _copy_for_both_values(g: Growth, n: int, place: int, stamp: int) -> None:
    """Condition node n on either value of the variable at `place`; its children are done."""
    v = g.node["vtree"][n]
    if g.vtree["left"][v] == NONE:  # a sum over both literals becomes one of them
        var = g.place_var[place]
        g.node_copy[n, 0] = 2 * var
        g.node_copy[n, 1] = 2 * var + 1
        e = g.node["first"][n]
        while e != NONE:
            g.edge_copy[e, 0] = NONE
            g.edge_copy[e, 1] = NONE
            e = g.edge["next"][e]
        return
    is_left = place < g.vtree["last"][g.vtree["left"][v]]
    word, bit = place // 64, np.uint64(1) << np.uint64(place % 64)
    shrinks = g.size[SHRINKS] != 0
    old = g.node["strength"][n]
    total = 0.0
    if shrinks:
        e = g.node["first"][n]
        while e != NONE:
            total += g.edge["train"][e]
            e = g.edge["next"][e]
    for x in range(1, -1, -1):
        m = new_node(g, v)
        g.node_copy[n, x] = m
        whole = max(g.node["chance"][n] if x == 1 else 1.0 - g.node["chance"][n], 1e-300)
        last = NONE
        e = g.node["first"][n]
        while e != NONE:
            child = g.edge["left"][e] if is_left else g.edge["right"][e]
            other = g.edge["right"][e] if is_left else g.edge["left"][e]
            new = NONE
            if g.node["stamp"][child] == stamp:
                new = new_edge(g, m, g.node_copy[child, x], other, is_left)
            elif (g.node_one[child, word] if x == 1 else g.node_zero[child, word]) & bit:
                new = new_edge(g, m, child, other, is_left)  # decided already, and in this way
            g.edge_copy[e, x] = new
            if new != NONE:
                append_edge(g, m, last, new)
                last = new
                if shrinks:
                    part = 1.0
                    if g.node["stamp"][child] == stamp:
                        part = g.node["chance"][child] if x == 1 else 1.0 - g.node["chance"][child]
                    theta = (g.edge["train"][e] + old * g.edge["prior"][e]) / (total + old)
                    g.edge["prior"][new] = theta * part / whole
            e = g.edge["next"][e]
        collect_scope(g, m)


@kernel
def _replace(g: Growth, edge: int, ones: int, zeros: int) -> None:
    """Put the two new edges in front of the parent's list and take the old one out."""
    top = g.edge["parent"][edge]
    before, after = g.edge["previous"][edge], g.edge["next"][edge]
    if before == NONE:
        g.node["first"][top] = after
    else:
        g.edge["next"][before] = after
    if after != NONE:
        g.edge["previous"][after] = before
    g.edge["previous"][ones], g.edge["next"][ones] = NONE, zeros
    g.edge["previous"][zeros], g.edge["next"][zeros] = ones, g.node["first"][top]
    if g.node["first"][top] != NONE:
        g.edge["previous"][g.node["first"][top]] = zeros
    g.node["first"][top] = ones
    g.node["width"][top] += 1
    kill(g, edge)


@kernel
def _move_rows(
    g: Growth,
    edge: int,
    ones: int,
    place: int,
    active: IntArray,
    words: WordArray,
    weight: FloatArray,
    rows: IntArray,
    count: CountArray,
) -> int:
    """Move the rows of `edge` to the copies for their own value, down to the variable's leaf."""
    stamp, zeros = g.size[STAMP], ones + 1
    v = g.node["vtree"][g.edge["parent"][edge]]
    n_moved = rows_through(active[v], edge, rows)
    word, shift = place // 64, np.uint64(place % 64)
    # Rows with a one go to the front, so that the loops below need no test.
    n_ones = 0
    for i in range(n_moved):
        s = rows[i]
        if (words[s, word] >> shift) & np.uint64(1):
            rows[i] = rows[n_ones]
            rows[n_ones] = s
            n_ones += 1
            active[v, s] = ones
            count[ones] += weight[s]
        else:
            active[v, s] = zeros
            count[zeros] += weight[s]
    count[edge] = 0.0
    while g.vtree["left"][v] != NONE:
        v = (
            g.vtree["left"][v]
            if place < g.vtree["last"][g.vtree["left"][v]]
            else g.vtree["right"][v]
        )
        follow_copies(
            active[v], rows[:n_ones], 1, stamp, g.edge["stamp"], g.edge_copy, weight, count
        )
        follow_copies(
            active[v], rows[n_ones:n_moved], 0, stamp, g.edge["stamp"], g.edge_copy, weight, count
        )
    return n_moved
