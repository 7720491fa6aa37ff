"""Formulas in normal form: conjunctions of clauses and disjunctions of terms.

In:  lists of signed literals, as DIMACS files write them: 3 is variable 2, -3 its negation.
Out: `Cnf` and `Dnf`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from strudel._types import IntArray
from strudel.data.validation import check_binary

T = TypeVar("T", bound="_Clauses")


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
