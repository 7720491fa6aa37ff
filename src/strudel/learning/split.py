"""One split: copy what it must, move the rows it concerns, update counts and likelihoods.

In:  `Growth`, the arrays of a circuit that grows; an edge and the place of a variable.
Out: the same arrays, changed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, CountArray, FloatArray, IntArray, WordArray

ALIVE = np.iinfo(np.int32).max  # death of an edge that has not died

# Places in `Growth.size`.
N_NODES, N_EDGES, N_ALIVE, N_HEAP, N_SPLITS, N_IMPOSSIBLE, STAMP, ROOT = range(8)


# One record per node, edge, heap entry and vtree node: what belongs together lies together. With an
# array per property late splits of plants took 1.4 times (252 us against 180), and compiling the
# learner 1.6 times as long (31 s against 20).
NODE = np.dtype(
    [
        ("vtree", np.int32),
        ("first", np.int32),  # first edge, NONE at a literal
        ("width", np.int32),  # number of edges
        ("uses", np.int32),  # number of living edges that lead to the node
        ("stamp", np.int32),  # the operation that last touched the node
        ("is_open", np.bool_),  # whether some variable is undecided below
        ("train", np.float64),  # what the node contributes to the training log-likelihood
        ("valid", np.float64),
    ],
    align=True,
)
EDGE = np.dtype(
    [
        ("parent", np.int32),
        ("left", np.int32),
        ("right", np.int32),
        ("next", np.int32),  # next edge of the same parent
        ("previous", np.int32),
        ("birth", np.int32),
        ("death", np.int32),
        ("stamp", np.int32),
        ("train", np.float64),  # weight of the training rows through it
        ("valid", np.float64),
        ("key", np.float64),  # count under which the edge last entered the heap
        ("is_candidate", np.bool_),  # whether some variable is still undecided below
    ],
    align=True,
)
HEAP = np.dtype([("key", np.float64), ("depth", np.int32), ("edge", np.int32)])
VTREE = np.dtype(
    [
        ("left", np.int32),
        ("right", np.int32),
        ("parent", np.int32),
        ("depth", np.int32),
        ("first", np.int32),  # first place
        ("last", np.int32),  # last place plus one
        ("stamp", np.int32),
    ]
)


class Growth(NamedTuple):
    """Every array of the growing circuit; nodes, edges and heap have room to spare.

    A *place* is the position of a variable in the vtree's order of leaves, so that the variables
    below a vtree node are a range of places.
    """

    size: AnyArray  # (8,) int64 how much of the arrays is in use
    total: FloatArray  # (2,) log-likelihood of all training and all validation rows
    node: AnyArray  # (n,) NODE
    node_one: WordArray  # (n, n_words) places with a positive literal below
    node_zero: WordArray  # (n, n_words) places with a negative literal below
    node_copy: IntArray  # (n, 2) copies for value 0 and 1 in the operation of its stamp
    node_found: IntArray  # work list of nodes
    edge: AnyArray  # (n,) EDGE
    edge_copy: IntArray  # (n, 2)
    heap: AnyArray  # (n,) HEAP, largest count first, with stale entries
    vtree: AnyArray  # (n_vtree_nodes,) VTREE
    place_var: IntArray  # (n_vars,) variable at a place
    train_active: IntArray  # (n_vtree_nodes, n_rows) active edge
    train_words: WordArray  # (n_rows, n_words) one bit per place
    train_weight: FloatArray
    train_rows: IntArray  # work list of rows
    valid_active: IntArray
    valid_words: WordArray
    valid_weight: FloatArray
    valid_rows: IntArray


@kernel
def link(g: Growth, node_edges: IntArray) -> None:
    """Fill what follows from the first circuit: edge lists, uses, literals below each node."""
    n_literals = 2 * len(g.place_var)
    for place in range(len(g.place_var)):
        bit = np.uint64(1) << np.uint64(place % 64)
        g.node_one[2 * g.place_var[place] + 1, place // 64] = bit
        g.node_zero[2 * g.place_var[place], place // 64] = bit
    for n in range(n_literals):
        g.node["first"][n] = NONE
    for n in range(n_literals, len(node_edges) - 1):
        g.node["first"][n] = NONE
        last = NONE
        for e in range(node_edges[n], node_edges[n + 1]):
            _append(g, n, last, e)
            _adopt(g, e)
            last = e
        _collect_scope(g, n)


@kernel
def _append(g: Growth, n: int, last: int, e: int) -> None:
    """Put edge e behind `last`, so far the last edge of sum n, or NONE."""
    g.node["width"][n] += 1
    g.edge["next"][e] = NONE
    g.edge["previous"][e] = last
    if last == NONE:
        g.node["first"][n] = e
    else:
        g.edge["next"][last] = e


@kernel
def _adopt(g: Growth, e: int) -> None:
    """Count the uses of the children of a new edge, and see whether anything below is undecided."""
    l, r = g.edge["left"][e], g.edge["right"][e]
    g.node["uses"][l] += 1
    g.edge["is_candidate"][e] = False
    if r != NONE:
        g.node["uses"][r] += 1
        g.edge["is_candidate"][e] = g.node["is_open"][l] or g.node["is_open"][r]


@kernel
def _collect_scope(g: Growth, n: int) -> None:
    """The literals below a sum are those below its edges."""
    v = g.node["vtree"][n]
    first, last = g.vtree["first"][v] // 64, (g.vtree["last"][v] - 1) // 64 + 1
    for w in range(first, last):
        g.node_one[n, w] = np.uint64(0)
        g.node_zero[n, w] = np.uint64(0)
    e = g.node["first"][n]
    while e != NONE:
        l, r = g.edge["left"][e], g.edge["right"][e]
        for w in range(first, last):
            g.node_one[n, w] |= g.node_one[l, w]
            g.node_zero[n, w] |= g.node_zero[l, w]
            if r != NONE:
                g.node_one[n, w] |= g.node_one[r, w]
                g.node_zero[n, w] |= g.node_zero[r, w]
        e = g.edge["next"][e]
    g.node["is_open"][n] = False
    for w in range(first, last):
        if g.node_one[n, w] & g.node_zero[n, w]:
            g.node["is_open"][n] = True


@kernel
def split(g: Growth, edge: int, place: int, pseudocount: float) -> int:
    """Split `edge` at `place`; returns the rows moved, or NONE (nothing done) for lack of room."""
    g.size[STAMP] += 1
    stamp = g.size[STAMP]
    top = g.edge["parent"][edge]
    v = g.node["vtree"][top]
    n_found, n_copied_edges = _find_undecided(g, edge, place, stamp)
    if (
        g.size[N_NODES] + 2 * n_found > len(g.node)
        or g.size[N_EDGES] + 2 * n_copied_edges + 2 > len(g.edge)
        or g.size[N_HEAP] + 3 * n_copied_edges + 2 + g.node["width"][top] > len(g.heap)
    ):
        return NONE
    g.size[N_SPLITS] += 1

    first_copy = g.size[N_NODES]
    for i in range(n_found - 1, -1, -1):  # children before parents
        _copy_for_both_values(g, g.node_found[i], place, stamp)

    is_left = place < g.vtree["last"][g.vtree["left"][v]]
    child = g.edge["left"][edge] if is_left else g.edge["right"][edge]
    other = g.edge["right"][edge] if is_left else g.edge["left"][edge]
    ones = _new_edge(g, top, g.node_copy[child, 1], other, is_left)
    zeros = _new_edge(g, top, g.node_copy[child, 0], other, is_left)
    _replace(g, edge, ones, zeros)

    moved = _move_rows(
        g,
        edge,
        ones,
        zeros,
        place,
        stamp,
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
        zeros,
        place,
        stamp,
        g.valid_active,
        g.valid_words,
        g.valid_weight,
        g.valid_rows,
        g.edge["valid"],
    )

    refresh(g, top, pseudocount)
    for i in range(n_found):
        refresh(g, g.node_found[i], pseudocount)
    for n in range(first_copy, g.size[N_NODES]):
        refresh(g, n, pseudocount)
    return moved


@kernel
def _is_undecided(g: Growth, n: int, place: int) -> bool:
    """Whether both literals of the variable at `place` are below node n."""
    bit = np.uint64(1) << np.uint64(place % 64)
    return (g.node_one[n, place // 64] & g.node_zero[n, place // 64] & bit) != np.uint64(0)


@kernel
def _find_undecided(g: Growth, edge: int, place: int, stamp: int) -> tuple[int, int]:
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
            e = g.node["first"][g.node_found[i]]
            while e != NONE:
                n_edges += 1
                g.edge["stamp"][e] = stamp
                if not is_leaf:
                    child = g.edge["left"][e] if is_left else g.edge["right"][e]
                    if g.node["stamp"][child] != stamp and _is_undecided(g, child, place):
                        g.node["stamp"][child] = stamp
                        g.node_found[n_found] = child
                        n_found += 1
                e = g.edge["next"][e]
        level = end
        if not is_leaf:
            v = g.vtree["left"][v] if is_left else g.vtree["right"][v]
    return n_found, n_edges


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
    for x in range(1, -1, -1):
        m = _new_node(g, v)
        g.node_copy[n, x] = m
        last = NONE
        e = g.node["first"][n]
        while e != NONE:
            child = g.edge["left"][e] if is_left else g.edge["right"][e]
            other = g.edge["right"][e] if is_left else g.edge["left"][e]
            new = NONE
            if g.node["stamp"][child] == stamp:
                new = _new_edge(g, m, g.node_copy[child, x], other, is_left)
            elif (g.node_one[child, word] if x == 1 else g.node_zero[child, word]) & bit:
                new = _new_edge(g, m, child, other, is_left)  # decided already, and in this way
            g.edge_copy[e, x] = new
            if new != NONE:
                _append(g, m, last, new)
                last = new
            e = g.edge["next"][e]
        _collect_scope(g, m)


@kernel
def _new_node(g: Growth, v: int) -> int:
    """A sum without edges at vtree node v."""
    n = g.size[N_NODES]
    g.size[N_NODES] += 1
    g.node["vtree"][n] = v
    g.node["first"][n] = NONE
    g.node["width"][n] = 0
    return n


@kernel
def _new_edge(g: Growth, parent: int, child: int, other: int, is_left: bool) -> int:
    """An edge without rows; the caller links it into its parent's list."""
    e = g.size[N_EDGES]
    g.size[N_EDGES] += 1
    g.size[N_ALIVE] += 1
    g.edge["parent"][e] = parent
    g.edge["left"][e] = child if is_left else other
    g.edge["right"][e] = other if is_left else child
    g.edge["birth"][e] = g.size[N_SPLITS]
    g.edge["death"][e] = ALIVE
    g.edge["key"][e] = -1.0
    _adopt(g, e)
    return e


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
    _kill(g, edge)


