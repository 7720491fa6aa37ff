"""The same model with finer cells: ``age >= 37.5`` becomes a variable where cells meet elsewhere.

In:  a model that was learned from a table, and bounds of its columns.
Out: an equal model whose cells also meet at the bounds.

Given its cell, a number is independent of everything else, so a part of a cell has its share of
the cell's probability. Wherever the 0/1 variables of a column lie together in the vtree, a node
over them is a distribution of the column's cells. It is replaced by the distribution of the finer
cells, as a balanced tree over their thermometer code. Nothing above changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from strudel._names import find_name, names_of, places_of, quote
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.builder import assemble
from strudel.circuits.circuit import Circuit
from strudel.circuits.evaluate import node_log_values
from strudel.circuits.mixture import Mixture
from strudel.circuits.properties import check_properties
from strudel.logic.column_events import event_of_values
from strudel.logic.event_forms import event_of
from strudel.logic.events import Event, with_leaves
from strudel.logic.sdd import nnf_from_sdd
from strudel.queries.model import Model, structure_of
from strudel.tables.coded_column import CodedColumn
from strudel.tables.column import bound_text
from strudel.tables.density import CellDistribution
from strudel.tables.table_code import CodedNames, TableCode
from strudel.trees.vtree import Vtree, VtreeNodes

# The least share of a part of a cell. The density may exclude a part, such as that between two
# whole numbers, but a row may still hold a value of it, and is then not impossible.
LEAST = 1e-15
BLOCK_VALUES = 2**24  # of all nodes for the cells of a column and some components


def with_finer_cells(model: Model, bounds: Mapping[str, Iterable[float]], query: str) -> Model:
    """The model whose cells also meet at these bounds of columns; itself if they already do.

    Examples
    --------
    >>> from strudel import Strudel, probability
    >>> rows = [["red", 20], ["red", 40], ["blue", 60], ["green", 60]] * 50
    >>> model = Strudel(n_components=1, random_state=0, max_splits=0).fit(rows).circuit_
    >>> finer = with_finer_cells(model, {"x1": [30.0, 50.0]}, "example")
    >>> finer.table_code.column("x1").labels
    ('<30', '[30, 40)', '[40, 50)', '[50, 60)', '>=60')
    """
    code = model.table_code
    finer: dict[str, _Finer] = {}
    for column in code.columns if code is not None else ():
        new = sorted(set(map(float, bounds.get(column.name, ()))) - set(column.cell_edges))
        if new:
            make = _finer if column.is_numeric else _finer_category
            finer[column.name] = make(column, new)
    if code is None or not finer:
        return model
    check_properties(structure_of(model), query, "in_normal_form")
    layout = _layout(model.vtree, code, finer)
    names = CodedNames(layout.code, _names(model, code, layout.code))
    if isinstance(model, Mixture):
        structure, log_theta = _refined(model.structure, model.edge_log_theta, layout)
        known = None if model.known is None else _finer_known(model.known, code, layout.code)
        return Mixture(structure.with_names(names), log_theta, model.log_weight, known)
    return _refined(model, model.edge_log_theta[:, np.newaxis], layout)[0].with_names(names)


def _finer_known(known: FloatArray, code: TableCode, finer: TableCode) -> FloatArray:
    """How often components know the variables of finer columns: as often as before."""
    parts = [
        np.repeat(known[old.start : old.start + 1], new.stop - new.start, axis=0)
        if old.stop > old.start
        else np.ones((new.stop - new.start, known.shape[1]))
        for old, new in zip(code.columns, finer.columns, strict=True)
    ]
    return np.concatenate(parts)


def in_variables(event: Event, original: Model, finer: Model) -> Event:
    """An event about a model in the variables of `finer`, whose cells meet at its bounds.

    Variables are those of the original model, by name or number.
    """
    old, new = original.table_code, finer.table_code
    assert old is not None
    assert new is not None
    names = names_of(finer.n_vars, finer.feature_names)
    place = places_of(names_of(original.n_vars, original.feature_names))

    def moved(leaf: Event) -> Event:
        if leaf.kind == "bound":
            after = new.column(str(leaf.var))
            is_above = np.array([-np.inf, *after.cell_edges]) >= leaf.bound
            return event_of_values(after, names, is_above[after.value_cell])
        if leaf.sdd is not None:  # its variables are numbers
            formula = event_of(nnf_from_sdd(leaf.sdd))
            assert formula is not None
            return with_leaves(formula, moved)
        var = find_name(leaf.var, place, "The event")
        before = next(column for column in old.columns if var < column.stop)
        after, bit = new.column(before.name), var - before.start
        if after.cell_edges == before.cell_edges:
            return Event("variable", var=names[after.start + bit])
        is_one = before.cell_words[_parents(before, after.cell_edges), bit] == 1
        return event_of_values(after, names, is_one[after.value_cell])

    return with_leaves(event, moved)


def _parents(column: CodedColumn, edges: Sequence[float]) -> AnyArray:
    """The cell that every cell between finer edges is a part of, `(n_finer,)`."""
    return np.searchsorted(np.array(column.cell_edges), [-np.inf, *edges], side="right")


def bits_in_finer(bits: FloatArray, original: Model, finer: Model, name: str) -> dict[str, int]:
    """What a row of the variables of a model says in those of `finer`, by their names."""
    old, new = original.table_code, finer.table_code
    assert old is not None
    assert new is not None
    found: dict[int, int] = {}
    for before, after in zip(old.columns, new.columns, strict=True):
        own = bits[before.start : before.stop]
        known = np.flatnonzero(~np.isnan(own)).tolist()
        if not known:
            continue
        if after.cell_edges == before.cell_edges:
            found.update((after.start + bit, int(own[bit])) for bit in known)
            continue
        agrees = (before.cell_words[:, known] == own[known]).all(axis=1)
        literals = after.literals(agrees[_parents(before, after.cell_edges)][after.value_cell])
        if not agrees.any():  # the codeword of no value
            literals = ((after.start, 0), (after.stop - 1, 1))
        if literals is None:
            raise ValueError(
                f"{name} gives {before.variable_names[known[0]]!r}, but the predictor cuts column "
                f"{before.name!r} elsewhere. Give the column itself."
            )
        found.update(literals)
    return {new.variable_names[var]: bit for var, bit in found.items()}


class _Finer(NamedTuple):
    """A column with finer cells, and which share of every old cell each of them has."""

    column: CodedColumn
    share: FloatArray  # (n_old, n_new) rows add up to one


def _finer(column: CodedColumn, new: Sequence[float]) -> _Finer:
    edges = sorted({*column.edges, *new})
    cells = column.cells
    parent = _parents(column, edges)
    made = replace(column, density=cells.density, codewords=column.codewords)
    low, high = np.array([-np.inf, *edges]), np.array([*edges, np.inf])
    mass = _masses(made, low, high)
    share = np.zeros((column.n_values, len(low)))
    share[parent, np.arange(len(low))] = mass
    total = share.sum(axis=1, keepdims=True)
    share = np.divide(share, total, out=np.zeros_like(share), where=total > 0.0)
    share[parent, np.arange(len(low))] = np.maximum(share[parent, np.arange(len(low))], LEAST)
    share /= share.sum(axis=1, keepdims=True)
    names = dict(zip(column.edges, column.variable_names, strict=False))
    if not np.array_equal(column.codewords, np.tri(column.n_values, len(column.edges), -1)):
        names = {}
    texts = [bound_text(column, edge) for edge in edges]
    ranges = []
    for cell, first, last in zip(parent.tolist(), low.tolist(), high.tolist(), strict=True):
        seen = [float(np.clip(end, first, last)) for end in column.ranges[cell]]
        ranges.append((min(seen), max(seen)))
    values = _values(made, edges, parent)
    counts = np.rint(np.array(column.counts) @ share).astype(np.int64)
    n_cells = len(low)
    finer = replace(
        made,
        stop=column.start + n_cells - 1,
        labels=(f"<{texts[0]}", *(f"[{a}, {b})" for a, b in pairwise(texts)), f">={texts[-1]}"),
        codewords=np.tri(n_cells, n_cells - 1, -1, dtype=np.uint8),
        variable_names=tuple(
            names.get(edge, f"{column.name}>={text}")
            for edge, text in zip(edges, texts, strict=True)
        ),
        values=values,
        edges=tuple(edges),
        ranges=tuple(ranges),
        counts=tuple(counts.tolist()),
    )
    return _Finer(finer, share)


def _finer_category(column: CodedColumn, new: Sequence[float]) -> _Finer:
    """The same for categories that share a cell: bounds are places of values."""
    edges = sorted({*column.cell_edges, *new})
    n_cells = len(edges) + 1
    cell = np.searchsorted(edges, np.arange(column.n_values), side="right")
    share = np.zeros((len(column.cell_words), n_cells))
    np.add.at(share, (column.value_cell, cell), np.maximum(column.value_share, LEAST))
    finer = replace(
        column,
        stop=column.start + n_cells - 1,
        codewords=np.tri(n_cells, n_cells - 1, -1, dtype=np.uint8)[cell],
        variable_names=tuple(
            f"{column.name} is {column.labels[int(edge)]} or later" for edge in edges
        ),
    )
    return _Finer(finer, share / share.sum(axis=1, keepdims=True))


def _masses(column: CodedColumn, low: FloatArray, high: FloatArray) -> FloatArray:
    """The mass of every interval, within the region of the column."""
    mass = np.zeros(len(low))
    for first, last in column.cells.region:
        start, stop = np.clip(low, first, last), np.clip(high, first, last)
        mass += column.cells.density.moments(start, np.maximum(start, stop))[0]
    return np.maximum(mass, 0.0)


def _values(column: CodedColumn, edges: Sequence[float], parent: AnyArray) -> tuple[Any, ...]:
    """What stands for each finer cell: the value of a whole one, the median of a part."""
    found = [column.cell_values[cell] for cell in parent]
    is_part = np.bincount(parent)[parent] > 1
    is_part |= np.array([value is None for value in found])
    cells = CellDistribution(edges, column.cells.density, column.cells.region)
    is_whole = column.dtype in ("integer", "boolean", "duration") or column.kind == "date"
    medians = cells.medians(is_part)
    ends = np.where(np.isinf(cells.low), np.nextafter(cells.high, -np.inf), cells.low)
    for place in np.flatnonzero(is_part):
        number = float(ends[place] if np.isnan(medians[place]) else medians[place])
        if is_whole:
            below = int(np.floor(number))
            found[place] = below if below >= cells.low[place] else int(np.ceil(number))
        else:
            found[place] = number
    return tuple(found)


def _names(model: Model, old: TableCode, new: TableCode) -> list[str]:
    """The names of the variables; those of columns that stay are the model's."""
    own = model.feature_names or old.variable_names
    names: list[str] = []
    for before, after in zip(old.columns, new.columns, strict=True):
        is_same = after.cell_edges == before.cell_edges
        names += own[before.start : before.stop] if is_same else after.variable_names
    return names


