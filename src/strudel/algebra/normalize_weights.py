"""From weights to parameters: models whose sums add up to 1.

In:  a structure, children before parents, and columns of weights for its edges.
Out: a `Mixture` with a component per column, in which every sum below the root adds up to 1, and
     the root to the total, or to 1.

A factor common to all edges of a sum is taken out of it and put on the edges that lead to it, from
the literals up. What no positive weight reaches is dropped on the way.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.builder import assemble
from strudel.circuits.circuit import Circuit, Edges
from strudel.circuits.compile import compile_factorized
from strudel.circuits.mixture import Mixture, as_mixture
from strudel.circuits.normalization import normalized_columns, normalized_parameters
from strudel.trees.vtree import Vtree

ROUNDING = 1e-13  # a sum that adds up to 1 within this is left as it is


class Structure(NamedTuple):
    """A circuit without its parameters; the last node is the root."""

    vtree: Vtree
    node_vtree: IntArray
    edges: Edges
    feature_names: tuple[str, ...] | None

    @classmethod
    def of(cls, circuit: Circuit) -> Structure:
        """The structure of a circuit."""
        return cls(circuit.vtree, circuit.node_vtree, circuit.edges, circuit.feature_names)

    @property
    def edge_parent(self) -> IntArray:
        """The sum node every edge leaves."""
        width = np.diff(self.edges.node_edges)
        return np.repeat(np.arange(len(width), dtype=np.int32), width)


def normalize_weights(
    structure: Structure,
    edge_log_weight: FloatArray,
    log_weight: FloatArray,
    *,
    normalize: bool,
    if_zero: str,
    row: FloatArray | None = None,
    known: FloatArray | None = None,
) -> Mixture:
    """The mixture of components with these weights `(n_edges, n_components)`.

    With a `row` of evidence, all rows against it get zero. Components are weighted by what they add
    up to, and those that are zero are dropped. If the mixture should not add up to 1, its total
    goes to the root of every component. If it is zero everywhere, this raises `if_zero` where it
    should be normalised. Components know values as often as before, `known`.
    """
    made, _, kept = mixture_of_weights(structure, edge_log_weight, log_weight, normalize, row)
    if made is None:
        return zero_model(structure.vtree, structure.feature_names, normalize, if_zero)
    return made if known is None else replace(made, known=known[:, kept])


def mixture_of_weights(
    structure: Structure,
    edge_log_weight: FloatArray,
    log_weight: FloatArray,
    normalize: bool = True,
    row: FloatArray | None = None,
) -> tuple[Mixture | None, float, AnyArray]:
    """The same, None if it is zero; the log of its total; and which components are left."""
    n_vars, parent = structure.vtree.n_vars, structure.edge_parent
    columns, log_totals = normalized_columns(structure.edges, edge_log_weight, n_vars, row)
    log_share = log_weight + log_totals
    log_total = float(np.logaddexp.reduce(log_share))
    if log_total == -np.inf:
        return None, log_total, log_share > -np.inf
    possible = np.flatnonzero(log_share > -np.inf)
    log_theta = columns[:, possible]
    if not normalize:
        log_theta[parent == len(structure.node_vtree) - 1] += log_total
    kept = np.flatnonzero(np.any(log_theta > -np.inf, axis=1))
    log_theta, owner = log_theta[kept], parent[kept]
    if len(possible) > 1:
        # A sum that a component never reaches has no parameters of its own there: even ones.
        is_alive = np.zeros((len(structure.node_vtree), len(possible)), dtype=np.bool_)
        np.logical_or.at(is_alive, owner, log_theta > -np.inf)
        even = -np.log(np.bincount(owner, minlength=len(is_alive))[owner])
        log_theta = np.where(is_alive[owner], log_theta, even[:, np.newaxis])
    numbered = _keep(structure, kept)
    log_theta = log_theta[numbered.edge_log_theta.astype(np.int64)]
    made = Mixture(
        numbered.with_parameters(log_theta.max(axis=1)), log_theta, log_share[possible] - log_total
    )
    return made, log_total, log_share > -np.inf


def _keep(structure: Structure, kept: AnyArray) -> Circuit:
    """The circuit of some of the edges; its parameters say which of these each edge was."""
    root, edges = len(structure.node_vtree) - 1, structure.edges
    parent, left, right = structure.edge_parent[kept], edges.edge_left[kept], edges.edge_right[kept]
    # A sum of one literal is that literal: its weight, 1 by now, says nothing.
    is_only = np.bincount(parent, minlength=root + 1)[parent] == 1
    alone = np.flatnonzero(is_only & (right == NONE) & (parent != root))
    number = np.append(np.arange(root + 1, dtype=np.int32), np.int32(NONE))  # NONE stays NONE
    number[parent[alone]] = left[alone]
    return assemble(
        structure.vtree,
        structure.node_vtree,
        parent,
        number[left],
        number[right],
        np.arange(len(kept), dtype=np.float64),
        root=root,
        feature_names=structure.feature_names,
    )


def zero_model(
    vtree: Vtree, feature_names: tuple[str, ...] | None, normalize: bool, if_zero: str
) -> Mixture:
    """A mixture of one component that is zero everywhere; raises `if_zero` if normalised."""
    if normalize:
        raise ValueError(if_zero)
    circuit = compile_factorized(vtree).with_names(feature_names)
    is_top = circuit.edge_parent == circuit.root
    log_theta = np.where(is_top, -np.inf, circuit.edge_log_theta)
    return as_mixture(circuit.with_parameters(log_theta))


def local_parameters(circuit: Circuit) -> tuple[FloatArray, float]:
    """Log-parameters with which every sum adds up to 1, and the log of what the circuit did."""
    if circuit.n_edges == 0:  # a single literal
        return circuit.edge_log_theta, 0.0
    with np.errstate(over="ignore"):
        sums = np.add.reduceat(circuit.theta, circuit.node_edges[2 * circuit.n_vars : -1])
    if np.all(np.abs(sums - 1.0) <= ROUNDING):
        return circuit.edge_log_theta, 0.0
    return normalized_parameters(circuit.edges, circuit.edge_log_theta, circuit.n_vars)
