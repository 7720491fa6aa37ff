"""Merging: sums that admit the same rows become one, from the leaves up.

In:  a deterministic circuit in normal form, and the price of an edge in nats.
Out: a smaller circuit that admits the same rows, with pooled parameters.

At every vtree node, children first:
1. Edges that hardly any row takes share one child of each kind, and two of them that together admit
   what one existing child admits become one edge.
2. Sums with the same children are joined, the pair that loses least first, while the loss of
   log-likelihood is below the price of the edges saved. The loss follows from counts alone.
3. A sum that hardly any row reaches gives way to another one that admits the same rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from strudel._numba import kernel
from strudel._types import NONE, FloatArray, IntArray, WordArray
from strudel.circuits.builder import assemble
from strudel.circuits.circuit import Circuit
from strudel.data.x_log_x import x_log_x
from strudel.learning.compression.expected_counts import expected_counts, shares
from strudel.learning.compression.fingerprints import fingerprints, plus

LongArray = NDArray[np.int64]
MOST_COMPARED = 256  # sums compared with one another at once; more are first put into order
MOST_COMPARED_EDGES = 1024  # rare edges of one sum that an edge is compared with
MODULUS = 2**40 + 15  # products with 1000003 fit in a word
SLACK = 1e-9  # nats: what rounding alone can lose


def merge_sums(circuit: Circuit, total: float, price: float, few: float) -> Circuit:
    """Merge what can be merged.

    The circuit is deterministic and in normal form, with parameters that sum to one and stand for
    `total` rows. `price` is what one edge may be worth, in nats of log-likelihood of all rows.
    Edges and sums with at most `few` expected rows take whatever admits the same rows.
    """
    vtree, n_literals = circuit.vtree, 2 * circuit.n_vars
    print_of = fingerprints(circuit)
    node_class, table, table_first = _classes(circuit, print_of)
    class_node = np.full(len(table), NONE, dtype=np.int32)  # the sum that stands for a class
    class_node[node_class[:n_literals]] = np.arange(n_literals, dtype=np.int32)
    width = np.diff(circuit.node_edges)
    left, right = circuit.edge_left.copy(), circuit.edge_right.copy()
    count = expected_counts(circuit, total)
    node_count: FloatArray = np.zeros(circuit.n_nodes)
    np.add.at(node_count, circuit.edge_parent, count)
    stands_for = np.arange(circuit.n_nodes, dtype=np.int32)
    first, sums = circuit.sums_by_vtree
    for v in range(vtree.n_nodes):
        here = sums[first[v] : first[v + 1]]
        if len(here) == 0:
            continue
        is_leaf = vtree.node_var[v] != NONE
        sides = (0, 0) if is_leaf else (int(vtree.node_left[v]), int(vtree.node_right[v]))
        number = np.empty(len(here), dtype=np.int64)
        if not is_leaf:
            _follow(here, circuit.node_edges, width, stands_for, left, right)
            _join_rare_edges(
                here,
                circuit.node_edges,
                print_of,
                node_class,
                class_node,
                table,
                int(table_first[sides[0]]),
                int(table_first[sides[0] + 1]),
                int(table_first[sides[1]]),
                int(table_first[sides[1] + 1]),
                few,
                width,
                left,
                right,
                count,
            )
        _sort_edges(here, circuit.node_edges, width, left, right, count, number)
        if v == vtree.root:
            continue
        _join_sums(
            here[np.argsort(number, kind="stable")],
            circuit.node_edges,
            width,
            left,
            right,
            price,
            few,
            count,
            node_count,
            stands_for,
        )
        _replace_rare_sums(
            here[np.argsort(node_class[here], kind="stable")],
            width,
            node_class,
            few,
            node_count,
            class_node,
            stands_for,
        )
    place = np.arange(circuit.n_edges) - circuit.node_edges[circuit.edge_parent]
    is_kept = stands_for[circuit.edge_parent] == circuit.edge_parent
    kept = np.flatnonzero(is_kept & (place < width[circuit.edge_parent]))
    parent = circuit.edge_parent[kept]
    return assemble(
        vtree,
        circuit.node_vtree,
        parent,
        left[kept],
        right[kept],
        shares(parent, count[kept]),
        root=circuit.root,
        feature_names=circuit.feature_names,
    )


def _classes(circuit: Circuit, print_of: WordArray) -> tuple[IntArray, WordArray, IntArray]:
    """Number the sets of rows: the class of every node, and the fingerprints of every class.

    Classes of one vtree node stand together, sorted by their first fingerprint; those of v are
    `first[v]:first[v + 1]`.
    """
    order = np.lexsort((print_of[:, 1], print_of[:, 0], circuit.node_vtree))
    vtree, prints = circuit.node_vtree[order], print_of[order]
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (np.diff(vtree) != 0) | np.any(prints[1:] != prints[:-1], axis=1)
    node_class = np.empty(len(order), dtype=np.int32)
    node_class[order] = np.cumsum(is_new) - 1
    first = np.searchsorted(vtree[is_new], np.arange(circuit.vtree.n_nodes + 1)).astype(np.int32)
    return node_class, prints[is_new], first


@kernel
def _follow(
    here: IntArray,
    node_edges: IntArray,
    width: IntArray,
    stands_for: IntArray,
    left: IntArray,
    right: IntArray,
) -> None:
    """Lead the edges to what their children have become."""
    for n in here:
        for e in range(node_edges[n], node_edges[n] + width[n]):
            left[e] = stands_for[left[e]]
            right[e] = stands_for[right[e]]


@kernel
def _join_rare_edges(
    here: IntArray,
    node_edges: IntArray,
    print_of: WordArray,
    node_class: IntArray,
    class_node: IntArray,
    table: WordArray,
    left_first: int,
    left_last: int,
    right_first: int,
    right_last: int,
    few: float,
    width: IntArray,
    left: IntArray,
    right: IntArray,
    count: FloatArray,
) -> None:
    """Join edges (a, r) and (b, r) to (c, r) where c admits what a and b do; likewise on the right.

    Only edges with at most `few` rows: they may change their children.
    """
    for n in here:
        first = node_edges[n]
        n_rare = 0
        for e in range(first, first + width[n]):
            if count[e] <= few:
                _swap(e, first + n_rare, left, right, count)
                e = first + n_rare
                left[e] = class_node[node_class[left[e]]]
                right[e] = class_node[node_class[right[e]]]
                n_rare += 1
        i = 0
        while i < n_rare - 1:
            e = first + i
            j = i + 1
            while j < min(n_rare, i + MOST_COMPARED_EDGES):
                f = first + j
                found = NONE
                if right[e] == right[f]:
                    found = _find_union(print_of, left[e], left[f], table, left_first, left_last)
                    if found != NONE:
                        left[e] = class_node[found]
                elif left[e] == left[f]:
                    found = _find_union(
                        print_of, right[e], right[f], table, right_first, right_last
                    )
                    if found != NONE:
                        right[e] = class_node[found]
                if found == NONE:
                    j += 1
                    continue
                count[e] += count[f]
                n_rare -= 1
                width[n] -= 1
                _swap(f, first + n_rare, left, right, count)
                _swap(first + n_rare, first + width[n], left, right, count)
                j = i + 1  # the larger edge may fit with one that was passed
            i += 1


@kernel
def _swap(e: int, f: int, left: IntArray, right: IntArray, count: FloatArray) -> None:
    """Let two edges change places."""
    left[e], left[f] = left[f], left[e]
    right[e], right[f] = right[f], right[e]
    count[e], count[f] = count[f], count[e]


@kernel
def _find_union(
    print_of: WordArray, a: int, b: int, table: WordArray, first: int, last: int
) -> int:
    """The class that admits what nodes `a` and `b`, which exclude each other, admit; or NONE."""
    x, y = plus(print_of[a, 0], print_of[b, 0]), plus(print_of[a, 1], print_of[b, 1])
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if table[middle, 0] < x:
            low = middle + 1
        else:
            high = middle
    while low < last and table[low, 0] == x:
        if table[low, 1] == y:
            return low
        low += 1
    return NONE


@kernel
def _sort_edges(
    here: IntArray,
    node_edges: IntArray,
    width: IntArray,
    left: IntArray,
    right: IntArray,
    count: FloatArray,
    number: LongArray,
) -> None:
    """Sort the edges of every sum by their children, and give equal lists equal numbers."""
    for i in range(len(here)):
        first, last = node_edges[here[i]], node_edges[here[i]] + width[here[i]]
        gap = (last - first) // 2
        while gap > 0:  # Shell's sort: no room needed, and quick where edges are sorted already
            for e in range(first + gap, last):
                f = e
                while f - gap >= first and _is_before(f, f - gap, left, right):
                    _swap(f, f - gap, left, right, count)
                    f -= gap
            gap //= 2
        # Any mixing will do: sums with equal numbers are compared edge by edge.
        mixed = np.int64(0)
        for e in range(first, last):
            mixed = (mixed * 1000003 + np.int64(left[e]) * 31 + np.int64(right[e])) % MODULUS
        number[i] = mixed


@kernel
def _is_before(e: int, f: int, left: IntArray, right: IntArray) -> bool:
    """Whether edge `e` belongs before edge `f`."""
    return left[e] < left[f] or (left[e] == left[f] and right[e] < right[f])


@kernel
def _join_sums(
    here: IntArray,
    node_edges: IntArray,
    width: IntArray,
    left: IntArray,
    right: IntArray,
    price: float,
    few: float,
    count: FloatArray,
    node_count: FloatArray,
    stands_for: IntArray,
) -> None:
    """Join sums with the same children, the cheapest pair first.

    Sums with the same children are neighbours in `here`, except by chance.
    """
    i = 0
    while i < len(here):
        j = i + 1
        while j < len(here) and _is_same(here[i], here[j], node_edges, width, left, right):
            j += 1
        _join_group(here[i:j], node_edges, width, price, few, count, node_count, stands_for)
        i = j


@kernel
def _is_same(
    m: int, n: int, node_edges: IntArray, width: IntArray, left: IntArray, right: IntArray
) -> bool:
    """Whether two sums have the same children, in the same order."""
    if width[m] != width[n]:
        return False
    for i in range(width[m]):
        e, f = node_edges[m] + i, node_edges[n] + i
        if left[e] != left[f] or right[e] != right[f]:
            return False
    return True


@kernel
def _join_group(
    group: IntArray,
    node_edges: IntArray,
    width: IntArray,
    price: float,
    few: float,
    count: FloatArray,
    node_count: FloatArray,
    stands_for: IntArray,
) -> None:
    """Join some of the sums of one group."""
    if len(group) < 2:
        return
    w = width[group[0]]
    best = group[0]
    for n in group:
        if node_count[n] > node_count[best]:
            best = n
    some = np.empty(len(group), dtype=np.int64)
    n_some = 0
    for n in group:
        if n == best or (w > 1 and node_count[n] > few):
            some[n_some] = n
            n_some += 1
        else:
            _add_to(n, best, w, node_edges, count, node_count, stands_for)
    some = some[:n_some]
    while len(some) > 1:
        if len(some) > MOST_COMPARED:
            _sort_by_share(some, node_edges, count, node_count)
        n_left = 0
        for start in range(0, len(some), MOST_COMPARED):
            part = some[start : start + MOST_COMPARED].copy()
            is_left = _join_cheapest(part, w, node_edges, price, count, node_count, stands_for)
            for i in range(len(part)):
                if is_left[i]:
                    some[n_left] = part[i]
                    n_left += 1
        if n_left == len(some) or len(some) <= MOST_COMPARED:
            break
        some = some[:n_left]


@kernel
def _sort_by_share(
    some: LongArray, node_edges: IntArray, count: FloatArray, node_count: FloatArray
) -> None:
    """Sort sums by the share of their first edge, so that alike ones stand together."""
    share = np.empty(len(some))
    for i in range(len(some)):
        share[i] = count[node_edges[some[i]]] / node_count[some[i]]
    gap = len(some) // 2
    while gap > 0:
        for i in range(gap, len(some)):
            j = i
            while j >= gap and share[j] < share[j - gap]:
                share[j], share[j - gap] = share[j - gap], share[j]
                some[j], some[j - gap] = some[j - gap], some[j]
                j -= gap
        gap //= 2


@kernel
def _join_cheapest(
    some: LongArray,
    w: int,
    node_edges: IntArray,
    price: float,
    count: FloatArray,
    node_count: FloatArray,
    stands_for: IntArray,
) -> NDArray[np.bool_]:
    """Join pairs while the best one is cheap enough; returns which sums are left.

    Every sum keeps the nearest of those before it.
    """
    k = len(some)
    own = np.empty(k)
    near = np.full(k, NONE)
    loss = np.full(k, np.inf)
    is_left = np.ones(k, dtype=np.bool_)
    for i in range(k):
        own[i] = _own(count, node_edges[some[i]], w)
    for i in range(k):
        near[i], loss[i] = _nearest(i, some, w, node_edges, count, own, is_left)
    while True:
        b = 0
        for i in range(1, k):
            if loss[i] < loss[b]:
                b = i
        if not loss[b] <= price * w + SLACK:
            return is_left
        a = near[b]
        _add_to(some[b], some[a], w, node_edges, count, node_count, stands_for)
        own[a] = _own(count, node_edges[some[a]], w)
        is_left[b] = False
        loss[b] = np.inf
        for i in range(a, k):
            if not is_left[i]:
                continue
            if i == a or near[i] == a or near[i] == b:
                near[i], loss[i] = _nearest(i, some, w, node_edges, count, own, is_left)
            else:
                both = _both(count, node_edges[some[i]], node_edges[some[a]], w)
                if own[i] + own[a] - both < loss[i]:
                    near[i], loss[i] = a, own[i] + own[a] - both


@kernel
def _nearest(
    i: int,
    some: LongArray,
    w: int,
    node_edges: IntArray,
    count: FloatArray,
    own: FloatArray,
    is_left: NDArray[np.bool_],
) -> tuple[int, float]:
    """Which sum before the i-th would lose least together with it, and how much."""
    near, least = NONE, np.inf
    for j in range(i):
        if is_left[j]:
            loss = own[i] + own[j] - _both(count, node_edges[some[i]], node_edges[some[j]], w)
            if loss < least:
                near, least = j, loss
    return near, least


@kernel
def _own(count: FloatArray, first: int, w: int) -> float:
    """The log-likelihood that a sum with these counts contributes."""
    total, value = 0.0, 0.0
    for e in range(first, first + w):
        total += count[e]
        value += x_log_x(count[e])
    return value - x_log_x(total)


@kernel
def _both(count: FloatArray, first: int, second: int, w: int) -> float:
    """The same for two sums joined."""
    total, value = 0.0, 0.0
    for i in range(w):
        x = count[first + i] + count[second + i]
        total += x
        value += x_log_x(x)
    return value - x_log_x(total)


@kernel
def _add_to(
    n: int,
    best: int,
    w: int,
    node_edges: IntArray,
    count: FloatArray,
    node_count: FloatArray,
    stands_for: IntArray,
) -> None:
    """Let sum `best` also stand for `n`."""
    stands_for[n] = best
    node_count[best] += node_count[n]
    for i in range(w):
        count[node_edges[best] + i] += count[node_edges[n] + i]


@kernel
def _replace_rare_sums(
    here: IntArray,
    width: IntArray,
    node_class: IntArray,
    few: float,
    node_count: FloatArray,
    class_node: IntArray,
    stands_for: IntArray,
) -> None:
    """Choose a representative of every class, which replaces sums with few rows.

    A literal represents itself and all sums over it alone; otherwise the sum with most rows does.
    """
    i = 0
    while i < len(here):
        c = node_class[here[i]]
        best = class_node[c]
        is_literal = best != NONE
        j = i
        while j < len(here) and node_class[here[j]] == c:
            n = here[j]
            is_better = (
                best == NONE
                or node_count[n] > node_count[best]
                or (node_count[n] == node_count[best] and width[n] < width[best])
            )
            if stands_for[n] == n and is_better and not is_literal:
                best = n
            j += 1
        class_node[c] = best
        for k in range(i, j):
            n = here[k]
            if stands_for[n] == n and n != best and (is_literal or node_count[n] <= few):
                stands_for[n] = best
        i = j
    for n in here:  # whoever was joined with a sum that has now gone
        while stands_for[stands_for[n]] != stands_for[n]:
            stands_for[n] = stands_for[stands_for[n]]