class _Span(NamedTuple):
    """Some bits of a column side by side, in two halves."""

    first: int
    last: int  # one after
    left: int = NONE  # the place of each half among the spans; NONE for a single bit
    right: int = NONE


def _spans(n_bits: int) -> list[_Span]:
    """All bits in halves, and these again; children first, all bits last."""
    found: list[_Span] = []

    def add(first: int, last: int) -> int:
        if last - first == 1:
            found.append(_Span(first, last))
        else:
            middle = (first + last) // 2
            left, right = add(first, middle), add(middle, last)
            found.append(_Span(first, last, left, right))
        return len(found) - 1

    add(0, n_bits)
    return found


class _Change(NamedTuple):
    """A column whose nodes are replaced."""

    old: CodedColumn
    share: FloatArray
    top: int  # the old vtree node over its variables
    start: int  # its first new variable
    spans: list[_Span]
    span_node: IntArray  # (n_spans,) new vtree nodes


class _Layout(NamedTuple):
    """The new variables and vtree nodes."""

    code: TableCode
    vtree: Vtree
    new_var: IntArray  # (n_old_vars,) NONE where replaced
    new_node: IntArray  # (n_old_vtree_nodes,) NONE where replaced
    changes: list[_Change]


def _layout(vtree: Vtree, code: TableCode, finer: Mapping[str, _Finer]) -> _Layout:
    columns: list[CodedColumn] = []
    new_var = np.full(vtree.n_vars, NONE, dtype=np.int32)
    at = 0
    tops: dict[int, CodedColumn] = {}
    is_below = np.zeros(vtree.n_nodes, dtype=np.bool_)
    first, last = vtree.node_span
    for column in code.columns:
        own = finer[column.name].column if column.name in finer else column
        width = own.stop - own.start
        columns.append(replace(own, start=at, stop=at + width))
        if column.name in finer:
            top = _node_over(vtree, column)
            tops[top] = columns[-1]
            is_below |= (first >= first[top]) & (last <= last[top])
        else:
            new_var[column.start : column.stop] = np.arange(at, at + width)
        at += width
    nodes = VtreeNodes()
    made = np.full(vtree.n_nodes, NONE, dtype=np.int32)
    spans: dict[str, tuple[list[_Span], list[int]]] = {}
    for v in range(vtree.n_nodes):
        if v in tops:
            own_spans, own_nodes = _spans(tops[v].stop - tops[v].start), list[int]()
            for span in own_spans:
                own_nodes.append(
                    nodes.leaf(tops[v].start + span.first)
                    if span.left == NONE
                    else nodes.inner(own_nodes[span.left], own_nodes[span.right])
                )
            spans[tops[v].name] = own_spans, own_nodes
            made[v] = own_nodes[-1]
        elif not is_below[v]:
            var = int(vtree.node_var[v])
            if var != NONE:
                made[v] = nodes.leaf(int(new_var[var]))
            else:
                made[v] = nodes.inner(int(made[vtree.node_left[v]]), int(made[vtree.node_right[v]]))
    wider, number = nodes.build_from(int(made[-1]))
    changes = [
        _Change(
            code.column(column.name),
            finer[column.name].share,
            top,
            column.start,
            spans[column.name][0],
            number[spans[column.name][1]],
        )
        for top, column in tops.items()
    ]
    new_node = np.where(made == NONE, np.int32(NONE), number[made])
    return _Layout(replace(code, columns=tuple(columns)), wider, new_var, new_node, changes)


