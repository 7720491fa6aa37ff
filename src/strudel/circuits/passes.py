"""Passes up and down a circuit, eight lanes side by side.

In:  the structure of a circuit (`Plan`), its parameters, and the values of its leaves.
Out: the value of every node under the evidence, and how probable it is to pass a node.

A lane is a row of evidence with its parameters: eight rows of one circuit share their parameters,
eight components of a mixture have their own. Lanes go through the circuit in linear space. All
nodes of one vtree node share one power of two per lane as their scale, taken out when the largest
gets small or large: no `exp` or `log` per edge, and nothing underflows unless two nodes over the
same variables differ by a factor of 1e90. Such lanes are found, to be evaluated again in logs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from strudel._numba import kernel, lane
from strudel._types import NONE, AnyArray, FloatArray, IntArray

LANES = 8  # rows or components side by side: one cache line of float64
SMALLEST_LOG_THETA = -138.0  # 1e-60: two values and a parameter multiply to 1e-300 or more
FAINT = 2.0**-100  # values are scaled when the largest of a vtree node leaves FAINT..1/FAINT
LOWEST_POWER = -1020  # of two that a scale undoes: 2.0**1074 is no float
SMALLEST_VALUE = 1e-120  # no value except zero may fall below this, once scaled


class Plan(NamedTuple):
    """What the passes need of a circuit's structure, in the order they need it.

    Its parameters come beside it: `(n_edges,)` for all lanes, or `(n_edges, LANES)` for each.
    """

    vtree_left: IntArray
    vtree_right: IntArray
    vtree_var: IntArray
    vtree_first: IntArray  # sums of vtree node v are sums[vtree_first[v]:vtree_first[v + 1]]
    sums: IntArray
    sum_vtree: IntArray  # vtree node of every sum, in the order of their numbers
    node_edges: IntArray
    edge_left: IntArray
    edge_right: IntArray


def distinct_rows(codes: AnyArray) -> tuple[AnyArray, IntArray]:
    """The distinct rows of a code matrix, and for each row its place among them."""
    if len(codes) < 2:
        return codes, np.zeros(len(codes), dtype=np.int32)
    keys = (
        np.ascontiguousarray(codes)
        .view(np.dtype((np.void, codes.dtype.itemsize * codes.shape[1])))
        .ravel()
    )
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    return codes[first], place.astype(np.int32)


def are_moderate(edge_log_theta: FloatArray) -> AnyArray:
    """Whether all parameters are zero or neither absurdly small nor large; one answer a column."""
    is_moderate = np.abs(edge_log_theta) <= -SMALLEST_LOG_THETA
    return np.asarray((is_moderate | (edge_log_theta == -np.inf)).all(axis=0))


@kernel
def log_of(value: float, exponent: int) -> float:
    """Log of ``value * 2**exponent``."""
    return math.log(value) + exponent * math.log(2.0) if value > 0.0 else -np.inf


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
    p: Plan,
    edge_theta: FloatArray,
    value: FloatArray,
    scale: FloatArray,
    exponent: AnyArray,
) -> int:
    """Fill `value` (scaled) of the sums, `scale` and `exponent` from the values of the literals.

    A sum's value before scaling is ``value / scale``. Returns a bit per lane that lost digits.
    """
    lost = 0
    top = np.empty(LANES)  # largest value of the vtree node's sums
    low = np.empty(LANES)  # smallest that is not zero
    for v in range(len(p.vtree_var)):
        first, last = p.vtree_first[v], p.vtree_first[v + 1]
        is_leaf = p.vtree_var[v] != NONE
        for b in range(LANES):
            exponent[v, b] = 0
            if not is_leaf:
                exponent[v, b] = exponent[p.vtree_left[v], b] + exponent[p.vtree_right[v], b]
            top[b] = 0.0
            low[b] = np.inf
            scale[v, b] = 1.0
        for k in range(first, last):
            n = p.sums[k]
            mine = value[n]
            for b in range(LANES):
                mine[b] = 0.0
            for e in range(p.node_edges[n], p.node_edges[n + 1]):
                theta, left = edge_theta[e], value[p.edge_left[e]]
                if is_leaf:
                    for b in range(LANES):
                        mine[b] += lane(theta, b) * left[b]
                else:
                    right = value[p.edge_right[e]]
                    for b in range(LANES):
                        mine[b] += lane(theta, b) * left[b] * right[b]
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
                power = max(power, LOWEST_POWER)
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


@kernel
def pass_down(
    p: Plan,
    root: int,
    edge_theta: FloatArray,
    value: FloatArray,
    scale: FloatArray,
    flow: FloatArray,
) -> None:
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
                theta, l, r = edge_theta[e], p.edge_left[e], p.edge_right[e]
                left, to_left = value[l], flow[l]
                if is_leaf:
                    for b in range(LANES):
                        to_left[b] += share[b] * lane(theta, b) * left[b]
                else:
                    right, to_right = value[r], flow[r]
                    for b in range(LANES):
                        through = share[b] * lane(theta, b) * left[b] * right[b]
                        to_left[b] += through
                        to_right[b] += through
