"""Log-probabilities of partly observed rows, and of every literal given them.

In:  a `BitCircuit` or a `BitMixture`, smooth and decomposable, and evidence.
Out: log-probabilities of rows, or of rows under each component; the posterior of the components;
     the probability that each variable is 1, given each row.

A pass takes eight lanes side by side: rows of a circuit, or components of a mixture with one row or
with several if the components are few.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from strudel._numba import in_threads, kernel, soonest
from strudel._types import AnyArray, FloatArray
from strudel.circuits.bit_mixture import Model, Part, log_weights_of, part_of
from strudel.circuits.bit_properties import check_properties
from strudel.circuits.evaluate import evaluate_edges
from strudel.circuits.passes import (
    LANES,
    UNKNOWN,
    Plan,
    decode,
    distinct_rows,
    encode,
    log_of,
    pass_down,
    pass_up,
    plan,
    set_literals,
    working_memory,
)
from strudel.data.validation import slices

BLOCK_CELLS = 2**22  # per row and component, made at a time


def log_probabilities(model: Model, evidence: FloatArray, query: str) -> FloatArray:
    """Log-probability of every row of evidence, unknown values summed out; equal rows only once."""
    codes, place = distinct_rows(encode(evidence))
    log_p = np.empty(len(codes))
    for part in slices(len(codes), rows_at_a_time(model)):
        logs = component_log_probabilities(model, codes[part], query)
        log_p[part] = log_mean(model, logs)
    return log_p[place]


def rows_at_a_time(model: Model, cells: int = 1) -> int:
    """How many rows to take together when each needs this many cells per component."""
    return max(1, BLOCK_CELLS // (cells * len(log_weights_of(model))))


def log_mean(model: Model, log_p: FloatArray) -> FloatArray:
    """Log-probability of every row under the model, from those under its components."""
    joint = log_p + log_weights_of(model)
    if joint.shape[1] == 1:
        return joint[:, 0]
    from scipy.special import logsumexp  # late: circuits are asked without loading scipy

    return np.asarray(logsumexp(joint, axis=1))


def posterior(model: Model, log_p: FloatArray) -> FloatArray:
    """How probable every component is given a row; NaN where the row is impossible."""
    from scipy.special import softmax

    joint = log_p + log_weights_of(model)
    weight = np.full(joint.shape, np.nan)
    is_possible = np.any(joint > -np.inf, axis=1)
    weight[is_possible] = softmax(joint[is_possible], axis=1)
    return weight


def component_log_probabilities(model: Model, codes: AnyArray, query: str) -> FloatArray:
    """Log-probability of every row under every component, `(n_rows, n_components)`.

    The weights of the components are left out. Unknown values are summed out.
    """
    part = part_of(model)
    check_properties(part.structure, query, "smooth", "decomposable")
    log_p = np.empty((len(codes), part.n_components))
    is_lost = _fill(_component_log_probabilities, part, codes, log_p)
    for c in np.flatnonzero(is_lost.any(axis=0)):
        rows = np.flatnonzero(is_lost[:, c])
        log_p[rows, c] = _in_logs(part, int(c), codes[rows])
    return log_p


def _fill(
    passes: Callable[..., None], part: Part, codes: AnyArray, log_p: FloatArray, *more: FloatArray
) -> AnyArray:
    """Fill log-probabilities, and more, by passes; returns where they are lost."""
    circuit = part.structure
    is_lost = np.ones(log_p.shape, dtype=np.bool_)
    if not circuit.is_in_normal_form:
        return is_lost
    n_passes = _n_passes(*log_p.shape)
    n_tasks = len(part.theta) * n_passes
    passes = soonest(passes, 20e-6 * n_tasks * circuit.n_edges)
    how = (n_passes, codes, plan(circuit), circuit.root, part.theta)
    with np.errstate(over="ignore", invalid="ignore"):  # of what is lost, without the compiler
        in_threads(passes, n_tasks, *how, log_p, *more, is_lost)
    return np.asarray(is_lost | ~part.is_moderate)


def _in_logs(part: Part, c: int, codes: AnyArray) -> FloatArray:
    """Log-probabilities of rows under one component, where a pass would lose digits."""
    return evaluate_edges(part.structure.edges, part.edge_log_theta[:, c], decode(codes))


@kernel
def _component_log_probabilities(
    first: int,
    last: int,
    n_passes: int,
    codes: AnyArray,
    p: Plan,
    root: int,
    theta: FloatArray,
    log_p: FloatArray,
    is_lost: AnyArray,
) -> None:
    """One pass up per block of components and row, or few rows if the components are few."""
    n_rows, k = log_p.shape
    value, scale, exponent = working_memory(p)
    lane_row = np.empty(LANES, dtype=np.int64)
    for task in range(first, last):
        block, i = task // n_passes, task % n_passes
        width = _fill_lanes(i, n_rows, k, lane_row)
        set_literals(codes, lane_row, width, value)
        lost = pass_up(p, theta[block], value, scale, exponent)
        for b in range(width):
            c = block * LANES + b % min(k, LANES)
            if c < k:
                log_p[lane_row[b], c] = log_of(value[root, b], exponent[-1, b])
                is_lost[lane_row[b], c] = lost >> b & 1


def _n_passes(n_rows: int, k: int) -> int:
    """How many passes a block of components needs; rows share one if the components are few."""
    return -(-n_rows // max(1, LANES // k))


@kernel
def _fill_lanes(i: int, n_rows: int, k: int, lane_row: AnyArray) -> int:
    """Fill the row of every lane of pass i, the same for all components; returns how many."""
    n_side, n_each = max(1, LANES // k), min(k, LANES)
    width = min(n_side, n_rows - i * n_side) * n_each
    for b in range(width):
        lane_row[b] = i * n_side + b // n_each
    return width


def literal_probabilities(
    model: Model, codes: AnyArray, query: str
) -> tuple[FloatArray, FloatArray]:
    """Log-probability of each row, and P(X_i = 1 | row) for every i: one pass up, one down.

    Rows of probability zero get -inf and NaN; what a row knows comes back as exactly 0 or 1.
    """
    log_p = np.empty(len(codes))
    ones = np.empty(codes.shape)
    for part in slices(len(codes), rows_at_a_time(model, model.n_vars)):
        log_p[part], ones[part] = _average_literals(model, codes[part], query)
    return log_p, ones


def _average_literals(model: Model, codes: AnyArray, query: str) -> tuple[FloatArray, FloatArray]:
    """The same for as many rows as fit in memory with one probability per component."""
    log_p, ones = _component_ones(part_of(model), codes, query)
    if log_p.shape[1] == 1:  # nothing to average
        return log_mean(model, log_p), np.where(log_p > -np.inf, ones[:, 0], np.nan)
    weight = posterior(model, log_p)
    mean = np.minimum((weight[:, np.newaxis] @ ones)[:, 0], 1.0)
    is_known = ~np.isnan(weight[:, :1]) & (codes != UNKNOWN)
    return log_mean(model, log_p), np.where(is_known, codes, mean)


def _component_ones(part: Part, codes: AnyArray, query: str) -> tuple[FloatArray, FloatArray]:
    """Log-probabilities, and P(X_i = 1 | row), of every component."""
    check_properties(part.structure, query, "smooth", "decomposable")
    log_p = np.empty((len(codes), part.n_components))
    ones = np.empty((*log_p.shape, codes.shape[1]))
    is_lost = _fill(_component_literals, part, codes, log_p, ones)
    for row, c in np.argwhere(is_lost):
        log_p[row, c], ones[row, c] = _literals_in_logs(part, int(c), codes[row])
    return log_p, ones


def _literals_in_logs(part: Part, c: int, codes: AnyArray) -> tuple[float, FloatArray]:
    """One row, one component: evaluated once more for both values of each unknown variable."""
    unknown = np.flatnonzero(codes == UNKNOWN)
    rows = np.repeat(codes[np.newaxis], 1 + 2 * len(unknown), axis=0)
    rows[np.arange(1, len(rows)), np.repeat(unknown, 2)] = np.arange(len(rows) - 1) % 2
    log_p = _in_logs(part, c, rows)
    ones = np.where(codes == UNKNOWN, 0.0, codes)
    if log_p[0] > -np.inf:
        zero, one = log_p[1:].reshape(-1, 2).T
        ones[unknown] = np.exp(one - np.logaddexp(zero, one))
    return float(log_p[0]), ones


@kernel
def _component_literals(
    first: int,
    last: int,
    n_passes: int,
    codes: AnyArray,
    p: Plan,
    root: int,
    theta: FloatArray,
    log_p: FloatArray,
    ones: FloatArray,
    is_lost: AnyArray,
) -> None:
    """One pass up and one down; a component that makes the row impossible gets zeros."""
    n_rows, k, n_vars = ones.shape
    value, scale, exponent = working_memory(p)
    flow = np.zeros_like(value)
    lane_row = np.empty(LANES, dtype=np.int64)
    for task in range(first, last):
        block, i = task // n_passes, task % n_passes
        width = _fill_lanes(i, n_rows, k, lane_row)
        set_literals(codes, lane_row, width, value)
        lost = pass_up(p, theta[block], value, scale, exponent)
        pass_down(p, root, theta[block], value, scale, flow)
        for b in range(width):
            row, c = lane_row[b], block * LANES + b % min(k, LANES)
            if c >= k:
                continue
            log_p[row, c] = log_of(value[root, b], exponent[-1, b])
            is_lost[row, c] = lost >> b & 1
            for var in range(n_vars):
                one = flow[2 * var + 1, b]
                both = one + flow[2 * var, b]
                ones[row, c, var] = one / both if both > 0.0 else 0.0
