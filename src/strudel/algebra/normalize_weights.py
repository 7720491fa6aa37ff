"""From weights to parameters: circuits whose sums add up to 1.

In:  the arrays of a circuit with any weights, children before parents.
Out: a `Circuit` in which every sum below the root adds up to 1, and the root to the total, or to 1;
     a `Mixture` of several columns of weights.

A factor common to all edges of a sum is taken out of it and put on the edges that lead to it, from
the literals up. What no positive weight reaches is dropped on the way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.builder import assemble
from strudel.circuits.circuit import Circuit
from strudel.circuits.compile import compile_factorized
from strudel.circuits.evaluate import _upward_log_values
from strudel.circuits.mixture import Mixture, as_mixture
from strudel.trees.vtree import Vtree

ROUNDING = 1e-13  # a sum that adds up to 1 but for this is taken as it is


class Weighted(NamedTuple):
    """The arrays of a circuit, the last node its root, whose sums need not add up to 1."""

    vtree: Vtree
    node_vtree: IntArray
    node_edges: IntArray
    edge_left: IntArray
    edge_right: IntArray
    edge_log_weight: FloatArray
    feature_names: tuple[str, ...] | None


def weighted(circuit: Circuit, edge_log_weight: FloatArray) -> Weighted:
    """A circuit's arrays with other weights."""
    return Weighted(
        circuit.vtree,
        circuit.node_vtree,
        circuit.node_edges,
        circuit.edge_left,
        circuit.edge_right,
        edge_log_weight,
        circuit.feature_names,
    )


def settle(
    arrays: Weighted, *, normalize: bool, if_zero: str, evidence: FloatArray | None = None
) -> Circuit:
    """The circuit of these weights, times what the evidence leaves possible.

    Where that is nothing, raises `if_zero` if the result should be normalised, and else gives a
    circuit that is zero everywhere.
    """
    vtree, root = arrays.vtree, len(arrays.node_vtree) - 1
    log_theta, log_total = _local_parameters(arrays, evidence)
    if log_total == -np.inf:
        return zero(vtree, arrays.feature_names, normalize=normalize, if_zero=if_zero)
    if not normalize:
        log_theta[_edge_parent(arrays.node_edges) == root] += log_total
    kept = np.flatnonzero(log_theta > -np.inf)
    return _keep(arrays, kept, log_theta[kept])


def settle_mixture(
    arrays: Weighted,
    edge_log_weight: FloatArray,
    log_weight: FloatArray,
    *,
    normalize: bool = True,
    if_zero: str,
    evidence: FloatArray | None = None,
) -> Mixture:
    """The mixture of components with these weights `(n_edges, n_components)`, as in `settle`.

    Components are weighted by what they add up to, and those that are zero are dropped. If the
    mixture should not add up to 1, its total goes to the root of every component. The weights in
    `arrays` do not matter.
    """
    settled = [
        _local_parameters(arrays._replace(edge_log_weight=column), evidence)
        for column in edge_log_weight.T
    ]
    log_share = log_weight + np.array([log_total for _, log_total in settled])
    log_total = float(np.logaddexp.reduce(log_share))
    if log_total == -np.inf:
        return as_mixture(
            zero(arrays.vtree, arrays.feature_names, normalize=normalize, if_zero=if_zero)
        )
    possible = np.flatnonzero(log_share > -np.inf)
    log_theta = np.stack([settled[c][0] for c in possible], axis=1)
    parent = _edge_parent(arrays.node_edges)
    if not normalize:
        log_theta[parent == len(arrays.node_vtree) - 1] += log_total
    kept = np.flatnonzero(np.any(log_theta > -np.inf, axis=1))
    log_theta, owner = log_theta[kept], parent[kept]
    # A sum that a component never comes to has no parameters of its own there: even ones.
    is_alive = np.zeros((len(arrays.node_vtree), len(possible)), dtype=np.bool_)
    np.logical_or.at(is_alive, owner, log_theta > -np.inf)
    even = -np.log(np.bincount(owner, minlength=len(is_alive))[owner])
    log_theta = np.where(is_alive[owner], log_theta, even[:, np.newaxis])
    numbered = _keep(arrays, kept, np.arange(len(kept)))  # its parameters say which edge each was
    log_theta = log_theta[numbered.edge_log_theta.astype(np.int64)]
    return Mixture(
        numbered.with_parameters(log_theta.max(axis=1)), log_theta, log_share[possible] - log_total
    )


