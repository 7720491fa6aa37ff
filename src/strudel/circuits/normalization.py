"""Normalised parameters: the same distribution, with every sum adding up to one.

In:  a `Circuit` in normal form, with parameters that need not add up to one.
Out: the circuit whose parameters do, and the log of what it added up to before.
"""

from __future__ import annotations

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, FloatArray, IntArray
from strudel.circuits.circuit import Circuit


def normalize(circuit: Circuit) -> tuple[Circuit, float]:
    """Divide what a circuit gives to every row by its total, sum by sum.

    Parameters
    ----------
    circuit : Circuit
        Smooth and decomposable.

    Returns
    -------
    circuit : Circuit
        The parameters of every sum add up to one. Sums of total zero keep theirs.
    log_total : float
        The log of the total over all rows, ``-inf`` if every row is impossible.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> circuit = figure_1_circuit()
    >>> twice, log_total = normalize(circuit.with_parameters(circuit.edge_log_theta + np.log(2)))
    >>> bool(np.allclose(twice.theta, circuit.theta))
    True
    """
    log_total = np.zeros(circuit.n_nodes)
    log_theta = circuit.edge_log_theta.copy()
    _normalize(
        circuit.node_edges,
        circuit.edge_left,
        circuit.edge_right,
        2 * circuit.n_vars,
        log_theta,
        log_total,
    )
    return circuit.with_parameters(log_theta), float(log_total[circuit.root])


@kernel
def _normalize(
    node_edges: IntArray,
    edge_left: IntArray,
    edge_right: IntArray,
    n_literals: int,
    log_theta: FloatArray,
    log_total: FloatArray,
) -> None:
    """Turn `log_theta` into normalised parameters, children first, and fill `log_total`."""
    for n in range(n_literals, len(log_total)):
        largest = -np.inf
        for e in range(node_edges[n], node_edges[n + 1]):
            value = log_theta[e] + log_total[edge_left[e]]
            if edge_right[e] != NONE:
                value += log_total[edge_right[e]]
            log_theta[e] = value
            largest = max(largest, value)
        if largest == -np.inf:
            log_total[n] = largest
            continue
        total = 0.0
        for e in range(node_edges[n], node_edges[n + 1]):
            total += np.exp(log_theta[e] - largest)
        log_total[n] = largest + np.log(total)
        for e in range(node_edges[n], node_edges[n + 1]):
            log_theta[e] -= log_total[n]
