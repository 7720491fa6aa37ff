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

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from strudel._numba import kernel
from strudel._types import NONE, FloatArray, IntArray, WordArray
from strudel.circuits.builder import assemble
from strudel.circuits.circuit import Circuit
from strudel.circuits.fingerprints import fingerprints, plus
from strudel.data.x_log_x import x_log_x
from strudel.learning.compression.expected_counts import expected_counts, shares

LongArray = NDArray[np.int64]
MOST_COMPARED = 256  # sums compared with one another at once; more are first put into order
MOST_COMPARED_EDGES = 1024  # rare edges of one sum that an edge is compared with
MODULUS = 2**40 + 15  # products with 1000003 fit in a word
SLACK = 1e-9  # nats: what rounding alone can lose


class Sums(NamedTuple):
    """Sums and their edges, while they are merged: those of n are the first `width[n]`."""

    node_edges: IntArray  # (n_nodes + 1,) where the edges of a sum start
    width: IntArray  # (n_nodes,) how many it still has
    left: IntArray  # (n_edges,)
    right: IntArray
    edge_count: FloatArray  # (n_edges,) expected rows
    node_count: FloatArray  # (n_nodes,)
    stands_for: IntArray  # (n_nodes,) what a node has become, itself at first


class Classes(NamedTuple):
    """Sets of rows: nodes of one class admit the same. Classes of one vtree node stand together."""

    print_of: WordArray  # (n_nodes, 2) fingerprints
    node_class: IntArray  # (n_nodes,)
    class_print: WordArray  # (n_classes, 2) rising at every vtree node
    class_node: IntArray  # (n_classes,) the node that stands for a class; NONE before it is chosen
    first: IntArray  # (n_vtree_nodes + 1,) those of v are first[v]:first[v + 1]


def merge_sums(circuit: Circuit, total: float, price: float, few: float) -> Circuit:
    """Merge what can be merged.

    The circuit is deterministic and in normal form, with parameters that sum to one and stand for
    `total` rows. `price` is what one edge may be worth, in nats of log-likelihood of all rows.
    Edges and sums with at most `few` expected rows take whatever admits the same rows.
    """
    vtree, edge_parent = circuit.vtree, circuit.edge_parent
    classes = _classes(circuit)
    count = expected_counts(circuit, total)
    nodes = Sums(
        circuit.node_edges,
        np.diff(circuit.node_edges),
        circuit.edge_left.copy(),
        circuit.edge_right.copy(),
        count,
        np.bincount(edge_parent, count, circuit.n_nodes).astype(np.float64, copy=False),
        np.arange(circuit.n_nodes, dtype=np.int32),
    )
    first, sums = circuit.sums_by_vtree
    _merge_sums(first, sums, vtree.node_left, vtree.node_right, price, few, nodes, classes)
    place = np.arange(circuit.n_edges) - circuit.node_edges[edge_parent]
    is_kept = nodes.stands_for[edge_parent] == edge_parent
    kept = np.flatnonzero(is_kept & (place < nodes.width[edge_parent]))
    return assemble(
        vtree,
        circuit.node_vtree,
        edge_parent[kept],
        nodes.left[kept],
        nodes.right[kept],
        shares(edge_parent[kept], count[kept]),
        root=circuit.root,
        feature_names=circuit.feature_names,
    )


def _classes(circuit: Circuit) -> Classes:
    """Number the sets of rows, those of one vtree node by their first fingerprint."""
    print_of = fingerprints(circuit)
    order = np.lexsort((print_of[:, 1], print_of[:, 0], circuit.node_vtree))
    vtree, prints = circuit.node_vtree[order], print_of[order]
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (np.diff(vtree) != 0) | np.any(prints[1:] != prints[:-1], axis=1)
    node_class = np.empty(len(order), dtype=np.int32)
    node_class[order] = np.cumsum(is_new) - 1
    class_node = np.full(np.count_nonzero(is_new), NONE, dtype=np.int32)
    literals = np.arange(2 * circuit.n_vars, dtype=np.int32)  # each stands for its class
    class_node[node_class[literals]] = literals
    first = np.searchsorted(vtree[is_new], np.arange(circuit.vtree.n_nodes + 1)).astype(np.int32)
    return Classes(print_of, node_class, prints[is_new], class_node, first)


@kernel
def _merge_sums(
    first: IntArray,
    sums: IntArray,
    vtree_left: IntArray,
    vtree_right: IntArray,
    price: float,
    few: float,
    s: Sums,
    c: Classes,
) -> None:
    """Merge at every vtree node, children first; those of v are `sums[first[v]:first[v + 1]]`."""
    for v in range(len(vtree_left)):
        here = sums[first[v] : first[v + 1]]
        if vtree_left[v] != NONE:
            _follow(here, s)
            _join_rare_edges(here, s, c, vtree_left[v], vtree_right[v], few)
        number = np.empty(len(here), dtype=np.int64)
        _sort_edges(here, s, number)
        if v < len(vtree_left) - 1:
            _join_sums(here[np.argsort(number, kind="mergesort")], s, price, few)
            number[:] = c.node_class[here]
            _replace_rare_sums(here[np.argsort(number, kind="mergesort")], s, c, few)


