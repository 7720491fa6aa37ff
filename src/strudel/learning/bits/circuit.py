"""Circuits over 0/1 variables, as learners grow them: flat arrays in one normal form.

Every inner vtree node owns sum nodes. A sum is a list of *edges*; an edge is a weighted product of
a left child, normalised for the left vtree child, and a right child, normalised for the right one.
At a vtree leaf there are the two literals of its variable, and sums over both. This is the form of
a PSDD.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from strudel._types import NONE, FloatArray, IntArray
from strudel.circuits.builder import CircuitBuilder
from strudel.circuits.circuit import LARGEST_LOG, Edges, starts
from strudel.trees.vtree import Vtree


@dataclass(frozen=True, eq=False)
class BitCircuit:
    """A probabilistic circuit over 0/1 variables.

    Node ``2 * v + value`` is the literal `X_v = value`, all literals come first, children come
    before parents, and the last node is the root. A product has no node of its own: it is one row
    of the edge arrays.
    """

    vtree: Vtree
    node_vtree: IntArray  # (n_nodes,) vtree node the node is normalised for
    node_edges: IntArray  # (n_nodes + 1,) edges of n are node_edges[n]:node_edges[n + 1]
    edge_left: IntArray  # (n_edges,) left child; the literal itself at a vtree leaf
    edge_right: IntArray  # (n_edges,) right child; NONE at a vtree leaf
    edge_log_theta: FloatArray  # (n_edges,) natural log of the parameter

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

    @property
    def theta(self) -> FloatArray:
        """The parameters themselves, not their logs."""
        return np.exp(self.edge_log_theta)

    def with_parameters(self, edge_log_theta: FloatArray) -> BitCircuit:
        """The same structure with other parameters."""
        made = replace(self, edge_log_theta=np.array(edge_log_theta, dtype=np.float64))
        return made.made_deterministic() if self.is_known_deterministic else made

    @property
    def is_known_deterministic(self) -> bool:
        """Whether it is by the way it was made."""
        return self.__dict__.get("_is_deterministic", False)

    def made_deterministic(self) -> BitCircuit:
        """Itself, where its maker knows that it is deterministic: nobody needs to check."""
        self.__dict__["_is_deterministic"] = True
        return self


def why_not_well_formed(circuit: BitCircuit) -> str | None:
    """Why the arrays do not fit together, or are not in normal form; None if they are."""
    n_vars, n_nodes, n_edges = circuit.n_vars, len(circuit.node_vtree), len(circuit.edge_left)
    node_edges, vtree = circuit.node_edges, circuit.vtree
    if not len(circuit.edge_right) == len(circuit.edge_log_theta) == n_edges:
        return "the edge arrays differ in length"
    if len(node_edges) != n_nodes + 1 or node_edges[0] != 0 or node_edges[-1] != n_edges:
        return "node_edges must start at 0, end at n_edges and have n_nodes + 1 entries"
    if n_nodes < 2 * n_vars + 1:
        return (
            f"{n_vars} variables need {2 * n_vars} literals and a root, but {n_nodes} nodes exist"
        )
    width = np.diff(node_edges)
    if np.any(width[: 2 * n_vars] != 0) or np.any(width[2 * n_vars :] <= 0):
        return "a literal must not have edges, and every sum must have some"
    if np.any((circuit.node_vtree < 0) | (circuit.node_vtree >= vtree.n_nodes)):
        return "node_vtree points outside the vtree"
    if not np.array_equal(circuit.node_vtree[: 2 * n_vars], np.repeat(vtree.var_leaf, 2)):
        return "node 2 * v + value must be a literal at the leaf of variable v"
    parent, left, right = circuit.edge_parent, circuit.edge_left, circuit.edge_right
    if np.any((left < 0) | (left >= parent)) or np.any((right < NONE) | (right >= parent)):
        return "the children of every edge must come before their parent"
    v = circuit.node_vtree[parent]
    child_vtree = np.append(circuit.node_vtree, NONE)  # so that child NONE has vtree node NONE
    is_good = np.where(
        vtree.node_var[v] != NONE,
        (left < 2 * n_vars) & (child_vtree[left] == v) & (right == NONE),
        (child_vtree[left] == vtree.node_left[v]) & (child_vtree[right] == vtree.node_right[v]),
    )
    if not np.all(is_good) or circuit.node_vtree[-1] != vtree.root:
        return "nodes must be normalised for the vtree nodes that they name"
    if not np.all(circuit.edge_log_theta <= LARGEST_LOG):  # nan is not, either
        return f"log-parameters must be numbers up to {LARGEST_LOG:g}, or -inf"
    return None


def bits_of(builder: CircuitBuilder, root: int | None = None) -> BitCircuit:
    """What a builder has below a node, the last one by default."""
    root = builder.n_nodes - 1 if root is None else root
    if root < 2 * builder.vtree.n_vars:  # a single variable that is known
        root = builder.add_at(builder.vtree.root, [(root, NONE, 0.0)])
    node_vtree = np.array(builder.node_vtree, dtype=np.int32)
    return assemble_bits(builder.vtree, node_vtree, *builder.edge_arrays(), root)


def assemble_bits(
    vtree: Vtree,
    node_vtree: IntArray,
    edge_parent: IntArray,
    edge_left: IntArray,
    edge_right: IntArray,
    edge_log_theta: FloatArray,
    root: int,
) -> BitCircuit:
    """Make a `BitCircuit` of the nodes that `root` reaches, given edges in any order of parents.

    Edges of one parent keep their order. Nodes are sorted by vtree node and number, which puts
    children first because vtree children come before their parents.
    """
    n_literals = 2 * vtree.n_vars
    reached = np.zeros(len(node_vtree), dtype=bool)
    reached[:n_literals] = True
    reached[root] = True
    by_vtree = np.argsort(node_vtree[edge_parent], kind="stable")[::-1]
    first = np.flatnonzero(np.diff(node_vtree[edge_parent[by_vtree]], prepend=-1))
    for group in np.split(by_vtree, first[1:]):  # from the root's vtree node down
        active = group[reached[edge_parent[group]]]
        reached[edge_left[active]] = True
        reached[edge_right[active][edge_right[active] != NONE]] = True
    sums = np.flatnonzero(reached[n_literals:]) + n_literals
    sums = sums[np.argsort(node_vtree[sums], kind="stable")]
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
    )