def _keep(arrays: Weighted, kept: AnyArray, edge_log_theta: AnyArray) -> Circuit:
    """The circuit of some of the edges, with these parameters."""
    root = len(arrays.node_vtree) - 1
    parent = _edge_parent(arrays.node_edges)[kept]
    left, right = arrays.edge_left[kept], arrays.edge_right[kept]

    # A sum of one literal is that literal: its weight, 1 by now, says nothing.
    is_only = np.bincount(parent, minlength=root + 1)[parent] == 1
    alone = np.flatnonzero(is_only & (right == NONE) & (parent != root))
    number = np.append(np.arange(root + 1, dtype=np.int32), np.int32(NONE))  # NONE stays NONE
    number[parent[alone]] = left[alone]
    return assemble(
        arrays.vtree,
        arrays.node_vtree,
        edge_parent=parent,
        edge_left=number[left],
        edge_right=number[right],
        edge_log_theta=edge_log_theta,
        root=root,
        feature_names=arrays.feature_names,
    )


def zero(
    vtree: Vtree, feature_names: tuple[str, ...] | None, *, normalize: bool, if_zero: str
) -> Circuit:
    """A circuit that gives every row probability zero; raises `if_zero` if normalised."""
    if normalize:
        raise ValueError(if_zero)
    circuit = compile_factorized(vtree).with_names(feature_names)
    is_top = circuit.edge_parent == circuit.root
    return circuit.with_parameters(np.where(is_top, -np.inf, circuit.edge_log_theta))


def local_parameters(circuit: Circuit) -> tuple[FloatArray, float]:
    """Log-parameters with which every sum adds up to 1, and the log of what the circuit did.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> circuit = figure_1_circuit()
    >>> log_theta, log_total = local_parameters(circuit.with_parameters(np.zeros(16)))
    >>> np.exp(log_theta[:2]), round(np.exp(log_total))
    (array([0.5, 0.5]), 16)
    """
    arrays = weighted(circuit, circuit.edge_log_theta)
    with np.errstate(over="ignore"):
        sums = _sums(arrays.node_edges, np.exp(circuit.edge_log_theta), 2 * circuit.n_vars)
    if np.all(np.abs(sums - 1.0) <= ROUNDING):
        return circuit.edge_log_theta, 0.0
    return _local_parameters(arrays, None)


def _local_parameters(arrays: Weighted, evidence: FloatArray | None) -> tuple[FloatArray, float]:
    n_nodes, n_vars = len(arrays.node_vtree), arrays.vtree.n_vars
    value = np.empty((n_nodes, 1))
    _upward_log_values(
        np.full((1, n_vars), np.nan) if evidence is None else evidence,
        *arrays[2:6],
        value,
    )
    log_value = np.append(value[:, 0], 0.0)  # so that child NONE has value 1
    parent = _edge_parent(arrays.node_edges)
    log_theta = arrays.edge_log_weight + log_value[arrays.edge_left]
    log_theta += log_value[arrays.edge_right]
    is_possible = log_value[parent] > -np.inf
    log_theta[is_possible] -= log_value[parent[is_possible]]
    # Logs of very small values have few digits after the point; their sum takes out what is common.
    sums = _sums(arrays.node_edges, np.exp(log_theta), 2 * n_vars)
    log_theta -= np.log(np.where(sums > 0.0, sums, 1.0))[parent - 2 * n_vars]
    return log_theta, float(log_value[n_nodes - 1])


def _sums(node_edges: IntArray, theta: FloatArray, n_literals: int) -> FloatArray:
    """The parameters of every sum added up."""
    if len(theta) == 0:  # a single literal
        return np.ones(0)
    return np.add.reduceat(theta, node_edges[n_literals:-1])


def _edge_parent(node_edges: IntArray) -> IntArray:
    return np.repeat(np.arange(len(node_edges) - 1, dtype=np.int32), np.diff(node_edges))
