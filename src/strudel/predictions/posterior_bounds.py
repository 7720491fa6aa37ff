"""Bounds on a conditional expectation, over all states of variables that may still become known.

In:  a `Circuit` in normal form, a weighted sum of its variables (or a conjunction of literals), the
     *open* variables, and rows as codes.
Out: for each row, an interval that contains E[sum | row, state] for every state of the open
     variables that the row does not know; all other unknown variables are summed out.

One pass up keeps two intervals per node: of its value, and of the expectation below it. Those of
the two sides of a product add up (for a conjunction: multiply). At a sum the expectation is a
weighted mean of those of its edges, and the weights are the values; within their intervals they are
chosen for the largest mean, which takes all that is above it at its most and the rest at its least.
Edges that need the two values of one open variable are never averaged with each other.
"""

from __future__ import annotations

import numpy as np

from strudel._numba import kernel, parallel_kernel, prange
from strudel._types import NONE, AnyArray, ByteArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.queries.passes import UNKNOWN, Plan, plan

SMALLEST = 1e-120  # upper ends of values are raised to it, which keeps them upper ends
SMALLEST_THETA = 1e-60  # and those of parameters to this, so that products do not vanish


class PosteriorBounds:
    """Intervals of conditional expectations under one circuit.

    Examples
    --------
    >>> from strudel import figure_1_circuit
    >>> bounds = PosteriorBounds(figure_1_circuit(), np.array([2, 3]))  # X3 and X4 are open
    >>> weight = np.array([1.0, 0.0, 0.0, 0.0])
    >>> row = np.full((1, 4), UNKNOWN, dtype=np.uint8)
    >>> bounds.of_sum(weight, row)  # X1 has probability 0.4 or 0.7, by X3
    (array([0.4]), array([0.7]))
    """

    def __init__(self, circuit: Circuit, open_vars: AnyArray) -> None:
        self._circuit = circuit
        self._plan = plan(circuit)
        theta = circuit.theta
        most = np.where(theta > 0.0, np.maximum(theta, SMALLEST_THETA), 0.0)
        self._theta = np.column_stack([theta, most])
        self._is_open = np.zeros(circuit.n_vars, dtype=np.bool_)
        self._is_open[open_vars] = True
        self._node_var, self._edge_value, self._edge_rest = _find_splits(circuit)

    def of_sum(self, weight: FloatArray, codes: ByteArray) -> tuple[FloatArray, FloatArray]:
        """Bounds on the expectation of the variables weighted by `weight`."""
        literal = np.zeros(2 * self._circuit.n_vars)
        literal[1::2] = weight
        return self._run(literal, codes, is_product=False)

    def of_conjunction(self, literals: AnyArray, codes: ByteArray) -> tuple[FloatArray, FloatArray]:
        """Bounds on the probability of a conjunction of literals."""
        literal = np.ones(2 * self._circuit.n_vars)
        literal[np.asarray(literals) ^ 1] = 0.0
        return self._run(literal, codes, is_product=True)

    def _run(
        self, literal: FloatArray, codes: ByteArray, is_product: bool
    ) -> tuple[FloatArray, FloatArray]:
        low, high = np.empty(len(codes)), np.empty(len(codes))
        _posterior_bounds(
            np.ascontiguousarray(codes),
            self._plan,
            self._theta,
            self._is_open,
            self._node_var,
            self._edge_value,
            self._edge_rest,
            literal,
            is_product,
            low,
            high,
        )
        return low, high


