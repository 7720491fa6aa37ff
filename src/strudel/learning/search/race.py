"""A search that can be continued, and a race of several, of which the best continue.

In:  a way to make the first `GrowingCircuit`, and options.
Out: `Run`: one operation after another, with the history they make; `race` of several runs. The
     operations as arrays for a file; and back, each checked before it is done, as kernels check
     nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from strudel._types import NONE, AnyArray
from strudel.errors import JournalError
from strudel.learning.growing.counts import undecided_places
from strudel.learning.growing.growing_circuit import GrowingCircuit
from strudel.learning.growing.growth import ALIVE, N_EDGES, N_NODES, Growth
from strudel.learning.growing.operations import Operation, apply
from strudel.learning.history import History
from strudel.learning.journal import Arrays, Journal, Section, take
from strudel.learning.search.best_first import BestFirstPolicy
from strudel.learning.search.gains import Gains
from strudel.learning.search.greedy import VariablePicker, pick_edge
from strudel.learning.search.learnpsdd import LearnPsddPolicy, copied_levels
from strudel.learning.search.scored_search import Policy, ScoredSearch
from strudel.learning.search_options import BestFirst, LearnPSDD, SearchOptions, VariableScore

FIELDS = ("edge", "place", "target", "n_levels")
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
        journal: Journal | None = None,
    ) -> None:
        self.make = make
        self.search = search
        self.rng = rng
        self.journal = journal or Journal()
        self.history = History(started, self.journal.now)
        self.operations: list[Operation] = []
        self.growing = make()
        self.history.add(self.growing)
        self._next: Callable[[], Operation | None] | None = None
        self._scored: ScoredSearch | None = None
        self._number = self.journal.add_scorer(self)
        self._has_file_scores = False  # whose operations are as doubtful as the file

    def continue_until(
        self, search: SearchOptions, on_split: Callable[[History], None] | None = None
    ) -> None:
        """Do one operation after another until the bounds in `search` say stop."""
        self.history.stopped_because = ""
        try:
            first = len(self.operations)
            section = self.journal.begin("a search", self.rng, lambda: self._done_since(first))
            if section.is_recorded:
                self._replay(section)
            if not section.stopped_because:
                if self._next is None:
                    self._next = self._chooser()
                self._search(self._next, search, on_split)
                self.journal.end(section, self.history.stopped_because)
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
            if self._has_file_scores:
                check_operation(self.growing, operation)
            apply(self.growing, operation)
            self.operations.append(operation)
            self.history.add(self.growing)
            self.journal.tick()
            if on_split is not None:
                on_split(self.history)

    def _done_since(self, first: int) -> Arrays:
        """The operations of a section, when they were done, and what came out."""
        done = operations_to_arrays(self.operations[first:])
        done["seconds"] = self.history.seconds[first + 1 :]
        done["likelihood"] = np.array([self.growing.train_log_likelihood])
        return done

    def _replay(self, section: Section) -> None:
        """Do what an earlier process did; the same numbers come out."""
        if self._has_scores:
            self.growing.without_queue()
        operations = operations_from_arrays(section.arrays)
        seconds = take(section.arrays, "seconds", np.float64, (len(operations),))
        likelihood = take(section.arrays, "likelihood", np.float64, (1,))
        for operation, when in zip(operations, seconds.tolist(), strict=True):
            check_operation(self.growing, operation)
            apply(self.growing, operation)
            self.operations.append(operation)
            self.history.add_row((*self.history.row_of(self.growing)[:-1], when))
        # Another processor may round the last digit in another way, and not more.
        if not np.allclose(self.growing.train_log_likelihood, likelihood, rtol=1e-9, atol=0.0):
            raise JournalError("its operations do not give the circuit that they gave")
        self.history.stopped_because = section.stopped_because
        self.journal.catch_up(section)

    def scores(self) -> Arrays:
        """What a replay does not give back: scores, some of them old."""
        return {} if self._scored is None else self._scored.scores()

    @property
    def _has_scores(self) -> bool:
        kind = self.search.search
        return isinstance(kind, BestFirst) or (
            isinstance(kind, LearnPSDD) and kind.heuristic is None
        )

    @property
    def best_likelihood(self) -> float:
        """Mean log-likelihood of the validation rows under the best circuit so far."""
        return float(self.history.valid[self.history.best])

    def _chooser(self) -> Callable[[], Operation | None]:
        """What says which operation comes next."""
        growing, rng = self.growing, self.rng
        kind: Any = self.search.search
        if self._has_scores:
            scores = self.journal.scores_of(self._number)
            self._has_file_scores = bool(scores)
            policy: Policy
            if isinstance(kind, BestFirst):
                policy = BestFirstPolicy(growing, clones=kind.clones, gains=self._gains())
            else:
                policy = LearnPsddPolicy(growing, kind)
            self._scored = ScoredSearch(growing, policy, scores)
            return self._scored.next
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


def operations_to_arrays(operations: list[Operation]) -> dict[str, AnyArray]:
    """One entry per operation, and the other edges of all of them one after another."""
    arrays: dict[str, AnyArray] = {
        name: np.array([getattr(operation, name) for operation in operations], dtype=np.int32)
        for name in FIELDS
    }
    arrays["n_others"] = np.array([len(one.others) for one in operations], dtype=np.int32)
    others = [edge for operation in operations for edge in operation.others]
    arrays["others"] = np.array(others, dtype=np.int32)
    return arrays


def operations_from_arrays(arrays: dict[str, AnyArray]) -> list[Operation]:
    """The operations that `operations_to_arrays` wrote down."""
    n = len(arrays.get("edge", ()))
    columns = [take(arrays, name, np.int32, (n,)).tolist() for name in FIELDS]
    counts = take(arrays, "n_others", np.int32, (n,)).astype(np.int64)
    n_others = int(counts.sum()) if np.all(counts >= 0) else NONE
    others = tuple(take(arrays, "others", np.int32, (n_others,)).tolist())
    stops = np.cumsum(counts).tolist()
    return [
        Operation(edge, place, target, n_levels, others[stop - count : stop])
        for edge, place, target, n_levels, count, stop in zip(
            *columns, counts.tolist(), stops, strict=True
        )
    ]


def check_operation(growing: GrowingCircuit, operation: Operation) -> None:
    """Refuse an operation that the circuit as it is now does not allow."""
    g = growing.growth
    edge, target, n_levels = operation.edge, operation.target, operation.n_levels
    edges = (edge, *operation.others)
    is_fine = (
        all(0 <= e < g.size[N_EDGES] and g.edge["death"][e] == ALIVE for e in edges)
        and len(set(edges)) == len(edges)
        and (n_levels == NONE or 0 <= n_levels <= growing.vtree.depth)
        and (target == NONE or 0 <= target < g.size[N_NODES])
    )
    if is_fine and target == NONE:
        is_fine = not operation.others and bool(g.edge["is_candidate"][edge])
        is_fine = is_fine and operation.place in undecided_places(g, edge).tolist()
    elif is_fine and n_levels == NONE:
        is_fine = not operation.others and _leads_to(g, edge, target)
    elif is_fine:
        sides = [[int(g.edge[side][e]) for e in edges] for side in ("left", "right")]
        is_fine = g.node["first"][target] != NONE and [target] * len(edges) in sides
    if not is_fine:
        raise JournalError(f"operation {growing.n_splits + 1} of a search is impossible")


def _leads_to(g: Growth, edge: int, target: int) -> bool:
    """Whether only sums of one edge lie between an edge and the sum below it."""
    place = g.vtree["first"][g.node["vtree"][target]]
    if g.node["first"][target] == NONE:
        return False
    while True:
        v = g.node["vtree"][g.edge["parent"][edge]]
        if g.vtree["left"][v] == NONE or not g.vtree["first"][v] <= place < g.vtree["last"][v]:
            return False
        is_left = place < g.vtree["last"][g.vtree["left"][v]]
        child = int(g.edge["left" if is_left else "right"][edge])
        if child == target:
            return True
        edge = int(g.node["first"][child])
        if edge == NONE or g.node["width"][child] != 1:
            return False
