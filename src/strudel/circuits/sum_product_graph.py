"""Sum-product graphs: circuits as files hold them, and how they become circuits of ours.

In:  nodes one at a time, children first: literals, tables over the values of one variable, products
     of many children, sums of anything (`SumProductGraph`).
Out: a `Vtree` that all products follow (`recover_vtree`), or `GraphError`; a `Circuit` on a vtree
     (`normal_form`): products in pairs along the vtree, sums below sums taken in, one table per
     leaf, nothing else changed.

A product without children is true and a sum without children is false; only logic has them. With
`fill`, what a node does not mention is filled in with sums that any value satisfies; logic needs
that. Without, a graph that is not smooth is refused, since a missing variable has no weight.

If the variables below the factors of all products are nested or disjoint, they are nodes of a
vtree; this holds in every smooth structured-decomposable circuit. Otherwise (circuits of logic that
do not mention all variables everywhere) variables that some factor keeps together are grouped,
level by level: a product is followed if and only if no level tears one of its factors apart before
it separates them, so the groups are exactly what a level must keep.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from strudel._types import NONE
from strudel.circuits.builder import CircuitBuilder, Edge
from strudel.circuits.circuit import Circuit
from strudel.errors import GraphError
from strudel.trees.vtree import MeetingPlaces, Vtree, VtreeNodes

LITERAL: Final = 0
PRODUCT: Final = 1
SUM: Final = 2
TABLE: Final = 3
MAX_SCOPE_BITS = 2**30  # bits of all scopes together: 128 MB
MAX_STEPS = 2**24  # variables visited while grouping: a few seconds
MAX_EDGES = 2**20  # filling gaps can square the size of a graph


class SumProductGraph:
    """Nodes in an order that puts children first; the last is the root."""

    def __init__(self) -> None:
        self.node_kind: list[int] = []
        self.node_literal: list[int] = []  # 2 * variable + value; of a table 2 * variable; or 0
        self.node_children: list[Sequence[int]] = []
        self.node_log_weights: list[Sequence[float]] = []  # one per child of a sum, or value

    @property
    def n_nodes(self) -> int:
        """Number of nodes so far."""
        return len(self.node_kind)

    @property
    def root(self) -> int:
        """The last node."""
        return self.n_nodes - 1

    def add_literal(self, literal: int) -> int:
        """Add the literal `2 * variable + value`; returns its number."""
        return self._add(LITERAL, literal, (), ())

    def add_table(self, var: int, log_weights: Sequence[float]) -> int:
        """Add a weight for every value of a variable; returns its number."""
        return self._add(TABLE, 2 * var, (), log_weights)

    def add_product(self, children: Sequence[int]) -> int:
        """Add a product; returns its number."""
        return self._add(PRODUCT, 0, children, ())

    def add_sum(self, children: Sequence[int], log_weights: Sequence[float]) -> int:
        """Add a sum; returns its number."""
        return self._add(SUM, 0, children, log_weights)

    def _add(
        self, kind: int, literal: int, children: Sequence[int], log_weights: Sequence[float]
    ) -> int:
        self.node_kind.append(kind)
        self.node_literal.append(literal)
        self.node_children.append(children)
        self.node_log_weights.append(log_weights)
        return len(self.node_kind) - 1

    def reached(self) -> list[int]:
        """The nodes below the root and the root itself, children first."""
        is_reached = bytearray(self.n_nodes)
        is_reached[self.root] = 1
        for node in range(self.root, -1, -1):
            if is_reached[node]:
                for child in self.node_children[node]:
                    is_reached[child] = 1
        return [node for node in range(self.n_nodes) if is_reached[node]]

    def variables(self) -> set[int]:
        """The variables below the root."""
        return {
            self.node_literal[node] // 2
            for node in self.reached()
            if self.node_kind[node] in (LITERAL, TABLE)
        }


# A vtree for its products


def recover_vtree(graph: SumProductGraph, n_vars: int | None = None) -> Vtree:
    """A vtree over the variables below the root (all `n_vars`, if given) that all products follow.

    Variables that the graph does not mention come first, each on the left of all the rest.
    """
    reached = graph.reached()
    mentioned = sorted(graph.variables())
    total = (mentioned[-1] + 1 if mentioned else 0) if n_vars is None else n_vars
    if n_vars is None and len(mentioned) < total:
        missing = next(place for place, var in enumerate(mentioned) if place != var)
        raise GraphError(
            f"the root mentions variable {total} but not variable {missing + 1}", graph.root
        )
    if mentioned and mentioned[-1] >= total:
        raise GraphError(
            f"variable {mentioned[-1] + 1} is mentioned, but there are {total} variables",
            graph.root,
        )
    if total == 0:
        raise GraphError("no variable is mentioned, so there is no vtree", graph.root)
    if len(reached) * max(mentioned, default=0) > MAX_SCOPE_BITS:
        raise GraphError("the circuit is too large to find a vtree; give one", graph.root)
    products = _products(graph, reached)
    shape = _Shape()
    everything = 0
    for var in mentioned:
        everything |= 1 << var
    top = _nest(shape, everything, products) if mentioned else NONE
    if top == NONE and mentioned:
        top = _group(shape, everything, products, graph.root)
    seen = set(mentioned)
    for var in range(total - 1, -1, -1):
        if var not in seen:
            leaf = shape.leaf(var)
            top = leaf if top == NONE else shape.inner(leaf, top)
    return shape.build_from(top)[0]


def _products(graph: SumProductGraph, reached: list[int]) -> list[tuple[int, ...]]:
    """The distinct products of at least two factors, each as the bit sets of their variables."""
    scope = [0] * graph.n_nodes
    products: dict[tuple[int, ...], None] = {}  # in the order they are found
    for node in reached:
        kind = graph.node_kind[node]
        if kind in (LITERAL, TABLE):
            scope[node] = 1 << (graph.node_literal[node] // 2)
            continue
        below = [scope[child] for child in graph.node_children[node]]
        union = 0
        for part in below:
            if kind == PRODUCT and union & part:
                raise GraphError(
                    f"two factors of a product share variable {(union & part).bit_length()}", node
                )
            union |= part
        scope[node] = union
        if kind == PRODUCT:
            factors = tuple(part for part in below if part)
            if len(factors) > 1:
                products[factors] = None
    return list(products)


class _Shape(VtreeNodes):
    """A vtree whose nodes are made in any order."""

    def join(self, parts: list[int]) -> int:
        """One node over several: halved again and again, in their order."""
        while len(parts) > 1:
            pairs = [self.inner(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
            parts = pairs + parts[2 * len(pairs) :]
        return parts[0]


def _nest(shape: _Shape, everything: int, products: list[tuple[int, ...]]) -> int:
    """The tree of all factors, if any two are nested or disjoint; else NONE."""
    variables = _bits(everything)
    found = dict.fromkeys(factor for factors in products for factor in factors)
    found[everything] = None
    wide = sorted((scope for scope in found if scope & (scope - 1)), key=int.bit_count)
    scopes = [1 << var for var in variables] + wide  # small before large
    place_of = {scope: place for place, scope in enumerate(scopes)}
    leaf_of = {var: place for place, var in enumerate(variables)}
    above = [NONE] * len(scopes)
    largest = list(range(len(scopes)))  # a scope above every scope: the largest so far, or below it
    inside: list[list[int]] = [[] for _ in scopes]
    for place in range(len(variables), len(scopes)):
        rest = scopes[place]
        while rest:
            part = _find(largest, leaf_of[(rest & -rest).bit_length() - 1])
            if scopes[part] & ~rest:  # partly inside
                return NONE
            rest &= ~scopes[part]
            inside[place].append(part)
            above[part] = largest[part] = place
    before = _constraints(products, place_of, above)
    built = [shape.leaf(var) for var in variables]
    for place in range(len(variables), len(scopes)):
        parts = _in_order(inside[place], before.get(place, []))
        built.append(shape.join([built[part] for part in parts]))
    return built[-1]


def _constraints(
    products: list[tuple[int, ...]], place_of: dict[int, int], above: list[int]
) -> dict[int, list[tuple[int, int]]]:
    """For every scope, which of its parts some product names before which."""
    before: dict[int, list[tuple[int, int]]] = {}
    steps = 0
    for factors in products:
        for first, second in pairwise(factors):
            a, b = place_of[first], place_of[second]
            while above[a] != above[b]:  # the lower of the two goes up
                a, b = (above[a], b) if above[a] < above[b] else (a, above[b])
                steps += 1
            if steps > MAX_STEPS:  # the order does not have to be kept
                return before
            before.setdefault(above[a], []).append((a, b))
    return before


def _in_order(parts: list[int], before: list[tuple[int, int]]) -> list[int]:
    """The parts so that factors stand from left to right as the products name them, if they can.

    Primes of an SDD must be on the left; for other circuits any order would do.
    """
    after: dict[int, list[int]] = {part: [] for part in parts}
    n_waiting = dict.fromkeys(parts, 0)
    for a, b in set(before):
        after[a].append(b)
        n_waiting[b] += 1
    ready = [part for part in parts if not n_waiting[part]]
    heapify(ready)
    order: dict[int, None] = {}
    while ready:
        part = heappop(ready)
        order[part] = None
        for later in after[part]:
            n_waiting[later] -= 1
            if not n_waiting[later]:
                heappush(ready, later)
    return [*order, *(part for part in parts if part not in order)]


def _bits(scope: int) -> list[int]:
    """The variables of a bit set, in increasing order."""
    if not scope & (scope - 1):
        return [scope.bit_length() - 1] if scope else []
    digits = bin(scope)[:1:-1]
    return [var for var, digit in enumerate(digits) if digit == "1"]


def _group(shape: _Shape, everything: int, products: list[tuple[int, ...]], root: int) -> int:
    """The tree made level by level of the groups that the factors keep together."""
    steps = 0
    built: list[int] = []
    # A pending item is a set with the products inside it, or the number of parts to join.
    pending: list[tuple[int, list[tuple[int, ...]]] | int] = [(everything, products)]
    while pending:
        item = pending.pop()
        if isinstance(item, int):
            parts = built[len(built) - item :]
            del built[len(built) - item :]
            built.append(shape.join(parts))
            continue
        scope, inside = item
        if scope.bit_count() == 1:
            built.append(shape.leaf(scope.bit_length() - 1))
            continue
        steps += scope.bit_count() + sum(f.bit_count() for factors in inside for f in factors)
        if steps > MAX_STEPS:
            raise GraphError("finding a vtree takes too long; give one", root)
        groups = _components(scope, inside)
        if len(groups) == 1:
            raise GraphError("its products follow no common vtree", root)
        group_of = {var: g for g, group in enumerate(groups) for var in _bits(group)}
        left_over: list[list[tuple[int, ...]]] = [[] for _ in groups]
        before: list[tuple[int, int]] = []
        for factors in inside:
            homes: dict[int, list[int]] = {}
            for factor in factors:
                homes.setdefault(group_of[factor.bit_length() - 1], []).append(factor)
            before += pairwise(homes)
            for g, together in homes.items():
                if len(together) > 1:
                    left_over[g].append(tuple(together))
        pending.append(len(groups))
        pending += [
            (groups[g], left_over[g]) for g in _in_order([*range(len(groups))], before)[::-1]
        ]
    return built[0]


def _components(scope: int, products: list[tuple[int, ...]]) -> list[int]:
    """The finest groups of variables that tear no factor apart, by their lowest variable."""
    leader = {var: var for var in _bits(scope)}
    for factor in {factor for factors in products for factor in factors}:
        first, *rest = _bits(factor)
        for var in rest:
            a, b = _find(leader, first), _find(leader, var)
            leader[max(a, b)] = min(a, b)
    groups: dict[int, int] = {}
    for var in leader:
        top = _find(leader, var)
        groups[top] = groups.get(top, 0) | (1 << var)
    return [groups[top] for top in sorted(groups)]


def _find(leader: dict[int, int] | list[int], item: int) -> int:
    """The leader of an item's group; the way to it gets shorter."""
    while leader[item] != item:
        leader[item] = leader[leader[item]]
        item = leader[item]
    return item


