"""What a partly observed row can reach in a circuit, and the pass up over it.

In:  a circuit in normal form, a row of codes 0, 1 and UNKNOWN, parameters of k components.
Out: the sums and edges that no known value excludes, children first; the log-probability of the
     row below every sum; and the share of every edge in its sum, given the row.

Known values rule most of a large circuit out: a split edge has decided some variables, and a row
that knows one of them otherwise does not take it. So the search goes down from the root and asks
at every node whether a known value contradicts what the node has decided, which is a few words of
bits. What can be reached does not depend on parameters, so the components of a mixture share it.

Values are logs: nothing underflows. Where one edge is left, as is mostly so, no `exp` is needed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, FloatArray, IntArray, WordArray
from strudel.circuits.circuit import Circuit
from strudel.data.bits import pack_rows

# States of a node while a row is looked at; from 0 on it is the node's slot.
NEW, EXCLUDED, POSSIBLE, OPEN = -1, -2, -3, -4


class Layout(NamedTuple):
    """What the search needs of a circuit's structure; places are variables in vtree order."""

    root: int
    n_literals: int
    node_edges: IntArray
    edge_left: IntArray
    edge_right: IntArray
    node_first: IntArray  # (n_nodes,) first word with a place of the node
    node_last: IntArray  # (n_nodes,) last such word plus one
    never: WordArray  # (n_nodes, n_words, 2) places that are never 0, and never 1, below the node


class Reached(NamedTuple):
    """Room for what one row reaches. Slot 0 is a node that is always true, for literals."""

    state: IntArray  # (n_nodes,) one of the above, or the slot
    stack: IntArray
    touched: IntArray  # nodes that are not NEW
    first: IntArray  # active edges of slot i are first[i]:first[i + 1]
    edge: IntArray  # active edges
    left: IntArray  # slots of their children
    right: IntArray


