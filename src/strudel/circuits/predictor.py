"""Predictor circuits: functions of a row that add up weights along the edges it takes.

In:  the structure of a deterministic circuit, with weights on literals and edges.
Out: `PredictorCircuit`: logistic circuits (Liang and Van den Broeck 2019) and regression circuits
     (Khosravi et al. 2019), evaluated on complete rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from strudel._numba import kernel
from strudel._types import NONE, ByteArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.data.validation import check_binary
from strudel.trees.vtree import Vtree


@dataclass(frozen=True, eq=False)
class PredictorCircuit:
    """A circuit whose edges and literals carry weights, one column per output.

    Only the nodes and edges of `structure` matter; its parameters are not used.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> structure = figure_1_circuit()
    >>> predictor = PredictorCircuit(
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

    structure: Circuit
    literal_weight: FloatArray  # (2 * n_vars, n_outputs)
    edge_weight: FloatArray  # (n_edges, n_outputs)
    bias: FloatArray  # (n_outputs,)
    kind: Literal["logistic", "regression"]

    def __post_init__(self) -> None:
        n_outputs = len(self.bias)
        shapes = (self.literal_weight.shape, self.edge_weight.shape)
        wanted = ((2 * self.n_vars, n_outputs), (self.structure.n_edges, n_outputs))
        if shapes != wanted:
            raise ValueError(
                f"literal_weight and edge_weight must have the shapes {wanted[0]} and {wanted[1]}, "
                f"but have {shapes[0]} and {shapes[1]}."
            )
        if self.kind not in ("logistic", "regression"):
            raise ValueError(f"kind must be 'logistic' or 'regression', but is {self.kind!r}.")

    @property
    def n_vars(self) -> int:
        """Number of variables."""
        return self.structure.n_vars

    @property
    def n_outputs(self) -> int:
        """Number of classes of a logistic circuit (1 if there are two), 1 for regression."""
        return len(self.bias)

    @property
    def vtree(self) -> Vtree:
        """The vtree of the structure."""
        return self.structure.vtree

    def evaluate(self, X: ArrayLike) -> FloatArray:
        """The bias plus the weights of all edges and literals that a row takes.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_vars)
            0 and 1.

        Returns
        -------
        ndarray of shape (n_rows, n_outputs)
            The predicted value of a regression circuit; of a logistic circuit the log-odds of every
            class against the others.
        """
        table, _ = check_binary(X, n_vars=self.n_vars)
        output = np.empty((len(table), self.n_outputs))
        _evaluate(
            table,
            self.structure.node_edges,
            self.structure.edge_left,
            self.structure.edge_right,
            np.ascontiguousarray(self.literal_weight),
            np.ascontiguousarray(self.edge_weight),
            self.bias,
            np.empty(self.structure.n_nodes, dtype=np.bool_),
            np.empty(self.structure.n_nodes, dtype=np.bool_),
            output,
        )
        return output

    def __repr__(self) -> str:
        return (
            f"PredictorCircuit(kind={self.kind!r}, n_vars={self.n_vars}, "
            f"n_outputs={self.n_outputs}, n_edges={self.structure.n_edges})"
        )


@kernel
def _evaluate(
    table: ByteArray,
    node_edges: IntArray,
    edge_left: IntArray,
    edge_right: IntArray,
    literal_weight: FloatArray,
    edge_weight: FloatArray,
    bias: FloatArray,
    holds: NDArray[np.bool_],
    is_taken: NDArray[np.bool_],
    output: FloatArray,
) -> None:
    """Fill `output` (n_rows, n_outputs); `holds` and `is_taken` (n_nodes,) are room to work in."""
    n_rows, n_vars = table.shape
    n_nodes = len(node_edges) - 1
    for s in range(n_rows):
        for v in range(n_vars):
            holds[2 * v] = table[s, v] == 0
            holds[2 * v + 1] = table[s, v] == 1
        for n in range(2 * n_vars, n_nodes):
            holds[n] = False
            for e in range(node_edges[n], node_edges[n + 1]):
                if holds[edge_left[e]] and (edge_right[e] == NONE or holds[edge_right[e]]):
                    holds[n] = True
                    break
        is_taken[:] = False
        is_taken[n_nodes - 1] = holds[n_nodes - 1]
        output[s] = bias
        for n in range(n_nodes - 1, 2 * n_vars - 1, -1):
            if not is_taken[n]:
                continue
            for e in range(node_edges[n], node_edges[n + 1]):
                left, right = edge_left[e], edge_right[e]
                if holds[left] and (right == NONE or holds[right]):
                    output[s] += edge_weight[e]
                    is_taken[left] = True
                    if right != NONE:
                        is_taken[right] = True
        for n in range(2 * n_vars):
            if is_taken[n]:
                output[s] += literal_weight[n]
