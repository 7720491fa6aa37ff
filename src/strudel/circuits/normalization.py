"""Normalised parameters: the same distribution, with every sum adding up to one.

In:  a structure in normal form, and parameters that need not add up to one.
Out: parameters that do, and the log of what they added up to before.
"""

from __future__ import annotations

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, FloatArray
from strudel.circuits.circuit import Edges


def normalized_columns(
    edges: Edges,
    edge_log_weight: FloatArray,
    n_vars: int,
    literal_log_weight: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Log-parameters `(n_edges, k)` that add up to one, and the logs of the totals `(k,)`.

    With weights of the literals, `(2 * n_vars, k)`, a row counts as much as the product of those
    that it satisfies.
    """
    log_total = np.zeros((len(edges.node_edges) - 1, edge_log_weight.shape[1]))
    if literal_log_weight is not None:
        log_total[: 2 * n_vars] = literal_log_weight
    log_theta = np.array(edge_log_weight, order="C")
    normalize_edges(edges, 2 * n_vars, log_theta, log_total)
    return log_theta, log_total[-1].copy()


@kernel
def normalize_edges(
    edges: Edges, n_leaves: int, log_theta: FloatArray, log_total: FloatArray
) -> None:
    """Turn `log_theta` into parameters, children first, and fill `log_total` of the sums."""
    node_edges, edge_left, edge_right = edges
    k = log_theta.shape[1]
    largest, total = np.empty(k), np.empty(k)
    for n in range(n_leaves, len(log_total)):
        largest[:] = -np.inf
        for e in range(node_edges[n], node_edges[n + 1]):
            for c in range(k):
                value = log_theta[e, c] + log_total[edge_left[e], c]
                if edge_right[e] != NONE:
                    value += log_total[edge_right[e], c]
                log_theta[e, c] = value
                largest[c] = max(largest[c], value)
        total[:] = 0.0
        for e in range(node_edges[n], node_edges[n + 1]):
            for c in range(k):
                if log_theta[e, c] > -np.inf:
                    total[c] += np.exp(log_theta[e, c] - largest[c])
        for c in range(k):
            total[c] = np.log(total[c]) if largest[c] > -np.inf else 0.0
            log_total[n, c] = largest[c] + total[c]
        # Not less log_total, which has few digits after the point where it is far from zero.
        for e in range(node_edges[n], node_edges[n + 1]):
            for c in range(k):
                if log_theta[e, c] > -np.inf:
                    log_theta[e, c] = log_theta[e, c] - largest[c] - total[c]
