"""Predictor circuits over columns: functions of a row that add up weights along what it takes.

In:  the structure of a deterministic circuit, with weights on the cells of leaves and on edges.
Out: `ColumnPredictor`, evaluated on complete rows; `folded_predictor`, of one over 0/1 variables.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from strudel._names import names_of
from strudel._types import NONE, AnyArray, FloatArray
from strudel.circuits.column_circuit import ColumnCircuit
from strudel.circuits.fold import Patterns, fold
from strudel.circuits.predictor import PredictorCircuit
from strudel.circuits.walks import edges_at, first_node, up
from strudel.data.validation import slices
from strudel.errors import CircuitPropertyError
from strudel.tables.schema import bit_columns

BLOCK_VALUES = 2**22  # of edges and rows, in memory at a time


@dataclass(frozen=True, eq=False)
class ColumnPredictor:
    """A circuit whose edges and cells carry weights, one column per output.

    Of the parameters of `structure` only matters which are zero.
    """

    structure: ColumnCircuit  # of one component
    cell_weight: FloatArray  # (n_leaf_cells, n_outputs)
    edge_weight: FloatArray  # (n_edges, n_outputs)
    bias: FloatArray  # (n_outputs,)
    kind: Literal["logistic", "regression"]

    def with_columns(self, matrix: FloatArray) -> ColumnPredictor:
        """The predictor of values with outputs ``output @ matrix``."""
        return ColumnPredictor(
            self.structure,
            self.cell_weight @ matrix,
            self.edge_weight @ matrix,
            self.bias @ matrix,
            "regression",
        )

    def outputs(self, cells: AnyArray) -> FloatArray:
        """The bias plus the weights of all that rows of cells take, `(n_rows, n_outputs)`."""
        circuit, n_outputs = self.structure, len(self.bias)
        found = np.tile(self.bias, (len(cells), 1))
        step = max(1, BLOCK_VALUES // (circuit.n_edges + circuit.n_nodes) // n_outputs)
        for part in slices(len(cells), step):
            own = cells[part]
            holds: list[AnyArray] = []  # per vtree node (n_nodes, n_rows)
            total: list[FloatArray] = []  # (n_nodes, n_rows, n_outputs)
            for v in range(circuit.vtree.n_nodes):
                place = int(circuit.vtree.node_var[v])
                if place != NONE:
                    leaves = slice(*circuit.column_leaves[place : place + 2])
                    at = circuit.leaf_first[:-1][leaves, np.newaxis] + own[:, place]
                    holds.append(circuit.leaf_log_p[at, 0] > -np.inf)
                    total.append(np.where(holds[v][:, :, np.newaxis], self.cell_weight[at], 0.0))
                    continue
                edges, first = edges_at(circuit, v)
                takes, sums = np.array(True), self.edge_weight[edges, np.newaxis]
                for child, side in (
                    (circuit.edge_left, circuit.vtree.node_left),
                    (circuit.edge_right, circuit.vtree.node_right),
                ):
                    below = int(side[v])
                    at = child[edges] - first_node(circuit, below)
                    takes, sums = takes & holds[below][at], sums + total[below][at]
                holds.append(np.logical_or.reduceat(takes, first, axis=0))
                sums = np.where(takes[:, :, np.newaxis], sums, 0.0)
                total.append(np.add.reduceat(sums, first, axis=0))
            found[part] += total[circuit.vtree.root][-1]
        return found

    @cached_property
    def misses_rows(self) -> bool:
        """Whether some row takes no edge of the root, so that only the bias is left of it."""
        circuit = self.structure
        possible = np.where(circuit.leaf_log_p > -np.inf, 0.0, -np.inf)
        ones = replace(
            circuit, leaf_log_p=possible, edge_log_theta=np.zeros_like(circuit.edge_log_theta)
        )
        places = range(len(circuit.columns))
        counts = [np.logaddexp.reduce(ones.leaf_table(c), axis=1)[:, np.newaxis] for c in places]
        log_count = float(up(ones, counts)[circuit.vtree.root][-1, 0, 0])
        n_states = np.log([float(column.n_cells) for column in circuit.columns]).sum()
        return bool(log_count < n_states - 1e-9)

    @cached_property
    def weight_by_column(self) -> FloatArray:
        """How much weight lies on the cells of each column and on the edges right above them."""
        circuit = self.structure
        cell = np.abs(self.cell_weight).max(axis=1, initial=0.0)
        weight = np.maximum.reduceat(cell, circuit.leaf_first[:-1])
        edge = np.abs(self.edge_weight).max(axis=1, initial=0.0)
        for child in (circuit.edge_left, circuit.edge_right):
            is_leaf = child < circuit.n_leaves
            np.maximum.at(weight, child[is_leaf], edge[is_leaf])
        total = np.zeros(len(circuit.columns))
        np.add.at(total, circuit.leaf_column, weight)
        return total


def folded_predictor(predictor: PredictorCircuit) -> ColumnPredictor:
    """A predictor over 0/1 variables, over columns of two cells."""
    made = predictor.__dict__.get("_folded")
    if made is None:
        made = predictor.__dict__["_folded"] = _folded(predictor)
    found: ColumnPredictor = made
    return found


def _folded(predictor: PredictorCircuit) -> ColumnPredictor:
    structure, n_vars = predictor.structure, predictor.n_vars
    if not structure.is_in_normal_form:
        raise CircuitPropertyError("A predictor circuit must have products that follow its vtree.")
    words = np.array([[0], [1]])
    columns = bit_columns(names_of(n_vars, structure.feature_names), "pandas")
    patterns = [Patterns([var], words, np.ones(2)) for var in range(n_vars)]
    # Every edge carries its place, in (0, 1), to where it ends up; 0 is that of no edge.
    n_places = structure.n_edges + 1
    place = (np.arange(structure.n_edges) + 1.0) / n_places
    made = fold(structure, -place[:, np.newaxis], np.zeros(1), columns, patterns)
    with np.errstate(invalid="ignore"):
        of_cell, of_edge = (
            np.where(logs > -np.inf, np.rint(-logs[:, 0:1] * n_places), 0).astype(np.int64)[:, 0]
            for logs in (made.leaf_log_p, made.edge_log_theta)
        )
    weight = np.vstack([np.zeros((1, predictor.n_outputs)), predictor.edge_weight])
    literal = (2 * made.leaf_column[:, np.newaxis] + np.array([0, 1])).ravel()
    return ColumnPredictor(
        made,
        predictor.literal_weight[literal] + weight[of_cell],
        weight[of_edge],
        predictor.bias,
        predictor.kind,
    )
