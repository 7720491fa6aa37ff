"""The average of components and latent trees as one circuit on one vtree.

In:  models of the same columns with a share each; all trees are over the same `TreeShape`.
Out: a `Circuit`, whose root chooses among the models.

The vtree has a node for every column that has others below it in the tree: the column on the left,
all below on the right. There a tree has a sum for every state of the column above, and components
have a product each; so models lie beside one another, and only the root joins them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from strudel._types import NONE, AnyArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.learning.tables.components import Components
from strudel.learning.tables.latent_tree import LatentTree, TreeShape
from strudel.tables.schema import Columns
from strudel.trees.vtree import Vtree

Model = Components | LatentTree


def average_circuit(
    models: Sequence[Model], share: FloatArray, tree: TreeShape, columns: Columns
) -> Circuit:
    """The circuit of the models with these shares."""
    building = _Building(columns)
    top: dict[int, int] = {}  # by column: the vtree node of it and all below
    for column in tree.order[::-1].tolist():
        children, is_root = tree.children[column], column == tree.root
        links = [_link(model, column, is_root=is_root) for model in models]
        if is_root:
            links = [part * link for part, link in zip(share, links, strict=True)]
        if not children:
            tables = [_tables(model, column) for model in models]
            mixed = [
                table if link is None else link @ table
                for link, table in zip(links, tables, strict=True)
            ]
            if is_root:
                mixed = [np.sum(mixed, axis=0)]
            top[column] = building.leaf(column, mixed)
            continue
        leaf = building.leaf(column, [_tables(model, column) for model in models])
        below = top[children[-1]]
        for child in reversed(children[:-1]):
            below = building.node(top[child], below, [None] * len(models))
        top[column] = building.node(leaf, below, links, is_root=is_root)
    return building.circuit()


def _tables(model: Model, column: int) -> FloatArray:
    """How probable each cell is in every state, and that it is also told, `(2, n, n_cells)`."""
    tables = model.tables if isinstance(model, Components) else model.parameters.tables
    table = np.asarray(tables[column].T, dtype=np.float64)
    told, missing = table[:, :-1], table[:, -1:]
    values = told / told.sum(axis=1, keepdims=True)
    return np.stack([values, values if np.all(missing == 1.0) else values * (1.0 - missing)])


def _link(model: Model, column: int, *, is_root: bool) -> FloatArray | None:
    """The probability of the states of a column, a line per state above; None if it is the same."""
    if isinstance(model, Components):
        return model.share[np.newaxis] if is_root else None
    link: FloatArray = model.parameters.links[column].astype(np.float64)
    return link / link.sum(axis=1, keepdims=True)


class _Building:
    """The arrays of a circuit whose vtree grows from its leaves."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.vtree_nodes: list[tuple[int, int, int]] = []  # left, right, column
        self.n_nodes: list[list[int]] = []  # by vtree node: nodes of every model
        self.tables: dict[int, FloatArray] = {}  # by column: `(2, n_leaves, n_cells)`
        self.sums: list[tuple[int, AnyArray, AnyArray, AnyArray, FloatArray]] = []

    def leaf(self, column: int, tables: Sequence[FloatArray]) -> int:
        """A vtree node for a column, with leaves of every model."""
        self.tables[column] = np.concatenate(tables, axis=1)
        return self._vtree_node(NONE, NONE, column, [table.shape[1] for table in tables])

    def node(
        self, left: int, right: int, links: Sequence[FloatArray | None], *, is_root: bool = False
    ) -> int:
        """A vtree node above two others, where state i of the left goes with state i of the right.

        A link has a line for every sum of the model; without one its products stay alone.
        """
        n_states = [len(link[0]) if link is not None else 0 for link in links]
        first_left, first_right = (_starts(self.n_nodes[side]) for side in (left, right))
        width, lefts, rights, theta, n_sums = [], [], [], [], []
        for i, link in enumerate(links):
            n = self.n_nodes[left][i]
            state = np.arange(n) if link is None else np.tile(np.arange(n_states[i]), len(link))
            n_sums.append(n if link is None else len(link))
            width.append(np.full(n_sums[-1], len(state) // n_sums[-1]))
            theta.append(np.ones(n) if link is None else link.ravel())
            lefts.append(first_left[i] + state)
            rights.append(first_right[i] + state)
        if is_root:
            width, n_sums = [np.array([sum(map(int, np.concatenate(width)))])], [1]
        v = self._vtree_node(left, right, NONE, n_sums)
        joined = [np.concatenate(arrays) for arrays in (width, lefts, rights, theta)]
        self.sums.append((v, joined[0], joined[1], joined[2], joined[3]))
        return v

    def _vtree_node(self, left: int, right: int, column: int, n_nodes: list[int]) -> int:
        self.vtree_nodes.append((left, right, column))
        self.n_nodes.append(n_nodes)
        return len(self.vtree_nodes) - 1

    def circuit(self) -> Circuit:
        """All as a circuit, whose leaves come by column and whose sums come by vtree node."""
        left, right, column = np.array(self.vtree_nodes, dtype=np.int32).T.copy()
        vtree = Vtree(left, right, column)
        tables = [self.tables[c] for c in range(len(self.columns))]
        n_leaves = [table.shape[1] for table in tables]
        values, told = np.concatenate([table.reshape(2, -1) for table in tables], axis=1)
        known = None
        if np.any(told < values):
            known = np.divide(told, values, out=np.ones_like(told), where=values > 0.0)
            known = np.clip(known, 0.0, 1.0)[:, np.newaxis]
        first = np.zeros(vtree.n_nodes, dtype=np.int64)  # the first node at a vtree node
        first[vtree.var_leaf] = _starts(n_leaves)
        at = [v for v, *_ in self.sums]
        n_sums = [len(width) for _, width, *_ in self.sums]
        first[at] = sum(n_leaves) + _starts(n_sums)
        none = [np.zeros(0, dtype=np.int64)]
        lefts = [first[left[v]] + own for v, _, own, _, _ in self.sums]
        rights = [first[right[v]] + own for v, _, _, own, _ in self.sums]
        widths, theta = ([sums[i] for sums in self.sums] for i in (1, 4))
        with np.errstate(divide="ignore"):
            return Circuit(
                self.columns,
                vtree,
                np.repeat(np.arange(len(tables)), n_leaves),
                np.log(values)[:, np.newaxis],
                np.repeat(np.array(at, dtype=np.int32), n_sums),
                np.concatenate([[0], *widths]).cumsum(),
                np.concatenate(none + lefts),
                np.concatenate(none + rights),
                np.log(np.concatenate([np.zeros(0), *theta]))[:, np.newaxis],
                np.zeros(1),
                known,
            )


def _starts(sizes: Sequence[int]) -> AnyArray:
    return np.cumsum([0, *sizes])[:-1]
