"""A search that can be continued, and a race of several, of which the best continue.

In:  a way to make the first `GrowingCircuit`, and options.
Out: `Run`: one operation after another, with the history they make; `race` of several runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from strudel._types import NONE
from strudel.circuits.circuit import Circuit
from strudel.data.bits import BitMatrix
from strudel.learning.best_so_far import offer
from strudel.learning.growing.growing_circuit import GrowingCircuit, Operation, apply
from strudel.learning.history import History
from strudel.learning.parameters import fit_parameters
from strudel.learning.search.best_first import BestFirstPolicy
from strudel.learning.search.gains import Gains
from strudel.learning.search.greedy import VariablePicker, pick_edge
from strudel.learning.search.learnpsdd import LearnPsddPolicy, copied_levels
from strudel.learning.search.scored_search import Policy, ScoredSearch
from strudel.learning.search_options import BestFirst, LearnPSDD, SearchOptions, VariableScore

ROUNDS = (150, 500, 1500)  # operations after which the worse half of the runs ends
SHARE = 0.25  # of the time: the most that all runs together may take in a round


class Run:
    """A greedy or best-first search, or LearnPSDD, that can be continued."""

    def __init__(
        self,
        make: Callable[..., GrowingCircuit],
        search: SearchOptions,
        rng: np.random.Generator,
        started: float | None = None,
        train: BitMatrix | None = None,
    ) -> None:
        self.make = make
        self.search = search
        self.rng = rng
        self._rows = train
        self.history = History(started)
        self.operations: list[Operation] = []
        self.growing = make()
        self.history.add(self.growing)
        self._next: Callable[[], Operation | None] | None = None

    def continue_until(
        self, search: SearchOptions, on_split: Callable[[History], None] | None = None
    ) -> None:
        """Do one operation after another until the bounds in `search` say stop."""
        self.history.stopped_because = ""
        try:
            if self._next is None:
                self._next = self._chooser()
            self._search(self._next, search, on_split)
        except KeyboardInterrupt:
            self.history.stopped_because = "interrupted"

    def _search(
        self,
        find: Callable[[], Operation | None],
        search: SearchOptions,
        on_split: Callable[[History], None] | None,
    ) -> None:
        while not self.history.is_finished(search):
            operation = find()
            if operation is None:
                self.history.stopped_because = "nothing left to split"
                return
            apply(self.growing, operation)
            self.operations.append(operation)
            self.history.add(self.growing)
            if self._rows is not None:
                offer(self.best_circuit, self.best_likelihood)
            if on_split is not None:
                on_split(self.history)

    def best_circuit(self) -> Circuit:
        """The best circuit so far, with parameters in closed form."""
        assert self._rows is not None
        best = self.growing.snapshot(self.history.best)
        return fit_parameters(best, self._rows, pseudocount=self.search.pseudocount)

    @property
    def _has_scores(self) -> bool:
        kind = self.search.search
        return isinstance(kind, BestFirst) or (
            isinstance(kind, LearnPSDD) and kind.heuristic is None
        )

    @property
    def best_likelihood(self) -> float:
        """Mean log-likelihood of the validation rows under the best circuit so far."""
        return self.history.best_score

    def _chooser(self) -> Callable[[], Operation | None]:
        """What says which operation comes next."""
        growing, rng = self.growing, self.rng
        kind: Any = self.search.search
        if self._has_scores:
            policy: Policy
            if isinstance(kind, BestFirst):
                policy = BestFirstPolicy(growing, clones=kind.clones, gains=self._gains())
            else:
                policy = LearnPsddPolicy(growing, kind)
            return ScoredSearch(growing, policy).next
        n_levels = NONE
        if isinstance(kind, LearnPSDD):
            n_levels, kind = copied_levels(growing, kind), kind.heuristic
        pick_place = self._place_picker(kind.variable_score)

        def next_split() -> Operation | None:
            edge = pick_edge(growing, kind.edge_score, rng, kind.tie_rule)
            if edge is None:
                return None
            return Operation(edge, pick_place(edge), n_levels=n_levels)

        return next_split

    def _place_picker(self, score: VariableScore) -> Callable[[int], int]:
        """What chooses the place at which an edge is split."""
        picker = VariablePicker(self.growing, score, self.search.alpha)
        return lambda edge: picker.pick(edge, self.rng)

    def _gains(self) -> Gains:
        """What scores splits and clones for best-first search."""
        return Gains(self.growing)


def race(
    runs: list[Run],
    search: SearchOptions,
    on_split: Callable[[History], None] | None = None,
) -> Run:
    """Race several runs; in every round the better half continues.

    The likelihood of the first circuit does not show which start is best; a few hundred operations
    do. The last run continues to its end. If there is a time limit, those that were left behind
    use what remains of it, the best first.
    """
    left_behind: list[Run] = []
    for n_operations in ROUNDS:
        share = SHARE / len(runs)
        for run in runs:
            bound = run.search
            if bound.max_splits is None or n_operations < bound.max_splits:
                bound = replace(bound, max_splits=n_operations)
            if search.max_seconds is not None:
                until = min(search.max_seconds, run.history.elapsed + share * search.max_seconds)
                bound = replace(bound, max_seconds=until)
            run.continue_until(bound, on_split)
            if run.history.stopped_because == "interrupted":
                return _stopped(runs)
        runs.sort(key=lambda run: -run.best_likelihood)
        n_kept = (len(runs) + 1) // 2
        left_behind = runs[n_kept:] + left_behind
        del runs[n_kept:]
    ended: list[Run] = []
    for run in runs + left_behind:
        if ended and (search.max_seconds is None or run.history.elapsed >= search.max_seconds):
            break
        run.continue_until(run.search, on_split)
        ended.append(run)
        if run.history.stopped_because == "interrupted":
            return _stopped(ended)
    return max(ended, key=lambda run: run.best_likelihood)


def _stopped(runs: list[Run]) -> Run:
    """The best run after an interrupt."""
    best = max(runs, key=lambda run: run.best_likelihood)
    best.history.stopped_because = "interrupted"
    return best
