"""The growing form of a circuit, for people and file readers that build one node at a time.

In:  a vtree, then `add_sum` calls, children first.
Out: `build()` sorts, drops what the root does not reach, and freezes.

Nodes at the leaves of the vtree are literals, one per value of a variable, and sums of literals:
what the circuit has as the cells of its leaves.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from strudel._names import names_of
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit, starts
from strudel.circuits.reweigh import adding_up
from strudel.tables.column import Column
from strudel.tables.schema import Columns, bit_columns
from strudel.trees.vtree import Vtree

Edge: TypeAlias = tuple[int, int, float]  # left child, right child, log of the parameter


class CircuitBuilder:
    """Collects nodes over a vtree whose variables are columns of 0 and 1, or of a few values.

    Parameters
    ----------
    vtree : Vtree
    feature_names : sequence of str, optional
        The names of the columns; x0, x1, ... by default.
    n_values : sequence of int, optional
        How many values each variable has; two by default.

    Examples
    --------
    >>> from strudel import Vtree
    >>> builder = CircuitBuilder(Vtree.from_nested((0, 1)))
    >>> often = builder.add_leaf_sum(1, 0.9)  # P(X1 = 1) = 0.9
    >>> rarely = builder.add_leaf_sum(1, 0.2)
    >>> one, zero = builder.literal(0, 1), builder.literal(0, 0)
    >>> root = builder.add_sum([(one, often, 0.3), (zero, rarely, 0.7)])
    >>> builder.build(root)
    Circuit(n_components=1, n_columns=2, n_nodes=5, n_edges=2)
    """

    def __init__(
        self,
        vtree: Vtree,
        feature_names: Sequence[str] | None = None,
        n_values: Sequence[int] | None = None,
    ) -> None:
        self.vtree, self.feature_names = vtree, feature_names
        self.n_values = [2] * vtree.n_vars if n_values is None else list(n_values)
        self.first_literal: list[int] = [0, *itertools.accumulate(self.n_values)]
        self.node_vtree: list[int] = np.repeat(vtree.var_leaf, self.n_values).tolist()
        self.edges: list[tuple[int, int, int, float]] = []  # parent, left, right, log theta
        self.vtree_left: list[int] = vtree.node_left.tolist()
        self.vtree_right: list[int] = vtree.node_right.tolist()
        self.vtree_parent: list[int] = vtree.node_parent.tolist()
        self._lifted: dict[tuple[int, int], int] = {}
        self._trues: dict[int, int] = {}

    @property
    def n_nodes(self) -> int:
        """Number of nodes so far, literals included."""
        return len(self.node_vtree)

    def literal(self, var: int, value: int) -> int:
        """The node that is 1 exactly when `X_var == value`."""
        if not 0 <= var < self.vtree.n_vars or not 0 <= value < self.n_values[var]:
            raise ValueError(
                f"literal needs a variable in 0..{self.vtree.n_vars - 1} and one of its values, "
                f"such as 0 or 1, but got variable {var} and value {value}."
            )
        return self.first_literal[var] + int(value)

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
        parent = self.vtree_parent[left_vtree]
        if len(sides) > 1:
            raise ValueError(
                "All products of a sum must be normalised for one vtree node, but their children "
                f"are for the pairs {sorted(sides)}."
            )
        if (
            parent == NONE
            or self.vtree_left[parent] != left_vtree
            or self.vtree_right[parent] != right_vtree
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

    def true(self, v: int) -> int:
        """A node at vtree node `v` that every row satisfies."""
        pending = [v]
        while pending:
            u = pending[-1]
            left, right = self.vtree_left[u], self.vtree_right[u]
            missing = [w for w in (left, right) if w != NONE and w not in self._trues]
            if u not in self._trues and missing:
                pending += missing
                continue
            pending.pop()
            if u in self._trues:
                continue
            if left == NONE:
                var = int(self.vtree.node_var[u])
                literals = range(self.first_literal[var], self.first_literal[var + 1])
                edges: list[Edge] = [(literal, NONE, 0.0) for literal in literals]
            else:
                edges = [(self._trues[left], self._trues[right], 0.0)]
            self._trues[u] = self.add_at(u, edges)
        return self._trues[v]

    def lift(self, node: int, to: int) -> int:
        """The same node for a vtree node above its own, with true nodes beside it."""
        v = self.node_vtree[node]
        while v != to:
            up = self.vtree_parent[v]
            if (node, up) not in self._lifted:
                left, right = self.vtree_left[up], self.vtree_right[up]
                pair = (node, self.true(right)) if v == left else (self.true(left), node)
                self._lifted[node, up] = self.add_at(up, [(*pair, 0.0)])
            node, v = self._lifted[node, up], up
        return node

    def edge_arrays(self) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
        """The parent, the left and the right child, and the log-parameter of every edge."""
        columns: Any = zip(*self.edges, strict=True) if self.edges else [[]] * 4
        *ends, log_theta = columns
        parent, left, right = (np.array(own, dtype=np.int32) for own in ends)
        return parent, left, right, np.array(log_theta, dtype=np.float64)

    def build(self, root: int | None = None) -> Circuit:
        """Freeze what `root` (the last node by default) reaches."""
        return adding_up(self.as_they_are(root))

    def as_they_are(self, root: int | None = None) -> Circuit:
        """The same with parameters as they were given, whatever they add up to."""
        parent, left, right, log_theta = self.edge_arrays()
        return assemble(
            columns_of_values(self.n_values, self.feature_names),
            self.vtree,
            np.array(self.node_vtree, dtype=np.int32),
            parent,
            left,
            right,
            log_theta[:, np.newaxis],
            self.n_nodes - 1 if root is None else root,
        )


def columns_of_values(n_values: Sequence[int], names: Sequence[str] | None = None) -> Columns:
    """Columns of 0 and 1, and categories 0, 1, 2, ... where there are more values."""
    made = bit_columns(names_of(len(n_values), names), "pandas")
    columns = list(made)
    for place, n in enumerate(n_values):
        if n > 2:
            labels = tuple(map(str, range(n)))
            columns[place] = Column(
                made.names[place],
                "category",
                labels,
                tuple(range(n)),
                counts=(0,) * n,
                dtype="integer",
            )
    return Columns(tuple(columns), made.container)


def assemble(
    columns: Columns,
    vtree: Vtree,
    node_vtree: IntArray,
    edge_parent: IntArray,
    edge_left: IntArray,
    edge_right: IntArray,
    edge_log_theta: FloatArray,
    root: int,
    log_weight: FloatArray | None = None,
) -> Circuit:
    """The circuit below a node at the root of the vtree, given edges in any order of parents.

    The first nodes are the literals of the columns, one per cell. All nodes at a vtree leaf become
    leaves, and all edges there their tables. Edges of one parent keep their order.
    """
    if not 0 <= root < len(node_vtree) or node_vtree[root] != vtree.root:
        raise ValueError(
            f"The root must be a node at the root of the vtree that was added, but is node {root}."
        )
    is_leaf = vtree.node_var[node_vtree] != NONE
    reached = np.zeros(len(node_vtree), dtype=bool)
    reached[root] = True
    of_sums = np.flatnonzero(~is_leaf[edge_parent])
    by_vtree = of_sums[np.argsort(node_vtree[edge_parent[of_sums]], kind="stable")[::-1]]
    first = np.flatnonzero(np.diff(node_vtree[edge_parent[by_vtree]], prepend=-1))
    for group in np.split(by_vtree, first[1:]) if len(by_vtree) else []:  # from the root down
        active = group[reached[edge_parent[group]]]
        reached[edge_left[active]] = reached[edge_right[active]] = True
    leaves, sums = (np.flatnonzero(reached & own) for own in (is_leaf, ~is_leaf))
    leaf_column = vtree.node_var[node_vtree[leaves]]
    by_column = np.argsort(leaf_column, kind="stable")
    leaves, leaf_column = leaves[by_column], leaf_column[by_column]
    sums = sums[np.argsort(node_vtree[sums], kind="stable")]
    number = np.full(len(node_vtree), NONE, dtype=np.int32)
    number[leaves] = np.arange(len(leaves))
    number[sums] = len(leaves) + np.arange(len(sums))

    first_literal = np.concatenate([[0], np.cumsum(columns.n_cells)])
    first_cell = np.concatenate([[0], np.cumsum(columns.n_cells[leaf_column])])
    log_p = np.full((first_cell[-1], edge_log_theta.shape[1]), -np.inf)
    is_literal = leaves < first_literal[-1]
    cell = leaves - first_literal[leaf_column]
    log_p[first_cell[:-1][is_literal] + cell[is_literal]] = 0.0
    here = np.flatnonzero(is_leaf[edge_parent] & reached[edge_parent])
    leaf = number[edge_parent[here]]
    cells: AnyArray = first_cell[leaf] + edge_left[here] - first_literal[leaf_column[leaf]]
    np.logaddexp.at(log_p, cells, edge_log_theta[here])

    kept = of_sums[reached[edge_parent[of_sums]]]
    kept = kept[np.argsort(number[edge_parent[kept]], kind="stable")]
    return Circuit(
        columns,
        vtree,
        leaf_column=leaf_column,
        leaf_log_p=log_p,
        sum_vtree=node_vtree[sums],
        sum_edges=starts(number[edge_parent[kept]] - len(leaves), len(sums)),
        edge_left=number[edge_left[kept]],
        edge_right=number[edge_right[kept]],
        edge_log_theta=edge_log_theta[kept],
        log_weight=np.zeros(1) if log_weight is None else log_weight,
    )
