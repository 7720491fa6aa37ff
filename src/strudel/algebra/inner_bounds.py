"""Events with bounds inside cells: ``age > 60`` where the cells meet at 54 and 66.

In:  a model that was learned from a table, and an event with bounds.
Out: what a conjunction says about columns and variables; or for any event, a model with a variable
     more per bound, and the event in terms of that.

Given its cell, whether a number lies above a bound is an independent coin. A conjunction weighs the
cells of its columns, and so do a few cases (`event_cases`); neither needs coins. Any other event
gets them as variables: each stands in the vtree beside a variable of its column, so that what joins
them stays small.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from strudel._names import find_name, places_of
from strudel._types import NONE, AnyArray
from strudel.algebra.operands import columns_of
from strudel.circuits.builder import assemble
from strudel.circuits.mixture import Mixture
from strudel.logic.events import (
    FALSE_EVENT,
    TRUE_EVENT,
    Event,
    bounds_of_parts,
    children_first,
    with_leaves,
)
from strudel.queries.model import Model
from strudel.tables.coded_column import CodedColumn
from strudel.tables.density import EVERYWHERE, Region, meet
from strudel.tables.table_code import TableCode, code_of
from strudel.trees.vtree import Vtree, VtreeNodes


def has_bounds(event: Event) -> bool:
    """Whether an event has a bound inside a cell."""
    return any(item.kind == "bound" for item, _ in children_first(event))


def bounds_of(event: Event) -> dict[str, set[float]]:
    """The bounds inside cells that an event has, by column."""
    found: dict[str, set[float]] = {}
    for item, _ in children_first(event):
        if item.kind == "bound":
            found.setdefault(str(item.var), set()).add(item.bound)
    return found


class Conjunction(NamedTuple):
    """Variables with their bits, and the regions of columns, that all hold."""

    bits: dict[int, int]
    regions: dict[str, Region]
    is_possible: bool


def conjunction_of(event: Event, names: Sequence[str]) -> Conjunction | None:
    """An event as a conjunction of facts about single variables and columns; None if it is none."""
    operands_of = {id(item): operands for item, operands in children_first(event)}
    place, found = places_of(names), Conjunction({}, {}, True)
    todo = [(event, True)]
    while todo:
        item, is_true = todo.pop()
        if item.kind == "not":
            todo.append((item.children[0], not is_true))
        elif item.kind == ("and" if is_true else "or"):
            todo += [(child, is_true) for child in operands_of[id(item)]]
        elif item.kind == "implies" and not is_true:
            todo += [(item.children[0], True), (item.children[1], False)]
        else:
            own = _fact(item, is_true, names, place)
            if own is None:
                return None
            found = _both(found, own)
    return found


def _both(one: Conjunction, other: Conjunction) -> Conjunction:
    is_possible = one.is_possible and other.is_possible
    is_possible &= all(one.bits.get(var, bit) == bit for var, bit in other.bits.items())
    regions = dict(one.regions)
    for name, region in other.regions.items():
        regions[name] = meet(regions.get(name, EVERYWHERE), region)
        is_possible &= bool(regions[name])
    return Conjunction(one.bits | other.bits, regions, is_possible)


def _fact(
    event: Event, is_true: bool, names: Sequence[str], place: Mapping[str, int]
) -> Conjunction | None:
    """An event, which holds or not, as a fact about one variable or column; None if it is none."""
    if event.kind == "constant":
        return Conjunction({}, {}, (event.low == 1) == is_true)
    if event.kind == "variable":
        return Conjunction({find_name(event.var, place, "The event"): int(is_true)}, {}, True)
    if event.kind == "point" and is_true:
        return Conjunction(
            {}, {str(event.var): ((event.bound, math.nextafter(event.bound, math.inf)),)}, True
        )
    column = _only_column(event, names, place)
    if column is None:
        return None
    bounds = [part.bound for part, _ in children_first(event) if part.kind == "bound"]
    if column.is_numeric:
        starts = np.array([-np.inf, *sorted({*column.edges, *bounds})])
        cell = np.searchsorted(np.array(column.edges), starts, side="right")
    else:  # a bound is the place of a value
        cell = np.arange(column.n_values)
        starts = cell.astype(np.float64)
    above = {bound: len(names) + i for i, bound in enumerate(dict.fromkeys(bounds))}
    codes = np.zeros((len(cell), len(names) + len(above)), dtype=np.uint8)
    codes[:, column.start : column.stop] = column.codewords[cell]
    for bound, var in above.items():
        codes[:, var] = starts >= bound
    numbered = with_leaves(
        event,
        lambda leaf: Event(
            "variable",
            var=above[leaf.bound]
            if leaf.kind == "bound"
            else find_name(leaf.var, place, "The event"),
        ),
    )
    by_number = {str(var): var for var in range(codes.shape[1])}
    holds = bounds_of_parts(numbered, codes, by_number)[id(numbered)][0] == is_true
    if not holds.any():
        return Conjunction({}, {}, False)
    literals = None if bounds else column.literals(holds)
    if literals is not None:
        return Conjunction(dict(literals), {}, True)
    if not column.has_parts:
        return None
    ends = [*starts[1:].tolist(), np.inf]
    region: list[tuple[float, float]] = []
    for low, high, inside in zip(starts.tolist(), ends, holds.tolist(), strict=True):
        if inside and region and region[-1][1] == low:
            region[-1] = region[-1][0], high
        elif inside:
            region.append((low, high))
    return Conjunction({}, {column.name: tuple(region)}, True)


def _only_column(
    event: Event, names: Sequence[str], place: Mapping[str, int]
) -> CodedColumn | None:
    """The column that an event is about, if there is one, and only bounds and variables of it."""
    code, found = code_of(names), set[str]()
    for part, _ in children_first(event):
        if code is None or part.kind in ("point", "sdd"):
            return None
        if part.kind == "bound":
            found.add(str(part.var))
        elif part.kind == "variable":
            var = find_name(part.var, place, "The event")
            found.add(next(column.name for column in code.columns if var < column.stop))
    return code.column(found.pop()) if code is not None and len(found) == 1 else None


class _Coin(NamedTuple):
    """Whether a number of some cell lies above a bound, given that it lies above those before."""

    column: CodedColumn
    cell: int
    bound: float
    chance: float


def with_coins(model: Model, event: Event) -> tuple[Mixture, Event]:
    """A model with a variable for every bound of an event, and the event without bounds."""
    code = model.table_code
    assert code is not None
    coins = _coins(event, code)
    refined = _extended(model, coins)
    place = places_of(tuple(model.feature_names or ()))

    def numbered(leaf: Event) -> Event:  # by number: the larger model has no names
        if leaf.kind == "bound":
            return _in_coins(leaf, coins, model.n_vars)
        if leaf.kind == "sdd":
            return leaf
        return Event("variable", var=find_name(leaf.var, place, "The event"))

    return refined, with_leaves(event, numbered)


def _coins(event: Event, code: TableCode) -> list[_Coin]:
    """The coins of all bounds, those of one cell in increasing order."""
    bounds = {(str(i.var), i.bound) for i, _ in children_first(event) if i.kind == "bound"}
    coins: list[_Coin] = []
    for name, bound in sorted(bounds):
        column = code.column(name)
        cell = int(np.searchsorted(np.array(column.cell_edges), bound, side="right"))
        chance = float(column.cells.shares(((bound, np.inf),))[cell])
        before = [coin for coin in coins if (coin.column.name, coin.cell) == (name, cell)]
        if before:  # the shares of one cell fall from bound to bound
            chance /= float(column.cells.shares(((before[-1].bound, np.inf),))[cell])
        coins.append(_Coin(column, cell, bound, min(chance, 1.0)))
    return coins


def _in_coins(item: Event, coins: list[_Coin], n_vars: int) -> Event:
    """A bound: the number lies in a cell above, or in the bound's own and all coins say so."""
    mine = [
        i
        for i, coin in enumerate(coins)
        if (coin.column.name, coin.bound) == (item.var, item.bound)
    ]
    column, cell = coins[mine[0]].column, coins[mine[0]].cell
    thrown = [
        Event("variable", var=n_vars + i)
        for i, coin in enumerate(coins)
        if (coin.column.name, coin.cell) == (column.name, cell) and coin.bound <= item.bound
    ]
    own = column.value_cell
    above, here = _holds(column, own > cell), _holds(column, own == cell)
    return Event("or", (above, Event("and", (here, *thrown))))


