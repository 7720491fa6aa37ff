"""Passes over a circuit that compute once what rows have in common.

In:  a circuit in normal form, and rows of evidence as codes.
Out: `Patterns` of the rows, and the value of every node for each.

The value of a node depends on what is known of the variables below its vtree node, and on nothing
else. Rows with the same codes there share a *pattern*, and every node has one value per pattern.
Near the leaves of the vtree there are few patterns however many rows there are.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.queries.passes import FAINT, LOWEST_POWER, SMALLEST_VALUE, Plan, plan

BLOCK_VALUES = 2**24  # upper bound on the values of a block of rows; patterns make them far fewer
MOST_ROWS = 4096  # in a block: more have little more in common
FEWEST_ROWS = 64


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


def component_theta(mixture: Mixture) -> FloatArray:
    """The parameters themselves, `(n_components, n_edges)`."""
    with np.errstate(over="ignore"):  # such components are left to logs
        return np.ascontiguousarray(np.exp(mixture.edge_log_theta).T)


def own_plan(circuit: Circuit) -> Plan:
    """A circuit laid out in arrays that may be written to, as those of a part of it are.

    The compiler takes them for another type than those of the circuit itself.
    """
    return Plan(*(np.array(array) for array in plan(circuit)))


def rows_per_block(n_nodes: int, n_rows: int) -> int:
    """How many rows to take together when each needs a value per node."""
    return max(1, min(n_rows, max(FEWEST_ROWS, min(MOST_ROWS, BLOCK_VALUES // n_nodes))))


@kernel
def find_patterns(codes: AnyArray, p: Plan) -> Patterns:
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
        n_found = 0
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
                number[slot] = n_found
                left[total + n_found], right[total + n_found] = a, b
                n_found += 1
            row[v, s] = number[slot]
        total += n_found
        first[v + 1] = total
    return Patterns(first, left[:total], right[:total], row)


@kernel
def values_of(patterns: Patterns, p: Plan) -> Values:
    """Room for the values of all nodes."""
    n_vtree, n_patterns = len(p.vtree_var), len(patterns.left)
    node_at = np.zeros(len(p.node_edges) - 1, dtype=np.int64)
    total = 0
    for v in range(n_vtree):
        width = patterns.first[v + 1] - patterns.first[v]
        if p.vtree_var[v] != NONE:
            node_at[2 * p.vtree_var[v]] = total
            node_at[2 * p.vtree_var[v] + 1] = total + width
            total += 2 * width
        for k in range(p.vtree_first[v], p.vtree_first[v + 1]):
            node_at[p.sums[k]] = total
            total += width
    return Values(
        node_at,
        np.empty(total),
        np.empty(n_patterns),
        np.empty(n_patterns, dtype=np.int64),
        np.empty(n_patterns, dtype=np.bool_),
    )


@kernel
def pass_patterns(patterns: Patterns, p: Plan, edge_theta: FloatArray, values: Values) -> None:
    """Fill `values`, from the literals up; compare `pass_up`."""
    node_at, value, scale, exponent, is_lost = values
    for v in range(len(p.vtree_var)):
        start, width = patterns.first[v], patterns.first[v + 1] - patterns.first[v]
        left, right = patterns.left[start : start + width], patterns.right[start : start + width]
        is_leaf = p.vtree_var[v] != NONE
        l_first, r_first = np.int64(0), np.int64(0)
        if is_leaf:
            zero = node_at[2 * p.vtree_var[v]]
            one = node_at[2 * p.vtree_var[v] + 1]
            for u in range(width):
                value[zero + u] = 1.0 if left[u] != 1 else 0.0
                value[one + u] = 1.0 if left[u] != 0 else 0.0
        else:
            l_first = np.int64(patterns.first[p.vtree_left[v]])
            r_first = np.int64(patterns.first[p.vtree_right[v]])
        for k in range(p.vtree_first[v], p.vtree_first[v + 1]):
            n = p.sums[k]
            mine = value[node_at[n] : node_at[n] + width]
            mine[:] = 0.0
            for e in range(p.node_edges[n], p.node_edges[n + 1]):
                theta, below = edge_theta[e], value[node_at[p.edge_left[e]] :]
                if is_leaf:
                    for u in range(width):
                        mine[u] += theta * below[u]
                else:
                    beside = value[node_at[p.edge_right[e]] :]
                    for u in range(width):
                        mine[u] += theta * below[left[u]] * beside[right[u]]
        for u in range(width):
            scale[start + u] = 1.0
            exponent[start + u] = 0
            is_lost[start + u] = False
            if is_leaf:  # literals stand beside the sums of a leaf, so these keep scale 1
                continue
            a, b = l_first + left[u], r_first + right[u]
            exponent[start + u] = exponent[a] + exponent[b]
            is_lost[start + u] = is_lost[a] or is_lost[b]
            top, low = 0.0, np.inf
            for k in range(p.vtree_first[v], p.vtree_first[v + 1]):
                one_value = value[node_at[p.sums[k]] + u]
                top = max(top, one_value)
                if one_value > 0.0:
                    low = min(low, one_value)
            if top > 0.0 and not FAINT <= top <= 1.0 / FAINT:
                _, power = math.frexp(top)
                power = max(power, LOWEST_POWER)
                scale[start + u] = math.ldexp(1.0, -power)
                exponent[start + u] += power
                low *= scale[start + u]
                for k in range(p.vtree_first[v], p.vtree_first[v + 1]):
                    value[node_at[p.sums[k]] + u] *= scale[start + u]
            if low < SMALLEST_VALUE:
                is_lost[start + u] = True