@kernel
def _follow(here: IntArray, s: Sums) -> None:
    """Lead the edges to what their children have become."""
    for n in here:
        for e in range(s.node_edges[n], s.node_edges[n] + s.width[n]):
            s.left[e] = s.stands_for[s.left[e]]
            s.right[e] = s.stands_for[s.right[e]]


@kernel
def _join_rare_edges(
    here: IntArray, s: Sums, c: Classes, left_vtree: int, right_vtree: int, few: float
) -> None:
    """Join edges (a, r) and (b, r) to (c, r) where c admits what a and b do; likewise on the right.

    Only edges with at most `few` rows: they may change their children.
    """
    left, right, count, width = s.left, s.right, s.edge_count, s.width
    for n in here:
        first = s.node_edges[n]
        n_rare = 0
        for e in range(first, first + width[n]):
            if count[e] <= few:
                _swap(e, first + n_rare, s)
                e = first + n_rare
                left[e] = c.class_node[c.node_class[left[e]]]
                right[e] = c.class_node[c.node_class[right[e]]]
                n_rare += 1
        i = 0
        while i < n_rare - 1:
            e = first + i
            j = i + 1
            while j < min(n_rare, i + MOST_COMPARED_EDGES):
                f = first + j
                found = NONE
                if right[e] == right[f]:
                    found = _find_union(c, left[e], left[f], left_vtree)
                    if found != NONE:
                        left[e] = c.class_node[found]
                elif left[e] == left[f]:
                    found = _find_union(c, right[e], right[f], right_vtree)
                    if found != NONE:
                        right[e] = c.class_node[found]
                if found == NONE:
                    j += 1
                    continue
                count[e] += count[f]
                n_rare -= 1
                width[n] -= 1
                _swap(f, first + n_rare, s)
                _swap(first + n_rare, first + width[n], s)
                j = i + 1  # the larger edge may fit with one that was passed
            i += 1


@kernel
def _swap(e: int, f: int, s: Sums) -> None:
    """Let two edges change places."""
    s.left[e], s.left[f] = s.left[f], s.left[e]
    s.right[e], s.right[f] = s.right[f], s.right[e]
    s.edge_count[e], s.edge_count[f] = s.edge_count[f], s.edge_count[e]


@kernel
def _find_union(c: Classes, a: int, b: int, v: int) -> int:
    """The class at v that admits what nodes `a` and `b`, which exclude each other, do; or NONE."""
    x = plus(c.print_of[a, 0], c.print_of[b, 0])
    y = plus(c.print_of[a, 1], c.print_of[b, 1])
    low, last = c.first[v], c.first[v + 1]
    high = last
    while low < high:
        middle = (low + high) // 2
        if c.class_print[middle, 0] < x:
            low = middle + 1
        else:
            high = middle
    while low < last and c.class_print[low, 0] == x:
        if c.class_print[low, 1] == y:
            return low
        low += 1
    return NONE


@kernel
def _sort_edges(here: IntArray, s: Sums, number: LongArray) -> None:
    """Sort the edges of every sum by their children, and give equal lists equal numbers."""
    for i in range(len(here)):
        first = s.node_edges[here[i]]
        last = first + s.width[here[i]]
        gap = (last - first) // 2
        while gap > 0:  # Shell's sort: no room needed, and quick where edges are sorted already
            for e in range(first + gap, last):
                f = e
                while f - gap >= first and _is_before(f, f - gap, s.left, s.right):
                    _swap(f, f - gap, s)
                    f -= gap
            gap //= 2
        # Any mixing will do: sums with equal numbers are compared edge by edge.
        mixed = np.int64(0)
        for e in range(first, last):
            mixed = (mixed * 1000003 + np.int64(s.left[e]) * 31 + np.int64(s.right[e])) % MODULUS
        number[i] = mixed


@kernel
def _is_before(e: int, f: int, left: IntArray, right: IntArray) -> bool:
    """Whether edge `e` belongs before edge `f`."""
    return left[e] < left[f] or (left[e] == left[f] and right[e] < right[f])


@kernel
def _join_sums(here: IntArray, s: Sums, price: float, few: float) -> None:
    """Join sums with the same children, the cheapest pair first.

    Sums with the same children are neighbours in `here`, except by chance.
    """
    i = 0
    while i < len(here):
        j = i + 1
        while j < len(here) and _is_same(here[i], here[j], s):
            j += 1
        if j > i + 1:
            _join_group(here[i:j], s, price, few)
        i = j


@kernel
def _is_same(m: int, n: int, s: Sums) -> bool:
    """Whether two sums have the same children, in the same order."""
    if s.width[m] != s.width[n]:
        return False
    for i in range(s.width[m]):
        e, f = s.node_edges[m] + i, s.node_edges[n] + i
        if s.left[e] != s.left[f] or s.right[e] != s.right[f]:
            return False
    return True