@kernel
def _kill(g: Growth, edge: int) -> None:
    """End an edge, and every node below that nothing else leads to."""
    pending = [edge]
    while len(pending) > 0:
        e = pending.pop()
        g.edge["death"][e] = g.size[N_SPLITS]
        g.size[N_ALIVE] -= 1
        for side in range(2):
            child = g.edge["left"][e] if side == 0 else g.edge["right"][e]
            if child == NONE:
                continue
            g.node["uses"][child] -= 1
            if g.node["uses"][child] == 0:
                f = g.node["first"][child]
                while f != NONE:
                    pending.append(f)
                    f = g.edge["next"][f]


@kernel
def _move_rows(
    g: Growth,
    edge: int,
    ones: int,
    zeros: int,
    place: int,
    stamp: int,
    active: IntArray,
    words: WordArray,
    weight: FloatArray,
    rows: IntArray,
    count: CountArray,
) -> int:
    """Move the rows of `edge` to the copies for their own value, down to the variable's leaf."""
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
        _redirect(active[v], rows[:n_ones], 1, stamp, g.edge["stamp"], g.edge_copy, weight, count)
        _redirect(
            active[v], rows[n_ones:n_moved], 0, stamp, g.edge["stamp"], g.edge_copy, weight, count
        )
    return n_moved


