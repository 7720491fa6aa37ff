"""Products of circuits over the same cells and on one vtree: one walk over the pairs of nodes.

In:  two `Circuit`s on one vtree, whose columns have the same cells.
Out: `Pairs`: the nodes, edges and cells of the product, which is not normalised (`product`).

A node of the product is a pair of nodes at the same vtree node, an edge a pair of edges, and a cell
of a leaf one cell of both. Only pairs that both circuits can reach together, by edges of positive
weight, with some cells that satisfy both, become edges. The search goes depth first from the two
roots, and looks at the right side of two products only once the left side was found possible. It
meets no pair of nodes twice; most pairs that exclude each other are told by a column whose cells
they have none in common, and are not met at all.

Nothing here depends on parameters, except which are zero: all components share one `Pairs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from strudel._memory import SECONDS_VARIABLE, allowed_seconds
from strudel._numba import kernel
from strudel._types import NONE, AnyArray, ByteArray, FloatArray, IntArray, WordArray
from strudel.circuits.circuit import Circuit, starts
from strudel.circuits.properties import as_deterministic_as
from strudel.circuits.reweigh import log_shares
from strudel.circuits.walks import log_sums
from strudel.errors import SizeLimitError, in_the_middle

MAX_PAIRS = 2**24  # of nodes, and of edges: about 1 GB
MAX_PARAMETERS = 2**27  # of a product of several components: 1 GB
# Pairs of edges compared, 1.8e8 a second on one core; counted, so that every machine stops alike.
STEPS_PER_SECOND = 2**27
DEAD = -2  # of a pair of nodes: no row satisfies both
TOO_LONG = -2  # instead of a number of pairs
WORD = 64


def product(p: Circuit, q: Circuit, max_pairs: int = MAX_PAIRS, query: str = "multiply") -> Circuit:
    """The product of two circuits on one vtree; every component of one with every one of the other.

    It is not normalised. Shares of known values are those of `p`.
    """
    return Pairs(p, q, max_pairs, query).product(p, q)


class Pairs:
    """The pairs of nodes, of edges and of cells that the product of two circuits has.

    Children come before parents, and the roots last. There are none if no row is possible under
    both circuits.
    """

    def __init__(
        self,
        p: Circuit,
        q: Circuit,
        max_pairs: int = MAX_PAIRS,
        query: str = "multiply",
    ) -> None:
        self.p, self.q = p, q
        (self.node_p, node_q, last_edge), edges = _found(p, q, max_pairs, query)
        self.node_edges = np.concatenate([np.zeros(1, dtype=np.int32), last_edge])
        self.edge_left, self.edge_right, self.edge_p, self.edge_q = edges
        self.leaves = np.flatnonzero(self.node_p < p.n_leaves)
        leaf_p, leaf_q = self.node_p[self.leaves], node_q[self.leaves]
        width = np.diff(p.leaf_first)[leaf_p]
        # (n_leaves + 1,) where the cells of each leaf begin
        self.leaf_first = np.concatenate([[0], np.cumsum(width)]).astype(np.int32)
        cell = np.arange(self.leaf_first[-1], dtype=np.int32)
        self.cell_p = cell + np.repeat(p.leaf_first[leaf_p] - self.leaf_first[:-1], width)
        self.cell_q = cell + np.repeat(q.leaf_first[leaf_q] - self.leaf_first[:-1], width)

    def __len__(self) -> int:
        """Number of pairs of nodes."""
        return len(self.node_p)

    @cached_property
    def is_common(self) -> AnyArray:
        """Whether each cell is possible in some component of both."""
        both: AnyArray = _side(self.p).is_cell[self.cell_p] & _side(self.q).is_cell[self.cell_q]
        return both.astype(bool)

    def product(self, p: Circuit, q: Circuit) -> Circuit:
        """The product, not normalised, of the two circuits or of others with the same zeros."""
        k_p, k_q = p.n_components, q.n_components
        n_each = len(self.edge_p) + len(self.cell_p)
        if k_p * k_q * n_each > MAX_PARAMETERS:
            raise SizeLimitError(
                f"A product of {k_p} and {k_q} components has {k_p * k_q} of them with {n_each} "
                f"edges and cells each, more than {MAX_PARAMETERS} parameters in all.",
                "Multiply fewer components.",
                part="components",
            )
        own, other = np.repeat(np.arange(k_p), k_q), np.tile(np.arange(k_q), k_p)
        made = self.circuit(
            p.leaf_log_p[self.cell_p][:, own] + q.leaf_log_p[self.cell_q][:, other],
            p.edge_log_theta[self.edge_p][:, own] + q.edge_log_theta[self.edge_q][:, other],
            p.log_weight[own] + q.log_weight[other],
            p.log_total + q.log_total,
            None if p.known is None else p.known[self.cell_p][:, own],
        )
        return as_deterministic_as(made, p, q)

    def log_values(self, edge_logs: FloatArray, cell_logs: FloatArray) -> FloatArray:
        """What the pairs of nodes add up to with weights of edges and cells, `(n_pairs, k)`."""
        value = np.empty((len(self), edge_logs.shape[1]))
        value[self.leaves] = log_sums(cell_logs, self.leaf_first[:-1])
        _fill_logs(self.node_edges, self.edge_left, self.edge_right, edge_logs, value)
        return value

    def normalized(
        self, edge_logs: FloatArray, cell_logs: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Weights of edges and cells with which every sum and leaf adds up to one."""
        value = self.log_values(edge_logs, cell_logs)
        terms = edge_logs + value[self.edge_left] + value[self.edge_right]
        leaf_totals = np.repeat(value[self.leaves], np.diff(self.leaf_first), axis=0)
        edge_totals = np.repeat(value, np.diff(self.node_edges), axis=0)
        return log_shares(terms, edge_totals), log_shares(cell_logs, leaf_totals)

    def circuit(
        self,
        cell_logs: FloatArray,
        edge_logs: FloatArray,
        log_weight: FloatArray,
        log_total: float,
        known: FloatArray | None = None,
    ) -> Circuit:
        """The circuit with these parameters, not normalised; zero everywhere without pairs."""
        p, n_leaves = self.p, len(self.leaves)
        if not len(self):
            return p.nothing()
        place, order = self._place, self._order
        number = np.empty(len(order), dtype=np.int32)
        number[order] = np.arange(len(order))
        owner = np.repeat(number - n_leaves, np.diff(self.node_edges))
        edges, cells = self.edge_order, self.cell_order
        return Circuit(
            p.columns,
            p.vtree,
            place[order[:n_leaves]],
            cell_logs[cells],
            place[order[n_leaves:]] - len(p.columns),
            starts(owner[edges], len(order) - n_leaves),
            number[self.edge_left[edges]],
            number[self.edge_right[edges]],
            edge_logs[edges],
            log_weight,
            None if known is None else known[cells],
            log_total,
        )

    @cached_property
    def _place(self) -> IntArray:
        """The column of each pair of leaves, and after all columns the vtree node of others."""
        place = len(self.p.columns) + self.p.node_vtree[self.node_p]
        place[self.leaves] = self.p.leaf_column[self.node_p[self.leaves]]
        return place

    @cached_property
    def _order(self) -> AnyArray:
        """The pairs as the circuit has them: leaves by column, then sums by vtree node."""
        return np.argsort(self._place, kind="stable")

    @cached_property
    def edge_order(self) -> AnyArray:
        """The edges as the circuit has them."""
        rank = np.empty(len(self._order), dtype=np.int64)
        rank[self._order] = np.arange(len(self._order))
        return np.argsort(np.repeat(rank, np.diff(self.node_edges)), kind="stable")

    @cached_property
    def cell_order(self) -> AnyArray:
        """The cells of leaves as the circuit has them."""
        leaf_order = np.argsort(self._place[self.leaves], kind="stable")
        width = np.diff(self.leaf_first)[leaf_order]
        ends = np.cumsum(width)
        shift = np.repeat(self.leaf_first[leaf_order] - ends + width, width)
        return np.arange(len(shift)) + shift


