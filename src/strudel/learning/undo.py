"""Take splits back: a journal of everything that a split is about to change.

In:  a `GrowingCircuit`.
Out: `Journal`: `split` as ever, and `undo` of the latest split, in time and memory proportional to
     what it changed.

Before a split the journal copies the records of the nodes and edges that it may change and the
active edges of its rows; new nodes and edges stand at the end of their tables. To undo is to copy
back and cut off. Splitting the same edge on the same variable again gives the same numbers, so a
path of splits can be left and entered again, and a circuit is known by its path.

The heap of edge counts is not kept: after a split it holds what that split pushed, and nothing
else. `GrowingCircuit.queue_all` fills it again.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.learning.growing import GrowingCircuit
from strudel.learning.growth import (
    EDGE,
    N_EDGES,
    N_HEAP,
    N_NODES,
    NODE,
    ROOT,
    STAMP,
    Growth,
    rows_through,
)
from strudel.learning.split import _find_undecided


class Before(NamedTuple):
    """What a split is about to change, as it was."""

    size: AnyArray
    total: FloatArray
    nodes: IntArray
    node: AnyArray  # NODE records of `nodes`
    edges: IntArray
    edge: AnyArray  # EDGE records of `edges`
    vtree_nodes: IntArray  # where rows change their active edge
    train_rows: IntArray
    train_active: IntArray  # (n_vtree_nodes, n_rows)
    valid_rows: IntArray
    valid_active: IntArray


class Journal:
    """Splits of a `GrowingCircuit` that can be taken back, the latest first.

    Examples
    --------
    >>> from strudel.circuits.compile import compile_factorized
    >>> from strudel.data.bits import pack_columns
    >>> from strudel.trees.vtree import Vtree
    >>> rows = pack_columns(np.array([[0, 0], [1, 1], [1, 1]], dtype=np.uint8))
    >>> growing = GrowingCircuit(compile_factorized(Vtree.from_nested((0, 1))), rows, rows)
    >>> journal = Journal(growing)
    >>> journal.split(int(growing.candidates()[0]), 0)
    >>> growing.n_splits, growing.n_edges
    (1, 4)
    >>> journal.undo()
    >>> growing.n_splits, growing.n_edges
    (0, 5)
    """

    def __init__(self, growing: GrowingCircuit) -> None:
        self.growing = growing
        self._before: deque[Before] = deque()

    def __len__(self) -> int:
        """How many splits can be taken back."""
        return len(self._before)

    def split(self, edge: int, place: int) -> None:
        """Split `edge` on the variable at `place`, and remember how it was."""
        g = self.growing.growth
        before = _look(g, edge, place, self.growing.copied_levels)
        g.size[N_HEAP] = 0
        self.growing.split(edge, place)
        self._before.append(before)

    def undo(self) -> None:
        """Take the latest split back."""
        _restore(self.growing.growth, self._before.pop())

    def forget(self, n_splits: int) -> None:
        """Keep only what the latest `n_splits` splits need: earlier ones cannot be undone."""
        while len(self._before) > n_splits:
            self._before.popleft()

    def size_change(self) -> tuple[int, int]:
        """How many sum nodes, and how many parameters, the latest split added."""
        before = self._before[-1]
        n_nodes, n_parameters = _size_change(
            self.growing.growth, before.nodes, before.node, before.size[N_NODES]
        )
        return int(n_nodes), int(n_parameters)


def _look(g: Growth, edge: int, place: int, n_levels: int) -> Before:
    """What a split of `edge` at `place`, with copies of so many levels, may change."""
    nodes, edges, vtree_nodes, n_train, n_valid = _find(g, edge, place, n_levels)
    before = Before(
        size=g.size.copy(),
        total=g.total.copy(),
        nodes=nodes,
        node=np.empty(len(nodes), dtype=NODE),
        edges=edges,
        edge=np.empty(len(edges), dtype=EDGE),
        vtree_nodes=vtree_nodes,
        train_rows=g.train_rows[:n_train].copy(),
        train_active=np.empty((len(vtree_nodes), n_train), dtype=np.int32),
        valid_rows=g.valid_rows[:n_valid].copy(),
        valid_active=np.empty((len(vtree_nodes), n_valid), dtype=np.int32),
    )
    _copy(g, before)
    return before


@kernel
def _find(
    g: Growth, edge: int, place: int, n_levels: int
) -> tuple[IntArray, IntArray, IntArray, int, int]:
    """The nodes, edges and vtree nodes that change; the rows are left in the work lists."""
    g.size[STAMP] += 1
    n_found, _ = _find_undecided(g, edge, place, g.size[STAMP])
    g.size[STAMP] += 1
    stamp = g.size[STAMP]
    nodes: list[Any] = [np.int32(0) for _ in range(0)]
    edges: list[Any] = [np.int32(0) for _ in range(0)]
    top = g.edge["parent"][edge]
    _add_node(g, top, stamp, nodes)
    _add_children(g, edge, stamp, nodes)
    for i in range(n_found):
        _add_edges(g, g.node_found[i], stamp, nodes, edges)
    level: list[Any] = [np.int64(edge)]
    for _ in range(n_levels):  # copies as a tree: no more steps here than copies there
        below: list[Any] = [np.int64(0) for _ in range(0)]
        for e in level:
            for side in range(2):
                n = g.edge["left"][e] if side == 0 else g.edge["right"][e]
                if n == NONE:
                    continue
                _add_edges(g, n, stamp, nodes, edges)
                f = g.node["first"][n]
                while f != NONE:
                    below.append(np.int64(f))
                    f = g.edge["next"][f]
        level = below
    _add_edge(g, edge, stamp, edges)
    _add_edge(g, g.edge["previous"][edge], stamp, edges)
    _add_edge(g, g.edge["next"][edge], stamp, edges)
    _add_edge(g, g.node["first"][top], stamp, edges)

    v = g.node["vtree"][top]
    n_train = rows_through(g.train_active[v], edge, g.train_rows)
    n_valid = rows_through(g.valid_active[v], edge, g.valid_rows)
    return (
        np.array(nodes, dtype=np.int32),
        np.array(edges, dtype=np.int32),
        _vtree_nodes_below(g, v, place, n_levels),
        n_train,
        n_valid,
    )


@kernel
def _add_node(g: Growth, n: int, stamp: int, nodes: list[Any]) -> None:
    """List a node that is not listed yet."""
    if n != NONE and g.node["stamp"][n] != stamp:
        g.node["stamp"][n] = stamp
        nodes.append(np.int32(n))


@kernel
def _add_edge(g: Growth, e: int, stamp: int, edges: list[Any]) -> None:
    """List an edge that is not listed yet."""
    if e != NONE and g.edge["stamp"][e] != stamp:
        g.edge["stamp"][e] = stamp
        edges.append(np.int32(e))


@kernel
def _add_children(g: Growth, e: int, stamp: int, nodes: list[Any]) -> None:
    """List the children of an edge, whose uses may change."""
    _add_node(g, g.edge["left"][e], stamp, nodes)
    _add_node(g, g.edge["right"][e], stamp, nodes)


@kernel
def _add_edges(g: Growth, n: int, stamp: int, nodes: list[Any], edges: list[Any]) -> None:
    """List a node with its edges and their children."""
    _add_node(g, n, stamp, nodes)
    e = g.node["first"][n]
    while e != NONE:
        _add_edge(g, e, stamp, edges)
        _add_children(g, e, stamp, nodes)
        e = g.edge["next"][e]


@kernel
def _vtree_nodes_below(g: Growth, top: int, place: int, n_levels: int) -> IntArray:
    """The path from `top` to the leaf at `place`, and the next levels below `top` altogether."""
    found: list[Any] = [np.int32(top)]
    level: list[Any] = [np.int32(top)]
    for _ in range(n_levels):
        below: list[Any] = [np.int32(0) for _ in range(0)]
        for v in level:
            if g.vtree["left"][v] != NONE:
                below.append(np.int32(g.vtree["left"][v]))
                below.append(np.int32(g.vtree["right"][v]))
        found.extend(below)
        level = below
    v = top
    depth = g.vtree["depth"][top]
    while g.vtree["left"][v] != NONE:
        is_left = place < g.vtree["last"][g.vtree["left"][v]]
        v = g.vtree["left"][v] if is_left else g.vtree["right"][v]
        if g.vtree["depth"][v] > depth + n_levels:
            found.append(np.int32(v))
    return np.array(found, dtype=np.int32)


@kernel
def _copy(g: Growth, before: Before) -> None:
    """Fill the copies."""
    for i in range(len(before.nodes)):
        before.node[i] = g.node[before.nodes[i]]
    for i in range(len(before.edges)):
        before.edge[i] = g.edge[before.edges[i]]
    for i in range(len(before.vtree_nodes)):
        v = before.vtree_nodes[i]
        for k in range(len(before.train_rows)):
            before.train_active[i, k] = g.train_active[v, before.train_rows[k]]
        for k in range(len(before.valid_rows)):
            before.valid_active[i, k] = g.valid_active[v, before.valid_rows[k]]


@kernel
def _restore(g: Growth, before: Before) -> None:
    """Copy back, and leave the places of new nodes and edges as empty as they were."""
    for n in range(before.size[N_NODES], g.size[N_NODES]):
        g.node["uses"][n] = 0
        g.node["train"][n] = 0.0
        g.node["valid"][n] = 0.0
        for w in range(g.node_one.shape[1]):
            g.node_one[n, w] = np.uint64(0)
            g.node_zero[n, w] = np.uint64(0)
    for e in range(before.size[N_EDGES], g.size[N_EDGES]):
        g.edge["train"][e] = 0.0
        g.edge["valid"][e] = 0.0
    for i in range(len(before.nodes)):
        g.node[before.nodes[i]] = before.node[i]
    for i in range(len(before.edges)):
        g.edge[before.edges[i]] = before.edge[i]
    for i in range(len(before.vtree_nodes)):
        v = before.vtree_nodes[i]
        for k in range(len(before.train_rows)):
            g.train_active[v, before.train_rows[k]] = before.train_active[i, k]
        for k in range(len(before.valid_rows)):
            g.valid_active[v, before.valid_rows[k]] = before.valid_active[i, k]
    stamp = g.size[STAMP]  # never goes back: old stamps must not look new
    g.size[:] = before.size
    g.total[:] = before.total
    g.size[STAMP] = stamp
    g.size[N_HEAP] = 0


@kernel
def _size_change(g: Growth, nodes: IntArray, node: AnyArray, first_new: int) -> tuple[int, int]:
    """Sum nodes and parameters after a split, less those before."""
    n_nodes, n_parameters = 0, 0
    for i in range(len(nodes)):
        n = nodes[i]
        if g.node["first"][n] == NONE:  # a literal
            continue
        if node["uses"][i] > 0 or n == g.size[ROOT]:
            n_nodes -= 1
            n_parameters -= node["width"][i] if node["width"][i] > 1 else 0
        if g.node["uses"][n] > 0 or n == g.size[ROOT]:
            n_nodes += 1
            n_parameters += g.node["width"][n] if g.node["width"][n] > 1 else 0
    for n in range(first_new, g.size[N_NODES]):
        if g.node["uses"][n] > 0:
            n_nodes += 1
            n_parameters += g.node["width"][n] if g.node["width"][n] > 1 else 0
    return n_nodes, n_parameters
