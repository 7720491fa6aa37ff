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
from strudel.circuits.circuit import Edges as CircuitEdges
from strudel.data.x_log_x import x_log_x
from strudel.learning.compression.expected_counts import LEAST, expected_counts, shares
from strudel.learning.compression.merge_sums import SLACK

LongArray = NDArray[np.int64]
MOST_PAIRED = 8  # edges with one child in common that are paired in every way; more only in a row


class Nodes(NamedTuple):
    """Sums, old and united: node ``n_old + i`` has shares of the rows of two others."""

    vtree: IntArray  # (room,)
    width: IntArray  # (room,) edges
    uses: IntArray  # (room,) edges that lead there
    whole: FloatArray  # (room,) rows through it, before anything was taken from it
    kept: FloatArray  # (room,) which share of them it keeps
    part: IntArray  # (n_unions, 2)
    part_share: FloatArray  # (n_unions, 2)


class Edges(NamedTuple):
    """The edges of the sums at one vtree node."""

    parent: IntArray
    left: IntArray
    right: IntArray
    weight: FloatArray  # expected rows

    def first(self, n: int) -> Edges:
        """The first n of them."""
        return Edges(self.parent[:n], self.left[:n], self.right[:n], self.weight[:n])


class Pairs(NamedTuple):
    """Pairs of edges of one sum with one child in common, sorted by their other children."""

    key: LongArray  # the other children: the first times 2**32, plus the second
    one: LongArray  # the edges
    two: LongArray
    is_right: NDArray[np.bool_]  # whether the other children are the right ones


def unite_edges(circuit: Circuit, total: float, price: float) -> Circuit:
    """Unite what saves edges and loses at most the price per edge.

    Takes what `merge_sums` takes.
    """
    vtree, n_old = circuit.vtree, circuit.n_nodes
    count = expected_counts(circuit, total)
    nodes = _nodes(circuit)
    made_from = np.zeros(vtree.n_nodes + 1, dtype=np.int32)  # unions made at v: from here on,
    made_to = np.zeros(vtree.n_nodes + 1, dtype=np.int32)  # and to here
    first, sums = circuit.sums_by_vtree
    n_nodes = n_old
    done: list[Edges] = []
    for v in range(vtree.n_nodes - 1, -1, -1):
        unions = np.arange(made_from[vtree.node_parent[v]], made_to[vtree.node_parent[v]])
        unions = unions[nodes.vtree[unions] == v].astype(np.int32)
        here = np.concatenate([sums[first[v] : first[v + 1]], unions])
        here = here[nodes.uses[here] > 0]
        edges = _collect(here, circuit.edges, count, nodes)
        made_from[v] = n_nodes
        is_inner = vtree.node_var[v] == NONE
        if is_inner:
            _count_uses(edges, nodes)
        while is_inner and len(edges.parent) > len(here):  # some sum has two edges
            pairs = _pairs(edges)
            if len(pairs.key) == 0:
                break
            start, loss, saved = _runs(pairs, edges.weight, nodes)
            good = np.flatnonzero((saved > 0) & (loss <= price * saved + SLACK))
            good = good[np.argsort(loss[good] / saved[good], kind="stable")]
            sides = vtree.node_left[v], vtree.node_right[v]
            n_edges, n_nodes = _unite(
                good, start, loss, price, pairs, sides, n_old, n_nodes, edges, nodes
            )
            if n_edges == len(edges.parent):
                break
            edges = edges.first(n_edges)
        made_to[v] = n_nodes
        done.append(edges)
    parents, lefts, rights, weights = (np.concatenate(arrays) for arrays in zip(*done, strict=True))
    return assemble(
        vtree,
        nodes.vtree[:n_nodes],
        parents,
        lefts,
        rights,
        shares(parents, weights),
        root=circuit.root,
        feature_names=circuit.feature_names,
    )


def _nodes(circuit: Circuit) -> Nodes:
    """The sums of a circuit, with room for unions: each of them saves at least one edge."""
    n_old, n_unions = circuit.n_nodes, circuit.n_edges
    node_vtree, width, uses = np.zeros((3, n_old + n_unions), dtype=np.int32)
    node_vtree[:n_old] = circuit.node_vtree
    width[:n_old] = np.diff(circuit.node_edges)
    uses[circuit.root] = 1
    whole, kept = np.zeros(n_old + n_unions), np.ones(n_old + n_unions)
    part = np.empty((n_unions, 2), dtype=np.int32)
    return Nodes(node_vtree, width, uses, whole, kept, part, np.empty((n_unions, 2)))


