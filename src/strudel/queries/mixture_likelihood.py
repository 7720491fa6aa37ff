"""Likelihood of complete rows under all components of a mixture: one flow serves them all.

In:  a `Mixture` on a deterministic structure, and fully observed rows.
Out: log-likelihoods per row, or per row and component; the posterior of the components.

A row takes one edge at every vtree node, whatever the parameters are (equation 1 of the paper), so
its log-likelihoods are the sum of a few rows of the table of log-parameters. Edges whose parameter
is 1 in every component, those of unary sums above all, are left out of the table.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel._numba import kernel, parallel_kernel, prange
from strudel._types import NONE, AnyArray, ByteArray, FloatArray, IntArray
from strudel.circuits.flows import compute_flows
from strudel.circuits.mixture import Mixture
from strudel.data.bits import pack_columns
from strudel.data.validation import check_evidence
from strudel.errors import CircuitPropertyError
from strudel.queries.components import component_log_probabilities, posterior, rows_at_a_time
from strudel.queries.marginal import raise_if_impossible
from strudel.queries.model import Model, model_of
from strudel.queries.passes import UNKNOWN, encode

BLOCK_CELLS = 2**22  # active edges found at a time
TILE = 32  # rows that take turns at one vtree node, so that its edges are near one another
FAR = -50.0  # nats; what is so much less probable than the best does not count


def responsibilities(model: Model, X: Any) -> FloatArray:
    """Probability of every component given each row.

    Parameters
    ----------
    model : Mixture or fitted estimator
        Smooth and decomposable. A single circuit is a mixture of one component.
    X : array-like of shape (n_rows, n_vars), frame, or dict by feature name
        0, 1, or NaN where the value is unknown.

    Returns
    -------
    ndarray of shape (n_rows, n_components)
        Each row adds up to 1.

    Raises
    ------
    ValueError
        Where a row has probability zero, so that nothing can be said.

    Examples
    --------
    >>> from strudel import Mixture, figure_1_circuit
    >>> circuit = figure_1_circuit()
    >>> uniform = np.log(np.where(circuit.edge_log_theta == 0.0, 1.0, 0.5))
    >>> log_theta = np.column_stack([circuit.edge_log_theta, uniform])
    >>> mixture = Mixture(circuit, log_theta, np.log([0.5, 0.5]))
    >>> responsibilities(mixture, [[1, 1, 0, 1], [1, 0, 1, np.nan]]).round(2)
    array([[0.61, 0.39],
           [0.16, 0.84]])
    """
    model = model_of(model)
    rows = check_evidence(X, n_vars=model.n_vars, feature_names=model.feature_names)
    if not isinstance(model, Mixture):
        model = Mixture(model, np.array(model.edge_log_theta)[:, np.newaxis], np.zeros(1))
    weight = np.empty((len(rows), model.n_components))
    block = rows_at_a_time(model)
    for start in range(0, len(rows), block):
        part = slice(start, start + block)
        weight[part] = posterior(model, _component_logs(model, encode(rows[part])))
    raise_if_impossible(np.where(np.isnan(weight[:, 0]), -np.inf, 0.0))
    return weight


def _component_logs(mixture: Mixture, codes: AnyArray) -> FloatArray:
    """Log-probabilities `(n_rows, n_components)`, by flows where every row is complete."""
    if not np.any(codes == UNKNOWN):
        try:
            return SharedFlows(mixture).component_logs(codes)
        except CircuitPropertyError:  # not deterministic, or not in normal form
            pass
    return component_log_probabilities(mixture, codes, "responsibilities")


class SharedFlows:
    """The likelihoods of a mixture by flows, with its table of log-parameters that are not 0."""

    def __init__(self, mixture: Mixture) -> None:
        self.mixture = mixture
        log_theta = mixture.edge_log_theta
        is_used = np.any(log_theta != 0.0, axis=1)
        self._log_theta = np.ascontiguousarray(log_theta[is_used])
        self._edge_line = np.where(is_used, np.cumsum(is_used) - 1, NONE).astype(np.int32)

    def component_logs(self, rows: ByteArray) -> FloatArray:
        """Log-likelihoods `(n_rows, n_components)`, without the weights of the components."""
        log_p = np.empty((len(rows), self.mixture.n_components))
        self._gather(rows, log_p, np.empty(0))
        return log_p

    def log_likelihood(self, rows: ByteArray) -> FloatArray:
        """Log-likelihoods `(n_rows,)` under the mixture."""
        total = np.empty(len(rows))
        self._gather(rows, np.empty((0, 0)), total)
        return total

    def _gather(self, rows: ByteArray, log_p: FloatArray, total: FloatArray) -> None:
        """Fill the output that is not empty, for as many rows at a time as memory allows."""
        structure = self.mixture.structure
        block = max(512, BLOCK_CELLS // structure.vtree.n_nodes)
        for start in range(0, len(rows), block):
            part = slice(start, start + block)
            flows = compute_flows(structure, pack_columns(rows[part]))
            _gather_log_theta(
                flows.active_edge,
                flows.is_possible,
                self._edge_line,
                self._log_theta,
                self.mixture.log_weight,
                log_p[part],
                total[part],
            )


@parallel_kernel
def _gather_log_theta(
    active_edge: IntArray,
    is_possible: AnyArray,
    edge_line: IntArray,
    log_theta: FloatArray,
    log_weight: FloatArray,
    log_p: FloatArray,
    total: FloatArray,
) -> None:
    """Fill `log_p` (n_rows, k), or `total` (n_rows,) with the logs of their weighted sums."""
    n_vtree, n_rows = active_edge.shape
    k = len(log_weight)
    for tile in prange((n_rows + TILE - 1) // TILE):
        start = np.int64(tile) * TILE
        width = min(TILE, n_rows - start)
        part = np.zeros((TILE, k))
        for v in range(n_vtree):
            for s in range(width):
                e = active_edge[v, start + s]
                line = edge_line[e] if e != NONE else NONE
                if line != NONE:
                    mine, more = part[s], log_theta[line]
                    for c in range(k):
                        mine[c] += more[c]
        for s in range(width):
            if not is_possible[start + s]:
                part[s] = -np.inf
            if len(log_p):
                log_p[start + s] = part[s]
            else:
                total[start + s] = _log_weighted_sum(part[s], log_weight)


@kernel
def _log_weighted_sum(part: FloatArray, log_weight: FloatArray) -> float:
    """Log of the sum of weighted exponentials."""
    top = -np.inf
    for c in range(len(part)):
        part[c] += log_weight[c]
        top = max(top, part[c])
    if top == -np.inf:
        return top
    rest = 0.0
    for c in range(len(part)):
        if part[c] - top > FAR:
            rest += np.exp(part[c] - top)
    return top + np.log(rest)
