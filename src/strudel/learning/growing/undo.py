"""Take splits back, and make them again: copies of everything that a split changes.

In:  a `GrowingCircuit`.
Out: `UndoableSplits`: `split` as before, `undo` of the latest split and `redo` of one that was
     undone, in time and memory proportional to what it changed.

Before a split, the records of the nodes and edges that it may change are copied, and the active
edges of its rows; new nodes and edges are at the end of their tables. To undo is to copy back and
cut off. What is cut off may be kept, and then redoing is also copying. Splitting the same
edge on the same variable again gives the same numbers, so a circuit is known by its path of splits.

The heap of edge counts is not kept: right after a split it holds what that split pushed, and
otherwise nothing of use. `GrowingCircuit.queue_all` fills it again.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, FloatArray, IntArray, WordArray
from strudel.learning.growing.growing_circuit import GrowingCircuit
from strudel.learning.growing.growth import (
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
from strudel.learning.growing.split import find_undecided


class Edit(NamedTuple):
    """What a split changes: as it was before while the split is made, as it became while it is not.

    What is new is kept only by `undo(keep=True)`.
    """

    size: AnyArray
    total: FloatArray
    nodes: IntArray  # first those on which it depends how the split comes out
    n_decisive: int  # how many these are
    node: AnyArray  # NODE records of `nodes`
    edges: IntArray
    edge: AnyArray  # EDGE records of `edges`
    vtree_nodes: IntArray  # where rows change their active edge
    train_rows: IntArray
    train_active: IntArray  # (n_vtree_nodes, n_rows)
    valid_rows: IntArray
    valid_active: IntArray
    new_node: AnyArray  # NODE
    new_one: WordArray
    new_zero: WordArray
    new_edge: AnyArray  # EDGE


class UndoableSplits:
    """Splits of a `GrowingCircuit` that can be taken back, the latest first."""

    def __init__(self, growing: GrowingCircuit) -> None:
        self.growing = growing
        self.is_fresh = False  # whether the heap holds what the latest split pushed
        self._edits: deque[Edit] = deque()
        self._nodes = np.empty(0, dtype=np.int32)  # work lists
        self._edges = np.empty(0, dtype=np.int32)
        self._vtree_nodes = np.empty(2 * len(growing.growth.vtree), dtype=np.int32)
        no_words = np.empty((0, growing.growth.node_one.shape[1]), dtype=np.uint64)
        self._nothing_new: dict[str, Any] = {
            "new_node": np.empty(0, dtype=NODE),
            "new_one": no_words,
            "new_zero": no_words,
            "new_edge": np.empty(0, dtype=EDGE),
        }

    def __len__(self) -> int:
        """How many splits can be taken back."""
        return len(self._edits)

    def split(self, edge: int, place: int) -> None:
        """Split `edge` on the variable at `place`, and remember how it was."""
        edit = self._look(edge, place)
        self.growing.growth.size[N_HEAP] = 0
        self.growing.split(edge, place)
        self._edits.append(edit)
        self.is_fresh = True

    def undo(self, *, keep: bool = False) -> Edit | None:
        """Take the latest split back; `keep` gives what `redo` needs."""
        edit, g = self._edits.pop(), self.growing.growth
        self.is_fresh = False
        if keep:
            nodes = slice(int(edit.size[N_NODES]), int(g.size[N_NODES]))
            edges = slice(int(edit.size[N_EDGES]), int(g.size[N_EDGES]))
            edit = edit._replace(
                new_node=g.node[nodes].copy(),
                new_one=g.node_one[nodes].copy(),
                new_zero=g.node_zero[nodes].copy(),
                new_edge=g.edge[edges].copy(),
            )
        _clear_new(g, edit.size[N_NODES], edit.size[N_EDGES])
        _swap(g, edit)
        return edit if keep else None

    def redo(self, edit: Edit) -> None:
        """Make a split again that was the latest when it was undone."""
        g = self.growing.growth
        self.is_fresh = False
        g.node[g.size[N_NODES] : edit.size[N_NODES]] = edit.new_node
        g.node_one[g.size[N_NODES] : edit.size[N_NODES]] = edit.new_one
        g.node_zero[g.size[N_NODES] : edit.size[N_NODES]] = edit.new_zero
        g.edge[g.size[N_EDGES] : edit.size[N_EDGES]] = edit.new_edge
        _swap(g, edit)
        self._edits.append(edit._replace(**self._nothing_new))

    def forget(self, n_splits: int) -> None:
        """Keep only what the latest `n_splits` splits need: earlier ones cannot be undone."""
        while len(self._edits) > n_splits:
            self._edits.popleft()

    def size_change(self) -> tuple[int, int]:
        """How many sum nodes, and how many parameters, the latest split added."""
        edit = self._edits[-1]
        n_nodes, n_parameters = _size_change(
            self.growing.growth, edit.nodes, edit.node, edit.size[N_NODES]
        )
        return int(n_nodes), int(n_parameters)

    def decisive_nodes(self) -> IntArray:
        """The nodes that the latest split depends on: without a change of them it does the same."""
        edit = self._edits[-1]
        return edit.nodes[: edit.n_decisive].copy()

    def changed_any(self, nodes: IntArray) -> bool:
        """Whether the latest split may have changed any of some nodes."""
        return bool(_have_common(self.growing.growth, self._edits[-1].nodes, nodes))

    def _look(self, edge: int, place: int) -> Edit:
        """What a split is about to change."""
        g = self.growing.growth
        if len(self._edges) < len(g.edge):
            self._nodes = np.empty(len(g.node), dtype=np.int32)
            self._edges = np.empty(len(g.edge), dtype=np.int32)
        n_decisive, n_nodes, n_edges, n_vtree_nodes, n_train, n_valid = _find(
            g,
            edge,
            place,
            self.growing.copied_levels,
            self._nodes,
            self._edges,
            self._vtree_nodes,
        )
        edit = Edit(
            size=g.size.copy(),
            total=g.total.copy(),
            nodes=self._nodes[:n_nodes].copy(),
            n_decisive=n_decisive,
            node=np.empty(n_nodes, dtype=NODE),
            edges=self._edges[:n_edges].copy(),
            edge=np.empty(n_edges, dtype=EDGE),
            vtree_nodes=self._vtree_nodes[:n_vtree_nodes].copy(),
            train_rows=g.train_rows[:n_train].copy(),
            train_active=np.empty((n_vtree_nodes, n_train), dtype=np.int32),
            valid_rows=g.valid_rows[:n_valid].copy(),
            valid_active=np.empty((n_vtree_nodes, n_valid), dtype=np.int32),
            **self._nothing_new,
        )
        _copy(g, edit)
        return edit


@kernel
def _find(
    g: Growth,
    edge: int,
    place: int,
    n_levels: int,
    nodes: IntArray,
    edges: IntArray,
    vtree_nodes: IntArray,
) -> tuple[int, int, int, int, int, int]:
    """List the nodes, edges, vtree nodes and rows that change; returns how many of each."""
    g.size[STAMP] += 1
    n_found, _ = find_undecided(g, edge, place, g.size[STAMP])
    g.size[STAMP] += 1
    stamp = g.size[STAMP]
    top = g.edge[edge]["parent"]
    n_nodes = _add_node(g, top, stamp, nodes, 0)
    for i in range(n_found):
        n_nodes = _add_node(g, g.node_found[i], stamp, nodes, n_nodes)
    level: list[Any] = [np.int64(edge)]
    for _ in range(n_levels):  # copies as a tree: no more steps here than copies there
        below: list[Any] = [np.int64(0) for _ in range(0)]
        for e in level:
            for side in range(2):
                n = g.edge[e]["left"] if side == 0 else g.edge[e]["right"]
                if n == NONE:
                    continue
                n_nodes = _add_node(g, n, stamp, nodes, n_nodes)
                f = g.node[n]["first"]
                while f != NONE:
                    below.append(np.int64(f))
                    f = g.edge[f]["next"]
        level = below
    n_decisive = n_nodes

    # Their edges change, but for those of the first, and the uses of all children.
    n_edges = _add_edge(g, edge, stamp, edges, 0)
    n_edges = _add_edge(g, g.edge[edge]["previous"], stamp, edges, n_edges)
    n_edges = _add_edge(g, g.edge[edge]["next"], stamp, edges, n_edges)
    n_edges = _add_edge(g, g.node[top]["first"], stamp, edges, n_edges)
    n_nodes = _add_children(g, edge, stamp, nodes, n_nodes)
    for i in range(1, n_decisive):
        e = g.node[nodes[i]]["first"]
        while e != NONE:
            n_edges = _add_edge(g, e, stamp, edges, n_edges)
            n_nodes = _add_children(g, e, stamp, nodes, n_nodes)
            e = g.edge[e]["next"]

    v = g.node[top]["vtree"]
    n_vtree_nodes = _add_vtree_nodes(g, v, place, n_levels, vtree_nodes)
    n_train = rows_through(g.train_active[v], edge, g.train_rows)
    n_valid = rows_through(g.valid_active[v], edge, g.valid_rows)
    return n_decisive, n_nodes, n_edges, n_vtree_nodes, n_train, n_valid


@kernel
def _add_node(g: Growth, n: int, stamp: int, nodes: IntArray, n_nodes: int) -> int:
    """List a node, unless it is there already; returns how many are."""
    if n != NONE and g.node[n]["stamp"] != stamp:
        g.node[n]["stamp"] = stamp
        nodes[n_nodes] = n
        n_nodes += 1
    return n_nodes


@kernel
def _add_edge(g: Growth, e: int, stamp: int, edges: IntArray, n_edges: int) -> int:
    """List an edge, unless it is there already; returns how many are."""
    if e != NONE and g.edge[e]["stamp"] != stamp:
        g.edge[e]["stamp"] = stamp
        edges[n_edges] = e
        n_edges += 1
    return n_edges


@kernel
def _add_children(g: Growth, e: int, stamp: int, nodes: IntArray, n_nodes: int) -> int:
    """List the children of an edge, whose uses may change."""
    n_nodes = _add_node(g, g.edge[e]["left"], stamp, nodes, n_nodes)
    return _add_node(g, g.edge[e]["right"], stamp, nodes, n_nodes)


@kernel
def _add_vtree_nodes(g: Growth, top: int, place: int, n_levels: int, vtree_nodes: IntArray) -> int:
    """List the next levels below `top`, and what is below them on the path to `place`."""
    vtree_nodes[0] = top
    first, n = 0, 1
    for _ in range(n_levels):
        last = n
        for i in range(first, last):
            v = vtree_nodes[i]
            if g.vtree[v]["left"] != NONE:
                vtree_nodes[n] = g.vtree[v]["left"]
                vtree_nodes[n + 1] = g.vtree[v]["right"]
                n += 2
        first = last
    v = top
    while g.vtree[v]["left"] != NONE:
        is_left = place < g.vtree[g.vtree[v]["left"]]["last"]
        v = g.vtree[v]["left"] if is_left else g.vtree[v]["right"]
        if g.vtree[v]["depth"] > g.vtree[top]["depth"] + n_levels:
            vtree_nodes[n] = v
            n += 1
    return n


@kernel
def _copy(g: Growth, edit: Edit) -> None:
    """Fill the copies."""
    for i in range(len(edit.nodes)):
        edit.node[i] = g.node[edit.nodes[i]]
    for i in range(len(edit.edges)):
        edit.edge[i] = g.edge[edit.edges[i]]
    for i in range(len(edit.vtree_nodes)):
        v = edit.vtree_nodes[i]
        for k in range(len(edit.train_rows)):
            edit.train_active[i, k] = g.train_active[v, edit.train_rows[k]]
        for k in range(len(edit.valid_rows)):
            edit.valid_active[i, k] = g.valid_active[v, edit.valid_rows[k]]


@kernel
def _clear_new(g: Growth, first_node: int, first_edge: int) -> None:
    """Leave the places of new nodes and edges as empty as they were."""
    for n in range(first_node, g.size[N_NODES]):
        g.node[n]["uses"] = 0
        g.node[n]["train"] = 0.0
        g.node[n]["valid"] = 0.0
        for w in range(g.node_one.shape[1]):
            g.node_one[n, w] = np.uint64(0)
            g.node_zero[n, w] = np.uint64(0)
    for e in range(first_edge, g.size[N_EDGES]):
        g.edge[e]["train"] = 0.0
        g.edge[e]["valid"] = 0.0


@kernel
def _swap(g: Growth, edit: Edit) -> None:
    """Exchange the copies with what is there."""
    node, edge = np.empty(1, dtype=edit.node.dtype), np.empty(1, dtype=edit.edge.dtype)
    for i in range(len(edit.nodes)):
        n = edit.nodes[i]
        node[0] = g.node[n]
        g.node[n] = edit.node[i]
        edit.node[i] = node[0]
    for i in range(len(edit.edges)):
        e = edit.edges[i]
        edge[0] = g.edge[e]
        g.edge[e] = edit.edge[i]
        edit.edge[i] = edge[0]
    for i in range(len(edit.vtree_nodes)):
        v = edit.vtree_nodes[i]
        _swap_rows(g.train_active[v], edit.train_rows, edit.train_active[i])
        _swap_rows(g.valid_active[v], edit.valid_rows, edit.valid_active[i])
    stamp = g.size[STAMP]  # never goes back: old stamps must not look new
    for i in range(len(g.size)):
        g.size[i], edit.size[i] = edit.size[i], g.size[i]
    for i in range(len(g.total)):
        g.total[i], edit.total[i] = edit.total[i], g.total[i]
    g.size[STAMP] = stamp
    g.size[N_HEAP] = 0


@kernel
def _swap_rows(active: IntArray, rows: IntArray, copied: IntArray) -> None:
    """Exchange the active edges of some rows at one vtree node."""
    for k in range(len(rows)):
        s = rows[k]
        active[s], copied[k] = copied[k], active[s]


@kernel
def _size_change(g: Growth, nodes: IntArray, node: AnyArray, first_new: int) -> tuple[int, int]:
    """Sum nodes and parameters after a split, less those before."""
    n_nodes, n_parameters = 0, 0
    for i in range(len(nodes)):
        n = nodes[i]
        if g.node[n]["first"] == NONE:  # a literal
            continue
        if node[i]["uses"] > 0 or n == g.size[ROOT]:
            n_nodes -= 1
            n_parameters -= node[i]["width"] if node[i]["width"] > 1 else 0
        if g.node[n]["uses"] > 0 or n == g.size[ROOT]:
            n_nodes += 1
            n_parameters += g.node[n]["width"] if g.node[n]["width"] > 1 else 0
    for n in range(first_new, g.size[N_NODES]):
        if g.node[n]["uses"] > 0:
            n_nodes += 1
            n_parameters += g.node[n]["width"] if g.node[n]["width"] > 1 else 0
    return n_nodes, n_parameters


@kernel
def _have_common(g: Growth, nodes: IntArray, others: IntArray) -> bool:
    """Whether two lists of nodes have some in common."""
    g.size[STAMP] += 1
    for n in nodes:
        g.node[n]["stamp"] = g.size[STAMP]
    has_common = False
    for n in others:
        has_common |= g.node[n]["stamp"] == g.size[STAMP]
    return has_common
