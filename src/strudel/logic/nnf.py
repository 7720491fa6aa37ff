"""Negation normal form: circuits of logical and and or over literals.

In:  nodes, children first.
Out: `Nnf`, flat arrays; the last node is the root.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from strudel._types import NONE, IntArray
from strudel.data.validation import check_binary

LITERAL: Final = 0
AND: Final = 1
OR: Final = 2


@dataclass(frozen=True, eq=False)
class Nnf:
    """A circuit of and, or and literals. An empty and is true, an empty or is false.

    Examples
    --------
    >>> nodes = [(LITERAL, 1), (LITERAL, 2), (AND, [0, 1]), (LITERAL, 4), (OR, [2, 3])]
    >>> nnf = Nnf.from_nodes(nodes, n_vars=3)
    >>> nnf.holds([[1, 1, 1], [1, 0, 1], [1, 0, 0]])
    array([False,  True,  True])
    """

    n_vars: int
    node_kind: IntArray  # (n_nodes,) LITERAL, AND or OR
    node_literal: IntArray  # (n_nodes,) 2 * variable + value; NONE at and and or
    node_start: IntArray  # (n_nodes + 1,) children of n are child[node_start[n]:node_start[n + 1]]
    child: IntArray  # (n_children,)
    node_decision: IntArray  # (n_nodes,) variable that an or decides on, as a hint; NONE elsewhere

    def __post_init__(self) -> None:
        problem = _why_not_nnf(self)
        if problem is not None:
            raise ValueError(f"These arrays are not an NNF: {problem}.")
        for array in (self.node_kind, self.node_literal, self.node_start, self.child):
            array.flags.writeable = False

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.node_kind)

    @property
    def root(self) -> int:
        """The last node."""
        return self.n_nodes - 1

    @staticmethod
    def from_nodes(
        nodes: Sequence[tuple[int, Any]],
        n_vars: int,
        decisions: Sequence[int] | None = None,
    ) -> Nnf:
        """Build from pairs: `LITERAL` and a literal, or `AND` or `OR` and a list of children."""
        kind = np.array([node[0] for node in nodes], dtype=np.int32)
        literal = [node[1] if node[0] == LITERAL else NONE for node in nodes]
        children = [() if node[0] == LITERAL else node[1] for node in nodes]
        start = np.concatenate([[0], np.cumsum([len(group) for group in children])])
        child = [below for group in children for below in group]
        return Nnf(
            n_vars,
            kind,
            np.array(literal, dtype=np.int32),
            start.astype(np.int32),
            np.array(child, dtype=np.int32),
            np.full(len(nodes), NONE, dtype=np.int32)
            if decisions is None
            else np.array(decisions, dtype=np.int32),
        )

    def children(self, node: int) -> list[int]:
        """The children of one node."""
        return self.child[self.node_start[node] : self.node_start[node + 1]].tolist()

    def holds(self, X: ArrayLike) -> NDArray[np.bool_]:
        """Whether every row satisfies the root."""
        table, _ = check_binary(X, n_vars=self.n_vars)
        value = np.empty((self.n_nodes, len(table)), dtype=np.bool_)
        for node in range(self.n_nodes):
            literal = self.node_literal[node]
            below = value[self.children(node)]
            if literal != NONE:
                value[node] = table[:, literal // 2] == literal % 2
            else:
                value[node] = (below.all if self.node_kind[node] == AND else below.any)(axis=0)
        return value[self.root]

    def __repr__(self) -> str:
        return f"Nnf(n_vars={self.n_vars}, n_nodes={self.n_nodes}, n_edges={len(self.child)})"


def _why_not_nnf(nnf: Nnf) -> str | None:
    n_nodes = len(nnf.node_kind)
    if n_nodes == 0:
        return "there are no nodes"
    if not len(nnf.node_literal) == len(nnf.node_decision) == n_nodes == len(nnf.node_start) - 1:
        return "the node arrays differ in length"
    width = np.diff(nnf.node_start)
    if nnf.node_start[0] != 0 or nnf.node_start[-1] != len(nnf.child) or np.any(width < 0):
        return "node_start must go from 0 to the number of children"
    is_literal = nnf.node_kind == LITERAL
    if np.any((nnf.node_kind < LITERAL) | (nnf.node_kind > OR)):
        return "a node must be a literal, an and, or an or"
    literal = nnf.node_literal[is_literal]
    if np.any((literal < 0) | (literal >= 2 * nnf.n_vars)) or np.any(width[is_literal]):
        return f"a literal must be of the variables 0..{nnf.n_vars - 1} and have no children"
    if np.any(nnf.node_literal[~is_literal] != NONE):
        return "only a literal has a literal"
    if np.any((nnf.node_decision < NONE) | (nnf.node_decision >= nnf.n_vars)):
        return f"a decision must be on one of the variables 0..{nnf.n_vars - 1}"
    if np.any((nnf.child < 0) | (nnf.child >= np.repeat(np.arange(n_nodes), width))):
        return "children must come before their parents"
    return None
