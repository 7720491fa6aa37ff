"""The growing form of a circuit, for people and file readers that build one node at a time.

In:  a vtree, then `add_sum` calls, children first.
Out: `build()` sorts, drops what the root does not reach, and freezes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from strudel._types import NONE, FloatArray, IntArray
from strudel.circuits.circuit import starts
from strudel.learning.bits.circuit import BitCircuit
from strudel.trees.vtree import Vtree

Edge: TypeAlias = tuple[int, int, float]  # left child, right child, log of the parameter


class CircuitBuilder:
    """Collects sum nodes over a vtree.

    Examples
    --------
    >>> from strudel import Vtree
    >>> builder = CircuitBuilder(Vtree.from_nested((0, 1)))
    >>> often = builder.add_leaf_sum(1, 0.9)  # P(X1 = 1) = 0.9
    >>> rarely = builder.add_leaf_sum(1, 0.2)
    >>> one, zero = builder.literal(0, 1), builder.literal(0, 0)
    >>> root = builder.add_sum([(one, often, 0.3), (zero, rarely, 0.7)])
    >>> builder.build(root)
    BitCircuit(n_vars=2, n_nodes=7, n_edges=6)
    """

    def __init__(self, vtree: Vtree, feature_names: Sequence[str] | None = None) -> None:
        self.vtree = vtree
        if feature_names is not None and not isinstance(feature_names, tuple):
            feature_names = tuple(feature_names)
        self.feature_names = feature_names
        self.node_vtree: list[int] = np.repeat(vtree.var_leaf, 2).tolist()
        self.edges: list[tuple[int, int, int, float]] = []  # parent, left, right, log theta

    @property
    def n_nodes(self) -> int:
        """Number of nodes so far, literals included."""
        return len(self.node_vtree)

    def literal(self, var: int, value: int) -> int:
        """The node that is 1 exactly when `X_var == value`."""
        if not 0 <= var < self.vtree.n_vars or value not in (0, 1):
            raise ValueError(
                f"literal needs a variable in 0..{self.vtree.n_vars - 1} and a value 0 or 1, "
                f"but got variable {var} and value {value}."
            )
        return 2 * var + int(value)

    def add_leaf_sum(self, var: int, theta: float) -> int:
        """Add the Bernoulli sum with `P(X_var = 1) = theta`."""
        if not 0.0 <= theta <= 1.0:
            raise ValueError(f"theta must be a probability, but is {theta}.")
        one, zero = self.literal(var, 1), self.literal(var, 0)
        return self._add(
            int(self.vtree.var_leaf[var]), [(one, NONE, theta), (zero, NONE, 1.0 - theta)]
        )

    def add_sum(self, edges: Iterable[tuple[int, int, float]]) -> int:
        """Add a sum of weighted products `(left child, right child, theta)`; returns its number.

        All products must be normalised for one vtree node.
        """
        products = list(edges)
        if not products:
            raise ValueError("A sum node needs at least one edge.")
        sides: set[tuple[int, int]] = set()
        for left, right, theta in products:
            for child in (left, right):
                if not 0 <= child < self.n_nodes:
                    raise ValueError(
                        f"Node {child} does not exist yet: add children before their parents."
                    )
            if not theta >= 0.0:
                raise ValueError(f"theta must be zero or more, but is {theta}.")
            sides.add((self.node_vtree[left], self.node_vtree[right]))
        left_vtree, right_vtree = min(sides)
        parent = int(self.vtree.node_parent[left_vtree])
        if len(sides) > 1:
            raise ValueError(
                "All products of a sum must be normalised for one vtree node, but their children "
                f"are for the pairs {sorted(sides)}."
            )
        if (
            parent == NONE
            or self.vtree.node_left[parent] != left_vtree
            or self.vtree.node_right[parent] != right_vtree
        ):
            raise ValueError(
                f"No vtree node has left child {left_vtree} and right child {right_vtree}: the "
                "left child of a product must be normalised for the left side of its vtree node."
            )
        return self._add(parent, products)

    def _add(self, vtree_node: int, edges: Iterable[tuple[int, int, float]]) -> int:
        with np.errstate(divide="ignore"):
            return self.add_at(
                vtree_node, [(left, right, float(np.log(theta))) for left, right, theta in edges]
            )

    def add_at(self, vtree_node: int, edges: Sequence[Edge]) -> int:
        """Add a sum at a vtree node without a check; its edges have logs of parameters."""
        node = self.n_nodes
        self.node_vtree.append(vtree_node)
        self.edges += [(node, *edge) for edge in edges]
        return node

    def build(self, root: int | None = None) -> BitCircuit:
        """Freeze what `root` (the last node by default) reaches."""
        columns = zip(*self.edges, strict=True) if self.edges else [[]] * 4
        parent, left, right, log_theta = map(np.array, columns)
        return assemble(
            self.vtree,
            np.array(self.node_vtree, dtype=np.int32),
            parent.astype(np.int32),
            left.astype(np.int32),
            right.astype(np.int32),
            log_theta.astype(np.float64),
            root=self.n_nodes - 1 if root is None else root,
            feature_names=self.feature_names,
        )


def assemble(
    vtree: Vtree,
    node_vtree: IntArray,
    edge_parent: IntArray,
    edge_left: IntArray,
    edge_right: IntArray,
    edge_log_theta: FloatArray,
    root: int,
    feature_names: tuple[str, ...] | None = None,
) -> BitCircuit:
    """Make a `BitCircuit` of the nodes that `root` reaches, given edges in any order of parents.

    Edges of one parent keep their order. Nodes are sorted by vtree node and number, which puts
    children first because vtree children come before their parents.
    """
    n_literals = 2 * vtree.n_vars
    is_fixed_variable = vtree.n_vars == 1 and root == 1  # the one literal that can be a root
    if not 0 <= root < len(node_vtree) or (root < n_literals and not is_fixed_variable):
        raise ValueError(f"The root must be a sum node that was added, but is node {root}.")
    reached = np.zeros(len(node_vtree), dtype=bool)
    reached[:n_literals] = True
    reached[root] = True
    by_vtree = np.argsort(node_vtree[edge_parent], kind="stable")[::-1]
    first = np.flatnonzero(np.diff(node_vtree[edge_parent[by_vtree]], prepend=-1))
    groups = np.split(by_vtree, first[1:]) if len(by_vtree) else []
    for group in groups:  # from the root's vtree node down
        active = group[reached[edge_parent[group]]]
        reached[edge_left[active]] = True
        reached[edge_right[active][edge_right[active] != NONE]] = True
    sums = np.flatnonzero(reached[n_literals:]) + n_literals
    sums = sums[np.argsort(node_vtree[sums], kind="stable")]
    sums = np.append(sums[sums != root], root) if root >= n_literals else sums
    number = np.full(len(node_vtree) + 1, NONE, dtype=np.int32)  # number[NONE] stays NONE
    number[:n_literals] = np.arange(n_literals)
    number[sums] = np.arange(n_literals, n_literals + len(sums))

    kept = np.flatnonzero(reached[edge_parent])
    kept = kept[np.argsort(number[edge_parent[kept]], kind="stable")]
    return BitCircuit(
        vtree=vtree,
        node_vtree=np.concatenate([node_vtree[:n_literals], node_vtree[sums]]),
        node_edges=starts(number[edge_parent[kept]], n_literals + len(sums)),
        edge_left=number[edge_left[kept]],
        edge_right=number[edge_right[kept]],
        edge_log_theta=np.array(edge_log_theta[kept], dtype=np.float64),
        feature_names=feature_names,
    )
