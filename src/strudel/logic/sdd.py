"""Sentential decision diagrams: logical circuits on a vtree.

In:  decisions, children first: lists of elements (prime, sub).
Out: `Sdd`, flat arrays.

A decision at a vtree node holds if one of its elements does; primes are about variables on the left
of the vtree node and exclude each other, and subs are about variables on its right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from strudel._types import NONE, AnyArray, IntArray
from strudel.data.validation import check_binary
from strudel.logic.formula import AND, LITERAL, OR, Nnf
from strudel.trees.vtree import Vtree

FALSE: Final = 0
TRUE: Final = 1
FIRST_LITERAL: Final = 2


@dataclass(frozen=True, eq=False)
class Sdd:
    """A sentential decision diagram.

    Node 0 is false, node 1 is true, node ``2 + 2 * v + value`` is the literal `X_v = value`, and
    decisions come after them, children first. The root is any node.

    Examples
    --------
    >>> from strudel import Vtree
    >>> vtree = Vtree.from_nested((0, 1))
    >>> zero, one, other_zero, other_one = (FIRST_LITERAL + literal for literal in range(4))
    >>> equal = Sdd.from_decisions(vtree, [(2, [(zero, other_zero), (one, other_one)])], root=6)
    >>> equal.holds([[0, 0], [0, 1], [1, 1]])
    array([ True, False,  True])
    """

    vtree: Vtree
    node_vtree: IntArray  # (n_nodes,) vtree node; NONE at false and true
    node_start: IntArray  # (n_nodes + 1,) elements of n are node_start[n]:node_start[n + 1]
    element_prime: IntArray  # (n_elements,)
    element_sub: IntArray  # (n_elements,)
    root: int

    def __post_init__(self) -> None:
        problem = _why_not_sdd(self)
        if problem is not None:
            raise ValueError(f"These arrays are not an SDD: {problem}.")
        for array in (self.node_vtree, self.node_start, self.element_prime, self.element_sub):
            array.flags.writeable = False

    @property
    def n_vars(self) -> int:
        """Number of variables."""
        return self.vtree.n_vars

    @property
    def n_nodes(self) -> int:
        """Number of nodes, with the constants and all literals."""
        return len(self.node_vtree)

    @property
    def n_elements(self) -> int:
        """Number of elements of all decisions, which is called the size of an SDD."""
        return len(self.element_prime)

    @property
    def first_decision(self) -> int:
        """The first node that is neither a constant nor a literal."""
        return FIRST_LITERAL + 2 * self.n_vars

    @staticmethod
    def from_decisions(
        vtree: Vtree, decisions: Sequence[tuple[int, Sequence[tuple[int, int]]]], root: int
    ) -> Sdd:
        """Build from pairs: a vtree node and a list of elements."""
        n_before = FIRST_LITERAL + 2 * vtree.n_vars
        elements = [element for _, group in decisions for element in group]
        pairs = np.array(elements, dtype=np.int32).reshape(-1, 2)
        width = np.zeros(n_before + len(decisions), dtype=np.int64)
        width[n_before:] = [len(group) for _, group in decisions]
        at = np.array([v for v, _ in decisions], dtype=np.int32)
        return Sdd(
            vtree,
            np.concatenate([[NONE, NONE], np.repeat(vtree.var_leaf, 2), at]).astype(np.int32),
            np.concatenate([[0], np.cumsum(width)]).astype(np.int32),
            pairs[:, 0].copy(),
            pairs[:, 1].copy(),
            root,
        )

    def elements(self, node: int) -> list[tuple[int, int]]:
        """The elements of one decision."""
        here = slice(self.node_start[node], self.node_start[node + 1])
        return list(
            zip(self.element_prime[here].tolist(), self.element_sub[here].tolist(), strict=True)
        )

    def holds(self, X: ArrayLike) -> NDArray[np.bool_]:
        """Whether every row satisfies the root."""
        return self.bounds(check_binary(X, n_vars=self.n_vars)[0])[0]

    def bounds(self, codes: AnyArray) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Whether the root must and may hold, where codes other than 0 and 1 are unknown.

        Sound, and exact for complete rows.
        """
        low = np.zeros((self.n_nodes, len(codes)), dtype=np.bool_)
        high = np.zeros_like(low)
        low[TRUE] = high[TRUE] = True
        known = codes[:, : self.n_vars].T
        for value in (0, 1):
            at = slice(FIRST_LITERAL + value, self.first_decision, 2)
            low[at] = np.equal(known, value)
            high[at] = np.not_equal(known, 1 - value)
        for node in range(self.first_decision, self.n_nodes):
            here = slice(self.node_start[node], self.node_start[node + 1])
            prime, sub = self.element_prime[here], self.element_sub[here]
            low[node] = (low[prime] & low[sub]).any(axis=0)
            high[node] = (high[prime] & high[sub]).any(axis=0)
        return low[self.root], high[self.root]

    def __repr__(self) -> str:
        n_decisions = self.n_nodes - self.first_decision
        return f"Sdd(n_vars={self.n_vars}, n_decisions={n_decisions}, n_elements={self.n_elements})"


