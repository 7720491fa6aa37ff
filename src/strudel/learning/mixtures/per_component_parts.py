"""The components of a mixture that own their structure: what EM needs of each.

In:  the edge every row takes at every vtree node, and weights of the rows.
Out: the weight through every edge, parameters, and the log-likelihood of every row.

The weights are multiples of one power of two (`exact_weights`), so that sums do not depend on
their order, nor on the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from strudel._numba import in_threads, kernel
from strudel._types import NONE, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.flows import compute_flows
from strudel.data.bits import BitMatrix
from strudel.learning.growing.growing_circuit import GrowingCircuit
from strudel.learning.growing.growth import N_EDGES, N_NODES
from strudel.learning.mixture_methods import MixtureSmoothing

BLOCK_ROWS = 512  # rows whose log-likelihoods stay in cache


@dataclass(frozen=True, eq=False)
class Structure:
    """The edges of one component, and which of them every row takes."""

    train_active: IntArray  # (n_vtree_nodes, n_rows)
    valid_active: IntArray
    edge_parent: IntArray  # (n_edges,)
    edge_even: FloatArray  # (n_edges,) one over the edges of its sum
    places: IntArray  # the vtree nodes where some sum has a choice

    @classmethod
    def of_growing(cls, growing: GrowingCircuit) -> Structure:
        """The structure as it is now; a split changes the arrays of rows in place."""
        g = growing.growth
        node = g.node[: g.size[N_NODES]]
        parent = np.ascontiguousarray(g.edge["parent"][: g.size[N_EDGES]])
        return cls(
            g.train_active,
            g.valid_active,
            parent,
            1.0 / node["width"][parent],
            _places(node["vtree"], node["width"]),
        )

    @classmethod
    def of_circuit(cls, circuit: Circuit, train: BitMatrix, valid: BitMatrix) -> Structure:
        """The structure of a circuit that is finished."""
        width = np.diff(circuit.node_edges)
        return cls(
            compute_flows(circuit, train).active_edge,
            compute_flows(circuit, valid).active_edge,
            circuit.edge_parent,
            1.0 / width[circuit.edge_parent],
            _places(circuit.node_vtree, width),
        )

    def counts(self, weight: FloatArray) -> FloatArray:
        """The weight through every edge."""
        count = np.zeros(len(self.edge_parent))
        rows = np.flatnonzero(weight).astype(np.int32)
        in_threads(_add_weights, len(self.train_active), self.train_active, rows, weight, count)
        return count

    def prior(self, weight: FloatArray, smoothing: MixtureSmoothing) -> FloatArray:
        """What parameters are drawn to: all alike, or those of all rows together."""
        if smoothing == "uniform":
            return self.edge_even
        return parameters(self.counts(weight), self.edge_parent, self.edge_even, 1.0)

    def log_likelihoods(self, log_theta: FloatArray, *, of_valid: bool = False) -> FloatArray:
        """The log-likelihood of every training or validation row."""
        active = self.valid_active if of_valid else self.train_active
        log_p = np.zeros(active.shape[1])
        n_blocks = -(-len(log_p) // BLOCK_ROWS)
        in_threads(_add_logs, n_blocks, active, self.places, log_theta, log_p)
        return log_p


def _places(node_vtree: IntArray, width: IntArray) -> IntArray:
    return np.unique(node_vtree[width > 1]).astype(np.int32)


def parameters(
    count: FloatArray, edge_parent: IntArray, prior: FloatArray, strength: float
) -> FloatArray:
    """Parameters that are drawn to a prior by this many virtual rows per sum."""
    total = np.bincount(edge_parent, weights=count, minlength=1)[edge_parent] + strength
    with np.errstate(invalid="ignore"):  # 0 / 0 where nothing came and nothing is drawn
        theta = (count + strength * prior) / total
    return np.where(total > 0.0, theta, prior)


def log_parameters(
    count: FloatArray, edge_parent: IntArray, prior: FloatArray, strength: float
) -> FloatArray:
    """Their natural logs."""
    with np.errstate(divide="ignore"):
        logs: FloatArray = np.log(parameters(count, edge_parent, prior, strength))
    return logs


@dataclass(frozen=True, eq=False)
class Part:
    """A component that is learned, but for the strength of its smoothing."""

    circuit: Circuit
    count: FloatArray  # (n_edges,) weight through every edge
    prior: FloatArray  # (n_edges,) what its parameters are drawn to

    def log_theta(self, strength: float) -> FloatArray:
        """Its parameters, with so much smoothing."""
        return log_parameters(self.count, self.circuit.edge_parent, self.prior, strength)


@kernel
def _add_weights(
    first: int, last: int, active: IntArray, rows: IntArray, weight: FloatArray, count: FloatArray
) -> None:
    """Add the weight of each row to its edges; every edge belongs to one vtree node."""
    for v in range(first, last):
        mine = active[v]
        for s in rows:
            e = mine[s]
            if e != NONE:
                count[e] += weight[s]


@kernel
def _add_logs(
    first: int,
    last: int,
    active: IntArray,
    places: IntArray,
    log_theta: FloatArray,
    log_p: FloatArray,
) -> None:
    """Add the log-parameters on the way of each row."""
    n_rows = len(log_p)
    for block in range(first, last):
        start = block * BLOCK_ROWS
        for v in places:
            for s in range(start, min(start + BLOCK_ROWS, n_rows)):
                e = active[v, s]
                if e != NONE:
                    log_p[s] += log_theta[e]
