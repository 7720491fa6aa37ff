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
from typing import NamedTuple

import numpy as np

from strudel._compiling import now
from strudel._types import AnyArray, ByteArray, FloatArray
from strudel.circuits.bit_likelihood import mixture_flow_log_likelihood
from strudel.circuits.mixture import Mixture
from strudel.circuits.passes import UNKNOWN
from strudel.queries.maximum.best_states import k_best_states
from strudel.queries.maximum.evidence_of_mixture import best_of_components, best_values
from strudel.queries.maximum.mixture_bounds import MixtureBounds, RelaxedBounds
from strudel.queries.probabilities import log_probabilities

ROUNDING = 1e-11  # what a bound and the probability it bounds may differ by when they are equal
N_TAKEN = 4  # assignments looked at together
N_LISTED = 6  # with this few open variables all states are scored
MOST_GAIN = 50.0  # nats; an impossible value counts as much


class Assignment(NamedTuple):
    """A partial assignment that may still hold one of the best states."""

    minus_bound: float  # log
    number: int  # of equal bounds the first comes first
    values: ByteArray  # (n_open,) codes


class MixtureSearch:
    """Best-first branch and bound over the variables that a row does not know."""

    def __init__(self, mixture: Mixture, codes: AnyArray, n_wanted: int) -> None:
        self._started = now()
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
            is_late = now() - self._started >= max_seconds
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
            # A bound holds for all that follows, even where that was raised to keep its digits.
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
