"""The same model with finer cells: ``age >= 37.5`` becomes a variable where cells meet elsewhere.

In:  a model that was learned from a table, and bounds of its columns.
Out: an equal model whose cells also meet at the bounds.

Given its cell, a number is independent of everything else, so a part of a cell has its share of
the cell's probability. Wherever the 0/1 variables of a column lie together in the vtree, a node
over them is a distribution of the column's cells. It is replaced by the distribution of the finer
cells, as a chain over their thermometer code. Nothing above changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from strudel._names import quote
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.builder import assemble
from strudel.circuits.circuit import Circuit
from strudel.circuits.circuit_mixture import CircuitMixture
from strudel.circuits.evaluate import node_log_values
from strudel.circuits.mixture import Mixture
from strudel.circuits.properties import check_properties
from strudel.queries.model import Model, structures_of
from strudel.tables.coded_column import Column
from strudel.tables.coded_rows import CodedNames
from strudel.tables.column_conditions import bound_text
from strudel.tables.table_code import TableCode
from strudel.trees.vtree import Vtree, VtreeNodes

# The least share of a part of a cell. The density may exclude a part, such as that between two
# whole numbers, but a row may still hold a value of it, and is then not impossible.
LEAST = 1e-15
BLOCK_VALUES = 2**24  # of all nodes for the cells of a column and some components


def with_finer_cells(model: Model, bounds: Mapping[str, Sequence[float]], query: str) -> Model:
    """The model whose cells also meet at these bounds of columns; itself if they already do.

    Examples
    --------
    >>> from strudel import Strudel, probability
    >>> rows = [["red", 20], ["red", 40], ["blue", 60], ["green", 60]] * 50
    >>> model = Strudel(encoder="auto", random_state=0, max_splits=0).fit(rows).circuit_
    >>> finer = with_finer_cells(model, {"x1": [30.0, 50.0]}, "example")
    >>> finer.table_code.column("x1").labels
    ('<30', '[30, 40)', '[40, 50)', '[50, 60)', '>=60')
    """
    code = model.table_code
    finer: dict[str, _Finer] = {}
    for column in code.columns if code is not None else ():
        new = sorted(set(map(float, bounds.get(column.name, ()))) - set(column.edges))
        if new:
            finer[column.name] = _finer(column, new)
    if code is None or not finer:
        return model
    for structure in structures_of(model):
        check_properties(structure, query, "in_normal_form")
    layout = _layout(structures_of(model)[0].vtree, code, finer)
    names = CodedNames(layout.code, _names(model, code, layout.code))
    if isinstance(model, CircuitMixture):
        parts = [
            _refined(part, part.edge_log_theta[:, np.newaxis], layout)[0].with_names(names)
            for part in model.circuits
        ]
        return CircuitMixture(parts, model.log_weight)
    if isinstance(model, Mixture):
        structure, log_theta = _refined(model.structure, model.edge_log_theta, layout)
        return Mixture(structure.with_names(names), log_theta, model.log_weight)
    return _refined(model, model.edge_log_theta[:, np.newaxis], layout)[0].with_names(names)


class _Finer(NamedTuple):
    """A column with finer cells, and which share of every old cell each of them has."""

    column: Column
    share: FloatArray  # (n_old, n_new) rows add up to one


def _finer(column: Column, new: Sequence[float]) -> _Finer:
    edges = sorted({*column.edges, *new})
    cells = column.cells
    parent = np.searchsorted(np.array(column.edges), [-np.inf, *edges], side="right")
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
    values, ranges = [], []
    for cell, first, last in zip(parent.tolist(), low.tolist(), high.tolist(), strict=True):
        seen = [float(np.clip(end, first, last)) for end in column.ranges[cell]]
        value = column.values[cell]
        if value is None or not first <= value < last:
            value = first if first > -np.inf else float(np.nextafter(last, -np.inf))
            value = _of_its_type(column, value)
        values.append(value)
        ranges.append((min(seen), max(seen)))
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
        values=tuple(values),
        edges=tuple(edges),
        ranges=tuple(ranges),
        counts=tuple(counts.tolist()),
    )
    return _Finer(finer, share)


def _masses(column: Column, low: FloatArray, high: FloatArray) -> FloatArray:
    """The mass of every interval, within the region of the column."""
    mass = np.zeros(len(low))
    for first, last in column.cells.region:
        start, stop = np.clip(low, first, last), np.clip(high, first, last)
        mass += column.cells.density.moments(start, np.maximum(start, stop))[0]
    return np.maximum(mass, 0.0)


def _of_its_type(column: Column, number: float) -> float | int:
    is_whole = column.dtype in ("integer", "boolean", "duration") or column.kind == "date"
    return int(np.floor(number)) if is_whole else number


def _names(model: Model, old: TableCode, new: TableCode) -> list[str]:
    """The names of the variables; those of columns that stay are the model's."""
    own = model.feature_names or old.variable_names
    names: list[str] = []
    for before, after in zip(old.columns, new.columns, strict=True):
        is_same = after.edges == before.edges
        names += own[before.start : before.stop] if is_same else after.variable_names
    return names


