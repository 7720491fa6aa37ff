"""The first circuit: a compiled Chow-Liu tree, or all variables independent.

In:  a `ChowLiuTree` and a `Vtree` that fits it; or a vtree and one probability per variable.
Out: a `Circuit` of size linear in the number of variables.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from strudel._types import NONE
from strudel.circuits.builder import CircuitBuilder
from strudel.circuits.circuit import Circuit
from strudel.trees.chow_liu import ChowLiuTree
from strudel.trees.vtree import Vtree


def compile_chow_liu(tree: ChowLiuTree, vtree: Vtree) -> Circuit:
    """Compile a tree for a vtree that has room for it, such as the one made from it.

    Each vtree node gets one sum per value of a single variable: of one of its own, as long as that
    one has children elsewhere, or else of the parent on which all its other variables hang (one sum
    in all at a root). Where a variable meets the last of its children, the sums choose its value;
    elsewhere they are products without a choice.

    Parameters
    ----------
    tree : ChowLiuTree
    vtree : Vtree
        Made by `vtree_from_chow_liu(tree)`; or the one for which `learn_tree_for_vtree` made the
        tree.

    Returns
    -------
    Circuit

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
    n_children = np.bincount(tree.var_parent[tree.var_parent != NONE], minlength=tree.n_vars)
    parts: list[_Part] = []
    for v in range(vtree.n_nodes):
        var = int(vtree.node_var[v])
        if var == NONE:
            parts.append(
                _join(builder, tree, parts[vtree.node_left[v]], parts[vtree.node_right[v]])
            )
        elif n_children[var]:
            literals = builder.literal(var, 1), builder.literal(var, 0)
            parts.append(_Part(literals, var, 1, int(n_children[var])))
        else:
            nodes = _for_each_parent_value(tree, var, lambda p, x=var: builder.add_leaf_sum(x, p))
            parts.append(_Part(nodes, var, 1, 0))
    return builder.build(parts[-1].nodes[0])


class _Part(NamedTuple):
    """What stands at a vtree node."""

    nodes: tuple[int, int]  # given that a variable is 1, and 0: `top`, or the parent of the tops
    top: int  # a variable whose parent is not below the vtree node
    n_tops: int  # how many of them there are, all with the same parent
    n_missing: int  # children of `top` elsewhere; as long as there are some, it is the only top


def _join(builder: CircuitBuilder, tree: ChowLiuTree, left: _Part, right: _Part) -> _Part:
    """What stands above two vtree nodes."""
    pairs = list(zip(left.nodes, right.nodes, strict=True))
    if not left.n_missing and not right.n_missing:  # both hang on the same variable, or on none
        parent = tree.var_parent[left.top]
        if tree.var_parent[right.top] != parent:
            raise _does_not_fit(left, right)
        given_1 = builder.add_sum([(*pairs[0], 1.0)])
        given_0 = given_1 if parent == NONE else builder.add_sum([(*pairs[1], 1.0)])
        return _Part((given_1, given_0), left.top, left.n_tops + right.n_tops, 0)
    above, below = (left, right) if left.n_missing else (right, left)
    if below.n_missing or tree.var_parent[below.top] != above.top:
        raise _does_not_fit(left, right)
    n_missing = above.n_missing - below.n_tops
    if n_missing:
        nodes = builder.add_sum([(*pairs[0], 1.0)]), builder.add_sum([(*pairs[1], 1.0)])
    else:
        nodes = _for_each_parent_value(
            tree,
            above.top,
            lambda p: builder.add_sum([(*pairs[0], p), (*pairs[1], 1.0 - p)]),
        )
    return _Part(nodes, above.top, 1, n_missing)


def _does_not_fit(left: _Part, right: _Part) -> ValueError:
    return ValueError(
        f"The vtree does not fit the tree: the parts of variables {left.top} and {right.top} meet "
        "in it, but more than one variable joins them to the rest. Use vtree_from_chow_liu(tree), "
        "or learn_tree_for_vtree(X, vtree)."
    )


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
