"""Finer and coarser cells: a circuit whose columns of numbers have edges elsewhere.

In:  a `Circuit`, and for some columns numbers or dates.
Out: the same distribution, in which cells meet at these numbers, too; or that of groups of cells,
     which are what people see.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from strudel._types import NONE, AnyArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.properties import as_deterministic_as
from strudel.circuits.walks import log_sums
from strudel.tables.column import Column, bound_text
from strudel.tables.density import CellDistribution


def with_edges(circuit: Circuit, edges: Mapping[int, Iterable[float]]) -> Circuit:
    """The same distribution with more edges of some columns, by their places."""
    columns, logs = list(circuit.columns), []
    is_changed = False
    for place in range(len(columns)):
        column, table = columns[place], circuit.leaf_table(place)
        new = set(edges.get(place, ())) - set(column.edges) - {-np.inf, np.inf}
        if new and column.is_numeric:
            is_changed = True
            columns[place], parent, share = finer_column(column, new)
            with np.errstate(divide="ignore"):
                table = table[:, parent] + np.log(share)[:, np.newaxis]
        logs.append(table.reshape(-1, circuit.n_components))
    if not is_changed:
        return circuit
    own = replace(circuit.columns, columns=tuple(columns))
    made = replace(circuit, columns=own, leaf_log_p=np.concatenate(logs))
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
