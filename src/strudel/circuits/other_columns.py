"""The same distribution over other columns: with finer cells, joined ones, or one more.

In:  a `Circuit`, and for some columns numbers or dates; or which 0/1 columns stand for one; or a
     cell for every component.
Out: the circuit in which cells meet at these numbers, too (`with_edges`); that of groups of cells,
     which are what people see (`with_groups`); over columns whose bits the old ones were
     (`joined`); with the class of its components as a column (`with_class`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.properties import as_deterministic_as
from strudel.circuits.walks import children_at, edges_at, first_node, log_sums
from strudel.errors import CircuitPropertyError
from strudel.tables.column import Column, bound_text
from strudel.tables.density import CellDistribution
from strudel.tables.schema import Columns
from strudel.trees.vtree import Vtree


def with_edges(circuit: Circuit, edges: Mapping[int, Iterable[float]]) -> Circuit:
    """The same distribution with more edges of some columns, by their places."""
    columns, logs = list(circuit.columns), []
    known: list[AnyArray] = []
    is_changed = False
    for place in range(len(columns)):
        column, table = columns[place], circuit.leaf_table(place)
        told = None if circuit.known is None else circuit.leaf_table(place, "known")
        new = set(edges.get(place, ())) - set(column.edges) - {-np.inf, np.inf}
        if new and column.is_numeric:
            is_changed = True
            columns[place], parent, share = finer_column(column, new)
            with np.errstate(divide="ignore"):
                table = table[:, parent] + np.log(share)[:, np.newaxis]
            told = None if told is None else told[:, parent]
        logs.append(table.reshape(-1, circuit.n_components))
        known += [] if told is None else [told.reshape(-1, circuit.n_components)]
    if not is_changed:
        return circuit
    own = replace(circuit.columns, columns=tuple(columns))
    known_cells = np.concatenate(known) if known else None
    made = replace(circuit, columns=own, leaf_log_p=np.concatenate(logs), known=known_cells)
    return as_deterministic_as(made, circuit)


def with_groups(circuit: Circuit, places: Sequence[int]) -> Circuit:
    """The distribution of the groups of some columns of numbers or dates, as they are shown."""
    columns, is_first = list(circuit.columns), []
    for place in range(len(columns)):
        column = columns[place]
        first = np.ones(column.n_cells, dtype=bool)
        if place in places:
            columns[place] = column.shown
            first = np.diff(column.shown_of_cell, prepend=NONE) > 0
        n_leaves = int(np.diff(circuit.column_leaves[place : place + 2])[0])
        is_first.append(np.tile(first, n_leaves))
    starts = np.flatnonzero(np.concatenate(is_first))
    logs, known = log_sums(circuit.leaf_log_p, starts), circuit.known
    if known is not None:
        told = np.add.reduceat(np.exp(circuit.leaf_log_p) * known, starts, axis=0)
        known = np.ones_like(told)
        np.divide(told, np.exp(logs), out=known, where=logs > -np.inf)
        known = np.clip(known, 0.0, 1.0)
    own = replace(circuit.columns, columns=tuple(columns))
    return replace(circuit, columns=own, leaf_log_p=logs, known=known)


def finer_column(column: Column, new: Iterable[float]) -> tuple[Column, AnyArray, FloatArray]:
    """A column with more edges; the old cell of each new one, and which share of it that is."""
    edges = sorted({*column.edges, *new})
    cells = CellDistribution(edges, column.cells.density, column.region)
    parent = np.searchsorted(np.array(column.edges), [-np.inf, *edges], side="right")
    total = np.bincount(parent, cells.cell_mass)[parent]
    share = np.divide(cells.cell_mass, total, out=np.zeros(len(parent)), where=total > 0.0)
    texts = [bound_text(column, edge) for edge in edges]
    made = replace(
        column,
        labels=(f"<{texts[0]}", *(f"[{a}, {b})" for a, b in pairwise(texts)), f">={texts[-1]}"),
        values=_values(column, cells, parent),
        edges=tuple(edges),
        ranges=tuple(
            (
                float(np.clip(column.ranges[old][0], low, high)),
                float(np.clip(column.ranges[old][1], low, high)),
            )
            for old, low, high in zip(
                parent.tolist(), cells.low.tolist(), cells.high.tolist(), strict=True
            )
        ),
        counts=tuple(np.rint(np.array(column.counts)[parent] * share).astype(int).tolist()),
        groups=tuple(column.group_of_cell[parent].tolist()) if column.groups else (),
    )
    return made, parent, share


def _values(column: Column, cells: CellDistribution, parent: AnyArray) -> tuple[object, ...]:
    """What stands for each finer cell: the value of a whole one, the median of a part."""
    is_part = np.bincount(parent)[parent] > 1
    medians = cells.medians(is_part).tolist()
    found = []
    for cell, median in enumerate(medians):
        value = column.cell_values[parent[cell]]
        if is_part[cell]:
            low, high = float(cells.low[cell]), float(cells.high[cell])
            number = (
                float(np.clip(value, low, np.nextafter(high, -np.inf)))
                if median != median
                else median
            )
            value = column.of_its_type(number)
            value = value if value >= low else column.of_its_type(float(np.ceil(number)))
        found.append(value)
    return tuple(found)


class Patterns(NamedTuple):
    """The 0/1 columns that stand for one, side by side in the vtree, and the bits of its cells."""

    places: Sequence[int]
    bits: AnyArray  # (n_cells, n_places)
    share: FloatArray  # (n_cells,) which part of what has these bits is the cell's


def joined(circuit: Circuit, columns: Columns, patterns: Sequence[Patterns]) -> Circuit:
    """A circuit over 0/1 columns as one over columns of which they are the bits.

    All sums at the vtree node of a column become leaves: the probability of each cell is that of
    its bits, found by one pass up the nodes below.
    """
    k, vtree = circuit.n_components, circuit.vtree
    tops = [_top(circuit, column, own) for column, own in zip(columns, patterns, strict=True)]
    number = np.full(circuit.n_nodes, NONE, dtype=np.int32)
    leaf_column, tables, n_leaves = [], [], 0
    for place, (top, own) in enumerate(zip(tops, patterns, strict=True)):
        table = _cells_of_bits(circuit, top, own)
        first = first_node(circuit, top)
        number[first : first + len(table)] = n_leaves + np.arange(len(table))
        n_leaves += len(table)
        leaf_column += [place] * len(table)
        tables.append(table.reshape(-1, k))
    above, vtree_node = _vtree_above(vtree, tops)
    place_of_sum = vtree_node[circuit.sum_vtree]
    place_of_sum[np.isin(circuit.sum_vtree, tops)] = NONE
    is_kept = place_of_sum != NONE
    number[circuit.n_leaves :][is_kept] = n_leaves + np.arange(np.count_nonzero(is_kept))
    edges = np.flatnonzero(is_kept[circuit.edge_sum])
    width = np.diff(circuit.sum_edges)[is_kept]
    known = None
    if circuit.known is not None:  # the same for all leaves of a column
        cells = circuit.leaf_first[circuit.column_leaves[[own.places[0] for own in patterns]]]
        known = np.repeat(circuit.known[cells], [len(table) for table in tables], axis=0)
    made = replace(
        circuit,
        columns=columns,
        vtree=above,
        leaf_column=np.array(leaf_column, dtype=np.int32),
        leaf_log_p=np.concatenate(tables),
        sum_vtree=place_of_sum[is_kept],
        sum_edges=np.concatenate([[0], np.cumsum(width)]).astype(np.int32),
        edge_left=number[circuit.edge_left[edges]],
        edge_right=number[circuit.edge_right[edges]],
        edge_log_theta=circuit.edge_log_theta[edges],
        known=known,
    )
    return as_deterministic_as(made, circuit)


def _top(circuit: Circuit, column: Column, patterns: Patterns) -> int:
    """The vtree node whose columns are the bits of one."""
    vtree = circuit.vtree
    first, last = vtree.node_span
    at = first[vtree.var_leaf[list(patterns.places)]]
    top = np.flatnonzero((first == at.min()) & (last == at.max() + 1))
    if not len(top) or at.max() - at.min() + 1 != len(patterns.places):
        raise CircuitPropertyError(f"The variables of column {column.name!r} are not side by side.")
    return int(top[0])


def _cells_of_bits(circuit: Circuit, top: int, patterns: Patterns) -> FloatArray:
    """The log-probability of every cell in the nodes at a vtree node, `(n_nodes, n_cells, k)`."""
    vtree, places = circuit.vtree, list(patterns.places)
    with np.errstate(divide="ignore"):
        log_share = np.log(patterns.share)[:, np.newaxis]
    if vtree.node_var[top] != NONE:
        return circuit.leaf_table(places[0])[:, patterns.bits[:, 0]] + log_share
    first, last = vtree.node_span
    values: dict[int, FloatArray] = {}
    for v in np.flatnonzero((first >= first[top]) & (last <= last[top])).tolist():  # children first
        var = int(vtree.node_var[v])
        if var != NONE:
            values[v] = np.exp(circuit.leaf_table(var)[:, patterns.bits[:, places.index(var)]])
            continue
        edges, begins = edges_at(circuit, v)
        left, right = children_at(circuit, v)
        sides = values[int(vtree.node_left[v])][left] * values[int(vtree.node_right[v])][right]
        terms = np.exp(circuit.edge_log_theta[edges])[:, np.newaxis] * sides
        values[v] = np.add.reduceat(terms, begins, axis=0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values[top]) + log_share)


def _vtree_above(vtree: Vtree, tops: list[int]) -> tuple[Vtree, IntArray]:
    """The vtree over columns, and for each old node the new one; NONE below columns."""
    number = np.full(vtree.n_nodes, NONE, dtype=np.int32)
    column_at = {top: place for place, top in enumerate(tops)}
    left: list[int] = []
    right: list[int] = []
    var: list[int] = []
    for v in range(vtree.n_nodes):
        l, r = int(vtree.node_left[v]), int(vtree.node_right[v])
        place = column_at.get(v, NONE)
        if place == NONE and (l == NONE or number[l] == NONE):
            continue  # inside a column
        number[v] = len(var)
        left.append(NONE if place != NONE else number[l])
        right.append(NONE if place != NONE else number[r])
        var.append(place)
    arrays = (np.array(part, dtype=np.int32) for part in (left, right, var))
    return Vtree(*arrays), number


def with_class(inputs: Circuit, columns: Columns, component_class: IntArray) -> Circuit:
    """One more column, of which each component has one cell."""
    n_leaves, vtree, k = inputs.n_leaves, inputs.vtree, inputs.n_components
    root = vtree.n_nodes + 1
    left, right = inputs.edge_left, inputs.edge_right  # sums have later numbers now
    left = np.append(left + (left >= n_leaves), inputs.root + (inputs.root >= n_leaves))
    right = np.append(right + (right >= n_leaves), n_leaves)
    is_class = np.arange(columns[-1].n_cells)[:, np.newaxis] == component_class
    with np.errstate(divide="ignore"):
        own = np.log(is_class * 1.0)
    return replace(
        inputs,
        columns=columns,
        vtree=Vtree(
            np.append(vtree.node_left, [NONE, root - 2]).astype(np.int32),
            np.append(vtree.node_right, [NONE, root - 1]).astype(np.int32),
            np.append(vtree.node_var, [vtree.n_vars, NONE]).astype(np.int32),
        ),
        leaf_column=np.append(inputs.leaf_column, vtree.n_vars),
        leaf_log_p=np.vstack([inputs.leaf_log_p, own]),
        sum_vtree=np.append(inputs.sum_vtree, root),
        sum_edges=np.append(inputs.sum_edges, inputs.n_edges + 1),
        edge_left=left,
        edge_right=right,
        edge_log_theta=np.vstack([inputs.edge_log_theta, np.zeros((1, k))]),
        known=None if inputs.known is None else np.vstack([inputs.known, np.ones_like(own)]),
    )
