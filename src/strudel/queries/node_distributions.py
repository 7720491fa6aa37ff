"""Distributions up the vtree: of the number of ones, or of the states, of some variables.

In:  a `Circuit` in normal form, its parameters given the evidence, and the variables asked about.
Out: a vector of probabilities: of 0, 1, 2, ... ones, or of all states in order.

Every node has such a vector for the variables below it. A product combines those of its children:
numbers of ones add up, states stand side by side. A sum averages the vectors of its edges. Each
vector is positive and adds up to 1, so no digits are lost, whatever the evidence costs; multiplying
the polynomials of counts by FFT would lose those of the small coefficients.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from strudel._numba import in_threads, kernel, use_threads
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit, Edges
from strudel.circuits.mixture import Mixture
from strudel.circuits.passes import LANES
from strudel.data.validation import slices
from strudel.queries.conditional_parameters import component_parameters, conditional_parameters
from strudel.queries.model import Model
from strudel.queries.probabilities import component_log_probabilities, posterior

BLOCK_BYTES = 2**28  # of vectors, as long as that leaves one row of evidence
PARALLEL_WORK = 2**20  # multiplications at one vtree node that are worth waking threads for


class NodeDistributions:
    """The vectors of the nodes, made vtree node by vtree node and forgotten when used up."""

    def __init__(
        self, circuit: Circuit, is_asked: AnyArray, of: Literal["counts", "states"]
    ) -> None:
        self.circuit, self.of = circuit, of
        vtree = circuit.vtree
        n_asked = vtree.count_below(is_asked).tolist()
        self.size = [n + 1 if of == "counts" else 2**n for n in n_asked]  # per vtree node
        self.first, self.sums = circuit.sums_by_vtree
        is_leaf = vtree.node_var != NONE
        self.n_nodes = np.diff(self.first) + 2 * is_leaf
        # Where a node lies among those of its vtree node; at a leaf the two literals come first.
        self.node_place = np.tile(np.array([0, 1], dtype=np.int32), circuit.n_nodes // 2 + 1)
        v = circuit.node_vtree[self.sums]
        self.node_place[self.sums] = np.arange(len(v)) - self.first[v] + 2 * is_leaf[v]
        self.order, self.peak = self._order()

    def _order(self) -> tuple[list[int], int]:
        """Children before parents, the child that needs more room first; and the bytes needed."""
        vtree = self.circuit.vtree
        room = [8 * n * size for n, size in zip(self.n_nodes.tolist(), self.size, strict=True)]
        peak = list(room)
        children: dict[int, list[int]] = {}  # the one that needs more room first
        for v in np.flatnonzero(vtree.node_var == NONE).tolist():
            below = [int(vtree.node_left[v]), int(vtree.node_right[v])]
            more, less = children[v] = sorted(below, key=lambda child: -peak[child])
            all_three = room[more] + room[less] + room[v]
            peak[v] = max(peak[more], room[more] + peak[less], all_three)
        order, todo = [], [vtree.root]
        while todo:  # parents first, and the child that needs less: then backwards
            order.append(todo.pop())
            todo += children.get(order[-1], [])
        return order[::-1], peak[vtree.root]

    def of_root(self, theta: FloatArray) -> FloatArray:
        """The vectors `(n_rows, size)` of the root for parameters `theta` (n_edges, n_rows).

        The states of variables are in the order of the vtree's leaves, the last changing fastest.
        """
        circuit, vtree = self.circuit, self.circuit.vtree
        made: dict[int, FloatArray] = {}
        for v in self.order:
            made[v] = np.zeros((self.n_nodes[v], theta.shape[1], self.size[v]))
            nodes = self.sums[self.first[v] : self.first[v + 1]]
            if vtree.node_var[v] != NONE:
                made[v][0, :, 0] = made[v][1, :, -1] = 1.0
                _leaf_distributions(nodes, circuit.edges, theta, made[v])
                continue
            left, right = made.pop(int(vtree.node_left[v])), made.pop(int(vtree.node_right[v]))
            work = len(circuit.vtree_edges(v)) * left.shape[2] * right[0].size
            with use_threads(None if work > PARALLEL_WORK else 1):
                in_threads(
                    _distributions,
                    len(nodes) * theta.shape[1],
                    left,
                    right,
                    1 if self.of == "counts" else right.shape[2],
                    nodes,
                    self.node_place,
                    circuit.edges,
                    theta,
                    made[v],
                )
        root: FloatArray = made[vtree.root][self.node_place[circuit.root]]
        return root


@kernel
def _leaf_distributions(nodes: IntArray, edges: Edges, theta: FloatArray, out: FloatArray) -> None:
    """Fill the lines of `out` after the literals' two: the sums of one leaf."""
    node_edges, edge_left, _ = edges
    last = out.shape[2] - 1  # 1 if the variable is asked about
    for k in range(len(nodes)):
        for e in range(node_edges[nodes[k]], node_edges[nodes[k] + 1]):
            for b in range(theta.shape[1]):
                out[2 + k, b, last * (edge_left[e] % 2)] += theta[e, b]


