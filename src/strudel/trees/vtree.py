"""Vtrees: binary trees over the variables that say how a circuit decomposes.

In:  a `ChowLiuTree`, a number of variables, or nested pairs.
Out: `Vtree`; `MeetingPlaces`, the lowest nodes above spans of its leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from strudel._display import Shown
from strudel._types import NONE, IntArray
from strudel.trees.chow_liu import ChowLiuTree


@dataclass(frozen=True, eq=False)
class Vtree(Shown):
    """A binary tree over the variables, stored as parallel arrays.

    Children come before their parent and the last node is the root.

    Examples
    --------
    >>> vtree = Vtree.from_nested(((0, 1), 2))
    >>> vtree.node_var
    array([ 0,  1, -1,  2, -1], dtype=int32)
    >>> vtree.scope(2)
    [0, 1]
    """

    node_left: IntArray  # (n_nodes,) left child, NONE at a leaf
    node_right: IntArray  # (n_nodes,) right child, NONE at a leaf
    node_var: IntArray  # (n_nodes,) variable at a leaf, NONE inside

    def __post_init__(self) -> None:
        problem = why_not_a_vtree(self.node_left, self.node_right, self.node_var)
        if problem is not None:
            raise ValueError(f"These arrays are not a vtree: {problem}.")

    @property
    def n_nodes(self) -> int:
        """Number of nodes, always `2 * n_vars - 1`."""
        return len(self.node_var)

    @property
    def n_vars(self) -> int:
        """Number of variables."""
        return (self.n_nodes + 1) // 2

    @property
    def root(self) -> int:
        """The last node."""
        return self.n_nodes - 1

    @cached_property
    def node_parent(self) -> IntArray:
        """Parent of every node, NONE at the root."""
        parent = np.full(self.n_nodes, NONE, dtype=np.int32)
        inner = np.flatnonzero(self.node_var == NONE)
        parent[self.node_left[inner]] = inner
        parent[self.node_right[inner]] = inner
        return parent

    @cached_property
    def var_leaf(self) -> IntArray:
        """The leaf of every variable."""
        leaf = np.empty(self.n_vars, dtype=np.int32)
        leaves = np.flatnonzero(self.node_var != NONE)
        leaf[self.node_var[leaves]] = leaves
        return leaf

    @cached_property
    def node_span(self) -> tuple[IntArray, IntArray]:
        """First and last-plus-one place of every node's variables in `order`."""
        size = np.ones(self.n_nodes, dtype=np.int32)
        for node in np.flatnonzero(self.node_var == NONE):
            size[node] = size[self.node_left[node]] + size[self.node_right[node]]
        first = np.zeros(self.n_nodes, dtype=np.int32)
        for node in np.flatnonzero(self.node_var == NONE)[::-1]:
            first[self.node_left[node]] = first[node]
            first[self.node_right[node]] = first[node] + size[self.node_left[node]]
        return first, first + size

    @cached_property
    def order(self) -> IntArray:
        """The variables from the left-most leaf to the right-most."""
        order = np.empty(self.n_vars, dtype=np.int32)
        order[self.node_span[0][self.var_leaf]] = np.arange(self.n_vars)
        return order

    @cached_property
    def node_depth(self) -> IntArray:
        """Number of steps from the root."""
        depth = np.zeros(self.n_nodes, dtype=np.int32)
        for node in range(self.n_nodes - 2, -1, -1):
            depth[node] = depth[self.node_parent[node]] + 1
        return depth

    @property
    def depth(self) -> int:
        """Depth of the deepest leaf."""
        return int(self.node_depth.max())

    def scope(self, node: int) -> list[int]:
        """The variables below `node`, from left to right."""
        first, last = self.node_span
        return [int(var) for var in self.order[first[node] : last[node]]]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vtree):
            return NotImplemented
        return self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @cached_property
    def _key(self) -> tuple[bytes, bytes]:
        """The leaves in order and every node's span: equal however the nodes are numbered."""
        first, last = self.node_span
        spans = np.sort(first.astype(np.int64) * (self.n_vars + 1) + last)
        return self.order.tobytes(), spans.tobytes()

    def __repr__(self) -> str:
        return f"Vtree(n_vars={self.n_vars}, depth={self.depth})"

    def to_nested(self) -> Any:
        """The tree as nested pairs of variables."""
        nested: list[Any] = []
        for left, right, var in zip(
            self.node_left.tolist(), self.node_right.tolist(), self.node_var.tolist(), strict=True
        ):
            nested.append(var if var != NONE else (nested[left], nested[right]))
        return nested[-1]

    @staticmethod
    def from_nested(nested: Any) -> Vtree:
        """Build from nested pairs of variables, e.g. ``((0, 1), 2)``."""
        nodes = VtreeNodes()
        # Iterative: the vtree of a chain of a thousand variables is deeper than Python's stack.
        pending: list[tuple[Any, bool]] = [(nested, False)]
        built: list[int] = []
        while pending:
            item, is_ready = pending.pop()
            if isinstance(item, int | np.integer):
                built.append(nodes.leaf(int(item)))
            elif is_ready:
                right, left = built.pop(), built.pop()
                built.append(nodes.inner(left, right))
            else:
                left_item, right_item = item
                pending += [(item, True), (right_item, False), (left_item, False)]
        return nodes.build()