@kernel
def _join_group(group: IntArray, s: Sums, price: float, few: float) -> None:
    """Join some of the sums of one group."""
    w = s.width[group[0]]
    best = group[0]
    for n in group:
        if s.node_count[n] > s.node_count[best]:
            best = n
    some = np.empty(len(group), dtype=np.int64)
    n_some = 0
    for n in group:
        if n == best or (w > 1 and s.node_count[n] > few):
            some[n_some] = n
            n_some += 1
        else:
            _add_to(n, best, w, s)
    some = some[:n_some]
    while len(some) > 1:
        if len(some) > MOST_COMPARED:
            _sort_by_share(some, s)
        n_left = 0
        for start in range(0, len(some), MOST_COMPARED):
            part = some[start : start + MOST_COMPARED].copy()
            is_left = _join_cheapest(part, w, s, price)
            for i in range(len(part)):
                if is_left[i]:
                    some[n_left] = part[i]
                    n_left += 1
        if n_left == len(some) or len(some) <= MOST_COMPARED:
            break
        some = some[:n_left]


@kernel
def _sort_by_share(some: LongArray, s: Sums) -> None:
    """Sort sums by the share of their first edge, so that alike ones stand together."""
    share = np.empty(len(some))
    for i in range(len(some)):
        share[i] = s.edge_count[s.node_edges[some[i]]] / s.node_count[some[i]]
    some[:] = some[np.argsort(share, kind="mergesort")]


@kernel
def _join_cheapest(some: LongArray, w: int, s: Sums, price: float) -> NDArray[np.bool_]:
    """Join pairs while the best one is cheap enough; returns which sums are left.

    Every sum keeps the nearest of those before it.
    """
    k = len(some)
    own = np.empty(k)
    near = np.full(k, NONE)
    loss = np.full(k, np.inf)
    is_left = np.ones(k, dtype=np.bool_)
    for i in range(k):
        own[i] = _own(s.edge_count, s.node_edges[some[i]], w)
    for i in range(k):
        near[i], loss[i] = _nearest(i, some, w, s, own, is_left)
    while True:
        b = 0
        for i in range(1, k):
            if loss[i] < loss[b]:
                b = i
        if not loss[b] <= price * w + SLACK:
            return is_left
        a = near[b]
        _add_to(some[b], some[a], w, s)
        own[a] = _own(s.edge_count, s.node_edges[some[a]], w)
        is_left[b] = False
        loss[b] = np.inf
        for i in range(a, k):
            if not is_left[i]:
                continue
            if i == a or near[i] == a or near[i] == b:
                near[i], loss[i] = _nearest(i, some, w, s, own, is_left)
            else:
                both = _both(s.edge_count, s.node_edges[some[i]], s.node_edges[some[a]], w)
                if own[i] + own[a] - both < loss[i]:
                    near[i], loss[i] = a, own[i] + own[a] - both


@kernel
def _nearest(
    i: int, some: LongArray, w: int, s: Sums, own: FloatArray, is_left: NDArray[np.bool_]
) -> tuple[int, float]:
    """Which sum before the i-th would lose least together with it, and how much."""
    near, least = NONE, np.inf
    for j in range(i):
        if is_left[j]:
            both = _both(s.edge_count, s.node_edges[some[i]], s.node_edges[some[j]], w)
            if own[i] + own[j] - both < least:
                near, least = j, own[i] + own[j] - both
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
def _add_to(n: int, best: int, w: int, s: Sums) -> None:
    """Let sum `best` also stand for `n`."""
    s.stands_for[n] = best
    s.node_count[best] += s.node_count[n]
    for i in range(w):
        s.edge_count[s.node_edges[best] + i] += s.edge_count[s.node_edges[n] + i]


@kernel
def _replace_rare_sums(here: IntArray, s: Sums, c: Classes, few: float) -> None:
    """Choose a representative of every class, which replaces sums with few rows.

    A literal represents itself and all sums over it alone; otherwise the sum with most rows does.
    """
    width, node_count, stands_for = s.width, s.node_count, s.stands_for
    i = 0
    while i < len(here):
        own = c.node_class[here[i]]
        best = c.class_node[own]
        is_literal = best != NONE
        j = i
        while j < len(here) and c.node_class[here[j]] == own:
            n = here[j]
            is_better = (
                best == NONE
                or node_count[n] > node_count[best]
                or (node_count[n] == node_count[best] and width[n] < width[best])
            )
            if stands_for[n] == n and is_better and not is_literal:
                best = n
            j += 1
        c.class_node[own] = best
        for k in range(i, j):
            n = here[k]
            if stands_for[n] == n and n != best and (is_literal or node_count[n] <= few):
                stands_for[n] = best
        i = j
    for n in here:  # whoever was joined with a sum that has now gone
        while stands_for[stands_for[n]] != stands_for[n]:
            stands_for[n] = stands_for[stands_for[n]]
