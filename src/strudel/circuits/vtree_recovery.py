"""Vtrees from circuits: the tree by which the products of a graph split their variables.

In:  a `SumProductGraph`.
Out: a `Vtree` that all its products follow, or `GraphError`.

If the variables below the factors of all products are nested or disjoint, they are nodes of a
vtree; this holds in every smooth structured-decomposable circuit. Otherwise (circuits of logic that
do not mention all variables everywhere) variables that some factor keeps together are grouped,
level by level: a product is followed if and only if no level tears one of its factors apart before
it separates them, so the groups are exactly what a level must keep.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import pairwise

from strudel._types import NONE
from strudel.circuits.sum_product_graph import LITERAL, PRODUCT, TABLE, SumProductGraph
from strudel.errors import GraphError
from strudel.trees.vtree import Vtree, VtreeNodes

MAX_SCOPE_BITS = 2**30  # bits of all scopes together: 128 MB
MAX_STEPS = 2**24  # variables visited while grouping: a few seconds


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