# Into normal form


class _Place(NamedTuple):
    """What is known of a node of the graph: its span of leaves and its vtree node."""

    first: int
    last: int
    vtree_node: int


def normal_form(graph: SumProductGraph, vtree: Vtree, *, fill: bool = False) -> Circuit | None:
    """The circuit of the last node of a graph; None if that is false.

    Raises `GraphError` where a product does not follow the vtree, or where something is missing
    and `fill` is not set.
    """
    mentioned = graph.variables()
    if mentioned and max(mentioned) >= vtree.n_vars:
        raise GraphError(
            f"variable {max(mentioned) + 1} is mentioned, but the vtree has {vtree.n_vars} "
            "variables",
            graph.root,
        )
    return _Normaliser(graph, vtree, fill).run()


class _Normaliser(CircuitBuilder):
    """The growing circuit, and what every node of the graph has become."""

    def __init__(self, graph: SumProductGraph, vtree: Vtree, fill: bool) -> None:
        n_values = [2] * vtree.n_vars
        for node in graph.reached():
            if graph.node_kind[node] == TABLE:
                var = graph.node_literal[node] // 2
                n_values[var] = max(n_values[var], len(graph.node_log_weights[node]))
        super().__init__(vtree, n_values=n_values)
        self.graph, self.fill = graph, fill
        self.places = MeetingPlaces(vtree)
        self.first_place: list[int] = vtree.node_span[0].tolist()
        # For a node of the graph: None if it is false or true (see is_true), else where it lies.
        self.place: list[_Place | None] = [None] * graph.n_nodes
        self.is_true = bytearray(graph.n_nodes)
        self.node_edges: list[list[Edge]] = [[]] * graph.n_nodes  # at its vtree node
        self.made: dict[int, int] = {}  # node of the graph -> node of the circuit
        self.pairs: dict[tuple[int, int], int] = {}
        self.n_taken_in = 0  # edges of sums that were copied into other sums
        self.now = NONE  # the node of the graph that errors are about

    def run(self) -> Circuit | None:
        reached = self.graph.reached()
        factors = {
            child
            for node in reached
            if self.graph.node_kind[node] == PRODUCT
            for child in self.graph.node_children[node]
        }
        for node in reached:
            self.now = node
            kind = self.graph.node_kind[node]
            if kind in (LITERAL, TABLE):
                var, value = divmod(self.graph.node_literal[node], 2)
                place, first = self.places.var_place[var], self.first_literal[var]
                self.place[node] = _Place(place, place, self.node_vtree[first])
                if kind == LITERAL:
                    self.node_edges[node] = [(first + value, NONE, 0.0)]
                    self.made[node] = first + value
                else:
                    weights = self.graph.node_log_weights[node]
                    self.node_edges[node] = [
                        (first + cell, NONE, weight) for cell, weight in enumerate(weights)
                    ]
            elif kind == PRODUCT:
                self._take_product(node)
            else:
                self._take_sum(node)
            if node in factors and self.place[node] is not None:
                self._make(node)  # now, so that nodes keep the order of the graph
        root = self.graph.root
        if self.is_true[root]:
            top = self.true(self.vtree.root)
        elif self.place[root] is None:
            return None
        else:
            top = self.lift(self._make(root), self.vtree.root)
        return self.as_they_are(top)

    def _take_product(self, node: int) -> None:
        children = [c for c in self.graph.node_children[node] if not self.is_true[c]]
        places = [self.place[child] for child in children]
        if not children:
            self.is_true[node] = 1
        elif None in places:
            return  # false
        elif len(children) == 1:
            self._take_only_child(node, children[0])
        else:
            self.place[node], edge = self._multiply(children)
            self.node_edges[node] = [edge]

    def _take_only_child(self, node: int, child: int) -> None:
        """A product or sum that is no more than its one child."""
        self.place[node] = self.place[child]
        self.node_edges[node] = self.node_edges[child]
        self.made[node] = self._make(child)

    def _take_sum(self, node: int) -> None:
        graph = self.graph
        terms = [
            (child, weight)
            for child, weight in zip(
                graph.node_children[node], graph.node_log_weights[node], strict=True
            )
            if self.is_true[child] or self.place[child] is not None
        ]
        if not terms:
            return  # false
        if len(terms) == 1 and terms[0][1] == 0.0 and self._is_sum(terms[0][0]):
            if self.is_true[terms[0][0]]:
                self.is_true[node] = 1
            else:
                self._take_only_child(node, terms[0][0])
            return
        places = [place for child, _ in terms if (place := self.place[child]) is not None]
        if not places:
            self.is_true[node] = 1
            return
        first = min(place.first for place in places)
        last = max(place.last for place in places)
        here = self.places.top(first, last)
        edges: list[Edge] = []
        has_sums = False
        for child, weight in terms:
            place = self.place[child]
            if place is not None and place.vtree_node == here:
                has_sums = has_sums or self._is_sum(child)
                self.n_taken_in += len(self.node_edges[child])
                self._check_size(self.n_taken_in)
                edges += [(left, right, weight + w) for left, right, w in self.node_edges[child]]
            else:
                edges.append((*self._spread(child, here), weight))
        if has_sums:  # two sums taken in may share products
            edges = _merged(edges)
        self.place[node] = _Place(first, last, here)
        self.node_edges[node] = edges

    def _is_sum(self, node: int) -> bool:
        """Whether a node of the graph is already a list of edges, or a constant."""
        return self.graph.node_kind[node] not in (LITERAL, PRODUCT) or bool(self.is_true[node])

    def _spread(self, child: int, here: int) -> tuple[int, int]:
        """The pair of nodes at the children of `here` that stands for a node lower down."""
        if self.vtree_left[here] == NONE:  # a true node beside a literal
            raise GraphError("a sum adds a constant to a literal", self.now)
        left, right = self.vtree_left[here], self.vtree_right[here]
        place = self.place[child]
        if place is None:
            return self.true(left), self.true(right)
        if place.first < self.first_place[right]:
            return self.lift(self._make(child), left), self.true(right)
        return self.true(left), self.lift(self._make(child), right)

    def _multiply(self, children: Sequence[int]) -> tuple[_Place, Edge]:
        """Where the product of two or more nodes lies, and its one edge."""
        if len(children) == 2:  # as in every normal form: 3.1 s instead of 3.9 on 200,000 lines
            left, right = children
            a, b = self._placed(left), self._placed(right)
            if a.first > b.first:
                left, right, a, b = right, left, b, a
            up = self.vtree_parent[a.vtree_node]
            if a.vtree_node != b.vtree_node and up == self.vtree_parent[b.vtree_node]:
                return _Place(a.first, b.last, up), (self._make(left), self._make(right), 0.0)
        factors = sorted((self._placed(child), child) for child in children)
        firsts = [place.first for place, _ in factors]
        if any(a.last >= b.first for (a, _), (b, _) in pairwise(factors)):
            raise GraphError(
                "two factors of a product share a variable or do not follow the vtree", self.now
            )
        # A slice of the factors is first split where its vtree node does, and then, with both
        # halves done, joined.
        pending: list[tuple[int, int, int]] = [(0, len(factors), NONE)]
        done: list[tuple[_Place, Edge]] = []
        while pending:
            start, stop, middle = pending.pop()
            first, last = firsts[start], factors[stop - 1][0].last
            here = self.places.top(first, last)
            if middle == NONE:
                middle = self._middle(factors, firsts, here, start, stop)
                pending.append((start, stop, middle))
                pending += [(a, b, NONE) for a, b in ((middle, stop), (start, middle)) if b - a > 1]
                continue
            right = (
                self._factor(done.pop()) if stop - middle > 1 else self._make(factors[middle][1])
            )
            left = self._factor(done.pop()) if middle - start > 1 else self._make(factors[start][1])
            edge = (
                self.lift(left, self.vtree_left[here]),
                self.lift(right, self.vtree_right[here]),
                0.0,
            )
            done.append((_Place(first, last, here), edge))
        return done[0]

    def _middle(
        self, factors: list[tuple[_Place, int]], firsts: list[int], here: int, start: int, stop: int
    ) -> int:
        """Where the factors on the left of the vtree node `here` end."""
        border = self.first_place[self.vtree_right[here]]
        middle = bisect_left(firsts, border, start, stop)
        if factors[middle - 1][0].last >= border:
            raise GraphError("a product does not follow the vtree", self.now)
        return middle

    def _placed(self, node: int) -> _Place:
        place = self.place[node]
        assert place is not None
        return place

    def _factor(self, group: tuple[_Place, Edge]) -> int:
        """The circuit node of several factors on one side of a product."""
        place, edge = group
        key = (edge[0], edge[1])
        if key not in self.pairs:
            self.pairs[key] = self.add_at(place.vtree_node, [edge])
        return self.pairs[key]

    def _make(self, node: int) -> int:
        """The circuit node of a node of the graph, at its own vtree node."""
        if node not in self.made:
            self.made[node] = self.add_at(self._placed(node).vtree_node, self.node_edges[node])
        return self.made[node]

    def add_at(self, vtree_node: int, edges: Sequence[Edge]) -> int:
        self._check_size(len(edges))
        return super().add_at(vtree_node, edges)

    def true(self, v: int) -> int:
        if not self.fill:
            var = int(self.vtree.order[self.first_place[v]])
            raise GraphError(
                f"the circuit is not smooth: a node does not mention variable {var + 1}, "
                "unlike its neighbours",
                self.now,
            )
        return super().true(v)

    def _check_size(self, n_more: int) -> None:
        if len(self.edges) + n_more > MAX_EDGES:
            raise GraphError(
                f"in normal form the circuit would have more than {MAX_EDGES:,} edges", self.now
            )


def _merged(edges: list[Edge]) -> list[Edge]:
    """Edges to one product as one edge, with their weights added."""
    weights: dict[tuple[int, int], float] = {}
    for left, right, weight in edges:
        old = weights.get((left, right))
        weights[left, right] = weight if old is None else float(np.logaddexp(old, weight))
    return [(left, right, weight) for (left, right), weight in weights.items()]
