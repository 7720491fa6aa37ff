"""Circuits over the columns of a table: leaves are tables, parameters have one axis per component.

A leaf holds, for each cell of its column, the log of a probability. A sum lies at an inner vtree
node and is a list of *edges*; an edge is a weighted product of a left child, which lies at the left
vtree child, and a right child. One component is a circuit as the paper has it; several of them are
its mixture on one structure, whose root chooses among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from strudel._display import Shown
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.tables.schema import Columns
from strudel.trees.vtree import Vtree

LARGEST_LOG = 1e100  # of a parameter: sums of as many as fit into memory stay finite
WEIGHT_TOLERANCE = 1e-9  # how far the weights may be from adding up to one


class Edges(NamedTuple):
    """The edges of all nodes of a structure, as kernels take them."""

    node_edges: IntArray  # (n_nodes + 1,) edges of n are node_edges[n]:node_edges[n + 1]
    edge_left: IntArray  # (n_edges,) left child; the literal itself at a vtree leaf
    edge_right: IntArray  # (n_edges,) right child; NONE at a vtree leaf


@dataclass(frozen=True, eq=False)
class Circuit(Shown):
    """A probabilistic circuit over the columns of a table.

    Nodes are numbered from the leaves, by their columns, to the sums, by their vtree nodes; so
    children come before parents, and the last node is the root.
    """

    columns: Columns
    vtree: Vtree  # over the places of the columns
    leaf_column: IntArray  # (n_leaves,) the place of each leaf's column, in order
    leaf_log_p: FloatArray  # (n_leaf_cells, k) the cells of the leaves, one leaf after another
    sum_vtree: IntArray  # (n_sums,) the vtree node of each sum, in order
    sum_edges: IntArray  # (n_sums + 1,) edges of sum s are sum_edges[s]:sum_edges[s + 1]
    edge_left: IntArray  # (n_edges,) a node, leaf or sum
    edge_right: IntArray  # (n_edges,)
    edge_log_theta: FloatArray  # (n_edges, k)
    log_weight: FloatArray  # (k,) of the components
    known: FloatArray | None = None  # (n_leaf_cells, k) how often rows with this cell tell it
    log_total: float = 0.0  # what it adds up to; its sums and leaves add up to one

    def __post_init__(self) -> None:
        for name in ("leaf_column", "sum_vtree", "sum_edges", "edge_left", "edge_right"):
            _set(self, name, np.int32)
        for name in ("leaf_log_p", "edge_log_theta", "log_weight", "known"):
            if getattr(self, name) is not None:
                _set(self, name, np.float64)
        problem = why_not_well_formed(self)
        if problem is not None:
            raise ValueError(f"These arrays are not a circuit: {problem}.")

    @property
    def n_components(self) -> int:
        """Number of components."""
        return len(self.log_weight)

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return len(self.leaf_column)

    @property
    def n_nodes(self) -> int:
        """Number of leaves and sums."""
        return self.n_leaves + len(self.sum_vtree)

    @property
    def n_edges(self) -> int:
        """Number of edges out of sums."""
        return len(self.edge_left)

    @cached_property
    def _n_choices(self) -> tuple[int, int]:
        """Edges as the paper has them, and those with a choice: leaves are sums over cells."""
        is_cell = np.any(self.leaf_log_p > -np.inf, axis=1)
        n_cells = np.add.reduceat(is_cell, self.leaf_first[:-1])
        widths = np.concatenate([n_cells[n_cells > 1], np.diff(self.sum_edges)])
        return int(widths.sum()), int(widths[widths > 1].sum())

    @property
    def size(self) -> int:
        """Number of edges as the paper counts: a leaf with several possible cells is a sum."""
        return self._n_choices[0]

    @property
    def n_parameters(self) -> int:
        """Edges of sums with several, as `size` counts them, and weights of several components."""
        n_weights = self.n_components if self.n_components > 1 else 0
        return n_weights + self.n_components * self._n_choices[1]

    @property
    def root(self) -> int:
        """The last node."""
        return self.n_nodes - 1

    @cached_property
    def leaf_first(self) -> IntArray:
        """Cells of leaf l are rows ``leaf_first[l]:leaf_first[l + 1]`` of `leaf_log_p`."""
        widths = np.array([column.n_cells for column in self.columns])[self.leaf_column]
        return np.concatenate([[0], np.cumsum(widths)]).astype(np.int32)

    @cached_property
    def column_leaves(self) -> IntArray:
        """Leaves of column c are ``column_leaves[c]:column_leaves[c + 1]``."""
        return starts(self.leaf_column, len(self.columns))

    @cached_property
    def vtree_sums(self) -> IntArray:
        """Sums of vtree node v are ``vtree_sums[v]:vtree_sums[v + 1]``."""
        return starts(self.sum_vtree, self.vtree.n_nodes)

    @cached_property
    def node_edges(self) -> IntArray:
        """Edges of node n are ``node_edges[n]:node_edges[n + 1]``; a leaf has none."""
        return np.concatenate([np.zeros(self.n_leaves, dtype=np.int32), self.sum_edges])

    @cached_property
    def edge_sum(self) -> IntArray:
        """The sum that every edge leaves."""
        return np.repeat(np.arange(len(self.sum_vtree), dtype=np.int32), np.diff(self.sum_edges))

    @cached_property
    def node_vtree(self) -> IntArray:
        """The vtree node of every node."""
        return np.concatenate([self.vtree.var_leaf[self.leaf_column], self.sum_vtree])

    def leaf_table(self, place: int, name: str = "leaf_log_p") -> FloatArray:
        """The log-probabilities `(n_leaves, n_cells, k)` of the leaves of one column."""
        first, last = self.column_leaves[place : place + 2]
        rows = getattr(self, name)[self.leaf_first[first] : self.leaf_first[last]]
        return rows.reshape(last - first, -1, self.n_components)

    def components(self, kept: AnyArray) -> Circuit:
        """Some of the components, in proportion to their weights."""
        log_weight = self.log_weight[kept]
        return replace(
            self,
            leaf_log_p=self.leaf_log_p[:, kept],
            edge_log_theta=self.edge_log_theta[:, kept],
            log_weight=log_weight - np.logaddexp.reduce(log_weight),
            known=None if self.known is None else self.known[:, kept],
        )

    def with_weights(self, log_weight: FloatArray) -> Circuit:
        """The same components with other weights; those without any are left out."""
        made = replace(self, log_weight=log_weight - np.logaddexp.reduce(log_weight))
        is_left = log_weight > -np.inf
        return made if is_left.all() else made.components(is_left)

    def nothing(self) -> Circuit:
        """A circuit over the same columns that is zero everywhere."""
        return replace(self, leaf_log_p=np.full_like(self.leaf_log_p, -np.inf), log_total=-np.inf)

    def with_columns(self, columns: Columns) -> Circuit:
        """The same circuit over columns that have as many cells."""
        return replace(self, columns=columns)

    def with_names(self, names: Sequence[str]) -> Circuit:
        """The same circuit with other names of its columns."""
        columns = [replace(own, name=name) for own, name in zip(self.columns, names, strict=True)]
        return self.with_columns(replace(self.columns, columns=tuple(columns)))

    def from_torch(self, module: Any) -> Circuit:
        """The circuit with the parameters of a module that `to_torch` made of it."""
        found: Circuit = module.to_model_of(self)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        """Without what was made for questions."""
        return Circuit, tuple(getattr(self, field.name) for field in fields(self))

    def __repr__(self) -> str:
        return (
            f"Circuit(n_components={self.n_components}, n_columns={len(self.columns)}, "
            f"n_nodes={self.n_nodes}, n_edges={self.n_edges})"
        )


def _set(circuit: Circuit, name: str, dtype: type) -> None:
    """Keep an array that no other code can change."""
    own: AnyArray = np.ascontiguousarray(getattr(circuit, name), dtype=dtype)
    if own.flags.writeable:
        own = own.copy() if own is getattr(circuit, name) else own
        own.flags.writeable = False
    object.__setattr__(circuit, name, own)


def starts(owner: IntArray, n_owners: int) -> IntArray:
    """Where each owner's items start when items are sorted by owner, and where the last end."""
    first = np.zeros(n_owners + 1, dtype=np.int32)
    np.cumsum(np.bincount(owner, minlength=n_owners), out=first[1:])
    return first


