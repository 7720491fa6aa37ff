"""Determinism: whether some row satisfies two edges of one sum.

In:  any well-formed `BitCircuit`.
Out: an `Overlap`, with an example row, or None.

Two ways, from cheap to expensive:

1. Two products exclude each other if one needs a variable to be 1 and the other needs it to be 0.
   This settles every pair of edges that a split or a Chow-Liu tree makes.
2. Below a node whose products all follow the vtree, a search over pairs of nodes decides.

Elsewhere the question is hard, and nothing is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from strudel._numba import kernel, soonest
from strudel._types import NONE, AnyArray, IntArray, WordArray
from strudel.circuits.circuit import Edges
from strudel.learning.bits.circuit import BitCircuit
from strudel.learning.bits.overlap_search import PairSearch
from strudel.learning.bits.scopes import (
    BoolArray,
    Tops,
    find_tops,
    reached_nodes,
)

ALL = np.uint64(2**64 - 1)


@dataclass(frozen=True)
class Overlap:
    """Two edges of one sum that do not, or not provably, exclude each other."""

    node: int
    edges: tuple[int, int]
    row: dict[int, int] | None  # values that satisfy both edges; None if it is not known to exist


def find_overlap(circuit: BitCircuit) -> Overlap | None:
    """Two edges that some row satisfies; failing that, two not proven to exclude each other."""
    tops = find_tops(circuit, circuit.vtree)
    needs = find_needs(circuit, tops)
    doubtful = _find_doubtful(circuit, needs)
    is_doubtful = doubtful[:, 0] != NONE
    searched = np.flatnonzero(is_doubtful & tops.node_follows)
    if len(searched):  # not in a learned circuit, which so does not wait for the search to compile
        search = PairSearch(circuit, tops, needs.node_one, needs.node_zero)
        edges = search.first_overlap(searched)
        if edges is not None:
            return Overlap(int(circuit.edge_parent[edges[0]]), edges, search.example(*edges))
    for node in np.flatnonzero(is_doubtful & ~tops.node_follows)[:1].tolist():
        return Overlap(node, (int(doubtful[node, 0]), int(doubtful[node, 1])), None)
    return None


# What a node needs


class Needs(NamedTuple):
    """The values without which a node cannot hold, as bit sets of variables in vtree order."""

    node_one: WordArray  # (n_nodes, n_words) variables that must be 1
    node_zero: WordArray  # (n_nodes, n_words) variables that must be 0
    node_from: IntArray  # (n_nodes,) first word with a variable of the node
    node_to: IntArray  # (n_nodes,) last such word, plus one


def find_needs(
    circuit: BitCircuit,
    tops: Tops | None = None,
    *,
    variables: AnyArray | None = None,
    is_live: BoolArray | None = None,
) -> Needs:
    """What every node needs of some variables, all by default.

    Products that do not follow the vtree are in `tops`; in normal form there are none. Edges that
    are not live are left out.
    """
    first, last = circuit.vtree.node_span
    node_top = circuit.node_vtree if tops is None else tops.node_top
    node_follows = np.ones(circuit.n_nodes, dtype=np.bool_) if tops is None else tops.node_follows
    if variables is None:
        variables = np.arange(circuit.n_vars)
    if is_live is None:
        is_live = np.ones(circuit.n_edges, dtype=np.bool_)
    one = np.zeros((circuit.n_nodes, -(-circuit.n_vars // 64)), dtype=np.uint64)
    zero = np.zeros_like(one)
    place = first[circuit.vtree.var_leaf[variables]].astype(np.int64)
    bit = np.uint64(1) << (place % 64).astype(np.uint64)
    one[2 * variables + 1, place // 64] = bit
    zero[2 * variables, place // 64] = bit
    # In vtree order the variables of a node are neighbours, so most nodes touch one word of many.
    needs = Needs(one, zero, first[node_top] // 64, (last[node_top] + 63) // 64)
    n_words = int(np.max(needs.node_to - needs.node_from))
    fill = soonest(_fill_needs, 5e-6 * circuit.n_edges * n_words)
    fill(circuit.edges, is_live, node_follows, needs)
    return needs


@kernel
def _fill_needs(edges: Edges, is_live: BoolArray, node_follows: BoolArray, needs: Needs) -> None:
    """Fill `node_one` and `node_zero` of the sums.

    A product needs what either child needs, a sum what all its edges need. Edges that contradict
    themselves are left out; a sum of nothing else needs everything.
    """
    node_edges = edges.node_edges
    node_one, node_zero, node_from, node_to = needs
    for n in range(len(node_one)):
        start, stop = node_edges[n], node_edges[n + 1]
        n_live = 0
        for e in range(start, stop):
            n_live += is_live[e]
        if n_live == 0:
            continue
        for w in range(node_from[n], node_to[n]):
            node_one[n, w] = ALL
            node_zero[n, w] = ALL
        for e in range(start, stop):
            is_possible = is_live[e]
            if not node_follows[n]:
                for w in range(node_from[n], node_to[n]):
                    one, zero = edge_needs(e, w, edges, node_one, node_zero)
                    if one & zero:
                        is_possible = False
            if is_possible:
                for w in range(node_from[n], node_to[n]):
                    one, zero = edge_needs(e, w, edges, node_one, node_zero)
                    node_one[n, w] &= one
                    node_zero[n, w] &= zero


@kernel
def edge_needs(
    e: int, w: int, edges: Any, node_one: WordArray, node_zero: WordArray
) -> tuple[Any, Any]:
    """One word of the variables that must be 1, and be 0, for a product of `Edges` to hold."""
    left = edges.edge_left[e]
    right = edges.edge_right[e] if edges.edge_right[e] != NONE else left
    return node_one[left, w] | node_one[right, w], node_zero[left, w] | node_zero[right, w]


def _find_doubtful(circuit: BitCircuit, needs: Needs) -> IntArray:
    """For every sum two edges whose needs do not exclude each other, `(n_nodes, 2)`, or NONE."""
    doubtful = np.full((circuit.n_nodes, 2), NONE, dtype=np.int32)
    width = np.diff(circuit.node_edges).astype(np.float64)
    n_words = needs.node_one.shape[1]
    one, zero = np.empty((2, int(width.max()), n_words), dtype=np.uint64)
    fill = soonest(_fill_doubtful, 2e-6 * float(np.sum(width**2)) * n_words)
    fill(circuit.edges, reached_nodes(circuit), needs, one, zero, doubtful)
    return doubtful


@kernel
def _fill_doubtful(
    edges: Edges,
    is_reached: BoolArray,
    needs: Needs,
    one: WordArray,
    zero: WordArray,
    doubtful: IntArray,
) -> None:
    """Fill `doubtful`; `one` and `zero` are room for the needs of the edges of one sum."""
    node_edges = edges.node_edges
    node_one, node_zero, node_from, node_to = needs
    for n in range(len(is_reached)):
        start = node_edges[n]
        width = node_edges[n + 1] - start
        if not is_reached[n] or width < 2:
            continue
        for i in range(width):
            for w in range(node_from[n], node_to[n]):
                one[i, w], zero[i, w] = edge_needs(start + i, w, edges, node_one, node_zero)
        for i in range(width):
            for j in range(i + 1, width):
                if doubtful[n, 0] != NONE:
                    break
                is_excluded = False
                for w in range(node_from[n], node_to[n]):
                    if (one[i, w] | one[j, w]) & (zero[i, w] | zero[j, w]):
                        is_excluded = True
                        break
                if not is_excluded:
                    doubtful[n, 0], doubtful[n, 1] = start + i, start + j
