"""The circuit while it grows, with the flows of all rows: a split touches only what it changes.

In:  a first `Circuit`, training and validation rows.
Out: `GrowingCircuit`: `split(edge, place)`, likelihoods after every split, `snapshot(n)` of any
     earlier circuit.

Splitting an edge on a variable copies, once per value, the nodes on the vtree path between them
that have not decided that variable yet; everything off the path stays shared. The rows through the
edge move to the copies, the counts of old and new nodes on the path change, and with them their
parameters and likelihood. Nothing else does.

Edges are never overwritten. Each has a birth and a death, counted in splits, so the circuit after
any number of splits can be read off the same table.
"""

from __future__ import annotations

import numpy as np

from strudel._types import CountArray, FloatArray, IntArray, WordArray
from strudel.circuits.builder import assemble
from strudel.circuits.circuit import Circuit
from strudel.circuits.flows import compute_flows
from strudel.data.bits import BitMatrix, pack_rows
from strudel.learning.split import (
    ALIVE,
    N_ALIVE,
    N_EDGES,
    N_HEAP,
    N_IMPOSSIBLE,
    N_NODES,
    N_SPLITS,
    ROOT,
    Growth,
    copy_below,
    link,
    n_copies_below,
    push,
    refresh,
    split,
)
from strudel.trees.vtree import Vtree

_NODE_ARRAYS = tuple(name for name in Growth._fields if name.startswith("node_"))
_EDGE_ARRAYS = tuple(name for name in Growth._fields if name.startswith("edge_"))
_HEAP_ARRAYS = tuple(name for name in Growth._fields if name.startswith("heap_"))


class GrowingCircuit:
    """A deterministic circuit that is split again and again, together with its flows."""

    def __init__(
        self,
        circuit: Circuit,
        train: BitMatrix,
        valid: BitMatrix,
        *,
        pseudocount: float = 1.0,
        copy_depth: int = 1,
    ) -> None:
        self.vtree: Vtree = circuit.vtree
        self.pseudocount = float(pseudocount)
        self.copied_levels = copy_depth // 2  # sums below the split edge; products need no copy
        self.train_total = train.total_weight
        self.valid_total = valid.total_weight
        self.rows_moved = 0
        self.growth = _start(circuit, train, valid)
        for node in range(2 * circuit.n_vars, circuit.n_nodes):
            self._ensure_room(0, 0, int(np.diff(circuit.node_edges)[node]))
            refresh(self.growth, node, self.pseudocount)

    @property
    def n_splits(self) -> int:
        """Number of splits so far."""
        return int(self.growth.size[N_SPLITS])

    @property
    def n_edges(self) -> int:
        """Number of edges of the circuit as it is now."""
        return int(self.growth.size[N_ALIVE])

    @property
    def train_log_likelihood(self) -> float:
        """Mean log-likelihood of the training rows."""
        return float(self.growth.total[0]) / self.train_total

    @property
    def valid_log_likelihood(self) -> float:
        """Mean log-likelihood of the validation rows; nan without any."""
        if self.valid_total == 0.0:
            return float("nan")
        if self.growth.size[N_IMPOSSIBLE]:
            return -np.inf
        return float(self.growth.total[1]) / self.valid_total

    def split(self, edge: int, place: int) -> None:
        """Split `edge` on the variable at `place`."""
        while True:
            moved = split(self.growth, edge, place, self.pseudocount)
            if moved >= 0:
                break
            self._double()
        self.rows_moved = moved
        if self.copied_levels:
            one = int(self.growth.size[N_EDGES]) - 2  # the two new edges are the last ones
            nodes, edges = n_copies_below(self.growth, one, self.copied_levels)
            self._ensure_room(nodes, edges, 2 * edges)
            copy_below(self.growth, one, self.copied_levels, self.pseudocount)

    def candidates(self) -> IntArray:
        """The edges below which some variable is undecided."""
        g = self.growth
        used = slice(0, int(g.size[N_EDGES]))
        alive = g.edge_is_candidate[used] & (g.edge_death[used] == ALIVE)
        return np.flatnonzero(alive).astype(np.int32)

    def queue(self, edges: IntArray) -> None:
        """Enter edges into the heap of counts."""
        self._ensure_room(0, 0, len(edges))
        for edge in edges:
            push(self.growth, edge)

    def snapshot(self, n_splits: int | None = None) -> Circuit:
        """The circuit after the first `n_splits` splits, all by default; parameters uniform."""
        g = self.growth
        time = self.n_splits if n_splits is None else n_splits
        used = slice(0, int(g.size[N_EDGES]))
        edges = np.flatnonzero((g.edge_birth[used] <= time) & (g.edge_death[used] > time))
        # The two edges of a split stand before the older edges of their sum.
        edges = edges[np.lexsort((edges, -g.edge_birth[edges]))]
        width = np.bincount(g.edge_parent[edges], minlength=1)
        return assemble(
            self.vtree,
            g.node_vtree[: g.size[N_NODES]].copy(),
            g.edge_parent[edges],
            g.edge_left[edges],
            g.edge_right[edges],
            -np.log(width[g.edge_parent[edges]]),
            root=int(g.size[ROOT]),
        )

    def _ensure_room(self, nodes: int, edges: int, entries: int) -> None:
        """Have room for so many more nodes, edges and heap entries."""
        g = self.growth
        while (
            g.size[N_NODES] + nodes > len(g.node_vtree)
            or g.size[N_EDGES] + edges > len(g.edge_left)
            or g.size[N_HEAP] + entries > len(g.heap_key)
        ):
            self._double()
            g = self.growth

    def _double(self) -> None:
        """Give nodes, edges and heap twice the room."""
        arrays = self.growth._asdict()
        for name in _NODE_ARRAYS + _EDGE_ARRAYS + _HEAP_ARRAYS:
            old = arrays[name]
            arrays[name] = np.concatenate([old, np.zeros_like(old)])
        self.growth = Growth(**arrays)


