"""Predictor circuits: functions of a row that add up weights along what it takes.

In:  the structure of a deterministic circuit, with weights on the cells of leaves and on edges.
Out: `PredictorCircuit`: logistic circuits (Liang and Van den Broeck 2019) and regression circuits
     (Khosravi et al. 2019), evaluated on complete rows by their flows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from strudel._types import AnyArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.flows import flow_logs
from strudel.circuits.properties import as_deterministic_as
from strudel.circuits.reweigh import pruned
from strudel.circuits.walks import up
from strudel.data.validation import check_binary
from strudel.trees.vtree import Vtree


@dataclass(frozen=True, eq=False)
class PredictorCircuit:
    """A circuit whose edges and cells carry weights, one column per output.

    Of the parameters of `structure` only matters which are zero.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> structure = even_structure(figure_1_circuit())
    >>> predictor = PredictorCircuit(
    ...     structure=structure,
    ...     cell_weight=np.tile([[0.0], [1.0]], (structure.n_leaves, 1)),
    ...     edge_weight=np.zeros((structure.n_edges, 1)),
    ...     bias=np.array([100.0]),
    ...     kind="regression",
    ... )
    >>> predictor.evaluate([[0, 0, 0, 0], [1, 1, 0, 1]])
    array([[100.],
           [103.]])
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
        log_p = flow_logs(self.weights, cells)
        # A row that is impossible takes nothing.
        return np.asarray(self.bias + np.where(log_p == -np.inf, 0.0, log_p))

    @cached_property
    def weights(self) -> Circuit:
        """The structure with weights for parameters: flows add up what a row takes."""
        circuit, k = self.structure, self.n_outputs
        is_cell = circuit.leaf_log_p > -np.inf
        weights = replace(
            circuit,
            leaf_log_p=np.where(is_cell, self.cell_weight, -np.inf),
            edge_log_theta=self.edge_weight,
            log_weight=np.full(k, -np.log(k)),
        )
        return as_deterministic_as(weights, circuit)

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


def even_structure(circuit: Circuit) -> Circuit:
    """The structure of a circuit: what some component can take, at each choice as probable."""
    circuit = pruned(circuit)
    is_cell = np.any(circuit.leaf_log_p > -np.inf, axis=1)
    n_cells = np.repeat(
        np.add.reduceat(is_cell, circuit.leaf_first[:-1]), np.diff(circuit.leaf_first)
    )
    width = np.diff(circuit.sum_edges)
    even = replace(
        circuit,
        leaf_log_p=np.where(is_cell, -np.log(np.maximum(n_cells, 1)), -np.inf)[:, np.newaxis],
        edge_log_theta=-np.log(np.repeat(width, width))[:, np.newaxis],
        log_weight=np.zeros(1),
        known=None,
        log_total=0.0,
    )
    return as_deterministic_as(even, circuit)
