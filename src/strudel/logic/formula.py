"""Formulas: conjunctions of clauses, disjunctions of terms, and negation normal form.

In:  lists of signed literals, as DIMACS files write them: 3 is variable 2, -3 its negation; or
     nodes of and, or and literals, children first.
Out: `Cnf` and `Dnf`; `Nnf`. All are flat arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Final, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from strudel._types import NONE, IntArray
from strudel.data.validation import check_binary

T = TypeVar("T", bound="_Clauses")
LITERAL: Final = 0
AND: Final = 1
OR: Final = 2


@dataclass(frozen=True, eq=False)
class _Clauses:
    """Groups of literals, as flat arrays."""

    unit: ClassVar[str]  # what a group is called
    n_vars: int
    group_start: IntArray  # (n_groups + 1,) group g is literal[group_start[g]:group_start[g + 1]]
    literal: IntArray  # (n_literals,) 2 * variable + value

    def __post_init__(self) -> None:
        start, literal = self.group_start, self.literal
        if len(start) == 0 or start[0] != 0 or start[-1] != len(literal):
            raise ValueError("group_start must begin at 0 and end at the number of literals.")
        if np.any(start[1:] < start[:-1]):
            raise ValueError("group_start must not decrease.")
        if len(literal) and not 0 <= literal.min() <= literal.max() < 2 * self.n_vars:
            raise ValueError(f"Literals must be of the variables 0..{self.n_vars - 1}.")
        start.flags.writeable = literal.flags.writeable = False

    @classmethod
    def from_literals(
        cls: type[T], groups: Iterable[Sequence[int]], n_vars: int | None = None
    ) -> T:
        """Build from lists of signed literals, counted from 1."""
        lists = [list(group) for group in groups]
        signed = np.array([literal for group in lists for literal in group], dtype=np.int64)
        if np.any(signed == 0):
            raise ValueError("A literal must be a variable from 1 up, or its negative, but is 0.")
        most = int(np.abs(signed).max(initial=0))
        start = np.concatenate([[0], np.cumsum([len(group) for group in lists])])
        literal = 2 * (np.abs(signed) - 1) + (signed > 0)
        return cls(
            most if n_vars is None else n_vars, start.astype(np.int32), literal.astype(np.int32)
        )

    def to_literals(self) -> list[list[int]]:
        """The groups as lists of signed literals, counted from 1."""
        var, value = self.literal // 2 + 1, self.literal % 2
        signed = np.where(value == 1, var, -var).tolist()
        start = self.group_start.tolist()
        return [signed[a:b] for a, b in pairwise(start)]

    @property
    def n_groups(self) -> int:
        """Number of clauses or terms."""
        return len(self.group_start) - 1

    def _n_true(self, X: ArrayLike) -> NDArray[np.int64]:
        """How many literals of every group a row satisfies, `(n_rows, n_groups)`."""
        table, _ = check_binary(X, n_vars=self.n_vars)
        is_true = table[:, self.literal // 2] == (self.literal % 2)
        before = np.zeros((len(table), len(self.literal) + 1), dtype=np.int64)
        np.cumsum(is_true, axis=1, out=before[:, 1:])
        return before[:, self.group_start[1:]] - before[:, self.group_start[:-1]]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n_vars={self.n_vars}, n_{self.unit}={self.n_groups})"

    def __eq__(self, other: Any) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[int, bytes, bytes]:
        return self.n_vars, self.group_start.tobytes(), self.literal.tobytes()


@dataclass(frozen=True, eq=False, repr=False)
class Cnf(_Clauses):
    """A conjunction of clauses: every clause needs one of its literals.

    Examples
    --------
    >>> cnf = Cnf.from_literals([[1, -2], [2, 3]])
    >>> cnf.holds([[1, 0, 1], [0, 1, 1]])
    array([ True, False])
    """

    unit = "clauses"

    def holds(self, X: ArrayLike) -> NDArray[np.bool_]:
        """Whether every row satisfies the formula."""
        return np.all(self._n_true(X) > 0, axis=1)


@dataclass(frozen=True, eq=False, repr=False)
class Dnf(_Clauses):
    """A disjunction of terms: some term needs all of its literals.

    Examples
    --------
    >>> dnf = Dnf.from_literals([[1, -2], [2, 3]])
    >>> dnf.holds([[1, 0, 0], [0, 1, 0]])
    array([ True, False])
    """

    unit = "terms"

    def holds(self, X: ArrayLike) -> NDArray[np.bool_]:
        """Whether every row satisfies the formula."""
        return np.any(self._n_true(X) == np.diff(self.group_start), axis=1)


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
        nodes: Sequence[tuple[int, Any]], n_vars: int, decisions: Sequence[int] | None = None
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