class _Change(NamedTuple):
    """A column whose nodes are replaced."""

    old: Column
    share: FloatArray
    top: int  # the old vtree node over its variables
    start: int  # its first new variable
    chain: IntArray  # (n_bits,) new vtree nodes over the bits from each one on


class _Layout(NamedTuple):
    """The new variables and vtree nodes."""

    code: TableCode
    vtree: Vtree
    new_var: IntArray  # (n_old_vars,) NONE where replaced
    new_node: IntArray  # (n_old_vtree_nodes,) NONE where replaced
    changes: list[_Change]


def _layout(vtree: Vtree, code: TableCode, finer: Mapping[str, _Finer]) -> _Layout:
    columns: list[Column] = []
    new_var = np.full(vtree.n_vars, NONE, dtype=np.int32)
    at = 0
    tops: dict[int, Column] = {}
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
    chains: dict[str, list[int]] = {}
    for v in range(vtree.n_nodes):
        if v in tops:
            leaves = [nodes.leaf(var) for var in tops[v].variables]
            chain = [leaves[-1]]
            for leaf in reversed(leaves[:-1]):
                chain.append(nodes.inner(leaf, chain[-1]))
            chains[tops[v].name] = chain[::-1]
            made[v] = chain[-1]
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
            number[chains[column.name]],
        )
        for top, column in tops.items()
    ]
    new_node = np.where(made == NONE, np.int32(NONE), number[made])
    return _Layout(replace(code, columns=tuple(columns)), wider, new_var, new_node, changes)


def _node_over(vtree: Vtree, column: Column) -> int:
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
        made = _chains(change, _cell_probabilities(circuit, log_theta, change, nodes), at)
        of_node[nodes] = made.top
        node_vtree.append(made.node_vtree)
        # Without edges that nothing passes, a deterministic circuit stays so.
        is_live = np.any(made.edge_log_theta > -np.inf, axis=1)
        parent, left, right = (part[is_live] for part in made.edges)
        edges.append((parent, left, right))
        logs.append(made.edge_log_theta[is_live])
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
    rows = np.full((column.n_values, circuit.n_vars), np.nan)
    rows[:, column.start : column.stop] = column.codewords
    found = np.empty((len(nodes), change.share.shape[1], log_theta.shape[1]))
    step = max(1, BLOCK_VALUES // (circuit.n_nodes * column.n_values))
    for at in range(0, log_theta.shape[1], step):
        part = log_theta[:, at : at + step]
        value = node_log_values(circuit.edges, part, rows)[nodes]  # (n_nodes, n_values, n_part)
        found[:, :, at : at + step] = np.einsum("nvc,vk->nkc", np.exp(value), change.share)
    return found


class _Chains(NamedTuple):
    """New nodes over the bits of one column."""

    top: IntArray  # (n_nodes,) the new number of each old node
    node_vtree: IntArray
    edges: tuple[IntArray, IntArray, IntArray]  # parent, left, right
    edge_log_theta: FloatArray  # (n_edges, n_columns)


def _chains(change: _Change, probability: FloatArray, first: int) -> _Chains:
    """Distributions of cells as chains: is it the first cell, else is it the second, ...

    Bit j says that the cell is j + 1 or later. After a bit that is 0 all others are: such nodes are
    shared.
    """
    n_nodes, n_cells, n_columns = probability.shape
    n_bits = n_cells - 1
    zero = 2 * np.arange(change.start, change.start + n_bits)
    # Shared nodes where the bits from j on are 0, for j below the last; the literal itself there.
    zeros = np.append(first + np.arange(n_bits - 1), zero[-1])
    sums = first + n_bits - 1 + np.arange(n_nodes * n_bits).reshape(n_nodes, n_bits)
    tail = np.cumsum(probability[:, ::-1], axis=1)[:, ::-1]
    whole = np.where(tail > 0.0, tail, 1.0)
    whole[:, 0] = 1.0  # what the node adds up to stays
    stays = np.where(tail[:, :-1] > 0.0, probability[:, :-1] / whole[:, :-1], 1.0)
    goes = tail[:, 1:] / whole[:, :-1]
    stays[:, 0] = probability[:, 0]
    with np.errstate(divide="ignore"):
        logs = np.log(np.stack([stays, goes], axis=2))  # (n_nodes, n_bits, 2, n_columns)
    left = np.broadcast_to(np.stack([zero, zero + 1], axis=1), (n_nodes, n_bits, 2))
    right = np.full((n_nodes, n_bits, 2), NONE)
    right[:, :-1, 0] = zeros[1:]
    right[:, :-1, 1] = sums[:, 1:]
    parent = np.repeat(sums[:, :, np.newaxis], 2, axis=2)
    shared = np.arange(n_bits - 1)
    return _Chains(
        sums[:, 0],
        np.concatenate([change.chain[:-1], np.tile(change.chain, n_nodes)]),
        (
            np.concatenate([zeros[:-1], parent.ravel()]),
            np.concatenate([zero[shared], left.ravel()]),
            np.concatenate([zeros[shared + 1], right.ravel()]),
        ),
        np.concatenate([np.zeros((n_bits - 1, n_columns)), logs.reshape(-1, n_columns)]),
    )