@kernel
def rows_through(active: IntArray, edge: int, rows: IntArray) -> int:
    """List the rows whose active edge is `edge`; returns how many."""
    n = 0
    n_rows = len(active)
    for start in range(0, n_rows, 64):
        end = min(start + 64, n_rows)
        hits = 0
        for s in range(start, end):  # vectorised; most blocks hold none when the edge is small
            hits += active[s] == edge
        if hits:
            for s in range(start, end):
                if active[s] == edge:
                    rows[n] = s
                    n += 1
    return n


@kernel
def _redirect(
    active: IntArray,
    rows: IntArray,
    x: int,
    stamp: int,
    edge_stamp: IntArray,
    edge_copy: IntArray,
    weight: FloatArray,
    count: CountArray,
) -> None:
    """Follow the copies for value x at one vtree node."""
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
def refresh(g: Growth, n: int, pseudocount: float) -> None:
    """Bring a touched node's likelihood up to date, and the heap entries of its edges."""
    share = pseudocount / g.node["width"][n]
    is_alive = g.node["uses"][n] > 0 or n == g.size[ROOT]
    train, valid, new_train, new_valid = 0.0, 0.0, 0.0, 0.0
    e = g.node["first"][n]
    while e != NONE:
        count, passed = g.edge["train"][e], g.edge["valid"][e]
        if count > 0.0 or passed > 0.0:
            log_above = np.log(count + share)
            train += count
            valid += passed
            if count > 0.0:
                new_train += count * log_above
            if passed > 0.0:
                new_valid += passed * log_above
        # Edges without rows, half of all copies, wait outside until the heap is empty.
        if count > 0.0 and is_alive and g.edge["key"][e] != count and g.edge["is_candidate"][e]:
            push(g, e)
        e = g.edge["next"][e]
    if g.node["width"][n] == 1:
        new_train, new_valid = 0.0, 0.0
    else:
        log_below = np.log(train + pseudocount)
        if train > 0.0:
            new_train -= train * log_below
        if valid > 0.0 and new_valid > -np.inf:
            new_valid -= valid * log_below
    g.total[0] += new_train - g.node["train"][n]
    g.node["train"][n] = new_train
    for sign in range(
        -1, 2, 2
    ):  # take the old value out, put the new one in; infinities are counted
        value = g.node["valid"][n] if sign < 0 else new_valid
        if value == -np.inf:
            g.size[N_IMPOSSIBLE] += sign
        else:
            g.total[1] += sign * value
    g.node["valid"][n] = new_valid


