"""The circuit on the page: sums of products as they are, and below them leaves over slots.

In:  circuits over 0/1 variables on one structure, with a column of parameters for each component.
Out: `PagePart`, arrays of nodes and entries; a leaf has an entry per value, a sum one per product.

A sum at the vtree node of a slot becomes a leaf: the probability of each value is that of its bits,
found by one pass up the nodes below. What other bits than the slot's patterns have is an entry of
its own if it is more than rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.normalization import normalized_columns
from strudel.circuits.scopes import reached_nodes
from strudel.explorer.page_columns import Slot

ROUNDING = 1e-9  # of what sums add up to


@dataclass(frozen=True, eq=False)
class PagePart:
    """The components on their structure; children come before parents, the root is last."""

    node_slot: IntArray  # (n_nodes,) the slot of a leaf, NONE for a sum
    node_entries: IntArray  # (n_nodes + 1,) entries of n are node_entries[n]:node_entries[n + 1]
    entry_left: IntArray  # (n_entries,) left child; in a leaf the value of the slot
    entry_right: IntArray  # (n_entries,) right child, NONE if there is none, and in a leaf
    entry_log_theta: FloatArray  # (n_entries, n_components)
    log_total: FloatArray  # (n_components,) what the components added up to

    @property
    def n_components(self) -> int:
        """Number of components."""
        return self.entry_log_theta.shape[1]


def collapse(
    circuit: Circuit, log_theta: FloatArray, slots: Sequence[Slot], *, is_by_vtree: bool
) -> tuple[PagePart, list[bool]]:
    """The circuit over the slots, and for each slot whether other bits than its patterns occur.

    Log-parameters are `(n_edges, n_components)`. Where nodes do not lie at the nodes of the vtree,
    slots are single variables and only literals become leaves.
    """
    collapsing = _Collapsing(circuit, log_theta, slots, is_by_vtree)
    has_other = [bool(theta[:, -1].max(initial=0.0) > ROUNDING) for theta in collapsing.leaf_theta]
    return collapsing.finish(has_other), has_other


class _Collapsing:
    """A structure and its parameters, while its lower sums become leaves."""

    def __init__(
        self, circuit: Circuit, log_theta: FloatArray, slots: Sequence[Slot], is_by_vtree: bool
    ) -> None:
        self.circuit = circuit
        self.log_theta, self.log_total = _normalised(circuit, log_theta)
        self.n_components = log_theta.shape[1]
        self.is_by_vtree = is_by_vtree
        self.is_kept = reached_nodes(circuit)
        self.leaf_nodes: list[IntArray] = []  # per slot, their numbers in the circuit
        self.leaf_theta: list[FloatArray] = []  # (n_leaves, n_patterns + 1, n_components)
        for slot in slots:
            nodes, theta = self._leaves(slot)
            is_used = self.is_kept[nodes]
            self.leaf_nodes.append(nodes[is_used])
            self.leaf_theta.append(theta[is_used])

    def _leaves(self, slot: Slot) -> tuple[IntArray, FloatArray]:
        """The nodes at the slot's vtree node: the probability of every pattern, and of no pattern.

        Sums below are not kept.
        """
        vtree, top = self.circuit.vtree, slot.vtree_node
        first, last = vtree.node_span
        below = np.flatnonzero((first >= first[top]) & (last <= last[top])).tolist()
        found: dict[int, tuple[IntArray, FloatArray]] = {}  # nodes, (n_nodes, n_patterns, ...)
        for v in below:  # children first
            found[v] = self._literals(v, slot)
            sums = self._sums_at(v)
            if len(sums):
                nodes, values = found[v]
                values = np.concatenate([values, self._sum_values(v, sums, found)])
                found[v] = np.concatenate([nodes, sums]), values
            if v != top:
                self.is_kept[found[v][0]] = False
        nodes, values = found[top]
        values = values * slot.share[:, np.newaxis]
        other = np.zeros((len(nodes), 1, self.n_components))
        if len(np.unique(slot.patterns, axis=0)) < 2 ** len(slot.variables):
            other = np.maximum(1.0 - values.sum(axis=1, keepdims=True), 0.0)
        return nodes, np.concatenate([values, other], axis=1)

    def _sums_at(self, v: int) -> IntArray:
        if not self.is_by_vtree:
            return np.zeros(0, dtype=np.int32)
        first, sums = self.circuit.sums_by_vtree
        return sums[first[v] : first[v + 1]]

    def _literals(self, v: int, slot: Slot) -> tuple[IntArray, FloatArray]:
        """The two literals at a vtree leaf; nothing at an inner node."""
        var = int(self.circuit.vtree.node_var[v])
        shape = (len(slot.patterns), self.n_components)
        if var == NONE:
            return np.zeros(0, dtype=np.int32), np.zeros((0, *shape))
        bit = slot.patterns[:, slot.variables.index(var), np.newaxis]
        values = np.stack([np.broadcast_to(bit == value, shape) for value in (0, 1)])
        return np.array([2 * var, 2 * var + 1], dtype=np.int32), values.astype(np.float64)

    def _sum_values(
        self, v: int, sums: IntArray, found: dict[int, tuple[IntArray, FloatArray]]
    ) -> FloatArray:
        """The values `(n_sums, n_patterns, n_components)` of the sums at a vtree node."""
        circuit, vtree = self.circuit, self.circuit.vtree
        edges = circuit.vtree_edges(v)  # those of one sum side by side
        if vtree.node_var[v] != NONE:
            product = found[v][1][circuit.edge_left[edges] % 2]
        else:
            left = _values_of(circuit.edge_left[edges], *found[int(vtree.node_left[v])])
            right = _values_of(circuit.edge_right[edges], *found[int(vtree.node_right[v])])
            product = left * right
        terms = np.exp(self.log_theta[edges])[:, np.newaxis, :] * product
        width = circuit.node_edges[sums + 1] - circuit.node_edges[sums]
        values: FloatArray = np.add.reduceat(terms, np.cumsum(width) - width, axis=0)
        return values

    def finish(self, has_other: Sequence[bool]) -> PagePart:
        """The arrays: all leaves, then the sums above in their order."""
        circuit = self.circuit
        lefts, thetas, widths, slot_of = [], [], [], []
        number = np.full(circuit.n_nodes + 1, NONE, dtype=np.int32)  # NONE stays NONE
        n_leaves = 0
        for s, (nodes, theta) in enumerate(zip(self.leaf_nodes, self.leaf_theta, strict=True)):
            number[nodes] = np.arange(n_leaves, n_leaves + len(nodes))
            n_leaves += len(nodes)
            self.is_kept[nodes] = False
            theta = theta if has_other[s] else theta[:, :-1]
            is_possible = (theta > 0.0).any(axis=2)
            leaf, value = np.nonzero(is_possible)
            lefts.append(value.astype(np.int32))
            thetas.append(theta[leaf, value])
            widths.append(is_possible.sum(axis=1))
            slot_of.append(np.full(len(nodes), s, dtype=np.int32))
        sums = np.flatnonzero(self.is_kept)
        number[sums] = np.arange(n_leaves, n_leaves + len(sums))
        edges = np.flatnonzero(self.is_kept[circuit.edge_parent])
        with np.errstate(divide="ignore"):
            log_leaf_theta = np.log(np.concatenate(thetas))
        n_leaf_entries = len(log_leaf_theta)
        width = np.concatenate([*widths, np.diff(circuit.node_edges)[sums]])
        nothing = np.full(n_leaf_entries, NONE, dtype=np.int32)
        return PagePart(
            np.concatenate([*slot_of, np.full(len(sums), NONE, dtype=np.int32)]),
            np.concatenate([[0], np.cumsum(width)]).astype(np.int32),
            np.concatenate([*lefts, number[circuit.edge_left[edges]]]),
            np.concatenate([nothing, number[circuit.edge_right[edges]]]),
            np.concatenate([log_leaf_theta, self.log_theta[edges]]),
            self.log_total,
        )


def _values_of(ends: IntArray, nodes: IntArray, values: FloatArray) -> AnyArray:
    """The values of some nodes, which are all among `nodes`."""
    order = np.argsort(nodes)
    return values[order[np.searchsorted(nodes[order], ends)]]


def _normalised(circuit: Circuit, log_theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Parameters that add up to one in every sum, and the logs of what the components gave."""
    n_components = log_theta.shape[1]
    if circuit.n_edges == 0:  # a single variable that is known
        return log_theta, np.zeros(n_components)
    first = circuit.node_edges[2 * circuit.n_vars : -1]
    with np.errstate(over="ignore"):
        totals = np.add.reduceat(np.exp(log_theta), first, axis=0)
    if np.all(np.abs(totals - 1.0) <= ROUNDING):
        return log_theta, np.zeros(n_components)
    return normalized_columns(circuit.edges, log_theta, circuit.n_vars)
