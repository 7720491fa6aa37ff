"""The best states of some columns, by branch and bound: of any circuit, with any components.

In:  a `ColumnCircuit`, a row of evidence, the columns in question, and how many states are wanted.
Out: the best states, their log-probabilities, and a proven bound on all others.

What is known and what is summed out is evaluated once. Above it, a sum of maxima is never below the
maximum of a sum, so a bound on all states is found by one walk up in which leaves take their best
cell, and a walk down tells the same for every cell of every column (`Relaxation`). The search takes
the partial assignments with the largest bounds, drops the cells that can no longer hold a wanted
state, and splits on the column whose cells lower the bound most. States to compare with are the
best of each component, single changes of the best so far, and what the bounds lead to on the way.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator
from itertools import compress, pairwise, product
from typing import NamedTuple

import numpy as np

from strudel._compiling import now
from strudel._numba import in_threads, kernel
from strudel._types import NONE, AnyArray, ByteArray, FloatArray, IntArray, WordArray
from strudel.circuits.circuit import starts
from strudel.circuits.column_circuit import ColumnCircuit
from strudel.circuits.column_properties import why_no_deterministic_components
from strudel.circuits.walks import log_sums
from strudel.queries.best_states import KBest, WeighedCells
from strudel.tables.evidence import Evidence

WIDTH = 64  # components that go side by side, at most
MOST_CHUNKS = 4  # of the components, each with its own sums, so that threads share the work
N_SEEDS = 32  # components whose best states a search begins with
SMALLEST = 1e-100  # of values and parameters that are not zero: three multiply to 1e-300
LOG_SMALLEST = math.log(SMALLEST)
ROUGH = 1e-80  # a value below may be that of parameters kept at SMALLEST
NEGLIGIBLE = 1e-15  # of what is enough: all that the components left out may add together
ROUNDING = 1e-11  # what a bound and the probability it bounds may differ by when they are equal
N_TAKEN = 4  # assignments looked at together
N_TRIED = 4  # columns whose cells are tried, where one walk down is no exact bound
N_LISTED = 64  # with this few states left all of them are scored
MOST_GAIN = 50.0  # nats; an impossible cell counts as much
ONE = 0  # the node that is always 1
ALL, SOME = -1, -2  # cells of a column that are allowed
SUM, MAX, MIXED = 0, 1, 2  # kinds of sums as they bound states
WORD = 64


class Question:
    """What all rows of evidence share: the circuit, the columns in question, and how sums add."""

    def __init__(
        self, circuit: ColumnCircuit, evidence: Evidence, places: Iterable[int], n_wanted: int = 1
    ) -> None:
        self.circuit, self.n_wanted = circuit, n_wanted
        self.weighed = WeighedCells(circuit, evidence)
        self.is_asked = np.zeros(len(circuit.columns), dtype=bool)
        self.is_asked[list(places)] = True
        self.is_deterministic = why_no_deterministic_components(circuit) is None
        self.plain_net = plain_net(circuit)
        self.k_best = KBest(circuit, n_wanted) if n_wanted > 1 and self.is_deterministic else None


class Assignment(NamedTuple):
    """The cells that a partial assignment allows; it may still hold one of the best states."""

    minus_bound: float  # log
    number: int  # of equal bounds the first comes first
    allowed: ByteArray  # (n_choices,)


class StateSearch:
    """Best-first branch and bound over the columns in question that have several cells left."""

    def __init__(self, question: Question, row: int) -> None:
        self._started = now()
        self._n_wanted = question.n_wanted
        self._seen: set[tuple[int, ...]] = set()  # states that were scored
        self._best: list[tuple[float, tuple[int, ...]]] = []  # a heap: the last wanted is first
        self._heap: list[Assignment] = []
        self._n_pushed = 0
        self.n_nodes = 0
        self.upper_bound: float | None = None  # of a search that was stopped
        self._row = row_values(question, row)
        value = self._row.values()
        log_best = value[-1] + question.circuit.log_weight
        if log_best.max() == -np.inf:
            return
        log_enough = -np.inf
        seeds = best_of_components(self._row, value, log_best)
        if self._row.is_exact and self._n_wanted == 1:
            log_enough = float(log_best.max())
        elif self._row.is_exact and question.k_best is not None:
            favourite = int(np.argmax(log_best))
            states, log_p = question.k_best.of(self._row.log_cells, favourite)
            seeds = np.concatenate([seeds, states[:, self._row.places]])
            if len(log_p) == self._n_wanted:
                log_enough = float(log_p[-1] + question.circuit.log_weight[favourite])
        self._relaxation = relax(self._row, value, log_best, log_enough)
        self._column_of = np.repeat(np.arange(len(self._row.places)), np.diff(self._row.first))
        self._score(seeds)
        everything = np.ones(len(self._column_of), dtype=np.uint8)
        self._push(everything, float(np.logaddexp.reduce(log_best)))

    @property
    def enough(self) -> float:
        """No assignment with a bound up to this can hold a state that is wanted and not found."""
        if len(self._best) < self._n_wanted:
            return -math.inf
        return self._best[0][0] + ROUNDING

    def states(self) -> tuple[IntArray, FloatArray]:
        """Cells `(n, n_columns)` of the best states, best first, and their log-probabilities.

        Columns that are not in question have NONE where several cells are possible.
        """
        scored = [(self._row.log_probability(state), state) for _, state in self._best]
        scored.sort(key=lambda item: (-item[0], item[1]))
        cells = np.repeat(self._row.cells[np.newaxis], len(scored), axis=0)
        if scored:
            cells[:, self._row.places] = np.array([state for _, state in scored])
        return cells, np.array([log_p for log_p, _ in scored])

    def run(self, max_seconds: float, max_nodes: float) -> None:
        """Search until all others are ruled out, or until a limit."""
        while self._heap and -self._heap[0].minus_bound > self.enough:
            if now() - self._started >= max_seconds or self.n_nodes >= max_nodes:
                self.upper_bound = -self._heap[0].minus_bound
                return
            is_first = self.n_nodes == 0
            self._branch(min(N_TAKEN, max_nodes - self.n_nodes))
            if is_first and self._heap:  # most searches are over by now
                self._improve()

    def _bounds(self, allowed: ByteArray) -> FloatArray:
        """Log upper bounds of assignments."""
        r = self._relaxation
        total, _ = passes(r, allowed, is_exact=False, is_down=False)
        return _log(total + r.rest) + r.log_unit

    def _bounds_of_choices(self, allowed: ByteArray) -> tuple[FloatArray, FloatArray]:
        """The same, and those of every cell that an assignment allows, `(n_rows, n_choices)`."""
        r = self._relaxation
        total, choices = passes(r, allowed, is_exact=False, is_down=True)
        bound = _log(total + r.rest) + r.log_unit
        of_choices = np.minimum(_log(choices + r.rest) + r.log_unit, bound[:, np.newaxis])
        return bound, np.where(allowed == 1, of_choices, -np.inf)

    def _score(self, states: AnyArray) -> None:
        """Keep those states, cells of the columns in question, that are among the best so far."""
        distinct = dict.fromkeys(map(tuple, states.tolist()))
        new = [state for state in distinct if state not in self._seen]
        if not new:
            return
        self._seen.update(new)
        total, _ = passes(
            self._relaxation, self._allowed(np.array(new, dtype=np.int64)), True, False
        )
        log_p = _log(total) + self._relaxation.log_unit
        for i in np.flatnonzero(total < ROUGH).tolist():
            log_p[i] = self._row.log_probability(new[i])
        self._keep(log_p, new)

    def _allowed(self, states: AnyArray) -> ByteArray:
        """The choices of complete states."""
        place = self._row.choice_of[np.arange(states.shape[1]), states]
        allowed = np.zeros((len(states), len(self._column_of)), dtype=np.uint8)
        np.put_along_axis(allowed, place, 1, axis=1)
        return allowed

    def _keep(self, log_p: FloatArray, states: list[tuple[int, ...]]) -> None:
        for item in zip(log_p.tolist(), states, strict=True):
            if item[0] == -math.inf:
                continue
            if len(self._best) < self._n_wanted:
                heapq.heappush(self._best, item)
            elif item[0] > self._best[0][0]:
                heapq.heapreplace(self._best, item)

    def _improve(self) -> None:
        """Change single cells of the best state for as long as that helps.

        One walk up and one down give the probability of all states that differ in one column.
        """
        last = None
        while self._best and last != (best := max(self._best)):
            last = best
            state = np.array(best[1], dtype=np.int64)
            _, choices = passes(self._relaxation, self._allowed(state[np.newaxis]), True, True)
            log_p = _log(choices[0]) + self._relaxation.log_unit
            least = self._best[0][0] if len(self._best) == self._n_wanted else -math.inf
            better = np.flatnonzero((log_p > least) & (choices[0] >= ROUGH))
            changed = np.repeat(state[np.newaxis], len(better), axis=0)
            changed[np.arange(len(better)), self._column_of[better]] = self._row.choice_cell[better]
            new = list(map(tuple, changed.tolist()))
            is_new = [state not in self._seen for state in new]
            self._keep(log_p[better][is_new], list(compress(new, is_new)))
            self._seen.update(new)

    def _push(self, allowed: ByteArray, log_bound: float) -> None:
        """Keep an assignment for later; one with few states left is done with at once."""
        n_left = np.add.reduceat(np.append(allowed, 1), [*self._row.first[:-1], len(allowed)])
        if np.log2(n_left).sum() > math.log2(N_LISTED):
            heapq.heappush(self._heap, Assignment(-log_bound, self._n_pushed, allowed))
            self._n_pushed += 1
            return
        first = self._row.first.tolist()
        own = [self._row.choice_cell[a:b][allowed[a:b] == 1].tolist() for a, b in pairwise(first)]
        self._score(np.array(list(product(*own)), dtype=np.int64))

    def _branch(self, n_taken: float) -> None:
        """Take the assignments with the largest bounds and split each."""
        taken: list[Assignment] = []
        while self._heap and len(taken) < n_taken and -self._heap[0].minus_bound > self.enough:
            taken.append(heapq.heappop(self._heap))
        self.n_nodes += len(taken)
        allowed = np.array([item.allowed for item in taken])
        log_bound, log_choice = self._bounds_of_choices(allowed)
        padded = np.append(log_choice, np.full((len(taken), 1), -np.inf), axis=1)
        before = max(self._best, default=(-math.inf,))
        self._score(padded[:, self._row.choice_of].argmax(axis=2))
        if max(self._best, default=(-math.inf,)) > before:
            self._improve()
        for item, bound, of_choices in zip(taken, log_bound.tolist(), log_choice, strict=True):
            # A bound holds for all that follows, even where that was raised to keep its digits.
            self._split(item.allowed, min(bound, -item.minus_bound), of_choices)

    def _split(self, allowed: ByteArray, log_bound: float, log_choice: FloatArray) -> None:
        """Drop the cells that no wanted state can have, or branch on the best column."""
        first = self._row.first[:-1]
        # Some cell of every column must hold.
        log_bound = min(log_bound, float(np.maximum.reduceat(log_choice, first).min()))
        if log_bound <= self.enough:
            return
        left = ((log_choice > self.enough) & (allowed == 1)).astype(np.uint8)
        n_left = np.add.reduceat(left, first, dtype=np.int64)
        if np.any((n_left == 1) & (np.add.reduceat(allowed, first, dtype=np.int64) > 1)):
            self._push(left, log_bound)
            return
        columns = self._by_gain(log_bound, log_choice, left, n_left)
        column = int(columns[0])
        if self._relaxation.is_exact:
            children = self._children(left, column)
            bounds = log_choice[self._choices(left, column)]
        else:
            children, bounds = self._tried(left, log_bound, log_choice, columns[:N_TRIED])
        for child, bound in zip(children, bounds.tolist(), strict=True):
            if bound > self.enough:
                self._push(child, min(log_bound, bound))

    def _by_gain(
        self, log_bound: float, log_choice: FloatArray, left: ByteArray, n_left: AnyArray
    ) -> AnyArray:
        """The columns with several cells left, from the one that would leave least to search."""
        weight = np.exp(np.maximum(log_choice - log_bound, -MOST_GAIN) * 2.0) * left
        rest = np.add.reduceat(weight, self._row.first[:-1])
        order = np.argsort(rest, kind="stable")
        return order[n_left[order] > 1]

    def _choices(self, left: ByteArray, column: int) -> AnyArray:
        first, last = self._row.first[column : column + 2]
        return first + np.flatnonzero(left[first:last])

    def _children(self, left: ByteArray, column: int) -> ByteArray:
        """The assignments in which a column has one of the cells it has left."""
        choices = self._choices(left, column)
        children = np.repeat(left[np.newaxis], len(choices), axis=0)
        children[:, slice(*self._row.first[column : column + 2])] = 0
        children[np.arange(len(choices)), choices] = 1
        return children

    def _tried(
        self, left: ByteArray, log_bound: float, log_choice: FloatArray, columns: AnyArray
    ) -> tuple[ByteArray, FloatArray]:
        """The children by that column, of a few, whose cells have the lowest bounds."""
        every = [self._children(left, column) for column in columns.tolist()]
        bounds = self._bounds(np.concatenate(every))
        ends = np.cumsum([len(children) for children in every])
        best, least = (every[0], bounds[: ends[0]]), math.inf
        for column, children, own in zip(
            columns.tolist(), every, np.split(bounds, ends[:-1]), strict=True
        ):
            own = np.minimum(own, log_choice[self._choices(left, column)])
            rest = float(np.exp(np.maximum(own - log_bound, -MOST_GAIN) * 2.0).sum())
            if rest < least:
                best, least = (children, own), rest
        return best


def _log(values: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values))


# What a row leaves of the cells


class RowValues(NamedTuple):
    """A circuit with the cells that a row of evidence allows, and sums as they bound states."""

    circuit: ColumnCircuit
    net: Net
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
        net = self.net
        value = np.empty((len(net.node_vtree), self.circuit.n_components))
        value[: net.n_leaves] = leaf_log
        edges = (net.node_edges, net.edge_left, net.edge_right)
        _log_values(net.n_leaves, edges, net.log_theta, net.node_is_max, value)
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
    return RowValues(
        circuit,
        question.plain_net
        if is_exact
        else grouped_net(circuit, log_cells, np.flatnonzero(is_open)),
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
    for l in range(len(leaf_log)):
        mine = leaf_log[l]
        for row in range(leaf_first[l], leaf_first[l + 1]):
            own = log_cells[row]
            for c in range(len(mine)):
                mine[c] = max(mine[c], own[c])


# Sums as they bound states


class Net(NamedTuple):
    """The nodes of a circuit, with sums that add, that take the largest, or that do both in groups.

    Children come before parents, and the root last. An edge to a group has no right child.
    """

    n_leaves: int
    node_edges: IntArray  # (n_nodes + 1,); a leaf has none
    edge_left: IntArray
    edge_right: IntArray
    log_theta: FloatArray  # (n_edges, k)
    is_possible: AnyArray  # (n_edges,) under some component
    node_is_max: AnyArray  # (n_nodes,)
    node_vtree: IntArray
    node_is_group: AnyArray


def plain_net(circuit: ColumnCircuit) -> Net:
    """All sums take the largest of their edges: one of them holds at most."""
    return Net(
        circuit.n_leaves,
        np.concatenate([np.zeros(circuit.n_leaves, dtype=np.int32), circuit.sum_edges]),
        circuit.edge_left,
        circuit.edge_right,
        circuit.edge_log_theta,
        np.any(circuit.edge_log_theta > -np.inf, axis=1),
        np.ones(circuit.n_nodes, dtype=bool),
        circuit.node_vtree,
        np.zeros(circuit.n_nodes, dtype=bool),
    )


def grouped_net(circuit: ColumnCircuit, log_cells: FloatArray, places: AnyArray) -> Net:
    """Edges that no state has together compete, edges that some state may have together add up.

    Two edges exclude each other if a column in question has no cell that is possible below both.
    """
    n_leaves, n_sums = circuit.n_leaves, len(circuit.sum_vtree)
    leaf_words, low, guard = _words_of_leaves(circuit, log_cells, places)
    edges = (circuit.sum_edges, circuit.edge_left, circuit.edge_right)
    is_live = np.any(circuit.edge_log_theta > -np.inf, axis=1)
    near = np.zeros(circuit.n_edges, dtype=np.uint64)
    kind = np.empty(n_sums, dtype=np.uint8)
    _find_near_edges(leaf_words, edges, low, guard, is_live, near, kind)

    # Nodes are the sums and then groups; entries of nodes are edges, or other nodes.
    owner, is_max = list(range(n_sums)), (kind == MAX).tolist()
    plain = np.flatnonzero(is_live & (kind != MIXED)[circuit.edge_sum])
    entries: list[tuple[int, int, int]] = []

    def add(node: int, members: int, is_in_place: bool) -> None:
        """Make edges, as bits of a number, an entry of a node, or all of its entries."""
        s = owner[node]
        first = int(circuit.sum_edges[s])
        if members.bit_count() == 1:
            entries.append((node, first + members.bit_length() - 1, NONE))
            return
        own = [int(word) for word in near[first : int(circuit.sum_edges[s + 1])]]
        kind_is_max, sides = True, _connected(members, own)
        if len(sides) == 1:
            kind_is_max, sides = False, _connected(members, [~word for word in own])
        if len(sides) == 1:  # the edge that goes with most others is added to what is without it
            most = max(_bits(members), key=lambda e: (own[e] & members).bit_count())
            sides = [1 << most, members & ~(1 << most)]
        if is_in_place:
            group = node
        else:
            group = len(owner)
            owner.append(s)
            is_max.append(kind_is_max)
            entries.append((node, NONE, group))
        is_max[group] = kind_is_max
        for side in sides:
            add(group, side, False)

    for s in np.flatnonzero(kind == MIXED).tolist():
        first, last = circuit.sum_edges[s : s + 2].tolist()
        add(s, sum(1 << e for e in np.flatnonzero(is_live[first:last]).tolist()), True)

    # Groups come before their sum, and those inside others, which were made later, first.
    of_sum, n_nodes = np.array(owner), len(owner)
    order = np.lexsort((-np.arange(n_nodes) - n_nodes * (np.arange(n_nodes) >= n_sums), of_sum))
    number = np.empty(n_nodes, dtype=np.int32)
    number[order] = n_leaves + np.arange(n_nodes)
    node, edge, child = np.array(entries, dtype=np.int64).reshape(-1, 3).T
    node = np.concatenate([circuit.edge_sum[plain], node])
    edge = np.concatenate([plain, edge])
    child = np.concatenate([np.full(len(plain), NONE), child])
    by_node = np.argsort(number[node], kind="stable")
    node, edge, child = node[by_node], edge[by_node], child[by_node]
    old = np.concatenate([np.arange(n_leaves, dtype=np.int32), number[:n_sums]])
    is_edge = edge != NONE
    no_leaf = np.zeros(n_leaves, dtype=bool)
    log_theta = np.append(circuit.edge_log_theta, np.zeros((1, circuit.n_components)), axis=0)
    return Net(
        n_leaves,
        starts(number[node], n_leaves + n_nodes),
        np.where(is_edge, old[circuit.edge_left[edge]], number[child]).astype(np.int32),
        np.where(is_edge, old[circuit.edge_right[edge]], NONE).astype(np.int32),
        log_theta[edge],
        np.ones(len(edge), dtype=bool),
        np.append(no_leaf, np.array(is_max)[order]),
        np.append(circuit.node_vtree[:n_leaves], circuit.sum_vtree[of_sum[order]]),
        np.append(no_leaf, order >= n_sums),
    )


def _words_of_leaves(
    circuit: ColumnCircuit, log_cells: FloatArray, places: AnyArray
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
def _find_near_edges(
    leaf_words: WordArray,
    edges: tuple[IntArray, IntArray, IntArray],
    low: WordArray,
    guard: WordArray,
    is_live: AnyArray,
    near: WordArray,
    kind: ByteArray,
) -> None:
    """For every edge, which others of its sum it may hold with, as bits; what that makes the sum.

    Clears `is_live` of edges below which something cannot hold.
    """
    sum_edges, edge_left, edge_right = edges
    n_leaves, n_words = leaf_words.shape
    n_sums = len(kind)
    words = np.zeros((n_leaves + n_sums, n_words), dtype=np.uint64)
    words[:n_leaves] = leaf_words
    holds = np.zeros(n_leaves + n_sums, dtype=np.bool_)
    for l in range(n_leaves):
        for w in range(n_words):
            holds[l] |= leaf_words[l, w] != np.uint64(0)
    of_edge = np.empty((len(edge_left), n_words), dtype=np.uint64)
    for s in range(n_sums):
        n_live = n_near = 0
        for e in range(sum_edges[s], sum_edges[s + 1]):
            l, r = edge_left[e], edge_right[e]
            is_live[e] &= holds[l] and holds[r]
            if not is_live[e]:
                continue
            n_live += 1
            for w in range(n_words):
                of_edge[e, w] = words[l, w] & words[r, w]
                words[n_leaves + s, w] |= of_edge[e, w]
            for f in range(sum_edges[s], e):
                if not is_live[f]:
                    continue
                is_near = True
                for w in range(n_words):
                    both = of_edge[e, w] & of_edge[f, w]
                    is_near &= ((both | guard[w]) - low[w]) & guard[w] == guard[w]
                if is_near:
                    n_near += 1
                    near[e] |= np.uint64(1) << np.uint64((f - sum_edges[s]) % WORD)
                    near[f] |= np.uint64(1) << np.uint64((e - sum_edges[s]) % WORD)
        holds[n_leaves + s] = n_live > 0
        kind[s] = MIXED if sum_edges[s + 1] - sum_edges[s] <= WORD else SUM
        if 2 * n_near == n_live * (n_live - 1):
            kind[s] = SUM
        if n_near == 0:
            kind[s] = MAX


def _connected(members: int, near: list[int]) -> list[int]:
    """The sets of members that are connected, by which are near each other."""
    sides = []
    while members:
        inside, new = 0, members & -members
        while new:
            inside |= new
            around = 0
            for e in _bits(new):
                around |= near[e]
            new = around & members & ~inside
        members &= ~inside
        sides.append(inside)
    return sides


def _bits(members: int) -> Iterator[int]:
    while members:
        yield (members & -members).bit_length() - 1
        members &= members - 1


@kernel
def _log_values(
    n_leaves: int,
    edges: tuple[IntArray, IntArray, IntArray],
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
            own, left, r = log_theta[e], value[edge_left[e]], edge_right[e]
            if node_is_max[n] and r != NONE:
                right = value[r]
                for c in range(k):
                    mine[c] = max(mine[c], own[c] + left[c] + right[c])
            else:
                for c in range(k):
                    term = own[c] + left[c]
                    if r != NONE:
                        term += value[r, c]
                    mine[c] = max(mine[c], term) if node_is_max[n] else np.logaddexp(mine[c], term)


def best_of_components(row: RowValues, value: FloatArray, log_best: FloatArray) -> IntArray:
    """The states that the best edges lead to, of the components that bound the best."""
    net, circuit = row.net, row.circuit
    order = np.argsort(-log_best, kind="stable")[:N_SEEDS]
    components = order[log_best[order] > -np.inf]
    cells = np.empty((len(components), len(circuit.columns)), dtype=np.int32)
    edges = (net.node_edges, net.edge_left, net.edge_right)
    leaves = (circuit.leaf_column, circuit.leaf_first, row.log_cells)
    _best_of_components(components, edges, net.log_theta, value, *leaves, cells)
    return cells[:, row.places]


@kernel
def _best_of_components(
    components: AnyArray,
    edges: tuple[IntArray, IntArray, IntArray],
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
                term = log_theta[e, c] + value[edge_left[e], c]
                if edge_right[e] != NONE:
                    term += value[edge_right[e], c]
                if term > most:
                    chosen, most = e, term
            stack[size] = edge_left[chosen]
            size += 1
            if edge_right[chosen] != NONE:
                stack[size] = edge_right[chosen]
                size += 1


# Bounds, relative to those of all states


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
    node_adds: AnyArray  # (n_nodes,) what comes from above adds up, or the largest counts
    theta: FloatArray  # (n_blocks, n_edges, width)
    table: FloatArray  # (n_blocks, n_rows, width) every cell of a leaf relative to the best
    weight: FloatArray  # (n_blocks, width) of the components
    rest: float  # what the components left out can add at most
    log_unit: float  # log-probability that 1 stands for
    is_exact: bool  # the walk down gives every cell the bound that fixing it would


def relax(row: RowValues, value: FloatArray, log_best: FloatArray, log_enough: float) -> Relaxation:
    """What bounds states, without components that add nothing to what is above `log_enough`."""
    circuit, net, n_leaves = row.circuit, row.net, row.net.n_leaves
    log_unit = float(log_best.max())
    order = np.argsort(-log_best, kind="stable")
    n_kept = int((log_best > -np.inf).sum())
    if log_enough > -np.inf:
        tail = np.cumsum(np.exp(np.minimum(log_best[order] - log_enough, 0.0))[::-1])[::-1]
        n_kept = max(1, int((tail > NEGLIGIBLE).sum()))
    kept, left_out = np.sort(order[:n_kept]), order[n_kept:]

    open_of = np.full(len(circuit.columns), NONE, dtype=np.int32)
    open_of[row.places] = np.arange(len(row.places))
    node_number = np.full(len(value), NONE, dtype=np.int32)
    leaf = np.empty(n_leaves, dtype=np.int32)
    leaf_first = np.zeros(n_leaves + 2, dtype=np.int32)
    node_edges = np.zeros(len(value) + 2, dtype=np.int32)
    edge_of, edge_node, parent, left, right = np.empty((5, len(net.edge_left)), dtype=np.int32)
    edges = (net.node_edges, net.edge_left, net.edge_right)
    is_live, is_reached = net.is_possible.copy(), np.empty(len(value), dtype=np.bool_)
    _find_live(value, n_leaves, edges, is_live, is_reached)
    n_open = _number_leaves(
        open_of[circuit.leaf_column], row.first, is_reached, node_number, leaf, leaf_first
    )
    made = (node_number, node_edges, edge_of, edge_node, parent, left, right)
    n_nodes, n_edges = _number_sums(1 + n_open, n_leaves, edges, is_live, is_reached, *made)
    edge_of, edge_node, parent, left, right = (
        own[:n_edges] for own in (edge_of, edge_node, parent, left, right)
    )
    leaf, leaf_first, node_edges = (
        leaf[:n_open],
        leaf_first[: n_open + 2],
        node_edges[: n_nodes + 1],
    )
    n_blocks = -(-n_kept // WIDTH)
    width = -(-n_kept // n_blocks)
    theta = np.full((n_blocks, n_edges, width), -np.inf)
    table = np.full((n_blocks, int(leaf_first[-1]), width), -np.inf)
    is_cell = np.zeros(table.shape[1], dtype=np.uint8)
    _fill_edges(kept, edge_of, parent, edges, net.log_theta, value, theta)
    column = open_of[circuit.leaf_column[leaf]]
    leaf_rows = (leaf, circuit.leaf_first, column, row.first, row.choice_cell)
    _fill_table(kept, *leaf_rows, row.log_cells, value, leaf_first, table, is_cell)
    weight = np.zeros((n_blocks, width))
    weight.ravel()[:n_kept] = np.exp(log_best[kept] - log_unit)
    node_is_max, node_adds = _modes(circuit, net, node_number, edge_node, parent, n_nodes)
    return Relaxation(
        row.first,
        1 + starts(column, len(row.places)),
        leaf_first,
        is_cell,
        int(node_number[-1]),
        node_edges,
        edge_node,
        left,
        right,
        node_is_max,
        node_adds,
        np.exp(theta, out=theta),
        np.exp(table, out=table),
        weight,
        float(np.exp(log_best[left_out] - log_unit).sum()),
        log_unit,
        not bool(node_adds.any()),
    )


@kernel
def _find_live(
    value: FloatArray,
    n_leaves: int,
    edges: tuple[IntArray, IntArray, IntArray],
    is_live: AnyArray,
    is_reached: AnyArray,
) -> None:
    """Clear `is_live` of edges below which something cannot hold, and of what no root reaches."""
    node_edges, edge_left, edge_right = edges
    n_nodes = len(is_reached)
    for n in range(n_leaves):
        is_reached[n] = False
        for c in range(value.shape[1]):
            if value[n, c] > -np.inf:
                is_reached[n] = True
                break
    for n in range(n_leaves, n_nodes):
        holds = False
        for e in range(node_edges[n], node_edges[n + 1]):
            r = edge_right[e]
            is_live[e] &= is_reached[edge_left[e]] and (r == NONE or is_reached[r])
            holds |= is_live[e]
        is_reached[n] = holds
    for n in range(n_nodes - 1):
        is_reached[n] = False
    for n in range(n_nodes - 1, n_leaves - 1, -1):
        for e in range(node_edges[n], node_edges[n + 1]):
            is_live[e] &= is_reached[n]
            if is_live[e]:
                is_reached[edge_left[e]] = True
                if edge_right[e] != NONE:
                    is_reached[edge_right[e]] = True


@kernel
def _number_leaves(
    leaf_open: IntArray,
    choice_first: IntArray,
    is_reached: AnyArray,
    node_number: IntArray,
    leaf: IntArray,
    leaf_first: IntArray,
) -> int:
    """Number the leaves of the columns in question, from 1; all others are ONE."""
    n = 0
    for l in range(len(leaf_open)):
        i = leaf_open[l]
        node_number[l] = ONE
        if i != NONE and is_reached[l]:
            leaf[n] = l
            n += 1
            node_number[l] = n
            leaf_first[n + 1] = leaf_first[n] + choice_first[i + 1] - choice_first[i]
    return n


@kernel
def _number_sums(
    n_nodes: int,
    n_leaves: int,
    edges: tuple[IntArray, IntArray, IntArray],
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
                left = node_number[edge_left[e]]
                right = ONE if edge_right[e] == NONE else node_number[edge_right[e]]
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


@kernel
def _fill_edges(
    kept: AnyArray,
    edge_of: IntArray,
    parent: IntArray,
    edges: tuple[IntArray, IntArray, IntArray],
    log_theta: FloatArray,
    value: FloatArray,
    terms: FloatArray,
) -> None:
    """Each edge's part of what its sum reaches, as logs."""
    _, edge_left, edge_right = edges
    width = terms.shape[2]
    for block in range(len(terms)):
        for j in range(len(edge_of)):
            e = edge_of[j]
            own, left, whole, r = log_theta[e], value[edge_left[e]], value[parent[j]], edge_right[e]
            mine = terms[block, j]
            for b in range(min(width, len(kept) - block * width)):
                c = kept[block * width + b]
                term = own[c] + left[c] + (value[r, c] if r != NONE else 0.0)
                if term > -np.inf:
                    mine[b] = max(term - whole[c], LOG_SMALLEST)