class VtreeNodes:
    """The growing arrays of a vtree."""

    def __init__(self) -> None:
        self.left: list[int] = []
        self.right: list[int] = []
        self.var: list[int] = []

    def leaf(self, var: int) -> int:
        """Add a leaf."""
        return self._add(NONE, NONE, var)

    def inner(self, left: int, right: int) -> int:
        """Add a node over two others."""
        return self._add(left, right, NONE)

    def _add(self, left: int, right: int, var: int) -> int:
        self.left.append(left)
        self.right.append(right)
        self.var.append(var)
        return len(self.var) - 1

    def combine(self, items: Sequence[int], shape: str) -> int:
        """One node over several, keeping their order."""
        if len(items) == 1:
            return items[0]
        if shape == "linear":  # last item innermost; a loop, since the chain can be long
            node = items[-1]
            for item in reversed(items[:-1]):
                node = self.inner(item, node)
            return node
        middle = len(items) // 2
        left = self.combine(items[:middle], shape)
        return self.inner(left, self.combine(items[middle:], shape))

    def build_from(self, root: int) -> tuple[Vtree, IntArray]:
        """The vtree below a node, in post-order, and the number there of every node made so far.

        Nodes may have been made in any order; NONE for those outside.
        """
        order: list[int] = []
        pending = [root]
        while pending:  # parents first and right before left, then turned around
            node = pending.pop()
            order.append(node)
            if self.var[node] == NONE:
                pending += [self.left[node], self.right[node]]
            if len(order) > len(self.var):
                raise ValueError("These nodes are not a vtree: one is below another twice.")
        order.reverse()
        number = np.full(len(self.var) + 1, NONE, dtype=np.int32)  # number[NONE] stays NONE
        number[order] = np.arange(len(order))
        left, right, var = (np.array(a, dtype=np.int32) for a in (self.left, self.right, self.var))
        return Vtree(number[left[order]], number[right[order]], var[order]), number[:-1]

    def build(self) -> Vtree:
        """The vtree of all nodes, whose last one is the root."""
        return Vtree(
            np.array(self.left, dtype=np.int32),
            np.array(self.right, dtype=np.int32),
            np.array(self.var, dtype=np.int32),
        )


def vtree_from_chow_liu(
    tree: ChowLiuTree, shape: Literal["balanced", "linear"] = "balanced"
) -> Vtree:
    """Vtree that gives the compiled tree linear size.

    A variable with children becomes an inner node with its own leaf on the left and the combined
    vtrees of its children on the right, in the order of their index: halved again and again
    (``"balanced"``), or as a chain (``"linear"``).

    Examples
    --------
    >>> from strudel.trees import learn_chow_liu_tree
    >>> tree = learn_chow_liu_tree([[0, 0, 0], [0, 0, 1], [1, 1, 1], [1, 1, 0]])
    >>> vtree_from_chow_liu(tree).to_nested()
    (0, (1, 2))
    """
    if shape not in ("balanced", "linear"):
        raise ValueError(f"shape must be 'balanced' or 'linear', but is {shape!r}.")
    nodes = VtreeNodes()
    children = tree.children()
    top = tree.roots.tolist()
    order = tree.parents_first()
    if len(order) != tree.n_vars:
        raise ValueError(
            "The Chow-Liu tree has a cycle: some variables cannot be reached from a root."
        )
    built: dict[int, int] = {}
    for var in reversed(order):  # children before parents
        leaf = nodes.leaf(var)
        if children[var]:
            below = nodes.combine([built[child] for child in children[var]], shape)
            built[var] = nodes.inner(leaf, below)
        else:
            built[var] = leaf
    nodes.combine([built[root] for root in top], shape)
    return nodes.build()


def balanced_vtree(n_vars: int) -> Vtree:
    """Halve the variables in order, again and again.

    Examples
    --------
    >>> balanced_vtree(4).to_nested()
    ((0, 1), (2, 3))
    """
    return _from_leaves(range(n_vars), "balanced")


def linear_vtree(n_vars: int) -> Vtree:
    """Right-linear: each variable alone on the left, the rest on the right.

    Examples
    --------
    >>> linear_vtree(3).to_nested()
    (0, (1, 2))
    """
    return _from_leaves(range(n_vars), "linear")


