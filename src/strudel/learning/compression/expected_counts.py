"""Expected counts: how many of n rows drawn from a circuit take every edge.

In:  a circuit in normal form without parameters of zero.
Out: one number per edge.

For parameters that are shares of counts these are the counts again; smoothed parameters give
smoothed counts, which are never lost where no row was seen.
"""

from __future__ import annotations

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, FloatArray, IntArray
from strudel.circuits.circuit import Circuit

LEAST = 1e-280  # of any count: what is possible stays possible


def expected_counts(circuit: Circuit, total: float) -> FloatArray:
    """Expected number of rows through every edge when `total` rows enter at the root."""
    count = np.empty(circuit.n_edges)
    reach = np.zeros(circuit.n_nodes)
    reach[circuit.root] = total
    _expected_counts(
        circuit.node_edges, circuit.edge_left, circuit.edge_right, circuit.theta, reach, count
    )
    return count


@kernel
def _expected_counts(
    node_edges: IntArray,
    edge_left: IntArray,
    edge_right: IntArray,
    theta: FloatArray,
    reach: FloatArray,
    count: FloatArray,
) -> None:
    """Fill `count` (n_edges,) from the top down."""
    for n in range(len(reach) - 1, -1, -1):
        for e in range(node_edges[n], node_edges[n + 1]):
            count[e] = max(reach[n] * theta[e], LEAST)
            reach[edge_left[e]] += count[e]
            if edge_right[e] != NONE:
                reach[edge_right[e]] += count[e]


def shares(edge_parent: IntArray, count: FloatArray) -> FloatArray:
    """Logs of every edge's share of its sum's count."""
    total = np.bincount(edge_parent, weights=count, minlength=1)[edge_parent]
    logs: FloatArray = np.minimum(np.log(count) - np.log(total), 0.0)
    return logs
