"""The flow of every row, kept for all components of a mixture at once.

In:  a deterministic `Circuit` and fully observed rows.
Out: `Choices`, the edges that carry a parameter and that some row takes, and per block of rows a
     `Bag`: which of them each row takes.

At every vtree node most rows take the same edge. That *default* is left out of the bags: a row's
log-likelihood is the sum over all defaults, the same for all rows, plus the differences where the
row goes another way; and the weight through a default is what the other edges leave over. On sparse
tables this saves nine tenths of the work, or more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.flows import compute_flows
from strudel.data.bits import BitMatrix
from strudel.errors import ImpossibleRowError

BLOCK_ROWS = 2**15  # rows whose responsibilities are in memory together


@dataclass(frozen=True, eq=False)
class Choices:
    """What a row can do at each vtree node that has a choice, numbered: the *states*.

    States are the edges that carry a parameter, in their order, then for every vtree node "no
    choice here", which rows take that reach a literal or a sum with a single edge. A place is a
    vtree node where some row has a choice.
    """

    circuit: Circuit
    edge: IntArray  # (n_edges_seen,) the edges with a parameter that some row takes
    node_first: IntArray  # edges of sum i are states node_first[i]:node_first[i + 1]
    place_first: IntArray  # states of place p are place_state[place_first[p]:place_first[p + 1]]
    place_state: IntArray
    default: IntArray  # (n_places,) the state most rows take; NONE where bags list all states
    state_of: IntArray  # (n_edges + n_vtree_nodes,) state of an edge, or of "no choice" at a node
    device: Any = None  # of torch, on which components learn; None for the kernels here

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.place_state)

    @property
    def is_listed(self) -> AnyArray:
        """Whether each state is in the bags: all that are no default."""
        is_listed = np.ones(self.n_states, dtype=np.bool_)
        is_listed[self.default[self.default != NONE]] = False
        return is_listed


@dataclass(frozen=True, eq=False)
class Bag:
    """The states of a block of rows that are not defaults, by row and by state."""

    row_first: IntArray  # states of row r are row_state[row_first[r]:row_first[r + 1]]
    row_state: IntArray
    state_first: IntArray  # rows of state s are state_row[state_first[s]:state_first[s + 1]]
    state_row: IntArray
    weight: FloatArray  # (n_rows,) how often each row counts

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.weight)


def share_flows(
    circuit: Circuit, *tables: BitMatrix, has_defaults: bool = True
) -> tuple[Choices, list[list[Bag]]]:
    """Find the states that occur in some tables, and for each table the bags of its rows.

    Without defaults every state is in the bags: where a parameter may be zero, differences of logs
    are not numbers.
    """
    count = np.zeros(circuit.n_edges + circuit.vtree.n_nodes)
    for t, bits in enumerate(tables):
        try:
            count += count_states(bits, circuit)
        except ImpossibleRowError as error:
            error.table = t
            raise
    choices = choices_of(circuit, count, has_defaults)
    return choices, [bags_of_states(choices, bits) for bits in tables]


def count_states(bits: BitMatrix, circuit: Circuit, by_weight: bool = False) -> FloatArray:
    """How many rows, or what weight of rows, make each choice, `(n_edges + n_vtree_nodes,)`."""
    count = np.zeros(circuit.n_edges + circuit.vtree.n_nodes)
    for weight, states in _state_blocks(circuit, bits):
        each = np.broadcast_to(weight, states.shape).ravel() if by_weight else None
        count += np.bincount(states.ravel(), weights=each, minlength=len(count))
    return count


def bags_of_states(choices: Choices, bits: BitMatrix) -> list[Bag]:
    """The bags of one table."""
    is_listed = choices.is_listed
    return [
        bag_of(choices.state_of[states], is_listed, weight)
        for weight, states in _state_blocks(choices.circuit, bits)
    ]


def _state_blocks(circuit: Circuit, bits: BitMatrix) -> Iterator[tuple[FloatArray, IntArray]]:
    """Weights and `(n_vtree_nodes, n_rows)` choices of blocks of rows.

    A choice is an edge of a sum with several, or `n_edges + v` for none at vtree node v.
    """
    has_choice = np.append(np.diff(circuit.node_edges)[circuit.edge_parent] > 1, False)
    none = circuit.n_edges + np.arange(circuit.vtree.n_nodes, dtype=np.int32)[:, np.newaxis]
    for start in range(0, bits.n_rows, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, bits.n_rows)
        words = bits.words[:, start // 64 : -(-stop // 64)]
        block = BitMatrix(np.ascontiguousarray(words), stop - start)
        flows = compute_flows(circuit, block)
        if not flows.is_possible.all():
            raise ImpossibleRowError(start + int(np.argmin(flows.is_possible)))
        active = flows.active_edge
        yield bits.weights[start:stop], np.where(has_choice[active], active, none)


def choices_of(circuit: Circuit, count: FloatArray, has_defaults: bool) -> Choices:
    """The states that occur, and the default of every place."""
    n_edges = circuit.n_edges
    edge = np.flatnonzero(count[:n_edges]).astype(np.int32)
    edge_vtree = circuit.node_vtree[circuit.edge_parent[edge]]
    is_place = np.zeros(circuit.vtree.n_nodes, dtype=bool)
    is_place[edge_vtree] = True
    without = np.flatnonzero(is_place & (count[n_edges:] > 0)).astype(np.int32)
    state_of = np.full(len(count), NONE, dtype=np.int32)
    state_of[edge] = np.arange(len(edge))
    state_of[n_edges + without] = len(edge) + np.arange(len(without))

    place = np.append(edge_vtree, without)
    order = np.argsort(place, kind="stable").astype(np.int32)
    place_first = np.append(np.flatnonzero(np.diff(place[order], prepend=NONE)), len(order))
    state_count = np.append(count[edge], count[n_edges + without])
    default = [
        order[first + np.argmax(state_count[order[first:last]])] if has_defaults else NONE
        for first, last in pairwise(place_first)
    ]
    parent = circuit.edge_parent[edge]
    return Choices(
        circuit,
        edge,
        np.append(np.flatnonzero(np.diff(parent, prepend=NONE)), len(edge)).astype(np.int32),
        place_first.astype(np.int32),
        order,
        np.array(default, dtype=np.int32),
        state_of,
    )


def bag_of(states: IntArray, is_listed: AnyArray, weight: FloatArray) -> Bag:
    """The bag of rows with these states, `(n_places, n_rows)`."""
    n_rows = states.shape[1]
    row_first = np.zeros(n_rows + 1, dtype=np.int32)
    state_first = np.zeros(len(is_listed) + 1, dtype=np.int32)
    _count_entries(states, is_listed, row_first, state_first)
    np.cumsum(row_first, out=row_first)
    np.cumsum(state_first, out=state_first)
    row_state = np.empty(row_first[-1], dtype=np.int32)
    state_row = np.empty(row_first[-1], dtype=np.int32)
    _fill_entries(
        states, is_listed, row_first[:-1].copy(), state_first[:-1].copy(), row_state, state_row
    )
    return Bag(row_first, row_state, state_first, state_row, weight)


@kernel
def _count_entries(
    states: IntArray, is_listed: AnyArray, row_first: IntArray, state_first: IntArray
) -> None:
    """Number of entries of every row and state, one place further on, ready for a running sum."""
    for v in range(states.shape[0]):
        for r in range(states.shape[1]):
            s = states[v, r]
            if s != NONE and is_listed[s]:
                row_first[r + 1] += 1
                state_first[s + 1] += 1


@kernel
def _fill_entries(
    states: IntArray,
    is_listed: AnyArray,
    row_next: IntArray,
    state_next: IntArray,
    row_state: IntArray,
    state_row: IntArray,
) -> None:
    for v in range(states.shape[0]):
        for r in range(states.shape[1]):
            s = states[v, r]
            if s != NONE and is_listed[s]:
                row_state[row_next[r]] = s
                row_next[r] += 1
                state_row[state_next[s]] = r
                state_next[s] += 1
