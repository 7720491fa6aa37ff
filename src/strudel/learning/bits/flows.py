"""Circuit flows: which edges a row passes on its way through a deterministic circuit.

In:  a deterministic `BitCircuit` and fully observed rows.
Out: `Flows`, the one active edge of every row at every vtree node it reaches, and the weight
     through each edge.

Values go up the circuit, flows come down (Dang et al. 2020, section 3), by the kernels of
`circuits.flows`. A row activates at most one edge per vtree node, however large the circuit is, so
a flow is kept as one index per row and vtree node instead of one bit per row and edge.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from strudel._numba import kernel, n_threads
from strudel._types import NONE, CountArray, FloatArray, IntArray
from strudel.circuits.flows import lines_taken
from strudel.data.bits import BitMatrix
from strudel.data.validation import as_bits, slices
from strudel.learning.bits.circuit import BitCircuit
from strudel.learning.bits.fold import numbered

BLOCK_LINES = 2**18  # of rows and vtree nodes for each thread: in its cache, half the time of all


@dataclass(frozen=True, eq=False)
class Flows:
    """The flows of many rows through one circuit."""

    active_edge: IntArray  # (n_vtree_nodes, n_rows) NONE where a literal is reached, or nothing is
    edge_count: CountArray  # (n_edges,) weight of the rows through each edge
    is_possible: np.ndarray  # (n_rows,) bool: whether the row reaches the root at all

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.active_edge.shape[1]


def compute_flows(
    circuit: BitCircuit, X: BitMatrix | ArrayLike, *, sample_weight: ArrayLike | None = None
) -> Flows:
    """Find the active edges of every row.

    Parameters
    ----------
    circuit : BitCircuit
        Deterministic.
    X : BitMatrix or array-like of shape (n_rows, n_vars)
        Fully observed rows.
    sample_weight : array-like of shape (n_rows,), optional
        How often each row counts.
    """
    bits = as_bits(X, sample_weight)
    if bits.n_vars != circuit.n_vars:
        raise ValueError(
            f"X has {bits.n_vars} columns, but the circuit has {circuit.n_vars} variables."
        )
    n_vtree = circuit.vtree.n_nodes
    active = np.empty((n_vtree, bits.n_rows), dtype=np.int32)
    is_possible = np.empty(bits.n_rows, dtype=np.bool_)
    over_columns, line_edge = numbered(circuit)
    rows = bits.unpack()
    for part in slices(bits.n_rows, max(1, BLOCK_LINES * n_threads() // n_vtree)):
        taken = lines_taken(over_columns, rows[part])
        is_possible[part] = taken[:, -1] != NONE
        _look_up(taken, line_edge, active[:, part])
    count = np.zeros(circuit.n_edges)
    _count(active, bits.weights, count)
    return Flows(active, count, is_possible)


@kernel
def _look_up(taken: IntArray, line_edge: IntArray, active: IntArray) -> None:
    """The edges of the lines that rows take; the last line is that of none."""
    n_vtree, n_rows = active.shape
    for start in range(0, n_rows, 64):  # whose lines stay in the cache
        for v in range(n_vtree):
            for s in range(start, min(start + 64, n_rows)):
                active[v, s] = line_edge[taken[s, v]]


@kernel
def _count(active: IntArray, weight: FloatArray, count: CountArray) -> None:
    """Add up the weight of the rows through each edge."""
    for v in range(active.shape[0]):
        for s in range(active.shape[1]):
            if active[v, s] != NONE:
                count[active[v, s]] += weight[s]
