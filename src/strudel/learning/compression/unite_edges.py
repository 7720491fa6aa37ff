"""Uniting: two edges of a sum that share a child become one, from the root down.

In:  a deterministic circuit in normal form, and the price of an edge in nats.
Out: a circuit that admits the same rows, with pooled parameters.

Edges (a, r) and (b, r) of one sum become (u, r), where u has the edges of a and of b; likewise on
the right. This undoes a split: a and b exclude each other, since the two edges do. Where several
sums hold such a pair, all take the same u, and lose how they differ in choosing between a and b:
the loss follows from counts alone, and is nothing for a single sum. Edges are saved where a and b
are no longer needed, and the pairs of edges that u inherits can be united in turn.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from strudel._numba import kernel
from strudel._types import NONE, FloatArray, IntArray
from strudel.circuits.builder import assemble
from strudel.circuits.circuit import Circuit
from strudel.data.x_log_x import x_log_x
from strudel.learning.compression.expected_counts import LEAST, expected_counts, shares
from strudel.learning.compression.merge_sums import SLACK

LongArray = NDArray[np.int64]
MOST_PAIRED = 8  # edges with one child in common that are paired in every way; more only in a row


def unite_edges(circuit: Circuit, total: float, price: float) -> Circuit:
    """Unite what saves edges and loses at most the price per edge.

    Takes what `merge_sums` takes.
    """
    vtree, n_old = circuit.vtree, circuit.n_nodes
    count = expected_counts(circuit, total)
    room = n_old + circuit.n_edges  # every union saves at least one edge
    node_vtree = np.empty(room, dtype=np.int32)
    node_vtree[:n_old] = circuit.node_vtree
    width = np.zeros(room, dtype=np.int32)
    width[:n_old] = np.diff(circuit.node_edges)
    uses = np.zeros(room, dtype=np.int32)
    uses[circuit.root] = 1
    whole = np.zeros(room)  # rows through every node, before anything was taken from it
    kept = np.ones(room)  # which share of them it keeps
    part = np.empty((circuit.n_edges, 2), dtype=np.int32)  # node n_old + i unites these two,
    part_share = np.empty((circuit.n_edges, 2))  # or rather these shares of their rows
    made_from = np.zeros(vtree.n_nodes + 1, dtype=np.int32)  # unions made at v: from here on,
    made_to = np.zeros(vtree.n_nodes + 1, dtype=np.int32)  # and to here
    first, sums = circuit.sums_by_vtree
    n_nodes = n_old
    done: list[tuple[IntArray, IntArray, IntArray, FloatArray]] = []
    for v in range(vtree.n_nodes - 1, -1, -1):
        unions = np.arange(made_from[vtree.node_parent[v]], made_to[vtree.node_parent[v]])
        unions = unions[node_vtree[unions] == v].astype(np.int32)
        here = np.concatenate([sums[first[v] : first[v + 1]], unions])
        here = here[uses[here] > 0]
        n_edges = int(width[here].sum())
        parent, left, right = (np.empty(n_edges, dtype=np.int32) for _ in range(3))
        weight = np.empty(n_edges)
        n_edges = _collect(
            here,
            n_old,
            circuit.node_edges,
            circuit.edge_left,
            circuit.edge_right,
            count,
            whole,
            kept,
            part,
            part_share,
            parent,
            left,
            right,
            weight,
        )
        made_from[v] = n_nodes
        is_inner = vtree.node_var[v] == NONE
        if is_inner:
            _count_uses(left[:n_edges], right[:n_edges], weight[:n_edges], uses, whole)
        while is_inner and n_edges > len(here):  # some sum has two edges
            parent, left = parent[:n_edges], left[:n_edges]
            right, weight = right[:n_edges], weight[:n_edges]
            pairs = _pairs(parent, left, right)
            if len(pairs.key) == 0:
                break
            start, loss, saved = _runs(*pairs, weight, width, uses)
            good = np.flatnonzero((saved > 0) & (loss <= price * saved + SLACK))
            good = good[np.argsort(loss[good] / saved[good], kind="stable")]
            n_before = n_edges
            n_edges, n_nodes = _unite(
                good,
                start,
                loss,
                *pairs,
                n_old,
                n_nodes,
                price,
                vtree.node_left[v],
                vtree.node_right[v],
                parent,
                left,
                right,
                weight,
                node_vtree,
                width,
                uses,
                whole,
                kept,
                part,
                part_share,
            )
            if n_edges == n_before:
                break
        made_to[v] = n_nodes
        done.append((parent[:n_edges], left[:n_edges], right[:n_edges], weight[:n_edges]))
    parents, lefts, rights, weights = (np.concatenate(arrays) for arrays in zip(*done, strict=True))
    return assemble(
        vtree,
        node_vtree[:n_nodes],
        parents,
        lefts,
        rights,
        shares(parents, weights),
        root=circuit.root,
        feature_names=circuit.feature_names,
    )


@kernel
def _collect(
    here: IntArray,
    n_old: int,
    node_edges: IntArray,
    edge_left: IntArray,
    edge_right: IntArray,
    count: FloatArray,
    whole: FloatArray,
    kept: FloatArray,
    part: IntArray,
    part_share: FloatArray,
    parent: IntArray,
    left: IntArray,
    right: IntArray,
    weight: FloatArray,
) -> int:
    """List the edges of the nodes `here`, those of a union taken from its parts; how many."""
    m = 0
    todo = np.empty(len(left) + 1, dtype=np.int64)  # every part has an edge of its own
    share = np.empty(len(left) + 1)
    for n in here:
        todo[0], share[0] = n, kept[n]
        depth = 1
        while depth > 0:
            depth -= 1
            x, some = todo[depth], share[depth]
            if x >= n_old:
                for i in range(2):
                    todo[depth] = part[x - n_old, i]
                    share[depth] = some * part_share[x - n_old, i]
                    depth += 1
            elif node_edges[x] == node_edges[x + 1]:  # a literal, in a union of both
                parent[m], left[m], right[m] = n, x, NONE
                weight[m] = max(some * whole[x], LEAST)
                m += 1
            else:
                for e in range(node_edges[x], node_edges[x + 1]):
                    parent[m], left[m], right[m] = n, edge_left[e], edge_right[e]
                    weight[m] = max(some * count[e], LEAST)
                    m += 1
    return m


@kernel
def _count_uses(
    left: IntArray, right: IntArray, weight: FloatArray, uses: IntArray, whole: FloatArray
) -> None:
    """Count the edges, and the rows, that lead to every child."""
    for e in range(len(left)):
        uses[left[e]] += 1
        uses[right[e]] += 1
        whole[left[e]] += weight[e]
        whole[right[e]] += weight[e]


class Pairs(NamedTuple):
    """Pairs of edges of one sum with one child in common, sorted by their other children."""

    key: LongArray  # the other children: the first times 2**32, plus the second
    one: LongArray  # the edges
    two: LongArray
    is_right: NDArray[np.bool_]  # whether the other children are the right ones


def _pairs(parent: IntArray, left: IntArray, right: IntArray) -> Pairs:
    """All pairs of edges that could be united."""
    room = MOST_PAIRED * len(parent)
    key, one, two = (np.empty(room, dtype=np.int64) for _ in range(3))
    is_right = np.empty(room, dtype=np.bool_)
    n = 0
    for side, (other, same) in enumerate(((left, right), (right, left))):
        order = np.lexsort((other, same, parent))
        n = _pairs_of_side(order, parent, same, other, side, n, key, one, two, is_right)
    order = np.argsort(key[:n], kind="stable")
    return Pairs(key[order], one[order], two[order], is_right[order])


@kernel
def _pairs_of_side(
    order: LongArray,
    parent: IntArray,
    same: IntArray,
    other: IntArray,
    side: int,
    n: int,
    key: LongArray,
    one: LongArray,
    two: LongArray,
    is_right: NDArray[np.bool_],
) -> int:
    """Append the pairs with equal `parent` and `same` after the first n; how many there are."""
    i = 0
    while i < len(order):
        j = i + 1
        while (
            j < len(order)
            and parent[order[j]] == parent[order[i]]
            and same[order[j]] == same[order[i]]
        ):
            j += 1
        reach = MOST_PAIRED if j - i <= MOST_PAIRED else 2
        for p in range(i, j):
            for q in range(p + 1, min(j, p + reach)):
                e, f = order[p], order[q]
                key[n] = (np.int64(other[e]) << np.int64(32)) + np.int64(other[f])
                one[n], two[n], is_right[n] = e, f, side == 1
                n += 1
        i = j
    return n


@kernel
def _runs(
    key: LongArray,
    one: LongArray,
    two: LongArray,
    is_right: NDArray[np.bool_],
    weight: FloatArray,
    width: IntArray,
    uses: IntArray,
) -> tuple[LongArray, FloatArray, LongArray]:
    """For every two children: where their pairs start, what uniting them loses, and saves."""
    start = np.empty(len(key) + 1, dtype=np.int64)
    loss = np.empty(len(key))
    saved = np.empty(len(key), dtype=np.int64)
    n, i = 0, 0
    while i < len(key):
        j = i
        a, b, value = 0.0, 0.0, 0.0
        while j < len(key) and key[j] == key[i]:
            x, y = weight[one[j]], weight[two[j]]
            value += x_log_x(x) + x_log_x(y) - x_log_x(x + y)
            a += x
            b += y
            j += 1
        start[n] = i
        loss[n] = value - x_log_x(a) - x_log_x(b) + x_log_x(a + b)
        saved[n] = _saved(key[i], j - i, width, uses)
        n += 1
        i = j
    start[n] = len(key)
    return start[: n + 1], loss[:n], saved[:n]


@kernel
def _saved(key: int, together: int, width: IntArray, uses: IntArray) -> int:
    """Edges saved: one per pair, less those of a child that is also needed by itself."""
    saved = together
    for x in (key >> np.int64(32), key & np.int64(0xFFFFFFFF)):
        if uses[x] > together:
            saved -= width[x]
    return saved


@kernel
def _unite(
    good: LongArray,
    start: LongArray,
    loss: FloatArray,
    key: LongArray,
    one: LongArray,
    two: LongArray,
    is_right: NDArray[np.bool_],
    n_old: int,
    n_nodes: int,
    price: float,
    left_vtree: int,
    right_vtree: int,
    parent: IntArray,
    left: IntArray,
    right: IntArray,
    weight: FloatArray,
    node_vtree: IntArray,
    width: IntArray,
    uses: IntArray,
    whole: FloatArray,
    kept: FloatArray,
    part: IntArray,
    part_share: FloatArray,
) -> tuple[int, int]:
    """Unite the `good` pairs of children, every edge at most once; how many edges and nodes."""
    is_touched = np.zeros(len(parent), dtype=np.bool_)
    for k in good:
        together = start[k + 1] - start[k]
        saved = _saved(key[start[k]], together, width, uses)
        is_free = saved > 0 and loss[k] <= price * saved + SLACK
        for i in range(start[k], start[k + 1]):
            is_free = is_free and not (is_touched[one[i]] or is_touched[two[i]])
        if not is_free:
            continue
        u = n_nodes
        n_nodes += 1
        side = is_right[start[k]]
        a, b = 0.0, 0.0
        for i in range(start[k], start[k + 1]):
            e, f = one[i], two[i]
            a += weight[e]
            b += weight[f]
            weight[e] += weight[f]
            if side:
                right[e] = u
                uses[left[f]] -= 1
            else:
                left[e] = u
                uses[right[f]] -= 1
            parent[f] = NONE
            is_touched[e] = True
            is_touched[f] = True
        x, y = key[start[k]] >> np.int64(32), key[start[k]] & np.int64(0xFFFFFFFF)
        node_vtree[u] = right_vtree if side else left_vtree
        width[u] = max(width[x], 1) + max(width[y], 1)
        uses[u] = together
        whole[u] = a + b
        part[u - n_old, 0], part_share[u - n_old, 0] = x, a / whole[x]
        part[u - n_old, 1], part_share[u - n_old, 1] = y, b / whole[y]
        for i in range(2):
            z = part[u - n_old, i]
            uses[z] -= together
            kept[z] = max(kept[z] - part_share[u - n_old, i], LEAST)
    m = 0
    for e in range(len(parent)):
        if parent[e] != NONE:
            parent[m], left[m], right[m], weight[m] = parent[e], left[e], right[e], weight[e]
            m += 1
    return m, n_nodes
