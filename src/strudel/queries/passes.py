"""One pass up, and where needed one pass down, over blocks of partly observed rows.

In:  a smooth, structured-decomposable `Circuit`; evidence as codes 0, 1 and UNKNOWN.
Out: log-probabilities, and the conditional probability of every literal.

Eight rows go through the circuit side by side, in linear space. All nodes of one vtree node share
one power of two per row as their scale, taken out when the largest gets small or large: no `exp` or
`log` per edge, and nothing underflows unless two nodes over the same variables differ by a factor
of 1e90. Such rows are found and evaluated again in logs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from strudel._numba import kernel, parallel_kernel, prange
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.evaluate import evaluate_log
from strudel.circuits.properties import check_decomposable, check_smooth

LANES = 8  # rows side by side: one cache line of float64
UNKNOWN = 2  # code of an unknown value
FAINT = 2.0**-100  # values are scaled when the largest of a vtree node leaves FAINT..1/FAINT
SMALLEST_VALUE = 1e-120  # what no value but zero may fall below, once scaled
SMALLEST_LOG_THETA = -138.0  # 1e-60: two values and a parameter multiply to 1e-300 or more


class Plan(NamedTuple):
    """What the passes need of a circuit, in the order they need it."""

    vtree_left: IntArray
    vtree_right: IntArray
    vtree_var: IntArray
    vtree_first: IntArray  # sums of vtree node v are sums[vtree_first[v]:vtree_first[v + 1]]
    sums: IntArray
    sum_vtree: IntArray  # vtree node of every sum, in the order of their numbers
    node_edges: IntArray
    edge_left: IntArray
    edge_right: IntArray
    edge_theta: FloatArray


def plan(circuit: Circuit) -> Plan:
    """Lay out a circuit for the passes."""
    first, sums = circuit.sums_by_vtree
    return Plan(
        circuit.vtree.node_left,
        circuit.vtree.node_right,
        circuit.vtree.node_var,
        first,
        sums,
        circuit.node_vtree[2 * circuit.n_vars :],
        circuit.node_edges,
        circuit.edge_left,
        circuit.edge_right,
        circuit.theta,
    )


def encode(evidence: FloatArray) -> AnyArray:
    """Codes 0, 1 and UNKNOWN for 0, 1 and NaN."""
    return np.where(np.isnan(evidence), UNKNOWN, evidence).astype(np.uint8)


def is_fit_for_passes(circuit: Circuit) -> bool:
    """Whether the scaled passes apply: in normal form, no parameter absurdly small or large."""
    log_theta = circuit.edge_log_theta
    is_moderate = (np.abs(log_theta) <= -SMALLEST_LOG_THETA) | (log_theta == -np.inf)
    return bool(is_moderate.all()) and circuit.is_in_normal_form and circuit.is_smooth


def distinct_rows(codes: AnyArray) -> tuple[AnyArray, IntArray]:
    """The distinct rows of a code matrix, and for each row its place among them."""
    if len(codes) < 2:
        return codes, np.zeros(len(codes), dtype=np.int32)
    keys = np.ascontiguousarray(codes).view(np.dtype((np.void, codes.shape[1]))).ravel()
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    return codes[first], place.astype(np.int32)


def log_probabilities(circuit: Circuit, evidence: FloatArray, query: str) -> FloatArray:
    """Log-probability of every row of evidence, unknown values summed out."""
    if not is_fit_for_passes(circuit):
        check_smooth(circuit, query)
        check_decomposable(circuit, query)
        return evaluate_log(circuit, evidence)
    codes, place = distinct_rows(encode(evidence))
    log_p = np.empty(len(codes))
    is_lost = np.zeros(len(codes), dtype=np.bool_)
    _log_probabilities(codes, plan(circuit), circuit.root, log_p, is_lost)
    if is_lost.any():
        log_p[is_lost] = evaluate_log(circuit, decode(codes[is_lost]))
    return log_p[place]


def decode(codes: AnyArray) -> FloatArray:
    """0, 1 and NaN for the codes 0, 1 and UNKNOWN."""
    return np.where(codes == UNKNOWN, np.nan, codes).astype(np.float64)


@parallel_kernel
def _log_probabilities(
    codes: AnyArray, p: Plan, root: int, log_p: FloatArray, is_lost: AnyArray
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
            lost = pass_up(codes, start, width, p, value, scale, exponent)
            for b in range(width):
                log_p[start + b] = _log(value[root, b], exponent[len(p.vtree_var) - 1, b])
                is_lost[start + b] = lost >> b & 1


@kernel
def _log(value: float, exponent: int) -> float:
    """Log of ``value * 2**exponent``."""
    return np.log(value) + exponent * np.log(2.0) if value > 0.0 else -np.inf


@kernel
def working_memory(p: Plan) -> tuple[FloatArray, FloatArray, AnyArray]:
    """Values per node, scale per vtree node, and the total exponent of two taken out below it."""
    n_nodes = len(p.node_edges) - 1
    n_vtree = len(p.vtree_var)
    return (
        np.zeros((n_nodes, LANES)),
        np.ones((n_vtree, LANES)),
        np.zeros((n_vtree, LANES), dtype=np.int64),
    )


@kernel
def pass_up(
    codes: AnyArray,
    start: int,
    width: int,
    p: Plan,
    value: FloatArray,
    scale: FloatArray,
    exponent: AnyArray,
) -> int:
    """Fill `value` (scaled), `scale` and `exponent` for a block of rows.

    A sum's value before scaling is ``value / scale``. Returns a bit per lane that lost digits.
    """
    lost = 0
    top = np.empty(LANES)  # largest value of the vtree node's sums
    low = np.empty(LANES)  # smallest that is not zero
    for v in range(len(p.vtree_var)):
        first, last = p.vtree_first[v], p.vtree_first[v + 1]
        is_leaf = p.vtree_var[v] != NONE
        if is_leaf:
            var = p.vtree_var[v]
            for b in range(LANES):
                code = codes[start + b, var] if b < width else np.uint8(UNKNOWN)
                value[2 * var, b] = 1.0 if code != 1 else 0.0
                value[2 * var + 1, b] = 1.0 if code != 0 else 0.0
                exponent[v, b] = 0
        else:
            for b in range(LANES):
                exponent[v, b] = exponent[p.vtree_left[v], b] + exponent[p.vtree_right[v], b]
        for b in range(LANES):
            top[b] = 0.0
            low[b] = np.inf
            scale[v, b] = 1.0
        for k in range(first, last):
            n = p.sums[k]
            mine = value[n]
            for b in range(LANES):
                mine[b] = 0.0
            for e in range(p.node_edges[n], p.node_edges[n + 1]):
                theta, left = p.edge_theta[e], value[p.edge_left[e]]
                if is_leaf:
                    for b in range(LANES):
                        mine[b] += theta * left[b]
                else:
                    right = value[p.edge_right[e]]
                    for b in range(LANES):
                        mine[b] += theta * left[b] * right[b]
            for b in range(LANES):
                top[b] = max(top[b], mine[b])
                low[b] = min(low[b], mine[b] if mine[b] > 0.0 else np.inf)
        if is_leaf:  # literals stand beside the sums of a leaf, so these keep scale 1
            continue
        is_scaled = False
        for b in range(LANES):
            if top[b] > 0.0 and not FAINT <= top[b] <= 1.0 / FAINT:
                is_scaled = True
                _, power = math.frexp(top[b])
                scale[v, b] = math.ldexp(1.0, -power)
                exponent[v, b] += power
                low[b] *= scale[v, b]
            if low[b] < SMALLEST_VALUE:
                lost |= 1 << b
        if is_scaled:
            for k in range(first, last):
                mine = value[p.sums[k]]
                for b in range(LANES):
                    mine[b] *= scale[v, b]
    return lost


def literal_probabilities(
    circuit: Circuit, codes: AnyArray, query: str
) -> tuple[FloatArray, FloatArray]:
    """Log-probability of each row, and P(X_i = 1 | row) for every i: one pass up, one down.

    Rows of probability zero get -inf and NaN; what a row knows comes back as exactly 0 or 1.
    """
    log_p = np.empty(len(codes))
    ones = np.empty((len(codes), circuit.n_vars))
    is_lost = np.ones(len(codes), dtype=np.bool_)
    if is_fit_for_passes(circuit):
        _literal_probabilities(codes, plan(circuit), circuit.root, log_p, ones, is_lost)
    else:
        check_smooth(circuit, query)
        check_decomposable(circuit, query)
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
    codes: AnyArray, p: Plan, root: int, log_p: FloatArray, ones: FloatArray, is_lost: AnyArray
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
            lost = pass_up(codes, start, width, p, value, scale, exponent)
            _pass_down(p, root, value, scale, flow)
            for b in range(width):
                log_p[start + b] = _log(value[root, b], exponent[len(p.vtree_var) - 1, b])
                is_lost[start + b] = lost >> b & 1
                for var in range(n_vars):
                    one = flow[2 * var + 1, b]
                    both = one + flow[2 * var, b]
                    ones[start + b, var] = one / both if both > 0.0 else np.nan


@kernel
def _pass_down(p: Plan, root: int, value: FloatArray, scale: FloatArray, flow: FloatArray) -> None:
    """Fill `flow` (n_nodes, LANES): how probable it is, given the evidence, to pass a node."""
    flow[:, :] = 0.0
    for b in range(LANES):
        flow[root, b] = 1.0 if value[root, b] > 0.0 else 0.0
    share = np.empty(LANES)
    for v in range(len(p.vtree_var) - 1, -1, -1):
        is_leaf = p.vtree_var[v] != NONE
        for k in range(p.vtree_first[v + 1] - 1, p.vtree_first[v] - 1, -1):
            n = p.sums[k]
            some = 0.0
            for b in range(LANES):
                some += flow[n, b]
            if some == 0.0:
                continue
            # value / scale is the sum over the edges, so their shares add up to the flow.
            mine = flow[n]
            for b in range(LANES):
                share[b] = mine[b] * scale[v, b] / value[n, b] if mine[b] > 0.0 else 0.0
            for e in range(p.node_edges[n], p.node_edges[n + 1]):
                theta, l, r = p.edge_theta[e], p.edge_left[e], p.edge_right[e]
                left, to_left = value[l], flow[l]
                if is_leaf:
                    for b in range(LANES):
                        to_left[b] += share[b] * theta * left[b]
                else:
                    right, to_right = value[r], flow[r]
                    for b in range(LANES):
                        through = share[b] * theta * left[b] * right[b]
                        to_left[b] += through
                        to_right[b] += through
