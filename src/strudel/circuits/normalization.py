"""Normalised parameters: the same distribution, with every sum adding up to one.

In:  a `Circuit` in normal form, with parameters that need not add up to one.
Out: the circuit whose parameters do, and the log of what it added up to before.
"""

from __future__ import annotations

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, FloatArray
from strudel.circuits.circuit import Circuit, Edges


def normalize(circuit: Circuit) -> tuple[Circuit, float]:
    """Divide what a circuit gives to every row by its total, sum by sum; also the log of the total.

    The parameters of every sum of the result add up to one, except for sums of total zero.
    """
    log_theta, log_total = normalized_parameters(
        circuit.edges, circuit.edge_log_theta, circuit.n_vars
    )
    return circuit.with_parameters(log_theta), log_total


def normalized_parameters(
    edges: Edges, edge_log_weight: FloatArray, n_vars: int, row: FloatArray | None = None
) -> tuple[FloatArray, float]:
    """The same for the weights of a structure: its log-parameters, and the log of the total.

    With a `row` of 0, 1 and NaN, the total is over the rows that agree with it, and what no such
    row reaches gets -inf.
    """
    log_total = np.zeros(len(edges.node_edges) - 1)
    if row is not None:
        known = np.flatnonzero(~np.isnan(row))
        log_total[2 * known + (row[known] == 0.0)] = -np.inf
    log_theta = edge_log_weight.copy()
    _normalize(edges, 2 * n_vars, log_theta, log_total)
    return log_theta, float(log_total[-1])


@kernel
def _normalize(edges: Edges, n_literals: int, log_theta: FloatArray, log_total: FloatArray) -> None:
    """Turn `log_theta` into parameters, children first, and fill `log_total` of the sums."""
    node_edges, edge_left, edge_right = edges
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
        # Not less log_total, which has few digits after the point where it is far from zero.
        for e in range(node_edges[n], node_edges[n + 1]):
            log_theta[e] = log_theta[e] - largest - np.log(total)
