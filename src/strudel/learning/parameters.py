"""Parameters in closed form: the share of a sum's rows that takes an edge (equation 2).

In:  a deterministic circuit and fully observed rows, or the weight through every edge.
Out: the circuit with these parameters.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from strudel._types import CountArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.data.bits import BitMatrix
from strudel.learning.bits.circuit import BitCircuit
from strudel.learning.bits.flows import compute_flows
from strudel.learning.bits.fold import over_columns, unfold


def fit_parameters(
    circuit: Circuit,
    X: BitMatrix | ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pseudocount: float = 1.0,
) -> Circuit:
    """Fit the parameters of a deterministic circuit.

    Parameters
    ----------
    circuit : Circuit
        Deterministic, over 0/1 columns; its own parameters do not matter.
    X : BitMatrix or array-like of shape (n_rows, n_columns)
        Fully observed rows.
    sample_weight : array-like of shape (n_rows,), optional
        How often each row counts.
    pseudocount : float
        Virtual rows per sum node, shared evenly by its edges.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> fitted = fit_parameters(figure_1_circuit(), [[1, 0, 1, 0], [1, 1, 1, 1]], pseudocount=0)
    >>> np.exp(fitted.edge_log_theta[-2:, 0])  # X4 = 1 and X4 = 0
    array([0.5, 0.5])
    """
    structure = unfold(circuit, None).structure
    made = closed_form(structure, X, sample_weight=sample_weight, pseudocount=pseudocount)
    return over_columns(made, circuit.columns, None)


def closed_form(
    circuit: BitCircuit,
    X: BitMatrix | ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pseudocount: float = 1.0,
) -> BitCircuit:
    """The same of a circuit over 0/1 variables."""
    count = compute_flows(circuit, X, sample_weight=sample_weight).edge_count
    return circuit.with_parameters(log_parameters(circuit, count, pseudocount))


def log_parameters(circuit: BitCircuit, edge_count: CountArray, pseudocount: float) -> FloatArray:
    """Logs of `(count + pseudocount / width) / (sum's count + pseudocount)`; uniform at 0/0."""
    parent = circuit.edge_parent
    width = np.diff(circuit.node_edges)[parent]
    node_count = np.bincount(parent, weights=edge_count, minlength=circuit.n_nodes)
    above = edge_count + pseudocount / width
    below = node_count[parent] + pseudocount
    theta = np.divide(above, below, out=1.0 / width, where=below > 0)
    with np.errstate(divide="ignore"):
        logs: FloatArray = np.log(np.where(width == 1, 1.0, theta))
    return logs
