"""Folding: a circuit over the 0/1 variables of a table as one over its columns, and back.

In:  a `BitCircuit` or `BitMixture`, whose variables code the columns of a table, or are columns
     themselves.
Out: the same distribution as a `Circuit` (`folded`, `over_columns`), and from that one over 0/1
     variables again, for a learner to go on from (`unfold`).

All sums at the leaf of a variable become leaves of two cells, and those at the vtree node of a
column leaves of its cells. The other way, a leaf is a sum of the codewords of its cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from strudel._names import names_of
from strudel._types import NONE, FloatArray, IntArray
from strudel.circuits.builder import CircuitBuilder, assemble
from strudel.circuits.circuit import Circuit
from strudel.circuits.other_columns import Patterns, joined
from strudel.circuits.properties import is_known_deterministic, made_deterministic
from strudel.learning.bits.circuit import BitCircuit, bits_of
from strudel.learning.bits.compile import Codewords
from strudel.learning.bits.mixture import BitMixture, Model, as_mixture
from strudel.tables.column_codes import as_column_codes, free_bit
from strudel.tables.schema import Columns, bit_columns
from strudel.tables.table_code import TableCode
from strudel.trees.column_tree import column_tops, vtree_of_variables


def folded(model: Model) -> Circuit:
    """The same distribution, every 0/1 variable a column."""
    if "_folded" not in model.__dict__:
        own = as_mixture(model)
        made = fold_bits(own.structure, own.edge_log_theta, own.log_weight)
        if own.known is not None:  # the same for all leaves of a variable
            known = np.repeat(own.known[made.leaf_column], np.diff(made.leaf_first), axis=0)
            made = replace(made, known=known)
        is_known = own.structure.is_known_deterministic
        model.__dict__["_folded"] = made_deterministic(made) if is_known else made
    found: Circuit = model.__dict__["_folded"]
    return found


def fold_bits(
    structure: BitCircuit, edge_logs: FloatArray, log_weight: FloatArray | None = None
) -> Circuit:
    """A structure with weights `(n_edges, k)`, every 0/1 variable a column."""
    even = np.full(edge_logs.shape[1], -np.log(edge_logs.shape[1]))
    return assemble(
        bit_columns(names_of(structure.n_vars, None), "pandas"),
        structure.vtree,
        structure.node_vtree,
        structure.edge_parent,
        structure.edge_left,
        structure.edge_right,
        edge_logs,
        structure.root,
        even if log_weight is None else log_weight,
    )


def numbered(structure: BitCircuit) -> tuple[Circuit, IntArray]:
    """The structure over columns, and the edge that each of its edges, then its cells, comes from.

    NONE for cells of literals, and once more at the end. All parameters are positive, those of
    literals one and no others.
    """
    if "_numbered" not in structure.__dict__:
        number: FloatArray = np.arange(1.0, structure.n_edges + 1.0)
        made = fold_bits(structure, -number[:, np.newaxis])
        logs = np.concatenate([made.edge_log_theta[:, 0], made.leaf_log_p[:, 0], [0.0]])
        line_edge = np.where(logs == -np.inf, 0.0, -logs).astype(np.int32) - np.int32(1)
        structure.__dict__["_numbered"] = made, line_edge
    found: tuple[Circuit, IntArray] = structure.__dict__["_numbered"]
    return found


def over_columns(model: Model, columns: Columns, code: TableCode | None) -> Circuit:
    """The distribution over the columns whose groups a code has bits for; None: they are bits.

    A cell has its share of the group, as all rows have it. That the column knows, too, so columns
    as they are `shown` answer alike, and are smaller.
    """
    circuit = folded(model)
    if code is None:
        return as_columns(circuit, columns)
    patterns = [
        Patterns(own.variables, own.codewords.astype(np.int64)[group], column.share_of_group)
        for own, column in zip(code.columns, columns, strict=True)
        for group in [column.group_of_cell]
    ]
    return joined(circuit, columns, patterns)


def as_columns(circuit: Circuit, columns: Columns) -> Circuit:
    """The circuit over columns that have as many cells, and what is known of it."""
    made = circuit.with_columns(columns)
    return made_deterministic(made) if is_known_deterministic(circuit) else made


def unfold(circuit: Circuit, code: TableCode | None) -> BitMixture:
    """The same components over the 0/1 variables of a code, or over bits if there is none.

    Of categories that share a codeword, only what they add up to is kept.
    """
    return _Unfolding(circuit, code).run()


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
        structure = bits_of(self.builder, node[-1])
        log_theta = np.concatenate(self.logs)[structure.edge_log_theta.astype(np.int64)]
        structure = structure.with_parameters(log_theta[:, 0])
        if is_known_deterministic(circuit):
            structure.made_deterministic()
        known = circuit.known
        if known is not None:  # of a learner's circuit it is the same for all leaves of a column
            widths = [code.stop - code.start for code in self.codes]
            first = circuit.leaf_first[circuit.column_leaves[:-1]]
            known = np.repeat(known[first], widths, axis=0)
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
