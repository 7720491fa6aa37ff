"""Relaxations: sums and maxima that bound the probability of every state of some variables.

In:  a `Circuit` in normal form, what is given, and the *open* variables to be maximised over.
Out: a `Relaxation`; `RelaxationPass` evaluates it.

Maximising the open variables and summing out the hidden ones do not commute, but a sum of maxima is
never below the maximum of the sum. So a sum node stays a sum, and becomes a maximum where every
state of the open variables leaves it one edge at most. Both are exact: the sum where nothing below
it is open, the maximum always. In between, the edges are grouped by what they need of one open
variable x,

    bound(edges) = bound(edges without a need of x)
                   + max(bound(edges that need x = 1), bound(edges that need x = 0)),

and again within the groups, so that one sum node becomes a few sums and maxima. For five times 90
of dna's 180 variables, the search then looks at 12 to 83 assignments; with plain sums 31 to 1,030.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from strudel._numba import kernel, lowest_bit
from strudel._types import NONE, AnyArray, FloatArray, IntArray, WordArray
from strudel.circuits.circuit import Circuit, Edges, starts
from strudel.circuits.determinism import edge_needs, find_needs
from strudel.circuits.overlap_search import PairSearch
from strudel.circuits.passes import SMALLEST_LOG_THETA, UNKNOWN
from strudel.circuits.scopes import BoolArray, find_tops

UNSET, SUM, MAX = 0, 1, 2  # kinds of groups


class Relaxation(NamedTuple):
    """Sums and maxima of weighted products, sorted by vtree node, children first, the root last.

    Literals are numbered as in a circuit. An edge without a right child leads to a literal or to
    another node of the same vtree node.
    """

    vtree_left: IntArray
    vtree_right: IntArray
    vtree_var: IntArray
    vtree_is_open: BoolArray  # (n_vtree,) whether an open variable lies below
    vtree_first: IntArray  # (n_vtree + 1,) nodes of v, except literals, are first[v]:first[v + 1]
    node_is_max: BoolArray  # (n_nodes,)
    node_edges: IntArray  # (n_nodes + 1,)
    edge_left: IntArray
    edge_right: IntArray
    edge_theta: FloatArray  # at least exp(SMALLEST_LOG_THETA), which keeps a bound a bound


class _Groups(NamedTuple):
    """The edges of sums in groups, each of which becomes a sum or a maximum."""

    group_sum: IntArray  # the sum that it is part of
    group_kind: AnyArray
    entry_group: IntArray  # the group of every entry
    entry_edge: IntArray  # its edge, NONE if it is another group
    entry_child: IntArray  # that group


def relax(circuit: Circuit, codes: AnyArray, open_vars: AnyArray) -> Relaxation:
    """The relaxation of a circuit in normal form for one row of codes.

    Edges that contradict the codes are left out.
    """
    is_open_var = np.zeros(circuit.n_vars, dtype=np.bool_)
    is_open_var[open_vars] = True
    vtree_is_open = circuit.vtree.count_below(is_open_var) > 0
    node_is_open = vtree_is_open[circuit.node_vtree]
    is_live, is_reached = find_live(circuit, codes, circuit.edge_log_theta > -np.inf)
    n_ways = np.bincount(circuit.edge_parent[is_live], minlength=circuit.n_nodes)
    is_decided = find_decided(
        circuit,
        is_hidden=(codes == UNKNOWN) & ~is_open_var,
        sums=np.flatnonzero(node_is_open & is_reached & (n_ways > 1)),
    )
    one, zero, _, _ = find_needs(circuit, variables=open_vars, is_live=is_live)

    n_live = int(is_live.sum())
    # Two edges or more are split into two groups, with at most two more to hold them together.
    room = 3 * n_live + circuit.n_nodes
    groups = _Groups(
        np.empty(room, dtype=np.int32),
        np.zeros(room, dtype=np.uint8),
        *np.full((3, room + n_live), NONE, dtype=np.int32),
    )
    node_kind = np.where(node_is_open, np.where(is_decided, MAX, UNSET), SUM)
    sizes = _group_edges(circuit.edges, is_live, is_reached, node_kind, one, zero, groups)
    return _lay_out(circuit, vtree_is_open, groups, *sizes)


def find_decided(circuit: Circuit, is_hidden: BoolArray, sums: AnyArray) -> BoolArray:
    """Whether the edges of a sum exclude each other whatever values the hidden variables have.

    A search over pairs of nodes finds them even where no single variable tells two edges apart.
    """
    if not is_hidden.any() and circuit.is_deterministic:
        return np.ones(circuit.n_nodes, dtype=np.bool_)
    # A hidden variable tells nothing, so both its literals become one.
    merged = np.arange(circuit.n_nodes + 1, dtype=np.int32)
    merged[: 2 * circuit.n_vars] |= is_hidden.repeat(2)
    merged[NONE] = NONE
    shadow = replace(
        circuit, edge_left=merged[circuit.edge_left], edge_right=merged[circuit.edge_right]
    )
    one, zero, _, _ = find_needs(circuit, variables=np.flatnonzero(~is_hidden))
    search = PairSearch(shadow, find_tops(shadow, circuit.vtree), one, zero)
    is_decided = np.zeros(circuit.n_nodes, dtype=np.bool_)
    for n in sums:
        is_decided[n] = search.first_overlap(np.array([n])) is None
    return is_decided


def find_live(
    circuit: Circuit, codes: AnyArray, is_possible: BoolArray
) -> tuple[BoolArray, BoolArray]:
    """The possible edges, and the nodes, that some row that agrees with the codes reaches."""
    is_live, is_reached = is_possible.copy(), np.zeros(circuit.n_nodes, dtype=np.bool_)
    _find_live(codes, circuit.edges, is_live, is_reached)
    return is_live, is_reached


@kernel
def _find_live(codes: AnyArray, edges: Edges, is_live: BoolArray, is_reached: BoolArray) -> None:
    """Clear `is_live` of impossible edges from the literals up, then mark from the root down."""
    node_edges, edge_left, edge_right = edges
    n_nodes = len(is_reached)
    holds = np.zeros(n_nodes, dtype=np.bool_)
    for n in range(2 * len(codes)):
        holds[n] = codes[n // 2] == UNKNOWN or codes[n // 2] == n % 2
    for n in range(2 * len(codes), n_nodes):
        for e in range(node_edges[n], node_edges[n + 1]):
            is_live[e] &= holds[edge_left[e]] and (edge_right[e] == NONE or holds[edge_right[e]])
            holds[n] |= is_live[e]
    is_reached[n_nodes - 1] = holds[n_nodes - 1]
    for n in range(n_nodes - 1, -1, -1):
        for e in range(node_edges[n], node_edges[n + 1]):
            is_live[e] &= is_reached[n]
            if is_live[e]:
                is_reached[edge_left[e]] = True
                if edge_right[e] != NONE:
                    is_reached[edge_right[e]] = True


@kernel
def _group_edges(
    edges: Edges,
    is_live: BoolArray,
    is_reached: BoolArray,
    node_kind: AnyArray,
    one: WordArray,
    zero: WordArray,
    groups: _Groups,
) -> tuple[int, int]:
    """Fill groups and their entries, each an edge or another group; returns how many there are.

    The first group of a sum stands for the sum itself, and a parent comes before its children. A
    sum whose kind is set is one group.
    """
    node_edges = edges.node_edges
    group_sum, group_kind, entry_group, entry_edge, entry_child = groups
    n_groups = n_entries = 0
    widest = 1
    for n in range(len(is_reached)):
        widest = max(widest, node_edges[n + 1] - node_edges[n])
    own = np.empty(widest, dtype=np.int32)  # edges of one sum; those of a group lie side by side
    stack = np.empty((2 * widest + 2, 3), dtype=np.int32)  # group, first and last place in `own`
    n_ones = np.empty(64 * one.shape[1], dtype=np.int32)
    n_zeros = np.empty_like(n_ones)
    for n in range(len(is_reached)):
        if not is_reached[n] or node_edges[n] == node_edges[n + 1]:
            continue
        width = 0
        for e in range(node_edges[n], node_edges[n + 1]):
            if is_live[e]:
                own[width] = e
                width += 1
        group_sum[n_groups], group_kind[n_groups] = n, node_kind[n]
        stack[0, 0], stack[0, 1], stack[0, 2] = n_groups, 0, width
        n_groups += 1
        size = 1
        while size > 0:
            size -= 1
            g, first, last = stack[size, 0], stack[size, 1], stack[size, 2]
            place = NONE
            if last - first > 1 and node_kind[n] == UNSET:
                place = _most_telling(own[first:last], edges, one, zero, n_ones, n_zeros)
            middle, rest = first, first
            if place != NONE:
                middle, rest = _part(own, first, last, place, edges, one, zero)
            kind = MAX if rest == last else SUM  # of one edge or of edges that nothing parts: SUM
            if group_kind[g] == UNSET:
                group_kind[g] = kind
            elif group_kind[g] != kind and last - first > 1 and node_kind[n] == UNSET:
                group_sum[n_groups], group_kind[n_groups] = n, kind
                entry_group[n_entries], entry_child[n_entries] = g, n_groups
                g = n_groups
                n_groups += 1
                n_entries += 1
            if place == NONE:
                for i in range(first, last):
                    entry_group[n_entries], entry_edge[n_entries] = g, own[i]
                    n_entries += 1
                continue
            if rest < last:
                stack[size, 0], stack[size, 1], stack[size, 2] = g, rest, last
                size += 1
                group_sum[n_groups], group_kind[n_groups] = n, MAX
                entry_group[n_entries], entry_child[n_entries] = g, n_groups
                g = n_groups
                n_groups += 1
                n_entries += 1
            stack[size, 0], stack[size, 1], stack[size, 2] = g, first, middle
            stack[size + 1, 0], stack[size + 1, 1], stack[size + 1, 2] = g, middle, rest
            size += 2
    return n_groups, n_entries


@kernel
def _most_telling(
    own: IntArray,
    edges: Edges,
    one: WordArray,
    zero: WordArray,
    n_ones: IntArray,
    n_zeros: IntArray,
) -> int:
    """Place of the variable that most edges need, some as 1 and some as 0; NONE without one."""
    n_ones[:] = 0
    n_zeros[:] = 0
    for e in own:
        for w in range(one.shape[1]):
            edge_one, edge_zero = edge_needs(e, w, edges, one, zero)
            while edge_one != np.uint64(0):
                n_ones[64 * w + lowest_bit(edge_one)] += 1
                edge_one &= edge_one - np.uint64(1)
            while edge_zero != np.uint64(0):
                n_zeros[64 * w + lowest_bit(edge_zero)] += 1
                edge_zero &= edge_zero - np.uint64(1)
    best = NONE
    most = 0
    for place in range(len(n_ones)):
        n_needs = n_ones[place] + n_zeros[place]
        if n_ones[place] > 0 and n_zeros[place] > 0 and n_needs > most:
            best, most = place, n_needs
    return best


@kernel
def _part(
    own: IntArray,
    first: int,
    last: int,
    place: int,
    edges: Edges,
    one: WordArray,
    zero: WordArray,
) -> tuple[int, int]:
    """Sort `own[first:last]` by need, 1, 0, none; returns where the last two start."""
    w, bit = place // 64, np.uint64(1) << np.uint64(place % 64)
    old = own[first:last].copy()
    n_ones = n_zeros = 0
    for e in old:
        edge_one, edge_zero = edge_needs(e, w, edges, one, zero)
        n_ones += (edge_one & bit) != np.uint64(0)
        n_zeros += (edge_zero & bit) != np.uint64(0)
    at_one, at_zero, at_none = first, first + n_ones, first + n_ones + n_zeros
    middle, rest = at_zero, at_none
    for e in old:
        edge_one, edge_zero = edge_needs(e, w, edges, one, zero)
        if edge_one & bit:
            own[at_one] = e
            at_one += 1
        elif edge_zero & bit:
            own[at_zero] = e
            at_zero += 1
        else:
            own[at_none] = e
            at_none += 1
    return middle, rest


def _lay_out(
    circuit: Circuit, vtree_is_open: BoolArray, groups: _Groups, n_groups: int, n_entries: int
) -> Relaxation:
    """Number the groups by vtree node, children first, and their entries as edges."""
    group_sum, group_kind = (array[:n_groups] for array in groups[:2])
    entry_group, entry_edge, entry_child = (array[:n_entries] for array in groups[2:])
    n_literals, group_vtree = 2 * circuit.n_vars, circuit.node_vtree[group_sum]
    order = np.lexsort((-np.arange(n_groups), group_sum, group_vtree))
    number = np.full(n_groups + 1, NONE, dtype=np.int32)  # number[NONE] stays NONE
    number[order] = np.arange(n_literals, n_literals + n_groups)
    # A sum has the number of its first group; literals keep theirs.
    node_number = np.arange(circuit.n_nodes + 1, dtype=np.int32)
    node_number[group_sum[::-1]] = number[:-1][::-1]
    node_number[NONE] = NONE

    entry_node = number[entry_group]
    by_node = np.argsort(entry_node, kind="stable")
    edge, child = entry_edge[by_node], entry_child[by_node]
    is_group = edge == NONE
    theta = np.exp(np.maximum(circuit.edge_log_theta, SMALLEST_LOG_THETA))
    return Relaxation(
        circuit.vtree.node_left,
        circuit.vtree.node_right,
        circuit.vtree.node_var,
        vtree_is_open,
        vtree_first=starts(group_vtree, circuit.vtree.n_nodes) + np.int32(n_literals),
        node_is_max=np.append(np.zeros(n_literals, dtype=np.bool_), group_kind[order] == MAX),
        node_edges=starts(entry_node, n_literals + n_groups),
        edge_left=np.where(is_group, number[child], node_number[circuit.edge_left[edge]]),
        edge_right=np.where(is_group, NONE, node_number[circuit.edge_right[edge]]),
        edge_theta=np.where(is_group, 1.0, theta[edge]),
    )
