"""Predictor circuits: functions of a row that add up weights along the edges it takes.

In:  the structure of a deterministic circuit, with weights on literals and edges.
Out: `PredictorCircuit`: logistic circuits (Liang and Van den Broeck 2019) and regression circuits
     (Khosravi et al. 2019), evaluated on complete rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from strudel._types import NONE, FloatArray
from strudel.circuits.builder import assemble
from strudel.circuits.circuit import Circuit
from strudel.circuits.flows import compute_flows
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
            The predicted value of a regression circuit; for a logistic circuit, the log-odds of
            every class against the others.
        """
        table, _ = check_binary(X, n_vars=self.n_vars)
        output = np.tile(self.bias, (len(table), 1))
        weight = self._weight_through_edge
        flows = compute_flows(self.structure, table)
        for edges in flows.active_edge:
            output += weight[edges]
        if self.structure.root < 2 * self.n_vars:  # a single variable, fixed: no edge
            output[flows.is_possible] += self.literal_weight[self.structure.root]
        return output

    @cached_property
    def _weight_through_edge(self) -> FloatArray:
        """What an edge and the literals right below it add, `(n_edges + 1, n_outputs)`; NONE: 0."""
        nothing = np.zeros((1, self.n_outputs))
        n_sums = self.structure.n_nodes - 2 * self.n_vars
        of_child = np.vstack([self.literal_weight, np.repeat(nothing, n_sums + 1, axis=0)])
        of_edges = of_child[self.structure.edge_left] + of_child[self.structure.edge_right]
        return np.vstack([self.edge_weight + of_edges, nothing])

    def __repr__(self) -> str:
        return (
            f"PredictorCircuit(kind={self.kind!r}, n_vars={self.n_vars}, "
            f"n_outputs={self.n_outputs}, n_edges={self.structure.n_edges})"
        )


def without_leaf_sums(predictor: PredictorCircuit) -> PredictorCircuit:
    """The same predictor, in which only literals stand at the leaves of the vtree.

    The text formats need this. An edge to a sum over both values of X becomes two edges, one per
    literal; each carries the weight of the old edge plus that of the sum's edge to the literal.

    Examples
    --------
    >>> import numpy as np
    >>> from strudel.circuits import compile_factorized
    >>> from strudel.trees import balanced_vtree
    >>> structure = compile_factorized(balanced_vtree(2))
    >>> weight = np.arange(structure.n_edges)[:, None].astype(float)
    >>> predictor = PredictorCircuit(structure, np.zeros((4, 1)), weight, np.zeros(1), "regression")
    >>> open_predictor = without_leaf_sums(predictor)
    >>> predictor.structure.n_nodes, open_predictor.structure.n_nodes
    (7, 5)
    >>> bool(np.all(predictor.evaluate([[0, 1]]) == open_predictor.evaluate([[0, 1]])))
    True
    """
    structure = predictor.structure
    if structure.n_vars == 1:
        raise ValueError("A predictor over one variable has no products to put literals below.")
    start, edge_left = structure.node_edges.tolist(), structure.edge_left.tolist()
    edge_right, parent = structure.edge_right.tolist(), structure.edge_parent.tolist()
    node_var = structure.vtree.node_var[structure.node_vtree].tolist()
    n_literals = 2 * structure.n_vars

    def below(child: int) -> list[tuple[int, int]]:
        """What replaces a child, with the edge whose weight goes along; NONE if there is none."""
        if child < n_literals or node_var[child] == NONE:
            return [(child, NONE)]
        return [(edge_left[e], e) for e in range(start[child], start[child + 1])]

    parents, lefts, rights, parts = [], [], [], []
    for e in range(structure.n_edges):
        if edge_right[e] == NONE:
            continue
        for left, via_left in below(edge_left[e]):
            for right, via_right in below(edge_right[e]):
                parents.append(parent[e])
                lefts.append(left)
                rights.append(right)
                parts.append((e, via_left, via_right))
    # Every edge carries its place through the sorting of nodes.
    built = assemble(
        structure.vtree,
        structure.node_vtree.copy(),
        np.array(parents, dtype=np.int32),
        np.array(lefts, dtype=np.int32),
        np.array(rights, dtype=np.int32),
        -np.arange(len(parts), dtype=np.float64),
        root=structure.root,
    )
    weight = np.vstack([predictor.edge_weight, np.zeros((1, predictor.n_outputs))])  # NONE adds 0
    moved = np.array(parts, dtype=np.int64)[(-built.edge_log_theta).astype(np.int64)]
    return PredictorCircuit(
        structure=built.with_parameters(np.zeros(built.n_edges)).with_names(
            structure.feature_names
        ),
        literal_weight=predictor.literal_weight,
        edge_weight=weight[moved].sum(axis=1),
        bias=predictor.bias,
        kind=predictor.kind,
    )
