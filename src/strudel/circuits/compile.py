"""The first circuit: a compiled Chow-Liu tree, or all variables independent.

In:  a `ChowLiuTree` and a `Vtree` that fits it; or a vtree and one probability per variable; or a
     `ColumnTree` and a vtree in which the variables of a column form a subtree.
Out: a `BitCircuit` of size linear in the number of variables.

Of columns, a code is a conjunction of literals below its column's vtree node; codes share what they
agree on, and impossible ones have no way through. For every value of its parent a column has one
sum with an edge per code. So a column of k values that hangs on one of m has m k edges, besides the
about k log k of its codes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from strudel._types import NONE, IntArray
from strudel.circuits.builder import CircuitBuilder
from strudel.learning.bits.circuit import BitCircuit
from strudel.trees.chow_liu import ChowLiuTree
from strudel.trees.column_tree import ColumnTree, column_tops
from strudel.trees.vtree import Vtree


def compile_chow_liu(tree: ChowLiuTree, vtree: Vtree) -> BitCircuit:
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
    >>> from strudel.trees import learn_chow_liu_tree, vtree_from_chow_liu
    >>> tree = learn_chow_liu_tree([[0, 0, 0], [0, 0, 1], [1, 1, 1], [1, 1, 0]])
    >>> compile_chow_liu(tree, vtree_from_chow_liu(tree))
    BitCircuit(n_vars=3, n_nodes=13, n_edges=12)
    """
    if tree.n_vars != vtree.n_vars:
        raise ValueError(f"The tree has {tree.n_vars} variables, but the vtree has {vtree.n_vars}.")
    builder = CircuitBuilder(vtree)
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
    return builder.build(parts[-1].nodes[0]).made_deterministic()


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


def compile_factorized(vtree: Vtree, probabilities: ArrayLike | None = None) -> BitCircuit:
    """All variables independent: a Bernoulli at every leaf, products without a choice above.

    `probabilities` holds P(X = 1) per variable and is 1/2 by default.

    Examples
    --------
    >>> from strudel.trees import balanced_vtree
    >>> compile_factorized(balanced_vtree(4))
    BitCircuit(n_vars=4, n_nodes=15, n_edges=11)
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


def compile_column_tree(tree: ColumnTree, vtree: Vtree) -> BitCircuit:
    """Compile a tree over columns for the vtree it was learned with."""
    columns, parents, tables = tree.columns, tree.column_parent, tree.column_table
    column_at = {v: c for c, v in enumerate(column_tops(vtree, columns).tolist())}
    n_children = np.bincount(parents[parents != NONE], minlength=len(columns))
    builder = CircuitBuilder(vtree)
    codes = Codewords(builder)

    def given(c: int) -> list[list[float]]:
        lines: list[list[float]] = tables[c].tolist()
        return lines

    parts: dict[int, Part] = {}
    for v in range(vtree.n_nodes):
        left, right = int(vtree.node_left[v]), int(vtree.node_right[v])
        if v in column_at:
            c = column_at[v]
            words = [dict(enumerate(w, columns[c].start)) for w in columns[c].codewords.tolist()]
            if n_children[c]:
                nodes = tuple(codes.conjunction(v, word) for word in words)
            else:
                nodes = codes.sums(v, words, given(c))
            parts[v] = Part.of(nodes, c, parents, int(n_children[c]))
        elif left in parts:  # else v is inside a column
            parts[v] = join(builder, parts.pop(left), parts.pop(right), parents, given)
    root = parts[vtree.root].nodes[0]
    if root < 2 * vtree.n_vars:  # of one variable with one value
        root = builder.add_at(vtree.root, [(root, NONE, 0.0)])
    return builder.build(root)


class Codewords:
    """The nodes of codewords, each made once."""

    def __init__(self, builder: CircuitBuilder) -> None:
        self.builder = builder
        self.made: dict[tuple[int, tuple[int, ...]], int] = {}

    def conjunction(self, v: int, word: dict[int, int]) -> int:
        """The node that is 1 exactly where the variables below v are as in `word`."""
        vtree = self.builder.vtree
        if vtree.node_var[v] != NONE:
            var = int(vtree.node_var[v])
            return self.builder.literal(var, word[var])
        key = v, tuple(word[var] for var in vtree.scope(v))
        if key not in self.made:
            self.made[key] = self.builder.add_sum([(*self.sides(v, word), 1.0)])
        return self.made[key]

    def sums(
        self, v: int, words: list[dict[int, int]], lines: list[list[float]]
    ) -> tuple[int, ...]:
        """For every line of probabilities, the sum of all codes."""
        if len(words) == 1:
            return (self.conjunction(v, words[0]),) * len(lines)
        var = int(self.builder.vtree.node_var[v])
        if var != NONE:
            one = next(i for i, word in enumerate(words) if word[var] == 1)
            return tuple(self.builder.add_leaf_sum(var, line[one]) for line in lines)
        sides = [self.sides(v, word) for word in words]
        return tuple(
            self.builder.add_sum([(*pair, p) for pair, p in zip(sides, line, strict=True)])
            for line in lines
        )

    def sides(self, v: int, word: dict[int, int]) -> tuple[int, int]:
        """The nodes of a codeword below the two children of `v`."""
        vtree = self.builder.vtree
        return (
            self.conjunction(int(vtree.node_left[v]), word),
            self.conjunction(int(vtree.node_right[v]), word),
        )
