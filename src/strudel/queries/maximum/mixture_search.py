"""The most probable completions of a row under a mixture, by branch and bound.

In:  a `Mixture` in normal form, one row of evidence as codes, and how many completions are wanted.
Out: the best states, their log-probabilities, and a proven bound on all others.

The search always takes the partial assignment with the largest bound, fixes every variable that can
no longer have one of its values, and splits it on the variable whose two values lower the bound
most. States to compare with come from the components' own best ones, from single changes of the
best state so far, and from what the components agree on along the way.
"""

from __future__ import annotations

import heapq
import math
import time
from typing import NamedTuple

import numpy as np

from strudel._numba import kernel, parallel_kernel, prange
from strudel._types import AnyArray, ByteArray, FloatArray
from strudel.circuits.circuit import Edges
from strudel.circuits.mixture import Mixture
from strudel.queries.maximum.best_states import k_best_states
from strudel.queries.maximum.evidence_of_mixture import (
    ONE,
    SMALLEST,
    best_of_components,
    best_values,
    completions,
)
from strudel.queries.maximum.relaxation import relax
from strudel.queries.maximum.relaxation_pass import RelaxationPass
from strudel.queries.mixture_likelihood import mixture_flow_log_likelihood
from strudel.queries.passes import LANES, SMALLEST_LOG_THETA, UNKNOWN
from strudel.queries.probabilities import log_probabilities

MOST_CHUNKS = 4  # of the components, each with its own sums, so that threads share the work
ROUNDING = 1e-11  # what a bound and the probability it bounds may differ by when they are equal
N_TAKEN = 4  # assignments looked at together
N_LISTED = 6  # the states of so few open variables are all scored
MOST_GAIN = 50.0  # nats; an impossible value counts as much


