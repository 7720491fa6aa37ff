"""Passes over a relaxation: an upper bound for every partial assignment, eight side by side.

In:  a `Relaxation`, and rows of codes that give some of its open variables a value.
Out: per row a log upper bound on the probability of its states, and one state to try.

Values are scaled per vtree node as in `passes`. A value too small to multiply is made larger, since
that keeps it a bound.
"""

from __future__ import annotations

import math

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.passes import LANES, LOWEST_POWER, SMALLEST_LOG_THETA, SMALLEST_VALUE, UNKNOWN
from strudel.circuits.scopes import BoolArray
from strudel.queries.maximum.relaxation import Relaxation


class RelaxationPass:
    """One relaxation with working memory for its passes.

    What lies below no open variable is evaluated once and kept.
    """

    def __init__(self, relaxation: Relaxation) -> None:
        n_nodes, n_vtree = len(relaxation.node_is_max), len(relaxation.vtree_var)
        smallest = math.exp(SMALLEST_LOG_THETA)
        self._relaxation = relaxation
        self._is_rough = bool(relaxation.edge_theta.min(initial=1.0) <= smallest)
        self._is_ready = False
        self._value = np.zeros((n_nodes, LANES))
        self._exponent = np.zeros((n_vtree, LANES), dtype=np.int64)
        self._n_open = np.zeros((n_vtree, LANES), dtype=np.int32)

    def bounds(self, codes: AnyArray) -> tuple[FloatArray, AnyArray, BoolArray]:
        """Log upper bounds, one state per row to try, and where a bound had to be raised.

        The bound of a row without open variables is its log-probability, unless it was raised.
        """
        log_bound = np.empty(len(codes))
        states = codes.copy()
        is_rough = np.zeros(len(codes), dtype=np.bool_)
        _bounds(
            codes,
            self._relaxation,
            self._is_ready,
            self._value,
            self._exponent,
            self._n_open,
            log_bound,
            states,
            is_rough,
        )
        if not self._is_ready:  # what is kept may be what was raised
            self._is_rough |= bool(is_rough.any())
            self._is_ready = True
        return log_bound, states, is_rough | self._is_rough


@kernel
def _bounds(
    codes: AnyArray,
    r: Relaxation,
    is_ready: bool,
    value: FloatArray,
    exponent: AnyArray,
    n_open: IntArray,
    log_bound: FloatArray,
    states: AnyArray,
    is_rough: BoolArray,
) -> None:
    """One pass up per block of rows, then one walk down per row.

    On one thread: a search asks for a few rows at a time, which is over before others wake up.
    """
    root, v_root = len(r.node_is_max) - 1, len(r.vtree_var) - 1
    stack = np.empty((v_root + 2, 2), dtype=np.int32)
    for start in range(0, len(codes), LANES):
        width = min(LANES, len(codes) - start)
        rough = _bound_values(
            codes, start, width, r, is_ready or start > 0, value, exponent, n_open
        )
        for b in range(width):
            is_rough[start + b] |= (rough >> b & 1) == 1
            log_bound[start + b] = -np.inf
            if value[root, b] > 0.0:
                log_bound[start + b] = np.log(value[root, b]) + exponent[v_root, b] * np.log(2.0)
                _walk_to_bound(r, value, n_open, b, stack, states[start + b])


@kernel
def _bound_values(
    codes: AnyArray,
    start: int,
    width: int,
    r: Relaxation,
    is_ready: bool,
    value: FloatArray,
    exponent: AnyArray,
    n_open: IntArray,
) -> int:
    """Fill values, exponents and numbers of open variables; returns a bit per raised lane."""
    rough = 0
    total = np.empty(LANES)
    top = np.empty(LANES)
    for v in range(len(r.vtree_var)):
        if is_ready and not r.vtree_is_open[v]:
            continue
        var = r.vtree_var[v]
        if var != NONE:
            for b in range(LANES):
                code = codes[start + min(b, width - 1), var]
                value[2 * var, b] = 1.0 if code != 1 else 0.0
                value[2 * var + 1, b] = 1.0 if code != 0 else 0.0
                exponent[v, b] = 0
                n_open[v, b] = r.vtree_is_open[v] and code == UNKNOWN
        else:
            v_left, v_right = r.vtree_left[v], r.vtree_right[v]
            for b in range(LANES):
                exponent[v, b] = exponent[v_left, b] + exponent[v_right, b]
                n_open[v, b] = n_open[v_left, b] + n_open[v_right, b]
        for b in range(LANES):
            top[b] = 0.0
        for n in range(r.vtree_first[v], r.vtree_first[v + 1]):
            for b in range(LANES):
                total[b] = 0.0
            for e in range(r.node_edges[n], r.node_edges[n + 1]):
                theta, left, right = r.edge_theta[e], r.edge_left[e], r.edge_right[e]
                # Four plain loops, because only those become vector instructions.
                if r.node_is_max[n] and right == NONE:
                    for b in range(LANES):
                        total[b] = max(total[b], theta * value[left, b])
                elif r.node_is_max[n]:
                    for b in range(LANES):
                        total[b] = max(total[b], theta * value[left, b] * value[right, b])
                elif right == NONE:
                    for b in range(LANES):
                        total[b] += theta * value[left, b]
                else:
                    for b in range(LANES):
                        total[b] += theta * value[left, b] * value[right, b]
            for b in range(LANES):
                value[n, b] = total[b]
                top[b] = max(top[b], total[b])
        if var != NONE:  # literals stand beside the sums of a leaf, and keep scale 1
            continue
        for b in range(LANES):
            _, power = math.frexp(top[b])
            power = max(power, LOWEST_POWER)
            exponent[v, b] += power
            top[b] = math.ldexp(1.0, -power)
        for n in range(r.vtree_first[v], r.vtree_first[v + 1]):
            for b in range(LANES):
                value[n, b] *= top[b]
                if 0.0 < value[n, b] < SMALLEST_VALUE:
                    value[n, b] = SMALLEST_VALUE
                    rough |= 1 << b
    return rough


@kernel
def _walk_to_bound(
    r: Relaxation, value: FloatArray, n_open: IntArray, b: int, stack: IntArray, state: AnyArray
) -> None:
    """Follow the largest edge of every sum and maximum as long as open variables lie below."""
    n_literals = 2 * len(state)
    stack[0, 0], stack[0, 1] = len(r.node_is_max) - 1, len(r.vtree_var) - 1
    size = 1
    while size > 0:
        size -= 1
        n, v = stack[size, 0], stack[size, 1]
        if n_open[v, b] == 0:
            continue
        if n < n_literals:
            state[n // 2] = n % 2
            continue
        best = NONE
        largest = 0.0
        for e in range(r.node_edges[n], r.node_edges[n + 1]):
            part = r.edge_theta[e] * value[r.edge_left[e], b]
            if r.edge_right[e] != NONE:
                part *= value[r.edge_right[e], b]
            if part > largest:
                best, largest = e, part
        if r.edge_right[best] == NONE:
            stack[size, 0], stack[size, 1] = r.edge_left[best], v
            size += 1
        else:
            stack[size, 0], stack[size, 1] = r.edge_left[best], r.vtree_left[v]
            stack[size + 1, 0], stack[size + 1, 1] = r.edge_right[best], r.vtree_right[v]
            size += 2