def reached_nodes(sdd: Sdd) -> NDArray[np.int64]:
    """The nodes below the root, itself included, in order."""
    used = np.zeros(sdd.n_nodes, dtype=np.bool_)
    used[sdd.root] = True
    for node in range(sdd.n_nodes - 1, sdd.first_decision - 1, -1):
        if used[node]:
            here = slice(sdd.node_start[node], sdd.node_start[node + 1])
            used[sdd.element_prime[here]] = used[sdd.element_sub[here]] = True
    return np.flatnonzero(used)


def without_unused(sdd: Sdd) -> Sdd:
    """The same SDD without decisions that the root does not reach."""
    first = sdd.first_decision
    kept = reached_nodes(sdd)
    kept = kept[kept >= first]
    number = np.arange(sdd.n_nodes)
    number[kept] = first + np.arange(len(kept))
    decisions = [
        (int(sdd.node_vtree[n]), [(int(number[p]), int(number[s])) for p, s in sdd.elements(n)])
        for n in kept.tolist()
    ]
    return Sdd.from_decisions(sdd.vtree, decisions, int(number[sdd.root]))


def nnf_from_sdd(sdd: Sdd) -> Nnf:
    """The same formula without its vtree: an or of ands for every decision."""
    nodes: list[tuple[int, object]] = []
    number: dict[int, int] = {}
    for node in reached_nodes(sdd).tolist():
        if node in (FALSE, TRUE):
            nodes.append((AND if node == TRUE else OR, []))
        elif node < sdd.first_decision:
            nodes.append((LITERAL, node - FIRST_LITERAL))
        else:
            terms = []
            for prime, sub in sdd.elements(node):
                terms.append(len(nodes))
                nodes.append((AND, [number[prime], number[sub]]))
            nodes.append((OR, terms))
        number[node] = len(nodes) - 1
    if number[sdd.root] != len(nodes) - 1:  # a decision that is not the last
        raise AssertionError(
            "internal error: the root of an SDD must come after all nodes below it"
        )
    return Nnf.from_nodes(nodes, sdd.n_vars)


def _why_not_sdd(sdd: Sdd) -> str | None:
    n_nodes, vtree = len(sdd.node_vtree), sdd.vtree
    start, prime, sub = sdd.node_start, sdd.element_prime, sdd.element_sub
    first = FIRST_LITERAL + 2 * vtree.n_vars
    if n_nodes < first or len(start) != n_nodes + 1 or len(prime) != len(sub):
        return "the arrays differ in length, or literals are missing"
    width = np.diff(start)
    if start[0] != 0 or start[-1] != len(prime) or np.any(width < 0) or np.any(width[:first]):
        return (
            "node_start must go from 0 to the number of elements, and only decisions have elements"
        )
    literals = np.repeat(vtree.var_leaf, 2)
    if np.any(sdd.node_vtree[:2] != NONE) or np.any(sdd.node_vtree[2:first] != literals):
        return "nodes must start with false, true and the literals of all variables"
    if not 0 <= sdd.root < n_nodes:
        return "the root is not a node"
    at = sdd.node_vtree[first:]
    if np.any((at < 0) | (at >= vtree.n_nodes)) or np.any(vtree.node_var[at] != NONE):
        return "a decision must lie at an inner vtree node"
    parent = np.repeat(np.arange(n_nodes), width)
    for child, side in ((prime, vtree.node_left), (sub, vtree.node_right)):
        if np.any((child < 0) | (child >= parent)):
            return "primes and subs must come before their decisions"
        begin, end = vtree.node_span
        below, here = sdd.node_vtree[child], side[sdd.node_vtree[parent]]
        is_inside = (begin[below] >= begin[here]) & (end[below] <= end[here])
        if not np.all(is_inside | (below == NONE)):
            return (
                "primes must lie on the left of their decision's vtree node and subs on its right"
            )
    return None
