"""Predictors without sums over one variable, as the text formats want them.

In:  a `PredictorCircuit`.
Out: the same function, with literals below its products instead.

An edge to a sum over both values of X becomes two edges, one per literal; each carries the weight
of the old edge plus that of the sum's edge to the literal.
"""

from __future__ import annotations

import numpy as np

from strudel._types import NONE
from strudel.circuits.builder import assemble
from strudel.circuits.predictor import PredictorCircuit


def without_leaf_sums(predictor: PredictorCircuit) -> PredictorCircuit:
    """The same predictor, in which only literals stand at the leaves of the vtree.

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
