"""The first circuit: a compiled Chow-Liu tree, or all variables independent.

In:  a `ChowLiuTree` and a `Vtree` that fits it; or a vtree and one probability per variable.
Out: a `Circuit` over columns of 0 and 1, of size linear in their number; that of Figure 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from strudel._types import NONE, IntArray
from strudel.circuits.builder import CircuitBuilder
from strudel.circuits.circuit import Circuit
from strudel.circuits.properties import made_deterministic
from strudel.trees.chow_liu import ChowLiuTree
from strudel.trees.vtree import Vtree, vtree_from_chow_liu


def compile_chow_liu(
    tree: ChowLiuTree, vtree: Vtree, feature_names: Sequence[str] | None = None
) -> Circuit:
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
    feature_names : sequence of str, optional
        The names of the columns; x0, x1, ... by default.

    Returns
    -------
    Circuit
        Deterministic.

    Examples
    --------
    >>> from strudel.trees import learn_chow_liu_tree, vtree_from_chow_liu
    >>> tree = learn_chow_liu_tree([[0, 0, 0], [0, 0, 1], [1, 1, 1], [1, 1, 0]])
    >>> compile_chow_liu(tree, vtree_from_chow_liu(tree))
    Circuit(n_components=1, n_columns=3, n_nodes=9, n_edges=4)
    """
    return made_deterministic(chow_liu_nodes(tree, vtree, feature_names).build())


def chow_liu_nodes(
    tree: ChowLiuTree, vtree: Vtree, feature_names: Sequence[str] | None = None
) -> CircuitBuilder:
    """The nodes of a compiled tree, of which the last one is the root."""
    if tree.n_vars != vtree.n_vars:
        raise ValueError(f"The tree has {tree.n_vars} variables, but the vtree has {vtree.n_vars}.")
    builder = CircuitBuilder(vtree, feature_names)
    n_children = np.bincount(tree.var_parent[tree.var_parent != NONE], minlength=tree.n_vars)

    def given(var: int) -> list[tuple[float, float]]:
        """P(1) and P(0), given that the parent is 1, and given that it is 0; once at a root."""
        given_0, given_1 = tree.var_theta[var]
        lines = [(given_1, 1.0 - given_1), (given_0, 1.0 - given_0)]
        return lines[:1] if tree.var_parent[var] == NONE else lines

    parts: list[Part] = []
    for v in range(vtree.n_nodes):
        var = int(vtree.node_var[v])
        if var == NONE:
            left, right = parts[vtree.node_left[v]], parts[vtree.node_right[v]]
            parts.append(join(builder, left, right, tree.var_parent, given))
        elif n_children[var]:
            literals = builder.literal(var, 1), builder.literal(var, 0)
            parts.append(Part.of(literals, var, tree.var_parent, int(n_children[var])))
        else:
            nodes = tuple(builder.add_leaf_sum(var, one) for one, _ in given(var))
            parts.append(Part.of(nodes, var, tree.var_parent))
    return builder


class Part(NamedTuple):
    """What stands at a vtree node."""

    nodes: tuple[int, ...]  # one per value of `top` while `n_missing`, then per value of `parent`
    top: int  # a variable whose parent is not below the vtree node
    parent: int  # of all tops; NONE for a part that does not depend on the rest: it has one node
    n_tops: int  # variables that hang on the parent
    n_missing: int  # children of `top` elsewhere; as long as there are some, it is the only top

    @classmethod
    def of(cls, nodes: tuple[int, ...], top: int, parents: IntArray, n_missing: int = 0) -> Part:
        """The part of one top."""
        parent = int(parents[top])
        return cls(nodes, top, parent, int(parent != NONE), n_missing)


def join(
    builder: CircuitBuilder,
    left: Part,
    right: Part,
    parents: IntArray,
    given: Callable[[int], Iterable[Iterable[float]]],
) -> Part:
    """What stands above two vtree nodes.

    `parents` holds the parent of every variable, and `given` says, for every value of a variable's
    parent, how likely its own values are.
    """
    if left.n_missing and right.n_missing:
        raise _does_not_fit(left, right)
    n_pairs = max(len(left.nodes), len(right.nodes))  # one node goes with all others
    pairs = [
        (left.nodes[i % len(left.nodes)], right.nodes[i % len(right.nodes)]) for i in range(n_pairs)
    ]
    if not left.n_missing and not right.n_missing:  # both hang on the same variable, or on none
        first = left if left.parent != NONE else right
        if NONE not in (left.parent, right.parent) and left.parent != right.parent:
            raise _does_not_fit(left, right)
        nodes = tuple(builder.add_sum([(*pair, 1.0)]) for pair in pairs)
        return first._replace(nodes=nodes, n_tops=left.n_tops + right.n_tops)
    above, below = (left, right) if left.n_missing else (right, left)
    if below.parent not in (NONE, above.top):
        raise _does_not_fit(left, right)
    n_missing = above.n_missing - below.n_tops
    if n_missing:
        nodes = tuple(builder.add_sum([(*pair, 1.0)]) for pair in pairs)
    else:
        nodes = tuple(
            builder.add_sum([(*pair, p) for pair, p in zip(pairs, line, strict=True)])
            for line in given(above.top)
        )
    return Part.of(nodes, above.top, parents, n_missing)


def _does_not_fit(left: Part, right: Part) -> ValueError:
    return ValueError(
        f"The vtree does not fit the tree: the parts of variables {left.top} and {right.top} meet "
        "in it, but more than one variable joins them to the rest. Use vtree_from_chow_liu(tree), "
        "or learn_tree_for_vtree(X, vtree)."
    )


def compile_factorized(vtree: Vtree, probabilities: ArrayLike | None = None) -> Circuit:
    """All variables independent: a Bernoulli at every leaf, products without a choice above.

    `probabilities` holds P(X = 1) per variable and is 1/2 by default.

    Examples
    --------
    >>> from strudel.trees import balanced_vtree
    >>> compile_factorized(balanced_vtree(4))
    Circuit(n_components=1, n_columns=4, n_nodes=7, n_edges=3)
    """
    return made_deterministic(factorized_nodes(vtree, probabilities).build())


def factorized_nodes(vtree: Vtree, probabilities: ArrayLike | None = None) -> CircuitBuilder:
    """The nodes of independent variables, of which the last one is the root."""
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
    return builder


def figure_1_circuit() -> Circuit:
    """The circuit of Figure 1 of the paper, compiled from its Chow-Liu tree `X4 -> X3 -> {X1, X2}`.

    Examples
    --------
    >>> from strudel import log_likelihood
    >>> np.exp(log_likelihood(figure_1_circuit(), [[1, 0, 1, 0]])).round(4)
    array([0.0192])
    """
    tree = figure_1_chow_liu_tree()
    return compile_chow_liu(tree, vtree_from_chow_liu(tree), ("X1", "X2", "X3", "X4"))


def figure_1_chow_liu_tree() -> ChowLiuTree:
    """The Chow-Liu tree of Figure 1; variables count from zero here."""
    return ChowLiuTree(
        var_parent=np.array([2, 2, 3, NONE], dtype=np.int32),
        var_theta=np.array([[0.7, 0.4], [0.5, 0.9], [0.8, 0.3], [0.4, 0.4]]),
    )
