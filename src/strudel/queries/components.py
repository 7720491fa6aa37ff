"""The components of a mixture given evidence, eight of them side by side.

In:  a `Mixture` and rows of evidence as codes.
Out: log-probabilities per row and component, the posterior of the components, and, with it, the
     conditional probability of every literal.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp, softmax

from strudel._numba import kernel, parallel_kernel, prange
from strudel._types import AnyArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.evaluate import BLOCK_VALUES, MIN_BLOCK_ROWS, _evaluate_log
from strudel.circuits.mixture import Mixture
from strudel.circuits.properties import check_properties
from strudel.queries.passes import (
    LANES,
    UNKNOWN,
    Plan,
    are_moderate,
    decode,
    log_of,
    pass_down,
    pass_up,
    plan,
    working_memory,
)

BLOCK_CELLS = 2**22  # per row and component, made at a time


def rows_at_a_time(mixture: Mixture, cells: int = 1) -> int:
    """How many rows to take together when each needs so many cells per component."""
    return max(1, BLOCK_CELLS // (cells * mixture.n_components))


def component_log_probabilities(mixture: Mixture, codes: AnyArray, query: str) -> FloatArray:
    """Log-probability of every row under every component, `(n_rows, n_components)`.

    The weights of the components are left out. Unknown values are summed out.
    """
    parts = [_log_probabilities_of(part, codes, query) for part in mixture.parts()]
    return parts[0] if len(parts) == 1 else np.hstack(parts)


def _log_probabilities_of(mixture: Mixture, codes: AnyArray, query: str) -> FloatArray:
    """The same for components on one structure."""
    circuit = mixture.structure
    log_p = np.empty((len(codes), mixture.n_components))
    is_lost = np.ones(log_p.shape, dtype=np.bool_)
    if _is_fit(circuit, query):
        _component_log_probabilities(
            codes, plan(circuit), circuit.root, mixture.theta_lanes, log_p, is_lost
        )
        is_lost |= ~are_moderate(mixture.edge_log_theta)
    for c in np.flatnonzero(is_lost.any(axis=0)):
        rows = np.flatnonzero(is_lost[:, c])
        log_p[rows, c] = _log_probabilities_in_logs(mixture, int(c), codes[rows])
    return log_p


def log_mean(mixture: Mixture, log_p: FloatArray) -> FloatArray:
    """Log-probability of every row under the mixture, from those under its components."""
    return np.asarray(logsumexp(log_p + mixture.log_weight, axis=1))


def posterior(mixture: Mixture, log_p: FloatArray) -> FloatArray:
    """How probable every component is given a row; NaN where the row is impossible."""
    joint = log_p + mixture.log_weight
    weight = np.full(joint.shape, np.nan)
    is_possible = np.any(joint > -np.inf, axis=1)
    weight[is_possible] = softmax(joint[is_possible], axis=1)
    return weight


def _is_fit(circuit: Circuit, query: str) -> bool:
    """Whether passes apply to the structure; refuses one on which no evaluation is sound."""
    check_properties(circuit, query, "smooth", "decomposable")
    return circuit.is_in_normal_form


def _log_probabilities_in_logs(mixture: Mixture, c: int, codes: AnyArray) -> FloatArray:
    """The same for one component."""
    circuit = mixture.structure
    log_p = np.empty(len(codes))
    _evaluate_log(
        decode(codes),
        circuit.node_edges,
        circuit.edge_left,
        circuit.edge_right,
        np.ascontiguousarray(mixture.edge_log_theta[:, c]),
        max(MIN_BLOCK_ROWS, BLOCK_VALUES // circuit.n_nodes),
        log_p,
    )
    return log_p


@parallel_kernel
def _component_log_probabilities(
    codes: AnyArray,
    p: Plan,
    root: int,
    theta_lanes: FloatArray,
    log_p: FloatArray,
    is_lost: AnyArray,
) -> None:
    """One pass up per block of components and row, or few rows if the components are few."""
    n_rows, k = log_p.shape
    n_blocks = len(theta_lanes)
    n_side, n_passes, n_chunks = _tasks(n_rows, k)
    for task in prange(n_blocks * n_chunks):
        block, chunk = np.int64(task) // n_chunks, np.int64(task) % n_chunks
        value, scale, exponent = working_memory(p)
        lane_codes = np.empty((LANES, codes.shape[1]), dtype=np.uint8)
        for i in range(chunk, n_passes, n_chunks):
            width = _spread_rows(codes, i * n_side, n_side, k, lane_codes)
            lost = pass_up(lane_codes, 0, width, p, theta_lanes[block], value, scale, exponent)
            for b in range(width):
                row, c = i * n_side + b // min(k, LANES), block * LANES + b % min(k, LANES)
                if c < k:
                    log_p[row, c] = log_of(value[root, b], exponent[len(p.vtree_var) - 1, b])
                    is_lost[row, c] = lost >> b & 1


@kernel
def _tasks(n_rows: int, k: int) -> tuple[int, int, int]:
    """Rows that share a pass, passes per block of components, and chunks to share them in."""
    n_side = max(1, LANES // k)
    n_passes = (n_rows + n_side - 1) // n_side
    n_blocks = (k + LANES - 1) // LANES
    return n_side, n_passes, min(n_passes, (16 + n_blocks - 1) // n_blocks)


@kernel
def _spread_rows(codes: AnyArray, first: int, n_side: int, k: int, lane_codes: AnyArray) -> int:
    """Fill the codes of the lanes, those of a row for all components; returns how many lanes."""
    n_each = min(k, LANES)
    width = min(n_side, len(codes) - first) * n_each
    for b in range(width):
        lane_codes[b] = codes[first + b // n_each]
    return width


def mixture_literal_probabilities(
    mixture: Mixture, codes: AnyArray, query: str
) -> tuple[FloatArray, FloatArray]:
    """Log-probability of each row, and P(X_i = 1 | row): the components' own, averaged.

    Rows of probability zero get -inf and NaN; what a row knows comes back as exactly 0 or 1.
    """
    log_p = np.empty(len(codes))
    ones = np.empty(codes.shape)
    block = rows_at_a_time(mixture, mixture.n_vars)
    for start in range(0, len(codes), block):
        part = slice(start, start + block)
        log_p[part], ones[part] = _average_literals(mixture, codes[part], query)
    return log_p, ones


def _average_literals(
    mixture: Mixture, codes: AnyArray, query: str
) -> tuple[FloatArray, FloatArray]:
    """The same for as many rows as fit in memory with one probability per component."""
    parts = [_literals_of(part, codes, query) for part in mixture.parts()]
    log_p = np.hstack([log_p for log_p, _ in parts])
    ones = np.concatenate([ones for _, ones in parts], axis=1)
    weight = posterior(mixture, log_p)
    mean = np.minimum((weight[:, np.newaxis] @ ones)[:, 0], 1.0)
    is_possible = ~np.isnan(weight[:, :1])
    return log_mean(mixture, log_p), np.where(is_possible & (codes != UNKNOWN), codes, mean)


def _literals_of(mixture: Mixture, codes: AnyArray, query: str) -> tuple[FloatArray, FloatArray]:
    """Log-probabilities, and P(X_i = 1 | row), of every component on one structure."""
    circuit, (n_rows, n_vars) = mixture.structure, codes.shape
    log_p = np.empty((n_rows, mixture.n_components))
    ones = np.empty((n_rows, mixture.n_components, n_vars))
    is_lost = np.ones(log_p.shape, dtype=np.bool_)
    if _is_fit(circuit, query):
        _component_literals(
            codes, plan(circuit), circuit.root, mixture.theta_lanes, log_p, ones, is_lost
        )
        is_lost |= ~are_moderate(mixture.edge_log_theta)
    for row, c in np.argwhere(is_lost):
        log_p[row, c], ones[row, c] = _literals_in_logs(mixture, int(c), codes[row])
    return log_p, ones


def _literals_in_logs(mixture: Mixture, c: int, codes: AnyArray) -> tuple[float, FloatArray]:
    """One row, one component: evaluated once more for both values of each unknown variable."""
    unknown = np.flatnonzero(codes == UNKNOWN)
    rows = np.repeat(codes[np.newaxis], 1 + 2 * len(unknown), axis=0)
    rows[np.arange(1, len(rows)), np.repeat(unknown, 2)] = np.arange(len(rows) - 1) % 2
    log_p = _log_probabilities_in_logs(mixture, c, rows)
    ones = np.zeros(len(codes))
    if log_p[0] > -np.inf:
        zero, one = log_p[1:].reshape(-1, 2).T
        ones[unknown] = np.exp(one - np.logaddexp(zero, one))
    return float(log_p[0]), ones


@parallel_kernel
def _component_literals(
    codes: AnyArray,
    p: Plan,
    root: int,
    theta_lanes: FloatArray,
    log_p: FloatArray,
    ones: FloatArray,
    is_lost: AnyArray,
) -> None:
    """One pass up and one down; a component that makes the row impossible gets zeros."""
    n_rows, k, n_vars = ones.shape
    n_blocks = len(theta_lanes)
    n_side, n_passes, n_chunks = _tasks(n_rows, k)
    for task in prange(n_blocks * n_chunks):
        block, chunk = np.int64(task) // n_chunks, np.int64(task) % n_chunks
        value, scale, exponent = working_memory(p)
        flow = np.zeros_like(value)
        lane_codes = np.empty((LANES, n_vars), dtype=np.uint8)
        for i in range(chunk, n_passes, n_chunks):
            width = _spread_rows(codes, i * n_side, n_side, k, lane_codes)
            lost = pass_up(lane_codes, 0, width, p, theta_lanes[block], value, scale, exponent)
            pass_down(p, root, theta_lanes[block], value, scale, flow)
            for b in range(width):
                row, c = i * n_side + b // min(k, LANES), block * LANES + b % min(k, LANES)
                if c >= k:
                    continue
                log_p[row, c] = log_of(value[root, b], exponent[len(p.vtree_var) - 1, b])
                is_lost[row, c] = lost >> b & 1
                for var in range(n_vars):
                    one = flow[2 * var + 1, b]
                    both = one + flow[2 * var, b]
                    ones[row, c, var] = one / both if both > 0.0 else 0.0