def random_vtree(n_vars: int, rng: np.random.Generator | int | None = None) -> Vtree:
    """Random shape and order: join two random trees until one is left."""
    if n_vars < 1:
        raise ValueError("A vtree needs at least one variable.")
    rng = np.random.default_rng(rng)
    nodes = VtreeNodes()
    trees = [nodes.leaf(int(var)) for var in rng.permutation(n_vars)]
    while len(trees) > 1:
        left = trees.pop(int(rng.integers(len(trees))))
        right = trees.pop(int(rng.integers(len(trees))))
        trees.append(nodes.inner(left, right))
    return nodes.build()


class Restriction(NamedTuple):
    """The vtree of some of the variables, and how its nodes belong to those of the larger one."""

    vtree: Vtree
    number: IntArray  # (n_nodes of the larger,) the node that takes its place; NONE without one
    origin: IntArray  # (n_nodes of the smaller,) the node that each was


def restrict_vtree(vtree: Vtree, variables: Sequence[int]) -> Restriction:
    """Cut off the leaves of all other variables; these get the numbers 0, 1, ... in this order."""
    var_number = {var: number for number, var in enumerate(variables)}
    nodes = VtreeNodes()
    number: list[int] = []
    origin: list[int] = []
    sides = zip(
        vtree.node_left.tolist(), vtree.node_right.tolist(), vtree.node_var.tolist(), strict=True
    )
    for v, (left, right, var) in enumerate(sides):
        if var != NONE:
            stays = var in var_number
            number.append(nodes.leaf(var_number[var]) if stays else NONE)
        else:
            below = number[left], number[right]
            stays = NONE not in below
            number.append(nodes.inner(*below) if stays else max(below))
        if stays:
            origin.append(v)
    arrays = (np.array(values, dtype=np.int32) for values in (number, origin))
    return Restriction(nodes.build(), *arrays)


def _from_leaves(variables: Sequence[int], shape: str) -> Vtree:
    if len(variables) == 0:
        raise ValueError("A vtree needs at least one variable.")
    nodes = VtreeNodes()
    nodes.combine([nodes.leaf(var) for var in variables], shape)
    return nodes.build()


def why_not_a_vtree(left: IntArray, right: IntArray, var: IntArray) -> str | None:
    """Why these arrays do not describe a vtree, or None if they do."""
    n_nodes = len(var)
    if not (left.ndim == right.ndim == var.ndim == 1) or not len(left) == len(right) == n_nodes:
        return "the three arrays must be one-dimensional and equally long"
    if n_nodes % 2 == 0:
        return f"a vtree has an odd number of nodes, not {n_nodes}"
    is_leaf = var != NONE
    if not np.array_equal(np.sort(var[is_leaf]), np.arange((n_nodes + 1) // 2)):
        return f"the leaves must hold the variables 0..{(n_nodes + 1) // 2 - 1}, each once"
    if np.any(left[is_leaf] != NONE) or np.any(right[is_leaf] != NONE):
        return "a leaf must not have children"
    inner = np.flatnonzero(~is_leaf)
    below = np.concatenate([left[inner], right[inner]])
    if np.any(below < 0) or np.any(below >= np.concatenate([inner, inner])):
        return "children must come before their parent"
    if not np.array_equal(np.sort(below), np.arange(n_nodes - 1)):
        return "every node but the last must be the child of exactly one node"
    return None


class MeetingPlaces:
    """Answers `top(first, last)`: the lowest node above the leaves at two places and between."""

    def __init__(self, vtree: Vtree) -> None:
        first, _ = vtree.node_span
        self.var_place: list[int] = first[vtree.var_leaf].tolist()
        self._leaf: list[int] = vtree.var_leaf[vtree.order].tolist()
        # One inner node stands between any two neighbouring leaves, and the lowest node above a
        # span is the shallowest that stands inside it. Minima over all powers of two answer that.
        inner = np.flatnonzero(vtree.node_var == NONE).astype(np.int32)
        between: IntArray = np.empty(vtree.n_vars - 1, dtype=np.int32)
        between[first[vtree.node_right[inner]] - 1] = inner
        depth = vtree.node_depth
        self._best: list[list[int]] = [between.tolist()]
        self._depth: list[int] = depth.tolist()
        width = 1
        while 2 * width < vtree.n_vars:
            a, b = between[:-width], between[width:]
            between = np.where(depth[a] <= depth[b], a, b)
            self._best.append(between.tolist())
            width *= 2

    def top(self, first: int, last: int) -> int:
        """The lowest node above the leaves at places `first` to `last`, both included."""
        if first == last:
            return self._leaf[first]
        power = (last - first).bit_length() - 1
        a = self._best[power][first]
        b = self._best[power][last - (1 << power)]
        return a if self._depth[a] <= self._depth[b] else b
