"""The classical evaluation of a mixture: the value of every node for every row and component.

In:  a `BitMixture` and 0/1 rows.
Out: their log-likelihoods, computed from the literals up in one of three forms, all in `float64`
     over blocks of rows, with everything that depends on the parameters alone made beforehand.

- `logs`: log-values, one `exp` per product above zero and one `log` per sum: what is usual, and
  safe. This is `evaluate_log` for every component.
- `scaled`: values and one power of two per vtree node, no `exp` or `log` but at the root, as safe.
  This is how `log_marginal` evaluates components.
- `bare`: values, nothing else, 64 rows side by side: three reads, two multiplications and an
  addition per edge. As fast as a processor allows, but it underflows; such rows are done again,
  scaled.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel._numba import in_threads, kernel
from strudel._types import ByteArray, FloatArray
from strudel.circuits.passes import LANES
from strudel.learning.bits.evaluate import BLOCK_VALUES, MIN_BLOCK_ROWS, evaluate_log
from strudel.learning.bits.likelihood import component_log_probabilities, log_mean
from strudel.learning.bits.mixture import BitMixture

FORMS = ("logs", "scaled", "bare")
WIDTH = 64  # rows side by side without scaling
TINY = 1e-290  # probabilities below may have lost digits


class Classical:
    """Log-likelihoods of rows under a mixture, by the values of all nodes."""

    def __init__(self, mixture: BitMixture, form: str) -> None:
        self.mixture = mixture
        self.form = form
        self._circuits = [mixture.component(c) for c in range(mixture.n_components)]
        self._theta = np.exp(np.ascontiguousarray(mixture.edge_log_theta.T))
        n_logs = max(MIN_BLOCK_ROWS, BLOCK_VALUES // mixture.n_nodes)
        self.block_rows = {"logs": n_logs, "scaled": LANES, "bare": WIDTH}[form]

    def __call__(self, rows: ByteArray) -> FloatArray:
        """One number per row."""
        return log_mean(self.mixture, getattr(self, "_" + self.form)(rows))

    def _logs(self, rows: ByteArray) -> FloatArray:
        return np.column_stack([evaluate_log(circuit, rows) for circuit in self._circuits])

    def _scaled(self, rows: ByteArray) -> FloatArray:
        return component_log_probabilities(self.mixture, rows, "the classical evaluation")

    def _bare(self, rows: ByteArray) -> FloatArray:
        circuit = self.mixture.structure
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