@kernel
def _fill_logs(
    node_edges: IntArray,
    edge_left: IntArray,
    edge_right: IntArray,
    log_theta: FloatArray,
    value: FloatArray,
) -> None:
    """Fill the log-values of the sums, given those of the leaves."""
    k = value.shape[1]
    total = np.empty(k)
    for n in range(len(value)):
        start, stop = node_edges[n], node_edges[n + 1]
        # The largest product first: one exp per product and one log per sum, none for one product.
        for e in range(start, stop):
            for c in range(k):
                log_p = log_theta[e, c] + value[edge_left[e], c] + value[edge_right[e], c]
                if e == start or log_p > value[n, c]:
                    value[n, c] = log_p
        if stop - start <= 1:
            continue
        total[:] = 0.0
        for e in range(start, stop):
            for c in range(k):
                log_p = log_theta[e, c] + value[edge_left[e], c] + value[edge_right[e], c]
                if log_p != -np.inf:
                    total[c] += np.exp(log_p - value[n, c])
        for c in range(k):
            if value[n, c] != -np.inf:
                value[n, c] += np.log(total[c])


class _Side(NamedTuple):
    """What the search needs of one circuit."""

    node_edges: IntArray  # (n_nodes + 1,); a leaf has none
    edge_left: IntArray
    edge_right: IntArray
    is_edge: ByteArray  # (n_edges,) whether its weight is positive, in some component
    edge_cells: WordArray  # (n_edges, n_words) for every column the cells that are possible
    node_from: IntArray  # (n_nodes,) first word with a column of the node
    node_to: IntArray  # (n_nodes,) last such word, plus one
    leaf_first: IntArray  # (n_leaves + 1,) where the cells of each leaf begin
    is_cell: ByteArray  # (n_leaf_cells,) whether it is possible, in some component
    low: WordArray  # (n_words,) the lowest bits of all fields
    guard: WordArray  # (n_words,) their highest bits, beyond all cells


