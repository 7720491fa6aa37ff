"""One split: copy what it must, move the rows it concerns, update counts and likelihoods.

In:  `Growth`, the arrays of a circuit that grows; an edge and the place of a variable.
Out: the same arrays, changed.
"""

from __future__ import annotations

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, CountArray, FloatArray, IntArray, WordArray
from strudel.learning.growing.copies import follow_copies
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
    stamp, v = g.size[STAMP], g.node[g.edge[edge]["parent"]]["vtree"]
    moved = _move_rows(
        g.vtree,
        g.edge["stamp"],
        g.edge_copy,
        stamp,
        v,
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
        g.vtree,
        g.edge["stamp"],
        g.edge_copy,
        stamp,
        v,
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
    top = g.edge[edge]["parent"]
    v = g.node[top]["vtree"]
    n_found, n_copied_edges = find_undecided(g, edge, place, stamp)
    if (
        g.size[N_NODES] + 2 * n_found > len(g.node)
        or g.size[N_EDGES] + 2 * n_copied_edges + 2 > len(g.edge)
        or g.size[N_HEAP] + 3 * n_copied_edges + 2 + g.node[top]["width"] > len(g.heap)
    ):
        return NONE, NONE, NONE
    g.size[N_SPLITS] += 1

    first_copy = g.size[N_NODES]
    for i in range(n_found - 1, -1, -1):  # children before parents
        if g.size[SHRINKS]:
            _find_chance(g.node, g.edge, g.vtree, g.node_one, g.node_found[i], place, stamp)
        _copy_for_both_values(g, g.node_found[i], place, stamp)

    is_left = place < g.vtree[g.vtree[v]["left"]]["last"]
    child = g.edge[edge]["left"] if is_left else g.edge[edge]["right"]
    other = g.edge[edge]["right"] if is_left else g.edge[edge]["left"]
    ones = new_edge(g.size, g.node, g.edge, top, g.node_copy[child, 1], other, is_left)
    zeros = new_edge(g.size, g.node, g.edge, top, g.node_copy[child, 0], other, is_left)
    if g.size[SHRINKS]:
        g.edge[ones]["prior"] = g.edge[edge]["prior"] * g.node[child]["chance"]
        g.edge[zeros]["prior"] = g.edge[edge]["prior"] * (1.0 - g.node[child]["chance"])
    _replace(g.size, g.node, g.edge, edge, ones, zeros)
    return ones, n_found, first_copy


@kernel
def close_split(g: Growth, ones: int, n_found: int, first_copy: int, pseudocount: float) -> None:
    """Bring the likelihoods of everything that a split touched up to date with the counts."""
    refresh(g, g.edge[ones]["parent"], pseudocount)
    for i in range(n_found):
        n = g.node_found[i]
        if not g.node[n]["is_reached"]:  # as most sums late in a search: nothing to bring
            continue
        for x in range(-1, 2):  # the node itself, then its copies
            m = n if x < 0 else g.node_copy[n, x]
            if x < 0 or m >= first_copy:  # not a literal
                refresh(g, m, pseudocount)


@kernel
def _is_undecided(one: WordArray, zero: WordArray, n: int, place: int) -> bool:
    """Whether both literals of the variable at `place` are below node n."""
    bit = np.uint64(1) << np.uint64(place % 64)
    return (one[n, place // 64] & zero[n, place // 64] & bit) != np.uint64(0)


@kernel
def find_undecided(g: Growth, edge: int, place: int, stamp: int) -> tuple[int, int]:
    """List in `node_found`, parents first, the nodes below `edge` that have not decided `place`.

    They all lie on the vtree path to the variable's leaf. Returns their number and that of their
    edges.
    """
    v = g.node[g.edge[edge]["parent"]]["vtree"]
    is_left = place < g.vtree[g.vtree[v]["left"]]["last"]
    v = g.vtree[v]["left"] if is_left else g.vtree[v]["right"]
    g.node_found[0] = g.edge[edge]["left"] if is_left else g.edge[edge]["right"]
    g.node[g.node_found[0]]["stamp"] = stamp
    n_found, n_edges, level = 1, 0, 0
    while level < n_found:
        end = n_found
        is_leaf = g.vtree[v]["left"] == NONE
        is_left = (not is_leaf) and place < g.vtree[g.vtree[v]["left"]]["last"]
        for i in range(level, end):
            is_reached = False
            e = g.node[g.node_found[i]]["first"]
            while e != NONE:
                n_edges += 1
                g.edge[e]["stamp"] = stamp
                is_reached |= g.edge[e]["train"] > 0.0 or g.edge[e]["valid"] > 0.0
                if not is_leaf:
                    child = g.edge[e]["left"] if is_left else g.edge[e]["right"]
                    if g.node[child]["stamp"] != stamp and _is_undecided(
                        g.node_one, g.node_zero, child, place
                    ):
                        g.node[child]["stamp"] = stamp
                        g.node_found[n_found] = child
                        n_found += 1
                e = g.edge[e]["next"]
            g.node[g.node_found[i]]["is_reached"] = is_reached
        level = end
        if not is_leaf:
            v = g.vtree[v]["left"] if is_left else g.vtree[v]["right"]
    return n_found, n_edges


@kernel
def _find_chance(
    node: AnyArray,
    edge: AnyArray,
    vtree: AnyArray,
    node_one: WordArray,
    n: int,
    place: int,
    stamp: int,
) -> None:
    """The probability of a one at `place` below n, before the split; its children are done."""
    v = node[n]["vtree"]
    strength = node[n]["strength"]
    total, chance = 0.0, 0.0
    e = node[n]["first"]
    while e != NONE:
        total += edge[e]["train"]
        e = edge[e]["next"]
    is_leaf = vtree[v]["left"] == NONE
    is_left = (not is_leaf) and place < vtree[vtree[v]["left"]]["last"]
    word, bit = place // 64, np.uint64(1) << np.uint64(place % 64)
    e = node[n]["first"]
    while e != NONE:
        theta = (edge[e]["train"] + strength * edge[e]["prior"]) / (total + strength)
        child = edge[e]["left"] if is_left or is_leaf else edge[e]["right"]
        if node[child]["stamp"] == stamp:
            chance += theta * node[child]["chance"]
        elif node_one[child, word] & bit:
            chance += theta
        e = edge[e]["next"]
    node[n]["chance"] = chance


@kernel
def _copy_for_both_values(g: Growth, n: int, place: int, stamp: int) -> None:
    """Condition node n on either value of the variable at `place`; its children are done."""
    size, node, edge, vtree = g.size, g.node, g.edge, g.vtree
    v = node[n]["vtree"]
    if vtree[v]["left"] == NONE:  # a sum over both literals becomes one of them
        var = g.place_var[place]
        g.node_copy[n, 0] = 2 * var
        g.node_copy[n, 1] = 2 * var + 1
        e = node[n]["first"]
        while e != NONE:
            g.edge_copy[e, 0] = NONE
            g.edge_copy[e, 1] = NONE
            e = edge[e]["next"]
        return
    is_left = place < vtree[vtree[v]["left"]]["last"]
    word, bit = place // 64, np.uint64(1) << np.uint64(place % 64)
    shrinks = size[SHRINKS] != 0
    old = node[n]["strength"]
    total = 0.0
    if shrinks:
        e = node[n]["first"]
        while e != NONE:
            total += edge[e]["train"]
            e = edge[e]["next"]
    for x in range(1, -1, -1):
        m = new_node(size, node, v, g.strength[0])
        g.node_copy[n, x] = m
        whole = max(node[n]["chance"] if x == 1 else 1.0 - node[n]["chance"], 1e-300)
        last = NONE
        e = node[n]["first"]
        while e != NONE:
            child = edge[e]["left"] if is_left else edge[e]["right"]
            other = edge[e]["right"] if is_left else edge[e]["left"]
            new = NONE
            if node[child]["stamp"] == stamp:
                new = new_edge(size, node, edge, m, g.node_copy[child, x], other, is_left)
            elif (g.node_one[child, word] if x == 1 else g.node_zero[child, word]) & bit:
                new = new_edge(
                    size, node, edge, m, child, other, is_left
                )  # decided already, and in this way
            g.edge_copy[e, x] = new
            if new != NONE:
                append_edge(node, edge, m, last, new)
                last = new
                if shrinks:
                    part = 1.0
                    if node[child]["stamp"] == stamp:
                        part = node[child]["chance"] if x == 1 else 1.0 - node[child]["chance"]
                    theta = (edge[e]["train"] + old * edge[e]["prior"]) / (total + old)
                    edge[new]["prior"] = theta * part / whole
            e = edge[e]["next"]
        collect_scope(node, edge, vtree, g.node_one, g.node_zero, m)


@kernel
def _replace(
    size: AnyArray, node: AnyArray, edge: AnyArray, old: int, ones: int, zeros: int
) -> None:
    """Put the two new edges in front of the parent's list and take the old one out."""
    top = edge[old]["parent"]
    before, after = edge[old]["previous"], edge[old]["next"]
    if before == NONE:
        node[top]["first"] = after
    else:
        edge[before]["next"] = after
    if after != NONE:
        edge[after]["previous"] = before
    edge[ones]["previous"], edge[ones]["next"] = NONE, zeros
    edge[zeros]["previous"], edge[zeros]["next"] = ones, node[top]["first"]
    if node[top]["first"] != NONE:
        edge[node[top]["first"]]["previous"] = zeros
    node[top]["first"] = ones
    node[top]["width"] += 1
    kill(size, node, edge, old)


@kernel
def _move_rows(
    vtree: AnyArray,
    edge_stamp: IntArray,
    edge_copy: IntArray,
    stamp: int,
    v: int,
    edge: int,
    ones: int,
    place: int,
    active: IntArray,
    words: WordArray,
    weight: FloatArray,
    rows: IntArray,
    count: CountArray,
) -> int:
    """Move the rows of `edge`, at vtree node v, to the copies for their own value.

    Down to the variable's leaf, they take the copies of edges that have the stamp.
    """
    zeros = ones + 1
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
    while vtree[v]["left"] != NONE:
        left = vtree[v]["left"]
        v = left if place < vtree[left]["last"] else vtree[v]["right"]
        for x in range(1, -1, -1):
            mine = rows[:n_ones] if x == 1 else rows[n_ones:n_moved]
            follow_copies(active[v], mine, x, stamp, edge_stamp, edge_copy, weight, count)
    return n_moved