@kernel
def _fill_table(
    kept: AnyArray,
    leaf: IntArray,
    old_first: IntArray,
    leaf_open: IntArray,
    choice_first: IntArray,
    choice_cell: AnyArray,
    log_cells: FloatArray,
    value: FloatArray,
    leaf_first: IntArray,
    terms: FloatArray,
    is_cell: ByteArray,
) -> None:
    """Each cell relative to what its leaf reaches, as logs."""
    width = terms.shape[2]
    for block in range(len(terms)):
        for i in range(len(leaf)):
            whole, start = value[leaf[i]], choice_first[leaf_open[i]]
            for row in range(leaf_first[i + 1], leaf_first[i + 2]):
                own = log_cells[old_first[leaf[i]] + choice_cell[start + row - leaf_first[i + 1]]]
                mine = terms[block, row]
                for b in range(min(width, len(kept) - block * width)):
                    c = kept[block * width + b]
                    if own[c] > -np.inf:
                        mine[b] = max(own[c] - whole[c], LOG_SMALLEST)
                        is_cell[row] = 1


def _modes(
    circuit: ColumnCircuit,
    net: Net,
    node_number: IntArray,
    edge_node: IntArray,
    parent: IntArray,
    n_nodes: int,
) -> tuple[AnyArray, AnyArray]:
    """Which sums take the largest, and where what comes from above adds up.

    Below sums that all take the largest, the largest of what comes from above bounds a state.
    Below others only the sum does.
    """
    is_max, adds = np.ones(n_nodes, dtype=bool), np.zeros(n_nodes, dtype=bool)
    is_max[edge_node] = net.node_is_max[parent]
    if is_max.all():
        return is_max, adds
    vtree = circuit.vtree
    within = np.zeros(vtree.n_nodes, dtype=bool)  # below some sum that adds, or beside it
    within[net.node_vtree[parent[~net.node_is_max[parent]]]] = True
    above = np.zeros(vtree.n_nodes, dtype=bool)
    for v in range(vtree.n_nodes - 1, -1, -1):
        if vtree.node_var[v] == NONE:
            within[v] |= above[v]
            above[[vtree.node_left[v], vtree.node_right[v]]] = within[v]
    nodes = np.flatnonzero(node_number > ONE)
    # Several may have one number: a sum with one child is that child.
    of_node = np.where(
        net.node_is_group[nodes], within[net.node_vtree[nodes]], above[net.node_vtree[nodes]]
    )
    np.logical_or.at(adds, node_number[nodes], of_node)
    return is_max, adds


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
    width = r.weight.shape[1]
    value = np.empty((n_nodes, width))
    flow = np.empty((n_nodes, width))
    is_reached = np.empty(n_nodes, dtype=np.bool_)
    live = np.empty(len(r.edge_left), dtype=np.int32)
    leaf_row = np.empty(first_sum, dtype=np.int32)
    every = np.ones(allowed.shape[1], dtype=np.uint8)
    for task in range(first, last):
        row, chunk = task // n_chunks, task % n_chunks
        mine = allowed[row]
        n_live = _find_live_edges(every if is_exact and is_down else mine, r, is_reached, live)
        if not is_reached[r.root]:
            continue
        n_sums = 0
        for n in range(first_sum, n_nodes):
            n_sums += is_reached[n]
        is_one_way = is_exact and not is_down and n_sums == n_live
        _find_leaf_rows(mine, r, leaf_row)
        for block in range(chunk, len(r.weight), n_chunks):
            theta, table, weight = r.theta[block], r.table[block], r.weight[block]
            if is_one_way:
                _multiply(theta, table, is_reached, leaf_row, live[:n_live], value[ONE])
                total[row, chunk] += _sum_of_products(weight, value[ONE])
                continue
            _pass_up(mine, r, theta, table, is_exact, is_reached, leaf_row, live[:n_live], value)
            total[row, chunk] += _sum_of_products(weight, value[r.root])
            if is_down:
                _pass_down(r, theta, is_exact, is_reached, live[:n_live], value, flow)
                own = every if is_exact else mine
                _add_choices(own, r, table, weight, is_exact, is_reached, flow, choices[row, chunk])


