"""The best states of one deterministic component, and what rows of evidence weigh its cells.

In:  a `Circuit`, and evidence.
Out: the cells of the best states that agree with each row, and their log-probabilities.

Up: the best value of every node, sums and leaves replaced by maxima. Down: the edges that reach it.
For several states every node keeps its k best, which are distinct because a deterministic circuit
reaches each state in one way. While these are looked for, a state is words of bits in which columns
that come first count most, so that words compare as states do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strudel._numba import in_threads, kernel
from strudel._types import NONE, AnyArray, FloatArray, IntArray, WordArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.passes import LANES
from strudel.tables.evidence import Evidence

MOST_BYTES = 4 * 2**30
WORD = 64
TIE = 1e-12  # by which equally probable states may differ, relative to their logs


class WeighedCells:
    """Rows of evidence as weights of all cells of all columns, and of the cells of leaves."""

    def __init__(self, circuit: Circuit, evidence: Evidence) -> None:
        self.circuit, self.codes = circuit, evidence.codes
        self.n_cells = np.array([column.n_cells for column in circuit.columns])
        self.first = np.concatenate([[0], np.cumsum(self.n_cells)])  # cells of the columns
        self.column = np.repeat(np.arange(len(self.n_cells)), self.n_cells)
        self.cell = np.arange(self.first[-1]) - self.first[self.column]
        # A row of weights for every code: one cell, or what evidence says.
        n_codes = self.n_cells + np.array([len(own) for own in evidence.weights])
        self.first_code = np.concatenate([[0], np.cumsum(n_codes * self.n_cells)])
        self.code_weights = np.zeros(self.first_code[-1])
        for place, own in enumerate(evidence.weights):
            last = self.first_code[place + 1]
            self.code_weights[last - own.size : last] = own.ravel()
        start = self.first_code[:-1][self.column]
        self.code_weights[start + self.cell * (self.n_cells[self.column] + 1)] = 1.0
        self._start = start + self.cell
        width = np.diff(circuit.leaf_first)
        shift = self.first[:-1][circuit.leaf_column] - circuit.leaf_first[:-1]
        self._cell_of = np.arange(circuit.leaf_first[-1]) + np.repeat(shift, width)

    def weights(self, row: int) -> FloatArray:
        """What a row says that every cell weighs."""
        found: FloatArray = self.code_weights[
            self._start + (self.codes[row] * self.n_cells)[self.column]
        ]
        return found

    def log_cells(self, weights: FloatArray) -> FloatArray:
        """The log-probabilities of the cells of leaves with such weights, `(n_leaf_cells, k)`."""
        if np.all(weights == 1.0):
            return self.circuit.leaf_log_p
        with np.errstate(divide="ignore"):
            return self.circuit.leaf_log_p + np.log(weights)[self._cell_of, np.newaxis]


class _Shape(NamedTuple):
    """The nodes of a circuit, children first: leaves, then sums."""

    leaf_column: IntArray
    sum_edges: IntArray
    edge_left: IntArray
    edge_right: IntArray
    log_theta: FloatArray  # (n_edges,)


def _shape(circuit: Circuit, component: int = 0) -> _Shape:
    return _Shape(
        circuit.leaf_column,
        circuit.sum_edges,
        circuit.edge_left,
        circuit.edge_right,
        circuit.edge_log_theta[:, component].copy(),
    )


def best_states(circuit: Circuit, evidence: Evidence) -> tuple[IntArray, FloatArray]:
    """The cells (n_rows, 1, n_columns) of the best states, and log-probabilities (n_rows, 1)."""
    codes = evidence.codes
    cells = np.empty((len(codes), len(circuit.columns)), dtype=np.int32)
    log_p = np.empty(len(codes))
    is_tied = np.zeros(len(codes), dtype=bool)
    shape, table = _shape(circuit), _best_cells(WeighedCells(circuit, evidence))
    in_threads(_best_states, -(-len(codes) // LANES), codes, shape, *table, cells, log_p, is_tied)
    cells, log_p = cells[:, np.newaxis], log_p[:, np.newaxis]
    if is_tied.any():
        again = evidence.take(np.flatnonzero(is_tied))
        cells[is_tied], log_p[is_tied] = k_best_states(circuit, again, 1)
    return cells, log_p


def _best_cells(
    weighed: WeighedCells,
) -> tuple[IntArray, FloatArray, IntArray, AnyArray]:
    """For every code of a leaf the best log-value, its cell, and whether another cell ties.

    Leaf l answers code j in row ``first[l] + j``.
    """
    circuit = weighed.circuit
    n_codes = np.diff(weighed.first_code) // weighed.n_cells
    ends = np.cumsum(n_codes[circuit.leaf_column])
    first = np.concatenate([[0], ends[:-1]]).astype(np.int32)
    log_value = np.full(ends[-1], -np.inf)
    best = np.zeros(ends[-1], dtype=np.int32)
    is_tie = np.zeros(ends[-1], dtype=bool)
    with np.errstate(divide="ignore"):
        log_weights = np.log(weighed.code_weights)
    _fill_best_cells(
        circuit.leaf_column,
        circuit.leaf_first,
        circuit.leaf_log_p[:, 0].copy(),
        weighed.first_code,
        log_weights,
        first,
        ends,
        log_value,
        best,
        is_tie,
    )
    return first, log_value, best, is_tie


@kernel
def _fill_best_cells(
    leaf_column: IntArray,
    leaf_first: IntArray,
    log_p: FloatArray,
    first_code: AnyArray,
    log_weights: FloatArray,
    first: IntArray,
    ends: AnyArray,
    log_value: FloatArray,
    best: IntArray,
    is_tie: AnyArray,
) -> None:
    for l in range(len(leaf_column)):
        start, n_cells = leaf_first[l], leaf_first[l + 1] - leaf_first[l]
        for j in range(ends[l] - first[l]):
            row = first[l] + j
            if j < n_cells:
                log_value[row], best[row] = log_p[start + j], j
                continue
            weight = first_code[leaf_column[l]] + j * n_cells
            for cell in range(n_cells):
                value = log_p[start + cell] + log_weights[weight + cell]
                if value == -np.inf:
                    continue
                slack = TIE * (1.0 + abs(value))
                if value > log_value[row] + slack:
                    log_value[row], best[row], is_tie[row] = value, cell, False
                elif value >= log_value[row] - slack:
                    is_tie[row] = True
                    log_value[row] = max(log_value[row], value)


@kernel
def _best_states(
    start_block: int,
    stop_block: int,
    codes: AnyArray,
    s: _Shape,
    first: IntArray,
    log_value: FloatArray,
    best: IntArray,
    is_tie: AnyArray,
    cells: IntArray,
    log_p: FloatArray,
    is_tied: AnyArray,
) -> None:
    n_leaves = len(first)
    n_nodes = n_leaves + len(s.sum_edges) - 1
    value = np.empty((n_nodes, LANES))
    code = np.empty(LANES, dtype=np.int64)
    stack = np.empty(codes.shape[1] + 1, dtype=np.int32)
    for block in range(start_block, stop_block):
        start = block * LANES
        width = min(LANES, len(codes) - start)
        place = NONE
        for l in range(n_leaves):
            if s.leaf_column[l] != place:
                place = s.leaf_column[l]
                for b in range(LANES):
                    code[b] = codes[start + min(b, width - 1), place]
            at = first[l]
            for b in range(LANES):
                value[l, b] = log_value[at + code[b]]
        for n in range(n_leaves, n_nodes):
            mine = value[n]
            for b in range(LANES):
                mine[b] = -np.inf
            for e in range(s.sum_edges[n - n_leaves], s.sum_edges[n - n_leaves + 1]):
                log_theta, left, right = (
                    s.log_theta[e],
                    value[s.edge_left[e]],
                    value[s.edge_right[e]],
                )
                for b in range(LANES):
                    mine[b] = max(mine[b], log_theta + left[b] + right[b])
        for b in range(width):
            row = start + b
            log_p[row] = value[n_nodes - 1, b]
            is_tied[row] = _walk_to_best(
                codes[row], s, first, best, is_tie, value, b, stack, cells[row]
            )


@kernel
def _walk_to_best(
    codes: AnyArray,
    s: _Shape,
    first: IntArray,
    best: IntArray,
    is_tie: AnyArray,
    value: FloatArray,
    b: int,
    stack: IntArray,
    cells: IntArray,
) -> bool:
    """Follow the edges that reach the largest value; returns whether two were equally good."""
    n_leaves = len(first)
    root = len(value) - 1
    for place in range(len(cells)):
        cells[place] = 0
    if value[root, b] == -np.inf:
        return False
    is_tied = False
    stack[0] = root
    size = 1
    while size > 0:
        size -= 1
        n = stack[size]
        if n < n_leaves:
            row = first[n] + codes[s.leaf_column[n]]
            cells[s.leaf_column[n]] = best[row]
            is_tied |= is_tie[row]
            continue
        chosen = NONE
        slack = TIE * (1.0 + abs(value[n, b]))
        for e in range(s.sum_edges[n - n_leaves], s.sum_edges[n - n_leaves + 1]):
            term = s.log_theta[e] + value[s.edge_left[e], b] + value[s.edge_right[e], b]
            if term >= value[n, b] - slack:
                is_tied |= chosen != NONE
                chosen = e
        stack[size] = s.edge_left[chosen]
        stack[size + 1] = s.edge_right[chosen]
        size += 2
    return is_tied


def k_best_states(circuit: Circuit, evidence: Evidence, k: int) -> tuple[IntArray, FloatArray]:
    """Cells (n_rows, k, n_columns) and log-probabilities (n_rows, k) of the k best states."""
    n_rows, n_columns = evidence.codes.shape
    best = KBest(circuit, k, n_rows)
    cells = np.zeros((n_rows, k, n_columns), dtype=np.int32)
    log_p = np.full((n_rows, k), -np.inf)
    weighed = WeighedCells(circuit, evidence)
    for row in range(n_rows):
        own, logs = best.of(weighed.log_cells(weighed.weights(row)), 0)
        cells[row, : len(own)], log_p[row, : len(own)] = own, logs
    return cells, log_p


class KBest:
    """The k best states of single components of a circuit, and the memory to look for them."""

    def __init__(self, circuit: Circuit, k: int, n_rows: int = 1) -> None:
        self._circuit = circuit
        self._word, self._shift, width = _fields(circuit)
        self._mask = (np.uint64(1) << width) - np.uint64(1)
        n_words = int(self._word[-1]) + 1
        room = np.minimum(_n_states(circuit), k).astype(np.int64)
        self._offset = np.concatenate([[0], np.cumsum(room)])
        n_kept = int(self._offset[-1])
        needed = n_kept * (n_words + 1) * 8 + n_rows * k * (len(circuit.columns) + 2) * 4
        if needed > MOST_BYTES:
            raise ValueError(
                f"The {k} best completions need {needed / 2**30:.1f} GiB of working memory here, "
                f"more than {MOST_BYTES / 2**30:.0f} GiB. Ask for a smaller k."
            )
        self._best_log = np.empty(n_kept)
        self._best_word = np.empty((n_kept, n_words), dtype=np.uint64)

    def of(self, log_cells: FloatArray, component: int) -> tuple[IntArray, FloatArray]:
        """Cells `(n, n_columns)` and log-probabilities, best first, given those of leaf cells."""
        n = _k_best(
            log_cells[:, component].copy(),
            self._circuit.leaf_first,
            _shape(self._circuit, component),
            self._word,
            self._shift,
            self._offset,
            self._best_log,
            self._best_word,
        )
        own = slice(self._offset[-2], self._offset[-2] + n)
        cells = (self._best_word[own][:, self._word] >> self._shift) & self._mask
        return cells.astype(np.int32), self._best_log[own].copy()


def _fields(circuit: Circuit) -> tuple[IntArray, WordArray, WordArray]:
    """Where the cell of every column is in words: which word, the lowest bit, how many bits."""
    width = [max(1, (column.n_cells - 1).bit_length()) for column in circuit.columns]
    word, shift = np.zeros((2, len(width)), dtype=np.int32)
    at, left = 0, WORD
    for place, n_bits in enumerate(width):
        if n_bits > left:
            at, left = at + 1, WORD
        left -= n_bits
        word[place], shift[place] = at, left
    return word, shift.astype(np.uint64), np.array(width, dtype=np.uint64)


def _n_states(circuit: Circuit) -> FloatArray:
    """How many states each node has."""
    vtree = circuit.vtree
    n_states = np.ones(vtree.n_nodes)
    for v in range(vtree.n_nodes):
        place = int(vtree.node_var[v])
        if place != NONE:
            n_states[v] = circuit.columns[place].n_cells
        else:
            with np.errstate(over="ignore"):
                n_states[v] = n_states[vtree.node_left[v]] * n_states[vtree.node_right[v]]
    return n_states[circuit.node_vtree]


@kernel
def _k_best(
    log_cells: FloatArray,
    leaf_first: IntArray,
    s: _Shape,
    word: IntArray,
    shift: WordArray,
    offset: AnyArray,
    best_log: FloatArray,
    best_word: WordArray,
) -> int:
    """Fill the best values and states of every node, best first; returns how many the root has."""
    n_leaves = len(s.leaf_column)
    n_words = best_word.shape[1]
    count = np.zeros(len(offset) - 1, dtype=np.int64)
    state = np.zeros(n_words, dtype=np.uint64)
    for l in range(n_leaves):
        place = s.leaf_column[l]
        first, room = offset[l], offset[l + 1] - offset[l]
        for w in range(n_words):
            state[w] = np.uint64(0)
        for cell in range(leaf_first[l + 1] - leaf_first[l]):
            log_p = log_cells[leaf_first[l] + cell]
            if log_p > -np.inf:
                state[word[place]] = np.uint64(cell) << shift[place]
                count[l] = _insert(log_p, state, first, room, count[l], best_log, best_word)
    for n in range(n_leaves, len(count)):
        first, room = offset[n], offset[n + 1] - offset[n]
        n_mine = 0
        least = -np.inf  # that a state needs to be among the best, up to rounding
        for e in range(s.sum_edges[n - n_leaves], s.sum_edges[n - n_leaves + 1]):
            l, r, log_theta = s.edge_left[e], s.edge_right[e], s.log_theta[e]
            left, right, n_left, n_right = offset[l], offset[r], count[l], count[r]
            if log_theta == -np.inf or n_left == 0 or n_right == 0:
                continue
            for i in range(n_left):
                log_left = log_theta + best_log[left + i]
                if log_left + best_log[right] < least:
                    break  # nor is any pair that comes later
                # The pair (i, j) has (i + 1) (j + 1) - 1 pairs before it.
                j = 0
                while j < n_right and (i + 1) * (j + 1) <= room:
                    log_p = log_left + best_log[right + j]
                    if log_p < least:
                        break
                    end = first + n_mine
                    slack = TIE * (1.0 + abs(log_p))
                    if n_mine < room and (n_mine == 0 or log_p < best_log[end - 1] - slack):
                        best_log[end] = log_p  # of most sums every state is the next best
                        for w in range(n_words):
                            best_word[end, w] = best_word[left + i, w] | best_word[right + j, w]
                        n_mine += 1
                    else:
                        for w in range(n_words):
                            state[w] = best_word[left + i, w] | best_word[right + j, w]
                        n_mine = _insert(log_p, state, first, room, n_mine, best_log, best_word)
                    if n_mine == room:
                        worst = best_log[first + room - 1]
                        least = worst - TIE * (1.0 + abs(worst))
                    j += 1
        count[n] = n_mine
    return count[-1]


@kernel
def _insert(
    log_p: float,
    state: WordArray,
    first: int,
    room: int,
    count: int,
    best_log: FloatArray,
    best_word: WordArray,
) -> int:
    """Put a state where it belongs, if it is among the best; returns how many there are."""
    at = count
    slack = TIE * (1.0 + abs(log_p))
    while at > 0:
        other = best_log[first + at - 1]
        is_tie = abs(log_p - other) <= slack
        if log_p < other and not is_tie:
            break
        if is_tie and not _is_earlier(state, best_word, first + at - 1):
            break
        at -= 1
    if at >= room:
        return count
    count = min(count + 1, room)
    for i in range(first + count - 1, first + at, -1):
        best_log[i] = best_log[i - 1]
        for w in range(len(state)):
            best_word[i, w] = best_word[i - 1, w]
    best_log[first + at] = log_p
    for w in range(len(state)):
        best_word[first + at, w] = state[w]
    return count


@kernel
def _is_earlier(state: WordArray, best_word: WordArray, at: int) -> bool:
    """Whether a state comes before another in the order of states."""
    for w in range(len(state)):
        if state[w] != best_word[at, w]:
            return state[w] < best_word[at, w]
    return False