@kernel
def _distributions(
    first: int,
    last: int,
    left: FloatArray,
    right: FloatArray,
    stride: int,
    nodes: IntArray,
    node_place: IntArray,
    edges: Edges,
    theta: FloatArray,
    out: FloatArray,
) -> None:
    """Fill `out` (n_nodes, n_rows, size), the sums of one inner vtree node."""
    node_edges, edge_left, edge_right = edges
    n_rows = theta.shape[1]
    for task in range(first, last):
        k, b = task // n_rows, task % n_rows
        for e in range(node_edges[nodes[k]], node_edges[nodes[k] + 1]):
            l, r = node_place[edge_left[e]], node_place[edge_right[e]]
            _add_product(left[l, b], right[r, b], stride, theta[e, b], out[k, b])


@kernel
def _add_product(
    left: FloatArray, right: FloatArray, stride: int, theta: float, out: FloatArray
) -> None:
    """Add theta times the product of entries i and j to entry ``i * stride + j``."""
    if theta == 0.0:
        return
    if stride == 1 and len(left) > len(right):
        left, right = right, left  # the longer one in the inner loop
    for i in range(len(left)):
        factor = theta * left[i]
        if factor != 0.0:
            for j in range(len(right)):
                out[i * stride + j] += factor * right[j]


def distributions_given(
    model: Model,
    codes: AnyArray,
    distributions: NodeDistributions,
    query: str,
    weight: FloatArray | None = None,
) -> FloatArray:
    """The vectors `(n_rows, size)` of the root given each row of evidence.

    A mixture averages those of its components by their posterior `weight` (n_rows, n_components),
    which is found if it is not given.
    """
    n_together = max(1, min(LANES, BLOCK_BYTES // distributions.peak))
    found = np.empty((len(codes), distributions.size[-1]))
    if isinstance(model, Mixture):
        if weight is None:
            weight = posterior(model, component_log_probabilities(model, codes, query))
        for row in range(len(codes)):
            found[row] = _average(model, codes[row], weight[row], distributions, n_together, query)
        return found
    for part in slices(len(codes), n_together):
        theta = conditional_parameters(model, codes[part], query)
        found[part] = distributions.of_root(theta)
    return found


def _average(
    mixture: Mixture,
    codes: AnyArray,
    weight: FloatArray,
    distributions: NodeDistributions,
    n_together: int,
    query: str,
) -> FloatArray:
    """The vectors of all components given one row, in proportion to their posterior."""
    mean = np.zeros(distributions.size[-1])
    for c in range(0, mixture.n_components, LANES):
        if not weight[c : c + LANES].any():
            continue
        theta = component_parameters(mixture, c // LANES, codes, query)
        for part in slices(theta.shape[1], n_together):
            vectors = distributions.of_root(np.ascontiguousarray(theta[:, part]))
            mean += weight[c : c + LANES][part] @ vectors
    return mean
