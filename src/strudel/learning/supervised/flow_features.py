"""Flow features: a row as the edges it takes, for linear models on top of a circuit.

In:  active edges of rows, one per vtree node, and the rows.
Out: a sparse 0/1 matrix: one column for every edge with a choice, one for every variable.

A linear model of these columns is a `PredictorCircuit`: its coefficients are weights of edges and
of literals. Edges without a choice are left out, since the edge above says the same; the variables
themselves stay, so that edges only have to say where their context makes a difference.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from strudel._types import NONE, AnyArray, ByteArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.predictor import PredictorCircuit

BLOCK = 2**23  # entries that are looked at together


def chosen_edges(active: IntArray, has_choice: NDArray[np.bool_]) -> IntArray:
    """The edges that some row takes and that had an alternative, in order.

    `active` is (n_vtree_nodes, n_rows), NONE where a row takes no edge; `has_choice` (n_edges,).
    """
    is_taken = np.zeros(len(has_choice) + 1, dtype=bool)
    is_taken[active.ravel()] = True  # NONE marks the last entry, which is no edge
    return np.flatnonzero(is_taken[:-1] & has_choice).astype(np.int32)


def flow_features(
    active: IntArray, edges: IntArray, n_edges: int, X: ByteArray
) -> sparse.csr_matrix[np.float64]:
    """The matrix `(n_rows, len(edges) + n_vars)`.

    Examples
    --------
    >>> from strudel.circuits import compute_flows, figure_1_circuit
    >>> circuit = figure_1_circuit()
    >>> X = np.array([[1, 0, 1, 0], [0, 0, 1, 1]], dtype=np.uint8)
    >>> active = compute_flows(circuit, X).active_edge
    >>> edges = chosen_edges(active, has_choice(circuit))
    >>> flow_features(active, edges, circuit.n_edges, X).sum(axis=1).ravel()  # 4 edges, 2 ones
    matrix([[6., 6.]])
    """
    place = np.full(n_edges + 1, NONE, dtype=np.int32)
    place[edges] = np.arange(len(edges), dtype=np.int32)
    n_rows, n_vars = X.shape
    columns, widths = [], []
    step = max(1, BLOCK // (len(active) + n_vars))
    for start in range(0, n_rows, step):
        rows = slice(start, start + step)
        variable = np.where(X[rows] == 1, len(edges) + np.arange(n_vars, dtype=np.int32), NONE)
        line = np.hstack([place[active[:, rows].T], variable])
        columns.append(line[line != NONE])
        widths.append((line != NONE).sum(axis=1))
    indices: AnyArray = np.concatenate([np.empty(0, dtype=np.int32), *columns]).astype(np.int32)
    indptr = np.concatenate([[0], np.cumsum(np.concatenate([np.empty(0, int), *widths]))])
    shape = (n_rows, len(edges) + n_vars)
    matrix = sparse.csr_matrix((np.ones(len(indices)), indices, indptr), shape=shape)
    matrix.sort_indices()
    return matrix


def has_choice(circuit: Circuit) -> NDArray[np.bool_]:
    """Whether the sum of every edge has another one `(n_edges,)`."""
    width = np.diff(circuit.node_edges)
    return np.asarray(width[circuit.edge_parent] > 1)


def predictor_from_weights(
    structure: Circuit, edges: IntArray, coefficients: FloatArray, bias: FloatArray, kind: str
) -> PredictorCircuit:
    """The circuit of a linear model: `coefficients` has shape (len(edges) + n_vars, n_outputs)."""
    n_outputs = len(bias)
    edge_weight = np.zeros((structure.n_edges, n_outputs))
    edge_weight[edges] = coefficients[: len(edges)]
    literal_weight = np.zeros((2 * structure.n_vars, n_outputs))
    literal_weight[1::2] = coefficients[len(edges) :]
    return PredictorCircuit(
        structure=structure,
        literal_weight=literal_weight,
        edge_weight=edge_weight,
        bias=np.asarray(bias, dtype=np.float64),
        kind=kind,  # type: ignore[arg-type]
    )