def _node_over(vtree: Vtree, column: CodedColumn) -> int:
    """The vtree node over the variables of a column and no others."""
    first, last = vtree.node_span
    place = first[vtree.var_leaf[np.array(column.variables)]]
    found = np.flatnonzero((first == place.min()) & (last == place.max() + 1))
    if len(found) != 1 or place.max() - place.min() + 1 != len(place):
        raise ValueError(
            f"Parts of the cells of column {column.name!r} are asked for, but the model keeps its "
            f"variables ({quote(column.variable_names)}) apart. Let the cells end there: learn "
            "with TableEncoder(edges=...), or with respect_one_hot=True."
        )
    return int(found[0])


def _refined(
    circuit: Circuit, log_theta: FloatArray, layout: _Layout
) -> tuple[Circuit, FloatArray]:
    """A structure and its columns of parameters over the new variables."""
    vtree, n_columns = layout.vtree, log_theta.shape[1]
    n_literals, old_literals = 2 * vtree.n_vars, 2 * circuit.n_vars
    of_node = np.full(circuit.n_nodes + 1, NONE, dtype=np.int32)  # NONE stays NONE
    for value in (0, 1):
        is_kept = layout.new_var != NONE
        of_node[value:old_literals:2][is_kept] = 2 * layout.new_var[is_kept] + value
    node_vtree: list[AnyArray] = [np.repeat(vtree.var_leaf, 2)]
    edges: list[tuple[AnyArray, AnyArray, AnyArray]] = []
    logs: list[FloatArray] = []
    at = n_literals
    for change in layout.changes:
        nodes = np.flatnonzero(circuit.node_vtree == change.top)
        made = _distributions(change, _cell_probabilities(circuit, log_theta, change, nodes), at)
        of_node[nodes] = made.top
        node_vtree.append(made.node_vtree)
        edges.append(made.edges)
        logs.append(made.edge_log_theta)
        at += len(made.node_vtree)
    sums = np.arange(old_literals, circuit.n_nodes)
    sums = sums[
        (layout.new_node[circuit.node_vtree[sums]] != NONE)
        & ~np.isin(circuit.node_vtree[sums], [change.top for change in layout.changes])
    ]
    of_node[sums] = np.arange(at, at + len(sums))
    node_vtree.append(layout.new_node[circuit.node_vtree[sums]])
    is_kept = np.isin(circuit.edge_parent, sums)
    edges.append(
        (
            of_node[circuit.edge_parent[is_kept]],
            of_node[circuit.edge_left[is_kept]],
            of_node[circuit.edge_right[is_kept]],
        )
    )
    logs.append(log_theta[is_kept])
    parent, left, right = (
        np.concatenate(part).astype(np.int32) for part in zip(*edges, strict=True)
    )
    both = np.concatenate(logs)
    made_circuit = assemble(
        vtree,
        np.concatenate(node_vtree).astype(np.int32),
        parent,
        left,
        right,
        np.arange(len(parent), dtype=np.float64),  # which edge is which
        root=int(of_node[circuit.root]),
    )
    kept = both[made_circuit.edge_log_theta.astype(np.int64)]
    assert kept.shape[1] == n_columns
    return made_circuit.with_parameters(kept.max(axis=1)), kept


