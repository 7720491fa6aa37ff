"""What a row of evidence leaves of a circuit, with sums that bound the best state of some columns.

In:  a `Question`: a circuit, evidence, and the columns in question.
Out: `RowValues`: for a row, the cells that are left, and the values of all nodes as bounds.

The columns in question take their best cell, all others are summed out. A sum of maxima is never
below the maximum of a sum, so the value of the root bounds all states. A sum of edges that exclude
each other, whatever the other columns have, takes the largest of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, FloatArray, IntArray, WordArray
from strudel.circuits.circuit import Circuit, Edges
from strudel.circuits.properties import why_no_deterministic_components
from strudel.circuits.walks import log_sums
from strudel.queries.best_states import KBest, WeighedCells
from strudel.tables.evidence import Evidence

N_SEEDS = 32  # components whose best states a search begins with
WORD = 64
NOTHING = np.uint64(0)


class Question:
    """What all rows of evidence share: the circuit, the columns in question, and how sums add."""

    def __init__(
        self, circuit: Circuit, evidence: Evidence, places: Iterable[int], n_wanted: int = 1
    ) -> None:
        self.circuit, self.n_wanted = circuit, n_wanted
        self.weighed = WeighedCells(circuit, evidence)
        self.is_asked = np.zeros(len(circuit.columns), dtype=bool)
        self.is_asked[list(places)] = True
        self.is_deterministic = why_no_deterministic_components(circuit) is None
        no_edges = np.zeros(circuit.n_leaves, dtype=np.int32)
        node_edges = np.concatenate([no_edges, circuit.sum_edges])
        self.edges = Edges(node_edges, circuit.edge_left, circuit.edge_right)
        self.is_possible = np.any(circuit.edge_log_theta > -np.inf, axis=1)
        self.k_best = KBest(circuit, n_wanted) if n_wanted > 1 and self.is_deterministic else None


class RowValues(NamedTuple):
    """A circuit with the cells that a row of evidence allows, and sums as they bound states."""

    circuit: Circuit
    edges: Edges
    is_possible: AnyArray  # (n_edges,) under some component
    node_is_max: AnyArray  # (n_nodes,) sums that take one edge at most, whatever the state
    log_cells: FloatArray  # (n_leaf_cells, k) with the weights of the evidence
    leaf_log: FloatArray  # (n_leaves, k) the best cell of a column in question, else all
    places: AnyArray  # the columns in question that have several cells left
    cells: IntArray  # (n_columns,) the only cells that are left, NONE where there are several
    first: IntArray  # (n_places + 1,) choices of the places, one for every cell that is left
    choice_cell: AnyArray  # (n_choices,)
    choice_of: AnyArray  # (n_places, n_cells) the number of a choice
    is_exact: bool  # every sum takes one edge at most, whatever the state

    def values(self) -> FloatArray:
        """The log-values of all nodes, as they bound the best state, `(n_nodes, k)`."""
        return self._values(self.leaf_log)

    def _values(self, leaf_log: FloatArray) -> FloatArray:
        circuit = self.circuit
        value = np.empty((circuit.n_nodes, circuit.n_components))
        value[: circuit.n_leaves] = leaf_log
        _log_values(len(leaf_log), self.edges, circuit.edge_log_theta, self.node_is_max, value)
        return value

    def log_probability(self, state: tuple[int, ...]) -> float:
        """The log-probability of a state of the columns in question and what is known."""
        circuit = self.circuit
        cell = np.full(len(circuit.columns), NONE)
        cell[self.places] = state
        own = cell[circuit.leaf_column]
        rows = self.log_cells[circuit.leaf_first[:-1] + np.maximum(own, 0)]
        leaf_log = np.where((own == NONE)[:, np.newaxis], self.leaf_log, rows)
        return float(np.logaddexp.reduce(self._values(leaf_log)[-1] + circuit.log_weight))


def row_values(question: Question, row: int) -> RowValues:
    """What a row of evidence leaves of the cells."""
    circuit, weighed, is_asked = question.circuit, question.weighed, question.is_asked
    weights = weighed.weights(row)
    log_cells = weighed.log_cells(weights)
    is_left = weights > 0.0
    n_left = np.add.reduceat(is_left, weighed.first[:-1], dtype=np.int64)
    only = np.add.reduceat(np.where(is_left, weighed.cell, 0), weighed.first[:-1])
    leaf_log = np.full((circuit.n_leaves, circuit.n_components), -np.inf)
    _largest_of_leaves(log_cells, circuit.leaf_first, leaf_log)
    hidden = np.flatnonzero(~is_asked & (n_left > 1))
    for place in hidden.tolist():
        first = circuit.leaf_first[slice(*(circuit.column_leaves[place : place + 2] + [0, 1]))]
        own = log_sums(log_cells[first[0] : first[-1]], first[:-1] - first[0])
        leaf_log[slice(*circuit.column_leaves[place : place + 2])] = own
    is_exact = not len(hidden) and question.is_deterministic
    is_open = is_asked & (n_left > 1)
    choices = np.flatnonzero(is_open[weighed.column] & is_left)
    number = np.cumsum(is_open) - 1
    cells = weighed.cell[choices]
    choice_of = np.full((int(is_open.sum()), int(weighed.n_cells.max())), NONE)
    choice_of[number[weighed.column[choices]], cells] = np.arange(len(choices))
    places = np.flatnonzero(is_open)
    is_decided = np.ones(circuit.n_nodes, dtype=bool)
    if not is_exact:
        words = _words_of_leaves(circuit, log_cells, places)
        _find_decided(words[0], question.edges, *words[1:], question.is_possible, is_decided)
    return RowValues(
        circuit,
        question.edges,
        question.is_possible,
        is_decided,
        log_cells,
        leaf_log,
        places,
        np.where(n_left == 1, only, NONE),
        np.concatenate([[0], np.cumsum(n_left[is_open])]).astype(np.int32),
        cells,
        choice_of,
        is_exact,
    )


@kernel
def _largest_of_leaves(log_cells: FloatArray, leaf_first: IntArray, leaf_log: FloatArray) -> None:
    for l in range(len(leaf_log)):
        mine = leaf_log[l]
        for row in range(leaf_first[l], leaf_first[l + 1]):
            own = log_cells[row]
            for c in range(len(mine)):
                mine[c] = max(mine[c], own[c])


# Sums as they bound states


def _words_of_leaves(
    circuit: Circuit, log_cells: FloatArray, places: AnyArray
) -> tuple[WordArray, WordArray, WordArray]:
    """Which cells of the places every leaf has, as fields of bits, and their lowest and next bits.

    Where a column has more cells than bits, several share one.
    """
    one, at, bit = np.uint64(1), 0, 0
    fields = []
    for place in places.tolist():
        width = min(circuit.columns[place].n_cells, WORD - 1)
        if bit + width + 1 > WORD:
            at, bit = at + 1, 0
        fields.append((place, at, bit, width))
        bit += width + 1
    words = np.full((circuit.n_leaves, at + 1), ~np.uint64(0))
    low, guard = np.zeros((2, at + 1), dtype=np.uint64)
    is_cell = np.any(log_cells > -np.inf, axis=1)
    words[np.bitwise_or.reduceat(is_cell, circuit.leaf_first[:-1]) == 0] = 0
    for place, at, bit, width in fields:
        a, b = circuit.column_leaves[place : place + 2]
        has = is_cell[circuit.leaf_first[a] : circuit.leaf_first[b]].reshape(b - a, -1)
        bits = one << (bit + np.arange(has.shape[1]) % width).astype(np.uint64)
        own = np.bitwise_or.reduce(np.where(has, bits, np.uint64(0)), axis=1)
        all_bits = ((one << np.uint64(width)) - one) << np.uint64(bit)
        words[a:b, at] &= ~all_bits | own
        low[at] |= one << np.uint64(bit)
        guard[at] |= one << np.uint64(bit + width)
    return words, low, guard


@kernel
def _find_decided(
    leaf_words: WordArray,
    edges: Edges,
    low: WordArray,
    guard: WordArray,
    is_possible: AnyArray,
    is_decided: AnyArray,
) -> None:
    """Clear `is_decided` of sums with two edges that may hold together."""
    node_edges, edge_left, edge_right = edges
    n_leaves, n_words = leaf_words.shape
    n_nodes = len(is_decided)
    words = np.zeros((n_nodes, n_words), dtype=np.uint64)
    words[:n_leaves] = leaf_words  # zero where nothing holds, as below
    of_edge = np.zeros((len(edge_left), n_words), dtype=np.uint64)
    for n in range(n_leaves, n_nodes):
        for e in range(node_edges[n], node_edges[n + 1]):
            l, r = edge_left[e], edge_right[e]
            if not is_possible[e] or words[l, 0] == NOTHING or words[r, 0] == NOTHING:
                continue
            for w in range(n_words):
                of_edge[e, w] = words[l, w] & words[r, w]
                words[n, w] |= of_edge[e, w]
            for f in range(node_edges[n], e):
                if not is_decided[n] or of_edge[f, 0] == NOTHING:
                    continue
                is_apart = False
                for w in range(n_words):  # a field that is zero takes its guard from the sum
                    both = of_edge[e, w] & of_edge[f, w]
                    is_apart |= ((both | guard[w]) - low[w]) & guard[w] != guard[w]
                is_decided[n] = is_apart


@kernel
def _log_values(
    n_leaves: int,
    edges: Edges,
    log_theta: FloatArray,
    node_is_max: AnyArray,
    value: FloatArray,
) -> None:
    """Fill the values of the sums, given those of the leaves."""
    node_edges, edge_left, edge_right = edges
    k = value.shape[1]
    for n in range(n_leaves, len(value)):
        mine = value[n]
        mine[:] = -np.inf
        for e in range(node_edges[n], node_edges[n + 1]):
            own, left, right = log_theta[e], value[edge_left[e]], value[edge_right[e]]
            if node_is_max[n]:
                for c in range(k):
                    mine[c] = max(mine[c], own[c] + left[c] + right[c])
            else:
                for c in range(k):
                    mine[c] = np.logaddexp(mine[c], own[c] + left[c] + right[c])


def best_of_components(row: RowValues, value: FloatArray, log_best: FloatArray) -> IntArray:
    """The states that the best edges lead to, of the components that bound the best."""
    circuit = row.circuit
    order = np.argsort(-log_best, kind="stable")[:N_SEEDS]
    components = order[log_best[order] > -np.inf]
    cells = np.empty((len(components), len(circuit.columns)), dtype=np.int32)
    leaves = (circuit.leaf_column, circuit.leaf_first, row.log_cells)
    _best_of_components(components, row.edges, circuit.edge_log_theta, value, *leaves, cells)
    return cells[:, row.places]


@kernel
def _best_of_components(
    components: AnyArray,
    edges: Edges,
    log_theta: FloatArray,
    value: FloatArray,
    leaf_column: IntArray,
    leaf_first: IntArray,
    log_cells: FloatArray,
    cells: IntArray,
) -> None:
    """Follow the best edges of each component down from the root."""
    node_edges, edge_left, edge_right = edges
    stack = np.empty(cells.shape[1] + 1, dtype=np.int32)
    for i in range(len(components)):
        c = components[i]
        stack[0] = len(value) - 1
        size = 1
        while size > 0:
            size -= 1
            n = stack[size]
            chosen, most = NONE, -np.inf
            if n < len(leaf_column):
                for cell in range(leaf_first[n], leaf_first[n + 1]):
                    if log_cells[cell, c] > most:
                        chosen, most = cell, log_cells[cell, c]
                cells[i, leaf_column[n]] = chosen - leaf_first[n]
                continue
            for e in range(node_edges[n], node_edges[n + 1]):
                term = log_theta[e, c] + value[edge_left[e], c] + value[edge_right[e], c]
                if term > most:
                    chosen, most = e, term
            stack[size] = edge_left[chosen]
            stack[size + 1] = edge_right[chosen]
            size += 2


def log_of(values: FloatArray) -> FloatArray:
    """Logs of numbers, of which some may be zero."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values))