class _Fields(NamedTuple):
    """Where the cells of every column are in words of bits; a field has a bit more, which is 0.

    Columns lie as in the vtree. Where there are more cells than bits, several share one.
    """

    word: IntArray  # (n_columns,)
    first: IntArray  # (n_columns,) the lowest bit
    width: IntArray  # (n_columns,) bits of cells
    low: WordArray  # (n_words,) the lowest bits of all fields
    guard: WordArray  # (n_words,) their highest bits, beyond all cells


def _fields_of(circuit: Circuit) -> _Fields:
    order = circuit.vtree.order
    width = np.minimum([column.n_cells for column in circuit.columns], WORD - 1).astype(np.int32)
    word, first = np.zeros_like(width), np.zeros_like(width)
    at = bit = 0
    for place in order.tolist():
        if bit + width[place] + 1 > WORD:
            at, bit = at + 1, 0
        word[place], first[place] = at, bit
        bit += int(width[place]) + 1
    low, guard = np.zeros((2, at + 1), dtype=np.uint64)
    one = np.uint64(1)
    np.bitwise_or.at(low, word, one << first.astype(np.uint64))
    np.bitwise_or.at(guard, word, one << (first + width).astype(np.uint64))
    return _Fields(word, first, width, low, guard)


def _side(circuit: Circuit) -> _Side:
    if "_side" not in circuit.__dict__:
        circuit.__dict__["_side"] = _made_side(circuit)
    found: _Side = circuit.__dict__["_side"]
    return found


def _made_side(circuit: Circuit) -> _Side:
    fields, n_leaves, vtree = _fields_of(circuit), circuit.n_leaves, circuit.vtree
    one = np.uint64(1)
    column, n_words = circuit.leaf_column, len(fields.low)
    leaf_first = circuit.leaf_first
    node_cells = np.zeros((circuit.n_nodes, n_words), dtype=np.uint64)
    node_cells[:n_leaves] = ~np.uint64(0)
    all_cells = ((one << fields.width.astype(np.uint64)) - one) << fields.first.astype(np.uint64)
    leaf = np.arange(n_leaves)
    node_cells[leaf, fields.word[column]] &= ~all_cells[column]
    is_cell: AnyArray = np.any(circuit.leaf_log_p > -np.inf, axis=1)
    owner = np.repeat(leaf, np.diff(leaf_first))[is_cell]
    own = column[owner]
    cell = np.flatnonzero(is_cell) - leaf_first[owner]
    n_cells = np.diff(leaf_first)[owner]
    bit = fields.first[own] + cell * fields.width[own] // n_cells
    np.bitwise_or.at(node_cells, (owner, fields.word[own]), one << bit.astype(np.uint64))
    is_edge = np.any(circuit.edge_log_theta > -np.inf, axis=1).astype(np.uint8)
    edge_cells = np.zeros((circuit.n_edges, n_words), dtype=np.uint64)
    node_edges = circuit.node_edges
    _fill_cells(
        n_leaves, node_edges, circuit.edge_left, circuit.edge_right, is_edge, node_cells, edge_cells
    )
    in_order, (first, last) = fields.word[vtree.order], vtree.node_span
    return _Side(
        node_edges,
        circuit.edge_left,
        circuit.edge_right,
        is_edge,
        edge_cells,
        in_order[first][circuit.node_vtree],
        in_order[last - 1][circuit.node_vtree] + np.int32(1),
        leaf_first,
        is_cell.astype(np.uint8),
        fields.low,
        fields.guard,
    )


