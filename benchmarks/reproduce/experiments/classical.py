"""The classical evaluation of a mixture: the value of every node for every row and component.

In:  a circuit of several components and 0/1 rows.
Out: their log-likelihoods, computed from the literals up in one of three forms, all in `float64`
     over blocks of rows, with everything that depends on the parameters alone made beforehand.

- `logs`: log-values, one `exp` per product above zero and one `log` per sum: what is usual, and
  safe. This is how `log_marginal` evaluates a few rows.
- `scaled`: values and one power of two per vtree node, no `exp` or `log` but at the root, as safe.
  This is how `log_marginal` evaluates many.
- `bare`: values, nothing else, 64 rows side by side: three reads, two multiplications and an
  addition per edge. As fast as a processor allows, but it underflows; such rows are done again,
  scaled.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel._numba import in_threads, kernel
from strudel._types import ByteArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.passes import LANES
from strudel.circuits.walks import component_logs_of, leaf_rows, leaf_values_of, up
from strudel.learning.bits.fold import unfold
from strudel.queries.given import log_mean

FORMS = ("logs", "scaled", "bare")
BLOCK_VALUES = 2**18  # of nodes, rows and components
WIDTH = 64  # rows side by side without scaling
TINY = 1e-290  # probabilities below may have lost digits


class Classical:
    """Log-likelihoods of rows under a mixture, by the values of all nodes."""

    def __init__(self, mixture: Circuit, form: str) -> None:
        self.mixture = mixture
        self.form = form
        bits = unfold(mixture, None)
        self._structure = bits.structure
        self._theta = np.exp(np.ascontiguousarray(bits.edge_log_theta.T))
        self._leaves = leaf_rows(mixture, mixture.columns.equal_weights)
        n_logs = max(16, BLOCK_VALUES // (mixture.n_nodes * mixture.n_components))
        self.block_rows = {"logs": n_logs, "scaled": LANES, "bare": WIDTH}[form]

    def __call__(self, rows: ByteArray) -> FloatArray:
        """One number per row."""
        return log_mean(self.mixture, getattr(self, "_" + self.form)(rows))

    def _logs(self, rows: ByteArray) -> FloatArray:
        log_p = np.empty((len(rows), self.mixture.n_components))
        for start in range(0, len(rows), self.block_rows):
            block = slice(start, start + self.block_rows)
            leaves = leaf_values_of(self.mixture, self._leaves, rows[block])
            log_p[block] = up(self.mixture, leaves)[self.mixture.vtree.root][-1]
        return log_p

    def _scaled(self, rows: ByteArray) -> FloatArray:
        return component_logs_of(self.mixture, self._leaves, rows)

    def _bare(self, rows: ByteArray) -> FloatArray:
        circuit = self._structure
        p = np.empty((len(rows), self.mixture.n_components))
        in_threads(
            _bare_values,
            -(-len(rows) // WIDTH),
            rows,
            circuit.node_edges,
            circuit.edge_left,
            circuit.edge_right,
            self._theta,
            p,
        )
        is_lost = np.any(p < TINY, axis=1)
        with np.errstate(divide="ignore"):
            log_p = np.log(p)
        if is_lost.any():
            log_p[is_lost] = self._scaled(rows[is_lost])
        return log_p


@kernel
def _bare_values(
    first: int,
    last: int,
    rows: Any,
    node_edges: Any,
    edge_left: Any,
    edge_right: Any,
    theta: Any,
    p: Any,
) -> None:
    """Fill `p` (n_rows, k) with probabilities; the literals are the same for all components."""
    n_rows, n_vars = rows.shape
    n_nodes = len(node_edges) - 1
    for block in range(first, last):
        start = block * WIDTH
        width = min(WIDTH, n_rows - start)
        value = np.zeros((n_nodes, WIDTH))
        for v in range(n_vars):
            for b in range(width):
                value[2 * v + rows[start + b, v], b] = 1.0
        for c in range(len(theta)):
            _bare_pass(n_vars, node_edges, edge_left, edge_right, theta[c], value)
            for b in range(width):
                p[start + b, c] = value[n_nodes - 1, b]


@kernel
def _bare_pass(
    n_vars: int, node_edges: Any, edge_left: Any, edge_right: Any, theta: Any, value: Any
) -> None:
    for n in range(2 * n_vars, len(value)):
        mine = value[n]
        first = node_edges[n]
        for e in range(first, node_edges[n + 1]):
            t, left = theta[e], value[edge_left[e]]
            if edge_right[e] < 0:
                if e == first:
                    for b in range(WIDTH):
                        mine[b] = t * left[b]
                else:
                    for b in range(WIDTH):
                        mine[b] += t * left[b]
            else:
                right = value[edge_right[e]]
                if e == first:
                    for b in range(WIDTH):
                        mine[b] = t * left[b] * right[b]
                else:
                    for b in range(WIDTH):
                        mine[b] += t * left[b] * right[b]
