"""Circuits with some variables summed out, over the others.

In:  a circuit in normal form, and the variables to keep.
Out: a `Circuit` over these, on the vtree without the leaves of the others.

A vtree node that keeps variables on one side only goes away. Its sums become sums of nodes of the
side that stays, and so of the products there: weights of edges, as sparse matrices, are multiplied
down to the next vtree node with variables on both sides, or to a leaf.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.algebra.normalize_weights import (
    Structure,
    local_parameters,
    normalize_weights,
    zero_model,
)
from strudel.algebra.operands import one_model
from strudel.circuits.builder import CircuitBuilder
from strudel.circuits.circuit import Circuit, Edges, starts
from strudel.circuits.evaluate import evaluate_log
from strudel.circuits.mixture import Mixture
from strudel.errors import SizeLimitError
from strudel.queries.arguments import variable_indices
from strudel.tables.table_code import select_names
from strudel.trees.vtree import Restriction, Vtree, restrict_vtree

MAX_EDGES = 2**24
MAX_TABLE = 10  # variables


def marginalize(
    p: Any, keep: Any, *, normalize: bool = False, max_edges: int = MAX_EDGES
) -> Circuit:
    """The distribution of some variables, the others summed out, as a circuit.

    Parameters
    ----------
    p : Circuit, Mixture or fitted estimator
        In normal form. A mixture is taken as one circuit, whose root chooses the component.
    keep : names or numbers of variables
        They are the variables of the result, in this order.
    normalize : bool
        Whether the result adds up to 1. If not, it adds up to what `p` does.
    max_edges : int
        Limit on the edges of the result, and of every step on the way to it.

    Returns
    -------
    Circuit
        In normal form, on the vtree of `p` without the other variables. In general it is not
        deterministic: summing out a variable hides the choices that only it tells apart. With at
        most ten variables it is a table if that is smaller: one edge per state, and so
        deterministic.

    Raises
    ------
    ValueError
        If more edges would be needed. A sum of the result may need all products at its vtree node:
        at worst the result has as many edges as there are pairs of a node and an edge of `p`.

    Examples
    --------
    >>> from strudel import log_likelihood
    >>> from strudel.circuits import figure_1_circuit
    >>> p = marginalize(figure_1_circuit(), ["X3", "X4"])
    >>> p.feature_names
    ('X3', 'X4')
    >>> np.exp(log_likelihood(p, [[0, 0], [1, 0], [0, 1], [1, 1]])).round(4)
    array([0.12, 0.48, 0.28, 0.12])
    """
    model = one_model(p, "marginalize")
    circuit = model.to_circuit() if isinstance(model, Mixture) else model
    kept = variable_indices(circuit, keep, "keep")
    smaller = restrict_vtree(circuit.vtree, kept.tolist())
    names = select_names(circuit.feature_names, kept.tolist())
    log_theta, log_total = local_parameters(circuit)
    if_zero = "p is zero everywhere, so its marginal cannot be normalised."
    if log_total == -np.inf:
        return zero_model(smaller.vtree, names, normalize, if_zero).component(0)
    edges = _edges(circuit, log_theta, smaller, max_edges)
    edges.log_weight[edges.parent == circuit.root] += log_total
    found = normalize_weights(
        *_renumbered(circuit, edges, kept, smaller, names),
        np.zeros(1),
        normalize=normalize,
        if_zero=if_zero,
    ).component(0)
    if _table_size(found.vtree) <= found.n_edges and not found.is_deterministic:
        return _as_table(found)
    return found


class _Edges(NamedTuple):
    """Edges as in a circuit, in any order of parents."""

    parent: IntArray
    left: IntArray
    right: IntArray
    log_weight: FloatArray


def _edges(circuit: Circuit, log_theta: FloatArray, smaller: Restriction, max_edges: int) -> _Edges:
    """The edges at the vtree nodes that stay, in the numbers of `circuit`.

    Their parents are the nodes at the top above, each standing for what it becomes.
    """
    vtree, nodes = circuit.vtree, _Nodes(circuit, log_theta)
    inner = smaller.origin[smaller.vtree.node_var == NONE]  # those that stay
    below = np.stack([vtree.node_left[inner], vtree.node_right[inner]], axis=1)
    found: list[_Edges] = []
    n_edges = 0
    for top in [vtree.root, *below.ravel().tolist()]:
        stays = int(smaller.origin[smaller.number[top]])
        if top == stays:
            edges = nodes.edges(stays)
        else:
            mix = sparse.eye_array(len(nodes.at(top)), format="csr")
            v = top
            while v != stays:
                left, right = int(vtree.node_left[v]), int(vtree.node_right[v])
                child = left if smaller.number[left] != NONE else right
                mix = _product(mix, nodes.step(v, child), max_edges)
                v = child
            edges = nodes.mixed_edges(top, stays, mix, max_edges)
        n_edges += len(edges.parent)
        _check_size(n_edges, max_edges)
        found.append(edges)
    return _Edges(*(np.concatenate(column) for column in zip(*found, strict=True)))


class _Nodes:
    """The nodes and edges of a circuit by vtree node."""

    def __init__(self, circuit: Circuit, log_theta: FloatArray) -> None:
        self.circuit, self.log_theta = circuit, log_theta
        self.place = np.zeros(circuit.n_nodes, dtype=np.int64)  # among those of its vtree node
        for v in range(circuit.vtree.n_nodes):
            nodes = self.at(v)
            self.place[nodes] = np.arange(len(nodes))

    def at(self, v: int) -> IntArray:
        """Its nodes; at a leaf the literals come first."""
        first, sums = self.circuit.sums_by_vtree
        var = self.circuit.vtree.node_var[v]
        literals = np.array([2 * var, 2 * var + 1] if var != NONE else [], dtype=np.int32)
        return np.concatenate([literals, sums[first[v] : first[v + 1]]])

    def edges(self, v: int) -> _Edges:
        """Its edges with positive weight."""
        circuit = self.circuit
        edges = circuit.vtree_edges(v)
        edges = edges[self.log_theta[edges] > -np.inf]
        return _Edges(
            circuit.edge_parent[edges],
            circuit.edge_left[edges],
            circuit.edge_right[edges],
            self.log_theta[edges],
        )

    def step(self, v: int, below: int) -> sparse.csr_array:
        """How much every node at `v` weighs every node at a child of `v`, the other one being 1."""
        edges = self.edges(v)
        child = edges.left if below == self.circuit.vtree.node_left[v] else edges.right
        return sparse.csr_array(
            (np.exp(edges.log_weight), (self.place[edges.parent], self.place[child])),
            shape=(len(self.at(v)), len(self.at(below))),
        )

    def mixed_edges(self, top: int, stays: int, mix: sparse.csr_array, max_edges: int) -> _Edges:
        """The edges of mixtures of the nodes at `stays`, as edges of the nodes at `top`."""
        parent, left, right, log_weight = self.edges(stays)
        if self.circuit.vtree.node_var[stays] != NONE:  # a literal is a sum of one literal
            literals = self.at(stays)[:2]
            parent, left = np.concatenate([literals, parent]), np.concatenate([literals, left])
            right, log_weight = np.append([NONE, NONE], right), np.append([0.0, 0.0], log_weight)
        pairs, which = np.unique(np.stack([left, right]), axis=1, return_inverse=True)
        share = sparse.csr_array(
            (np.exp(log_weight), (self.place[parent], which)),
            shape=(mix.shape[1], pairs.shape[1]),
        )
        mixed = _product(mix, share, max_edges).tocoo()
        row, column = mixed.coords
        return _Edges(self.at(top)[row], pairs[0][column], pairs[1][column], np.log(mixed.data))


def _product(a: sparse.csr_array, b: sparse.csr_array, max_edges: int) -> sparse.csr_array:
    """The product of two matrices, unless it may have too many entries."""
    n_terms = int(np.diff(b.indptr).astype(np.int64)[a.indices].sum())
    _check_size(min(n_terms, a.shape[0] * b.shape[1]), max_edges)
    both = a @ b
    both.eliminate_zeros()
    return both


def _check_size(n_edges: int, max_edges: int) -> None:
    if n_edges > max_edges:
        raise SizeLimitError(
            f"marginalize may need {n_edges} edges, more than max_edges = {max_edges}.",
            "Allow more with max_edges, or ask log_marginal, which needs no circuit.",
            part="marginalize",
        )


def _renumbered(
    circuit: Circuit,
    edges: _Edges,
    kept: AnyArray,
    smaller: Restriction,
    names: tuple[str, ...] | None,
) -> tuple[Structure, FloatArray]:
    """The structure of the edges, literals first, others in their order; and its weights."""
    n_literals = 2 * len(kept)
    sums = np.unique(edges.parent)
    number = np.full(circuit.n_nodes + 1, NONE, dtype=np.int32)  # number[NONE] stays NONE
    number[2 * kept], number[2 * kept + 1] = np.arange(n_literals).reshape(-1, 2).T
    number[sums] = np.arange(n_literals, n_literals + len(sums))
    sum_vtree = smaller.number[circuit.node_vtree[sums]]
    node_vtree = np.concatenate([np.repeat(smaller.vtree.var_leaf, 2), sum_vtree])
    order = np.argsort(edges.parent, kind="stable")
    numbered = Edges(
        starts(number[edges.parent], len(node_vtree)),
        number[edges.left[order]],
        number[edges.right[order]],
    )
    structure = Structure(smaller.vtree, node_vtree, numbered, names)
    return structure, edges.log_weight[order, np.newaxis]


def _table_size(vtree: Vtree) -> float:
    """How many edges a table of all states has; infinite with one variable, or with too many."""
    if not 1 < vtree.n_vars <= MAX_TABLE:
        return np.inf
    first, last = vtree.node_span
    return float((2.0 ** (last - first))[vtree.node_var == NONE].sum())


def _as_table(circuit: Circuit) -> Circuit:
    """The same distribution as a sum over all states."""
    vtree, builder = circuit.vtree, CircuitBuilder(circuit.vtree, circuit.feature_names)
    states: list[list[int]] = []  # per vtree node a node for every state, the last leaf fastest
    for v in range(vtree.n_nodes):
        var = int(vtree.node_var[v])
        if var != NONE:
            states.append([builder.literal(var, 0), builder.literal(var, 1)])
            continue
        pairs = list(product(states[vtree.node_left[v]], states[vtree.node_right[v]]))
        if v != vtree.root:
            states.append([builder.add_sum([(*pair, 1.0)]) for pair in pairs])
    rows = np.empty((len(pairs), circuit.n_vars))
    rows[:, vtree.order] = list(product((0.0, 1.0), repeat=circuit.n_vars))
    log_p = evaluate_log(circuit, rows)
    is_possible = log_p > -np.inf
    root = builder.add_sum((*pairs[state], 1.0) for state in np.flatnonzero(is_possible))
    table = builder.build(root)
    log_theta = table.edge_log_theta.copy()
    # Not by the builder, which takes numbers: the total may be too small or large for one.
    log_theta[table.node_edges[table.root] :] = log_p[is_possible]
    return table.with_parameters(log_theta)
