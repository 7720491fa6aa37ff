"""Folding: a circuit over the 0/1 variables of a table as one over its columns, and back.

In:  a `BitCircuit` or `BitMixture` in normal form, whose variables code the columns of a table, or
     are columns themselves.
Out: the same distribution as a `Circuit` (`fold`), and from that one over 0/1 variables
     again, for a learner to go on from (`unfold`).

All sums at the vtree node of a column become leaves: the probability of each cell is that of its
bits, found by one pass up the nodes below. The other way, a leaf is a sum of the codewords of its
cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from strudel._names import names_of
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.builder import CircuitBuilder
from strudel.circuits.circuit import Circuit
from strudel.circuits.compile import Codewords
from strudel.circuits.normalization import normalized_columns
from strudel.circuits.properties import is_known_deterministic, made_deterministic
from strudel.errors import CircuitPropertyError
from strudel.learning.bits.circuit import BitCircuit
from strudel.learning.bits.mixture import BitMixture, as_mixture
from strudel.learning.bits.scopes import reached_nodes
from strudel.tables.column_codes import as_column_codes, free_bit
from strudel.tables.schema import Columns, bit_columns
from strudel.tables.table_code import TableCode
from strudel.trees.column_tree import column_tops, vtree_of_variables
from strudel.trees.vtree import Vtree

ROUNDING = 1e-9  # of what sums add up to
LITERALS = np.array([[0.0, -np.inf], [-np.inf, 0.0]])  # logs of X = 0 and of X = 1


def folded(model: BitCircuit | BitMixture) -> Circuit:
    """The same distribution over the columns of the model's table."""
    made = model.__dict__.get("_folded")
    if made is None:
        made = model.__dict__["_folded"] = _folded(as_mixture(model))
    found: Circuit = made
    return found


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
        known=None if inputs.known is None else np.vstack([inputs.known, np.ones((1, k))]),
    )


def _folded(model: BitMixture) -> Circuit:
    code = model.table_code
    columns = (
        bit_columns(names_of(model.n_vars, model.feature_names), "pandas")
        if code is None
        else code.as_columns
    )
    return over_columns(model, columns.shown, code)


def over_columns(
    model: BitCircuit | BitMixture, columns: Columns, code: TableCode | None
) -> Circuit:
    """The distribution over the columns whose groups a code has bits for; None: they are bits.

    A cell has its share of the group, as all rows have it. That the column knows, too, so columns
    as they are `shown` answer alike, and are smaller.
    """
    model = as_mixture(model)
    if not model.structure.is_in_normal_form:
        raise CircuitPropertyError(
            "This question needs a circuit in normal form, but this one has products that do not "
            "follow its vtree."
        )
    log_theta, log_total = _normalised(model.structure, model.edge_log_theta)
    log_weight = model.log_weight + log_total
    total = float(np.logaddexp.reduce(log_weight))
    log_weight = log_weight - total if total > -np.inf else model.log_weight
    known = model.known
    if code is None:
        patterns = _each_a_column(model.n_vars)
    else:
        patterns = [
            Patterns(own.variables, own.codewords.astype(np.int64)[group], column.share_of_group)
            for own, column in zip(code.columns, columns, strict=True)
            for group in [column.group_of_cell]
        ]
        known = None if known is None else known[[own.start for own in code.columns]]
    made = fold(model.structure, log_theta, log_weight, columns, patterns)
    made = replace(made, known=known, log_total=total)
    return made_deterministic(made) if model.structure.is_known_deterministic else made


def fold(
    circuit: BitCircuit,
    log_theta: FloatArray,
    log_weight: FloatArray,
    columns: Columns,
    patterns: Sequence[Patterns],
) -> Circuit:
    """A circuit over 0/1 variables, with these parameters `(n_edges, k)`, over columns."""
    return _Folding(circuit, log_theta, log_weight, columns, patterns).run()


