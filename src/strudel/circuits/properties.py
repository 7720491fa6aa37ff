"""Determinism of circuits over columns: whether some row satisfies two edges of one sum.

In:  a `Circuit`.
Out: None, or in words which sum it is.

Two nodes at one vtree node overlap if some cells satisfy both: leaves if a cell is possible in
both, sums if the children of two of their edges overlap on both sides. A sum is deterministic if
no two of its own edges do.
"""

from __future__ import annotations

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.walks import edges_at, first_node


def why_not_deterministic(circuit: Circuit) -> str | None:
    """Which sum has two edges that some row satisfies, or None; a mixture's root chooses, too."""
    if circuit.n_components > 1:
        return f"the root chooses among {circuit.n_components} components"
    return why_no_deterministic_components(circuit)


def why_no_deterministic_components(circuit: Circuit) -> str | None:
    """Which sum of the structure has two edges that some row satisfies, or None."""
    if "_overlap" not in circuit.__dict__:
        circuit.__dict__["_overlap"] = _find_overlap(circuit)
    found: str | None = circuit.__dict__["_overlap"]
    return found


def made_deterministic(circuit: Circuit) -> Circuit:
    """Itself, where its maker knows that each component is deterministic: nobody needs to check."""
    circuit.__dict__["_overlap"] = None
    return circuit


def is_known_deterministic(circuit: Circuit) -> bool:
    """Whether each component was found to be deterministic, or is by the way it was made."""
    return circuit.__dict__.get("_overlap", "not known") is None


def as_deterministic_as(made: Circuit, *sources: Circuit) -> Circuit:
    """A circuit that chooses no more freely than its sources, which may be known as such."""
    return made_deterministic(made) if all(map(is_known_deterministic, sources)) else made


def _find_overlap(circuit: Circuit) -> str | None:
    _, is_open = overlaps(circuit)
    if not is_open.any():
        return None
    node = circuit.n_leaves + int(np.argmax(is_open))
    return f"some row satisfies two edges of sum node {node}"


def overlaps(
    circuit: Circuit, is_hidden: AnyArray | None = None
) -> tuple[list[AnyArray], AnyArray]:
    """Per vtree node, which of its nodes some row satisfies together `(n_nodes, n_nodes)`.

    Also of which sums it satisfies two edges `(n_sums,)`; or two rows do that differ in hidden
    columns only.
    """
    vtree = circuit.vtree
    found: list[AnyArray] = []
    is_open = np.zeros(len(circuit.sum_vtree), dtype=bool)
    for v in range(vtree.n_nodes):
        place = int(vtree.node_var[v])
        if place != NONE:
            holds: AnyArray = np.any(circuit.leaf_table(place) > -np.inf, axis=2) * 1.0
            if is_hidden is not None and is_hidden[place]:
                holds = holds.max(axis=1, keepdims=True)
            found.append(holds @ holds.T > 0.0)
            continue
        edges, first = edges_at(circuit, v)
        is_live = np.flatnonzero(np.any(circuit.edge_log_theta[edges] > -np.inf, axis=1))
        l, r = int(vtree.node_left[v]), int(vtree.node_right[v])
        left = circuit.edge_left[edges][is_live] - first_node(circuit, l)
        right = circuit.edge_right[edges][is_live] - first_node(circuit, r)
        owner = (circuit.edge_sum[edges] - circuit.vtree_sums[v])[is_live]
        own: AnyArray = np.eye(len(first), dtype=bool)
        twice: AnyArray = np.zeros(len(first), dtype=bool)
        _overlaps(left, right, owner, found[l], found[r], own, twice)
        is_open[circuit.vtree_sums[v] : circuit.vtree_sums[v + 1]] = twice
        found.append(own)
    return found, is_open


@kernel
def _overlaps(
    edge_left: IntArray,
    edge_right: IntArray,
    owner: IntArray,
    left: AnyArray,
    right: AnyArray,
    own: AnyArray,
    is_open: AnyArray,
) -> None:
    """Fill which sums of one vtree node overlap, and which have two edges that do."""
    for e in range(len(owner)):
        of_left, of_right = left[edge_left[e]], right[edge_right[e]]
        for f in range(e):
            if of_left[edge_left[f]] and of_right[edge_right[f]]:
                own[owner[e], owner[f]] = own[owner[f], owner[e]] = True
                is_open[owner[e]] |= owner[e] == owner[f]