@kernel
def push(g: Growth, edge: int) -> None:
    """Add an edge to the heap under its present count."""
    key = g.edge["train"][edge]
    depth = g.vtree["depth"][g.node["vtree"][g.edge["parent"][edge]]]
    g.edge["key"][edge] = key
    i = g.size[N_HEAP]
    g.size[N_HEAP] += 1
    while i > 0 and not comes_before(g, (i - 1) // 2, key, depth, edge):
        _copy_entry(g, (i - 1) // 2, i)
        i = (i - 1) // 2
    g.heap["key"][i] = key
    g.heap["depth"][i] = depth
    g.heap["edge"][i] = edge


@kernel
def pop(g: Growth) -> None:
    """Take the first entry out of the heap."""
    g.size[N_HEAP] -= 1
    n = g.size[N_HEAP]
    key, depth, edge = g.heap["key"][n], g.heap["depth"][n], g.heap["edge"][n]
    i = 0
    while 2 * i + 1 < n:
        child = 2 * i + 1
        if child + 1 < n and comes_before(
            g, child + 1, g.heap["key"][child], g.heap["depth"][child], g.heap["edge"][child]
        ):
            child += 1
        if not comes_before(g, child, key, depth, edge):
            break
        _copy_entry(g, child, i)
        i = child
    g.heap["key"][i] = key
    g.heap["depth"][i] = depth
    g.heap["edge"][i] = edge


@kernel
def comes_before(g: Growth, i: int, key: float, depth: int, edge: int) -> bool:
    """Whether entry i of the heap precedes another: more rows, then nearer the root, then older."""
    if g.heap["key"][i] != key:
        return g.heap["key"][i] > key
    if g.heap["depth"][i] != depth:
        return g.heap["depth"][i] < depth
    return g.heap["edge"][i] < edge


@kernel
def _copy_entry(g: Growth, i: int, j: int) -> None:
    """Copy entry i of the heap to place j."""
    g.heap["key"][j] = g.heap["key"][i]
    g.heap["depth"][j] = g.heap["depth"][i]
    g.heap["edge"][j] = g.heap["edge"][i]


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
                _kill(g, e)
                e = g.edge["next"][e]
    for n in originals:
        refresh(g, n, pseudocount)
    for n in range(first_copy, g.size[N_NODES]):
        refresh(g, n, pseudocount)


@kernel
def _copy_sum(g: Growth, n: int, stamp: int) -> int:
    """A copy with the same children; `edge_copy` keeps the rank of each original edge."""
    m = _new_node(g, g.node["vtree"][n])
    g.node["is_open"][m] = g.node["is_open"][n]
    for w in range(g.node_one.shape[1]):
        g.node_one[m, w] = g.node_one[n, w]
        g.node_zero[m, w] = g.node_zero[n, w]
    rank = 0
    last = NONE
    e = g.node["first"][n]
    while e != NONE:
        new = _new_edge(g, m, g.edge["left"][e], g.edge["right"][e], True)
        g.edge["stamp"][e] = stamp
        g.edge_copy[e, 0] = rank
        rank += 1
        _append(g, m, last, new)
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
