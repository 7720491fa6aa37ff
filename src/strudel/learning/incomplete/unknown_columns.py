"""Variables of which nothing is known, beside a model of all others.

In:  a circuit or a mixture of the known columns, and which columns those are.
Out: the model of all columns, in which the others are fair coins, independent of everything.

The vtree gets, for every coin, a new root with the coin on one side and all before on the other.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from strudel._types import NONE, AnyArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.trees.vtree import Vtree

M = TypeVar("M", Circuit, Mixture)


def with_coins(model: M, is_known: AnyArray) -> M:
    """The model with a coin for every variable that `is_known` leaves out."""
    if np.all(is_known):
        return model
    if isinstance(model, Mixture):
        structure = circuit_with_coins(model.structure, is_known)
        more = structure.edge_log_theta[model.n_edges :, np.newaxis]
        log_theta = np.vstack([model.edge_log_theta, np.repeat(more, model.n_components, axis=1)])
        known = None
        if model.known is not None:
            known = np.ones((structure.n_vars, model.n_components))
            known[is_known] = model.known
        return Mixture(structure, log_theta, model.log_weight, known)
    return circuit_with_coins(model, is_known)


def circuit_with_coins(circuit: Circuit, is_known: AnyArray, on_left: bool = True) -> Circuit:
    """The old edges keep their numbers; behind them come three for every coin: 1, 0 and both."""
    known, coins = np.flatnonzero(is_known), np.flatnonzero(~np.asarray(is_known))
    n_more = 2 * len(coins)  # literals
    # Where the old nodes are: literals of other variables, sums behind more literals, NONE.
    number = np.append(np.arange(circuit.n_nodes) + n_more, NONE)
    number[: 2 * circuit.n_vars] = 2 * np.repeat(known, 2) + np.tile([0, 1], len(known))
    vtree = _vtree_with_coins(circuit.vtree, known, coins, on_left)
    node_vtree = [*np.repeat(vtree.var_leaf, 2), *circuit.node_vtree[2 * circuit.n_vars :]]
    left, right = number[circuit.edge_left].tolist(), number[circuit.edge_right].tolist()
    log_theta = circuit.edge_log_theta.tolist()
    node_edges = [0] * n_more + circuit.node_edges.tolist()
    root = int(number[circuit.root])
    for coin in coins.tolist():
        leaf = len(node_vtree)
        node_vtree += [vtree.var_leaf[coin], vtree.node_parent[vtree.var_leaf[coin]]]
        left += [2 * coin + 1, 2 * coin, leaf if on_left else root]
        right += [NONE, NONE, root if on_left else leaf]
        log_theta += [np.log(0.5), np.log(0.5), 0.0]
        node_edges += [len(left) - 1, len(left)]
        root = leaf + 1
    return Circuit(
        vtree,
        _indices(node_vtree),
        _indices(node_edges),
        _indices(left),
        _indices(right),
        np.array(log_theta),
    )


def _vtree_with_coins(vtree: Vtree, known: AnyArray, coins: AnyArray, on_left: bool) -> Vtree:
    """Old nodes keep their numbers; each coin adds its leaf and a root above it."""
    var = np.where(vtree.node_var == NONE, NONE, known[vtree.node_var]).tolist()
    left, right = vtree.node_left.tolist(), vtree.node_right.tolist()
    for coin in coins.tolist():
        below = len(var) - 1
        var += [coin, NONE]
        left += [NONE, below + on_left]
        right += [NONE, below + (not on_left)]
    return Vtree(_indices(left), _indices(right), _indices(var))


def _indices(values: list[int]) -> IntArray:
    return np.array(values, dtype=np.int32)
