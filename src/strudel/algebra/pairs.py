"""The pairs of nodes, one of each circuit, that a product of two circuits meets.

In:  two circuits in normal form on one vtree.
Out: `Pairs`, laid out like a circuit: one sum per pair of nodes, one edge per pair of edges.

Two sums at one vtree node multiply to the sum over all pairs of their edges, and two products to
the product of their left children times that of their right children. Only pairs that both circuits
can reach together, by edges of positive weight, with some row that satisfies both, become edges.
The search goes depth first from the two roots and looks at the right side of two products only
once the left side was found possible. It meets no pair of nodes twice; most pairs that exclude each
other are known to by what they need (`circuits/determinism.py`) and are not met at all.

Nothing here depends on parameters, but for which are zero: circuits with several columns of them
share one `Pairs`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strudel._numba import kernel
from strudel._types import NONE, AnyArray, IntArray, WordArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.determinism import find_needs
from strudel.circuits.scopes import BoolArray

MAX_PAIRS = 2**25  # about 1 GB
DEAD = -2  # of a pair of nodes: no row satisfies both
START = 2**12  # pairs there is room for at first


class Pairs(NamedTuple):
    """The product of two circuits without its parameters, laid out like a circuit.

    Literals are the nodes below `2 * n_vars`, as ever; the pairs follow, children first. The last
    is the pair of the roots. There are no pairs at all if no row is possible under both circuits.
    """

    pair_p: IntArray  # (n_pairs,) node of p
    pair_q: IntArray  # (n_pairs,) node of q
    node_edges: IntArray  # (2 * n_vars + n_pairs + 1,) as in a circuit
    edge_left: IntArray  # (n_edges,)
    edge_right: IntArray  # (n_edges,) NONE at a vtree leaf
    edge_p: IntArray  # (n_edges,) edge of p; p.n_edges, with weight 1, where p has a bare literal
    edge_q: IntArray  # (n_edges,) the same in q


class _Side(NamedTuple):
    """What the search needs of one circuit."""

    node_edges: IntArray
    edge_left: IntArray
    edge_right: IntArray
    edge_is_possible: BoolArray  # (n_edges,)
    node_one: WordArray  # see `determinism`
    node_zero: WordArray
    node_from: IntArray
    node_to: IntArray


def find_pairs(p: Circuit, q: Circuit, query: str, max_pairs: int = MAX_PAIRS) -> Pairs:
    """The pairs that the product of two circuits meets.

    Examples
    --------
    >>> from strudel import figure_1_circuit
    >>> pairs = find_pairs(figure_1_circuit(), figure_1_circuit(), "multiply")
    >>> len(pairs.pair_p)  # 9 sums and 4 bare literals, each with itself only
    13
    """
    pair_p, pair_q, last_edge, edges, is_complete = _find_pairs(
        _side(p), _side(q), 2 * p.n_vars, p.vtree.depth, max_pairs
    )
    if not is_complete:
        raise ValueError(
            f"{query} meets more than max_pairs = {max_pairs} pairs, of nodes or of edges, of "
            f"circuits with {p.n_edges} and {q.n_edges} edges. Allow more with max_pairs; a pair "
            "takes about 40 bytes."
        )
    node_edges = np.concatenate([np.zeros(2 * p.n_vars + 1, dtype=np.int32), last_edge])
    return Pairs(pair_p, pair_q, node_edges, *np.ascontiguousarray(edges.T))


def _side(circuit: Circuit) -> _Side:
    follows = np.ones(circuit.n_nodes, dtype=np.bool_)  # in normal form all products do
    return _Side(
        circuit.node_edges,
        circuit.edge_left,
        circuit.edge_right,
        circuit.edge_log_theta > -np.inf,
        *find_needs(circuit, circuit.node_vtree, follows),
    )


@kernel
def _find_pairs(
    p: _Side, q: _Side, n_literals: int, vtree_depth: int, max_pairs: int
) -> tuple[IntArray, IntArray, IntArray, IntArray, bool]:
    """The nodes of the pairs, where the edges of each end, the edges, and whether that is all.

    A frame is a pair whose edges are being found: its two nodes, the two edges it has come to, and
    where its own edges start among those of all open frames. Frames are closed from the top, so
    the edges of a pair end up side by side, after those of all pairs below it.
    """
    keys = np.zeros(4 * START, dtype=np.int64)  # the pairs met; zero is a free place
    numbers = np.empty(4 * START, dtype=np.int32)  # of each, its node in the product, or DEAD
    n_keys = 0
    pairs = np.empty((START, 3), dtype=np.int32)  # node of p, node of q, end of the edges
    n_pairs = 0
    edges = np.empty((START, 4), dtype=np.int32)  # left, right, edge of p, edge of q
    n_edges = 0
    open_edges = np.empty((START, 4), dtype=np.int32)
    n_open = 0
    frames = np.empty((vtree_depth + 1, 5), dtype=np.int64)
    _open_frame(frames[0], len(p.node_edges) - 2, len(q.node_edges) - 2, p, q, 0)
    depth = 0
    number = DEAD
    while depth >= 0:
        if max(n_open + n_edges, n_keys) > max_pairs:
            return pairs[:0, 0], pairs[:0, 1], pairs[:0, 2], edges[:0], False
        frame = frames[depth]
        n, m, start = frame[0], frame[1], frame[4]
        if _is_leaf(n, p, n_literals):
            open_edges, n_open = _join_leaves(n, m, p, q, n_literals, open_edges, n_open)
        else:
            open_edges, n_open, below_n, below_m = _join_edges(
                frame, p, q, keys, numbers, open_edges, n_open
            )
            if below_n != NONE:
                depth += 1
                _open_frame(frames[depth], below_n, below_m, p, q, n_open)
                continue

        number = DEAD
        if n_open > start:
            number = n_literals + n_pairs
            if n_edges + n_open - start > len(edges):
                edges = _longer(edges, n_edges + n_open - start)
            edges[n_edges : n_edges + n_open - start] = open_edges[start:n_open]
            n_edges += n_open - start
            n_open = start
            if n_pairs == len(pairs):
                pairs = _longer(pairs, n_pairs + 1)
            pairs[n_pairs, 0], pairs[n_pairs, 1], pairs[n_pairs, 2] = n, m, n_edges
            n_pairs += 1
        if 2 * n_keys >= len(keys):
            keys, numbers = _rehash(keys, numbers)
        slot = _slot(n, m, keys)
        keys[slot], numbers[slot] = _key(n, m), number
        n_keys += 1
        depth -= 1
    if number == DEAD:  # the pair of the roots, which comes last
        n_pairs = n_edges = 0
    return pairs[:n_pairs, 0], pairs[:n_pairs, 1], pairs[:n_pairs, 2], edges[:n_edges], True


@kernel
def _open_frame(frame: AnyArray, n: int, m: int, p: _Side, q: _Side, n_open: int) -> None:
    """Start with the first edges of a pair of nodes."""
    frame[0], frame[1] = n, m
    frame[2], frame[3] = p.node_edges[n], q.node_edges[m]
    frame[4] = n_open


@kernel
def _join_edges(
    frame: AnyArray,
    p: _Side,
    q: _Side,
    keys: AnyArray,
    numbers: IntArray,
    open_edges: IntArray,
    n_open: int,
) -> tuple[IntArray, int, int, int]:
    """Go on with a frame until it is done, or until a pair of nodes below must be known first.

    Returns the edges found, and that pair, or NONE twice.
    """
    n, m, e, f = frame[0], frame[1], frame[2], frame[3]
    while e < p.node_edges[n + 1]:
        l_n, r_n = p.edge_left[e], p.edge_right[e]
        while p.edge_is_possible[e] and f < q.node_edges[m + 1]:
            l_m, r_m = q.edge_left[f], q.edge_right[f]
            if (
                q.edge_is_possible[f]
                and not _exclude(l_n, l_m, p, q)
                and not _exclude(r_n, r_m, p, q)
            ):
                frame[2], frame[3] = e, f  # where to come back to
                left = _number(l_n, l_m, keys, numbers)
                if left == NONE:
                    return open_edges, n_open, l_n, l_m
                if left != DEAD:
                    right = _number(r_n, r_m, keys, numbers)
                    if right == NONE:
                        return open_edges, n_open, r_n, r_m
                    if right != DEAD:
                        open_edges = _with_room(open_edges, n_open)
                        _write(open_edges[n_open], left, right, e, f)
                        n_open += 1
            f += 1
        e += 1
        f = q.node_edges[m]
    return open_edges, n_open, NONE, NONE


@kernel
def _join_leaves(
    n: int, m: int, p: _Side, q: _Side, n_literals: int, open_edges: IntArray, n_open: int
) -> tuple[IntArray, int]:
    """Join the edges of two nodes at a vtree leaf that lead to the same literal."""
    for i in range(max(p.node_edges[n + 1] - p.node_edges[n], 1)):
        e, literal = _way(n, i, p, n_literals)
        for j in range(max(q.node_edges[m + 1] - q.node_edges[m], 1)):
            f, other = _way(m, j, q, n_literals)
            if literal == other and literal != NONE:
                open_edges = _with_room(open_edges, n_open)
                _write(open_edges[n_open], literal, NONE, e, f)
                n_open += 1
    return open_edges, n_open


@kernel
def _way(n: int, i: int, side: _Side, n_literals: int) -> tuple[int, int]:
    """Edge i of a node at a vtree leaf, and its literal, NONE if it has weight zero."""
    if n < n_literals:
        return len(side.edge_left), n
    e = side.node_edges[n] + i
    return e, side.edge_left[e] if side.edge_is_possible[e] else NONE


@kernel
def _is_leaf(n: int, side: _Side, n_literals: int) -> bool:
    """Whether a node lies at a vtree leaf."""
    return bool(n < n_literals or side.edge_right[side.node_edges[n]] == NONE)


@kernel
def _exclude(n: int, m: int, p: _Side, q: _Side) -> bool:
    """Whether one node needs a variable to be 1 and the other needs it to be 0."""
    for w in range(p.node_from[n], p.node_to[n]):
        if (p.node_one[n, w] & q.node_zero[m, w]) | (p.node_zero[n, w] & q.node_one[m, w]):
            return True
    return False


# Lists that grow


@kernel
def _write(row: IntArray, left: int, right: int, e: int, f: int) -> None:
    row[0], row[1], row[2], row[3] = left, right, e, f


@kernel
def _with_room(rows: IntArray, n_used: int) -> IntArray:
    """The same rows, or longer ones if all are used."""
    return rows if n_used < len(rows) else _longer(rows, n_used + 1)


@kernel
def _longer(rows: IntArray, n_rows: int) -> IntArray:
    """The same rows with room for at least `n_rows`."""
    more = np.empty((max(n_rows, 2 * len(rows)), rows.shape[1]), dtype=np.int32)
    more[: len(rows)] = rows
    return more


# A table from pairs of nodes to numbers


@kernel
def _number(n: int, m: int, keys: AnyArray, numbers: IntArray) -> int:
    """The product's node for a pair, DEAD if it has none, or NONE if the pair was not met yet."""
    slot = _slot(n, m, keys)
    return numbers[slot] if keys[slot] != 0 else NONE


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


@kernel
def _rehash(keys: AnyArray, numbers: IntArray) -> tuple[AnyArray, IntArray]:
    """The same table with four times the room."""
    more_keys = np.zeros(4 * len(keys), dtype=np.int64)
    more_numbers = np.empty(4 * len(keys), dtype=np.int32)
    for old in range(len(keys)):
        if keys[old] != 0:
            pair = keys[old] - 1
            slot = _slot(pair >> 31, pair & (2**31 - 1), more_keys)
            more_keys[slot], more_numbers[slot] = keys[old], numbers[old]
    return more_keys, more_numbers