def _start(circuit: Circuit, train: BitMatrix, valid: BitMatrix) -> Growth:
    """The arrays before the first split."""
    vtree = circuit.vtree
    n_nodes, n_edges = circuit.n_nodes, circuit.n_edges
    n_words = -(-circuit.n_vars // 64)
    room = max(1024, 4 * n_nodes)

    def nodes(dtype: type, *shape: int) -> np.ndarray:
        return np.zeros((room, *shape), dtype=dtype)

    def edges(dtype: type, *shape: int) -> np.ndarray:
        return np.zeros((2 * room, *shape), dtype=dtype)

    def rows(bits: BitMatrix) -> tuple[IntArray, WordArray, FloatArray, IntArray, CountArray]:
        flows = compute_flows(circuit, bits)
        words = pack_rows(bits.unpack()[:, vtree.order])
        work = np.empty(bits.n_rows, dtype=np.int32)
        return flows.active_edge, words, bits.weights, work, flows.edge_count

    train_active, train_words, train_weight, train_rows, train_count = rows(train)
    valid_active, valid_words, valid_weight, valid_rows, valid_count = rows(valid)
    size = np.zeros(8, dtype=np.int64)
    size[N_NODES], size[N_EDGES], size[N_ALIVE], size[ROOT] = (
        n_nodes,
        n_edges,
        n_edges,
        circuit.root,
    )
    growth = Growth(
        size=size,
        total=np.zeros(2),
        node_vtree=nodes(np.int32),
        node_first=nodes(np.int32),
        node_width=nodes(np.int32),
        node_uses=nodes(np.int32),
        node_is_open=nodes(np.bool_),
        node_train=nodes(np.float64),
        node_valid=nodes(np.float64),
        node_one=nodes(np.uint64, n_words),
        node_zero=nodes(np.uint64, n_words),
        node_stamp=nodes(np.int32),
        node_copy=nodes(np.int32, 2),
        node_found=nodes(np.int32),
        edge_parent=edges(np.int32),
        edge_left=edges(np.int32),
        edge_right=edges(np.int32),
        edge_next=edges(np.int32),
        edge_previous=edges(np.int32),
        edge_birth=edges(np.int32),
        edge_death=edges(np.int32),
        edge_train=edges(np.float64),
        edge_valid=edges(np.float64),
        edge_is_candidate=edges(np.bool_),
        edge_key=edges(np.float64),
        edge_stamp=edges(np.int32),
        edge_copy=edges(np.int32, 2),
        heap_key=edges(np.float64),
        heap_depth=edges(np.int32),
        heap_edge=edges(np.int32),
        vtree_left=vtree.node_left,
        vtree_right=vtree.node_right,
        vtree_parent=vtree.node_parent,
        vtree_depth=vtree.node_depth,
        vtree_first=vtree.node_span[0],
        vtree_last=vtree.node_span[1],
        vtree_stamp=np.zeros(vtree.n_nodes, dtype=np.int32),
        place_var=vtree.order,
        train_active=train_active,
        train_words=train_words,
        train_weight=train_weight,
        train_rows=train_rows,
        valid_active=valid_active,
        valid_words=valid_words,
        valid_weight=valid_weight,
        valid_rows=valid_rows,
    )
    growth.node_vtree[:n_nodes] = circuit.node_vtree
    growth.edge_parent[:n_edges] = circuit.edge_parent
    growth.edge_left[:n_edges] = circuit.edge_left
    growth.edge_right[:n_edges] = circuit.edge_right
    growth.edge_train[:n_edges] = train_count
    growth.edge_valid[:n_edges] = valid_count
    growth.edge_death[:n_edges] = ALIVE
    growth.edge_key[:n_edges] = -1.0
    link(growth, circuit.node_edges)
    return growth
