"""Bounds on what can be expected once open columns are known, and all of it where it is little.

In:  a circuit of one component; the *open* columns, which may become known; rows of codes.
Out: `PosteriorBounds`: intervals of conditional expectations over all states of the open columns;
     `split_posteriors`: the few different expectations that there are, with their probabilities.

One pass up keeps two intervals per node: of its value, and of the expectation below it. Those of
the two sides of a product add up (for a conjunction: multiply). At a sum the expectation is a
weighted mean of those of its edges, and the weights are the values; within their intervals they are
chosen for the largest mean, which takes all that is above it at its most and the rest at its least.
A node may leave an open column some of its cells only, and then its intervals are over the states
with those. Edges of a sum that leave it different ones never go together: the sum is split into
cases, by the states of a few such columns, and the intervals of the cases are joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from strudel._numba import in_threads, kernel
from strudel._types import NONE, AnyArray, FloatArray, IntArray, WordArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.properties import overlaps
from strudel.circuits.reweigh import side_by_side
from strudel.circuits.walks import down, edge_shares, edges_at, first_node, leaf_values_of, up
from strudel.predictions.cell_codes import CellCodes
from strudel.predictions.shared_walks import Structure

SMALLEST = 1e-120  # upper ends of values are raised to it, which keeps them upper ends
N_KEPT = 8  # open columns remembered per node
N_CASES = 8  # at most, by those of them that a row leaves open
SMALLEST_THETA = 1e-60  # and those of parameters to this, so that products do not vanish


class _Question(NamedTuple):
    """What the pass needs besides rows."""

    edge_theta: FloatArray  # (n_edges, 2) the parameters, and upper ends of them
    leaf: FloatArray  # (n_leaf_rows, 4) for every leaf and code both intervals
    open_places: AnyArray  # the open columns
    open_first: AnyArray  # where their cells start among the bits of a word
    node_cells: WordArray  # (n_nodes, n_words) cells of open columns that a node leaves possible
    node_splits: IntArray  # (n_nodes, N_KEPT) open columns by which to tell cases apart
    is_product: bool  # of a conjunction


class PosteriorBounds:
    """Intervals of conditional expectations under one circuit."""

    def __init__(self, known: CellCodes, open_places: Sequence[int]) -> None:
        circuit = side_by_side(known.circuit)
        self._circuit = circuit
        self._known = known if circuit is known.circuit else known.of_circuit(circuit)
        self._open = np.array(open_places, dtype=np.int64)
        theta = np.exp(circuit.edge_log_theta[:, 0])
        most = np.where(theta > 0.0, np.maximum(theta, SMALLEST_THETA), 0.0)
        self._theta = np.column_stack([theta, most])
        n_cells = known.n_cells[self._open]
        self._first = np.concatenate([[0], np.cumsum(n_cells)]).astype(np.int64)
        self._node_cells, self._node_splits = self._find_cells()

    def of_sum(
        self, weight: Sequence[FloatArray], codes: AnyArray
    ) -> tuple[FloatArray, FloatArray]:
        """Bounds on the expectation of a sum of weights of cells."""
        return self._run(weight, codes, is_product=False)

    def of_conjunction(
        self, cells: dict[int, AnyArray], codes: AnyArray
    ) -> tuple[FloatArray, FloatArray]:
        """Bounds on the probability that columns are in some of their cells."""
        places = range(len(self._circuit.columns))
        weight = [np.ones(self._known.n_cells[place]) for place in places]
        for place, own in cells.items():
            weight[place] = own * 1.0
        return self._run(weight, codes, is_product=True)

    def _find_cells(self) -> tuple[WordArray, IntArray]:
        """The cells of open columns that each node leaves possible, as bits; columns to split by.

        Those are the columns of which edges leave fewer cells; of which most edges do comes first.
        """
        circuit, n_open = self._circuit, len(self._open)
        possible = np.ones((circuit.n_nodes, int(self._first[-1])), dtype=bool)
        splits = np.full((circuit.n_nodes, N_KEPT), NONE, dtype=np.int32)
        for i, place in enumerate(self._open.tolist()):
            leaves = slice(*circuit.column_leaves[place : place + 2])
            own = circuit.leaf_table(place)[:, :, 0] > -np.inf
            possible[leaves, self._first[i] : self._first[i + 1]] = own
        is_live = circuit.edge_log_theta[:, 0] > -np.inf
        for v in np.flatnonzero(circuit.vtree.node_var == NONE).tolist() if n_open else ():
            edges, first = edges_at(circuit, v)
            left, right = circuit.edge_left[edges], circuit.edge_right[edges]
            both = possible[left] & possible[right] & is_live[edges, np.newaxis]
            sums = circuit.n_leaves + np.arange(*circuit.vtree_sums[v : v + 2])
            possible[sums] = np.logical_or.reduceat(both, first, axis=0)
            is_less = possible[circuit.n_leaves + circuit.edge_sum[edges]] > both
            has_fewer = np.logical_or.reduceat(is_less, self._first[:-1], axis=1)
            has_fewer &= is_live[edges, np.newaxis]
            n_fewer = np.add.reduceat(has_fewer, first, axis=0)  # (n_sums, n_open)
            order = np.argsort(-n_fewer, axis=1, kind="stable")[:, :N_KEPT]
            is_split = np.take_along_axis(n_fewer, order, axis=1) > 0
            splits[sums, : order.shape[1]] = np.where(is_split, order, NONE)
        return _as_words(possible), splits

    def _leaf_table(self, weight: Sequence[FloatArray]) -> FloatArray:
        """Both intervals of every leaf and code."""
        circuit, known = self._circuit, self._known
        table = np.zeros((len(known.rows.log_value), 4))
        is_open = np.isin(np.arange(len(circuit.columns)), self._open)
        for place in range(len(circuit.columns)):
            leaves = slice(*circuit.column_leaves[place : place + 2])
            p = np.exp(circuit.leaf_table(place)[:, :, 0])[:, np.newaxis]  # (n_leaves, 1, n_cells)
            p = p * known.weights(place)  # (n_leaves, n_codes, n_cells)
            w = np.broadcast_to(weight[place], p.shape)
            at = known.rows.first[leaves, np.newaxis] + np.arange(p.shape[1])
            total = p.sum(axis=2)
            is_there = total > 0.0
            if is_open[place]:
                some = p > 0.0
                table[at, 0] = np.where(some, p, np.inf).min(axis=2)
                table[at, 1] = p.max(axis=2)
                table[at, 2] = np.where(some, w, np.inf).min(axis=2)
                table[at, 3] = np.where(some, w, -np.inf).max(axis=2)
            else:
                table[at, 0] = table[at, 1] = total
                mean = (p * w).sum(axis=2) / np.where(is_there, total, 1.0)
                table[at, 2] = table[at, 3] = mean
            table[at] = np.where(is_there[:, :, np.newaxis], table[at], 0.0)
            table[at, 1] = np.where(is_there, np.maximum(table[at, 1], SMALLEST_THETA), 0.0)
        return table

    def _run(
        self, weight: Sequence[FloatArray], codes: AnyArray, is_product: bool
    ) -> tuple[FloatArray, FloatArray]:
        key = self, b"".join(own.tobytes() for own in weight)
        leaf = self._known.table(key, lambda: self._leaf_table(weight))
        low, high = np.empty(len(codes)), np.empty(len(codes))
        allowed = [
            self._known.weights(place)[codes[:, place]] > 0.0 for place in self._open.tolist()
        ]
        words = _as_words(np.concatenate([np.zeros((len(codes), 0), dtype=bool), *allowed], axis=1))
        question = _Question(
            self._theta,
            leaf,
            self._open,
            self._first,
            self._node_cells,
            self._node_splits,
            is_product,
        )
        rows = np.ascontiguousarray(codes)
        p = self._known.structure
        in_threads(_posterior_bounds, len(rows), rows, words, p, question, low, high)
        return low, high


def _as_words(bits: AnyArray) -> WordArray:
    """Rows of bits, packed in words."""
    n_words = max(1, -(-bits.shape[1] // 64))
    padded = np.zeros((len(bits), 64 * n_words), dtype=bool)
    padded[:, : bits.shape[1]] = bits
    packed: WordArray = np.packbits(padded, axis=1, bitorder="little").view(np.uint64)
    return packed


@kernel
def _bit(words: WordArray, at: int) -> bool:
    return (words[at // 64] >> np.uint64(at % 64)) & np.uint64(1) != np.uint64(0)


@kernel
def _posterior_bounds(
    first: int,
    last: int,
    codes: AnyArray,
    allowed: WordArray,
    p: Structure,
    question: _Question,
    low: FloatArray,
    high: FloatArray,
) -> None:
    """One pass up per row; what a row has in common with the one before it is kept."""
    n_nodes = len(question.node_cells)
    widest = 1
    for i in range(len(p.sum_edges) - 1):
        widest = max(widest, p.sum_edges[i + 1] - p.sum_edges[i])
    # Least and most of a node's value, least and most of the expectation below it.
    state = np.zeros((n_nodes, 4))
    items = np.empty((widest, 4))
    case = np.empty(allowed.shape[1], dtype=np.uint64)
    is_new = np.ones(len(p.vtree_var), dtype=np.bool_)
    for s in range(first, last):
        if s > first:
            for v in range(len(is_new)):
                var = p.vtree_var[v]
                if var != NONE:
                    is_new[v] = codes[s, var] != codes[s - 1, var]
                else:
                    is_new[v] = is_new[p.vtree_left[v]] or is_new[p.vtree_right[v]]
        _pass_up(codes[s], allowed[s], is_new, p, question, state, items, case)
        low[s], high[s] = state[n_nodes - 1, 2], state[n_nodes - 1, 3]


@kernel
def _pass_up(
    codes: AnyArray,
    allowed: WordArray,
    is_new: AnyArray,
    p: Structure,
    question: _Question,
    state: FloatArray,
    items: FloatArray,
    case: WordArray,
) -> None:
    """Fill `state` (n_nodes, 4); values of one vtree node share a scale: only ratios count."""
    edge_theta, leaf, _, open_first, node_cells, node_splits, is_product = question
    part = np.empty(4)
    chosen, n_options, cell = np.empty((3, N_KEPT), dtype=np.int64)  # cell: in a case
    options = np.empty((N_KEPT, N_CASES), dtype=np.int64)  # cells of chosen columns
    n_leaves = len(p.leaf_row)
    for v in range(len(p.vtree_var)):
        if not is_new[v]:
            continue
        var = p.vtree_var[v]
        if var != NONE:
            for l in range(p.column_leaves[var], p.column_leaves[var + 1]):
                state[l] = leaf[p.leaf_row[l] + codes[var]]
            continue
        top = 0.0
        for i in range(p.vtree_sums[v], p.vtree_sums[v + 1]):
            n = n_leaves + i
            n_chosen = 0
            n_cases = 1
            for k in range(N_KEPT):
                j = node_splits[n, k]
                if j == NONE:
                    break
                n_cells = 0
                for at in range(open_first[j], open_first[j + 1]):
                    if _bit(allowed, at) and _bit(node_cells[n], at):
                        if n_cells < N_CASES:
                            options[n_chosen, n_cells] = at
                        n_cells += 1
                if n_cells > 1 and n_cases * n_cells <= N_CASES:
                    chosen[n_chosen], n_options[n_chosen] = j, n_cells
                    n_chosen += 1
                    n_cases *= n_cells
            mine = state[n]
            mine[0], mine[1], mine[2], mine[3] = np.inf, 0.0, np.inf, -np.inf
            for number in range(n_cases):
                for w in range(len(case)):
                    case[w] = allowed[w] & node_cells[n, w]
                rest = number
                for c in range(n_chosen):
                    cell[c] = options[c, rest % n_options[c]]
                    rest //= n_options[c]
                    for at in range(open_first[chosen[c]], open_first[chosen[c] + 1]):
                        if at != cell[c]:
                            case[at // 64] &= ~(np.uint64(1) << np.uint64(at % 64))
                size = 0
                for e in range(p.sum_edges[i], p.sum_edges[i + 1]):
                    left, right = p.edge_left[e], p.edge_right[e]
                    is_possible = is_sure = True
                    for c in range(n_chosen):
                        if not (
                            _bit(node_cells[left], cell[c]) and _bit(node_cells[right], cell[c])
                        ):
                            is_possible = False
                    if not is_possible:
                        continue
                    for w in range(len(case)):
                        if case[w] & ~(node_cells[left, w] & node_cells[right, w]):
                            is_sure = False
                    item = items[size]
                    _join(edge_theta[e], state[left], state[right], is_product, item)
                    if not is_sure:
                        item[0] = 0.0
                    size += item[1] > 0.0
                _mean(items, size, part)
                mine[0] = min(mine[0], part[0])
                mine[1] = max(mine[1], part[1])
                if size > 0:
                    mine[2] = min(mine[2], part[2])
                    mine[3] = max(mine[3], part[3])
            if mine[1] == 0.0:  # impossible: there is no expectation
                mine[:] = 0.0
            top = max(top, mine[1])
        if top > 0.0:
            for i in range(p.vtree_sums[v], p.vtree_sums[v + 1]):
                n = n_leaves + i
                state[n, 0] /= top
                if state[n, 1] > 0.0:
                    state[n, 1] = max(state[n, 1] / top, SMALLEST)


@kernel
def _join(
    theta: FloatArray, left: FloatArray, right: FloatArray, is_product: bool, item: FloatArray
) -> None:
    """One product: values multiply; expectations add up, or multiply where none is negative."""
    item[0] = theta[0] * left[0] * right[0]
    item[1] = theta[1] * left[1] * right[1]
    if is_product:
        item[2], item[3] = left[2] * right[2], left[3] * right[3]
    else:
        item[2], item[3] = left[2] + right[2], left[3] + right[3]


@kernel
def _mean(items: FloatArray, size: int, result: FloatArray) -> None:
    """The intervals of a weighted sum and of the weighted mean of `size` items."""
    result[0] = result[1] = 0.0
    if size == 0:
        result[2] = result[3] = 0.0
        return
    for i in range(size):
        result[0] += items[i, 0]
        result[1] += items[i, 1]
    result[3] = _largest_mean(items, size, 3, 1.0)
    result[2] = -_largest_mean(items, size, 2, -1.0)


@kernel
def _largest_mean(items: FloatArray, size: int, column: int, sign: float) -> float:
    """The largest mean of ``sign * items[:, column]`` with weights between columns 0 and 1."""
    for i in range(1, size):  # sort, the largest first
        j = i
        while j > 0 and sign * items[j, column] > sign * items[j - 1, column]:
            for c in range(4):
                items[j, c], items[j - 1, c] = items[j - 1, c], items[j, c]
            j -= 1
    weight = total = 0.0
    for i in range(size):
        weight += items[i, 0]
        total += items[i, 0] * sign * items[i, column]
    best = -np.inf
    for i in range(size):
        more = items[i, 1] - items[i, 0]
        weight += more
        total += more * sign * items[i, column]
        if weight > 0.0:
            best = max(best, total / weight)
    # Rounding must not take the mean out of what it is a mean of.
    return min(best, sign * items[0, column])


def split_posteriors(
    known: CellCodes, weight: Sequence[FloatArray], open_places: Sequence[int], codes: AnyArray
) -> list[tuple[FloatArray, FloatArray]] | None:
    """For each row how probable each posterior expectation of a sum is, and what it is.

    If some vtree node holds all columns of the sum and none of the open ones, the open columns can
    only choose which of its nodes is passed. If they choose one for sure, there are no more
    different posteriors than such nodes, however many states the open columns have. None if that
    is not so for some row.
    """
    circuit = side_by_side(known.circuit)
    own = known if circuit is known.circuit else known.of_circuit(circuit)
    mine = [place for place, of_cells in enumerate(weight) if np.any(of_cells != of_cells[0])]
    is_hidden = ~known.is_settled(codes)
    is_free = is_hidden.copy()
    is_free[:, np.setdiff1d(np.arange(codes.shape[1]), open_places)] = False
    is_hidden &= ~is_free
    tops = []
    for free in is_free:
        top = _highest_without(circuit, mine, np.flatnonzero(free))
        if top is None or (known.circuit.n_components > 1 and top != circuit.vtree.root):
            return None  # the root's choice of a component is hidden
        tops.append(top)
    values = up(circuit, leaf_values_of(circuit, own.rows, codes))
    flows = down(circuit, values)
    # Open columns choose a node for sure if no sum above it chooses by what is hidden.
    overlapping: dict[bytes, AnyArray] = {}
    for row, v in enumerate(tops):
        while v != circuit.vtree.root:
            v = int(circuit.vtree.node_parent[v])
            first = edges_at(circuit, v)[1]
            one = [part[:, row : row + 1] for part in values]
            n_ways = np.add.reduceat(edge_shares(circuit, v, one)[:, 0, 0] > 0.0, first)
            choosers = np.flatnonzero((n_ways > 1) & (flows[v][:, row, 0] > 0.0))
            if len(choosers):
                key = is_hidden[row].tobytes()
                if key not in overlapping:
                    overlapping[key] = overlaps(circuit, is_hidden[row])[1]
                if overlapping[key][circuit.vtree_sums[v] + choosers].any():
                    return None
    means = _means(circuit, own, weight, codes, values)
    chances = [flows[top][:, row, 0] for row, top in enumerate(tops)]
    return [
        (chance[chance > 0.0], means[top][chance > 0.0, row])
        for row, (top, chance) in enumerate(zip(tops, chances, strict=True))
    ]


def _means(
    circuit: Circuit,
    known: CellCodes,
    weight: Sequence[FloatArray],
    codes: AnyArray,
    values: list[FloatArray],
) -> list[FloatArray]:
    """The expectation of the sum below every node given each row, per vtree node."""
    found: list[FloatArray] = []
    vtree = circuit.vtree
    for v in range(vtree.n_nodes):
        place = int(vtree.node_var[v])
        if place != NONE:
            p = (
                np.exp(circuit.leaf_table(place)[:, :, 0])
                @ (known.weights(place) * weight[place]).T
            )
            total = np.exp(values[v][:, :, 0])
            own = p[:, codes[:, place]] / np.where(total > 0.0, total, 1.0)
            found.append(own)
            continue
        edges, first = edges_at(circuit, v)
        below = np.zeros(1)
        for child, side in (
            (circuit.edge_left, vtree.node_left),
            (circuit.edge_right, vtree.node_right),
        ):
            at = int(side[v])
            below = below + found[at][child[edges] - first_node(circuit, at)]
        terms = edge_shares(circuit, v, values)[:, :, 0] * below
        found.append(np.add.reduceat(terms, first, axis=0))
    return found


def _highest_without(circuit: Circuit, inside: Sequence[int], outside: AnyArray) -> int | None:
    """The highest vtree node over all columns of `inside` and none of `outside`."""
    vtree = circuit.vtree
    first, last = vtree.node_span
    place = first[vtree.var_leaf]
    v = int(vtree.var_leaf[inside[0]]) if len(inside) else int(vtree.var_leaf[0])
    best = None
    while v != NONE:
        holds = (first[v] <= place) & (place < last[v])
        if holds[outside].any():
            break
        if holds[list(inside)].all():
            best = v
        v = int(vtree.node_parent[v])
    return best
