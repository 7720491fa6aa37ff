"""Products of circuits over the same columns and vtree: one walk over the pairs of their nodes.

In:  two `ColumnCircuit`s on one vtree; one of them may have a table of weights for each cell class.
Out: the circuit whose value is the product of theirs, not normalised.

A node of the product is a pair of nodes at the same vtree node. An edge of it is a pair of edges.
Pairs are found from the root down, and only those that are reached.
"""

from __future__ import annotations

import numpy as np

from strudel._types import NONE, AnyArray, FloatArray
from strudel.circuits.column_circuit import ColumnCircuit
from strudel.circuits.walks import first_node
from strudel.errors import SizeLimitError

MAX_PAIRS = 2**23  # of nodes and edges: half a GB


def product(p: ColumnCircuit, q: ColumnCircuit, max_pairs: int = MAX_PAIRS) -> ColumnCircuit:
    """The product of two circuits on one vtree; every component of one with every one of the other.

    Leaves of `q` may be over the same cells as those of `p`.
    """
    pairs = Pairs(p, q, max_pairs)
    k_p, k_q = p.n_components, q.n_components
    take_p, take_q = np.repeat(np.arange(k_p), k_q), np.tile(np.arange(k_q), k_p)
    tables = []
    for place, (leaf_p, leaf_q) in enumerate(pairs.leaves):
        own = p.leaf_table(place)[leaf_p][:, :, take_p] + q.leaf_table(place)[leaf_q][:, :, take_q]
        tables.append(own.reshape(-1, k_p * k_q))
    log_weight = p.log_weight[take_p] + q.log_weight[take_q]
    return pairs.circuit(
        np.concatenate(tables),
        p.edge_log_theta[pairs.edge_p][:, take_p] + q.edge_log_theta[pairs.edge_q][:, take_q],
        log_weight,
    )


class Pairs:
    """The pairs of nodes and of edges of two circuits that their product reaches."""

    def __init__(self, p: ColumnCircuit, q: ColumnCircuit, max_pairs: int = MAX_PAIRS) -> None:
        self.p, self.q = p, q
        vtree = p.vtree
        n_pairs = 0
        wanted: list[AnyArray] = [np.zeros((0, 2), dtype=np.int64) for _ in range(vtree.n_nodes)]
        wanted[vtree.root] = np.array([[p.root, q.root]])
        nodes: list[AnyArray] = [np.zeros((0, 2), dtype=np.int64)] * vtree.n_nodes
        edges: dict[int, tuple[AnyArray, AnyArray, AnyArray]] = {}
        for v in range(vtree.n_nodes - 1, -1, -1):
            nodes[v] = np.unique(wanted[v], axis=0)
            n_pairs += len(nodes[v])
            if vtree.node_var[v] != NONE:
                continue
            owner, edge_p, edge_q = _edge_pairs(p, q, nodes[v], max_pairs - n_pairs)
            edges[v] = owner, edge_p, edge_q
            n_pairs += len(owner)
            for child, side in (("edge_left", vtree.node_left), ("edge_right", vtree.node_right)):
                both = np.column_stack([getattr(p, child)[edge_p], getattr(q, child)[edge_q]])
                wanted[side[v]] = np.concatenate([wanted[side[v]], both])
        self._lay_out(nodes, edges)

    def _lay_out(
        self, nodes: list[AnyArray], edges: dict[int, tuple[AnyArray, AnyArray, AnyArray]]
    ) -> None:
        """Number the pairs: leaves by their columns, then sums by their vtree nodes."""
        p, vtree = self.p, self.p.vtree
        first = np.zeros(vtree.n_nodes, dtype=np.int64)
        self.leaves: list[tuple[AnyArray, AnyArray]] = []
        n_nodes, leaf_column = 0, []
        for place, v in enumerate(vtree.var_leaf.tolist()):
            first[v], n_nodes = n_nodes, n_nodes + len(nodes[v])
            self.leaves.append(
                (nodes[v][:, 0] - first_node(p, v), nodes[v][:, 1] - first_node(self.q, v))
            )
            leaf_column.append(np.full(len(nodes[v]), place))
        self.n_leaves, self.leaf_column = n_nodes, np.concatenate(leaf_column)
        sum_vtree, widths = [], []
        left: list[AnyArray] = []
        right: list[AnyArray] = []
        edge_p, edge_q = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        for v, (owner, own_p, own_q) in sorted(edges.items()):
            first[v], n_nodes = n_nodes, n_nodes + len(nodes[v])
            sum_vtree.append(np.full(len(nodes[v]), v))
            widths.append(np.bincount(owner, minlength=len(nodes[v])))
            for child, side, found in (
                ("edge_left", vtree.node_left, left),
                ("edge_right", vtree.node_right, right),
            ):
                below = int(side[v])
                both = np.column_stack([getattr(p, child)[own_p], getattr(self.q, child)[own_q]])
                found.append(first[below] + _find(nodes[below], both))
            edge_p.append(own_p)
            edge_q.append(own_q)
        none = np.zeros(0, dtype=np.int64)
        self.edge_p, self.edge_q = np.concatenate(edge_p), np.concatenate(edge_q)
        self.sum_vtree = np.concatenate([none, *sum_vtree])
        self.sum_edges = np.concatenate([[0], np.cumsum(np.concatenate([none, *widths]))])
        self.edge_left = np.concatenate([none, *left])
        self.edge_right = np.concatenate([none, *right])

    def circuit(
        self, leaf_log_p: FloatArray, edge_log_theta: FloatArray, log_weight: FloatArray
    ) -> ColumnCircuit:
        """The structure of the pairs with these parameters."""
        return ColumnCircuit(
            self.p.columns,
            self.p.vtree,
            self.leaf_column,
            leaf_log_p,
            self.sum_vtree,
            self.sum_edges,
            self.edge_left,
            self.edge_right,
            edge_log_theta,
            log_weight,
        )


def _edge_pairs(
    p: ColumnCircuit, q: ColumnCircuit, nodes: AnyArray, max_pairs: int
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """The pairs of edges of pairs of sums: whose they are, and the two edges."""
    own_p, own_q = nodes[:, 0] - p.n_leaves, nodes[:, 1] - q.n_leaves
    n_p = p.sum_edges[own_p + 1] - p.sum_edges[own_p]
    n_q = q.sum_edges[own_q + 1] - q.sum_edges[own_q]
    n_each = n_p.astype(np.int64) * n_q
    if n_each.sum() > max_pairs:
        raise SizeLimitError(
            "The product of the two circuits has more pairs of nodes and edges than max_pairs "
            "allows.",
            "Allow more with max_pairs, or use smaller circuits.",
            part="pairs",
        )
    owner = np.repeat(np.arange(len(nodes)), n_each)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(n_each) - n_each, n_each)
    edge_p = p.sum_edges[own_p][owner] + within // n_q[owner]
    edge_q = q.sum_edges[own_q][owner] + within % n_q[owner]
    return owner, edge_p, edge_q


def _find(nodes: AnyArray, pairs: AnyArray) -> AnyArray:
    """The places of pairs among nodes, which are sorted and hold all of them."""
    if not len(nodes):
        return np.zeros(0, dtype=np.int64)
    width = int(max(nodes[:, 1].max(), 0)) + 1
    return np.searchsorted(nodes[:, 0] * width + nodes[:, 1], pairs[:, 0] * width + pairs[:, 1])
