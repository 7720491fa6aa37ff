"""The circuits that learners begin with: a compiled tree, or all variables independent.

In:  a `ChowLiuTree` and a `Vtree` that fits it; a vtree alone; or a `ColumnTree` and a vtree in
     which the variables of a column form a subtree.
Out: a `BitCircuit` of size linear in the number of variables.

Of columns, a code is a conjunction of literals below its column's vtree node; codes share what they
agree on, and impossible ones have no way through. For every value of its parent a column has one
sum with an edge per code. So a column of k values that hangs on one of m has m k edges, besides the
about k log k of its codes.
"""

from __future__ import annotations

import numpy as np

from strudel._types import NONE
from strudel.circuits.builder import CircuitBuilder
from strudel.circuits.compile import Part, chow_liu_nodes, factorized_nodes, join
from strudel.learning.bits.circuit import BitCircuit, bits_of
from strudel.trees.chow_liu import ChowLiuTree
from strudel.trees.column_tree import ColumnTree, column_tops
from strudel.trees.vtree import Vtree


def bits_of_tree(tree: ChowLiuTree, vtree: Vtree) -> BitCircuit:
    """A compiled Chow-Liu tree."""
    return bits_of(chow_liu_nodes(tree, vtree)).made_deterministic()


def independent_bits(vtree: Vtree) -> BitCircuit:
    """All variables independent."""
    return bits_of(factorized_nodes(vtree)).made_deterministic()


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
    return bits_of(builder, root)


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
