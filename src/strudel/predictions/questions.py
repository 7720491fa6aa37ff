"""How probable it is, given a row, that some more values are as stated: many such questions.

In:  a circuit or mixture, smooth and decomposable; rows; rows that know more, each with the row
     that it belongs to.
Out: log-probabilities of the rows; the probability of each question given its row.

A row leaves only a part of the circuit possible, often a twentieth. That part is taken out once per
row and component, and all questions about the row are asked of it, sharing their patterns
(`patterns.py`).
"""

from __future__ import annotations

import numpy as np

from strudel._numba import kernel, parallel_kernel, prange
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.mixture import Mixture
from strudel.predictions.patterns import (
    Patterns,
    Values,
    as_mixture,
    component_theta,
    find_patterns,
    own_plan,
    pass_patterns,
    rows_per_block,
    values_of,
)
from strudel.queries.components import (
    _is_fit,
    _log_probabilities_in_logs,
    log_mean,
    posterior,
)
from strudel.queries.model import Model
from strudel.queries.passes import Plan, are_moderate, log_of

BLOCK_CELLS = 2**22  # per row or question and component, made at a time
MOST_ROWS = 128  # in a block, so that all threads have work


def ask(
    model: Model, codes: AnyArray, asked_row: IntArray, asked: AnyArray, query: str
) -> tuple[FloatArray, FloatArray]:
    """Log-probability of each row, and the probability of each question given its row.

    `asked_row` does not decrease. Of rows of probability zero nothing can be said: NaN.

    Examples
    --------
    >>> from strudel import figure_1_circuit
    >>> rows = np.array([[2, 2, 1, 2]], dtype=np.uint8)
    >>> asked = np.array([[1, 2, 1, 2], [1, 0, 1, 2]], dtype=np.uint8)
    >>> ask(figure_1_circuit(), rows, np.zeros(2, dtype=np.int32), asked, "ask")[1].round(4)
    array([0.4 , 0.04])
    """
    mixture = as_mixture(model)
    log_p = np.empty(len(codes))
    chance = np.empty(len(asked))
    start = np.searchsorted(asked_row, np.arange(len(codes) + 1)).astype(np.int64)
    most = max(1, BLOCK_CELLS // mixture.n_components)
    first = 0
    while first < len(codes):
        last = first + 1
        while last < len(codes) and start[last + 1] - start[first] + last - first < most:
            last += 1
        rows, part = slice(first, last), slice(start[first], start[last])
        log_p[rows], chance[part] = _ask(
            mixture, codes[rows], start[first : last + 1] - start[first], asked[part], query
        )
        first = last
    return log_p, chance


def _ask(
    mixture: Mixture, codes: AnyArray, asked_start: AnyArray, asked: AnyArray, query: str
) -> tuple[FloatArray, FloatArray]:
    """The same for as many rows as fit in memory with one probability per component."""
    circuit, k = mixture.structure, mixture.n_components
    log_p = np.empty((len(codes), k))
    log_asked = np.empty((len(asked), k))
    is_lost = np.ones((len(codes), k), dtype=np.bool_)
    is_asked_lost = np.ones((len(asked), k), dtype=np.bool_)
    if _is_fit(circuit, query):
        _ask_blocks(
            np.ascontiguousarray(codes),
            asked_start,
            np.ascontiguousarray(asked),
            min(MOST_ROWS, rows_per_block(circuit.n_nodes, len(codes))),
            own_plan(circuit),
            component_theta(mixture),
            log_p,
            log_asked,
            is_lost,
            is_asked_lost,
        )
        is_lost |= ~are_moderate(mixture.edge_log_theta)
        is_asked_lost |= ~are_moderate(mixture.edge_log_theta)
    for found, lost, rows in ((log_p, is_lost, codes), (log_asked, is_asked_lost, asked)):
        for c in np.flatnonzero(lost.any(axis=0)):
            here = np.flatnonzero(lost[:, c])
            found[here, c] = _log_probabilities_in_logs(mixture, int(c), rows[here])
    asked_row = np.repeat(np.arange(len(codes)), np.diff(asked_start))
    # Each component answers for itself: their logs may be far apart, but not those of one.
    with np.errstate(invalid="ignore"):
        ratio = np.exp(log_asked - log_p[asked_row])
    ratio[np.isnan(ratio)] = 0.0  # the component makes the row impossible
    weight = posterior(mixture, log_p)
    return log_mean(mixture, log_p), np.einsum("qc,qc->q", weight[asked_row], ratio)


@parallel_kernel
def _ask_blocks(
    codes: AnyArray,
    asked_start: AnyArray,
    asked: AnyArray,
    block_rows: int,
    p: Plan,
    theta: FloatArray,
    log_p: FloatArray,
    log_asked: FloatArray,
    is_lost: AnyArray,
    is_asked_lost: AnyArray,
) -> None:
    """Fill all outputs, block by block."""
    for block in prange((len(codes) + block_rows - 1) // block_rows):
        start = int(np.int64(block)) * block_rows  # the loop's own index is unsigned
        stop = int(min(start + block_rows, len(codes)))
        _ask_block(
            codes,
            start,
            stop,
            asked_start,
            asked,
            p,
            theta,
            log_p,
            log_asked,
            is_lost,
            is_asked_lost,
        )


@kernel
def _ask_block(
    codes: AnyArray,
    start: int,
    stop: int,
    asked_start: AnyArray,
    asked: AnyArray,
    p: Plan,
    theta: FloatArray,
    log_p: FloatArray,
    log_asked: FloatArray,
    is_lost: AnyArray,
    is_asked_lost: AnyArray,
) -> None:
    """One pass for the rows of a block; then, row by row, one for the questions."""
    patterns = find_patterns(codes[start:stop], p)
    values = values_of(patterns, p)
    n_vtree, root = len(p.vtree_var), len(p.node_edges) - 2
    is_met = np.zeros(root + 1, dtype=np.bool_)
    for c in range(len(theta)):
        pass_patterns(patterns, p, theta[c], values)
        for s in range(start, stop):
            u = patterns.row[n_vtree - 1, s - start]
            value = values.value[values.node_at[root] + u]
            exponent = values.exponent[patterns.first[n_vtree - 1] + u]
            log_p[s, c] = log_of(value, exponent)
            is_lost[s, c] = values.is_lost[patterns.first[n_vtree - 1] + u]
            first, last = asked_start[s], asked_start[s + 1]
            if is_lost[s, c] or first == last:
                continue
            is_asked_lost[first:last, c] = False
            if value == 0.0:
                log_asked[first:last, c] = -np.inf
                continue
            own, own_theta = _take_out(s - start, patterns, values, p, theta[c], is_met)
            mine = find_patterns(asked[first:last], own)
            found = values_of(mine, own)
            pass_patterns(mine, own, own_theta, found)
            top, at = mine.first[n_vtree - 1], found.node_at[len(own.node_edges) - 2]
            for i in range(last - first):
                w = mine.row[n_vtree - 1, i]
                log_asked[first + i, c] = log_of(found.value[at + w], found.exponent[top + w])
                is_asked_lost[first + i, c] = found.is_lost[top + w]


@kernel
def _take_out(
    s: int,
    patterns: Patterns,
    values: Values,
    p: Plan,
    edge_theta: FloatArray,
    is_met: AnyArray,
) -> tuple[Plan, FloatArray]:
    """The part of the circuit that row s can reach from the root; `is_met` is left all false."""
    n_vtree, n_literals = len(p.vtree_var), 2 * ((len(p.vtree_var) + 1) // 2)
    n_sums = n_edges = 0
    is_met[len(p.node_edges) - 2] = True
    for v in range(n_vtree - 1, -1, -1):
        is_leaf = p.vtree_var[v] != NONE
        for k in range(p.vtree_first[v + 1] - 1, p.vtree_first[v] - 1, -1):
            n = p.sums[k]
            if is_met[n]:
                n_sums += 1
                for e in range(p.node_edges[n], p.node_edges[n + 1]):
                    if _is_alive(e, v, s, is_leaf, patterns, values, p, edge_theta):
                        n_edges += 1
                        if not is_leaf:
                            is_met[p.edge_left[e]] = True
                            is_met[p.edge_right[e]] = True
    number = np.empty(len(p.node_edges) - 1, dtype=np.int32)
    for n in range(n_literals):
        number[n] = n
        is_met[n] = False
    first = np.zeros(n_vtree + 1, dtype=np.int32)
    sum_vtree = np.empty(n_sums, dtype=np.int32)
    node_edges = np.zeros(n_literals + n_sums + 1, dtype=np.int32)
    left = np.empty(n_edges, dtype=np.int32)
    right = np.empty(n_edges, dtype=np.int32)
    theta = np.empty(n_edges)
    n_sums = n_edges = 0
    for v in range(n_vtree):
        is_leaf = p.vtree_var[v] != NONE
        for k in range(p.vtree_first[v], p.vtree_first[v + 1]):
            n = p.sums[k]
            if not is_met[n]:
                continue
            is_met[n] = False
            for e in range(p.node_edges[n], p.node_edges[n + 1]):
                if _is_alive(e, v, s, is_leaf, patterns, values, p, edge_theta):
                    left[n_edges] = number[p.edge_left[e]]
                    right[n_edges] = NONE if is_leaf else number[p.edge_right[e]]
                    theta[n_edges] = edge_theta[e]
                    n_edges += 1
            number[n] = n_literals + n_sums
            sum_vtree[n_sums] = v
            n_sums += 1
            node_edges[n_literals + n_sums] = n_edges
        first[v + 1] = n_sums
    sums = np.arange(n_literals, n_literals + n_sums).astype(np.int32)
    own = Plan(
        p.vtree_left,
        p.vtree_right,
        p.vtree_var,
        first,
        sums,
        sum_vtree,
        node_edges,
        left,
        right,
    )
    return own, theta


@kernel
def _is_alive(
    e: int,
    v: int,
    s: int,
    is_leaf: bool,
    patterns: Patterns,
    values: Values,
    p: Plan,
    edge_theta: FloatArray,
) -> bool:
    """Whether the row leaves an edge possible."""
    if edge_theta[e] == 0.0:
        return False
    l = p.edge_left[e]
    if is_leaf:
        return bool(values.value[values.node_at[l] + patterns.row[v, s]] > 0.0)
    u, w = patterns.row[p.vtree_left[v], s], patterns.row[p.vtree_right[v], s]
    return bool(
        values.value[values.node_at[l] + u] > 0.0
        and values.value[values.node_at[p.edge_right[e]] + w] > 0.0
    )
