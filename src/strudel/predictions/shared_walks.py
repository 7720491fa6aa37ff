"""Kernels that pass a circuit once for all that rows have in common.

In:  a circuit over columns laid out as `Structure`, and rows of codes; questions, which know more,
     each about one of the rows.
Out: `Patterns` of rows, and the value of every node for each; the log-probability of every row and
     question.

The value of a node depends on what is known of the columns below its vtree node, and on nothing
else. Rows with the same codes there share a *pattern*, and every node has one value per pattern.
Near the leaves of the vtree there are few patterns however many rows there are.

A row leaves only a part of the circuit possible, often a twentieth. That part is taken out once per
row and component, and all questions about the row are asked of it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.passes import FAINT, LOWEST_POWER, SMALLEST_VALUE, log_of

BLOCK_VALUES = 2**24  # upper bound on the values of a block of rows; patterns make them far fewer
MOST_ROWS = 4096  # in a block: more have little more in common
FEWEST_ROWS = 64


class Structure(NamedTuple):
    """What the walks need of a circuit, or of a part of it; sums come after all leaves."""

    vtree_left: IntArray
    vtree_right: IntArray
    vtree_var: IntArray
    column_leaves: IntArray  # (n_columns + 1,) leaves of column c
    leaf_row: IntArray  # (n_leaves,) where its values of all codes start
    vtree_sums: IntArray  # (n_vtree + 1,) sums of vtree node v, from zero
    sum_edges: IntArray  # (n_sums + 1,)
    edge_left: IntArray
    edge_right: IntArray


class Patterns(NamedTuple):
    """What the rows of a block have in common, by vtree node."""

    first: IntArray  # (n_vtree + 1,) patterns of vtree node v are first[v]:first[v + 1]
    left: AnyArray  # (n_patterns,) pattern of the left child, from zero; the code at a leaf
    right: AnyArray  # (n_patterns,) pattern of the right child; both uint32, which index faster
    row: IntArray  # (n_vtree, n_rows) pattern of every row


class Values(NamedTuple):
    """A value per node and pattern, scaled by a power of two per pattern."""

    node_at: AnyArray  # (n_nodes,) where the values of a node start
    value: FloatArray  # the patterns of one node side by side
    scale: FloatArray  # (n_patterns,) what the values were multiplied by, at this vtree node
    exponent: AnyArray  # (n_patterns,) of two, taken out here and below
    is_lost: AnyArray  # (n_patterns,) whether digits were lost, here or below


class Parameters(NamedTuple):
    """The parameters themselves, of every component; where logs are needed is told apart."""

    theta: FloatArray  # (k, n_edges)
    table: FloatArray  # (k, n_leaf_rows)
    is_moderate: AnyArray  # (k,)


def rows_per_block(n_nodes: int, n_rows: int) -> int:
    """How many rows to take together when each needs a value per node."""
    return max(1, min(n_rows, max(FEWEST_ROWS, min(MOST_ROWS, BLOCK_VALUES // n_nodes))))


@kernel
def find_patterns(codes: AnyArray, p: Structure) -> Patterns:
    """The patterns of a block of rows, from the leaves of the vtree up."""
    n_rows, n_vtree = len(codes), len(p.vtree_var)
    first = np.zeros(n_vtree + 1, dtype=np.int32)
    left = np.empty(n_vtree * n_rows, dtype=np.uint32)
    right = np.empty(n_vtree * n_rows, dtype=np.uint32)
    row = np.empty((n_vtree, n_rows), dtype=np.int32)
    n_slots = 8
    while n_slots < 2 * n_rows:
        n_slots *= 2
    key = np.empty(n_slots, dtype=np.int64)
    number = np.empty(n_slots, dtype=np.int32)
    total = 0
    for v in range(n_vtree):
        key[:] = NONE
        n_patterns = 0
        l, r, var = p.vtree_left[v], p.vtree_right[v], p.vtree_var[v]
        for s in range(n_rows):
            a = np.int64(codes[s, var]) if var != NONE else np.int64(row[l, s])
            b = np.int64(0) if var != NONE else np.int64(row[r, s])
            mine = (a << 31) + b
            mixed = a * 2654435761 ^ b * 1597334677
            slot = (mixed ^ (mixed >> 23)) & (n_slots - 1)
            while key[slot] != NONE and key[slot] != mine:
                slot = (slot + 1) & (n_slots - 1)
            if key[slot] == NONE:
                key[slot] = mine
                number[slot] = n_patterns
                left[total + n_patterns], right[total + n_patterns] = a, b
                n_patterns += 1
            row[v, s] = number[slot]
        total += n_patterns
        first[v + 1] = total
    return Patterns(first, left[:total], right[:total], row)


@kernel
def values_of(patterns: Patterns, p: Structure) -> Values:
    """Room for the values of all nodes."""
    n_vtree, n_patterns, n_leaves = len(p.vtree_var), len(patterns.left), len(p.leaf_row)
    node_at = np.zeros(n_leaves + len(p.sum_edges) - 1, dtype=np.int64)
    total = 0
    for v in range(n_vtree):
        width = patterns.first[v + 1] - patterns.first[v]
        var = p.vtree_var[v]
        if var != NONE:
            for l in range(p.column_leaves[var], p.column_leaves[var + 1]):
                node_at[l] = total
                total += width
        for i in range(p.vtree_sums[v], p.vtree_sums[v + 1]):
            node_at[n_leaves + i] = total
            total += width
    return Values(
        node_at,
        np.empty(total),
        np.empty(n_patterns),
        np.empty(n_patterns, dtype=np.int64),
        np.empty(n_patterns, dtype=np.bool_),
    )


@kernel
def _scale_of(top: float) -> tuple[float, int]:
    """The power of two that brings the largest value of a vtree node near one, and its opposite."""
    if not top > 0.0 or FAINT <= top <= 1.0 / FAINT:
        return 1.0, 0
    power = max(math.frexp(top)[1], LOWEST_POWER)
    return math.ldexp(1.0, -power), power


@kernel
def pass_patterns(
    patterns: Patterns, p: Structure, table: FloatArray, edge_theta: FloatArray, values: Values
) -> None:
    """Fill `values`, from the leaves up; compare `circuits.passes.pass_up`."""
    node_at, value, scale, exponent, is_lost = values
    n_leaves = len(p.leaf_row)
    for v in range(len(p.vtree_var)):
        start, width = patterns.first[v], patterns.first[v + 1] - patterns.first[v]
        left, right = patterns.left[start : start + width], patterns.right[start : start + width]
        var = p.vtree_var[v]
        if var != NONE:
            for l in range(p.column_leaves[var], p.column_leaves[var + 1]):
                at, row = node_at[l], p.leaf_row[l]
                for u in range(width):
                    value[at + u] = table[row + left[u]]
            for u in range(width):
                scale[start + u] = 1.0
                exponent[start + u] = 0
                is_lost[start + u] = False
            continue
        l_first = np.int64(patterns.first[p.vtree_left[v]])
        r_first = np.int64(patterns.first[p.vtree_right[v]])
        for i in range(p.vtree_sums[v], p.vtree_sums[v + 1]):
            at = node_at[n_leaves + i]
            mine = value[at : at + width]
            mine[:] = 0.0
            for e in range(p.sum_edges[i], p.sum_edges[i + 1]):
                theta = edge_theta[e]
                below, beside = value[node_at[p.edge_left[e]] :], value[node_at[p.edge_right[e]] :]
                for u in range(width):
                    mine[u] += theta * below[left[u]] * beside[right[u]]
        for u in range(width):
            a, b = l_first + left[u], r_first + right[u]
            top, low = 0.0, np.inf
            for i in range(p.vtree_sums[v], p.vtree_sums[v + 1]):
                own = value[node_at[n_leaves + i] + u]
                top = max(top, own)
                if own > 0.0:
                    low = min(low, own)
            factor, power = _scale_of(top)
            if power:
                for i in range(p.vtree_sums[v], p.vtree_sums[v + 1]):
                    value[node_at[n_leaves + i] + u] *= factor
            scale[start + u], exponent[start + u] = factor, exponent[a] + exponent[b] + power
            is_lost[start + u] = is_lost[a] or is_lost[b] or low * factor < SMALLEST_VALUE


MOST_VALUES = 2**23  # of the questions about one row that share a pass, unless they are few
FEWEST_QUESTIONS = 32


@kernel
def answer_rows(
    codes: AnyArray,
    asked_start: AnyArray,
    asked: AnyArray,
    p: Structure,
    table: FloatArray,
    theta: FloatArray,
    log_p: FloatArray,
    log_asked: FloatArray,
    is_lost: AnyArray,
    is_asked_lost: AnyArray,
) -> None:
    """The logs of rows `(n_rows, k)`, and of the questions about them.

    Row by row and component by component: one pass for the row, one for its questions.
    """
    n_leaves = len(p.leaf_row)
    n_nodes = n_leaves + len(p.sum_edges) - 1
    value = np.empty(n_nodes)
    exponents = np.empty(len(p.vtree_var), dtype=np.int64)
    is_met = np.zeros(n_nodes, dtype=np.bool_)
    kept = np.empty(len(p.edge_left), dtype=np.int32)
    step = max(FEWEST_QUESTIONS, MOST_VALUES // n_nodes)
    for s in range(len(codes)):
        first, last = asked_start[s], asked_start[s + 1]
        for start in range(first, max(last, first + 1), step):
            stop = min(start + step, last)
            some = asked[start:stop]
            patterns = find_patterns(some, p)
            for c in range(len(theta)):
                lost = _pass_row(codes[s], p, table[c], theta[c], value, exponents)
                log_p[s, c] = log_of(value[n_nodes - 1], exponents[len(exponents) - 1])
                is_lost[s, c] = lost
                if lost or len(some) == 0:
                    continue
                is_asked_lost[start:stop, c] = False
                if value[n_nodes - 1] == 0.0:
                    log_asked[start:stop, c] = -np.inf
                    continue
                own, own_theta = _take_out(value, p, theta[c], is_met, kept)
                logs, losses = log_asked[start:stop, c], is_asked_lost[start:stop, c]
                _answer_row(patterns, own, table[c], own_theta, logs, losses)


@kernel
def _pass_row(
    codes: AnyArray,
    p: Structure,
    table: FloatArray,
    edge_theta: FloatArray,
    value: FloatArray,
    exponents: AnyArray,
) -> bool:
    """Fill `value` (n_nodes,) for one row, as in `pass_patterns`; whether digits are lost."""
    n_leaves = len(p.leaf_row)
    is_lost = False
    for v in range(len(p.vtree_var)):
        var = p.vtree_var[v]
        exponents[v] = 0
        if var != NONE:
            for l in range(p.column_leaves[var], p.column_leaves[var + 1]):
                value[l] = table[p.leaf_row[l] + codes[var]]
            continue
        exponents[v] = exponents[p.vtree_left[v]] + exponents[p.vtree_right[v]]
        top, low = 0.0, np.inf
        for i in range(p.vtree_sums[v], p.vtree_sums[v + 1]):
            total = 0.0
            for e in range(p.sum_edges[i], p.sum_edges[i + 1]):
                total += edge_theta[e] * value[p.edge_left[e]] * value[p.edge_right[e]]
            value[n_leaves + i] = total
            top = max(top, total)
            if total > 0.0:
                low = min(low, total)
        scale, power = _scale_of(top)
        if power:
            exponents[v] += power
            for i in range(p.vtree_sums[v], p.vtree_sums[v + 1]):
                value[n_leaves + i] *= scale
        is_lost |= low * scale < SMALLEST_VALUE
    return is_lost


@kernel
def _answer_row(
    patterns: Patterns,
    p: Structure,
    table: FloatArray,
    edge_theta: FloatArray,
    log_asked: FloatArray,
    is_lost: AnyArray,
) -> None:
    """Fill the log-probabilities of some questions about one row."""
    values = values_of(patterns, p)
    pass_patterns(patterns, p, table, edge_theta, values)
    top = len(p.vtree_var) - 1
    at = values.node_at[len(values.node_at) - 1]
    for i in range(len(log_asked)):
        u = patterns.row[top, i]
        log_asked[i] = log_of(values.value[at + u], values.exponent[patterns.first[top] + u])
        is_lost[i] = values.is_lost[patterns.first[top] + u]


@kernel
def _take_out(
    value: FloatArray, p: Structure, edge_theta: FloatArray, is_met: AnyArray, kept: IntArray
) -> tuple[Structure, FloatArray]:
    """The part of the circuit that a row can reach from the root; `is_met` is left all false.

    One function, because the compiler counts references to arrays that are handed on.
    """
    vtree_sums, sum_edges = p.vtree_sums, p.sum_edges
    edge_left, edge_right = p.edge_left, p.edge_right
    n_vtree, n_leaves = len(p.vtree_var), len(p.leaf_row)
    n_sums = n_kept = n_own_leaves = 0
    is_met[len(value) - 1] = True
    for v in range(n_vtree - 1, -1, -1):
        for i in range(vtree_sums[v + 1] - 1, vtree_sums[v] - 1, -1):
            if not is_met[n_leaves + i]:
                continue
            n_sums += 1
            for e in range(sum_edges[i + 1] - 1, sum_edges[i] - 1, -1):
                l, r = edge_left[e], edge_right[e]
                if edge_theta[e] == 0.0 or value[l] == 0.0 or value[r] == 0.0:
                    continue
                is_met[l] = True
                is_met[r] = True
                kept[n_kept] = e
                n_kept += 1
    number = np.empty(len(value), dtype=np.int32)
    column_leaves = np.zeros(len(p.column_leaves), dtype=np.int32)
    leaf_row = np.empty(n_leaves, dtype=np.int32)
    for c in range(len(p.column_leaves) - 1):
        for l in range(p.column_leaves[c], p.column_leaves[c + 1]):
            if is_met[l]:
                is_met[l] = False
                number[l] = n_own_leaves
                leaf_row[n_own_leaves] = p.leaf_row[l]
                n_own_leaves += 1
        column_leaves[c + 1] = n_own_leaves
    own_first = np.zeros(n_vtree + 1, dtype=np.int32)
    own_edges = np.zeros(n_sums + 1, dtype=np.int32)
    left = np.empty(n_kept, dtype=np.int32)
    right = np.empty(n_kept, dtype=np.int32)
    theta = np.empty(n_kept)
    n_sums = n_edges = 0
    for v in range(n_vtree):
        for i in range(vtree_sums[v], vtree_sums[v + 1]):
            if not is_met[n_leaves + i]:
                continue
            is_met[n_leaves + i] = False
            # Kept edges were met from the last to the first.
            while n_edges < n_kept and kept[n_kept - 1 - n_edges] < sum_edges[i + 1]:
                e = kept[n_kept - 1 - n_edges]
                if e < sum_edges[i]:
                    break
                left[n_edges] = number[edge_left[e]]
                right[n_edges] = number[edge_right[e]]
                theta[n_edges] = edge_theta[e]
                n_edges += 1
            number[n_leaves + i] = n_own_leaves + n_sums
            n_sums += 1
            own_edges[n_sums] = n_edges
        own_first[v + 1] = n_sums
    own = Structure(
        p.vtree_left,
        p.vtree_right,
        p.vtree_var,
        column_leaves,
        leaf_row[:n_own_leaves],
        own_first,
        own_edges,
        left,
        right,
    )
    return own, theta
