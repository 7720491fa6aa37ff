"""Bounds on all states of some columns that a partial assignment of cells allows.

In:  a `Question`: a circuit, evidence, and the columns in question; then rows of choices: which
     cells of these columns are allowed.
Out: `RowValues`: for a row of evidence, the cells that are left, and the values of all nodes as
     bounds. `Relaxation`: by one walk up, a bound on all states that choices allow, relative to
     that on all; by one down, on those with each cell; and what complete states reach, with all
     that differ from them in one column.

The columns in question take their best cell, all others are summed out. A sum of maxima is never
below the maximum of a sum, so the value of the root bounds all states. A sum of edges that exclude
each other, whatever the other columns have, takes the largest of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from strudel._numba import in_threads, kernel
from strudel._types import NONE, AnyArray, ByteArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit, Edges, starts
from strudel.circuits.properties import overlaps, why_no_deterministic_components
from strudel.circuits.reweigh import keep_reached
from strudel.circuits.walks import log_sums, made_once
from strudel.queries.best_states import KBest, all_cells, weighed_cells
from strudel.queries.given import remembered
from strudel.tables.evidence import Evidence

N_SEEDS = 12  # components whose best states a search begins with
WIDTH = 64  # components that go side by side, at most
MOST_CHUNKS = 4  # of the components, each with its own sums, so that threads share the work
SMALLEST = 1e-100  # of values and parameters that are not zero: three multiply to 1e-300
NEGLIGIBLE = 1e-15  # of what is enough: all that the components left out may add together
LOG_SMALLEST = np.log(SMALLEST)
ONE = 0  # the node that is always 1
ALL, SOME = -1, -2  # cells of a column that are allowed


class Question:
    """What all rows of evidence share: the circuit, the columns in question, and how sums add."""

    def __init__(
        self, circuit: Circuit, evidence: Evidence, places: Iterable[int], n_wanted: int = 1
    ) -> None:
        self.circuit, self.evidence, self.n_wanted = circuit, evidence, n_wanted
        self.cells = made_once(circuit, "_all_cells", all_cells)
        self.is_asked = np.zeros(len(circuit.columns), dtype=bool)
        self.is_asked[list(places)] = True
        self.is_deterministic = why_no_deterministic_components(circuit) is None
        self.edges = Edges(circuit.node_edges, circuit.edge_left, circuit.edge_right)
        self.k_best = KBest(circuit, n_wanted) if n_wanted > 1 and self.is_deterministic else None


class RowValues(NamedTuple):
    """A circuit with the cells that a row of evidence allows, and sums as they bound states."""

    circuit: Circuit
    edges: Edges
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
    circuit, is_asked, all_of = question.circuit, question.is_asked, question.cells
    weights, log_cells = weighed_cells(circuit, question.evidence, row)
    is_left = weights > 0.0
    n_left = np.add.reduceat(is_left, all_of.first, dtype=np.int64)
    only = np.add.reduceat(np.where(is_left, all_of.cell, 0), all_of.first)
    leaf_log = np.full((circuit.n_leaves, circuit.n_components), -np.inf)
    _largest_of_leaves(log_cells, circuit.leaf_first, leaf_log)
    is_hidden = ~is_asked & (n_left > 1)
    for place in np.flatnonzero(is_hidden).tolist():
        a, b = circuit.column_leaves[place : place + 2]
        ends = circuit.leaf_first[a : b + 1]
        leaf_log[a:b] = log_sums(log_cells[ends[0] : ends[-1]], ends[:-1] - ends[0])
    is_exact = not is_hidden.any() and question.is_deterministic
    is_open = is_asked & (n_left > 1)
    choices = np.flatnonzero(is_open[all_of.column] & is_left)
    cells, number = all_of.cell[choices], np.cumsum(is_open) - 1
    choice_of = np.full((int(is_open.sum()), int(all_of.cell.max()) + 1), NONE)
    choice_of[number[all_of.column[choices]], cells] = np.arange(len(choices))
    is_decided = np.ones(circuit.n_nodes, dtype=bool)
    if not is_exact:
        key = "decided", is_hidden.tobytes()
        is_decided[circuit.n_leaves :] = ~remembered(
            circuit, key, lambda: overlaps(circuit, is_hidden)[1]
        )
    return RowValues(
        circuit,
        question.edges,
        is_decided,
        log_cells,
        leaf_log,
        np.flatnonzero(is_open),
        np.where(n_left == 1, only, NONE),
        np.concatenate([[0], np.cumsum(n_left[is_open])]).astype(np.int32),
        cells,
        choice_of,
        is_exact,
    )


@kernel
def _largest_of_leaves(log_cells: FloatArray, leaf_first: IntArray, leaf_log: FloatArray) -> None:
    for l in range(len(leaf_log)):  # 50 times as quick as `reduceat` along the first axis
        for row in range(leaf_first[l], leaf_first[l + 1]):
            for c in range(leaf_log.shape[1]):
                leaf_log[l, c] = max(leaf_log[l, c], log_cells[row, c])


@kernel
def _log_values(
    n_leaves: int, edges: Edges, log_theta: FloatArray, node_is_max: AnyArray, value: FloatArray
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


class Relaxation(NamedTuple):
    """What bounds partial assignments: parameters relative to the bounds of all states.

    Taken like this every node is 1 without any assignment, and only falls: linear numbers need no
    scale. What falls below SMALLEST is kept there, as a bound may be too large, never too small.
    Nodes that are always 1 are ONE, which comes first; then leaves by column, then sums.
    """

    choice_first: IntArray  # (n_open + 1,) choices of the columns in question
    column_leaves: IntArray  # (n_open + 1,) their leaves
    leaf_first: IntArray  # (n_leaves + 2,) by node, rows of the table
    is_cell: ByteArray  # (n_rows,) whether a component has it
    root: int
    node_edges: IntArray
    edge_node: IntArray
    edge_left: IntArray
    edge_right: IntArray
    node_is_max: AnyArray
    theta: FloatArray  # (n_blocks, n_edges, width)
    table: FloatArray  # (n_blocks, n_rows, width) every cell of a leaf relative to the best
    weight: FloatArray  # (n_blocks, width) of the components
    rest: float  # what the components left out can add at most
    log_unit: float  # log-probability that 1 stands for
    all_max: bool  # so that the walk down gives every cell the bound that fixing it would


def relax(row: RowValues, value: FloatArray, log_best: FloatArray, log_enough: float) -> Relaxation:
    """What bounds states, without components that add nothing to what is above `log_enough`."""
    circuit, n_leaves, edges = row.circuit, row.circuit.n_leaves, row.edges
    log_unit = float(log_best.max())
    order = np.argsort(-log_best, kind="stable")
    n_kept = int((log_best > -np.inf).sum())
    if log_enough > -np.inf:
        tail = np.cumsum(np.exp(np.minimum(log_best[order] - log_enough, 0.0))[::-1])[::-1]
        n_kept = max(1, int((tail > NEGLIGIBLE).sum()))
    kept, left_out = np.sort(order[:n_kept]), order[n_kept:]
    n_blocks = -(-n_kept // WIDTH)

    value, log_theta = value.take(kept, axis=1), circuit.edge_log_theta.take(kept, axis=1)
    terms = log_theta + value.take(edges.edge_left, axis=0) + value.take(edges.edge_right, axis=0)
    is_live, is_reached = terms.max(axis=1) > -np.inf, np.zeros(len(value), dtype=bool)
    keep_reached(*edges, is_live, is_reached)
    open_of = np.full(len(circuit.columns), NONE, dtype=np.int32)
    open_of[row.places] = np.arange(len(row.places))
    leaf = np.flatnonzero(is_reached[:n_leaves] & (open_of[circuit.leaf_column] != NONE))
    column = open_of[circuit.leaf_column[leaf]]
    n_choices = np.diff(row.first)[column]
    node_number = np.zeros(len(value), dtype=np.int32)  # ONE, unless it is another
    node_number[leaf] = 1 + np.arange(len(leaf))
    node_edges = np.zeros(len(value) + 2, dtype=np.int32)
    made = np.empty((5, circuit.n_edges), dtype=np.int32)
    sizes = 1 + len(leaf), n_leaves
    n_nodes, n_edges = _number_sums(
        *sizes, edges, is_live, is_reached, node_number, node_edges, *made
    )
    edge_of, edge_node, parent, left, right = made[:, :n_edges].copy()
    node_is_max = np.ones(n_nodes, dtype=bool)
    node_is_max[edge_node] = row.node_is_max[parent]

    leaf_first = np.concatenate([[0, 0], np.cumsum(n_choices)]).astype(np.int32)
    shift = np.repeat(row.first[column] - leaf_first[1:-1], n_choices)
    choice = np.arange(leaf_first[-1]) + shift
    cell = np.repeat(circuit.leaf_first[leaf], n_choices) + row.choice_cell[choice]
    log_cells = row.log_cells.take(kept, axis=1)
    weight = np.zeros((n_blocks, -(-n_kept // n_blocks)))
    weight.ravel()[:n_kept] = np.exp(log_best[kept] - log_unit)
    return Relaxation(
        row.first,
        1 + starts(column, len(row.places)),
        leaf_first,
        (log_cells.max(axis=1) > -np.inf)[cell].astype(np.uint8),
        int(node_number[-1]),
        node_edges[: n_nodes + 1],
        edge_node,
        left,
        right,
        node_is_max,
        _shares(n_blocks, edge_of, terms, parent, value),
        _shares(n_blocks, cell, log_cells, np.repeat(leaf, n_choices), value),
        weight,
        float(np.exp(log_best[left_out] - log_unit).sum()),
        log_unit,
        bool(node_is_max.all()),
    )


def _shares(
    n_blocks: int, row: AnyArray, logs: FloatArray, node: AnyArray, value: FloatArray
) -> FloatArray:
    """Rows of logs as parts of what nodes reach, in blocks of components."""
    shares = np.full((n_blocks, len(row), -(-logs.shape[1] // n_blocks)), -np.inf)
    _fill_log_shares(row, logs, node, value, shares)
    return np.exp(shares, out=shares)


@kernel
def _fill_log_shares(
    row: AnyArray, logs: FloatArray, node: AnyArray, value: FloatArray, shares: FloatArray
) -> None:
    """What is possible is SMALLEST or more."""
    width = shares.shape[2]
    for i in range(len(row)):
        mine, whole = logs[row[i]], value[node[i]]
        for c in range(len(mine)):
            if mine[c] > -np.inf:
                shares[c // width, i, c % width] = max(mine[c] - whole[c], LOG_SMALLEST)


@kernel
def _number_sums(
    n_nodes: int,
    n_leaves: int,
    edges: Edges,
    is_live: AnyArray,
    is_reached: AnyArray,
    node_number: IntArray,
    new_node_edges: IntArray,
    edge_of: IntArray,
    edge_node: IntArray,
    parent: IntArray,
    new_left: IntArray,
    new_right: IntArray,
) -> tuple[int, int]:
    """Number the sums that are left, after `n_nodes` others, and their edges; how many there are.

    A sum of what is always 1 is ONE. A sum with one edge is 1 times its children, and so it is one
    of the children if the other is ONE.
    """
    node_edges, edge_left, edge_right = edges
    n_edges = 0
    for n in range(n_leaves, len(is_reached)):
        if not is_reached[n]:
            continue
        first = n_edges
        most = ONE  # of the children
        is_product = False
        for e in range(node_edges[n], node_edges[n + 1]):
            if is_live[e]:
                left, right = node_number[edge_left[e]], node_number[edge_right[e]]
                most = max(most, left, right)
                is_product |= left != ONE and right != ONE
                edge_of[n_edges], edge_node[n_edges], parent[n_edges] = e, n_nodes, n
                new_left[n_edges], new_right[n_edges] = left, right
                n_edges += 1
        if most == ONE or (n_edges == first + 1 and not is_product):
            node_number[n] = most
            n_edges = first
            continue
        node_number[n] = n_nodes
        n_nodes += 1
        new_node_edges[n_nodes] = n_edges
    return n_nodes, n_edges


class _Memory(NamedTuple):
    """What a pass works in."""

    value: FloatArray  # (n_nodes, width)
    flow: FloatArray  # (n_nodes, width)
    is_reached: AnyArray  # (n_nodes,)
    live: IntArray  # (n_edges,) those that are reached come first, children before parents
    leaf_row: IntArray  # (1 + n_leaves,) row of the table that a leaf has as its value


def passes(
    r: Relaxation, allowed: ByteArray, is_exact: bool, is_down: bool
) -> tuple[FloatArray, FloatArray]:
    """What assignments reach `(n_rows,)`, and with each cell `(n_rows, n_choices)`.

    As bounds, with each of the cells that are allowed; or `is_exact` of complete states, with any
    other cell of one column.
    """
    n_chunks = 1 if len(allowed) >= MOST_CHUNKS else min(len(r.weight), MOST_CHUNKS)
    total = np.zeros((len(allowed), n_chunks))
    choices = np.zeros((len(allowed), n_chunks, allowed.shape[1] if is_down else 0))
    in_threads(_passes, total.size, allowed, r, is_exact, is_down, total, choices)
    return total.sum(axis=1), choices.sum(axis=1)


@kernel
def _passes(
    first: int,
    last: int,
    allowed: ByteArray,
    r: Relaxation,
    is_exact: bool,
    is_down: bool,
    total: FloatArray,
    choices: FloatArray,
) -> None:
    """A pass per row and block of components; chunks of blocks add up."""
    n_chunks = total.shape[1]
    n_nodes, first_sum = len(r.node_edges) - 1, len(r.leaf_first) - 1
    shape = n_nodes, r.weight.shape[1]
    m = _Memory(
        np.empty(shape),
        np.empty(shape),
        np.empty(n_nodes, dtype=np.bool_),
        np.empty(len(r.edge_left), dtype=np.int32),
        np.empty(first_sum, dtype=np.int32),
    )
    every = np.ones(allowed.shape[1], dtype=np.uint8)
    for task in range(first, last):
        row, chunk = task // n_chunks, task % n_chunks
        mine = allowed[row]
        n_live = _find_live_edges(every if is_exact and is_down else mine, r, m)
        if not m.is_reached[r.root]:
            continue
        _find_leaf_rows(mine, r, m.leaf_row)
        for block in range(chunk, len(r.weight), n_chunks):
            _pass_up(mine, r, block, is_exact, n_live, m)
            total[row, chunk] += _sum_of_products(r.weight[block], m.value[r.root])
            if is_down:
                _pass_down(r, block, is_exact, n_live, m)
                _add_choices(
                    every if is_exact else mine, r, block, is_exact, m, choices[row, chunk]
                )


@kernel
def _find_live_edges(allowed: ByteArray, r: Relaxation, m: _Memory) -> int:
    """The edges that allowed cells and the root reach, children first; returns how many."""
    is_reached, live = m.is_reached, m.live
    n_nodes, first_sum = len(is_reached), len(r.leaf_first) - 1
    holds = np.zeros(n_nodes, dtype=np.bool_)
    holds[ONE] = True
    for i in range(len(r.column_leaves) - 1):
        start, stop = r.choice_first[i], r.choice_first[i + 1]
        for n in range(r.column_leaves[i], r.column_leaves[i + 1]):
            shift = r.leaf_first[n] - start
            for j in range(start, stop):
                if allowed[j] and r.is_cell[j + shift]:
                    holds[n] = True
                    break
    for n in range(first_sum, n_nodes):
        for e in range(r.node_edges[n], r.node_edges[n + 1]):
            if holds[r.edge_left[e]] and holds[r.edge_right[e]]:
                holds[n] = True
                break
    for n in range(n_nodes):
        is_reached[n] = False
    is_reached[r.root] = holds[r.root]
    n_live = 0
    for n in range(n_nodes - 1, first_sum - 1, -1):
        if not is_reached[n]:
            continue
        for e in range(r.node_edges[n + 1] - 1, r.node_edges[n] - 1, -1):
            left, right = r.edge_left[e], r.edge_right[e]
            if holds[left] and holds[right]:
                is_reached[left] = True
                is_reached[right] = True
                live[n_live] = e
                n_live += 1
    for i in range(n_live // 2):
        live[i], live[n_live - 1 - i] = live[n_live - 1 - i], live[i]
    return n_live


@kernel
def _find_leaf_rows(allowed: ByteArray, r: Relaxation, leaf_row: IntArray) -> None:
    """The row of the table that a leaf has as its value: ALL of them, SOME, or one."""
    for i in range(len(r.column_leaves) - 1):
        start, stop = r.choice_first[i], r.choice_first[i + 1]
        n_allowed = 0
        only = start
        for j in range(start, stop):
            if allowed[j]:
                n_allowed += 1
                only = j
        for n in range(r.column_leaves[i], r.column_leaves[i + 1]):
            leaf_row[n] = SOME if n_allowed > 1 else r.leaf_first[n] + only - start
            if n_allowed == stop - start:
                leaf_row[n] = ALL


@kernel
def _pass_up(
    allowed: ByteArray, r: Relaxation, block: int, is_exact: bool, n_live: int, m: _Memory
) -> None:
    """Fill the values of the nodes that are reached."""
    theta, table, value, leaf_row = r.theta[block], r.table[block], m.value, m.leaf_row
    least = 0.0 if is_exact else SMALLEST
    value[ONE] = 1.0
    for i in range(len(r.column_leaves) - 1):
        start, stop = r.choice_first[i], r.choice_first[i + 1]
        for n in range(r.column_leaves[i], r.column_leaves[i + 1]):
            if not m.is_reached[n]:
                continue
            if leaf_row[n] >= 0:
                value[n] = table[leaf_row[n]]
                continue
            value[n] = 1.0 if leaf_row[n] == ALL else 0.0
            if leaf_row[n] == SOME:
                mine = value[n]
                for j in range(start, stop):
                    if allowed[j]:
                        cell = table[r.leaf_first[n] + j - start]
                        for b in range(len(mine)):
                            mine[b] = max(mine[b], cell[b])
    last = NONE
    for e in m.live[:n_live]:
        n = r.edge_node[e]
        mine = value[n]
        if n != last:
            if last != NONE:
                _keep_digits(value[last], least)
            mine[:] = 0.0
            last = n
        share, left, right = theta[e], value[r.edge_left[e]], value[r.edge_right[e]]
        if is_exact or not r.node_is_max[n]:
            for b in range(len(mine)):
                mine[b] += share[b] * left[b] * right[b]
        else:
            for b in range(len(mine)):
                mine[b] = max(mine[b], share[b] * left[b] * right[b])
    if last != NONE:
        _keep_digits(value[last], least)


@kernel
def _keep_digits(mine: FloatArray, least: float) -> None:
    """Make what is possible but below SMALLEST `least`: numbers near 1e-308 are slow, too."""
    for b in range(len(mine)):
        small = least if mine[b] > 0.0 else 0.0
        mine[b] = mine[b] if mine[b] >= SMALLEST else small


@kernel
def _pass_down(r: Relaxation, block: int, is_exact: bool, n_live: int, m: _Memory) -> None:
    """Fill what comes from above to the nodes that are reached, the root's being 1."""
    theta, value, flow, is_reached = r.theta[block], m.value, m.flow, m.is_reached
    least = 0.0 if is_exact else SMALLEST
    adds = is_exact or not r.all_max  # else the largest of what comes from above bounds a state
    for n in range(len(is_reached)):
        if is_reached[n]:
            flow[n] = 0.0
    flow[r.root] = 1.0
    last = NONE
    for i in range(n_live - 1, -1, -1):
        e = m.live[i]
        n, l, right = r.edge_node[e], r.edge_left[e], r.edge_right[e]
        mine, share = flow[n], theta[e]
        if n != last:
            _keep_digits(mine, least)
            last = n
        if l != ONE:
            _hand_down(mine, share, value[right], adds, flow[l])
        if right != ONE:
            _hand_down(mine, share, value[l], adds, flow[right])
    for n in range(1, len(r.leaf_first) - 1):
        if is_reached[n]:
            _keep_digits(flow[n], least)


