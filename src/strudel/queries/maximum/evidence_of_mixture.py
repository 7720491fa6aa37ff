"""What a row of evidence leaves of a mixture, for a search of its best completions.

In:  a `Mixture` on a deterministic structure, and one row of evidence as codes.
Out: the best completion under each component; `Completions`, the part of the structure that still
     matters, with parameters relative to the best.

Under one component the best completion is exact and cheap: one pass up with maxima for sums. Taken
relative to the values of that pass, every sum is 1 and every parameter the share that its edge
reaches of the best; edges that have no rival are 1, and most of the structure goes away.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, ByteArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit, Edges, starts
from strudel.circuits.mixture import Mixture
from strudel.circuits.passes import LANES, UNKNOWN
from strudel.circuits.scopes import BoolArray
from strudel.queries.maximum.relaxation import find_live

SMALLEST = 1e-100  # of values and parameters that are not zero: three multiply to 1e-300
NEGLIGIBLE = 1e-15  # of what is enough: all that the components left out may add together
ONE = 0  # the node that is always 1


class Completions(NamedTuple):
    """What a row leaves of a mixture: sums of products of which a completion takes one each.

    Node ONE comes first, then the literals of the open variables, ``1 + 2 * i + value``, then sums,
    children before parents. Products with one child have ONE as the other.
    """

    n_open: int
    root: int
    edges: Edges
    theta: FloatArray  # (n_blocks, n_edges, LANES) at most 1, reached by some edge of every sum
    weight: FloatArray  # (n_blocks, LANES) what the best completion of each component adds
    rest: float  # what the components left out can add at most
    log_unit: float  # log-probability that 1 stands for


def best_values(mixture: Mixture, codes: AnyArray) -> FloatArray:
    """The largest log-value of every node under every component, `(n_nodes, n_components)`."""
    circuit = mixture.structure
    value = np.full((circuit.n_nodes, mixture.n_components), -np.inf)
    literal = np.arange(2 * circuit.n_vars)
    known = codes[literal // 2]
    value[literal[(known == UNKNOWN) | (known == literal % 2)]] = 0.0
    _best_values(circuit.edges, mixture.edge_log_theta, value)
    return value


@kernel
def _best_values(edges: Edges, edge_log_theta: FloatArray, value: FloatArray) -> None:
    """Fill the values of the sums, given those of the literals."""
    node_edges, edge_left, edge_right = edges
    k = value.shape[1]
    for n in range(len(value)):
        for e in range(node_edges[n], node_edges[n + 1]):
            mine, log_theta, left = value[n], edge_log_theta[e], value[edge_left[e]]
            if edge_right[e] == NONE:
                for c in range(k):
                    mine[c] = max(mine[c], log_theta[c] + left[c])
            else:
                right = value[edge_right[e]]
                for c in range(k):
                    mine[c] = max(mine[c], log_theta[c] + left[c] + right[c])


def best_of_components(mixture: Mixture, codes: AnyArray, value: FloatArray) -> ByteArray:
    """The best completion under each component that has one."""
    circuit = mixture.structure
    components = np.flatnonzero(value[circuit.root] > -np.inf)
    states = np.repeat(codes[np.newaxis], len(components), axis=0)
    _best_of_components(components, circuit.edges, mixture.edge_log_theta, value, states)
    return states


@kernel
def _best_of_components(
    components: AnyArray,
    edges: Edges,
    edge_log_theta: FloatArray,
    value: FloatArray,
    states: ByteArray,
) -> None:
    """Follow the best edges of each component down from the root."""
    node_edges, edge_left, edge_right = edges
    n_literals = 2 * states.shape[1]
    stack = np.empty(n_literals + 1, dtype=np.int32)
    for i in range(len(components)):
        c = components[i]
        stack[0] = len(value) - 1
        size = 1
        while size > 0:
            size -= 1
            n = stack[size]
            if n < n_literals:
                states[i, n // 2] = n % 2
                continue
            chosen, most = NONE, -np.inf
            for e in range(node_edges[n], node_edges[n + 1]):
                part = edge_log_theta[e, c] + value[edge_left[e], c]
                if edge_right[e] != NONE:
                    part += value[edge_right[e], c]
                if part > most:
                    chosen, most = e, part
            stack[size] = edge_left[chosen]
            size += 1
            if edge_right[chosen] != NONE:
                stack[size] = edge_right[chosen]
                size += 1


def completions(
    mixture: Mixture, codes: AnyArray, value: FloatArray, log_enough: float
) -> Completions:
    """What is left of a mixture, given the best values of its nodes.

    Components that add nothing to what is above `log_enough` are left out.
    """
    circuit = mixture.structure
    best = value[circuit.root] + mixture.log_weight
    log_unit = float(best.max())
    order = np.argsort(-best, kind="stable")
    n_kept = int((best > -np.inf).sum())
    if log_enough > -np.inf:
        tail = np.cumsum(np.exp(np.minimum(best[order] - log_enough, 0.0))[::-1])[::-1]
        n_kept = max(1, int((tail > NEGLIGIBLE).sum()))
    kept, left_out = order[:n_kept], order[n_kept:]
    log_theta = mixture.edge_log_theta[:, kept]

    is_live, is_reached = find_live(circuit, codes, np.any(log_theta > -np.inf, axis=1))
    open_vars = np.flatnonzero(codes == UNKNOWN)
    node_number = np.full(circuit.n_nodes, NONE, dtype=np.int32)
    known = np.flatnonzero(codes != UNKNOWN)
    node_number[2 * known + codes[known]] = ONE
    literal = 1 + 2 * np.arange(len(open_vars), dtype=np.int32)
    node_number[2 * open_vars], node_number[2 * open_vars + 1] = literal, literal + 1
    is_kept = np.zeros(circuit.n_edges, dtype=np.bool_)
    n_nodes = _number_nodes(
        1 + 2 * len(open_vars),
        2 * circuit.n_vars,
        circuit.edges,
        is_live,
        is_reached,
        node_number,
        is_kept,
    )
    edges = np.flatnonzero(is_kept)
    left, right = circuit.edge_left[edges], circuit.edge_right[edges]
    return Completions(
        len(open_vars),
        int(node_number[circuit.root]),
        Edges(
            starts(node_number[circuit.edge_parent[edges]], n_nodes),
            node_number[left],
            np.where(right == NONE, ONE, node_number[right]).astype(np.int32),
        ),
        _relative_theta(circuit, edges, log_theta[edges], value[:, kept]),
        _in_lanes(np.exp(best[kept] - log_unit)),
        float(np.exp(best[left_out] - log_unit).sum()),
        log_unit,
    )


@kernel
def _number_nodes(
    n_nodes: int,
    n_literals: int,
    edges: Edges,
    is_live: BoolArray,
    is_reached: BoolArray,
    node_number: IntArray,
    is_kept: BoolArray,
) -> int:
    """Number the sums that are left, after `n_nodes` others; returns how many nodes there are.

    A sum with one edge is 1 times its children without any assignment, and so always: it is one of
    the children if the other is ONE.
    """
    node_edges, edge_left, edge_right = edges
    for n in range(n_literals, len(is_reached)):
        if not is_reached[n]:
            continue
        n_live = 0
        last = NONE
        for e in range(node_edges[n], node_edges[n + 1]):
            if is_live[e]:
                n_live += 1
                last = e
        if n_live == 1:
            left = node_number[edge_left[last]]
            right = ONE if edge_right[last] == NONE else node_number[edge_right[last]]
            if left == ONE or right == ONE:
                node_number[n] = max(left, right)
                continue
        node_number[n] = n_nodes
        n_nodes += 1
        for e in range(node_edges[n], node_edges[n + 1]):
            is_kept[e] = is_live[e]
    return n_nodes


def _relative_theta(
    circuit: Circuit, edges: AnyArray, log_theta: FloatArray, value: FloatArray
) -> FloatArray:
    """Each edge's best product, as a share of the best of its sum."""
    left, right = circuit.edge_left[edges], circuit.edge_right[edges]
    product = log_theta + value[left] + np.where((right == NONE)[:, np.newaxis], 0.0, value[right])
    whole = value[circuit.edge_parent[edges]]
    share = np.zeros(product.shape)
    is_possible = product > -np.inf
    share[is_possible] = np.exp(product[is_possible] - whole[is_possible])
    share[is_possible] = np.clip(share[is_possible], SMALLEST, 1.0)
    return _in_lanes(share)


def _in_lanes(columns: FloatArray) -> FloatArray:
    """Blocks of LANES columns, the last filled up with zeros."""
    n_blocks = -(-columns.shape[-1] // LANES)
    padded = np.zeros((*columns.shape[:-1], n_blocks * LANES))
    padded[..., : columns.shape[-1]] = columns
    lanes = padded.reshape(*columns.shape[:-1], n_blocks, LANES)
    return np.ascontiguousarray(np.moveaxis(lanes, -2, 0))
