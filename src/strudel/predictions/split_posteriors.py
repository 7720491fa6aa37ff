"""The posteriors that hidden variables can lead to, where the vtree keeps them apart from the rest.

In:  a `Circuit` in normal form, a weighted sum of variables, the open variables, one row as codes.
Out: a probability and an expectation per node of one vtree node, or None.

If some vtree node holds all variables of the sum and none of the open ones, the open variables can
only choose which of its sum nodes is passed. If they choose one for sure, there are no more
different posteriors than such nodes, however many states the open variables have.
"""

from __future__ import annotations

import numpy as np

from strudel._types import NONE, AnyArray, ByteArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.queries.conditional_parameters import conditional_parameters
from strudel.queries.maximum.relaxation import find_decided
from strudel.queries.passes import UNKNOWN


def split_posteriors(
    circuit: Circuit, weight: FloatArray, open_vars: AnyArray, codes: ByteArray, query: str
) -> tuple[FloatArray, FloatArray] | None:
    """How probable each posterior expectation of the sum is, and what it is.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> row = np.full(4, UNKNOWN, dtype=np.uint8)
    >>> weight = np.array([1.0, 0.0, 0.0, 0.0])  # X1, which depends on X3 only
    >>> split_posteriors(figure_1_circuit(), weight, np.array([2, 3]), row, "example")
    (array([0.6, 0.4]), array([0.4, 0.7]))
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
    return flow[nodes], _expectations(circuit, theta, weight, codes)[nodes]


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


def _expectations(
    circuit: Circuit, theta: FloatArray, weight: FloatArray, codes: ByteArray
) -> FloatArray:
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
