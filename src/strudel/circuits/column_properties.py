"""Determinism of circuits over columns: whether some row satisfies two edges of one sum.

In:  a `ColumnCircuit`.
Out: None, or in words which sum it is.

Two nodes at one vtree node overlap if some cells satisfy both: leaves if a cell is possible in
both, sums if the children of two of their edges overlap on both sides. A sum is deterministic if
no two of its own edges do.
"""

from __future__ import annotations

import numpy as np

from strudel._types import NONE, AnyArray
from strudel.circuits.column_circuit import ColumnCircuit
from strudel.circuits.walks import edges_at, first_node

BLOCK_PAIRS = 2**24  # of edges that are looked at a time


def why_not_deterministic(circuit: ColumnCircuit) -> str | None:
    """Which sum has two edges that some row satisfies, or None; a mixture's root chooses, too."""
    if circuit.n_components > 1:
        return f"the root chooses among {circuit.n_components} components"
    return why_no_deterministic_components(circuit)


def why_no_deterministic_components(circuit: ColumnCircuit) -> str | None:
    """Which sum of the structure has two edges that some row satisfies, or None."""
    if "_overlap" not in circuit.__dict__:
        circuit.__dict__["_overlap"] = _find_overlap(circuit)
    found: str | None = circuit.__dict__["_overlap"]
    return found


def made_deterministic(circuit: ColumnCircuit) -> ColumnCircuit:
    """Itself, where its maker knows that each component is deterministic: nobody needs to check."""
    circuit.__dict__["_overlap"] = None
    return circuit


def is_known_deterministic(circuit: ColumnCircuit) -> bool:
    """Whether each component was found to be deterministic, or is by the way it was made."""
    return circuit.__dict__.get("_overlap", "not known") is None


def _find_overlap(circuit: ColumnCircuit) -> str | None:
    overlapping = np.flatnonzero(overlapping_sums(circuit))
    if not len(overlapping):
        return None
    return f"some row satisfies two edges of sum node {circuit.n_leaves + overlapping[0]}"


def overlapping_sums(circuit: ColumnCircuit, is_hidden: AnyArray | None = None) -> AnyArray:
    """Whether some row satisfies two edges of each sum, or two rows that differ in hidden columns.

    Without hidden columns it stops at the first vtree node that has one.
    """
    vtree = circuit.vtree
    overlaps: list[AnyArray] = []
    is_twice = np.zeros(len(circuit.sum_vtree), dtype=bool)
    for v in range(vtree.n_nodes):
        place = int(vtree.node_var[v])
        if place != NONE:
            holds: AnyArray = np.any(circuit.leaf_table(place) > -np.inf, axis=2) * 1.0
            if is_hidden is not None and is_hidden[place]:
                holds = holds.max(axis=1, keepdims=True)
            overlaps.append(holds @ holds.T > 0.0)
            continue
        edges, first = edges_at(circuit, v)
        is_live: AnyArray = np.any(circuit.edge_log_theta[edges] > -np.inf, axis=1)
        owner = circuit.edge_sum[edges] - circuit.vtree_sums[v]
        sides = []
        for child, side in (
            (circuit.edge_left, vtree.node_left),
            (circuit.edge_right, vtree.node_right),
        ):
            below = int(side[v])
            sides.append((child[edges] - first_node(circuit, below), overlaps[below]))
        n_edges, n_sums = len(owner), len(first)
        found = np.zeros((n_sums, n_sums), dtype=bool)
        step = max(1, BLOCK_PAIRS // max(n_edges, 1))
        for start in range(0, n_edges, step):
            rows = np.arange(start, min(start + step, n_edges))
            both = is_live[rows, np.newaxis] & is_live
            for child, overlap in sides:
                both &= overlap[np.ix_(child[rows], child)]
            both[np.arange(len(rows)), rows] = False
            at, other = np.nonzero(both)
            own, theirs = owner[rows[at]], owner[other]
            is_twice[circuit.vtree_sums[v] + own[own == theirs]] = True
            found[own, theirs] = True
        if is_hidden is None and is_twice.any():
            break
        np.fill_diagonal(found, True)
        overlaps.append(found)
    return is_twice