@kernel
def _find_live_edges(
    allowed: ByteArray, r: Relaxation, is_reached: AnyArray, live: IntArray
) -> int:
    """The edges that allowed cells and the root reach, children first; returns how many."""
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
def _multiply(
    theta: FloatArray,
    table: FloatArray,
    is_reached: AnyArray,
    leaf_row: IntArray,
    live: IntArray,
    value: FloatArray,
) -> None:
    """The value of a complete state that takes one edge of every sum."""
    value[:] = 1.0
    for n in range(1, len(leaf_row)):
        if is_reached[n]:
            cell = table[leaf_row[n]]
            for b in range(len(value)):
                value[b] *= cell[b]
            _keep_digits(value, 0.0)
    for e in live:
        share = theta[e]
        for b in range(len(value)):
            value[b] *= share[b]
        _keep_digits(value, 0.0)


@kernel
def _pass_up(
    allowed: ByteArray,
    r: Relaxation,
    theta: FloatArray,
    table: FloatArray,
    is_exact: bool,
    is_reached: AnyArray,
    leaf_row: IntArray,
    live: IntArray,
    value: FloatArray,
) -> None:
    """Fill the values of the nodes that are reached."""
    least = 0.0 if is_exact else SMALLEST
    value[ONE] = 1.0
    for i in range(len(r.column_leaves) - 1):
        start, stop = r.choice_first[i], r.choice_first[i + 1]
        for n in range(r.column_leaves[i], r.column_leaves[i + 1]):
            if not is_reached[n]:
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
    for e in live:
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
def _pass_down(
    r: Relaxation,
    theta: FloatArray,
    is_exact: bool,
    is_reached: AnyArray,
    live: IntArray,
    value: FloatArray,
    flow: FloatArray,
) -> None:
    """Fill what comes from above to the nodes that are reached, the root's being 1."""
    least = 0.0 if is_exact else SMALLEST
    for n in range(len(is_reached)):
        if is_reached[n]:
            flow[n] = 0.0
    flow[r.root] = 1.0
    last = NONE
    for i in range(len(live) - 1, -1, -1):
        e = live[i]
        n, l, right = r.edge_node[e], r.edge_left[e], r.edge_right[e]
        mine, share = flow[n], theta[e]
        if n != last:
            _keep_digits(mine, least)
            last = n
        if l != ONE:
            _hand_down(mine, share, value[right], is_exact or r.node_adds[l], flow[l])
        if right != ONE:
            _hand_down(mine, share, value[l], is_exact or r.node_adds[right], flow[right])
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
    allowed: ByteArray,
    r: Relaxation,
    table: FloatArray,
    weight: FloatArray,
    is_exact: bool,
    is_reached: AnyArray,
    flow: FloatArray,
    choices: FloatArray,
) -> None:
    """Add what each cell reaches, by the leaves that have it."""
    most = np.empty(len(weight))
    for i in range(len(r.column_leaves) - 1):
        start = r.choice_first[i]
        for j in range(start, r.choice_first[i + 1]):
            if not allowed[j]:
                continue
            most[:] = 0.0
            for n in range(r.column_leaves[i], r.column_leaves[i + 1]):
                if is_reached[n]:
                    mine, cell = flow[n], table[r.leaf_first[n] + j - start]
                    if is_exact or r.node_adds[n]:
                        for b in range(len(mine)):
                            most[b] += mine[b] * cell[b]
                    else:
                        for b in range(len(mine)):
                            most[b] = max(most[b], mine[b] * cell[b])
            choices[j] += _sum_of_products(weight, most)
