"""Circuits: probabilistic circuits in one normal form, as flat arrays.

Every inner vtree node owns sum nodes. A sum is a list of *edges*; an edge is a weighted product of
a left child, normalised for the left vtree child, and a right child, normalised for the right one.
At a vtree leaf there are the two literals of its variable, and sums over both. This is the form of
a PSDD.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from strudel._display import Shown
from strudel._types import NONE, FloatArray, IntArray
from strudel.circuits.circuit import LARGEST_LOG, Edges, starts
from strudel.tables.table_code import CodedNames, TableCode, code_of
from strudel.trees.vtree import Vtree


@dataclass(frozen=True, eq=False)
class BitCircuit(Shown):
    """A probabilistic circuit over 0/1 variables.

    Node ``2 * v + value`` is the literal `X_v = value`, all literals come first, children come
    before parents, and the last node is the root. A product has no node of its own: it is one row
    of the edge arrays.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> figure_1_circuit()
    BitCircuit(n_vars=4, n_nodes=17, n_edges=16)
    """

    vtree: Vtree
    node_vtree: IntArray  # (n_nodes,) vtree node the node is normalised for
    node_edges: IntArray  # (n_nodes + 1,) edges of n are node_edges[n]:node_edges[n + 1]
    edge_left: IntArray  # (n_edges,) left child; the literal itself at a vtree leaf
    edge_right: IntArray  # (n_edges,) right child; NONE at a vtree leaf
    edge_log_theta: FloatArray  # (n_edges,) natural log of the parameter
    feature_names: tuple[str, ...] | None = None  # one per variable

    def __post_init__(self) -> None:
        problem = why_not_well_formed(self)
        if problem is not None:
            raise ValueError(f"These arrays are not a circuit: {problem}.")
        for array in (
            self.node_vtree,
            self.node_edges,
            self.edge_left,
            self.edge_right,
            self.edge_log_theta,
        ):
            array.flags.writeable = False

    @property
    def n_vars(self) -> int:
        """Number of variables."""
        return self.vtree.n_vars

    @property
    def n_nodes(self) -> int:
        """Number of literals and sum nodes."""
        return len(self.node_vtree)

    @property
    def n_edges(self) -> int:
        """Number of edges out of sum nodes, each to one product (at a leaf, to one literal)."""
        return len(self.edge_left)

    @property
    def n_parameters(self) -> int:
        """Number of edges that carry a choice: those of sums with at least two edges."""
        width = np.diff(self.node_edges)
        return int(width[width > 1].sum())

    @property
    def root(self) -> int:
        """The last node."""
        return self.n_nodes - 1

    @property
    def edges(self) -> Edges:
        """The edges of all nodes."""
        return Edges(self.node_edges, self.edge_left, self.edge_right)

    @cached_property
    def edge_parent(self) -> IntArray:
        """The sum node every edge leaves."""
        return np.repeat(np.arange(self.n_nodes, dtype=np.int32), np.diff(self.node_edges))

    @cached_property
    def depth(self) -> int:
        """Number of edges on the longest path from the root down to a literal."""
        height = np.zeros(self.n_nodes, dtype=np.int64)
        parent = self.edge_parent
        for v in range(self.vtree.n_nodes):  # all edges of one at once: their children lie below
            edges = self.vtree_edges(v)
            if len(edges):
                right = np.maximum(self.edge_right[edges], 0)
                below = np.maximum(
                    height[self.edge_left[edges]], height[right] * (self.edge_right[edges] != NONE)
                )
                np.maximum.at(height, parent[edges], below + 1)
        return int(height[self.root])

    def vtree_edges(self, v: int) -> IntArray:
        """The edges of all sums at vtree node `v`."""
        first, edges = self._edges_by_vtree
        return edges[first[v] : first[v + 1]]

    @cached_property
    def _edges_by_vtree(self) -> tuple[IntArray, IntArray]:
        edge_vtree = self.node_vtree[self.edge_parent]
        edges = np.argsort(edge_vtree, kind="stable").astype(np.int32)
        return starts(edge_vtree, self.vtree.n_nodes), edges

    @cached_property
    def sums_by_vtree(self) -> tuple[IntArray, IntArray]:
        """Sums of vtree node `v` are `nodes[first[v]:first[v + 1]]`."""
        sums = np.arange(2 * self.n_vars, self.n_nodes, dtype=np.int32)
        place = self.node_vtree[sums]
        if np.any(np.diff(place) < 0):  # only in circuits built by hand
            sums = sums[np.argsort(place, kind="stable")]
        return starts(place, self.vtree.n_nodes), sums

    @property
    def theta(self) -> FloatArray:
        """The parameters themselves, not their logs."""
        return np.exp(self.edge_log_theta)

    def with_parameters(self, edge_log_theta: FloatArray) -> BitCircuit:
        """The same structure with other parameters."""
        made = replace(self, edge_log_theta=np.array(edge_log_theta, dtype=np.float64))
        return made.made_deterministic() if self.is_known_deterministic else made

    def with_names(self, feature_names: tuple[str, ...] | None) -> BitCircuit:
        """The same circuit with other feature names; a code stays."""
        if self.table_code is not None and code_of(feature_names) is None:
            feature_names = CodedNames(self.table_code, feature_names)
        made = replace(self, feature_names=feature_names)
        return made.made_deterministic() if self.is_known_deterministic else made

    @property
    def table_code(self) -> TableCode | None:
        """How the columns of a table became the variables, if they did."""
        return code_of(self.feature_names)

    def with_table_code(self, code: TableCode | None) -> BitCircuit:
        """The same circuit, which answers in the columns of a table; None for its variables."""
        names = None if self.feature_names is None else tuple(self.feature_names)
        if code is not None and code.n_vars != self.n_vars:
            raise ValueError(
                f"The code has {code.n_vars} variables, but the circuit has {self.n_vars}."
            )
        made = object.__new__(BitCircuit)
        made.__dict__.update(self.__dict__)  # the same arrays, and what is known of them by now
        made.__dict__.pop("_folded", None)  # but for what it is over other columns
        made.__dict__["feature_names"] = names if code is None else CodedNames(code)
        return made

    @cached_property
    def is_smooth(self) -> bool:
        """Whether all children of every sum are about the same variables."""
        return self.is_in_normal_form or _properties().why_not_smooth(self) is None

    @cached_property
    def is_decomposable(self) -> bool:
        """Whether the two children of every product share no variable."""
        return self.is_in_normal_form or _properties().why_not_decomposable(self) is None

    @cached_property
    def is_structured_decomposable(self) -> bool:
        """Whether every product splits its variables as the vtree does."""
        return self.is_in_normal_form or _properties().why_not_structured_decomposable(self) is None

    @cached_property
    def is_in_normal_form(self) -> bool:
        """Whether every node lies at its vtree node, with its children on the proper sides."""
        return _properties().why_not_in_normal_form(self) is None

    @cached_property
    def is_deterministic(self) -> bool:
        """Whether no row satisfies two edges of one sum."""
        return _properties().why_not_deterministic(self) is None

    @property
    def is_known_deterministic(self) -> bool:
        """Whether it was found to be, or is by the way it was made."""
        return self.__dict__.get("is_deterministic", False)

    def made_deterministic(self) -> BitCircuit:
        """Itself, where its maker knows that it is deterministic: nobody needs to check."""
        self.__dict__["is_deterministic"] = True
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by making the circuit again, so that its arrays are checked and stay read-only."""
        return BitCircuit, tuple(getattr(self, field.name) for field in fields(self))

    def __repr__(self) -> str:
        return f"BitCircuit(n_vars={self.n_vars}, n_nodes={self.n_nodes}, n_edges={self.n_edges})"