def fold_bits(circuit: BitCircuit, edge_log_weight: FloatArray) -> Circuit:
    """A structure over 0/1 variables with weights `(n_edges, k)`, every variable a column."""
    columns = bit_columns(names_of(circuit.n_vars, None))
    k = edge_log_weight.shape[1]
    even = np.full(k, -np.log(k))
    return fold(circuit, edge_log_weight, even, columns, _each_a_column(circuit.n_vars))


def unfold(circuit: Circuit, code: TableCode | None) -> BitMixture:
    """The same components over the 0/1 variables of a code, or over bits if there is none.

    Of categories that share a codeword, only what they add up to is kept.
    """
    return _Unfolding(circuit, code).run()


class Patterns(NamedTuple):
    """The 0/1 variables of a column, side by side in the vtree, and the bits of every cell."""

    variables: Sequence[int]
    bits: AnyArray  # (n_cells, n_variables)
    share: FloatArray  # (n_cells,) which part of what has these bits is the cell's


def _each_a_column(n_vars: int) -> list[Patterns]:
    words = np.array([[0], [1]])
    return [Patterns([var], words, np.ones(2)) for var in range(n_vars)]


class _Folding:
    """A structure and its parameters, while its lower sums become leaves."""

    def __init__(
        self,
        circuit: BitCircuit,
        log_theta: FloatArray,
        log_weight: FloatArray,
        columns: Columns,
        patterns: Sequence[Patterns],
    ) -> None:
        self.circuit, self.log_theta, self.log_weight = circuit, log_theta, log_weight
        self.columns, self.patterns = columns, patterns
        self.is_kept = reached_nodes(circuit)

    def run(self) -> Circuit:
        circuit, k = self.circuit, len(self.log_weight)
        tops = [self._top(place) for place in range(len(self.columns))]
        number = np.full(circuit.n_nodes, NONE, dtype=np.int32)
        leaf_column, tables, n_leaves = [], [], 0
        for place, top in enumerate(tops):
            nodes, table = self._leaves(place, top)
            is_used = self.is_kept[nodes]
            nodes, table = nodes[is_used], table[is_used]
            number[nodes] = n_leaves + np.arange(len(nodes))
            n_leaves += len(nodes)
            self.is_kept[nodes] = False
            leaf_column.append(np.full(len(nodes), place))
            tables.append(table.reshape(-1, k))
        vtree, vtree_node = _vtree_above(circuit.vtree, tops)
        sums = np.flatnonzero(self.is_kept)
        place_of_sum = vtree_node[circuit.node_vtree[sums]]
        order = np.argsort(place_of_sum, kind="stable")
        sums = sums[order]
        number[sums] = n_leaves + np.arange(len(sums))
        width = circuit.node_edges[sums + 1] - circuit.node_edges[sums]
        edges = np.concatenate(
            [np.zeros(0, dtype=np.int64)]
            + [np.arange(circuit.node_edges[s], circuit.node_edges[s + 1]) for s in sums]
        )
        return Circuit(
            self.columns,
            vtree,
            np.concatenate(leaf_column).astype(np.int32),
            np.concatenate(tables),
            place_of_sum[order].astype(np.int32),
            np.concatenate([[0], np.cumsum(width)]).astype(np.int32),
            number[circuit.edge_left[edges]],
            number[circuit.edge_right[edges]],
            self.log_theta[edges],
            self.log_weight,
        )

    def _top(self, place: int) -> int:
        """The vtree node whose variables are those of a column."""
        vtree, variables = self.circuit.vtree, self.patterns[place].variables
        first, last = vtree.node_span
        at = first[vtree.var_leaf[list(variables)]]
        top = np.flatnonzero((first == at.min()) & (last == at.max() + 1))
        if not len(top) or at.max() - at.min() + 1 != len(variables):
            name = self.columns[place].name
            raise CircuitPropertyError(f"The variables of column {name!r} are not side by side.")
        return int(top[0])

    def _leaves(self, place: int, top: int) -> tuple[IntArray, FloatArray]:
        """The nodes at a column's vtree node, and the log-probability of every cell."""
        vtree = self.circuit.vtree
        own, patterns, share = self.patterns[place]
        variables = list(own)
        if len(variables) == 1 and np.array_equal(patterns, [[0], [1]]):
            return self._leaves_of_bit(variables[0])
        first, last = vtree.node_span
        below = np.flatnonzero((first >= first[top]) & (last <= last[top])).tolist()
        found: dict[int, tuple[IntArray, FloatArray]] = {}  # nodes, (n_nodes, n_cells, k)
        for v in below:  # children first
            var = int(vtree.node_var[v])
            shape = (len(patterns), len(self.log_weight))
            nodes, values = np.zeros(0, dtype=np.int32), np.zeros((0, *shape))
            if var != NONE:
                bit = patterns[:, variables.index(var), np.newaxis]
                both = [np.broadcast_to(bit == value, shape) for value in (0, 1)]
                nodes = np.array([2 * var, 2 * var + 1], dtype=np.int32)
                values = np.stack(both).astype(np.float64)
            first_sum, all_sums = self.circuit.sums_by_vtree
            sums = all_sums[first_sum[v] : first_sum[v + 1]]
            found[v] = nodes, values
            if len(sums):
                of_sums = self._sum_values(v, sums, found)
                found[v] = np.concatenate([nodes, sums]), np.concatenate([values, of_sums])
            if v != top:
                self.is_kept[found[v][0]] = False
        nodes, values = found[top]
        with np.errstate(divide="ignore"):
            return nodes, np.log(values * share[:, np.newaxis])

    def _leaves_of_bit(self, var: int) -> tuple[IntArray, FloatArray]:
        """The same of a single variable, whose logs are the parameters themselves."""
        literals = np.tile(LITERALS[:, :, np.newaxis], len(self.log_weight))
        first, all_sums = self.circuit.sums_by_vtree
        v = int(self.circuit.vtree.var_leaf[var])
        sums = all_sums[first[v] : first[v + 1]]
        nodes = np.array([2 * var, 2 * var + 1], dtype=np.int32)
        if not len(sums):
            return nodes, literals
        edges = self.circuit.vtree_edges(v)
        terms = self.log_theta[edges][:, np.newaxis] + literals[self.circuit.edge_left[edges] % 2]
        width = self.circuit.node_edges[sums + 1] - self.circuit.node_edges[sums]
        of_sums = np.logaddexp.reduceat(terms, np.cumsum(width) - width, axis=0)
        return np.concatenate([nodes, sums]), np.concatenate([literals, of_sums])

    def _sum_values(
        self, v: int, sums: IntArray, found: dict[int, tuple[IntArray, FloatArray]]
    ) -> FloatArray:
        circuit, vtree = self.circuit, self.circuit.vtree
        edges = circuit.vtree_edges(v)  # those of one sum side by side
        if vtree.node_var[v] != NONE:
            product = found[v][1][circuit.edge_left[edges] % 2]
        else:
            left = _values_of(circuit.edge_left[edges], *found[int(vtree.node_left[v])])
            right = _values_of(circuit.edge_right[edges], *found[int(vtree.node_right[v])])
            product = left * right
        terms = np.exp(self.log_theta[edges])[:, np.newaxis, :] * product
        width = circuit.node_edges[sums + 1] - circuit.node_edges[sums]
        values: FloatArray = np.add.reduceat(terms, np.cumsum(width) - width, axis=0)
        return values


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


