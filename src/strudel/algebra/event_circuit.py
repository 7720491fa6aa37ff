"""Events as circuits over columns, and models given an event, as models again.

In:  a `Circuit`, and an `Event` over its columns.
Out: a circuit on its vtree that is 1 where the event holds (`event_circuit`); the model given the
     event (`given_event`), and the log of its probability.

An event tells classes of values of a column apart; bits that count the classes are variables of
0/1, for which the event is compiled to an SDD (`logic`). Joined, its leaves are tables of 0 and 1
over the classes, and so over the cells. Without the compiler, an event of a few cases that exclude
each other is a sum over these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from strudel._types import NONE, AnyArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.other_columns import Patterns, joined, with_edges
from strudel.circuits.products import MAX_PAIRS, product
from strudel.circuits.reweigh import normalized
from strudel.errors import MissingDependencyError
from strudel.logic.column_classes import Classes, cases_of, classes_of, column_leaves, region_of
from strudel.logic.event_compiler import circuit_of_sdd, compile_event
from strudel.logic.events import FALSE_EVENT, TRUE_EVENT, Event, children_first, with_leaves
from strudel.tables.column import Column
from strudel.tables.density import EVERYWHERE, Region
from strudel.tables.schema import Columns
from strudel.trees.vtree import Vtree, VtreeNodes


def given_event(
    circuit: Circuit, event: Event, max_pairs: int = MAX_PAIRS
) -> tuple[Circuit | None, float]:
    """The model given an event, and the log of its probability; None if that is zero.

    Cells of the model also meet at the bounds of the event.
    """
    own = at_bounds(circuit, event)
    found = event_circuit(own, event)
    if found is None:
        return None, -np.inf
    return normalized(product(own, found, max_pairs, "condition"))


def at_bounds(circuit: Circuit, event: Event) -> Circuit:
    """The same distribution, whose cells also meet at the bounds of an event."""
    edges = {
        place: {end for leaf in leaves for ends in region_of(leaf) for end in ends}
        for place, leaves in column_leaves(event, circuit.columns).items()
    }
    return with_edges(circuit, edges)


def event_circuit(circuit: Circuit, event: Event) -> Circuit | None:
    """The circuit on the model's vtree that is 1 where an event holds, and 0 elsewhere.

    Where a bound lies inside a cell, it is the share of the cell. None if nothing fulfils it.
    """
    columns, vtree = circuit.columns, circuit.vtree
    is_diagram = any(part.kind == "sdd" for part, _ in children_first(event))
    if is_diagram and not columns.are_bits:
        raise ValueError(
            "A decision diagram is about 0/1 variables, but the model is one of a table. Say the "
            "event in its columns."
        )
    classes = classes_of(event, columns)
    n_classes = np.ones(len(columns), dtype=np.int64)
    for which, place in enumerate(classes.places):
        n_classes[place] = len(classes.regions[which])
    n_bits = np.maximum(n_classes - 1, 1)
    first = np.concatenate([[0], np.cumsum(n_bits)])
    names = tuple(f"b{bit}" for bit in range(int(first[-1])))

    def in_bits(leaf: Event) -> Event:
        if leaf.kind == "sdd":
            return leaf  # its variables are the columns of 0 and 1, with a bit each
        which, holds = classes.holds[id(leaf)]
        return _in_bits(holds, int(first[classes.places[which]]))

    try:
        sdd = compile_event(with_leaves(event, in_bits), _with_bits(vtree, first), names)
    except MissingDependencyError:
        cases = cases_of(event, columns)
        if cases is None:
            raise
        return _circuit_of_cases(columns, vtree, cases)
    found = circuit_of_sdd(sdd)
    if found is None:
        return None
    patterns = [
        Patterns(range(first[place], first[place + 1]), _words(int(m)), np.ones(m))
        for place, m in enumerate(n_classes.tolist())
    ]
    if is_diagram:  # every column has two values
        patterns = [Patterns([place], _words(2), np.ones(2)) for place in range(len(columns))]
        classes = _every_value(columns)
    labels = [tuple(map(str, range(len(own.bits)))) for own in patterns]
    over = Columns(tuple(Column(f"c{i}", "category", own, own) for i, own in enumerate(labels)))
    return _over_cells(joined(found, over, patterns), columns, classes)


def _circuit_of_cases(
    columns: Columns, vtree: Vtree, cases: list[dict[int, Region]]
) -> Circuit | None:
    """The circuit that is 1 in one of some cases, which exclude each other: its root chooses."""
    if not cases:
        return None
    tables, which = [], []
    for place, column in enumerate(columns):
        regions = [case.get(place, EVERYWHERE) for case in cases]
        distinct = list(dict.fromkeys(regions))
        tables.append(np.array([column.weights(region) for region in distinct]))
        which.append(np.array([distinct.index(region) for region in regions]))
    if len(columns) == 1:  # a single leaf, whose cells are those of any case
        tables, which = [tables[0].sum(axis=0, keepdims=True)], [np.zeros(1, dtype=np.int64)]
    return sum_over_cases(columns, vtree, tables, which, np.zeros(len(which[0])))


def sum_over_cases(
    columns: Columns,
    vtree: Vtree,
    tables: Sequence[FloatArray],
    which: Sequence[AnyArray],
    log_theta: FloatArray,
) -> Circuit:
    """The circuit whose root chooses among different cases, with these log-parameters.

    Column c has the table ``tables[c][which[c][i]]`` over its cells in case i.
    """
    edges: dict[int, AnyArray] = {}  # by inner vtree node, the products that cases have there
    node: list[AnyArray] = []  # by vtree node, which of these, or of the tables, each case has
    for v in range(vtree.n_nodes):
        if vtree.node_var[v] == NONE:
            pairs = np.column_stack([node[vtree.node_left[v]], node[vtree.node_right[v]]])
            edges[v], own = np.unique(pairs, axis=0, return_inverse=True)
            node.append(own.ravel())
        else:
            node.append(which[int(vtree.node_var[v])])
    n_leaves = [len(table) for table in tables]
    n_sums = [1 if v == vtree.root else len(own) for v, own in edges.items()]
    first = np.zeros(vtree.n_nodes, dtype=np.int64)  # the first node at each vtree node
    first[vtree.var_leaf] = np.cumsum(n_leaves) - n_leaves
    first[list(edges)] = sum(n_leaves) + np.cumsum(n_sums) - n_sums
    sides = [np.zeros((0, 2), dtype=np.int64)]
    for v, own in edges.items():
        sides.append(own + first[[vtree.node_left[v], vtree.node_right[v]]])
    left, right = np.concatenate(sides).T
    width = [1] * (sum(n_sums) - 1) + [len(edges[vtree.root])] if edges else []
    logs = np.zeros((len(left), 1))
    if edges:
        logs[len(left) - len(log_theta) + node[vtree.root], 0] = log_theta
    with np.errstate(divide="ignore"):
        cells = np.log(np.concatenate([table.ravel() for table in tables]))
    return Circuit(
        columns,
        vtree,
        np.repeat(np.arange(len(columns)), n_leaves),
        cells[:, np.newaxis],
        np.repeat(list(edges), n_sums).astype(np.int32),
        np.concatenate([[0], np.cumsum(width)]),
        left,
        right,
        logs,
        np.zeros(1),
    )


def _every_value(columns: Columns) -> Classes:
    """The classes of 0/1 variables: their values."""
    both = (((0.0, 1.0),), ((1.0, 2.0),))
    return Classes(tuple(range(len(columns))), (both,) * len(columns), {})


def _in_bits(holds: AnyArray, first: int) -> Event:
    """The event that a column is in one of these classes; bit j says that it is j + 1 or more."""
    if holds.all() or not holds.any():
        return TRUE_EVENT if holds.all() else FALSE_EVENT
    ends = np.flatnonzero(np.diff(holds.astype(np.int8), prepend=0, append=0))
    runs = []
    for start, stop in zip(ends[::2].tolist(), ends[1::2].tolist(), strict=True):
        above = Event("variable", var=f"b{first + start - 1}")
        below = ~Event("variable", var=f"b{first + stop - 1}")
        parts = ([above] if start else []) + ([below] if stop < len(holds) else [])
        runs.append(parts[0] if len(parts) == 1 else Event("and", tuple(parts)))
    return runs[0] if len(runs) == 1 else Event("or", tuple(runs))


def _words(n_classes: int) -> AnyArray:
    """The bits of every class; a single one has a bit that says nothing."""
    return np.tri(n_classes, max(n_classes - 1, 1), -1, dtype=np.int64)


def _with_bits(vtree: Vtree, first: AnyArray) -> Vtree:
    """The vtree whose leaves are the bits of every column, side by side."""
    nodes = VtreeNodes()
    number: list[int] = []
    for v in range(vtree.n_nodes):
        place = int(vtree.node_var[v])
        if place == NONE:
            number.append(nodes.inner(number[vtree.node_left[v]], number[vtree.node_right[v]]))
        else:
            bits = range(int(first[place]), int(first[place + 1]))
            number.append(nodes.combine([nodes.leaf(bit) for bit in bits], "linear"))
    return nodes.build()


def _over_cells(made: Circuit, columns: Columns, classes: Classes) -> Circuit:
    """The circuit with the cells of columns for classes of their values."""
    logs = []
    for place, column in enumerate(columns):
        weights = np.ones((made.columns[place].n_cells, column.n_cells))
        if place in classes.places:
            own = classes.regions[classes.places.index(place)]
            weights = np.array([column.weights(region) for region in own])
        with np.errstate(divide="ignore"):
            cells = np.log(np.exp(made.leaf_table(place)[:, :, 0]) @ weights)
        logs.append(cells.reshape(-1, 1))
    return replace(made, columns=columns, leaf_log_p=np.concatenate(logs))