def _properties() -> Any:
    """Imported late: `properties` is written in terms of `BitCircuit`."""
    from strudel.learning.bits import properties

    return properties


def why_not_well_formed(circuit: BitCircuit) -> str | None:
    """Why the arrays do not fit together, or None.

    Says nothing of smoothness, decomposability or determinism: see `properties`.
    """
    n_vars, n_nodes, n_edges = circuit.n_vars, len(circuit.node_vtree), len(circuit.edge_left)
    node_edges = circuit.node_edges
    if not len(circuit.edge_right) == len(circuit.edge_log_theta) == n_edges:
        return "the edge arrays differ in length"
    if len(node_edges) != n_nodes + 1 or node_edges[0] != 0 or node_edges[-1] != n_edges:
        return "node_edges must start at 0, end at n_edges and have n_nodes + 1 entries"
    if np.any(node_edges[1:] < node_edges[:-1]):  # a difference could overflow
        return "node_edges must not decrease"
    if n_nodes < 2 * n_vars + 1 and not (n_vars == 1 and n_nodes == 2):
        return (
            f"{n_vars} variables need {2 * n_vars} literals and a root, but {n_nodes} nodes exist"
        )
    if np.any(node_edges[: 2 * n_vars + 1] != 0):
        return "a literal must not have edges"
    empty = np.flatnonzero(np.diff(node_edges[2 * n_vars :]) == 0)
    if len(empty):
        return f"sum node {2 * n_vars + empty[0]} has no edges"
    if np.any((circuit.node_vtree < 0) | (circuit.node_vtree >= circuit.vtree.n_nodes)):
        return "node_vtree points outside the vtree"
    if not np.array_equal(circuit.node_vtree[: 2 * n_vars], np.repeat(circuit.vtree.var_leaf, 2)):
        return "node 2 * v + value must be a literal at the leaf of variable v"
    parent = np.repeat(np.arange(n_nodes), np.diff(node_edges))
    if np.any((circuit.edge_left < 0) | (circuit.edge_left >= parent)):
        return "the left child of every edge must come before its parent"
    if np.any((circuit.edge_right < NONE) | (circuit.edge_right >= parent)):
        return "the right child of every edge must be NONE or come before its parent"
    if not np.all(circuit.edge_log_theta <= LARGEST_LOG):  # nan is not, either
        return f"log-parameters must be numbers up to {LARGEST_LOG:g}, or -inf"
    if circuit.feature_names is not None and len(circuit.feature_names) != n_vars:
        return f"there are {len(circuit.feature_names)} feature names for {n_vars} variables"
    return None
