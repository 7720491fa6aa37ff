"""Bounds on a conditional expectation, over all states of variables that may still become known.

In:  a `Circuit` in normal form, a weighted sum of its variables (or a conjunction of literals), the
     *open* variables, and rows as codes.
Out: for each row, an interval that contains E[sum | row, state] for every state of the open
     variables that the row does not know; all other unknown variables are summed out.

One pass up keeps two intervals per node: of its value, and of the expectation below it. Those of
the two sides of a product add up (for a conjunction: multiply). At a sum the expectation is a
weighted mean of those of its edges, and the weights are the values; within their intervals they are
chosen for the largest mean, which takes all that is above it at its most and the rest at its least.

A node may need an open variable to have one value, and then its intervals are over the states with
that value only. Edges of a sum that need different values never go together: the sum is split into
cases, by the states of a few such variables, and the intervals of the cases are joined.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strudel._numba import in_threads, kernel, lowest_bit
from strudel._types import NONE, AnyArray, ByteArray, FloatArray, IntArray, WordArray
from strudel.circuits.circuit import Circuit, Edges
from strudel.circuits.determinism import edge_needs, find_needs
from strudel.queries.conditional_parameters import conditional_parameters
from strudel.queries.maximum.relaxation import find_decided
from strudel.queries.passes import UNKNOWN, Plan, plan

SMALLEST = 1e-120  # upper ends of values are raised to it, which keeps them upper ends
N_KEPT = 8  # open variables remembered per node
N_CHOSEN = 3  # of which this many that a row leaves open are split on: eight cases
SMALLEST_THETA = 1e-60  # and those of parameters to this, so that products do not vanish


class _Question(NamedTuple):
    """What the pass needs besides a row: which variables are open, and what is expected."""

    edge_theta: FloatArray  # (n_edges, 2) the parameters, and upper ends of them
    is_open: AnyArray  # (n_vars,)
    place: AnyArray  # (n_vars,) of a variable in the words of `one` and `zero`
    one: WordArray  # (n_nodes, n_words) open variables that a node needs to be 1
    zero: WordArray  # (n_nodes, n_words) and to be 0
    node_splits: IntArray  # (n_nodes, N_KEPT) places by which to tell cases apart
    literal: FloatArray  # (2 * n_vars,) the expectation below every literal
    is_product: bool  # of a conjunction


class PosteriorBounds:
    """Intervals of conditional expectations under one circuit."""

    def __init__(self, circuit: Circuit, open_vars: AnyArray) -> None:
        self._circuit = circuit
        self._plan = plan(circuit)
        theta = circuit.theta
        most = np.where(theta > 0.0, np.maximum(theta, SMALLEST_THETA), 0.0)
        self._theta = np.column_stack([theta, most])
        self._is_open = np.zeros(circuit.n_vars, dtype=np.bool_)
        self._is_open[open_vars] = True
        is_live = circuit.edge_log_theta > -np.inf
        needs = find_needs(circuit, variables=np.asarray(open_vars), is_live=is_live)
        self._one, self._zero = needs.node_one, needs.node_zero
        self._place = circuit.vtree.node_span[0][circuit.vtree.var_leaf].astype(np.int64)
        self._node_splits = np.full((circuit.n_nodes, N_KEPT), NONE, dtype=np.int32)
        _fill_splits(circuit.edges, self._one, self._zero, self._node_splits)

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
        question = _Question(
            self._theta,
            self._is_open,
            self._place,
            self._one,
            self._zero,
            self._node_splits,
            literal,
            is_product,
        )
        rows = np.ascontiguousarray(codes)
        in_threads(_posterior_bounds, len(rows), rows, self._plan, question, low, high)
        return low, high


@kernel
def _fill_splits(edges: Edges, one: WordArray, zero: WordArray, splits: IntArray) -> None:
    """Fill `splits` (n_nodes, N_KEPT): the places of variables that its edges need differently.

    Those that most edges need come first.
    """
    n_needs = np.empty(64 * one.shape[1], dtype=np.int64)
    for n in range(len(splits)):
        n_needs[:] = 0
        for e in range(edges.node_edges[n], edges.node_edges[n + 1]):
            for w in range(one.shape[1]):
                edge_one, edge_zero = edge_needs(e, w, edges, one, zero)
                some = (edge_one & ~one[n, w]) | (edge_zero & ~zero[n, w])
                while some != np.uint64(0):
                    n_needs[64 * w + lowest_bit(some)] += 1
                    some &= some - np.uint64(1)
        for i in range(N_KEPT):
            best = np.argmax(n_needs)
            if n_needs[best] == 0:
                break
            splits[n, i] = best
            n_needs[best] = 0


@kernel
def _posterior_bounds(
    first: int,
    last: int,
    codes: ByteArray,
    p: Plan,
    question: _Question,
    low: FloatArray,
    high: FloatArray,
) -> None:
    """One pass up per row; what a row has in common with the one before it is kept."""
    n_nodes = len(p.node_edges) - 1
    widest = 1
    for n in range(n_nodes):
        widest = max(widest, p.node_edges[n + 1] - p.node_edges[n])
    # Least and most of a node's value, least and most of the expectation below it.
    state = np.zeros((n_nodes, 4))
    items = np.empty((widest, 4))
    words = np.empty((3, question.one.shape[1]), dtype=np.uint64)
    is_new = np.ones(len(p.vtree_var), dtype=np.bool_)
    for s in range(first, last):
        if s > first:
            _find_new(codes[s - 1], codes[s], p, is_new)
        _pass_up(codes[s], is_new, p, question, state, items, words)
        low[s], high[s] = state[n_nodes - 1, 2], state[n_nodes - 1, 3]


@kernel
def _find_new(before: ByteArray, codes: ByteArray, p: Plan, is_new: AnyArray) -> None:
    """Mark the vtree nodes below which two rows differ."""
    for v in range(len(is_new)):
        var = p.vtree_var[v]
        if var != NONE:
            is_new[v] = codes[var] != before[var]
        else:
            is_new[v] = is_new[p.vtree_left[v]] or is_new[p.vtree_right[v]]


@kernel
def _pass_up(
    codes: ByteArray,
    is_new: AnyArray,
    p: Plan,
    question: _Question,
    state: FloatArray,
    items: FloatArray,
    words: WordArray,
) -> None:
    """Fill `state` (n_nodes, 4); values of one vtree node share a scale: only ratios count."""
    edge_theta, is_open, place, one, zero, node_splits, literal, is_product = question
    part = np.empty(4)
    chosen = np.empty(N_CHOSEN, dtype=np.int64)
    free, is_one, is_zero = words[0], words[1], words[2]  # free: open and unknown in this row
    free[:] = np.uint64(0)
    for var in range(len(codes)):
        if codes[var] == UNKNOWN and is_open[var]:
            free[place[var] // 64] |= np.uint64(1) << np.uint64(place[var] % 64)
    for v in range(len(p.vtree_var)):
        if not is_new[v]:
            continue
        var = p.vtree_var[v]
        if var != NONE:
            for x in range(2):
                mine = state[2 * var + x]
                mine[0] = mine[1] = 1.0 if codes[var] == UNKNOWN or codes[var] == x else 0.0
                mine[2] = mine[3] = literal[2 * var + x]
        top = 0.0
        for k in range(p.vtree_first[v], p.vtree_first[v + 1]):
            n = p.sums[k]
            n_chosen = 0
            for i in range(N_KEPT):
                at = node_splits[n, i]
                if at == NONE or n_chosen == N_CHOSEN:
                    break
                if free[at // 64] >> np.uint64(at % 64) & np.uint64(1):
                    chosen[n_chosen] = at
                    n_chosen += 1
            mine = state[n]
            mine[0], mine[1], mine[2], mine[3] = np.inf, 0.0, np.inf, -np.inf
            for case in range(1 << n_chosen):
                is_one[:] = np.uint64(0)
                is_zero[:] = np.uint64(0)
                for i in range(n_chosen):
                    bit = np.uint64(1) << np.uint64(chosen[i] % 64)
                    if case >> i & 1:
                        is_one[chosen[i] // 64] |= bit
                    else:
                        is_zero[chosen[i] // 64] |= bit
                size = _edges_of_case(n, p, edge_theta, one, zero, words, is_product, state, items)
                _mean(items, size, part)
                mine[0] = min(mine[0], part[0])
                mine[1] = max(mine[1], part[1])
                if size > 0:
                    mine[2] = min(mine[2], part[2])
                    mine[3] = max(mine[3], part[3])
            if mine[1] == 0.0:  # impossible: there is no expectation
                mine[:] = 0.0
            top = max(top, mine[1])
        if var == NONE and top > 0.0:  # literals stand beside the sums of a leaf
            for k in range(p.vtree_first[v], p.vtree_first[v + 1]):
                n = p.sums[k]
                state[n, 0] /= top
                if state[n, 1] > 0.0:
                    state[n, 1] = max(state[n, 1] / top, SMALLEST)


@kernel
def _edges_of_case(
    n: int,
    p: Plan,
    edge_theta: FloatArray,
    one: WordArray,
    zero: WordArray,
    words: WordArray,
    is_product: bool,
    state: FloatArray,
    items: FloatArray,
) -> int:
    """Fill `items` with the edges that a case leaves possible; returns how many.

    An edge that needs more than its node and the case say may have the value zero.
    """
    size = 0
    for e in range(p.node_edges[n], p.node_edges[n + 1]):
        is_possible = is_sure = True
        for w in range(one.shape[1]):
            edge_one, edge_zero = edge_needs(e, w, p, one, zero)
            if (edge_one & words[2, w]) | (edge_zero & words[1, w]):
                is_possible = False
            more = (edge_one & ~one[n, w] & ~words[1, w]) | (edge_zero & ~zero[n, w] & ~words[2, w])
            if more & words[0, w]:
                is_sure = False
        if not is_possible:
            continue
        left, item = state[p.edge_left[e]], items[size]
        if p.edge_right[e] == NONE:
            item[0] = edge_theta[e, 0] * left[0]
            item[1] = edge_theta[e, 1] * left[1]
            item[2], item[3] = left[2], left[3]
        else:
            _join(edge_theta[e], left, state[p.edge_right[e]], is_product, item)
        if not is_sure:
            item[0] = 0.0
        size += item[1] > 0.0
    return size


@kernel
def _join(
    theta: FloatArray, left: FloatArray, right: FloatArray, is_product: bool, item: FloatArray
) -> None:
    """One product: values multiply; expectations add up, or multiply where none is negative."""
    item[0] = theta[0] * left[0] * right[0]
    item[1] = theta[1] * left[1] * right[1]
    if is_product:
        item[2], item[3] = left[2] * right[2], left[3] * right[3]
    else:
        item[2], item[3] = left[2] + right[2], left[3] + right[3]


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


def split_posteriors(
    circuit: Circuit, weight: FloatArray, open_vars: AnyArray, codes: ByteArray, query: str
) -> tuple[FloatArray, FloatArray] | None:
    """How probable each posterior expectation of the sum is, and what it is; None if not known.

    If some vtree node holds all variables of the sum and none of the open ones, the open variables
    can only choose which of its sum nodes is passed. If they choose one for sure, there are no more
    different posteriors than such nodes, however many states the open variables have.
    """
    vtree = circuit.vtree
    free = open_vars[codes[open_vars] == UNKNOWN]
    top = _highest_without(circuit, np.flatnonzero(weight), free)
    if top is None:
        return None
    above = [top]
    while above[-1] != vtree.root:
        above.append(int(vtree.node_parent[above[-1]]))
    theta = conditional_parameters(circuit, codes[np.newaxis], query)[:, 0]
    flow = np.zeros(circuit.n_nodes)
    flow[circuit.root] = 1.0
    choosers: list[int] = []
    for v in above[:0:-1]:
        edges = circuit.vtree_edges(v)
        passed = flow[circuit.edge_parent[edges]] * theta[edges]
        is_left = above[above.index(v) - 1] == vtree.node_left[v]
        child = (circuit.edge_left if is_left else circuit.edge_right)[edges]
        np.add.at(flow, child, passed)
        used, n_ways = np.unique(circuit.edge_parent[edges[passed > 0.0]], return_counts=True)
        choosers += used[n_ways > 1].tolist()
    is_free = np.zeros(circuit.n_vars, dtype=np.bool_)
    is_free[free] = True
    if choosers:
        is_hidden = (codes == UNKNOWN) & ~is_free
        is_decided = find_decided(circuit, is_hidden, np.array(choosers))
        if not is_decided[choosers].all():
            return None
    nodes = np.flatnonzero((circuit.node_vtree == top) & (flow > 0.0))
    return flow[nodes], _expectations(circuit, theta, weight)[nodes]


def _highest_without(circuit: Circuit, inside: AnyArray, outside: AnyArray) -> int | None:
    """The highest vtree node over all variables of `inside` and none of `outside`."""
    vtree = circuit.vtree
    first, last = vtree.node_span
    place = first[vtree.var_leaf]
    v = int(vtree.var_leaf[inside[0]]) if len(inside) else int(vtree.var_leaf[0])
    best = None
    while v != NONE:
        holds = (first[v] <= place) & (place < last[v])
        if holds[outside].any():
            break
        if holds[inside].all():
            best = v
        v = int(vtree.node_parent[v])
    return best


def _expectations(circuit: Circuit, theta: FloatArray, weight: FloatArray) -> FloatArray:
    """The expectation of the sum below every node, with parameters given the row."""
    value = np.zeros(circuit.n_nodes)
    value[1 : 2 * circuit.n_vars : 2] = weight
    for v in range(circuit.vtree.n_nodes):
        edges = circuit.vtree_edges(v)
        if len(edges):
            right = circuit.edge_right[edges]
            below = value[circuit.edge_left[edges]] + np.where(right == NONE, 0.0, value[right])
            np.add.at(value, circuit.edge_parent[edges], theta[edges] * below)
    return value
