"""Flows of complete rows: one edge at every vtree node, and one cell of a leaf for every column.

In:  a deterministic `Circuit`, and the cells of fully observed rows.
Out: log-likelihoods per row and component (`flow_logs`) or per row (`flow_log_likelihood`); or the
     *lines* that each row takes (`lines_taken`).

What a row takes does not depend on the parameters (equation 1 of the paper), so its log-likelihoods
under all components are the sum of a few lines of one table: the log-parameters of the edges, and
below them those of the cells of leaves. Values go up the circuit and flows come down, 64 rows to a
word. Lines of zeros are left out. Where most rows of a block take the same line of a vtree node, it
is added once for all of them, and taken back from the rows that do not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strudel._numba import in_threads, kernel, lowest_bit, popcount, soonest
from strudel._types import NONE, AnyArray, ByteArray, FloatArray, IntArray, WordArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.reweigh import pruned
from strudel.data.validation import slices
from strudel.errors import CircuitPropertyError

BLOCK_WORDS = 8  # 512 rows: one cache line per node
BLOCK_ROWS = 64 * BLOCK_WORDS  # whose flows are found together
BLOCK_CELLS = 2**23  # of rows, taken at a time, so that a million rows need little extra memory
BLOCKS_TOGETHER = 4  # in the same memory, which takes as long to get as a block takes
MOST_CELLS_IN_WORDS = 64  # of a column; rows of wider ones are looked up one by one
FAR = -50.0  # nats; components this much less probable than the best do not count


class Lines(NamedTuple):
    """The lines of a circuit's table of log-parameters, and what rows take them by."""

    log_value: FloatArray  # (n_lines, k) edges, then cells of leaves
    place: IntArray  # (n_lines,) vtree node
    kind: ByteArray  # (n_lines,) 0 for zeros; 1; 2 if some are -inf, which cannot be taken back
    is_cell: ByteArray  # (n_leaf_cells,) whether it is possible, in some component
    is_full: ByteArray  # (n_leaves,) whether all of its cells are
    leaf_first: IntArray  # (n_leaves + 1,)
    column_leaves: IntArray  # (n_columns + 1,)
    n_cells: IntArray  # (n_columns,)
    sum_edges: IntArray  # (n_sums + 1,)
    edge_left: IntArray
    edge_right: IntArray


def lines_of(circuit: Circuit) -> Lines:
    """Lay out a circuit for the flows."""
    if "_lines" not in circuit.__dict__:
        circuit.__dict__["_lines"] = _made_lines(circuit)
    found: Lines = circuit.__dict__["_lines"]
    return found


def _made_lines(circuit: Circuit) -> Lines:
    circuit = pruned(circuit)  # by an edge of no weight, no row goes
    log_value = np.concatenate([circuit.edge_log_theta, circuit.leaf_log_p])
    width = np.diff(circuit.leaf_first)
    place = circuit.node_vtree[circuit.n_leaves :][circuit.edge_sum]
    leaf_place = np.repeat(circuit.node_vtree[: circuit.n_leaves], width)
    kind = np.any(log_value != 0.0, axis=1).astype(np.uint8)
    kind += np.any(log_value == -np.inf, axis=1)
    is_cell: AnyArray = np.any(circuit.leaf_log_p > -np.inf, axis=1)
    return Lines(
        log_value,
        np.concatenate([place, leaf_place]).astype(np.int32),
        kind,
        is_cell.astype(np.uint8),
        np.logical_and.reduceat(is_cell, circuit.leaf_first[:-1]).astype(np.uint8),
        circuit.leaf_first,
        circuit.column_leaves,
        circuit.columns.n_cells,
        circuit.sum_edges,
        circuit.edge_left,
        circuit.edge_right,
    )


def flow_logs(circuit: Circuit, cells: AnyArray) -> FloatArray:
    """Log-likelihoods `(n_rows, k)`, without the weights of the components.

    Raises `CircuitPropertyError` where some row takes two edges of one sum.
    """
    log_p = np.empty((len(cells), circuit.n_components))
    _sweep(circuit, cells, log_p, np.empty(0), np.empty((0, 0), dtype=np.int32))
    return log_p


def flow_log_likelihood(circuit: Circuit, cells: AnyArray) -> FloatArray:
    """Log-likelihoods `(n_rows,)` under all components together."""
    total = np.empty(len(cells))
    _sweep(circuit, cells, np.empty((0, 0)), total, np.empty((0, 0), dtype=np.int32))
    return total


