"""Log-probabilities of partly observed rows, and of every literal given them.

In:  a `Circuit` or a `Mixture`, smooth and decomposable, and evidence.
Out: one log-probability per row; for literals also the probability of every variable to be 1.
"""

from __future__ import annotations

import numpy as np

from strudel._numba import parallel_kernel, prange
from strudel._types import AnyArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.evaluate import evaluate_log
from strudel.circuits.mixture import Mixture
from strudel.circuits.properties import check_properties
from strudel.queries.components import (
    component_log_probabilities,
    log_mean,
    mixture_literal_probabilities,
    rows_at_a_time,
)
from strudel.queries.model import Model
from strudel.queries.passes import (
    LANES,
    UNKNOWN,
    Plan,
    decode,
    distinct_rows,
    encode,
    is_fit_for_passes,
    log_of,
    pass_down,
    pass_up,
    plan,
    working_memory,
)


def log_probabilities(model: Model, evidence: FloatArray, query: str) -> FloatArray:
    """Log-probability of every row of evidence, unknown values summed out; equal rows only once."""
    if isinstance(model, Mixture):
        return _mixture_log_probabilities(model, evidence, query)
    return _circuit_log_probabilities(model, evidence, query)


def _mixture_log_probabilities(mixture: Mixture, evidence: FloatArray, query: str) -> FloatArray:
    codes, place = distinct_rows(encode(evidence))
    log_p = np.empty(len(codes))
    block = rows_at_a_time(mixture)
    for start in range(0, len(codes), block):
        part = slice(start, start + block)
        log_p[part] = log_mean(mixture, component_log_probabilities(mixture, codes[part], query))
    return log_p[place]


def _circuit_log_probabilities(circuit: Circuit, evidence: FloatArray, query: str) -> FloatArray:
    if not is_fit_for_passes(circuit):
        check_properties(circuit, query, "smooth", "decomposable")
        return evaluate_log(circuit, evidence)
    codes, place = distinct_rows(encode(evidence))
    log_p = np.empty(len(codes))
    is_lost = np.zeros(len(codes), dtype=np.bool_)
    _log_probabilities(codes, plan(circuit), circuit.root, circuit.theta, log_p, is_lost)
    if is_lost.any():
        log_p[is_lost] = evaluate_log(circuit, decode(codes[is_lost]))
    return log_p[place]


@parallel_kernel
def _log_probabilities(
    codes: AnyArray,
    p: Plan,
    root: int,
    edge_theta: FloatArray,
    log_p: FloatArray,
    is_lost: AnyArray,
) -> None:
    """One pass up per block; a few chunks of blocks, so that each keeps its working memory."""
    n_rows = len(codes)
    n_blocks = (n_rows + LANES - 1) // LANES
    n_chunks = min(n_blocks, 16)
    for chunk in prange(n_chunks):
        value, scale, exponent = working_memory(p)
        for block in range(np.int64(chunk), n_blocks, n_chunks):
            start = block * LANES
            width = min(LANES, n_rows - start)
            lost = pass_up(codes, start, width, p, edge_theta, value, scale, exponent)
            for b in range(width):
                log_p[start + b] = log_of(value[root, b], exponent[len(p.vtree_var) - 1, b])
                is_lost[start + b] = lost >> b & 1


def literal_probabilities(
    model: Model, codes: AnyArray, query: str
) -> tuple[FloatArray, FloatArray]:
    """Log-probability of each row, and P(X_i = 1 | row) for every i: one pass up, one down.

    Rows of probability zero get -inf and NaN; what a row knows comes back as exactly 0 or 1.
    """
    if isinstance(model, Mixture):
        return mixture_literal_probabilities(model, codes, query)
    return _circuit_literal_probabilities(model, codes, query)


def _circuit_literal_probabilities(
    circuit: Circuit, codes: AnyArray, query: str
) -> tuple[FloatArray, FloatArray]:
    log_p = np.empty(len(codes))
    ones = np.empty((len(codes), circuit.n_vars))
    is_lost = np.ones(len(codes), dtype=np.bool_)
    if is_fit_for_passes(circuit):
        _literal_probabilities(
            codes, plan(circuit), circuit.root, circuit.theta, log_p, ones, is_lost
        )
    else:
        check_properties(circuit, query, "smooth", "decomposable")
    for row in np.flatnonzero(is_lost):
        log_p[row], ones[row] = _literal_probabilities_in_logs(circuit, codes[row])
    return log_p, ones


def _literal_probabilities_in_logs(circuit: Circuit, codes: AnyArray) -> tuple[float, FloatArray]:
    """The same for one row: evaluated once more for both values of each unknown variable."""
    log_p = float(evaluate_log(circuit, decode(codes[np.newaxis]))[0])
    if log_p == -np.inf:
        return log_p, np.full(len(codes), np.nan)
    ones = codes.astype(np.float64)
    unknown = np.flatnonzero(codes == UNKNOWN)
    if len(unknown):
        rows = np.repeat(codes[np.newaxis], 2 * len(unknown), axis=0)
        rows[np.arange(len(rows)), np.repeat(unknown, 2)] = np.arange(len(rows)) % 2
        zero, one = evaluate_log(circuit, decode(rows)).reshape(-1, 2).T
        ones[unknown] = np.exp(one - np.logaddexp(zero, one))
    return log_p, ones


@parallel_kernel
def _literal_probabilities(
    codes: AnyArray,
    p: Plan,
    root: int,
    edge_theta: FloatArray,
    log_p: FloatArray,
    ones: FloatArray,
    is_lost: AnyArray,
) -> None:
    n_rows, n_vars = codes.shape
    n_blocks = (n_rows + LANES - 1) // LANES
    n_chunks = min(n_blocks, 16)
    for chunk in prange(n_chunks):
        value, scale, exponent = working_memory(p)
        flow = np.zeros_like(value)
        for block in range(np.int64(chunk), n_blocks, n_chunks):
            start = block * LANES
            width = min(LANES, n_rows - start)
            lost = pass_up(codes, start, width, p, edge_theta, value, scale, exponent)
            pass_down(p, root, edge_theta, value, scale, flow)
            for b in range(width):
                log_p[start + b] = log_of(value[root, b], exponent[len(p.vtree_var) - 1, b])
                is_lost[start + b] = lost >> b & 1
                for var in range(n_vars):
                    one = flow[2 * var + 1, b]
                    both = one + flow[2 * var, b]
                    ones[start + b, var] = one / both if both > 0.0 else np.nan
