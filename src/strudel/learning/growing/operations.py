"""Splits and copies of sums: what an operation changes in the arrays of a circuit that grows.

In:  `Growth`; an edge and the place of a variable, an edge and a sum below it, or edges of one
     vtree node, and how many levels of sums below to copy.
Out: the same arrays, changed: what must be is copied, the rows it concerns have moved, counts and
     likelihoods are up to date.

A split copies only what conditioning forces. `copy_depth` asks for more: fresh copies of the next
levels, as a tree, whatever was shared. Unsharing copies a sum once for all the edges that are
served, however many ways lead to it, and only if training rows come along one of these ways: a copy
without rows would have nothing to say. The copy leads to the same children as the original, until
these are copied in turn.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, CountArray, FloatArray, IntArray, WordArray
from strudel.learning.growing.growth import (
    ALIVE,
    N_EDGES,
    N_HEAP,
    N_NODES,
    N_SPLITS,
    SHRINKS,
    STAMP,
    Growth,
    append_edge,
    collect_scope,
    count_of,
    kill,
    new_edge,
    new_node,
    refresh,
    rows_through,
)


@kernel
def split(g: Growth, edge: int, place: int, pseudocount: float) -> int:
    """Split `edge` at `place`; returns the rows moved, or NONE (nothing done) for lack of room.

    The new edge for value 1 comes after all others, and the one for 0 behind it.
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
        return NONE
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

    moved = _move_to_values(
        g, v, edge, ones, place, g.train_active, g.train_words, g.train_weight, g.train_rows,
        g.edge["train"],
    )  # fmt: skip
    _move_to_values(
        g, v, edge, ones, place, g.valid_active, g.valid_words, g.valid_weight, g.valid_rows,
        g.edge["valid"],
    )  # fmt: skip
    refresh(g, top, pseudocount)
    for i in range(n_found):
        n = g.node_found[i]
        if not g.node[n]["is_reached"]:  # as most sums late in a search: nothing to bring
            continue
        for x in range(-1, 2):  # the node itself, then its copies
            m = n if x < 0 else g.node_copy[n, x]
            if x < 0 or m >= first_copy:  # not a literal
                refresh(g, m, pseudocount)
    return moved


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
def _move_to_values(
    g: Growth,
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
    vtree, stamp, edge_stamp, edge_copy = g.vtree, g.size[STAMP], g.edge["stamp"], g.edge_copy
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
                _enter_unshared(
                    g, v, u, served, copied, g.train_active, g.train_weight, rows, g.edge["train"]
                )
                rows = g.valid_rows[:n_valid]
                _enter_unshared(
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
def _enter_unshared(
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