def _holds(column: CodedColumn, values: AnyArray) -> Event:
    """The event that a column has one of these values, by the numbers of its variables."""
    if values.all() or not values.any():
        return TRUE_EVENT if values.all() else FALSE_EVENT
    literals = column.literals(values)
    if literals is None:
        cells = np.unique(column.value_cell[values])
        return Event("or", tuple(_holds(column, column.value_cell == cell) for cell in cells))
    events = [Event("variable", var=var) for var, _ in literals]
    signed = [event if bit else ~event for event, (_, bit) in zip(events, literals, strict=True)]
    return Event("and", tuple(signed))


def _extended(model: Model, coins: list[_Coin]) -> Mixture:
    """The model with independent coins, each beside a variable of its column."""
    circuit, log_theta, log_weight = columns_of(model)
    n_vars = model.n_vars
    beside: dict[int, list[int]] = {}  # variable -> its coins
    for i, coin in enumerate(coins):
        var = min(coin.column.start + coin.cell, coin.column.stop - 1)
        beside.setdefault(var, []).append(i)
    vtree, number, tops = _wider_vtree(circuit.vtree, beside)
    # Literals first; then a sum per coin; then for a literal with coins its products with them.
    node_vtree = [int(leaf) for leaf in np.repeat(vtree.var_leaf, 2)]
    parent: list[int] = []
    left: list[int] = []
    right: list[int] = []
    logs: list[float] = []

    def add(v: int, edges: Sequence[tuple[int, int, float]]) -> int:
        node_vtree.append(v)
        for a, b, log in edges:
            parent.append(len(node_vtree) - 1)
            left.append(a)
            right.append(b)
            logs.append(log)
        return len(node_vtree) - 1

    lifted: dict[int, tuple[int, int]] = {}  # literal with coins -> its product without the last
    coin_sum: list[int] = []
    with np.errstate(divide="ignore"):
        for i, coin in enumerate(coins):
            one = 2 * (n_vars + i) + 1
            chances = (float(np.log(coin.chance)), float(np.log1p(-coin.chance)))
            edges = [(one, NONE, chances[0]), (one - 1, NONE, chances[1])]
            coin_sum.append(add(int(vtree.var_leaf[n_vars + i]), edges))
    whole: dict[int, int] = {}
    for var, own in beside.items():
        for literal in (2 * var, 2 * var + 1):
            node = literal
            for i, top in zip(own, tops[var], strict=True):
                lifted[literal] = node, coin_sum[i]
                node = add(top, [(node, coin_sum[i], 0.0)])
            whole[literal] = node
    first_sum = len(node_vtree)
    n_own = len(parent)
    of_node = np.arange(circuit.n_nodes + 1, dtype=np.int32) + np.int32(first_sum - 2 * n_vars)
    of_node[: 2 * n_vars], of_node[-1] = np.arange(2 * n_vars), NONE
    sums = circuit.node_vtree[2 * n_vars :]
    edge_left, edge_right = circuit.edge_left, circuit.edge_right
    new_left, new_right = of_node[edge_left].copy(), of_node[edge_right].copy()
    for literal, node in whole.items():
        here = edge_left == literal
        is_leaf = here & (edge_right == NONE)
        new_left[here & ~is_leaf] = node
        new_left[is_leaf], new_right[is_leaf] = lifted[literal]
        new_right[edge_right == literal] = node
    n_edges = n_own + circuit.n_edges
    made = assemble(
        vtree,
        np.concatenate([np.array(node_vtree), number[sums]]).astype(np.int32),
        np.concatenate([np.array(parent), of_node[circuit.edge_parent]]).astype(np.int32),
        np.concatenate([np.array(left), new_left]).astype(np.int32),
        np.concatenate([np.array(right), new_right]).astype(np.int32),
        np.arange(n_edges, dtype=np.float64),  # which edge was which
        root=int(of_node[circuit.root]),
    )
    own_logs = np.repeat(np.array(logs)[:, np.newaxis], log_theta.shape[1], axis=1)
    both = np.vstack([own_logs, log_theta])[made.edge_log_theta.astype(np.int64)]
    return Mixture(made.with_parameters(both.max(axis=1)), both, log_weight)


def _wider_vtree(
    vtree: Vtree, beside: dict[int, list[int]]
) -> tuple[Vtree, AnyArray, dict[int, list[int]]]:
    """The vtree with a leaf for every coin, the number of every old node, and of those above coins.

    An old leaf with coins becomes the node above the last of them.
    """
    number: list[int] = []
    tops: dict[int, list[int]] = {}
    nodes, n_vars = VtreeNodes(), vtree.n_vars
    for v in range(vtree.n_nodes):
        var = int(vtree.node_var[v])
        if var == NONE:
            number.append(nodes.inner(number[vtree.node_left[v]], number[vtree.node_right[v]]))
            continue
        node = nodes.leaf(var)
        tops[var] = []
        for i in beside.get(var, ()):
            node = nodes.inner(node, nodes.leaf(n_vars + i))
            tops[var].append(node)
        number.append(node)
    return nodes.build(), np.array(number, dtype=np.int32), tops
