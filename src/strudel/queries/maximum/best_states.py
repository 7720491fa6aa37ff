"""The best completions of rows under one deterministic circuit.

In:  a deterministic `Circuit` in normal form, and rows of evidence as codes.
Out: their most probable completions, and the log-probabilities of these.

Up: the best value of every node, sums replaced by maxima. Down: the edges that reach it. For
several completions every node keeps its k best, which are distinct because a deterministic circuit
reaches each state in one way.
"""

from __future__ import annotations

import numpy as np

from strudel._numba import in_threads, kernel
from strudel._types import NONE, AnyArray, ByteArray, FloatArray, IntArray, WordArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.passes import LANES, UNKNOWN, Plan, plan, working_memory

MOST_BYTES = 4 * 2**30


def best_states(circuit: Circuit, codes: AnyArray) -> tuple[ByteArray, FloatArray, AnyArray]:
    """The best completion of every row, its log-probability, and whether another one ties."""
    states = np.zeros(codes.shape, dtype=np.uint8)
    log_p = np.empty(len(codes))
    is_tied = np.zeros(len(codes), dtype=np.bool_)
    in_threads(
        _best_states,
        -(-len(codes) // LANES),
        codes,
        plan(circuit),
        circuit.root,
        circuit.edge_log_theta,
        states,
        log_p,
        is_tied,
    )
    return states, log_p, is_tied


@kernel
def _best_states(
    first: int,
    last: int,
    codes: AnyArray,
    p: Plan,
    root: int,
    edge_log_theta: FloatArray,
    states: ByteArray,
    log_p: FloatArray,
    is_tied: AnyArray,
) -> None:
    n_rows = len(codes)
    value, _, _ = working_memory(p)
    stack = np.empty(len(p.vtree_var) + 1, dtype=np.int32)
    for block in range(first, last):
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
            f"more than {MOST_BYTES / 2**30:.0f} GiB. Ask for a smaller k."
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