def _cell_probabilities(
    circuit: Circuit, log_theta: FloatArray, change: _Change, nodes: AnyArray
) -> FloatArray:
    """What nodes over a column give each of its finer cells, `(n_nodes, n_cells, n_columns)`."""
    column = change.old
    n_cells = len(column.cell_words)
    rows = np.full((n_cells, circuit.n_vars), np.nan)
    rows[:, column.start : column.stop] = column.cell_words
    found = np.empty((len(nodes), change.share.shape[1], log_theta.shape[1]))
    step = max(1, BLOCK_VALUES // (circuit.n_nodes * n_cells))
    for at in range(0, log_theta.shape[1], step):
        part = log_theta[:, at : at + step]
        value = node_log_values(circuit.edges, part, rows)[nodes]  # (n_nodes, n_values, n_part)
        found[:, :, at : at + step] = np.einsum("nvc,vk->nkc", np.exp(value), change.share)
    return found


class _Distributions(NamedTuple):
    """New nodes over the bits of one column."""

    top: IntArray  # (n_nodes,) the new number of each old node
    node_vtree: IntArray
    edges: tuple[IntArray, IntArray, IntArray]  # parent, left, right
    edge_log_theta: FloatArray  # (n_edges, n_columns)


def _distributions(change: _Change, probability: FloatArray, first: int) -> _Distributions:
    """Distributions of cells `(n_nodes, n_cells, n_columns)` over the bits of a thermometer code.

    Bit j says that the cell is j + 1 or later. The bits of a span are all 0, or all 1, or they
    change between two of them: in the left half, from one half to the other, or in the right half.
    Nodes of the first two kinds are shared, those of the third belong to one distribution.
    """
    n_nodes, _, n_columns = probability.shape
    spans, top = change.spans, len(change.spans) - 1
    node_vtree: list[AnyArray] = []
    edges: list[tuple[AnyArray, AnyArray, AnyArray]] = []
    logs: list[FloatArray] = []
    same = np.zeros((len(spans), 2), dtype=np.int64)  # nodes whose bits are all 0, or all 1
    own = np.zeros((len(spans), n_nodes), dtype=np.int64)  # nodes whose bits change inside
    inside = np.zeros((len(spans), n_nodes, n_columns))  # and how probable that is
    at = first

    def add(parent: AnyArray, left: Any, right: Any, theta: Any) -> None:
        """An edge of each parent; those that nothing passes are left out.

        So a deterministic circuit stays one.
        """
        shape = np.shape(parent)
        ends = [np.broadcast_to(end, shape) for end in (left, right)]
        theta = np.broadcast_to(theta, (*shape, n_columns))
        is_live = np.any(theta > 0.0, axis=1)
        edges.append((parent[is_live], ends[0][is_live], ends[1][is_live]))
        with np.errstate(divide="ignore"):
            logs.append(np.log(theta[is_live]))

    for i, span in enumerate(spans):
        if span.left == NONE:
            same[i] = 2 * (change.start + span.first) + np.arange(2)
        else:
            same[i], at = at + np.arange(2), at + 2
            node_vtree.append(np.repeat(change.span_node[i], 2))
            add(same[i], same[span.left], same[span.right], 1.0)
        if span.left == NONE and i < top:
            continue
        own[i], at = at + np.arange(n_nodes), at + n_nodes
        node_vtree.append(np.repeat(change.span_node[i], n_nodes))
        if span.left == NONE:  # there is one bit in all
            add(own[i], same[i, 1], NONE, probability[:, 1])
            add(own[i], same[i, 0], NONE, probability[:, 0])
            continue
        zeros, ones = same[span.right, 0], same[span.left, 1]
        between = probability[:, spans[span.left].last]
        inside[i] = inside[span.left] + between + inside[span.right]
        # What all bits together add up to stays; below, a distribution adds up to one.
        whole = 1.0 if i == top else np.where(inside[i] > 0.0, inside[i], 1.0)
        add(own[i], own[span.left], zeros, inside[span.left] / whole)
        add(own[i], ones, zeros, between / whole)
        add(own[i], ones, own[span.right], inside[span.right] / whole)
    if spans[top].left != NONE:
        left, right = spans[top].left, spans[top].right
        add(own[top], same[left, 1], same[right, 1], probability[:, -1])
        add(own[top], same[left, 0], same[right, 0], probability[:, 0])
        # A node that no cell is left of, as given a region, keeps an edge that nothing passes.
        dead = own[top][~np.any(probability > 0.0, axis=(1, 2))]
        edges.append((dead, np.full(len(dead), same[left, 0]), np.full(len(dead), same[right, 0])))
        logs.append(np.full((len(dead), n_columns), -np.inf))
    parent, left_ends, right_ends = (
        np.concatenate(part).astype(np.int32) for part in zip(*edges, strict=True)
    )
    return _Distributions(
        own[top].astype(np.int32),
        np.concatenate(node_vtree).astype(np.int32),
        (parent, left_ends, right_ends),
        np.concatenate(logs),
    )
