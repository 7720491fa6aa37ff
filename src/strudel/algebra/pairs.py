"""The pairs of nodes, one of each circuit, that a product of two circuits meets.

In:  two circuits in normal form on one vtree.
Out: `Pairs`, laid out like a circuit: one sum per pair of nodes, one edge per pair of edges.

Two sums at one vtree node multiply to the sum over all pairs of their edges, and two products to
the product of their left children times that of their right children. Only pairs that both circuits
can reach together, by edges of positive weight, with some row that satisfies both, become edges.
The search goes depth first from the two roots and looks at the right side of two products only
once the left side was found possible. It meets no pair of nodes twice; most pairs that exclude each
other are ruled out by what they need (`circuits/determinism.py`) and are not met at all.

Nothing here depends on parameters, except which are zero: circuits with several columns of them
share one `Pairs`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strudel._memory import SECONDS_VARIABLE, allowed_seconds
from strudel._numba import kernel
from strudel._types import NONE, AnyArray, IntArray, WordArray
from strudel.circuits.circuit import Circuit, Edges
from strudel.circuits.determinism import find_needs
from strudel.circuits.scopes import BoolArray
from strudel.errors import SizeLimitError, in_the_middle

MAX_PAIRS = 2**24  # about 1 GB
# Pairs of edges compared, 1.8e8 a second on one core; counted, so that every machine stops alike.
STEPS_PER_SECOND = 2**27
DEAD = -2  # of a pair of nodes: no row satisfies both
TOO_LONG = -2  # instead of a number of pairs


class Pairs(NamedTuple):
    """The product of two circuits without its parameters, laid out like a circuit.

    The literals come first, as in a circuit; the pairs follow, children first. The last is the pair
    of the roots. There are no pairs at all if no row is possible under both circuits.
    """

    pair_p: IntArray  # (n_pairs,) node of p
    pair_q: IntArray  # (n_pairs,) node of q
    edges: Edges  # of the literals and the pairs, as in a circuit
    edge_p: IntArray  # (n_edges,) edge of p; p.n_edges, with weight 1, where p has a bare literal
    edge_q: IntArray  # (n_edges,) the same in q


class _Side(NamedTuple):
    """What the search needs of one circuit."""

    edges: Edges
    edge_is_possible: BoolArray  # (n_edges,)
    edge_one: WordArray  # (n_edges, n_words) variables that must be 1 for its product to hold
    edge_zero: WordArray  # (n_edges, n_words) variables that must be 0
    node_from: IntArray  # (n_nodes,) first word with a variable of the node
    node_to: IntArray  # (n_nodes,) last such word, plus one


def find_pairs(p: Circuit, q: Circuit, query: str, max_pairs: int = MAX_PAIRS) -> Pairs:
    """The pairs that the product of two circuits meets."""
    sides = _side(p), _side(q)
    frames = np.full((p.vtree.depth + 1, 5), NONE, dtype=np.int64)
    max_steps = int(allowed_seconds() * STEPS_PER_SECOND)
    room = min(p.n_edges + q.n_edges + 2, max_pairs)  # enough for learned circuits
    while True:
        keys = np.zeros(2 ** (3 * room // 2).bit_length(), dtype=np.int64)
        numbers = np.empty(len(keys), dtype=np.int32)
        pairs = np.empty((3, room), dtype=np.int32)
        edges, open_edges = np.empty((2, 4, room), dtype=np.int32)
        n_pairs, n_edges = _find_pairs(
            *sides, 2 * p.n_vars, max_steps, frames, keys, numbers, open_edges, pairs, edges
        )
        if n_pairs >= 0:
            break
        if n_pairs == TOO_LONG or room == max_pairs:
            raise _limit_reached(p, q, query, max_pairs, n_pairs == TOO_LONG, frames, keys)
        room = min(4 * room, max_pairs)  # starting again costs at most a third
    pair_p, pair_q, last_edge = pairs[:, :n_pairs]
    node_edges = np.concatenate([np.zeros(2 * p.n_vars + 1, dtype=np.int32), last_edge])
    left, right, edge_p, edge_q = edges[:, :n_edges]
    return Pairs(pair_p, pair_q, Edges(node_edges, left, right), edge_p, edge_q)


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
    n, m = np.concatenate([_nodes_of(keys[keys > 0]), frames[frames[:, 0] != NONE, :2]]).T
    weight = np.diff(p.node_edges)[n] * np.diff(q.node_edges)[m].astype(float)
    v = int(np.bincount(p.node_vtree[n], weight).argmax())
    first, last = (int(span[v]) for span in p.vtree.node_span)
    part = tuple(int(var) for var in p.vtree.order[first:last])
    names = [p.feature_names[var] if p.feature_names else f"x{var}" for var in part]
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


def _side(circuit: Circuit) -> _Side:
    needs = find_needs(circuit)
    left, right = circuit.edge_left, circuit.edge_right  # NONE, at a leaf, is not asked about
    return _Side(
        circuit.edges,
        circuit.edge_log_theta > -np.inf,
        needs.node_one[left] | needs.node_one[right],
        needs.node_zero[left] | needs.node_zero[right],
        needs.node_from,
        needs.node_to,
    )


@kernel
def _find_pairs(
    p: _Side,
    q: _Side,
    n_literals: int,
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
    handed on or replaced within a loop: nltcs and its 200-split prefix take 0.4 ms, against 0.9
    with lists that grow and 2.4 with shorter functions.
    """
    (p_edges, p_left, p_right), p_is_possible, p_one, p_zero, node_from, node_to = p
    (q_edges, q_left, q_right), q_is_possible, q_one, q_zero, _, _ = q
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

        if n < n_literals or p_right[e] == NONE:  # at a vtree leaf: join equal literals
            for i in range(max(last_e - e, 1)):
                for j in range(max(last_f - f, 1)):
                    # A bare literal is its own and only edge.
                    e_here = e + i if n >= n_literals else len(p_left)
                    f_here = f + j if m >= n_literals else len(q_left)
                    literal = p_left[e_here] if n >= n_literals else n
                    other = q_left[f_here] if m >= n_literals else m
                    if (
                        literal == other
                        and (n < n_literals or p_is_possible[e_here])
                        and (m < n_literals or q_is_possible[f_here])
                    ):
                        if n_open + n_edges == room:
                            return NONE, NONE
                        open_edges[0, n_open], open_edges[1, n_open] = literal, NONE
                        open_edges[2, n_open], open_edges[3, n_open] = e_here, f_here
                        n_open += 1
        else:
            while e < last_e and below_n == NONE:
                first_f = f
                while f < last_f and p_is_possible[e]:
                    is_excluded = not q_is_possible[f]
                    for w in range(node_from[n], node_to[n]):
                        if (p_one[e, w] & q_zero[f, w]) | (p_zero[e, w] & q_one[f, w]):
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
        if n_open > start:
            for g in range(start, n_open):
                for column in range(4):
                    edges[column, n_edges] = open_edges[column, g]
                n_edges += 1
            n_open = start
            pairs[0, n_pairs], pairs[1, n_pairs], pairs[2, n_pairs] = n, m, n_edges
            number = n_literals + n_pairs
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