@kernel
def _fill_cells(
    n_leaves: int,
    node_edges: IntArray,
    edge_left: IntArray,
    edge_right: IntArray,
    is_edge: ByteArray,
    node_cells: WordArray,
    edge_cells: WordArray,
) -> None:
    """Which cells are possible in edges and sums, from those of the leaves up."""
    for n in range(n_leaves, len(node_cells)):
        for e in range(node_edges[n], node_edges[n + 1]):
            if is_edge[e]:
                for w in range(edge_cells.shape[1]):
                    cells = node_cells[edge_left[e], w] & node_cells[edge_right[e], w]
                    edge_cells[e, w] = cells
                    node_cells[n, w] |= cells


def _found(p: Circuit, q: Circuit, max_pairs: int, query: str) -> tuple[IntArray, IntArray]:
    """The pairs of nodes: that of p, that of q, and the last edge, plus one; children first.

    Of the edges: the left and the right pair, the edge of p, and that of q.
    """
    sides = _side(p), _side(q)
    frames = np.full((p.vtree.depth + 1, 5), NONE, dtype=np.int64)
    max_steps = int(allowed_seconds() * STEPS_PER_SECOND)
    room = min(p.n_edges + q.n_edges + p.n_leaves + q.n_leaves + 2, max_pairs)
    while True:
        keys = np.zeros(2 ** (3 * room // 2).bit_length(), dtype=np.int64)
        numbers = np.empty(len(keys), dtype=np.int32)
        pairs = np.empty((3, room), dtype=np.int32)
        edges, open_edges = np.empty((2, 4, room), dtype=np.int32)
        n_pairs, n_edges = _find_pairs(
            *sides,
            p.n_leaves,
            max_steps,
            frames,
            keys,
            numbers,
            open_edges,
            pairs,
            edges,
        )
        if n_pairs >= 0:
            return pairs[:, :n_pairs], edges[:, :n_edges]
        if n_pairs == TOO_LONG or room == max_pairs:
            raise _limit_reached(p, q, query, max_pairs, n_pairs == TOO_LONG, frames, keys)
        room = min(4 * room, max_pairs)  # starting again costs at most a third


def _limit_reached(
    p: Circuit,
    q: Circuit,
    query: str,
    max_pairs: int,
    is_long: bool,
    frames: AnyArray,
    keys: AnyArray,
) -> SizeLimitError:
    """The error of a search that met a limit, with the vtree node whose sums have most edges."""
    met = np.concatenate([_nodes_of(keys[keys > 0]), frames[frames[:, 0] != NONE, :2]])
    n, m = met[met[:, 0] >= p.n_leaves].T
    weight = np.diff(p.sum_edges)[n - p.n_leaves] * np.diff(q.sum_edges)[m - q.n_leaves].astype(
        float
    )
    v = int(np.bincount(p.node_vtree[n], weight).argmax())
    first, last = (int(span[v]) for span in p.vtree.node_span)
    part = tuple(int(place) for place in p.vtree.order[first:last])
    names: Sequence[str] = [p.columns.names[place] for place in part]
    limit = f"more than max_pairs = {max_pairs} pairs of nodes or edges"
    advice = "Allow more with max_pairs; a pair takes about 60 bytes."
    if is_long:
        limit = f"longer than {allowed_seconds():g} s"
        advice = f"Allow more time with {SECONDS_VARIABLE}."
    return SizeLimitError(
        f"{query} needs {limit} for circuits with {p.n_edges} and {q.n_edges} edges, most of it "
        f"for their sums over {in_the_middle(', '.join(names), 60)}.",
        advice,
        part=part,
    )


@kernel
def _find_pairs(
    p: _Side,
    q: _Side,
    n_leaves: int,
    max_steps: int,
    frames: AnyArray,
    keys: AnyArray,
    numbers: IntArray,
    open_edges: IntArray,
    pairs: IntArray,
    edges: IntArray,
) -> tuple[int, int]:
    """Fill `pairs` and `edges`; returns how many there are.

    NONE twice without enough room, TOO_LONG twice after `max_steps` comparisons of two edges.

    A frame is a pair whose edges are being found: its two nodes, the two edges it has come to, and
    where its own edges start among those of all open frames. Frames are closed from the top, so
    the edges of a pair end up side by side, after those of all pairs below it. `keys` and `numbers`
    are a table of the pairs met: zero is a free place.

    One function, and no list that grows, because the compiler counts references to arrays that are
    handed on or replaced within a loop: that takes twice as long, and shorter functions five times.
    """
    (
        p_edges,
        p_left,
        p_right,
        p_is_edge,
        p_cells,
        node_from,
        node_to,
        p_first,
        p_is_cell,
        low,
        guard,
    ) = p
    q_edges, q_left, q_right, q_is_edge, q_cells, _, _, q_first, q_is_cell, _, _ = q
    room = pairs.shape[1]
    n_keys = n_pairs = n_edges = n_open = n_steps = 0
    below_n, below_m = len(p_edges) - 2, len(q_edges) - 2  # the pair to open next
    depth = -1
    number = DEAD
    while depth >= 0 or below_n != NONE:
        if below_n != NONE:
            depth += 1
            frames[depth, 0], frames[depth, 1] = below_n, below_m
            frames[depth, 2], frames[depth, 3] = p_edges[below_n], q_edges[below_m]
            frames[depth, 4] = n_open
            below_n = NONE
        n, m, e, f = frames[depth, 0], frames[depth, 1], frames[depth, 2], frames[depth, 3]
        last_e, last_f = p_edges[n + 1], q_edges[m + 1]
        is_possible = False
        if n < n_leaves:
            shift = q_first[m] - p_first[n]
            for cell in range(p_first[n], p_first[n + 1]):
                if p_is_cell[cell] and q_is_cell[cell + shift]:
                    is_possible = True
                    break
        else:
            while e < last_e and below_n == NONE:
                first_f = f
                while f < last_f and p_is_edge[e]:
                    is_excluded = not q_is_edge[f]
                    for w in range(node_from[n], node_to[n]):
                        # A field without a common cell borrows its guard, which is 0 then.
                        common = (p_cells[e, w] & q_cells[f, w]) | guard[w]
                        if (common - low[w]) & guard[w] != guard[w]:
                            is_excluded = True
                            break
                    if not is_excluded:
                        left = _number(p_left[e], q_left[f], keys, numbers)
                        if left == NONE:
                            below_n, below_m = p_left[e], q_left[f]
                            break
                        if left != DEAD:
                            right = _number(p_right[e], q_right[f], keys, numbers)
                            if right == NONE:
                                below_n, below_m = p_right[e], q_right[f]
                                break
                            if right != DEAD:
                                if n_open + n_edges == room:
                                    return NONE, NONE
                                open_edges[0, n_open], open_edges[1, n_open] = left, right
                                open_edges[2, n_open], open_edges[3, n_open] = e, f
                                n_open += 1
                    f += 1
                n_steps += 1 + f - first_f
                if n_steps > max_steps:
                    return TOO_LONG, TOO_LONG
                if below_n == NONE:
                    e += 1
                    f = np.int64(q_edges[m])
            if below_n != NONE:  # come back to these two edges once it is known
                frames[depth, 2], frames[depth, 3] = e, f
                continue

        number = DEAD
        start = frames[depth, 4]
        if n_keys == room:
            return NONE, NONE
        if is_possible or n_open > start:
            for g in range(start, n_open):
                for column in range(4):
                    edges[column, n_edges] = open_edges[column, g]
                n_edges += 1
            n_open = start
            pairs[0, n_pairs], pairs[1, n_pairs], pairs[2, n_pairs] = n, m, n_edges
            number = n_pairs
            n_pairs += 1
        slot = _slot(n, m, keys)
        keys[slot], numbers[slot] = _key(n, m), number
        n_keys += 1
        depth -= 1
    return (n_pairs, n_edges) if number != DEAD else (0, 0)  # the pair of the roots comes last


# A table from pairs of nodes to numbers


@kernel
def _number(n: int, m: int, keys: AnyArray, numbers: IntArray) -> int:
    """The product's node for a pair, DEAD if it has none, or NONE if the pair was not met yet."""
    slot = _slot(n, m, keys)
    return numbers[slot] if keys[slot] != 0 else NONE


def _nodes_of(keys: AnyArray) -> AnyArray:
    """The pairs of nodes, `(n_keys, 2)`, of numbers from `_key`."""
    return np.stack([(keys - 1) >> 31, (keys - 1) & (2**31 - 1)], axis=1)


@kernel
def _key(n: int, m: int) -> int:
    """A number above zero for a pair."""
    return int((np.int64(n) << 31) + np.int64(m) + 1)


@kernel
def _slot(n: int, m: int, keys: AnyArray) -> int:
    """Where a pair is, or should be put."""
    key = _key(n, m)
    # Nodes are below 2**31 and the factors below 2**32: no product leaves int64.
    mixed = (np.int64(n) * 2654435761) ^ (np.int64(m) * 1597334677)
    slot = (mixed ^ (mixed >> 23)) & (len(keys) - 1)
    while keys[slot] != 0 and keys[slot] != key:
        slot = (slot + 1) & (len(keys) - 1)
    return int(slot)
