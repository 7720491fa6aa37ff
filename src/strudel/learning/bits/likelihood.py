"""Likelihood of rows of 0 and 1, and of partly observed rows.

In:  a `BitCircuit` or a `BitMixture`, smooth and decomposable, and rows, in which NaN is unknown.
Out: log-probabilities of rows, or of rows under each component; the posterior of the components;
     the probability that each variable is 1, given each row; and log-probabilities of rows together
     with the class that components or variables stand for.

A complete row takes one edge at every vtree node of a deterministic structure, whatever the
parameters are (equation 1 of the paper), so its log-likelihoods are the sum of a few lines of the
table of log-parameters. Lines of zeros, those of unary sums above all, are left out. Where most
rows of a block take the same edge of a vtree node, its line is added once for all of them, and
taken back from the rows that do not.

Other rows are passes, which take eight lanes side by side: rows of a circuit, or components of a
mixture with one row or with several if the components are few.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from strudel._numba import in_threads, kernel, lowest_bit, popcount, soonest
from strudel._types import NONE, AnyArray, ByteArray, FloatArray, IntArray, WordArray
from strudel.circuits.circuit import Edges
from strudel.circuits.passes import (
    LANES,
    Plan,
    distinct_rows,
    log_of,
    pass_down,
    pass_up,
    working_memory,
)
from strudel.circuits.walks import raise_if_impossible
from strudel.data.bits import UNKNOWN, decode, encode, pack_columns
from strudel.data.validation import slices
from strudel.errors import CircuitPropertyError
from strudel.learning.bits.circuit import BitCircuit
from strudel.learning.bits.evaluate import evaluate_edges
from strudel.learning.bits.flows import (
    BLOCK_WORDS,
    flow_block,
    flow_log_likelihood,
    raise_if_ambiguous,
)
from strudel.learning.bits.mixture import (
    BitMixture,
    Model,
    Part,
    as_mixture,
    log_weights_of,
    part_of,
    structure_of,
)
from strudel.learning.bits.properties import check_properties

BLOCK_CELLS = 2**22  # per row and component, made at a time
PACKED_CELLS = 2**25  # cells packed at a time, so that a million rows need little extra memory
BLOCK_ROWS = 64 * BLOCK_WORDS  # rows whose flows are found together
FAR = -50.0  # nats; components this much less probable than the best do not count


def rows_log_likelihood(model: Model, rows: AnyArray, device: Any = None) -> FloatArray:
    """Log-likelihood of rows of the 0/1 variables; where values are unknown, of the known ones.

    `rows` are uint8, or float64 with NaN where a value is unknown. Complete ones can be evaluated
    on a `torch.device`.
    """
    check_properties(structure_of(model), "log_likelihood", "smooth", "decomposable")
    if rows.dtype == np.uint8:
        return _log_likelihood_of_complete(model, rows, device)
    has_gap = np.isnan(rows).any(axis=1)
    log_p = np.empty(len(rows))
    if has_gap.any():
        log_p[has_gap] = log_probabilities(model, rows[has_gap], "log_likelihood")
    if not has_gap.all():
        complete = rows[~has_gap].astype(np.uint8)
        log_p[~has_gap] = _log_likelihood_of_complete(model, complete, device)
    return log_p


def _log_likelihood_of_complete(model: Model, table: ByteArray, device: Any) -> FloatArray:
    try:
        if device is not None:
            from strudel.learning.bits.on_device import log_likelihood_on  # late: needs torch

            return log_likelihood_on(device, as_mixture(model), table)
        if isinstance(model, BitMixture):
            return mixture_flow_log_likelihood(model, table)
        log_p = np.empty(len(table))
        for rows in slices(len(table), max(512, PACKED_CELLS // model.n_vars)):
            log_p[rows] = flow_log_likelihood(model, pack_columns(table[rows]))
        return log_p
    except CircuitPropertyError:  # some row takes two edges of one sum: a real sum
        return log_probabilities(model, table.astype(np.float64), "log_likelihood")


def rows_responsibilities(model: Model, rows: FloatArray) -> FloatArray:
    """Probability of every component given each row of 0, 1 and NaN."""
    model = as_mixture(model)
    weight = np.empty((len(rows), model.n_components))
    for part in slices(len(rows), rows_at_a_time(model)):
        weight[part] = posterior(model, component_logs(model, encode(rows[part])))
    raise_if_impossible(np.where(np.isnan(weight[:, 0]), -np.inf, 0.0))
    return weight


def component_logs(mixture: BitMixture, codes: AnyArray) -> FloatArray:
    """Log-probabilities `(n_rows, n_components)`; by flows for complete rows, if any."""
    is_open = np.any(codes == UNKNOWN, axis=1)
    log_p = np.empty((len(codes), mixture.n_components))
    if not is_open.all():
        try:
            log_p[~is_open] = component_flow_logs(mixture, codes[~is_open])
        except CircuitPropertyError:  # not deterministic, or not in normal form
            is_open[:] = True
    if is_open.any():
        log_p[is_open] = component_log_probabilities(mixture, codes[is_open], "responsibilities")
    return log_p


def component_flow_logs(mixture: BitMixture, rows: ByteArray) -> FloatArray:
    """Log-likelihoods `(n_rows, n_components)` by flows, without the weights of the components."""
    log_p = np.empty((len(rows), mixture.n_components))
    _gather(mixture, rows, log_p, np.empty(0))
    return log_p


def mixture_flow_log_likelihood(mixture: BitMixture, rows: ByteArray) -> FloatArray:
    """Log-likelihoods `(n_rows,)` under the mixture by flows."""
    total = np.empty(len(rows))
    _gather(mixture, rows, np.empty((0, 0)), total)
    return total


def _gather(mixture: BitMixture, rows: ByteArray, log_p: FloatArray, total: FloatArray) -> None:
    """Fill the output that is not empty."""
    circuit = mixture.structure
    check_properties(circuit, "shared flows", "in_normal_form")
    block = max(BLOCK_ROWS, PACKED_CELLS // circuit.n_vars // BLOCK_ROWS * BLOCK_ROWS)
    for part in slices(len(rows), block):
        bits = pack_columns(rows[part])
        is_twice = np.zeros(-(-bits.n_rows // BLOCK_ROWS), dtype=np.bool_)
        in_threads(
            _gather_log_theta,
            len(is_twice),
            bits.words,
            bits.n_rows,
            circuit.node_vtree,
            circuit.edges,
            circuit.node_vtree[circuit.edge_parent],
            mixture.edge_log_theta,
            mixture.log_weight,
            log_p[part],
            total[part],
            is_twice,
        )
        raise_if_ambiguous(bool(is_twice.any()))


@kernel
def _gather_log_theta(
    first: int,
    last: int,
    words: WordArray,
    n_rows: int,
    node_vtree: IntArray,
    edges: Edges,
    edge_vtree: IntArray,
    log_theta: FloatArray,
    log_weight: FloatArray,
    log_p: FloatArray,
    total: FloatArray,
    is_twice: AnyArray,
) -> None:
    """Fill `log_p` (n_rows, k), or `total` (n_rows,) with the logs of their weighted sums."""
    n_edges, k = log_theta.shape
    for block in range(first, last):
        start = block * BLOCK_ROWS
        width = min(BLOCK_ROWS, n_rows - start)
        passed_edge = np.empty(n_edges, dtype=np.int32)
        passed_rows = np.empty((n_edges, BLOCK_WORDS), dtype=np.uint64)
        possible = np.empty(BLOCK_WORDS, dtype=np.uint64)
        is_twice[block], n_passed = flow_block(
            words,
            n_rows,
            block * BLOCK_WORDS,
            node_vtree,
            edges,
            np.empty(0),
            np.empty((0, 0), dtype=np.int32),
            np.empty(0),
            np.empty((0, 0), dtype=np.uint64),
            passed_edge,
            passed_rows,
            possible,
        )
        part = np.empty((width, k))
        _add_lines(
            passed_edge[:n_passed],
            passed_rows,
            possible,
            edge_vtree,
            node_vtree[-1] + 1,  # the root's is the last
            log_theta,
            part,
        )
        for s in range(width):
            if not possible[s // 64] >> np.uint64(s % 64) & np.uint64(1):
                part[s] = -np.inf
            if len(log_p):
                log_p[start + s] = part[s]
            else:
                total[start + s] = _log_weighted_sum(part[s], log_weight)


@kernel
def _add_lines(
    passed_edge: IntArray,
    passed_rows: WordArray,
    possible: WordArray,
    edge_vtree: IntArray,
    n_vtree: int,
    log_theta: FloatArray,
    part: FloatArray,
) -> None:
    """Fill `part` (n_rows, k) with the sums of the log-parameters that each row takes."""
    n_passed, k = len(passed_edge), log_theta.shape[1]
    is_used = np.zeros(n_passed, dtype=np.bool_)
    default = np.full(n_vtree, NONE, dtype=np.int32)  # by vtree node, the edge of most rows
    n_most = np.full(len(default), len(part) // 2, dtype=np.int32)
    for i in range(n_passed):
        e = passed_edge[i]
        is_used[i] = not _are_zero(log_theta[e])
        if is_used[i]:
            n = 0
            for w in range(BLOCK_WORDS):
                n += popcount(passed_rows[i, w])
            v = edge_vtree[e]
            # What is -inf can be added, but not taken back.
            if n > n_most[v] and log_theta[e].min() > -np.inf:
                n_most[v] = n
                default[v] = i
    base = np.zeros(k)
    for v in range(len(default)):
        if default[v] != NONE:
            base += log_theta[passed_edge[default[v]]]
    for s in range(len(part)):
        part[s] = base
    for i in range(n_passed):
        if not is_used[i]:
            continue
        line = log_theta[passed_edge[i]]
        is_default = default[edge_vtree[passed_edge[i]]] == i
        for w in range(BLOCK_WORDS):
            word = passed_rows[i, w]
            if is_default:
                word = possible[w] & ~word
            while word:
                mine = part[w * 64 + lowest_bit(word)]
                word &= word - np.uint64(1)
                if is_default:
                    for c in range(k):
                        mine[c] -= line[c]
                else:
                    for c in range(k):
                        mine[c] += line[c]


@kernel
def _are_zero(line: FloatArray) -> bool:
    """Whether all are zero; stops at the first that is not."""
    c = 0
    while c < len(line) and line[c] == 0.0:
        c += 1
    return c == len(line)


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


def class_logs(mixture: BitMixture, component_class: IntArray, rows: FloatArray) -> FloatArray:
    """Log P(known values of a row, class), `(n_rows, n_classes)`.

    Every component has a class in `component_class`: 0, 1, ..., in this order.

    The weights of the mixture hold the shares of the classes. Rows are 0, 1 and NaN.
    """
    first = np.flatnonzero(np.diff(component_class, prepend=-1))
    logs = np.empty((len(rows), len(first)))
    for part in slices(len(rows), rows_at_a_time(mixture)):
        by_component = component_logs(mixture, encode(rows[part])) + mixture.log_weight
        logs[part] = np.logaddexp.reduceat(by_component, first, axis=1)
    return logs


def class_logs_of_joint(mixture: BitMixture, codewords: ByteArray, rows: FloatArray) -> FloatArray:
    """The same where the last variables are the class, whose values are `codewords`.

    Rows hold the other variables: 0, 1 and NaN.
    """
    logs = np.empty((len(rows), len(codewords)))
    for part in slices(len(rows), rows_at_a_time(mixture)):
        n_rows = part.stop - part.start
        for c, word in enumerate(codewords):
            bits = np.broadcast_to(word.astype(np.float64), (n_rows, len(word)))
            joint = component_logs(mixture, encode(np.hstack([rows[part], bits])))
            logs[part, c] = log_mean(mixture, joint)
    return logs


# Partly observed rows


def plan(circuit: BitCircuit) -> Plan:
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
    )


@kernel
def set_literals(codes: AnyArray, lane_row: AnyArray, width: int, value: FloatArray) -> None:
    """The literals of `width` lanes, each with a row of codes; nothing is known in the others."""
    for var in range(codes.shape[1]):
        for b in range(LANES):
            code = codes[lane_row[b], var] if b < width else np.uint8(UNKNOWN)
            value[2 * var, b] = 1.0 if code != 1 else 0.0
            value[2 * var + 1, b] = 1.0 if code != 0 else 0.0


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
