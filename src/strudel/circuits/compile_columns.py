"""The first circuit of a table of columns: impossible codes have no way through it.

In:  a `ColumnTree` and a vtree in which the variables of a column form a subtree.
Out: a `Circuit`, smooth, deterministic and structured-decomposable.

A code is a conjunction of literals below its column's vtree node; codes share what they agree on.
For every value of its parent a column has one sum with an edge per code. So a column of k values
that hangs on one of m has m k edges, besides the about k log k of its codes.
"""

from __future__ import annotations

import numpy as np

from strudel._types import NONE
from strudel.circuits.builder import CircuitBuilder
from strudel.circuits.circuit import Circuit
from strudel.circuits.compile import Part, join
from strudel.trees.column_tree import ColumnTree, column_tops
from strudel.trees.vtree import Vtree


def compile_column_tree(tree: ColumnTree, vtree: Vtree) -> Circuit:
    """Compile a tree over columns for the vtree it was learned with."""
    columns, parents, tables = tree.columns, tree.column_parent, tree.column_table
    column_at = {v: c for c, v in enumerate(column_tops(vtree, columns).tolist())}
    n_children = np.bincount(parents[parents != NONE], minlength=len(columns))
    builder = CircuitBuilder(vtree)
    codes = _Codes(builder)

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
    return builder.build(parts[vtree.root].nodes[0])


class _Codes:
    """The nodes of codes, each made once."""

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
            self.made[key] = self.builder.add_sum([(*self._sides(v, word), 1.0)])
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
        sides = [self._sides(v, word) for word in words]
        return tuple(
            self.builder.add_sum([(*pair, p) for pair, p in zip(sides, line, strict=True)])
            for line in lines
        )

    def _sides(self, v: int, word: dict[int, int]) -> tuple[int, int]:
        vtree = self.builder.vtree
        return (
            self.conjunction(int(vtree.node_left[v]), word),
            self.conjunction(int(vtree.node_right[v]), word),
        )
