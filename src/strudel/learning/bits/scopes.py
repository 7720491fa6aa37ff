"""Scopes: which variables lie below every node, and where in a vtree they meet.

In:  any well-formed `BitCircuit`.
Out: which nodes count (`reached_nodes`), their variables as bit sets (`node_scopes`), and `Tops`,
     the lowest vtree node above all variables of every node and product.

Everything follows from the literals really below a node; `node_vtree` is a claim and is not read.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from strudel._numba import kernel, soonest
from strudel._types import NONE, IntArray, WordArray
from strudel.circuits.circuit import Edges
from strudel.learning.bits.circuit import BitCircuit
from strudel.trees.vtree import Vtree

BoolArray: TypeAlias = NDArray[np.bool_]


def reached_nodes(circuit: BitCircuit) -> BoolArray:
    """Whether every node is below the root, or the root itself."""
    is_reached = np.zeros(circuit.n_nodes, dtype=np.bool_)
    is_reached[circuit.root] = True
    soonest(mark_below, 1e-6 * circuit.n_edges)(circuit.edges, is_reached)
    return is_reached


@kernel
def mark_below(edges: Edges, is_reached: BoolArray) -> None:
    """Pass the marks in `is_reached`, of the first nodes or all, down to all below them."""
    node_edges, edge_left, edge_right = edges
    for n in range(len(is_reached) - 1, -1, -1):
        if is_reached[n]:
            for e in range(node_edges[n], node_edges[n + 1]):
                is_reached[edge_left[e]] = True
                if edge_right[e] != NONE:
                    is_reached[edge_right[e]] = True


def node_scopes(circuit: BitCircuit) -> WordArray:
    """The variables below every node, `(n_nodes, n_words)`: bit `v % 64` of word `v // 64` is v."""
    scope = np.zeros((circuit.n_nodes, -(-circuit.n_vars // 64)), dtype=np.uint64)
    var = np.repeat(np.arange(circuit.n_vars), 2)
    scope[np.arange(2 * circuit.n_vars), var // 64] = np.uint64(1) << (var % 64).astype(np.uint64)
    soonest(_node_scopes, 1e-6 * circuit.n_edges * scope.shape[1])(circuit.edges, scope)
    return scope


@kernel
def _node_scopes(edges: Edges, scope: WordArray) -> None:
    """Fill the lines of the sums, given those of the literals."""
    node_edges, edge_left, edge_right = edges
    for n in range(len(scope)):
        for e in range(node_edges[n], node_edges[n + 1]):
            for w in range(scope.shape[1]):
                scope[n, w] |= scope[edge_left[e], w]
                if edge_right[e] != NONE:
                    scope[n, w] |= scope[edge_right[e], w]


def scope_variables(scope: WordArray) -> list[int]:
    """The variables of one bit set, in increasing order."""
    bits = np.unpackbits(scope.astype("<u8").view(np.uint8), bitorder="little")
    return [int(var) for var in np.flatnonzero(bits)]


class Tops(NamedTuple):
    """Where the variables below a node or product meet in a vtree."""

    node_top: IntArray  # (n_nodes,) lowest vtree node above all variables of the node
    edge_top: IntArray  # (n_edges,) the same for the product of an edge
    edge_follows: BoolArray  # (n_edges,) whether the children lie on the two sides of `edge_top`
    node_follows: BoolArray  # (n_nodes,) whether every product below the node does so


def find_tops(circuit: BitCircuit, vtree: Vtree) -> Tops:
    """Place every node and product of the circuit in a vtree over the same variables."""
    tops = Tops(
        node_top=np.empty(circuit.n_nodes, dtype=np.int32),
        edge_top=np.empty(circuit.n_edges, dtype=np.int32),
        edge_follows=np.ones(circuit.n_edges, dtype=np.bool_),
        node_follows=np.ones(circuit.n_nodes, dtype=np.bool_),
    )
    tops.node_top[: 2 * circuit.n_vars] = np.repeat(vtree.var_leaf, 2)
    fill = soonest(_find_tops, 5e-6 * circuit.n_edges)
    fill(circuit.edges, vtree.node_parent, vtree.node_depth, tops)
    return tops


@kernel
def _find_tops(edges: Edges, vtree_parent: IntArray, vtree_depth: IntArray, tops: Tops) -> None:
    """Fill `tops` for the sums and edges, given those of the literals."""
    node_edges, edge_left, edge_right = edges
    node_top, edge_top, edge_follows, node_follows = tops
    for n in range(len(node_top)):
        for e in range(node_edges[n], node_edges[n + 1]):
            left, right = edge_left[e], edge_right[e]
            edge_top[e] = node_top[left]
            below = node_follows[left]
            if right != NONE:
                top = _meet(node_top[left], node_top[right], vtree_parent, vtree_depth)
                edge_top[e] = top
                # Unless one of them is the top itself, they are on its two sides.
                edge_follows[e] = top != node_top[left] and top != node_top[right]
                below = below and node_follows[right] and edge_follows[e]
            node_follows[n] = node_follows[n] and below
            if e == node_edges[n]:
                node_top[n] = edge_top[e]
            else:
                node_top[n] = _meet(node_top[n], edge_top[e], vtree_parent, vtree_depth)


@kernel
def _meet(a: int, b: int, vtree_parent: IntArray, vtree_depth: IntArray) -> int:
    """The lowest vtree node above both `a` and `b`."""
    while a != b:
        if vtree_depth[a] >= vtree_depth[b]:
            a = vtree_parent[a]
        else:
            b = vtree_parent[b]
    return a
