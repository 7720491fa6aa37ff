"""The best states of one deterministic component.

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
from strudel.circuits.walks import leaf_rows, made_once
from strudel.tables.evidence import Evidence, nothing_known

MOST_BYTES = 4 * 2**30
WORD = 64
TIE = 1e-12  # by which equally probable states may differ, relative to their logs


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
    args = codes, _shape(circuit), _best_cells(circuit, evidence.weights), cells, log_p, is_tied
    in_threads(_best_states, -(-len(codes) // LANES), *args)
    cells, log_p = cells[:, np.newaxis], log_p[:, np.newaxis]
    if is_tied.any():
        again = evidence.take(np.flatnonzero(is_tied))
        cells[is_tied], log_p[is_tied] = k_best_states(circuit, again, 1)
    return cells, log_p


class _BestCells(NamedTuple):
    """What leaves answer: row ``first[l] + j`` is for code j of leaf l, as in `leaf_rows`."""

    first: IntArray
    log_value: FloatArray  # of the best cell
    best: IntArray
    is_tie: AnyArray  # whether another cell is as good


def _best_cells(circuit: Circuit, weights: tuple[FloatArray, ...]) -> _BestCells:
    rows = leaf_rows(circuit, weights)
    plain = made_once(circuit, "_plain_best_cells", _plain_best_cells)
    if len(rows.log_value) == len(plain.best):
        return plain
    log_value = np.empty(len(rows.log_value))
    best, is_tie = np.zeros(len(log_value), dtype=np.int32), np.zeros(len(log_value), dtype=bool)
    log_value[rows.is_plain], best[rows.is_plain] = plain.log_value, plain.best
    is_tie[rows.is_plain] = plain.is_tie
    for place, own in enumerate(weights):
        if len(own) > 1:
            leaves = slice(*circuit.column_leaves[place : place + 2])
            with np.errstate(divide="ignore"):
                logs = circuit.leaf_table(place)[:, np.newaxis, :, 0] + np.log(own[1:])
            first = rows.first[leaves] + circuit.columns[place].n_cells + 1
            at = first[:, np.newaxis] + np.arange(len(own) - 1)
            log_value[at] = logs.max(axis=2)
            is_near = _is_near(logs, log_value[at][:, :, np.newaxis])
            best[at], is_tie[at] = is_near.argmax(axis=2), is_near.sum(axis=2) > 1
    return _BestCells(rows.first, log_value, best, is_tie)


def _plain_best_cells(circuit: Circuit) -> _BestCells:
    """Where nothing is weighed: every cell by itself, and the best of all."""
    logs, ends = circuit.leaf_log_p[:, 0], circuit.leaf_first
    width = np.diff(ends)
    top = np.maximum.reduceat(logs, ends[:-1])
    is_near = _is_near(logs, np.repeat(top, width))
    n_near = np.add.reduceat(is_near, ends[:-1], dtype=np.int64)
    cell = np.arange(len(logs)) - np.repeat(ends[:-1], width)
    lowest = np.minimum.reduceat(np.where(is_near, cell, len(logs)), ends[:-1])
    after = ends[1:]  # the best of all comes after a leaf's own cells
    return _BestCells(
        leaf_rows(circuit, nothing_known(circuit.columns).weights).first,
        np.insert(logs, after, top),
        np.insert(cell, after, np.where(n_near > 0, lowest, 0)).astype(np.int32),
        np.insert(np.zeros(len(logs), dtype=bool), after, n_near > 1),
    )


def _is_near(logs: FloatArray, top: FloatArray) -> AnyArray:
    """Which are as large as the largest, but for rounding; none where nothing is possible."""
    with np.errstate(invalid="ignore"):
        return np.asarray(logs >= top - TIE * (1.0 + np.abs(top)))


@kernel
def _best_states(
    start_block: int,
    stop_block: int,
    codes: AnyArray,
    s: _Shape,
    leaves: _BestCells,
    cells: IntArray,
    log_p: FloatArray,
    is_tied: AnyArray,
) -> None:
    n_leaves = len(leaves.first)
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
            at = leaves.first[l]
            for b in range(LANES):
                value[l, b] = leaves.log_value[at + code[b]]
        for n in range(n_leaves, n_nodes):
            mine = value[n]
            for b in range(LANES):
                mine[b] = -np.inf
            for e in range(s.sum_edges[n - n_leaves], s.sum_edges[n - n_leaves + 1]):
                log_theta, l, r = s.log_theta[e], s.edge_left[e], s.edge_right[e]
                left, right = value[l], value[r]
                for b in range(LANES):
                    mine[b] = max(mine[b], log_theta + left[b] + right[b])
        for b in range(width):
            row = start + b
            log_p[row] = value[n_nodes - 1, b]
            is_tied[row] = _walk_to_best(codes[row], s, leaves, value, b, stack, cells[row])


@kernel
def _walk_to_best(
    codes: AnyArray,
    s: _Shape,
    leaves: _BestCells,
    value: FloatArray,
    b: int,
    stack: IntArray,
    cells: IntArray,
) -> bool:
    """Follow the edges that reach the largest value; returns whether two were equally good."""
    n_leaves = len(leaves.first)
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
            row = leaves.first[n] + codes[s.leaf_column[n]]
            cells[s.leaf_column[n]] = leaves.best[row]
            is_tied |= leaves.is_tie[row]
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


class AllCells(NamedTuple):
    """The cells of all columns, one column after another."""

    first: AnyArray  # (n_columns,) of each column
    column: AnyArray  # (n_cells,) whose it is
    cell: AnyArray  # (n_cells,) its number there
    of_leaf: AnyArray  # (n_leaf_cells,) which of them a cell of a leaf is


def all_cells(circuit: Circuit) -> AllCells:
    """Number the cells of all columns."""
    n_cells = np.array([column.n_cells for column in circuit.columns])
    first, column = np.cumsum(n_cells) - n_cells, np.repeat(np.arange(len(n_cells)), n_cells)
    shift = np.repeat(
        first[circuit.leaf_column] - circuit.leaf_first[:-1], np.diff(circuit.leaf_first)
    )
    return AllCells(
        first, column, np.arange(len(column)) - first[column], np.arange(len(shift)) + shift
    )


def weighed_cells(circuit: Circuit, evidence: Evidence, row: int) -> tuple[FloatArray, FloatArray]:
    """What every cell weighs in one question, and the logs of the cells of leaves with that.

    The latter are `(n_leaf_cells, k)`.
    """
    cells, codes = made_once(circuit, "_all_cells", all_cells), evidence.codes[row]
    n_cells, code = evidence.columns.n_cells, codes[cells.column]
    weights = np.where(code < n_cells[cells.column], code == cells.cell, 1.0)
    for place in np.flatnonzero(codes > n_cells).tolist():
        own = evidence.cell_weights(row, place)
        weights[cells.first[place] : cells.first[place] + len(own)] = own
    if np.all(weights == 1.0):
        return weights, circuit.leaf_log_p
    with np.errstate(divide="ignore"):
        return weights, circuit.leaf_log_p + np.log(weights)[cells.of_leaf, np.newaxis]


def k_best_states(circuit: Circuit, evidence: Evidence, k: int) -> tuple[IntArray, FloatArray]:
    """Cells (n_rows, k, n_columns) and log-probabilities (n_rows, k) of the k best states."""
    n_rows, n_columns = evidence.codes.shape
    best = KBest(circuit, k, n_rows)
    cells = np.zeros((n_rows, k, n_columns), dtype=np.int32)
    log_p = np.full((n_rows, k), -np.inf)
    for row in range(n_rows):
        own, logs = best.of(weighed_cells(circuit, evidence, row)[1], 0)
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
