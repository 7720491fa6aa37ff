"""The most probable completions of a row (MAP), exact on deterministic circuits.

Up: the best value of every node, sums replaced by maxima. Down: the edges that reach it. For
several completions every node keeps its k best, which are distinct because a deterministic circuit
reaches each state in one way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel._numba import kernel, parallel_kernel, prange
from strudel._types import NONE, AnyArray, ByteArray, FloatArray, IntArray, WordArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.properties import (
    check_in_normal_form,
    check_smooth,
    why_not_deterministic,
)
from strudel.errors import CircuitPropertyError
from strudel.queries.arguments import given_rows
from strudel.queries.marginal import raise_if_impossible
from strudel.queries.model import circuit_of
from strudel.queries.passes import (
    LANES,
    UNKNOWN,
    Plan,
    distinct_rows,
    encode,
    plan,
    working_memory,
)


def most_probable_state(
    model: Circuit, given: Any = None, k: int = 1
) -> tuple[ByteArray, FloatArray]:
    """The k most probable completions of each row.

    Parameters
    ----------
    model : Circuit or fitted estimator
        Deterministic, smooth and structured-decomposable.
    given : array-like of shape (n_vars,) or (n_rows, n_vars), frame, or dict, optional
        0, 1, or NaN where the value is to be found; everything by default.
    k : int
        How many completions per row.

    Returns
    -------
    states : uint8 ndarray
        Of shape (n_rows, n_vars) for k = 1, else (n_rows, k, n_vars): best first, equally probable
        ones in the order of their values. Without the first axis when `given` is a single row, a
        dict or nothing.
    log_p : ndarray
        Their joint log-probabilities with what is given; ``-inf`` past the last possible
        completion.

    Examples
    --------
    >>> from strudel import figure_1_circuit
    >>> state, log_p = most_probable_state(figure_1_circuit(), {"X4": 1})
    >>> state, log_p.round(4)
    (array([1, 0, 0, 1], dtype=uint8), np.float64(-2.3228))
    """
    circuit = circuit_of(model)
    if not isinstance(k, int | np.integer) or k < 1:
        raise ValueError(f"k must be a whole number, one or more, but is {k!r}.")
    if not (circuit.is_in_normal_form and circuit.is_smooth and circuit.is_deterministic):
        check_smooth(circuit, "most_probable_state")
        check_in_normal_form(circuit, "most_probable_state")
        why = why_not_deterministic(circuit)
        raise CircuitPropertyError(
            f"most_probable_state needs a deterministic circuit, but {why}. marginal_map over all "
            "variables finds the best state of any circuit, by branch and bound."
        )
    evidence, is_single = given_rows(circuit, given)
    codes, place = distinct_rows(encode(evidence))
    if k == 1:
        states, log_p, is_tied = best_states(circuit, codes)
        if is_tied.any():
            tied_states, tied_log_p = k_best_states(circuit, codes[is_tied], 1)
            states[is_tied], log_p[is_tied] = tied_states[:, 0], tied_log_p[:, 0]
        first = log_p
    else:
        states, log_p = k_best_states(circuit, codes, int(k))
        first = log_p[:, 0]
    raise_if_impossible(first[place])
    return (states[0], log_p[0]) if is_single else (states[place], log_p[place])


def best_states(circuit: Circuit, codes: AnyArray) -> tuple[ByteArray, FloatArray, AnyArray]:
    """The best completion of every row, its log-probability, and whether another one ties."""
    states = np.zeros(codes.shape, dtype=np.uint8)
    log_p = np.empty(len(codes))
    is_tied = np.zeros(len(codes), dtype=np.bool_)
    _best_states(codes, plan(circuit), circuit.root, circuit.edge_log_theta, states, log_p, is_tied)
    return states, log_p, is_tied


@parallel_kernel
def _best_states(
    codes: AnyArray,
    p: Plan,
    root: int,
    edge_log_theta: FloatArray,
    states: ByteArray,
    log_p: FloatArray,
    is_tied: AnyArray,
) -> None:
    n_rows = len(codes)
    n_blocks = (n_rows + LANES - 1) // LANES
    n_chunks = min(n_blocks, 16)
    for chunk in prange(n_chunks):
        value, _, _ = working_memory(p)
        stack = np.empty(len(p.vtree_var) + 1, dtype=np.int32)
        for block in range(np.int64(chunk), n_blocks, n_chunks):
            start = block * LANES
            width = min(LANES, n_rows - start)
            _best_values(codes, start, width, p, edge_log_theta, value)
            for b in range(width):
                log_p[start + b] = value[root, b]
                is_tied[start + b] = _walk_to_best(
                    p, root, edge_log_theta, value, b, stack, states[start + b]
                )


@kernel
def _best_values(
    codes: AnyArray,
    start: int,
    width: int,
    p: Plan,
    edge_log_theta: FloatArray,
    value: FloatArray,
) -> None:
    """Largest log-value of every node for a block of rows: additions and maxima only."""
    for v in range(len(p.vtree_var)):
        is_leaf = p.vtree_var[v] != NONE
        if is_leaf:
            var = p.vtree_var[v]
            for b in range(LANES):
                code = codes[start + b, var] if b < width else np.uint8(UNKNOWN)
                value[2 * var, b] = 0.0 if code != 1 else -np.inf
                value[2 * var + 1, b] = 0.0 if code != 0 else -np.inf
        for k in range(p.vtree_first[v], p.vtree_first[v + 1]):
            n = p.sums[k]
            mine = value[n]
            for b in range(LANES):
                mine[b] = -np.inf
            for e in range(p.node_edges[n], p.node_edges[n + 1]):
                log_theta, left = edge_log_theta[e], value[p.edge_left[e]]
                if is_leaf:
                    for b in range(LANES):
                        mine[b] = max(mine[b], log_theta + left[b])
                else:
                    right = value[p.edge_right[e]]
                    for b in range(LANES):
                        mine[b] = max(mine[b], log_theta + left[b] + right[b])


@kernel
def _walk_to_best(
    p: Plan,
    root: int,
    edge_log_theta: FloatArray,
    value: FloatArray,
    b: int,
    stack: IntArray,
    state: ByteArray,
) -> bool:
    """Follow the edges that reach the largest value; returns whether two were equally good."""
    if value[root, b] == -np.inf:
        return False
    n_literals = 2 * len(state)
    is_tied = False
    stack[0] = root
    size = 1
    while size > 0:
        size -= 1
        n = stack[size]
        if n < n_literals:
            state[n // 2] = n % 2
            continue
        chosen = NONE
        slack = 1e-12 * (1.0 + abs(value[n, b]))
        for e in range(p.node_edges[n], p.node_edges[n + 1]):
            part = edge_log_theta[e] + value[p.edge_left[e], b]
            if p.edge_right[e] != NONE:
                part += value[p.edge_right[e], b]
            if part >= value[n, b] - slack:
                is_tied |= chosen != NONE
                chosen = e
        stack[size] = p.edge_left[chosen]
        size += 1
        if p.edge_right[chosen] != NONE:
            stack[size] = p.edge_right[chosen]
            size += 1
    return is_tied


def k_best_states(circuit: Circuit, codes: AnyArray, k: int) -> tuple[ByteArray, FloatArray]:
    """States (n_rows, k, n_vars) and log-probabilities (n_rows, k) of the k best completions."""
    n_words = -(-circuit.n_vars // 64)
    scope = np.diff(np.stack(circuit.vtree.node_span), axis=0)[0][circuit.node_vtree]
    room = np.where(scope < 40, np.minimum(k, 2.0 ** np.minimum(scope, 40)), k).astype(np.int64)
    room[: 2 * circuit.n_vars] = 1
    offset = np.concatenate([[0], np.cumsum(room)])
    needed = int(offset[-1]) * (n_words + 1) * 8 + len(codes) * k * (circuit.n_vars + 1) * 8
    if needed > MOST_BYTES:
        raise ValueError(
            f"The {k} best completions need {needed / 2**30:.1f} GiB of working memory here, "
            f"more than {MOST_BYTES / 2**30:.0f} GiB. Ask for fewer."
        )
    words = np.zeros((len(codes), k, n_words), dtype=np.uint64)
    log_p = np.full((len(codes), k), -np.inf)
    layout = plan(circuit)
    best_log = np.empty(offset[-1])
    best_word = np.empty((offset[-1], n_words), dtype=np.uint64)
    for row in range(len(codes)):
        n = _k_best(
            codes[row], layout, circuit.root, circuit.edge_log_theta, offset, best_log, best_word
        )
        found = slice(offset[circuit.root], offset[circuit.root] + n)
        log_p[row, :n] = best_log[found]
        words[row, :n] = best_word[found]
    var = np.arange(circuit.n_vars)
    states = (words[:, :, var // 64] >> (63 - var % 64).astype(np.uint64)) & np.uint64(1)
    return states.astype(np.uint8), log_p


MOST_BYTES = 4 * 2**30


@kernel
def _k_best(
    codes: AnyArray,
    p: Plan,
    root: int,
    edge_log_theta: FloatArray,
    offset: AnyArray,
    best_log: FloatArray,
    best_word: WordArray,
) -> int:
    """Fill the best values and states of every node, best first; returns how many the root has.

    Variable i is bit ``63 - i % 64`` of word ``i // 64``, so that words compare as states do.
    """
    n_words = best_word.shape[1]
    n_literals = 2 * len(codes)
    count = np.zeros(len(offset) - 1, dtype=np.int64)
    word = np.empty(n_words, dtype=np.uint64)
    for literal in range(n_literals):
        var, x = literal // 2, literal % 2
        if codes[var] == UNKNOWN or codes[var] == x:
            count[literal] = 1
            best_log[offset[literal]] = 0.0
            for w in range(n_words):
                best_word[offset[literal], w] = np.uint64(0)
            best_word[offset[literal], var // 64] = np.uint64(x) << np.uint64(63 - var % 64)
    for position in range(len(p.sums)):
        n = p.sums[position]
        first, room = offset[n], offset[n + 1] - offset[n]
        for e in range(p.node_edges[n], p.node_edges[n + 1]):
            l, r = p.edge_left[e], p.edge_right[e]
            n_right = 1 if r == NONE else count[r]
            for i in range(count[l]):
                # The pair (i, j) has (i + 1) (j + 1) - 1 pairs before it.
                for j in range(min(n_right, room // (i + 1))):
                    log_p = edge_log_theta[e] + best_log[offset[l] + i]
                    if r != NONE:
                        log_p += best_log[offset[r] + j]
                    if log_p == -np.inf:
                        break
                    for w in range(n_words):
                        word[w] = best_word[offset[l] + i, w]
                        if r != NONE:
                            word[w] |= best_word[offset[r] + j, w]
                    at = count[n]
                    while at > 0 and _is_better(
                        log_p, word, best_log[first + at - 1], best_word[first + at - 1]
                    ):
                        at -= 1
                    if at >= room:
                        break
                    if count[n] < room:
                        count[n] += 1
                    for k in range(count[n] - 1, at, -1):
                        best_log[first + k] = best_log[first + k - 1]
                        best_word[first + k] = best_word[first + k - 1]
                    best_log[first + at] = log_p
                    best_word[first + at] = word
    return count[root]


@kernel
def _is_better(log_p: float, word: WordArray, other_log_p: float, other: WordArray) -> bool:
    """More probable, or equally probable up to rounding and earlier in the order of states."""
    if abs(log_p - other_log_p) > 1e-12 * (1.0 + abs(log_p)):
        return log_p > other_log_p
    for w in range(len(word)):
        if word[w] != other[w]:
            return word[w] < other[w]
    return False
