"""Predictor circuits: functions of a row that add up weights along what it takes.

In:  the structure of a deterministic circuit, with weights on the cells of leaves and on edges.
Out: `PredictorCircuit`: logistic circuits (Liang and Van den Broeck 2019) and regression circuits
     (Khosravi et al. 2019), evaluated on complete rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from strudel._names import names_of
from strudel._numba import kernel, lowest_bit
from strudel._types import AnyArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.walks import up
from strudel.data.validation import check_binary
from strudel.learning.bits.circuit import BitCircuit
from strudel.learning.bits.fold import Patterns, fold
from strudel.learning.bits.properties import check_properties
from strudel.tables.schema import bit_columns
from strudel.trees.vtree import Vtree


@dataclass(frozen=True, eq=False)
class PredictorCircuit:
    """A circuit whose edges and cells carry weights, one column per output.

    Of the parameters of `structure` only matters which are zero.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> structure = figure_1_circuit()
    >>> predictor = predictor_of_bits(
    ...     structure=structure,
    ...     literal_weight=np.arange(8.0)[:, None],
    ...     edge_weight=np.zeros((structure.n_edges, 1)),
    ...     bias=np.array([100.0]),
    ...     kind="regression",
    ... )
    >>> predictor.evaluate([[0, 0, 0, 0], [1, 1, 1, 1]])  # 0 + 2 + 4 + 6, 1 + 3 + 5 + 7
    array([[112.],
           [116.]])
    """

    structure: Circuit  # of one component
    cell_weight: FloatArray  # (n_leaf_cells, n_outputs)
    edge_weight: FloatArray  # (n_edges, n_outputs)
    bias: FloatArray  # (n_outputs,)
    kind: Literal["logistic", "regression"]

    def __post_init__(self) -> None:
        n_outputs = len(self.bias)
        shapes = (self.cell_weight.shape, self.edge_weight.shape)
        n_cells, n_edges = len(self.structure.leaf_log_p), self.structure.n_edges
        if shapes != ((n_cells, n_outputs), (n_edges, n_outputs)):
            raise ValueError(
                f"cell_weight and edge_weight must have the shapes {(n_cells, n_outputs)} and "
                f"{(n_edges, n_outputs)}, but have {shapes[0]} and {shapes[1]}."
            )
        if self.kind not in ("logistic", "regression"):
            raise ValueError(f"kind must be 'logistic' or 'regression', but is {self.kind!r}.")

    @property
    def n_outputs(self) -> int:
        """Number of classes of a logistic circuit (1 if there are two), 1 for regression."""
        return len(self.bias)

    @property
    def vtree(self) -> Vtree:
        """The vtree of the structure."""
        return self.structure.vtree

    def evaluate(self, X: ArrayLike) -> FloatArray:
        """The bias plus the weights of all edges and cells that a row takes.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_vars)
            0 and 1.

        Returns
        -------
        ndarray of shape (n_rows, n_outputs)
            The predicted value of a regression circuit; for a logistic circuit, the log-odds of
            every class against the others.
        """
        table, _ = check_binary(X, n_vars=len(self.structure.columns))
        return self.outputs(table)

    def outputs(self, cells: AnyArray) -> FloatArray:
        """The same for rows of cells."""
        circuit = self.structure
        found = np.tile(self.bias, (len(cells), 1))
        n_cells = [column.n_cells for column in circuit.columns]
        _outputs(
            np.ascontiguousarray(cells, dtype=np.int32),
            np.concatenate([[0], np.cumsum(n_cells)]),
            circuit.leaf_column,
            circuit.leaf_first,
            circuit.leaf_log_p[:, 0] > -np.inf,
            circuit.sum_edges,
            circuit.edge_left,
            circuit.edge_right,
            np.ascontiguousarray(self.cell_weight),
            np.ascontiguousarray(self.edge_weight),
            found,
        )
        return found

    def with_outputs(self, matrix: FloatArray) -> PredictorCircuit:
        """The predictor of values with outputs ``output @ matrix``."""
        return PredictorCircuit(
            self.structure,
            self.cell_weight @ matrix,
            self.edge_weight @ matrix,
            self.bias @ matrix,
            "regression",
        )

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

    def __repr__(self) -> str:
        return (
            f"PredictorCircuit(kind={self.kind!r}, n_vars={len(self.structure.columns)}, "
            f"n_outputs={self.n_outputs}, n_edges={self.structure.n_edges})"
        )


@kernel
def _outputs(
    cells: AnyArray,
    column_first: AnyArray,
    leaf_column: IntArray,
    leaf_first: IntArray,
    is_possible: AnyArray,
    sum_edges: IntArray,
    edge_left: IntArray,
    edge_right: IntArray,
    cell_weight: FloatArray,
    edge_weight: FloatArray,
    output: FloatArray,
) -> None:
    """Add to `output` (n_rows, n_outputs) what every row takes; 64 rows are in one word."""
    n_rows, n_columns = cells.shape
    n_leaves, none = len(leaf_column), np.uint64(0)
    word = np.empty(
        n_leaves + len(sum_edges) - 1, dtype=np.uint64
    )  # the rows that a node holds for
    flow = np.empty_like(word)  # and those that pass it
    for start in range(0, n_rows, 64):
        stop = min(start + 64, n_rows)
        cell_word = np.zeros(column_first[-1], dtype=np.uint64)
        for c in range(n_columns):
            for s in range(start, stop):
                at = column_first[c] + cells[s, c]
                cell_word[at] = cell_word[at] | np.uint64(1) << np.uint64(s - start)
        for l in range(n_leaves):
            word[l], away = none, column_first[leaf_column[l]] - leaf_first[l]
            for at in range(leaf_first[l], leaf_first[l + 1]):
                if is_possible[at]:
                    word[l] = word[l] | cell_word[at + away]
        for n in range(len(sum_edges) - 1):
            held = none
            for e in range(sum_edges[n], sum_edges[n + 1]):
                held |= word[edge_left[e]] & word[edge_right[e]]
            word[n_leaves + n] = held
        flow[:] = none
        flow[-1] = word[-1]
        for n in range(len(sum_edges) - 2, -1, -1):
            if flow[n_leaves + n] == none:
                continue
            for e in range(sum_edges[n], sum_edges[n + 1]):
                l, r = edge_left[e], edge_right[e]
                taken = flow[n_leaves + n] & word[l] & word[r]
                if taken != none:
                    flow[l] = flow[l] | taken
                    flow[r] = flow[r] | taken
                    _add(taken, start, edge_weight[e], output)
        for l in range(n_leaves):
            away = column_first[leaf_column[l]] - leaf_first[l]
            for at in range(leaf_first[l], leaf_first[l + 1]):
                taken = flow[l] & cell_word[at + away]
                if taken != none:
                    _add(taken, start, cell_weight[at], output)


@kernel
def _add(rows: np.uint64, start: int, weight: FloatArray, output: FloatArray) -> None:
    """Add weights to the rows of a word."""
    while rows != np.uint64(0):
        s = start + lowest_bit(rows)
        for o in range(len(weight)):
            output[s, o] += weight[o]
        rows = rows & (rows - np.uint64(1))


def predictor_of_bits(
    structure: BitCircuit,
    literal_weight: FloatArray,
    edge_weight: FloatArray,
    bias: FloatArray,
    kind: Literal["logistic", "regression"],
) -> PredictorCircuit:
    """The predictor with weights on the literals and edges of a circuit over 0/1 variables.

    `literal_weight` is `(2 * n_vars, n_outputs)`, `edge_weight` is `(n_edges, n_outputs)`.
    """
    check_properties(structure, "A predictor circuit", "in_normal_form")
    words = np.array([[0], [1]])
    columns = bit_columns(names_of(structure.n_vars, structure.feature_names), "pandas")
    patterns = [Patterns([var], words, np.ones(2)) for var in range(structure.n_vars)]
    # Every edge carries its place, in (0, 1), to where it ends up; 0 is that of no edge.
    n_places = structure.n_edges + 1
    place = (np.arange(structure.n_edges) + 1.0) / n_places
    made = fold(structure, -place[:, np.newaxis], np.zeros(1), columns, patterns)
    with np.errstate(invalid="ignore"):
        of_cell, of_edge = (
            np.where(logs > -np.inf, np.rint(-logs * n_places), 0.0).astype(np.int64)[:, 0]
            for logs in (made.leaf_log_p, made.edge_log_theta)
        )
    weight = np.vstack([np.zeros((1, len(bias))), edge_weight])
    literal = (2 * made.leaf_column[:, np.newaxis] + np.array([0, 1])).ravel()
    evenly = replace(
        made,
        leaf_log_p=np.where(made.leaf_log_p > -np.inf, 0.0, -np.inf),
        edge_log_theta=np.zeros_like(made.edge_log_theta),
    )
    cell_weight = literal_weight[literal] + weight[of_cell]
    return PredictorCircuit(evenly, cell_weight, weight[of_edge], bias, kind)
