"""Bounds on what completions of a row can reach under a mixture.

In:  a `Mixture`, one row of evidence as codes, and partial assignments of the open variables.
Out: upper bounds on the probability of their completions: of all, and of those with each value of
     each variable.

The best completion of one component is exact, so the sum of these over the components is a bound,
found by one pass up; one pass down gives the same for every literal. It could also give that of
every edge. Leaving out edges with a low bound gained nothing for one completion and a quarter of
the time for 20 (plants and baudio, 50 components, 60 % unknown), for a set of edges per assignment.

Values relative to those without any assignment start at 1 and only fall, so linear numbers need no
scale. What falls below SMALLEST is kept there: a bound may be too large, never too small.
"""

from __future__ import annotations

import numpy as np

from strudel._numba import in_threads, kernel
from strudel._types import AnyArray, ByteArray, FloatArray
from strudel.circuits.circuit import Edges
from strudel.circuits.mixture import Mixture
from strudel.circuits.passes import LANES, SMALLEST_LOG_THETA, UNKNOWN
from strudel.queries.maximum.evidence_of_mixture import ONE, SMALLEST, completions
from strudel.queries.maximum.relaxation import relax
from strudel.queries.maximum.relaxation_pass import RelaxationPass

MOST_CHUNKS = 4  # of the components, each with its own sums, so that threads share the work


class MixtureBounds:
    """Log upper bounds of partial assignments, by one pass up and one down per component."""

    def __init__(
        self, mixture: Mixture, codes: AnyArray, value: FloatArray, log_enough: float
    ) -> None:
        self._left = completions(mixture, codes, value, log_enough)

    def log_bounds(self, values: ByteArray) -> tuple[FloatArray, FloatArray]:
        """Bounds `(n_rows,)`, and those of literals `(n_rows, n_open, 2)`.

        The rows of `values` (n_rows, n_open) are codes of the open variables.
        """
        left, n_rows = self._left, len(values)
        n_chunks = min(len(left.weight), MOST_CHUNKS)
        total = np.zeros((n_rows, n_chunks))
        literals = np.zeros((n_rows, n_chunks, 2 * left.n_open))
        in_threads(
            _log_bounds,
            total.size,
            values,
            left.root,
            left.edges,
            left.theta,
            left.weight,
            total,
            literals,
        )
        whole, literal = (self._log(parts.sum(axis=1)) for parts in (total, literals))
        return whole, literal.reshape(n_rows, left.n_open, 2)

    def _log(self, bound: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.log(bound + self._left.rest) + self._left.log_unit


@kernel
def _log_bounds(
    first: int,
    last: int,
    values: ByteArray,
    root: int,
    edges: Edges,
    theta: FloatArray,
    weight: FloatArray,
    total: FloatArray,
    literals: FloatArray,
) -> None:
    """One pass up and one down per row and block of components; chunks of blocks add up."""
    n_chunks = total.shape[1]
    value = np.empty((len(edges.node_edges) - 1, LANES))
    flow = np.empty_like(value)
    for task in range(first, last):
        row, chunk = task // n_chunks, task % n_chunks
        for block in range(chunk, len(weight), n_chunks):
            total[row, chunk] += _pass_both_ways(
                values[row],
                root,
                edges,
                theta[block],
                weight[block],
                value,
                flow,
                literals[row, chunk],
            )


@kernel
def _pass_both_ways(
    codes: ByteArray,
    root: int,
    edges: Edges,
    theta: FloatArray,
    weight: FloatArray,
    value: FloatArray,
    flow: FloatArray,
    literals: FloatArray,
) -> float:
    """Add to the bounds of literals; returns that of the root."""
    node_edges, edge_left, edge_right = edges
    n_nodes = len(value)
    value[:] = 0.0
    flow[:] = 0.0
    value[ONE] = 1.0
    for i in range(len(codes)):
        if codes[i] != 1:
            value[1 + 2 * i] = 1.0
        if codes[i] != 0:
            value[2 + 2 * i] = 1.0
    for n in range(1 + len(literals), n_nodes):
        mine = value[n]
        for e in range(node_edges[n], node_edges[n + 1]):
            share, left, right = theta[e], value[edge_left[e]], value[edge_right[e]]
            for b in range(LANES):
                mine[b] = max(mine[b], share[b] * left[b] * right[b])
        for b in range(LANES):
            mine[b] = max(mine[b], SMALLEST) if mine[b] > 0.0 else 0.0

    total = 0.0
    for b in range(LANES):
        flow[root, b] = 1.0
        total += weight[b] * value[root, b]
    for n in range(n_nodes - 1, len(literals), -1):
        mine = flow[n]
        for e in range(node_edges[n], node_edges[n + 1]):
            l, r = edge_left[e], edge_right[e]
            share, left, right, to_left, to_right = theta[e], value[l], value[r], flow[l], flow[r]
            for b in range(LANES):
                above = mine[b] * share[b]
                beside = above * right[b]
                beside = max(beside, SMALLEST) if beside > 0.0 else 0.0
                to_left[b] = max(to_left[b], beside)
                beside = above * left[b]
                beside = max(beside, SMALLEST) if beside > 0.0 else 0.0
                to_right[b] = max(to_right[b], beside)
    for literal in range(len(literals)):
        for b in range(LANES):
            literals[literal] += weight[b] * flow[1 + literal, b] * value[1 + literal, b]
    return total


class RelaxedBounds:
    """The same bounds on a structure that is not deterministic, where components are not exact.

    The mixture as one circuit is relaxed, and evaluated for both values of every open variable.
    """

    def __init__(self, mixture: Mixture, codes: AnyArray) -> None:
        if mixture.edge_log_theta.max(initial=0.0) > -SMALLEST_LOG_THETA:
            raise ValueError("A search needs parameters below 1e60. Normalise the mixture first.")
        self._codes = codes
        self._open_vars = np.flatnonzero(codes == UNKNOWN)
        self._pass = RelaxationPass(relax(mixture.to_circuit(), codes, self._open_vars))

    def log_bounds(self, values: ByteArray) -> tuple[FloatArray, FloatArray]:
        """Bounds of the rows and of literals."""
        n_rows, n_open = values.shape
        tried = np.repeat(values[:, np.newaxis], 2 * n_open + 1, axis=1)
        literal = np.arange(2 * n_open)
        is_other = tried[:, literal, literal // 2] == 1 - literal % 2
        tried[:, literal, literal // 2] = literal % 2
        rows = np.repeat(self._codes[np.newaxis], n_rows * (2 * n_open + 1), axis=0)
        rows[:, self._open_vars] = tried.reshape(len(rows), n_open)
        bound = self._pass.bounds(rows)[0].reshape(n_rows, 2 * n_open + 1)
        literal_bound = np.where(is_other, -np.inf, bound[:, :-1]).reshape(n_rows, n_open, 2)
        return bound[:, -1], literal_bound