def _find_splits(circuit: Circuit) -> tuple[IntArray, ByteArray, IntArray]:
    """Sums all of whose edges hold a literal of one variable.

    Per node that variable or NONE, per edge the literal's value, and its other child or NONE.
    """
    node_var = np.full(circuit.n_nodes, NONE, dtype=np.int32)
    edge_value = np.zeros(circuit.n_edges, dtype=np.uint8)
    edge_rest = np.full(circuit.n_edges, NONE, dtype=np.int32)
    n_literals, parent = 2 * circuit.n_vars, circuit.edge_parent
    for literal, rest in (
        (circuit.edge_right, circuit.edge_left),
        (circuit.edge_left, circuit.edge_right),
    ):
        is_literal = (literal >= 0) & (literal < n_literals)
        var = np.where(is_literal, literal // 2, NONE)
        least = np.full(circuit.n_nodes, circuit.n_vars, dtype=np.int64)
        most = np.full(circuit.n_nodes, NONE, dtype=np.int64)
        np.minimum.at(least, parent, var)
        np.maximum.at(most, parent, var)
        is_split = (least == most) & (most != NONE)
        node_var[is_split] = most[is_split]
        edges = is_split[parent]
        edge_value[edges] = literal[edges] % 2
        edge_rest[edges] = rest[edges]
    return node_var, edge_value, edge_rest


@parallel_kernel
def _posterior_bounds(
    codes: ByteArray,
    p: Plan,
    edge_theta: FloatArray,
    is_open: AnyArray,
    node_var: IntArray,
    edge_value: ByteArray,
    edge_rest: IntArray,
    literal: FloatArray,
    is_product: bool,
    low: FloatArray,
    high: FloatArray,
) -> None:
    """One pass up per row."""
    n_nodes = len(p.node_edges) - 1
    n_chunks = min(len(codes), 16)
    widest = 1
    for n in range(n_nodes):
        widest = max(widest, p.node_edges[n + 1] - p.node_edges[n])
    for chunk in prange(n_chunks):
        # Least and most of a node's value, least and most of the expectation below it.
        state = np.zeros((n_nodes, 4))
        items = np.empty((widest, 4))
        for s in range(np.int64(chunk), len(codes), n_chunks):
            _pass_up(
                codes[s],
                p,
                edge_theta,
                is_open,
                node_var,
                edge_value,
                edge_rest,
                literal,
                is_product,
                state,
                items,
            )
            low[s], high[s] = state[n_nodes - 1, 2], state[n_nodes - 1, 3]


@kernel
def _pass_up(
    codes: ByteArray,
    p: Plan,
    edge_theta: FloatArray,
    is_open: AnyArray,
    node_var: IntArray,
    edge_value: ByteArray,
    edge_rest: IntArray,
    literal: FloatArray,
    is_product: bool,
    state: FloatArray,
    items: FloatArray,
) -> None:
    """Fill `state` (n_nodes, 4); values of one vtree node share a scale: only ratios count."""
    part = np.empty(4)
    for v in range(len(p.vtree_var)):
        var = p.vtree_var[v]
        if var != NONE:
            for x in range(2):
                is_possible = codes[var] == UNKNOWN or codes[var] == x
                is_free = codes[var] == UNKNOWN and is_open[var]
                state[2 * var + x, 0] = 1.0 if is_possible and not is_free else 0.0
                state[2 * var + x, 1] = 1.0 if is_possible else 0.0
                state[2 * var + x, 2] = literal[2 * var + x]
                state[2 * var + x, 3] = literal[2 * var + x]
        top = 0.0
        for k in range(p.vtree_first[v], p.vtree_first[v + 1]):
            n = p.sums[k]
            split = node_var[n]
            if split != NONE and codes[split] == UNKNOWN and is_open[split]:
                mine = state[n]
                mine[0], mine[1], mine[2], mine[3] = np.inf, 0.0, np.inf, -np.inf
                for x in range(2):
                    size = 0
                    for e in range(p.node_edges[n], p.node_edges[n + 1]):
                        if edge_value[e] != x:
                            continue
                        rest = edge_rest[e]
                        if rest == NONE:
                            items[size, 0] = edge_theta[e, 0]
                            items[size, 1] = edge_theta[e, 1]
                            items[size, 2] = items[size, 3] = literal[2 * split + x]
                        else:
                            _join(
                                edge_theta[e],
                                1.0,
                                1.0,
                                literal[2 * split + x],
                                literal[2 * split + x],
                                state[rest],
                                is_product,
                                items[size],
                            )
                        size += items[size, 1] > 0.0
                    _mean(items, size, part)
                    mine[0] = min(mine[0], part[0])
                    mine[1] = max(mine[1], part[1])
                    if size > 0:
                        mine[2] = min(mine[2], part[2])
                        mine[3] = max(mine[3], part[3])
            else:
                size = 0
                for e in range(p.node_edges[n], p.node_edges[n + 1]):
                    left = state[p.edge_left[e]]
                    if p.edge_right[e] == NONE:
                        items[size, 0] = edge_theta[e, 0] * left[0]
                        items[size, 1] = edge_theta[e, 1] * left[1]
                        items[size, 2] = left[2]
                        items[size, 3] = left[3]
                    else:
                        _join(
                            edge_theta[e],
                            left[0],
                            left[1],
                            left[2],
                            left[3],
                            state[p.edge_right[e]],
                            is_product,
                            items[size],
                        )
                    size += items[size, 1] > 0.0
                _mean(items, size, state[n])
            top = max(top, state[n, 1])
        if var == NONE and top > 0.0:  # literals stand beside the sums of a leaf
            for k in range(p.vtree_first[v], p.vtree_first[v + 1]):
                n = p.sums[k]
                state[n, 0] /= top
                if state[n, 1] > 0.0:
                    state[n, 1] = max(state[n, 1] / top, SMALLEST)


@kernel
def _join(
    theta: FloatArray,
    value_low: float,
    value_high: float,
    low: float,
    high: float,
    other: FloatArray,
    is_product: bool,
    item: FloatArray,
) -> None:
    """One product: values multiply; expectations add up, or multiply where none is negative."""
    item[0] = theta[0] * value_low * other[0]
    item[1] = theta[1] * value_high * other[1]
    if is_product:
        item[2], item[3] = low * other[2], high * other[3]
    else:
        item[2], item[3] = low + other[2], high + other[3]


@kernel
def _mean(items: FloatArray, size: int, result: FloatArray) -> None:
    """The intervals of a weighted sum and of the weighted mean of `size` items."""
    result[0] = result[1] = 0.0
    if size == 0:
        result[2] = result[3] = 0.0
        return
    for i in range(size):
        result[0] += items[i, 0]
        result[1] += items[i, 1]
    result[3] = _largest_mean(items, size, 3, 1.0)
    result[2] = -_largest_mean(items, size, 2, -1.0)


@kernel
def _largest_mean(items: FloatArray, size: int, column: int, sign: float) -> float:
    """The largest mean of ``sign * items[:, column]`` with weights between columns 0 and 1."""
    for i in range(1, size):  # sort, the largest first
        j = i
        while j > 0 and sign * items[j, column] > sign * items[j - 1, column]:
            for c in range(4):
                items[j, c], items[j - 1, c] = items[j - 1, c], items[j, c]
            j -= 1
    weight = total = 0.0
    for i in range(size):
        weight += items[i, 0]
        total += items[i, 0] * sign * items[i, column]
    best = -np.inf
    for i in range(size):
        more = items[i, 1] - items[i, 0]
        weight += more
        total += more * sign * items[i, column]
        if weight > 0.0:
            best = max(best, total / weight)
    # Rounding must not take the mean out of what it is a mean of.
    return min(best, sign * items[0, column])
