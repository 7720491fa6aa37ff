"""Relaxations: a circuit whose value bounds the probability of every state of some variables.

In:  a `Circuit` in normal form, evidence, the *open* variables to be maximised over, and which edges still count.
Out: a `Relaxation`, and by `RelaxationPass` an upper bound and a promising state for each partial assignment.

Maximising the open variables and summing out the others do not commute, but a sum of maxima is never below the
maximum of the sum. So a sum node stays a sum, and becomes a maximum where any state of the open variables leaves at
most one of its edges: no open variable below gives a sum, all edges decided by open variables a maximum, and both
are exact. In between, the edges are grouped by what they need of an open variable x:

    bound(edges) = bound(edges that need nothing of x) + max(bound(edges with x = 1), bound(edges with x = 0))

and so on within the groups, which makes a few sums and maxima of one sum node.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from strudel._numba import kernel, lowest_bit, parallel_kernel, prange
from strudel._types import NONE, AnyArray, FloatArray, IntArray, WordArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.pair_search import PairSearch
from strudel.circuits.scopes import BoolArray, find_tops
from strudel.queries.passes import LANES, SMALLEST_LOG_THETA, SMALLEST_VALUE, UNKNOWN

N_BLOCKS = 4  # blocks of eight rows in one call, for as many threads
ALL = np.uint64(2**64 - 1)
UNSET, SUM, MAX = 0, 1, 2


class Relaxation(NamedTuple):
    """Sums and maxima of weighted products, sorted by vtree node, children first, the root last.

    Literals are numbered as in a circuit. An edge without right child leads to a literal or to a node of the same
    vtree node.
    """

    vtree_left: IntArray
    vtree_right: IntArray
    vtree_var: IntArray
    vtree_is_open: BoolArray  # (n_vtree,) whether an open variable lies below
    vtree_first: IntArray  # (n_vtree + 1,) nodes of vtree node v, less its literals, are first[v]:first[v + 1]
    node_is_max: BoolArray  # (n_nodes,)
    node_edges: IntArray  # (n_nodes + 1,)
    edge_left: IntArray
    edge_right: IntArray
    edge_theta: FloatArray
    edge_source: IntArray  # (n_edges,) the edge of the circuit, NONE for one within a sum


def live_edges(
    circuit: Circuit, codes: AnyArray, edge_counts: BoolArray
) -> tuple[BoolArray, BoolArray]:
    """The edges that some row which agrees with the codes can take, and the nodes it can reach."""
    is_live = np.zeros(circuit.n_edges, dtype=np.bool_)
    is_reached = np.zeros(circuit.n_nodes, dtype=np.bool_)
    edge_counts = edge_counts & (circuit.edge_log_theta > -np.inf)
    _live_edges(
        codes,
        circuit.node_edges,
        circuit.edge_left,
        circuit.edge_right,
        edge_counts,
        is_live,
        is_reached,
    )
    return is_live, is_reached


@kernel
def _live_edges(
    codes: AnyArray,
    node_edges: IntArray,
    edge_left: IntArray,
    edge_right: IntArray,
    edge_counts: BoolArray,
    is_live: BoolArray,
    is_reached: BoolArray,
) -> None:
    """Fill `is_live` from the literals up, then `is_reached` from the root down."""
    n_nodes = len(is_reached)
    holds = np.zeros(n_nodes, dtype=np.bool_)
    for n in range(2 * len(codes)):
        holds[n] = codes[n // 2] == UNKNOWN or codes[n // 2] == n % 2
    for n in range(2 * len(codes), n_nodes):
        for e in range(node_edges[n], node_edges[n + 1]):
            if edge_counts[e] and holds[edge_left[e]]:
                is_live[e] = edge_right[e] == NONE or holds[edge_right[e]]
                holds[n] |= is_live[e]
    is_reached[n_nodes - 1] = holds[n_nodes - 1]
    for n in range(n_nodes - 1, -1, -1):
        for e in range(node_edges[n], node_edges[n + 1]):
            is_live[e] &= is_reached[n]
            if is_live[e]:
                is_reached[edge_left[e]] = True
                if edge_right[e] != NONE:
                    is_reached[edge_right[e]] = True


def find_decided(circuit: Circuit, hidden: AnyArray) -> BoolArray:
    """The sums whose edges exclude each other whatever the hidden variables are.

    A search over pairs of nodes, for edges that no single variable decides.
    """
    is_hidden = np.zeros(circuit.n_vars, dtype=np.bool_)
    is_hidden[hidden] = True
    is_decided = np.zeros(circuit.n_nodes, dtype=np.bool_)
    if not is_hidden.any() and circuit.is_deterministic:
        is_decided[:] = True
        return is_decided
    # A hidden variable tells nothing: both its literals become one.
    literal = np.arange(circuit.n_nodes, dtype=np.int32)
    literal[: 2 * circuit.n_vars] |= is_hidden.repeat(2)
    shadow = replace(circuit, edge_left=literal[circuit.edge_left])
    one, zero = find_needs(circuit, np.ones(circuit.n_edges, np.bool_), np.flatnonzero(~is_hidden))
    search = PairSearch(shadow, find_tops(shadow, circuit.vtree), one, zero)
    is_open = _has_variable(circuit, ~is_hidden)[circuit.node_vtree]
    for n in np.flatnonzero(is_open & (np.diff(circuit.node_edges) > 1)):
        is_decided[n] = search.first_overlap(np.array([n])) is None
    return is_decided


def _has_variable(circuit: Circuit, is_wanted: BoolArray) -> BoolArray:
    """Whether one of the wanted variables lies below each vtree node."""
    vtree = circuit.vtree
    count = np.concatenate([[0], np.cumsum(is_wanted[vtree.order])])
    first, last = vtree.node_span
    return np.asarray(count[last] > count[first])


def find_needs(
    circuit: Circuit, is_live: BoolArray, variables: AnyArray
) -> tuple[WordArray, WordArray]:
    """Which of the variables must be 1, and which 0, for a node to hold: bit sets in vtree order.

    A product needs what either child needs, a sum what all its live edges need.
    """
    place = circuit.vtree.node_span[0][circuit.vtree.var_leaf[variables]].astype(np.int64)
    one = np.zeros((circuit.n_nodes, -(-circuit.n_vars // 64)), dtype=np.uint64)
    zero = np.zeros_like(one)
    bit = np.uint64(1) << (place % 64).astype(np.uint64)
    one[2 * variables + 1, place // 64] = bit
    zero[2 * variables, place // 64] = bit
    _find_needs(circuit.node_edges, circuit.edge_left, circuit.edge_right, is_live, one, zero)
    return one, zero


@kernel
def _find_needs(
    node_edges: IntArray,
    edge_left: IntArray,
    edge_right: IntArray,
    is_live: BoolArray,
    one: WordArray,
    zero: WordArray,
) -> None:
    """Fill the needs of the sums, given those of the literals."""
    for n in range(len(one)):
        is_first = True
        for e in range(node_edges[n], node_edges[n + 1]):
            if not is_live[e]:
                continue
            left = edge_left[e]
            right = edge_right[e] if edge_right[e] != NONE else left
            for w in range(one.shape[1]):
                edge_one = one[left, w] | one[right, w]
                edge_zero = zero[left, w] | zero[right, w]
                one[n, w] = edge_one if is_first else one[n, w] & edge_one
                zero[n, w] = edge_zero if is_first else zero[n, w] & edge_zero
            is_first = False


def relax(
    circuit: Circuit,
    open_vars: AnyArray,
    is_live: BoolArray,
    is_reached: BoolArray,
    is_decided: BoolArray,
) -> Relaxation:
    """Group the live edges of every reached sum and lay out what comes of it."""
    vtree, n_literals = circuit.vtree, 2 * circuit.n_vars
    is_open_var = np.zeros(circuit.n_vars, dtype=np.bool_)
    is_open_var[open_vars] = True
    vtree_is_open = _has_variable(circuit, is_open_var)
    one, zero = find_needs(circuit, is_live, open_vars)
    n_live = int(is_live.sum())
    # A group starts with at least two edges, and two groups and a sum may come of it.
    room = 3 * n_live + circuit.n_nodes
    group_sum = np.empty(room, dtype=np.int32)
    group_kind = np.zeros(room, dtype=np.uint8)
    entry_group, entry_edge, entry_child = (
        np.full(room + n_live, NONE, np.int32) for _ in range(3)
    )
    n_groups, n_entries = _group_edges(
        circuit.node_edges,
        circuit.edge_left,
        circuit.edge_right,
        is_live,
        is_reached,
        is_decided | ~vtree_is_open[circuit.node_vtree],
        vtree_is_open[circuit.node_vtree],
        one,
        zero,
        group_sum,
        group_kind,
        entry_group,
        entry_edge,
        entry_child,
    )
    # Groups are made parents first; every sum's first group is the sum itself.
    group_sum, group_kind = group_sum[:n_groups], group_kind[:n_groups]
    order = np.lexsort((-np.arange(n_groups), group_sum, circuit.node_vtree[group_sum]))
    number = np.empty(n_groups + 1, dtype=np.int32)
    number[order] = np.arange(n_literals, n_literals + n_groups)
    number[NONE] = NONE
    node_number = np.arange(circuit.n_nodes + 1, dtype=np.int32)
    node_number[group_sum[::-1]] = number[:-1][::-1]
    node_number[NONE] = NONE
    entry_node = number[entry_group[:n_entries]]
    by_node = np.argsort(entry_node, kind="stable")
    source, child = entry_edge[:n_entries][by_node], entry_child[:n_entries][by_node]
    is_within = source == NONE
    theta = np.exp(np.maximum(circuit.edge_log_theta, SMALLEST_LOG_THETA))
    node_edges = np.zeros(n_literals + n_groups + 1, dtype=np.int32)
    np.cumsum(np.bincount(entry_node, minlength=n_literals + n_groups), out=node_edges[1:])
    vtree_first = np.full(vtree.n_nodes + 1, n_literals, dtype=np.int32)
    count = np.bincount(circuit.node_vtree[group_sum], minlength=vtree.n_nodes)
    vtree_first[1:] += np.cumsum(count).astype(np.int32)
    return Relaxation(
        vtree.node_left,
        vtree.node_right,
        vtree.node_var,
        vtree_is_open,
        vtree_first,
        np.concatenate([np.zeros(n_literals, np.bool_), group_kind[order] == MAX]),
        node_edges,
        np.where(is_within, number[child], node_number[circuit.edge_left[source]]),
        np.where(is_within, NONE, node_number[circuit.edge_right[source]]),
        np.where(is_within, 1.0, theta[source]),
        source,
    )


@kernel
def _group_edges(
    node_edges: IntArray,
    edge_left: IntArray,
    edge_right: IntArray,
    is_live: BoolArray,
    is_reached: BoolArray,
    is_plain: BoolArray,
    is_max: BoolArray,
    one: WordArray,
    zero: WordArray,
    group_sum: IntArray,
    group_kind: AnyArray,
    entry_group: IntArray,
    entry_edge: IntArray,
    entry_child: IntArray,
) -> tuple[int, int]:
    """Fill groups and their entries, each an edge or another group; returns how many there are.

    A plain sum is one group, a maximum if `is_max` says so.
    """
    n_groups = n_entries = 0
    widest = 0
    for n in range(len(is_reached)):
        widest = max(widest, node_edges[n + 1] - node_edges[n])
    edges = np.empty(widest, dtype=np.int32)  # of one sum; those of a group lie together
    stack = np.empty((2 * widest + 2, 3), dtype=np.int32)  # group, first and last place in `edges`
    n_ones = np.zeros(64 * one.shape[1], dtype=np.int32)
    n_zeros = np.zeros_like(n_ones)
    for n in range(len(is_reached)):
        if not is_reached[n] or node_edges[n] == node_edges[n + 1]:
            continue
        width = 0
        for e in range(node_edges[n], node_edges[n + 1]):
            if is_live[e]:
                edges[width] = e
                width += 1
        group_sum[n_groups] = n
        if is_plain[n]:
            group_kind[n_groups] = MAX if is_max[n] else SUM
            for i in range(width):
                entry_group[n_entries], entry_edge[n_entries] = n_groups, edges[i]
                n_entries += 1
            n_groups += 1
            continue
        stack[0, 0], stack[0, 1], stack[0, 2] = n_groups, 0, width
        n_groups += 1
        size = 1
        while size > 0:
            size -= 1
            g, first, last = stack[size, 0], stack[size, 1], stack[size, 2]
            place = NONE
            if last - first > 999999:
                place = _most_telling(
                    edges[first:last], edge_left, edge_right, one, zero, n_ones, n_zeros
                )
            middle = rest = first
            if place != NONE:
                middle, rest = _part(edges, first, last, place, edge_left, edge_right, one, zero)
            wanted = SUM if rest < last else MAX
            if last - first > 1 or group_kind[g] == UNSET:
                if group_kind[g] == UNSET:
                    group_kind[g] = wanted
                elif group_kind[g] != wanted:  # a sum below a maximum, or the other way round
                    group_sum[n_groups], group_kind[n_groups] = n, wanted
                    entry_group[n_entries], entry_child[n_entries] = g, n_groups
                    n_entries += 1
                    g = n_groups
                    n_groups += 1
            if place == NONE:
                for i in range(first, last):
                    entry_group[n_entries], entry_edge[n_entries] = g, edges[i]
                    n_entries += 1
                continue
            if rest < last:
                stack[size, 0], stack[size, 1], stack[size, 2] = g, rest, last
                size += 1
                group_sum[n_groups], group_kind[n_groups] = n, MAX
                entry_group[n_entries], entry_child[n_entries] = g, n_groups
                n_entries += 1
                g = n_groups
                n_groups += 1
            stack[size, 0], stack[size, 1], stack[size, 2] = g, first, middle
            stack[size + 1, 0], stack[size + 1, 1], stack[size + 1, 2] = g, middle, rest
            size += 2
    return n_groups, n_entries


@kernel
def _most_telling(
    edges: IntArray,
    edge_left: IntArray,
    edge_right: IntArray,
    one: WordArray,
    zero: WordArray,
    n_ones: IntArray,
    n_zeros: IntArray,
) -> int:
    """The place of the variable that most edges need, some as 1 and some as 0; NONE without one."""
    n_ones[:] = 0
    n_zeros[:] = 0
    for e in edges:
        left = edge_left[e]
        right = edge_right[e] if edge_right[e] != NONE else left
        for w in range(one.shape[1]):
            word = one[left, w] | one[right, w]
            while word != np.uint64(0):
                n_ones[64 * w + lowest_bit(word)] += 1
                word &= word - np.uint64(1)
            word = zero[left, w] | zero[right, w]
            while word != np.uint64(0):
                n_zeros[64 * w + lowest_bit(word)] += 1
                word &= word - np.uint64(1)
    best = NONE
    for place in range(len(n_ones)):
        if n_ones[place] > 0 and n_zeros[place] > 0:
            if best == NONE or n_ones[place] + n_zeros[place] > n_ones[best] + n_zeros[best]:
                best = place
    return best


@kernel
def _part(
    edges: IntArray,
    first: int,
    last: int,
    place: int,
    edge_left: IntArray,
    edge_right: IntArray,
    one: WordArray,
    zero: WordArray,
) -> tuple[int, int]:
    """Sort `edges[first:last]` by need: 1, then 0, then nothing; returns where the last two start."""
    w, bit = place // 64, np.uint64(1) << np.uint64(place % 64)
    old = edges[first:last].copy()
    at = first
    middle = first
    for wanted in range(3):
        if wanted == 1:
            middle = at
        elif wanted == 2:
            rest = at
        for e in old:
            left = edge_left[e]
            right = edge_right[e] if edge_right[e] != NONE else left
            need = 2
            if (one[left, w] | one[right, w]) & bit:
                need = 0
            elif (zero[left, w] | zero[right, w]) & bit:
                need = 1
            if need == wanted:
                edges[at] = e
                at += 1
    return middle, rest


class RelaxationPass:
    """Passes over one relaxation, which share their memory."""

    def __init__(self, relaxation: Relaxation) -> None:
        n_nodes, n_vtree = len(relaxation.node_is_max), len(relaxation.vtree_var)
        self.relaxation = relaxation
        self._value = np.zeros((N_BLOCKS, n_nodes, LANES))
        self._scale = np.ones((N_BLOCKS, n_vtree, LANES))
        self._exponent = np.zeros((N_BLOCKS, n_vtree, LANES), dtype=np.int64)
        self._n_open = np.zeros((N_BLOCKS, n_vtree, LANES), dtype=np.int32)
        smallest = np.exp(SMALLEST_LOG_THETA)
        self._has_tiny_theta = bool(relaxation.edge_theta.min(initial=1.0) <= smallest)
        self._is_ready = np.zeros(N_BLOCKS, dtype=np.bool_)
        self._stack = np.empty((N_BLOCKS, n_vtree + n_nodes), dtype=np.int32)

    def bounds(self, codes: AnyArray) -> tuple[FloatArray, AnyArray, BoolArray]:
        """For each row of codes: a log upper bound, a state that may reach it, and whether the bound is rough.

        A row that gives every open variable a value gets its log-probability, unless that is rough.
        """
        log_bound = np.empty(len(codes))
        states = codes.copy()
        is_rough = np.zeros(len(codes), dtype=np.bool_)
        for start in range(0, len(codes), N_BLOCKS * LANES):
            rows = slice(start, start + N_BLOCKS * LANES)
            _bounds(
                codes[rows],
                self.relaxation,
                self._value,
                self._scale,
                self._exponent,
                self._n_open,
                self._is_ready,
                self._stack,
                log_bound[rows],
                states[rows],
                is_rough[rows],
            )
        return log_bound, states, is_rough | self._has_tiny_theta

    def edge_bounds(self, codes: AnyArray) -> tuple[float, FloatArray]:
        """The log-bound of one row of codes, and of the same with each edge of the relaxation in use."""
        log_bound, _, _ = self.bounds(codes[None])
        edge_share = np.zeros(len(self.relaxation.edge_left))
        _edge_bounds(
            self.relaxation, self._value[0, :, 0].copy(), self._scale[0, :, 0].copy(), edge_share
        )
        with np.errstate(divide="ignore"):
            return float(log_bound[0]), log_bound[0] + np.log(edge_share)


@parallel_kernel
def _bounds(
    codes: AnyArray,
    r: Relaxation,
    value: FloatArray,
    scale: FloatArray,
    exponent: AnyArray,
    n_open: IntArray,
    is_ready: BoolArray,
    stack: IntArray,
    log_bound: FloatArray,
    states: AnyArray,
    is_rough: BoolArray,
) -> None:
    """One pass up per block of rows, then one walk down per row."""
    n_rows = len(codes)
    root = len(r.node_is_max) - 1
    v_root = len(r.vtree_var) - 1
    for block in prange((n_rows + LANES - 1) // LANES):
        k = np.int64(block)
        start = k * LANES
        width = min(LANES, n_rows - start)
        rough = _bound_values(
            codes, start, width, r, is_ready[k], value[k], scale[k], exponent[k], n_open[k]
        )
        is_ready[k] = True
        for b in range(width):
            log_bound[start + b] = np.log(value[k, root, b]) + exponent[k, v_root, b] * np.log(2.0)
            is_rough[start + b] = rough >> b & 1
            if value[k, root, b] > 0.0 and n_open[k, v_root, b] > 0:
                _walk_to_bound(r, value[k], n_open[k], b, stack[k], states[start + b])


@kernel
def _bound_values(
    codes: AnyArray,
    start: int,
    width: int,
    r: Relaxation,
    is_ready: bool,
    value: FloatArray,
    scale: FloatArray,
    exponent: AnyArray,
    n_open: IntArray,
) -> int:
    """Fill `value` (scaled as in `passes`), `scale`, `exponent` and the number of open variables.

    What lies below no open variable is the same for all rows, and is left as it is when ready. Returns a bit per lane
    where a value was too small and was made larger, which keeps it a bound.
    """
    rough = 0
    total = np.empty(LANES)
    top = np.empty(LANES)
    for v in range(len(r.vtree_var)):
        if is_ready and not r.vtree_is_open[v]:
            continue
        var = r.vtree_var[v]
        if var != NONE:
            for b in range(LANES):
                code = codes[start + min(b, width - 1), var]
                value[2 * var, b] = 1.0 if code != 1 else 0.0
                value[2 * var + 1, b] = 1.0 if code != 0 else 0.0
                exponent[v, b] = 0
                n_open[v, b] = r.vtree_is_open[v] and code == UNKNOWN
        else:
            left, right = r.vtree_left[v], r.vtree_right[v]
            for b in range(LANES):
                exponent[v, b] = exponent[left, b] + exponent[right, b]
                n_open[v, b] = n_open[left, b] + n_open[right, b]
        for b in range(LANES):
            top[b] = 0.0
        for n in range(r.vtree_first[v], r.vtree_first[v + 1]):
            for b in range(LANES):
                total[b] = 0.0
            for e in range(r.node_edges[n], r.node_edges[n + 1]):
                theta, l, right = r.edge_theta[e], r.edge_left[e], r.edge_right[e]
                if r.node_is_max[n]:
                    if right == NONE:
                        for b in range(LANES):
                            total[b] = max(total[b], theta * value[l, b])
                    else:
                        for b in range(LANES):
                            total[b] = max(total[b], theta * value[l, b] * value[right, b])
                elif right == NONE:
                    for b in range(LANES):
                        total[b] += theta * value[l, b]
                else:
                    for b in range(LANES):
                        total[b] += theta * value[l, b] * value[right, b]
            for b in range(LANES):
                value[n, b] = total[b]
                top[b] = max(top[b], total[b])
        if var != NONE or r.vtree_first[v] == r.vtree_first[v + 1]:
            continue  # literals stand beside the sums of a leaf, and keep scale 1
        for b in range(LANES):
            scale[v, b] = 1.0
            if top[b] > 0.0:
                _, power = math.frexp(top[b])
                scale[v, b] = math.ldexp(1.0, -power)
                exponent[v, b] += power
        for n in range(r.vtree_first[v], r.vtree_first[v + 1]):
            for b in range(LANES):
                value[n, b] *= scale[v, b]
                if 0.0 < value[n, b] < SMALLEST_VALUE:
                    value[n, b] = SMALLEST_VALUE
                    rough |= 1 << b
    return rough


@kernel
def _walk_to_bound(
    r: Relaxation,
    value: FloatArray,
    n_open: IntArray,
    b: int,
    stack: IntArray,
    state: AnyArray,
) -> None:
    """Follow the largest edge of every sum and maximum as far as there are open variables."""
    n_literals = 2 * len(state)
    v_root = len(r.vtree_var) - 1
    stack[0], stack[1] = len(r.node_is_max) - 1, v_root
    size = 2
    while size > 0:
        n, v = stack[size - 2], stack[size - 1]
        size -= 2
        if n_open[v, b] == 0:
            continue
        if n < n_literals:
            state[n // 2] = n % 2
            continue
        best = NONE
        largest = -1.0
        for e in range(r.node_edges[n], r.node_edges[n + 1]):
            part = r.edge_theta[e] * value[r.edge_left[e], b]
            if r.edge_right[e] != NONE:
                part *= value[r.edge_right[e], b]
            if part > largest:
                best, largest = e, part
        if r.edge_right[best] == NONE:
            stack[size], stack[size + 1] = r.edge_left[best], v
            size += 2
        else:
            stack[size], stack[size + 1] = r.edge_left[best], r.vtree_left[v]
            stack[size + 2], stack[size + 3] = r.edge_right[best], r.vtree_right[v]
            size += 4


@kernel
def _edge_bounds(
    r: Relaxation, value: FloatArray, scale: FloatArray, edge_share: FloatArray
) -> None:
    """Fill `edge_share`: what the bound falls to, as a share of itself, if a state must use the edge.

    A state that uses node n has at most the probability ``rest + (all - rest) x``, in shares of the bound, if x is
    its value at n as a share of the node's own bound. A maximum above gives the rest nothing, a sum the other edges.
    Over several ways to a node the line through the largest rest and the largest sum lies above all others.
    """
    n_nodes = len(r.node_is_max)
    whole = np.zeros(n_nodes)
    rest = np.zeros(n_nodes)
    whole[n_nodes - 1] = 1.0
    for v in range(len(r.vtree_var) - 1, -1, -1):
        for n in range(r.vtree_first[v + 1] - 1, r.vtree_first[v] - 1, -1):
            if value[n] == 0.0 or whole[n] == 0.0:
                continue
            for e in range(r.node_edges[n], r.node_edges[n + 1]):
                l, right = r.edge_left[e], r.edge_right[e]
                part = r.edge_theta[e] * value[l]
                if right != NONE:
                    part *= value[right]
                if part == 0.0:
                    continue
                is_within = r.edge_source[e] == NONE  # then both are scaled alike
                share = min(1.0, part / value[n] if is_within else part * scale[v] / value[n])
                edge_rest = rest[n]
                if not r.node_is_max[n]:
                    edge_rest += (whole[n] - rest[n]) * (1.0 - share)
                edge_share[e] = edge_rest + (whole[n] - rest[n]) * share
                whole[l] = max(whole[l], edge_share[e])
                rest[l] = max(rest[l], edge_rest)
                if right != NONE:
                    whole[right] = max(whole[right], edge_share[e])
                    rest[right] = max(rest[right], edge_rest)
