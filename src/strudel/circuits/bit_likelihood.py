"""Likelihood of rows of 0 and 1: one flow per row serves all components.

In:  a `BitCircuit` or a `BitMixture` over 0/1 variables, and rows, in which NaN is unknown.
Out: log-likelihoods per row, or per row and component; the posterior of the components, and
     log-probabilities of rows together with the class that components or variables stand for.

A complete row takes one edge at every vtree node of a deterministic structure, whatever the
parameters are (equation 1 of the paper), so its log-likelihoods are the sum of a few lines of the
table of log-parameters. Lines of zeros, those of unary sums above all, are left out. Where most
rows of a block take the same edge of a vtree node, its line is added once for all of them, and
taken back from the rows that do not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel._numba import in_threads, kernel, lowest_bit, popcount
from strudel._types import NONE, AnyArray, ByteArray, FloatArray, IntArray, WordArray
from strudel.circuits.bit_circuit import Edges
from strudel.circuits.bit_flows import (
    BLOCK_WORDS,
    flow_block,
    flow_log_likelihood,
    raise_if_ambiguous,
)
from strudel.circuits.bit_mixture import BitMixture, Model, as_mixture, structure_of
from strudel.circuits.bit_probabilities import (
    component_log_probabilities,
    log_mean,
    log_probabilities,
    posterior,
    rows_at_a_time,
)
from strudel.circuits.bit_properties import check_properties
from strudel.circuits.passes import UNKNOWN, encode
from strudel.circuits.walks import raise_if_impossible
from strudel.data.bits import pack_columns
from strudel.data.validation import slices
from strudel.errors import CircuitPropertyError

BLOCK_CELLS = 2**25  # cells packed at a time, so that a million rows need little extra memory
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
            from strudel.circuits.on_device.bit_rows import log_likelihood_on  # late: needs torch

            return log_likelihood_on(device, as_mixture(model), table)
        if isinstance(model, BitMixture):
            return mixture_flow_log_likelihood(model, table)
        log_p = np.empty(len(table))
        for rows in slices(len(table), max(512, BLOCK_CELLS // model.n_vars)):
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
    block = max(BLOCK_ROWS, BLOCK_CELLS // circuit.n_vars // BLOCK_ROWS * BLOCK_ROWS)
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