def lines_taken(circuit: Circuit, cells: AnyArray) -> IntArray:
    """The line that every row takes at each vtree node, `(n_rows, n_vtree_nodes)`.

    NONE where it takes none that counts; the last column is NONE for rows that are impossible.
    """
    taken = np.full((len(cells), circuit.vtree.n_nodes + 1), NONE, dtype=np.int32)
    _sweep(circuit, cells, np.empty((0, 0)), np.empty(0), taken)
    return taken


def _sweep(
    circuit: Circuit, cells: AnyArray, log_p: FloatArray, total: FloatArray, taken: IntArray
) -> None:
    """Fill the output that is not empty."""
    for part in slices(len(cells), max(BLOCK_ROWS, BLOCK_CELLS // cells.shape[1])):
        if circuit.__dict__.get("_is_ambiguous", False):
            break
        own = np.ascontiguousarray(cells[part], dtype=np.int32)
        n_blocks = -(-len(own) // BLOCK_ROWS)
        is_twice = np.zeros(n_blocks, dtype=np.bool_)
        seconds = 1e-6 * n_blocks * BLOCK_WORDS * (circuit.n_edges + circuit.n_nodes)
        seconds += 1e-6 * own.size * circuit.n_components
        in_threads(
            soonest(_flow_blocks, seconds),
            -(-n_blocks // BLOCKS_TOGETHER),
            own,
            lines_of(circuit),
            circuit.vtree.n_nodes,
            circuit.log_weight,
            log_p[part],
            total[part],
            taken[part],
            is_twice,
        )
        circuit.__dict__["_is_ambiguous"] = bool(is_twice.any())
    if circuit.__dict__.get("_is_ambiguous", False):
        raise CircuitPropertyError(
            "Flows need a deterministic circuit, but some row satisfies two edges of one sum node."
        )


@kernel
def _flow_blocks(
    first: int,
    last: int,
    cells: IntArray,
    p: Lines,
    n_vtree: int,
    log_weight: FloatArray,
    log_p: FloatArray,
    total: FloatArray,
    taken: IntArray,
    is_twice: AnyArray,
) -> None:
    """Blocks of rows are independent, so threads share nothing but the outputs' disjoint rows."""
    n_rows, n_columns = cells.shape
    n_lines, k = p.log_value.shape
    n_nodes = len(p.leaf_first) - 1 + len(p.sum_edges) - 1
    value = np.zeros((n_nodes, BLOCK_WORDS), dtype=np.uint64)
    flow = np.zeros((n_nodes, BLOCK_WORDS), dtype=np.uint64)
    n_words_of_cells = 0
    for c in range(n_columns):
        n_words_of_cells += p.n_cells[c] if p.n_cells[c] <= MOST_CELLS_IN_WORDS else 0
    cell_rows = np.zeros((n_words_of_cells, BLOCK_WORDS), dtype=np.uint64)
    room = min(n_lines, len(p.edge_left) + BLOCK_ROWS * n_columns) + 1  # the last is for a try
    passed = np.empty(room, dtype=np.int32)
    passed_rows = np.empty((room, BLOCK_WORDS), dtype=np.uint64)
    part = np.empty((BLOCK_ROWS, k))
    last_block = min(last * BLOCKS_TOGETHER, len(is_twice))
    for block in range(first * BLOCKS_TOGETHER, last_block):
        start = block * BLOCK_ROWS
        width = min(BLOCK_ROWS, n_rows - start)
        own = cells[start : start + width]
        _set_leaves(own, p, cell_rows, value)
        is_twice[block], n_passed = _flow(own, p, cell_rows, value, flow, passed, passed_rows)
        if is_twice[block]:
            continue
        possible = value[n_nodes - 1]
        if len(taken):
            _set_taken(passed[:n_passed], passed_rows, possible, p.place, taken[start:])
            continue
        _add_lines(passed[:n_passed], passed_rows, possible, p, n_vtree, part[:width])
        for s in range(width):
            if not possible[s // 64] >> np.uint64(s % 64) & np.uint64(1):
                part[s] = -np.inf
            if len(log_p):
                log_p[start + s] = part[s]
            elif k == 1:
                total[start + s] = part[s, 0] + log_weight[0]
            else:
                total[start + s] = _log_weighted_sum(part[s], log_weight)


@kernel
def _set_leaves(cells: IntArray, p: Lines, cell_rows: WordArray, value: WordArray) -> None:
    """The rows of every cell, and of every leaf those that it can have."""
    n_rows = len(cells)
    every = np.zeros(BLOCK_WORDS, dtype=np.uint64)
    for w in range(BLOCK_WORDS):
        n = min(max(n_rows - 64 * w, 0), 64)
        every[w] = ~np.uint64(0) >> np.uint64(64 - n) if n else np.uint64(0)
    at = 0
    cell_rows[:] = np.uint64(0)
    for c in range(cells.shape[1]):
        n_cells = p.n_cells[c]
        is_narrow = n_cells <= MOST_CELLS_IN_WORDS
        if n_cells == 2:
            for w in range(-(-n_rows // 64)):
                word = np.uint64(0)
                for s in range(64 * w, min(64 * w + 64, n_rows)):
                    word |= np.uint64(cells[s, c]) << np.uint64(s % 64)
                cell_rows[at, w], cell_rows[at + 1, w] = every[w] & ~word, word
        elif is_narrow:
            for s in range(n_rows):
                cell_rows[at + cells[s, c], s // 64] |= np.uint64(1) << np.uint64(s % 64)
        for l in range(p.column_leaves[c], p.column_leaves[c + 1]):
            if p.is_full[l]:
                value[l] = every
                continue
            value[l] = np.uint64(0)
            is_cell = p.is_cell[p.leaf_first[l] : p.leaf_first[l + 1]]
            if is_narrow:
                for cell in range(n_cells):
                    if is_cell[cell]:
                        for w in range(BLOCK_WORDS):
                            value[l, w] |= cell_rows[at + cell, w]
            else:
                for s in range(n_rows):
                    if is_cell[cells[s, c]]:
                        value[l, s // 64] |= np.uint64(1) << np.uint64(s % 64)
        at += n_cells if is_narrow else 0


@kernel
def _flow(
    cells: IntArray,
    p: Lines,
    cell_rows: WordArray,
    value: WordArray,
    flow: WordArray,
    passed: IntArray,
    passed_rows: WordArray,
) -> tuple[bool, int]:
    """Values up, flows down; whether a row took two edges of a sum, and how many lines are passed.

    Fills `passed` with the lines that some rows take, and `passed_rows` with which. All of `flow`
    is zero, before and after.
    """
    edge_left, edge_right, sum_edges = p.edge_left, p.edge_right, p.sum_edges
    n_leaves, n_nodes, n_edges = len(p.leaf_first) - 1, len(value), len(edge_left)
    for n in range(n_leaves, n_nodes):
        first = sum_edges[n - n_leaves]
        l, r = edge_left[first], edge_right[first]
        for w in range(BLOCK_WORDS):
            value[n, w] = value[l, w] & value[r, w]
        for e in range(first + 1, sum_edges[n - n_leaves + 1]):
            l, r = edge_left[e], edge_right[e]
            for w in range(BLOCK_WORDS):
                value[n, w] |= value[l, w] & value[r, w]
    flow[n_nodes - 1] = value[n_nodes - 1]
    rows = np.zeros(BLOCK_WORDS, dtype=np.uint64)
    seen = np.zeros(BLOCK_WORDS, dtype=np.uint64)  # rows that an earlier edge of the sum took
    n_passed, is_twice = 0, False
    for n in range(n_nodes - 1, n_leaves - 1, -1):
        some = np.uint64(0)
        for w in range(BLOCK_WORDS):
            some |= flow[n, w]
        if not some:
            continue
        for w in range(BLOCK_WORDS):
            seen[w] = np.uint64(0)
        for e in range(sum_edges[n - n_leaves], sum_edges[n - n_leaves + 1]):
            l, r = edge_left[e], edge_right[e]
            some = np.uint64(0)
            for w in range(BLOCK_WORDS):
                rows[w] = flow[n, w] & value[l, w] & value[r, w]
                some |= rows[w]
            if not some:
                continue
            both = np.uint64(0)
            for w in range(BLOCK_WORDS):
                both |= rows[w] & seen[w]
                seen[w] |= rows[w]
                flow[l, w] |= rows[w]
                flow[r, w] |= rows[w]
            is_twice |= both != np.uint64(0)
            if p.kind[e]:
                passed[n_passed] = e
                for w in range(BLOCK_WORDS):
                    passed_rows[n_passed, w] = rows[w]
                n_passed += 1
        for w in range(BLOCK_WORDS):
            flow[n, w] = np.uint64(0)
    if is_twice:  # and may pass several leaves of a column, for which there is no room
        flow[:n_leaves] = np.uint64(0)
        return True, 0
    at = 0
    for c in range(cells.shape[1]):
        is_narrow = p.n_cells[c] <= MOST_CELLS_IN_WORDS
        for l in range(p.column_leaves[c], p.column_leaves[c + 1]):
            some = np.uint64(0)
            for w in range(BLOCK_WORDS):
                some |= flow[l, w]
            if not some:
                continue
            first = n_edges + p.leaf_first[l]
            if is_narrow:
                for cell in range(p.n_cells[c]):
                    if not p.kind[first + cell]:
                        continue
                    some = np.uint64(0)
                    for w in range(BLOCK_WORDS):
                        passed_rows[n_passed, w] = flow[l, w] & cell_rows[at + cell, w]
                        some |= passed_rows[n_passed, w]
                    if some:
                        passed[n_passed] = first + cell
                        n_passed += 1
            else:
                n_passed = _pass_cells(
                    cells[:, c], flow[l], p.kind, first, n_passed, passed, passed_rows
                )
            for w in range(BLOCK_WORDS):
                flow[l, w] = np.uint64(0)
        at += p.n_cells[c] if is_narrow else 0
    return False, n_passed


@kernel
def _pass_cells(
    cells: IntArray,
    rows: WordArray,
    kind: ByteArray,
    first: int,
    n_passed: int,
    passed: IntArray,
    passed_rows: WordArray,
) -> int:
    """The lines of a leaf of many cells that its rows take; returns how many there are now."""
    own = n_passed
    for w in range(BLOCK_WORDS):
        word = rows[w]
        while word:
            s = w * 64 + lowest_bit(word)
            word &= word - np.uint64(1)
            line = first + cells[s]
            if not kind[line]:
                continue
            i = own
            while i < n_passed and passed[i] != line:
                i += 1
            if i == n_passed:
                passed[i] = line
                for other in range(BLOCK_WORDS):
                    passed_rows[i, other] = np.uint64(0)
                n_passed += 1
            passed_rows[i, w] |= np.uint64(1) << np.uint64(s % 64)
    return n_passed


@kernel
def _set_taken(
    passed: IntArray,
    passed_rows: WordArray,
    possible: WordArray,
    place: IntArray,
    taken: IntArray,
) -> None:
    """The line that each row takes at every vtree node."""
    for w in range(BLOCK_WORDS):
        word = possible[w]
        while word:
            taken[w * 64 + lowest_bit(word), taken.shape[1] - 1] = 0
            word &= word - np.uint64(1)
        for i in range(len(passed)):
            word = passed_rows[i, w]
            while word:
                taken[w * 64 + lowest_bit(word), place[passed[i]]] = passed[i]
                word &= word - np.uint64(1)


@kernel
def _add_lines(
    passed: IntArray,
    passed_rows: WordArray,
    possible: WordArray,
    p: Lines,
    n_vtree: int,
    part: FloatArray,
) -> None:
    """Fill `part` (n_rows, k) with the sums of the lines that each row takes."""
    k = p.log_value.shape[1]
    default = np.full(n_vtree, NONE, dtype=np.int32)  # by vtree node, the line of most rows
    n_most = np.full(n_vtree, len(part) // 2, dtype=np.int32)
    for i in range(len(passed)):
        if p.kind[passed[i]] == 1:  # what is -inf can be added, but not taken back
            n = 0
            for w in range(BLOCK_WORDS):
                n += popcount(passed_rows[i, w])
            v = p.place[passed[i]]
            if n > n_most[v]:
                n_most[v] = n
                default[v] = i
    base = np.zeros(k)
    for v in range(n_vtree):
        if default[v] != NONE:
            base += p.log_value[passed[default[v]]]
    for s in range(len(part)):
        part[s] = base
    for i in range(len(passed)):
        line = p.log_value[passed[i]]
        is_default = default[p.place[passed[i]]] == i
        for w in range(BLOCK_WORDS):
            word = passed_rows[i, w]
            if is_default:
                word = possible[w] & ~word
            while word:
                mine = part[w * 64 + lowest_bit(word)]
                word &= word - np.uint64(1)
                if is_default:
                    for c in range(k):
                        mine[c] -= line[c]
                else:
                    for c in range(k):
                        mine[c] += line[c]


@kernel
def _log_weighted_sum(part: FloatArray, log_weight: FloatArray) -> float:
    """Log of the sum of weighted exponentials."""
    top = -np.inf
    for c in range(len(part)):
        part[c] += log_weight[c]
        top = max(top, part[c])
    if top == -np.inf:
        return top
    rest = 0.0
    for c in range(len(part)):
        if part[c] - top > FAR:
            rest += np.exp(part[c] - top)
    return top + np.log(rest)