def _values_of(ends: IntArray, nodes: IntArray, values: FloatArray) -> FloatArray:
    """The values of some nodes, which are all among `nodes`."""
    order = np.argsort(nodes)
    return values[order[np.searchsorted(nodes[order], ends)]]


def _normalised(circuit: BitCircuit, log_theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Parameters that add up to one in every sum, and the logs of what the components gave."""
    if circuit.n_edges == 0:  # a single variable that is known
        return log_theta, np.zeros(log_theta.shape[1])
    first = circuit.node_edges[2 * circuit.n_vars : -1]
    with np.errstate(over="ignore"):
        totals = np.add.reduceat(np.exp(log_theta), first, axis=0)
    if np.all(np.abs(totals - 1.0) <= ROUNDING):
        return log_theta, np.zeros(log_theta.shape[1])
    return normalized_columns(circuit.edges, log_theta, circuit.n_vars)


class _Unfolding:
    """A circuit over columns, while its leaves become sums over the codewords of cells."""

    def __init__(self, circuit: Circuit, code: TableCode | None) -> None:
        self.circuit = circuit
        if code is None:
            self.codes = tuple(free_bit(var) for var in range(len(circuit.columns)))
        else:
            self.codes = as_column_codes(code.columns)
        self.vtree = vtree_of_variables(circuit.vtree, self.codes)
        self.builder = CircuitBuilder(self.vtree)
        self.words = Codewords(self.builder)
        self.logs = [np.zeros((1, circuit.n_components))]  # an edge has the number of its line
        self.n_logs = 1

    def run(self) -> BitMixture:
        circuit = self.circuit
        node: list[int] = []
        for place, top in enumerate(column_tops(self.vtree, self.codes).tolist()):
            node += self._of_leaves(place, top)
        for s in range(len(circuit.sum_vtree)):
            edges = range(*circuit.sum_edges[s : s + 2].tolist())
            sides = [(node[circuit.edge_left[e]], node[circuit.edge_right[e]]) for e in edges]
            side = self.builder.node_vtree[sides[0][0]]
            at = int(self.vtree.node_parent[side])
            node.append(self._sum(at, sides, circuit.edge_log_theta[edges.start : edges.stop]))
        root = node[-1]
        if root < 2 * self.vtree.n_vars:  # a single variable that is known
            root = self.builder.add_at(self.vtree.root, [(root, NONE, 0.0)])
        structure = self.builder.build(root)
        log_theta = np.concatenate(self.logs)[structure.edge_log_theta.astype(np.int64)]
        structure = structure.with_parameters(log_theta[:, 0])
        if is_known_deterministic(circuit):
            structure.made_deterministic()
        known = circuit.known
        if known is not None:
            widths = [code.stop - code.start for code in self.codes]
            known = np.repeat(known, widths, axis=0)
        return BitMixture(structure, log_theta, circuit.log_weight, known)

    def _of_leaves(self, place: int, top: int) -> list[int]:
        """The nodes of the leaves of a column."""
        code, table = self.codes[place], self.circuit.leaf_table(place)
        first = self.circuit.columns[place].first_of_group
        logs = np.logaddexp.reduceat(table, first, axis=1)  # (n_leaves, n_words, k)
        words = [dict(enumerate(word, code.start)) for word in code.codewords.tolist()]
        made = []
        for own in logs:
            possible = np.flatnonzero((own > -np.inf).any(axis=1)).tolist() or range(len(words))
            if len(possible) == 1:
                made.append(self.words.conjunction(top, words[possible[0]]))
                continue
            possible = list(possible)
            if self.vtree.node_var[top] != NONE:
                possible.sort(reverse=True)  # a sum over literals has that of 1 first
                sides = [(2 * code.start + words[i][code.start], NONE) for i in possible]
            else:
                sides = [self.words.sides(top, words[i]) for i in possible]
            made.append(self._sum(top, sides, own[possible]))
        return made

    def _sum(self, at: int, sides: Sequence[tuple[int, int]], logs: FloatArray) -> int:
        lines = range(self.n_logs, self.n_logs + len(sides))
        self.logs.append(logs)
        self.n_logs += len(sides)
        edges = [(*pair, float(line)) for pair, line in zip(sides, lines, strict=True)]
        return self.builder.add_at(at, edges)
