"""The classical upward pass: a log-value per node and row.

In:  a smooth and decomposable `BitCircuit`, deterministic or not, and partly observed rows.
Out: the log-probability of every row.

Works where flows do not apply. Rows go up the circuit in blocks, so memory does not grow with them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel._numba import kernel, lane, run_blocks
from strudel._types import NONE, FloatArray
from strudel.circuits.circuit import Edges
from strudel.data.validation import check_evidence
from strudel.learning.bits.circuit import BitCircuit
from strudel.learning.bits.properties import check_properties

BLOCK_VALUES = 2**18  # values of one block: 2 MB, as long as that leaves it enough rows
MIN_BLOCK_ROWS = 16


def evaluate_log(circuit: BitCircuit, evidence: Any) -> FloatArray:
    """Log-probability of rows of 0, 1 and NaN under a smooth and decomposable circuit.

    Rows hold the 0/1 variables, even if the circuit knows the columns of a table.
    """
    check_properties(circuit, "evaluate_log", "smooth", "decomposable")
    names = None if circuit.feature_names is None else tuple(circuit.feature_names)
    rows = check_evidence(evidence, n_vars=circuit.n_vars, feature_names=names, name="evidence")
    return evaluate_edges(circuit.edges, circuit.edge_log_theta, rows)


def evaluate_edges(edges: Edges, edge_log_theta: FloatArray, rows: FloatArray) -> FloatArray:
    """`evaluate_log` for any parameters of a structure, and rows that are checked."""
    log_probability = np.empty(len(rows))
    log_theta, n_nodes = np.ascontiguousarray(edge_log_theta), len(edges.node_edges) - 1

    def run(part: slice) -> None:
        block = rows[part]
        value = np.empty((n_nodes, len(block)))
        _upward_log_values(block, edges, log_theta, value)
        log_probability[part] = value[-1]

    run_blocks(run, len(rows), max(MIN_BLOCK_ROWS, BLOCK_VALUES // n_nodes))
    return log_probability


def column_log_totals(edges: Edges, edge_log_theta: FloatArray, n_vars: int) -> FloatArray:
    """The log of what every column of parameters `(n_edges, n_columns)` adds up to."""
    nothing = np.full((edge_log_theta.shape[1], n_vars), np.nan)
    value = np.empty((len(edges.node_edges) - 1, len(nothing)))
    _upward_log_values(nothing, edges, edge_log_theta, value)
    return value[-1]


def node_log_values(edges: Edges, edge_log_theta: FloatArray, rows: FloatArray) -> FloatArray:
    """The log-value of every node for rows and columns of parameters `(n_edges, n_columns)`.

    `(n_nodes, n_rows, n_columns)`.
    """
    n_rows, n_columns = len(rows), edge_log_theta.shape[1]
    value = np.empty((len(edges.node_edges) - 1, n_rows * n_columns))
    log_theta = np.ascontiguousarray(np.tile(edge_log_theta, n_rows))
    _upward_log_values(np.repeat(rows, n_columns, axis=0), edges, log_theta, value)
    return value.reshape(-1, n_rows, n_columns)


@kernel
def _upward_log_values(
    rows: FloatArray, edges: Edges, edge_log_theta: FloatArray, value: FloatArray
) -> None:
    """Fill `value` (n_nodes, n_rows) from the literals up.

    The parameters are `(n_edges,)`, or `(n_edges, n_rows)` with a column for every row.
    """
    node_edges, edge_left, edge_right = edges
    n_rows, n_vars = rows.shape
    for v in range(n_vars):
        for s in range(n_rows):
            value[2 * v, s] = -np.inf if rows[s, v] == 1.0 else 0.0
            value[2 * v + 1, s] = -np.inf if rows[s, v] == 0.0 else 0.0
    total = np.empty(n_rows)
    for n in range(2 * n_vars, len(value)):
        start, stop = node_edges[n], node_edges[n + 1]
        # The largest product first: one exp per product and one log per sum, none for one product.
        for e in range(start, stop):
            left, right, log_theta = edge_left[e], edge_right[e], edge_log_theta[e]
            for s in range(n_rows):
                product = lane(log_theta, s) + value[left, s]
                if right != NONE:
                    product += value[right, s]
                if e == start or product > value[n, s]:
                    value[n, s] = product
        if stop - start == 1:
            continue
        total[:] = 0.0
        for e in range(start, stop):
            left, right, log_theta = edge_left[e], edge_right[e], edge_log_theta[e]
            for s in range(n_rows):
                product = lane(log_theta, s) + value[left, s]
                if right != NONE:
                    product += value[right, s]
                if product != -np.inf:
                    total[s] += np.exp(product - value[n, s])
        for s in range(n_rows):
            if value[n, s] != -np.inf:
                value[n, s] += np.log(total[s])