def layout(circuit: Circuit) -> Layout:
    """Find out what every node has decided."""
    vtree = circuit.vtree
    first, last = (span[circuit.node_vtree] for span in vtree.node_span)
    place = np.empty(circuit.n_vars, dtype=np.int64)
    place[vtree.order] = np.arange(circuit.n_vars)
    bit = np.uint64(1) << (place % 64).astype(np.uint64)
    can_be = np.zeros((circuit.n_nodes, -(-circuit.n_vars // 64), 2), dtype=np.uint64)
    for value in (0, 1):
        can_be[2 * np.arange(circuit.n_vars) + value, place // 64, value] = bit
    never = np.zeros_like(can_be)
    _find_decided(
        circuit.node_edges, circuit.edge_left, circuit.edge_right, first, last, can_be, never
    )
    return Layout(
        circuit.root,
        2 * circuit.n_vars,
        circuit.node_edges,
        circuit.edge_left,
        circuit.edge_right,
        (first // 64).astype(np.int32),
        ((last - 1) // 64 + 1).astype(np.int32),
        never,
    )


@kernel
def _find_decided(
    node_edges: IntArray,
    edge_left: IntArray,
    edge_right: IntArray,
    first: IntArray,
    last: IntArray,
    can_be: WordArray,
    never: WordArray,
) -> None:
    """Fill `never`: the places of a node that can have no such value below it."""
    n_nodes, n_words, _ = can_be.shape
    for n in range(n_nodes):
        for e in range(node_edges[n], node_edges[n + 1]):
            for w in range(n_words):
                for value in range(2):
                    can_be[n, w, value] |= can_be[edge_left[e], w, value]
                    if edge_right[e] != NONE:
                        can_be[n, w, value] |= can_be[edge_right[e], w, value]
        for place in range(first[n], last[n]):
            bit = np.uint64(1) << np.uint64(place % 64)
            for value in range(2):
                if not can_be[n, place // 64, value] & bit:
                    never[n, place // 64, value] |= bit


def known_words(circuit: Circuit, codes: AnyArray) -> WordArray:
    """For every row the places known to be 0, and to be 1, of shape `(n_rows, n_words, 2)`."""
    ordered = codes[:, circuit.vtree.order]
    return np.stack([pack_rows(ordered == 0), pack_rows(ordered == 1)], axis=2)


@kernel
def room_for(c: Layout) -> Reached:
    """Room for any row."""
    n_nodes, n_edges = len(c.node_edges) - 1, len(c.edge_left)
    return Reached(
        np.full(n_nodes, NEW, dtype=np.int32),
        np.empty(2 * n_edges + 1, dtype=np.int32),
        np.empty(n_nodes, dtype=np.int32),
        np.zeros(n_nodes + 2, dtype=np.int32),
        np.empty(n_edges, dtype=np.int32),
        np.empty(n_edges, dtype=np.int32),
        np.empty(n_edges, dtype=np.int32),
    )


@kernel
def reach(known: WordArray, c: Layout, r: Reached) -> int:
    """Find what a row reaches, children first; returns the number of slots, 1 for nothing.

    The root has the last slot.
    """
    # Names of their own for the arrays: looked up in the tuples, every access takes twice as long.
    state, stack, touched = r.state, r.stack, r.touched
    node_edges, edge_left, edge_right = c.node_edges, c.edge_left, c.edge_right
    node_first, node_last, never, n_literals = c.node_first, c.node_last, c.never, c.n_literals
    n_slots, n_active, n_touched, size = 1, 0, 0, 1
    r.first[1] = 0
    stack[0] = c.root
    state[c.root] = POSSIBLE
    touched[0] = c.root
    n_touched = 1
    while size > 0:
        n = stack[size - 1]
        if state[n] == POSSIBLE:  # look at the children first
            state[n] = OPEN
            for e in range(node_edges[n], node_edges[n + 1]):
                left, right = edge_left[e], edge_right[e]
                if state[left] == NEW:
                    state[left] = _look_at(known, node_first, node_last, never, n_literals, left)
                    touched[n_touched] = left
                    n_touched += 1
                if state[left] == EXCLUDED:
                    continue
                if right != NONE:
                    if state[right] == NEW:
                        state[right] = _look_at(
                            known, node_first, node_last, never, n_literals, right
                        )
                        touched[n_touched] = right
                        n_touched += 1
                    if state[right] == EXCLUDED:
                        continue
                    if state[right] == POSSIBLE:
                        stack[size] = right
                        size += 1
                if state[left] == POSSIBLE:
                    stack[size] = left
                    size += 1
            continue
        size -= 1
        if state[n] != OPEN:  # another way led here before
            continue
        first = n_active
        for e in range(node_edges[n], node_edges[n + 1]):
            left = state[edge_left[e]]
            if left < 0:
                continue
            right = np.int32(0) if edge_right[e] == NONE else state[edge_right[e]]
            if right >= 0:
                r.edge[n_active], r.left[n_active], r.right[n_active] = e, left, right
                n_active += 1
        if n_active == first:
            state[n] = EXCLUDED
            continue
        state[n] = n_slots
        n_slots += 1
        r.first[n_slots] = n_active
    for i in range(n_touched):
        state[touched[i]] = NEW
    return n_slots


@kernel
def _look_at(
    known: WordArray,
    node_first: IntArray,
    node_last: IntArray,
    never: WordArray,
    n_literals: int,
    n: int,
) -> int:
    """The state of a node: EXCLUDED if a known value contradicts what it has decided."""
    for w in range(node_first[n], node_last[n]):
        if (known[w, 0] & never[n, w, 0]) | (known[w, 1] & never[n, w, 1]):
            return EXCLUDED
    return 0 if n < n_literals else POSSIBLE


@kernel
def pass_up(
    r: Reached, n_slots: int, log_theta: FloatArray, value: FloatArray, share: FloatArray
) -> None:
    """Fill `value` (slots, k), and `share` (active edges, k): of every edge in its sum."""
    k = log_theta.shape[1]
    for j in range(k):
        value[0, j] = 0.0
    for i in range(1, n_slots):
        first, last = r.first[i], r.first[i + 1]
        for a in range(first, last):
            e, left, right = r.edge[a], r.left[a], r.right[a]
            for j in range(k):
                share[a, j] = log_theta[e, j] + value[left, j] + value[right, j]
        if last == first + 1:
            for j in range(k):
                value[i, j] = share[first, j]
                share[first, j] = 1.0
            continue
        for j in range(k):
            top = share[first, j]
            for a in range(first + 1, last):
                top = max(top, share[a, j])
            if top == -np.inf:  # then the row never gets here with this component
                value[i, j] = -np.inf
                for a in range(first, last):
                    share[a, j] = 0.0
                continue
            total = 0.0
            for a in range(first, last):
                share[a, j] = np.exp(share[a, j] - top)
                total += share[a, j]
            value[i, j] = top + np.log(total)
            for a in range(first, last):
                share[a, j] /= total