class MixtureBounds:
    """Log upper bounds of partial assignments, by one pass up and one down per component.

    The best completion of one component is exact, so the sum of these over the components is a
    bound; the pass down gives the same for every literal. It could also give that of every edge:
    leaving out edges with a low bound gained nothing for one completion and a quarter of the time
    for 20 (plants and baudio, 50 components, 60 % unknown).

    Values relative to those without any assignment start at 1 and only fall, so linear numbers need
    no scale. What falls below SMALLEST is kept there: a bound may be too large, never too small.
    """

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
        _log_bounds(
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


@parallel_kernel
def _log_bounds(
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
    for task in prange(total.size):
        row, chunk = np.int64(task) // n_chunks, np.int64(task) % n_chunks
        value = np.empty((len(edges.node_edges) - 1, LANES))
        flow = np.empty_like(value)
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


class Assignment(NamedTuple):
    """A partial assignment that may still hold one of the best states."""

    minus_bound: float  # log
    number: int  # of equal bounds the first comes first
    values: ByteArray  # (n_open,) codes


class MixtureSearch:
    """Best-first branch and bound over the variables that a row does not know."""

    def __init__(self, mixture: Mixture, codes: AnyArray, n_wanted: int) -> None:
        self._started = time.perf_counter()
        self._mixture, self._codes, self._n_wanted = mixture, codes, n_wanted
        self._open_vars = np.flatnonzero(codes == UNKNOWN)
        self._is_deterministic = mixture.has_deterministic_components
        self._seen: set[bytes] = set()  # states that were scored
        self._best: list[tuple[float, bytes]] = []  # a heap: the last of the wanted comes first
        self._heap: list[Assignment] = []
        self._n_pushed = 0
        self.n_nodes = 0
        self.upper_bound = -math.inf
        value = best_values(mixture, codes)
        log_best = value[mixture.structure.root] + mixture.log_weight
        if log_best.max() == -np.inf:
            return
        self.score(best_of_components(mixture, codes, value))
        if n_wanted > 1 and self._is_deterministic:
            favourite = mixture.component(int(np.argmax(log_best)))
            states, log_p = k_best_states(favourite, codes[np.newaxis], n_wanted)
            self.score(states[log_p > -np.inf])
        self._improve()
        self._bounds: MixtureBounds | RelaxedBounds = (
            MixtureBounds(mixture, codes, value, self.enough)
            if self._is_deterministic
            else RelaxedBounds(mixture, codes)
        )
        values = np.full((1, len(self._open_vars)), UNKNOWN, dtype=np.uint8)
        self._push(values[0], float(self._bounds.log_bounds(values)[0][0]))

    @property
    def enough(self) -> float:
        """No assignment with a bound up to this can hold a state that is wanted and not found."""
        if len(self._best) < self._n_wanted:
            return -math.inf
        return self._best[0][0] + ROUNDING

    def states(self) -> tuple[ByteArray, FloatArray]:
        """The best states found, best first, and their log-probabilities."""
        best = sorted(self._best, key=lambda item: (-item[0], item[1]))
        states = b"".join(state for _, state in best)
        log_p = np.array([log_p for log_p, _ in best])
        return np.frombuffer(states, dtype=np.uint8).reshape(len(best), self._mixture.n_vars), log_p

    def run(self, max_seconds: float, max_nodes: float) -> None:
        """Search until all others are ruled out, or until a limit."""
        while self._heap and -self._heap[0].minus_bound > self.enough:
            self.upper_bound = -self._heap[0].minus_bound
            is_late = time.perf_counter() - self._started >= max_seconds
            if is_late or self.n_nodes >= max_nodes:
                return
            self._branch(min(N_TAKEN, max_nodes - self.n_nodes))
        is_full = len(self._best) == self._n_wanted
        self.upper_bound = self._best[0][0] if is_full else -math.inf

    def score(self, states: ByteArray) -> None:
        """Keep those of the states that are among the best so far."""
        new = {key: row for row, key in enumerate(map(bytes, states)) if key not in self._seen}
        if not new:
            return
        self._seen.update(new)
        rows = states[list(new.values())]
        if self._is_deterministic:
            log_p = mixture_flow_log_likelihood(self._mixture, rows)
        else:
            log_p = log_probabilities(self._mixture, rows.astype(np.float64), "most_probable_state")
        for item in zip(log_p.tolist(), new, strict=True):
            if item[0] == -math.inf:
                continue
            if len(self._best) < self._n_wanted:
                heapq.heappush(self._best, item)
            elif item[0] > self._best[0][0]:
                heapq.heapreplace(self._best, item)

    def _improve(self) -> None:
        """Change single values of the best state for as long as that helps."""
        last = None
        while last != (best := max(self._best)):
            last = best
            state = np.frombuffer(best[1], dtype=np.uint8)
            changed = np.repeat(state[np.newaxis], len(self._open_vars), axis=0)
            changed[np.arange(len(changed)), self._open_vars] ^= 1
            self.score(changed)

    def _push(self, values: ByteArray, log_bound: float) -> None:
        """Keep an assignment for later; one with few open variables is done with at once."""
        is_open = values == UNKNOWN
        n_open = int(is_open.sum())
        if n_open > N_LISTED:
            heapq.heappush(self._heap, Assignment(-log_bound, self._n_pushed, values))
            self._n_pushed += 1
            return
        rows = np.repeat(values[np.newaxis], 2**n_open, axis=0)
        rows[:, is_open] = np.arange(2**n_open)[:, np.newaxis] >> np.arange(n_open)[::-1] & 1
        self.score(self._complete(rows))

    def _complete(self, values: ByteArray) -> ByteArray:
        """Values of the open variables put into the row."""
        states = np.repeat(self._codes[np.newaxis], len(values), axis=0)
        states[:, self._open_vars] = values
        return states

    def _branch(self, n_taken: float) -> None:
        """Take the assignments with the largest bounds and split each."""
        taken: list[Assignment] = []
        while self._heap and len(taken) < n_taken and -self._heap[0].minus_bound > self.enough:
            taken.append(heapq.heappop(self._heap))
        self.n_nodes += len(taken)
        values = np.array([item.values for item in taken])
        log_bound, log_literal = self._bounds.log_bounds(values)
        agreed = np.where(values == UNKNOWN, log_literal.argmax(axis=2), values)
        before = max(self._best)
        self.score(self._complete(agreed.astype(np.uint8)))
        if max(self._best) > before:
            self._improve()
        for row, item in enumerate(taken):
            # A bound holds for all that follows, also where that was raised to keep its digits.
            bound = min(float(log_bound[row]), -item.minus_bound)
            self._split(values[row], bound, log_literal[row])

    def _split(self, values: ByteArray, log_bound: float, log_literal: FloatArray) -> None:
        """Fix the variables that cannot have one of their values, or branch on the best one."""
        is_open = values == UNKNOWN
        # One of the two values of every open variable must hold.
        log_bound = min(log_bound, float(log_literal[is_open].max(axis=1).min()))
        if log_bound <= self.enough:
            return
        is_low = (log_literal <= self.enough) & is_open[:, np.newaxis]
        is_fixed = is_low.any(axis=1)
        if is_fixed.any():
            fixed = values.copy()
            fixed[is_fixed] = is_low[is_fixed, 0]
            self._push(fixed, log_bound)
            return
        drop = np.minimum(log_bound - log_literal[is_open], MOST_GAIN)
        gain = drop.sum(axis=1) + 3.0 * drop.min(axis=1)  # better to lower both than one
        var = int(np.flatnonzero(is_open)[np.argmax(gain)])
        for value in (0, 1):
            child = values.copy()
            child[var] = value
            self._push(child, min(log_bound, float(log_literal[var, value])))