def why_not_well_formed(circuit: Circuit) -> str | None:
    """Why the arrays do not fit together, or None."""
    k, n_columns, vtree = circuit.n_components, len(circuit.columns), circuit.vtree
    if circuit.log_weight.ndim != 1 or k == 0:
        return "there must be one weight per component, and at least one component"
    for name in ("leaf_log_p", "edge_log_theta", "log_weight"):
        if not np.all(getattr(circuit, name) <= LARGEST_LOG):  # NaN is not, either
            return f"logs of parameters must be numbers up to {LARGEST_LOG:g}, or -inf"
    total = float(np.exp(circuit.log_weight).sum())
    if not abs(total - 1.0) <= WEIGHT_TOLERANCE * k:
        return f"the weights add up to {total:g} instead of 1"
    if vtree.n_vars != n_columns:
        return f"the vtree has {vtree.n_vars} leaves for {n_columns} columns"
    leaf, sums = circuit.leaf_column, circuit.sum_vtree
    if len(leaf) == 0 or np.any((leaf < 0) | (leaf >= n_columns)) or np.any(np.diff(leaf) < 0):
        return "leaves must be about columns, in their order"
    if circuit.leaf_log_p.shape != (circuit.leaf_first[-1], k):
        return f"leaves must have shape ({circuit.leaf_first[-1]}, {k})"
    n_sums, n_edges = len(sums), circuit.n_edges
    if np.any((sums < 0) | (sums >= vtree.n_nodes)) or np.any(np.diff(sums) < 0):
        return "sums must lie at vtree nodes, in their order"
    if n_sums and np.any(vtree.node_var[sums] != NONE):
        return "sums must lie at inner vtree nodes"
    ends = circuit.sum_edges
    if (
        len(ends) != n_sums + 1
        or ends[0] != 0
        or ends[-1] != n_edges
        or np.any(ends[1:] <= ends[:-1])
    ):
        return "every sum must have edges, and every edge a sum"
    if circuit.edge_log_theta.shape != (n_edges, k) or len(circuit.edge_right) != n_edges:
        return f"the edge arrays must have {n_edges} entries, parameters one per component"
    if circuit.node_vtree[-1] != vtree.root:
        return "the last node must lie at the root of the vtree"
    place = sums[circuit.edge_sum]
    for child, side in (
        (circuit.edge_left, vtree.node_left),
        (circuit.edge_right, vtree.node_right),
    ):
        if np.any((child < 0) | (child >= circuit.n_nodes)):
            return "children must be nodes"
        if np.any(circuit.node_vtree[child] != side[place]):
            return "the children of every edge must lie at the children of its vtree node"
    known = circuit.known
    if known is not None and known.shape != circuit.leaf_log_p.shape:
        return "there must be a share of known values per cell of the leaves and component"
    if known is not None and not np.all((known >= 0.0) & (known <= 1.0)):
        return "shares of known values must be between 0 and 1"
    return None
