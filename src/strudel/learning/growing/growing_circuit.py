"""The circuit while it grows, with the flows of all rows: a split touches only what it changes.

In:  a first `BitCircuit`, training and validation rows.
Out: `GrowingCircuit`: `split(edge, place)`, likelihoods after every split, `snapshot(n)` of any
     earlier circuit; `Operation`, a split or a clone that can be done again.

Splitting an edge on a variable copies, once per value, the nodes on the vtree path between them
that have not decided that variable yet; everything off the path stays shared. The rows through the
edge move to the copies, the counts of old and new nodes on the path change, and with them their
parameters and likelihood. Nothing else does.

Edges are never overwritten. Each has a birth and a death, counted in splits, so the circuit after
any number of splits can be read off the same table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from strudel._numba import soonest
from strudel._types import NONE, AnyArray, CountArray, FloatArray, IntArray, WordArray
from strudel.data.bits import BitMatrix, pack_rows
from strudel.learning.bits.circuit import BitCircuit, assemble_bits
from strudel.learning.bits.flows import compute_flows
from strudel.learning.growing.growth import (
    ALIVE,
    EDGE,
    HEAP,
    N_ALIVE,
    N_EDGES,
    N_HEAP,
    N_IMPOSSIBLE,
    N_NODES,
    N_SPLITS,
    NO_HEAP,
    NODE,
    ROOT,
    SHRINKS,
    VTREE,
    Growth,
    link,
    push_all,
    refresh_all,
)
from strudel.learning.growing.operations import (
    clone,
    clone_deeply,
    copy_below,
    n_sums_below,
    split,
    unshare_after_split,
)
from strudel.trees.vtree import Vtree

_GROWING = ("node", "node_one", "node_zero", "node_copy", "node_found", "edge", "edge_copy", "heap")


class GrowingCircuit:
    """A deterministic circuit that is split again and again, together with its flows."""

    def __init__(
        self,
        circuit: BitCircuit,
        train: BitMatrix,
        valid: BitMatrix,
        *,
        pseudocount: float = 1.0,
        copy_depth: int = 1,
        strength: float | None = None,
        room: int = 1024,
    ) -> None:
        self.vtree: Vtree = circuit.vtree
        self.pseudocount = float(pseudocount)
        # Sums below the split edge; products need no copy, and there are no sums below the leaves.
        self.copied_levels = min(copy_depth // 2, circuit.vtree.depth)
        self.train_total = train.total_weight
        self.valid_total = valid.total_weight
        self.rows_moved = 0
        self.growth = _start(circuit, train, valid, room)
        self._is_known_deterministic = circuit.is_known_deterministic
        self._ensure_room(0, 0, circuit.n_edges)
        if strength is not None:
            self.growth.size[SHRINKS] = 1
            self.growth.strength[0] = strength
            first = slice(0, circuit.n_nodes)
            self.growth.node["strength"][first] = self.pseudocount
            width = self.growth.node["width"][circuit.edge_parent]
            self.growth.edge["prior"][: circuit.n_edges] = 1.0 / width
        self._refresh_all()

    def _refresh_all(self) -> None:
        """Fill likelihoods and heap from the counts of all edges."""
        fill = soonest(refresh_all, 5e-6 * float(self.growth.size[N_EDGES]))
        fill(self.growth, self.pseudocount)

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
        self._do(split, edge, place)
        if self.copied_levels:
            ones = self._ensure_room_below_split(self.copied_levels, is_tree=True)
            copy_below(self.growth, ones, self.copied_levels, self.pseudocount)

    def clone(self, edge: int, target: int) -> None:
        """Give `edge` its own copy of the sum `target`, to which only sums of one edge lead."""
        self.without_queue()
        self._do(clone, edge, target)

    def _do(self, operation: Callable[..., int], edge: int, what: int) -> None:
        while (moved := operation(self.growth, edge, what, self.pseudocount)) < 0:
            self._double()  # it found no room
        self.rows_moved = moved

    def split_deeply(self, edge: int, place: int, n_levels: int) -> None:
        """Split `edge`, and give each new edge its own copies of this many levels of sums below."""
        first_new = int(self.growth.size[N_NODES])
        self.split(edge, place)
        ones = self._ensure_room_below_split(n_levels, is_tree=False)
        unshare_after_split(self.growth, ones, first_new, n_levels, self.pseudocount)

    def clone_deeply(self, parents: IntArray, target: int, n_levels: int) -> None:
        """Give edges that lead to a sum a common copy of it, and of this many levels below it."""
        nodes, edges = n_sums_below(self.growth, int(parents[0]), n_levels + 1, False)
        self._ensure_room(nodes, edges + len(parents), 2 * edges)
        is_left = bool(self.growth.edge["left"][parents[0]] == target)
        clone_deeply(self.growth, parents, is_left, n_levels, self.pseudocount)

    def without_queue(self) -> GrowingCircuit:
        """Itself, without the heap of edge counts, which only eFLOW needs."""
        self.growth.size[NO_HEAP] = 1
        return self

    def candidates(self) -> IntArray:
        """The edges below which some variable is undecided."""
        g = self.growth
        used = slice(0, int(g.size[N_EDGES]))
        alive = g.edge["is_candidate"][used] & (g.edge["death"][used] == ALIVE)
        return np.flatnonzero(alive).astype(np.int32)

    def queue_all(self) -> None:
        """Fill the heap again with every edge that can be split, also those without rows."""
        self.growth.size[N_HEAP] = 0
        candidates = self.candidates()
        self._ensure_room(0, 0, len(candidates))
        push_all(self.growth, candidates)

    def snapshot(
        self, n_splits: int | None = None, edge_log_theta: AnyArray | None = None
    ) -> BitCircuit:
        """The circuit after the first `n_splits` splits, all by default; parameters uniform.

        Other parameters may be given for the edges in the order of their making.
        """
        time = self.n_splits if n_splits is None else n_splits
        edges = self._edges_at(time)
        if edge_log_theta is not None:
            return self._assemble(edges, edge_log_theta[edges])
        parent = self.growth.edge["parent"][edges]
        return self._assemble(edges, -np.log(np.bincount(parent, minlength=1)[parent]))

    def shrunk(self) -> BitCircuit:
        """The circuit as it is now, its parameters drawn to the sums they were copied from."""
        edges = self._edges_at(self.n_splits)
        node, edge = self.growth.node, self.growth.edge[edges]
        count = np.bincount(edge["parent"], edge["train"], minlength=1)[edge["parent"]]
        strength = node["strength"][edge["parent"]]
        above, below = edge["train"] + strength * edge["prior"], count + strength
        width = node["width"][edge["parent"]]
        share = np.divide(above, below, out=1.0 / width, where=below > 0.0)
        log_share = np.log(share, out=np.full(len(share), -np.inf), where=share > 0.0)
        return self._assemble(edges, np.where(width == 1, 0.0, log_share))

    def _edges_at(self, time: int) -> IntArray:
        """The edges after this many splits, in the order of the circuit."""
        edge = self.growth.edge[: self.growth.size[N_EDGES]]
        edges = np.flatnonzero((edge["birth"] <= time) & (edge["death"] > time))
        # The two edges of a split stand before the older edges of their sum.
        return edges[np.lexsort((edges, -edge["birth"][edges]))].astype(np.int32)

    def _assemble(self, edges: IntArray, log_theta: FloatArray) -> BitCircuit:
        g = self.growth
        circuit = assemble_bits(
            self.vtree,
            g.node["vtree"][: g.size[N_NODES]].copy(),
            g.edge["parent"][edges],
            g.edge["left"][edges],
            g.edge["right"][edges],
            log_theta,
            root=int(g.size[ROOT]),
        )
        # Splits and copies keep what the first circuit was.
        return circuit.made_deterministic() if self._is_known_deterministic else circuit

    def _ensure_room_below_split(self, n_levels: int, *, is_tree: bool) -> int:
        """Have room for copies of the sums below the two edges of a split; returns the first."""
        ones = int(self.growth.size[N_EDGES]) - 2  # they are the last edges
        below = [n_sums_below(self.growth, e, n_levels, is_tree) for e in (ones, ones + 1)]
        nodes, edges = (sum(numbers) for numbers in zip(*below, strict=True))
        self._ensure_room(nodes, edges, 2 * edges)
        return ones

    def _ensure_room(self, nodes: int, edges: int, entries: int) -> None:
        """Have room for this many more nodes, edges and heap entries."""
        g = self.growth
        while (
            g.size[N_NODES] + nodes > len(g.node)
            or g.size[N_EDGES] + edges > len(g.edge)
            or g.size[N_HEAP] + entries > len(g.heap)
        ):
            self._double()
            g = self.growth

    def _double(self) -> None:
        """Give nodes, edges and heap twice the room."""
        arrays = self.growth._asdict()
        for name in _GROWING:
            old = arrays[name]
            new = np.zeros((2 * len(old), *old.shape[1:]), dtype=old.dtype)  # memory when written
            new[: len(old)] = old
            arrays[name] = new
        self.growth = Growth(**arrays)


def _start(circuit: BitCircuit, train: BitMatrix, valid: BitMatrix, room: int) -> Growth:
    """The arrays before the first split, with room for this many nodes and twice as many edges."""
    n_words = -(-circuit.n_vars // 64)
    room = max(room, circuit.n_nodes, circuit.n_edges // 2 + 1)
    train_active, train_words, train_count = _rows(circuit, train)
    valid_active, valid_words, valid_count = _rows(circuit, valid)
    growth = Growth(
        size=np.zeros(10, dtype=np.int64),
        total=np.zeros(2),
        strength=np.zeros(1),
        node=np.zeros(room, dtype=NODE),
        node_one=np.zeros((room, n_words), dtype=np.uint64),
        node_zero=np.zeros((room, n_words), dtype=np.uint64),
        node_copy=np.zeros((room, 2), dtype=np.int32),
        node_found=np.zeros(room, dtype=np.int32),
        edge=np.zeros(2 * room, dtype=EDGE),
        edge_copy=np.zeros((2 * room, 2), dtype=np.int32),
        heap=np.zeros(2 * room, dtype=HEAP),
        vtree=_vtree_table(circuit.vtree),
        place_var=circuit.vtree.order,
        train_active=train_active,
        train_words=train_words,
        train_weight=train.weights,
        train_rows=np.empty(train.n_rows, dtype=np.int32),
        valid_active=valid_active,
        valid_words=valid_words,
        valid_weight=valid.weights,
        valid_rows=np.empty(valid.n_rows, dtype=np.int32),
    )
    growth.size[[N_NODES, N_EDGES, N_ALIVE]] = circuit.n_nodes, circuit.n_edges, circuit.n_edges
    growth.size[ROOT] = circuit.root
    growth.node["vtree"][: circuit.n_nodes] = circuit.node_vtree
    edge = growth.edge[: circuit.n_edges]
    edge["parent"] = circuit.edge_parent
    edge["left"] = circuit.edge_left
    edge["right"] = circuit.edge_right
    edge["train"] = train_count
    edge["valid"] = valid_count
    edge["death"] = ALIVE
    edge["key"] = -1.0
    soonest(link, 5e-6 * circuit.n_edges * n_words)(growth, circuit.node_edges)
    return growth


def _rows(circuit: BitCircuit, bits: BitMatrix) -> tuple[IntArray, WordArray, CountArray]:
    """Active edges, packed values by place, and the weight through every edge."""
    flows = compute_flows(circuit, bits)
    words = pack_rows(bits.unpack()[:, circuit.vtree.order])
    return flows.active_edge, words, flows.edge_count


def _vtree_table(vtree: Vtree) -> AnyArray:
    table = np.zeros(vtree.n_nodes, dtype=VTREE)
    table["left"], table["right"], table["parent"] = (
        vtree.node_left,
        vtree.node_right,
        vtree.node_parent,
    )
    table["depth"] = vtree.node_depth
    table["first"], table["last"] = vtree.node_span
    return table


class Operation(NamedTuple):
    """A split of `edge` at a place, or a clone of the sum `target` for it.

    With `n_levels` the sums that many levels below are also copied, and `others` are edges that
    share the clone.
    """

    edge: int
    place: int = NONE
    target: int = NONE
    n_levels: int = NONE
    others: tuple[int, ...] = ()


def apply(growing: GrowingCircuit, operation: Operation) -> None:
    """Do one operation."""
    if operation.n_levels != NONE and operation.target == NONE:
        growing.split_deeply(operation.edge, operation.place, operation.n_levels)
    elif operation.n_levels != NONE:
        parents = np.array([operation.edge, *operation.others], dtype=np.int32)
        growing.clone_deeply(parents, operation.target, operation.n_levels)
    elif operation.target == NONE:
        growing.split(operation.edge, operation.place)
    else:
        growing.clone(operation.edge, operation.target)


def replay(
    growing: GrowingCircuit,
    operations: Iterable[Operation],
    after_each: Callable[[GrowingCircuit], None] | None = None,
) -> GrowingCircuit:
    """Do them one after another; the same numbers come out as the first time."""
    growing.without_queue()
    for operation in operations:
        apply(growing, operation)
        if after_each is not None:
            after_each(growing)
    return growing
