"""The search for a row that satisfies two nodes at once.

In:  a `BitCircuit` placed in its vtree (`Tops`), and what its nodes need.
Out: two edges of one sum that some row satisfies, and such a row.

Where products follow the vtree, two products hold together exactly if their left sides do and
their right sides do, and two sums if some edge of the one and some edge of the other do. Answers
for pairs are remembered, so the search meets no pair twice.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from strudel._numba import kernel
from strudel._types import NONE, IntArray, WordArray
from strudel.learning.bits.circuit import BitCircuit
from strudel.learning.bits.scopes import Tops

LongArray: TypeAlias = NDArray[np.int64]

MEMORY = 2**22  # pairs remembered, 8 bytes each; pages that are not used cost nothing
N_PROBES = 16


class PairSearch:
    """Questions about two products of one circuit, which share their memory."""

    def __init__(
        self, circuit: BitCircuit, tops: Tops, node_one: WordArray, node_zero: WordArray
    ) -> None:
        self._circuit = circuit
        self._items = _make_items(circuit, tops, node_one, node_zero)

    def first_overlap(self, nodes: LongArray) -> tuple[int, int] | None:
        """The first two edges of one of these sums that some row satisfies."""
        e, f = _first_overlap(self._circuit.node_edges, nodes, self._items)
        return None if e == NONE else (e, f)

    def example(self, e: int, f: int) -> dict[int, int]:
        """Values for the variables below two edges that satisfy both."""
        items, n_nodes = self._items, self._circuit.n_nodes
        row: dict[int, int] = {}
        todo: list[tuple[int, ...]] = [(n_nodes + e, n_nodes + f)]
        while todo:
            question = tuple(dict.fromkeys(todo.pop()))
            if len(question) == 1:  # any way will do
                p = int(items.item_first[question[0]])
                if p < n_nodes:
                    row[p // 2] = p % 2
                todo += [(child,) for child in _children(items, p)]
                continue
            a, b = question
            _, way = _hold_together(a, b, items)
            way_a, way_b = divmod(way, int(items.item_last[b] - items.item_first[b]))
            p, q = int(items.item_first[a]) + way_a, int(items.item_first[b]) + way_b
            n_sides, *sides = (int(item) for item in _sides(p, q, items))
            todo += [(sides[0], sides[1]), (sides[2], sides[3])][:n_sides]
            # A child that has no counterpart on the other side is on its own.
            for item in {p, q}.difference(sides):
                todo += [
                    (child,) for child in _children(items, item) or [item] if child not in sides
                ]
        return row


def _children(items: _Items, p: int) -> list[int]:
    """The children of a product; none for a literal."""
    children = [int(items.item_left[p]), int(items.item_right[p])]
    return [child for child in children if child != NONE]


class _Items(NamedTuple):
    """Nodes and products in one numbering: n is node n, `n_nodes + e` is the product of edge e.

    A sum holds in one of several ways, each the product of an edge; other items hold in one way,
    themselves. Products have their children in vtree order, however the circuit has them.
    """

    item_first: LongArray  # (n_items,) first way to hold
    item_last: LongArray  # (n_items,) last way, plus one
    item_left: LongArray  # (n_items,) child of a product, NONE at a node
    item_right: LongArray  # (n_items,) other child, NONE if there is one only
    item_from: LongArray  # (n_items,) place of the first variable below the item's vtree node
    item_middle: LongArray  # (n_items,) place of the first variable on the right of it
    item_to: LongArray  # (n_items,) place of the last variable below it, plus one
    node_one: WordArray  # see `determinism`
    node_zero: WordArray
    memory: LongArray  # earlier answers, see `_slot`; when full, new ones replace old ones
    stack: LongArray  # (depth, 4) open questions: two items, the way, the side


def _make_items(
    circuit: BitCircuit, tops: Tops, node_one: WordArray, node_zero: WordArray
) -> _Items:
    """Number the nodes and products, and make room for the search."""
    vtree, n_nodes = circuit.vtree, circuit.n_nodes
    first, last = (place.astype(np.int64) for place in vtree.node_span)
    top = np.concatenate([tops.node_top, tops.edge_top])
    item_first = np.arange(n_nodes + circuit.n_edges)
    item_last = item_first + 1
    is_sum = np.diff(circuit.node_edges) > 0
    item_first[:n_nodes][is_sum] = n_nodes + circuit.node_edges[:-1][is_sum]
    item_last[:n_nodes][is_sum] = n_nodes + circuit.node_edges[1:][is_sum]
    left, right = circuit.edge_left.astype(np.int64), circuit.edge_right.astype(np.int64)
    is_turned = (right != NONE) & (first[tops.node_top[right]] < first[tops.node_top[left]])
    no_child = np.full(n_nodes, NONE)
    return _Items(
        item_first,
        item_last,
        item_left=np.concatenate([no_child, np.where(is_turned, right, left)]),
        item_right=np.concatenate([no_child, np.where(is_turned, left, right)]),
        item_from=first[top],
        item_middle=first[vtree.node_right[top]],  # means nothing at a leaf
        item_to=last[top],
        node_one=node_one,
        node_zero=node_zero,
        memory=np.zeros(MEMORY, dtype=np.int64),
        # A question leads to one about an item below: sum, product, sum, ... on either side.
        stack=np.empty((4 * (n_nodes - 2 * circuit.n_vars) + 4, 4), dtype=np.int64),
    )


@kernel
def _first_overlap(node_edges: IntArray, nodes: LongArray, items: _Items) -> tuple[int, int]:
    """The first two edges of one of the `nodes` that hold together, or NONE twice."""
    n_nodes = len(items.node_one)
    for n in nodes:
        for e in range(node_edges[n], node_edges[n + 1]):
            for f in range(e + 1, node_edges[n + 1]):
                holds, _ = _hold_together(n_nodes + e, n_nodes + f, items)
                if holds:
                    return e, f
    return NONE, NONE


@kernel
def _hold_together(a: int, b: int, items: _Items) -> tuple[bool, int]:
    """Whether some row satisfies both items, and in which pair of their ways.

    Depth first with a stack of our own. If `b` has k ways, pair `i` is way `i // k` of `a` with way
    `i % k` of `b`.
    """
    item_first, item_last, _, _, _, _, _, _, _, memory, stack = items
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = a, b, 0, 0
    depth = 0
    answer = NONE  # to the question just closed
    way = 0
    while depth >= 0:
        x, y, way, side = stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3]
        if answer == 1:
            side += 1
        elif answer == 0:
            way += 1
            side = 0
        answer = NONE
        y_ways = item_last[y] - item_first[y]
        n_ways = (item_last[x] - item_first[x]) * y_ways
        is_open = False
        while way < n_ways and answer == NONE and not is_open:
            p, q = item_first[x] + way // y_ways, item_first[y] + way % y_ways
            n_sides, p_0, q_0, p_1, q_1 = _sides(p, q, items)
            known = 1
            while side < n_sides and known == 1:
                p, q = (p_0, q_0) if side == 0 else (p_1, q_1)
                known = _look_up(p, q, items)
                if known == 1:
                    side += 1
                elif known == NONE:
                    is_open = True
                    stack[depth, 2], stack[depth, 3] = way, side
                    depth += 1
                    stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = p, q, 0, 0
            if known == 1:
                answer = 1
            elif known == 0:
                way += 1
                side = 0
        if not is_open:
            if answer == NONE:
                answer = 0
            memory[_slot(x, y, memory)] = 2 * _key(x, y) + answer
            depth -= 1
    return answer == 1, way


@kernel
def _sides(p: int, q: int, items: _Items) -> tuple[int, int, int, int, int]:
    """The pairs of items that must hold together for `p` and `q` to, products or literals.

    Gives their number, 0 to 2, then the pairs.
    """
    _, _, item_left, item_right, item_from, item_middle, item_to, _, _, _, _ = items
    if item_left[p] != NONE and item_right[p] == NONE:
        return 1, item_left[p], q, NONE, NONE
    if item_left[q] != NONE and item_right[q] == NONE:
        return 1, p, item_left[q], NONE, NONE
    if item_from[p] == item_from[q] and item_to[p] == item_to[q]:
        return 2, item_left[p], item_left[q], item_right[p], item_right[q]
    if item_from[p] <= item_from[q] and item_to[q] <= item_to[p]:  # q lies on one side of p
        is_right = item_from[q] >= item_middle[p]
        return 1, item_right[p] if is_right else item_left[p], q, NONE, NONE
    if item_from[q] <= item_from[p] and item_to[p] <= item_to[q]:
        is_right = item_from[p] >= item_middle[q]
        return 1, p, item_right[q] if is_right else item_left[q], NONE, NONE
    return 0, NONE, NONE, NONE, NONE


@kernel
def _look_up(a: int, b: int, items: _Items) -> int:
    """1 or 0 if it is easy to see, or remembered, whether the items hold together; else NONE."""
    _, _, _, _, item_from, _, item_to, node_one, node_zero, memory, _ = items
    first, last = max(item_from[a], item_from[b]), min(item_to[a], item_to[b])
    if a == b or first >= last:  # nothing but themselves can stand in their way
        return 1
    entry = memory[_slot(a, b, memory)]
    if entry // 2 == _key(a, b):
        return int(entry % 2)
    if a < len(node_one) and b < len(node_one):
        for w in range(first // 64, (last + 63) // 64):
            if (node_one[a, w] & node_zero[b, w]) | (node_zero[a, w] & node_one[b, w]):
                return 0
    return NONE


@kernel
def _key(a: int, b: int) -> int:
    """A number above zero for two items, in either order."""
    return (min(a, b) << 31) + max(a, b)


@kernel
def _slot(a: int, b: int, memory: LongArray) -> int:
    """Where the memory keeps, or should keep, the answer for two items: `2 * key + answer`."""
    key = _key(a, b)
    # Items are below 2**31 and the factors below 2**32: no product leaves int64.
    mixed = (min(a, b) * 2654435761) ^ (max(a, b) * 1597334677)
    start = mixed ^ (mixed >> 23)
    for i in range(N_PROBES):
        slot = (start + i) & (len(memory) - 1)
        if memory[slot] == 0 or memory[slot] // 2 == key:
            return slot
    return start & (len(memory) - 1)