def _collect(here: IntArray, old: CircuitEdges, count: FloatArray, nodes: Nodes) -> Edges:
    """The edges of the nodes `here`, those of a union taken from its parts."""
    n_edges = int(nodes.width[here].sum())
    parent, left, right = (np.empty(n_edges, dtype=np.int32) for _ in range(3))
    edges = Edges(parent, left, right, np.empty(n_edges))
    return edges.first(_fill(here, old, count, nodes, edges))


@kernel
def _fill(here: IntArray, old: CircuitEdges, count: FloatArray, nodes: Nodes, edges: Edges) -> int:
    """Fill in the edges; returns how many there are."""
    parent, left, right, weight = edges
    node_edges, n_old = old.node_edges, len(old.node_edges) - 1
    m = 0
    todo = np.empty(len(left) + 1, dtype=np.int64)  # every part has an edge of its own
    share = np.empty(len(left) + 1)
    for n in here:
        todo[0], share[0] = n, nodes.kept[n]
        depth = 1
        while depth > 0:
            depth -= 1
            x, some = todo[depth], share[depth]
            if x >= n_old:
                for i in range(2):
                    todo[depth] = nodes.part[x - n_old, i]
                    share[depth] = some * nodes.part_share[x - n_old, i]
                    depth += 1
            elif node_edges[x] == node_edges[x + 1]:  # a literal, in a union of both
                parent[m], left[m], right[m] = n, x, NONE
                weight[m] = max(some * nodes.whole[x], LEAST)
                m += 1
            else:
                for e in range(node_edges[x], node_edges[x + 1]):
                    parent[m], left[m], right[m] = n, old.edge_left[e], old.edge_right[e]
                    weight[m] = max(some * count[e], LEAST)
                    m += 1
    return m


@kernel
def _count_uses(edges: Edges, nodes: Nodes) -> None:
    """Count the edges, and the rows, that lead to every child."""
    for e in range(len(edges.left)):
        for child in (edges.left[e], edges.right[e]):
            nodes.uses[child] += 1
            nodes.whole[child] += edges.weight[e]


def _pairs(edges: Edges) -> Pairs:
    """All pairs of edges that could be united."""
    room = MOST_PAIRED * len(edges.parent)
    key, one, two = (np.empty(room, dtype=np.int64) for _ in range(3))
    pairs = Pairs(key, one, two, np.empty(room, dtype=np.bool_))
    n = 0
    for side, (other, same) in enumerate(((edges.left, edges.right), (edges.right, edges.left))):
        order = np.lexsort((other, same, edges.parent))
        n = _pairs_of_side(order, edges.parent, same, other, side, n, pairs)
    order = np.argsort(key[:n], kind="stable")
    return Pairs(key[order], one[order], two[order], pairs.is_right[order])


@kernel
def _pairs_of_side(
    order: LongArray,
    parent: IntArray,
    same: IntArray,
    other: IntArray,
    side: int,
    n: int,
    pairs: Pairs,
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
                pairs.key[n] = (np.int64(other[e]) << np.int64(32)) + np.int64(other[f])
                pairs.one[n], pairs.two[n], pairs.is_right[n] = e, f, side == 1
                n += 1
        i = j
    return n


@kernel
def _runs(
    pairs: Pairs, weight: FloatArray, nodes: Nodes
) -> tuple[LongArray, FloatArray, LongArray]:
    """For every two children: where their pairs start, what uniting them loses, and saves."""
    key, one, two, _ = pairs
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
        saved[n] = _saved(key[i], j - i, nodes)
        n += 1
        i = j
    start[n] = len(key)
    return start[: n + 1], loss[:n], saved[:n]


@kernel
def _saved(key: int, together: int, nodes: Nodes) -> int:
    """Edges saved: one per pair, less those of a child that is also needed by itself."""
    saved = together
    for x in (key >> np.int64(32), key & np.int64(0xFFFFFFFF)):
        if nodes.uses[x] > together:
            saved -= nodes.width[x]
    return saved


@kernel
def _unite(
    good: LongArray,
    start: LongArray,
    loss: FloatArray,
    price: float,
    pairs: Pairs,
    sides: tuple[int, int],
    n_old: int,
    n_nodes: int,
    edges: Edges,
    nodes: Nodes,
) -> tuple[int, int]:
    """Unite the `good` pairs of children, every edge at most once; how many edges and nodes.

    `sides` are the vtree nodes of left and right children.
    """
    key, one, two, is_right = pairs
    parent, left, right, weight = edges
    node_vtree, width, uses, whole, kept, part, part_share = nodes
    is_touched = np.zeros(len(parent), dtype=np.bool_)
    for k in good:
        together = start[k + 1] - start[k]
        saved = _saved(key[start[k]], together, nodes)
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
        node_vtree[u] = sides[1] if side else sides[0]
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
