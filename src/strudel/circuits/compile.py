"""The first circuit: a compiled Chow-Liu tree, or all variables independent.

In:  a `ChowLiuTree` and the `Vtree` made from it; or a vtree and one probability per variable.
Out: a `Circuit` of size linear in the number of variables.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from strudel._types import NONE
from strudel.circuits.builder import CircuitBuilder
from strudel.circuits.circuit import Circuit
from strudel.trees.chow_liu import ChowLiuTree
from strudel.trees.vtree import Vtree


def compile_chow_liu(tree: ChowLiuTree, vtree: Vtree) -> Circuit:
    """Compile a Chow-Liu tree for the vtree made from it.

    Each vtree node gets one sum per value of the parent of its variables (one in all at a root): a
    choice of the variable's own value where the vtree separates a variable from its children, a
    product without a choice where it separates siblings.

    Examples
    --------
    >>> from strudel import learn_chow_liu_tree, vtree_from_chow_liu
    >>> tree = learn_chow_liu_tree([[0, 0, 0], [0, 0, 1], [1, 1, 1], [1, 1, 0]])
    >>> compile_chow_liu(tree, vtree_from_chow_liu(tree))
    Circuit(n_vars=3, n_nodes=13, n_edges=12)
    """
    if tree.n_vars != vtree.n_vars:
        raise ValueError(f"The tree has {tree.n_vars} variables, but the vtree has {vtree.n_vars}.")
    builder = CircuitBuilder(vtree)
    has_children = np.zeros(tree.n_vars, dtype=bool)
    has_children[tree.var_parent[tree.var_parent != NONE]] = True
    leftmost = vtree.order[vtree.node_span[0]]
    # versions[v]: the nodes at v given that the parent variable is 1, and 0; the same at a root.
    versions: list[tuple[int, int]] = []
    for v in range(vtree.n_nodes):
        var = int(vtree.node_var[v])
        if var != NONE:
            if has_children[var]:
                versions.append((builder.literal(var, 1), builder.literal(var, 0)))
            else:
                versions.append(
                    _for_each_parent_value(tree, var, lambda p, x=var: builder.add_leaf_sum(x, p))
                )
            continue
        left, right = versions[vtree.node_left[v]], versions[vtree.node_right[v]]
        above, below = (int(leftmost[child[v]]) for child in (vtree.node_left, vtree.node_right))
        if tree.var_parent[below] == above:
            versions.append(
                _for_each_parent_value(
                    tree,
                    above,
                    lambda p, y=left, z=right: builder.add_sum(
                        [(y[0], z[0], p), (y[1], z[1], 1.0 - p)]
                    ),
                )
            )
        elif tree.var_parent[below] == tree.var_parent[above]:
            given_1 = builder.add_sum([(left[0], right[0], 1.0)])
            is_root = tree.var_parent[above] == NONE
            versions.append(
                (given_1, given_1 if is_root else builder.add_sum([(left[1], right[1], 1.0)]))
            )
        else:
            raise ValueError(
                f"The vtree does not fit the tree: variables {above} and {below} meet in it but "
                "are neither siblings nor parent and child. Use vtree_from_chow_liu(tree)."
            )
    return builder.build(versions[-1][0])


def _for_each_parent_value(tree: ChowLiuTree, var: int, make):  # type: ignore[no-untyped-def]
    """`make(P(var = 1 | parent))` for parent 1 and parent 0, once at a root."""
    given_0, given_1 = tree.var_theta[var]
    if tree.var_parent[var] == NONE:
        node = make(given_1)
        return node, node
    return make(given_1), make(given_0)


def compile_factorized(vtree: Vtree, probabilities: ArrayLike | None = None) -> Circuit:
    """All variables independent: a Bernoulli at every leaf, products without a choice above.

    `probabilities` holds P(X = 1) per variable and is 1/2 by default.

    Examples
    --------
    >>> from strudel import balanced_vtree
    >>> compile_factorized(balanced_vtree(4))
    Circuit(n_vars=4, n_nodes=15, n_edges=11)
    """
    theta = (
        np.full(vtree.n_vars, 0.5)
        if probabilities is None
        else np.asarray(probabilities, dtype=float)
    )
    if theta.shape != (vtree.n_vars,):
        raise ValueError(f"probabilities must have shape ({vtree.n_vars},), but has {theta.shape}.")
    builder = CircuitBuilder(vtree)
    nodes: list[int] = []
    for v in range(vtree.n_nodes):
        var = int(vtree.node_var[v])
        if var != NONE:
            nodes.append(builder.add_leaf_sum(var, float(theta[var])))
        else:
            nodes.append(
                builder.add_sum([(nodes[vtree.node_left[v]], nodes[vtree.node_right[v]], 1.0)])
            )
    return builder.build(nodes[-1])