@kernel
def _hand_down(
    mine: FloatArray, share: FloatArray, beside: FloatArray, adds: bool, below: FloatArray
) -> None:
    if adds:
        for b in range(len(mine)):
            below[b] += mine[b] * share[b] * beside[b]
    else:
        for b in range(len(mine)):
            below[b] = max(below[b], mine[b] * share[b] * beside[b])


@kernel
def _sum_of_products(weight: FloatArray, value: FloatArray) -> float:
    total = 0.0
    for b in range(len(weight)):
        total += weight[b] * value[b]
    return total


@kernel
def _add_choices(
    allowed: ByteArray, r: Relaxation, block: int, is_exact: bool, m: _Memory, choices: FloatArray
) -> None:
    """Add what each cell reaches, by the leaves that have it."""
    table, weight = r.table[block], r.weight[block]
    most = np.empty(len(weight))
    for i in range(len(r.column_leaves) - 1):
        start = r.choice_first[i]
        for j in range(start, r.choice_first[i + 1]):
            if not allowed[j]:
                continue
            most[:] = 0.0
            for n in range(r.column_leaves[i], r.column_leaves[i + 1]):
                if m.is_reached[n]:
                    mine, cell = m.flow[n], table[r.leaf_first[n] + j - start]
                    if is_exact or not r.all_max:
                        for b in range(len(mine)):
                            most[b] += mine[b] * cell[b]
                    else:
                        for b in range(len(mine)):
                            most[b] = max(most[b], mine[b] * cell[b])
            choices[j] += _sum_of_products(weight, most)


def log_of(values: FloatArray) -> FloatArray:
    """Logs of numbers, of which some may be zero."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values))
