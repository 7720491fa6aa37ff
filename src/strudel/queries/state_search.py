"""The best states of some columns, by branch and bound: of any circuit, with any components.

In:  a `Question`, a row of its evidence, and how many states are wanted.
Out: the best states, their log-probabilities, and a proven bound on all others.

The search takes the partial assignments with the largest bounds (`state_bounds`), drops the cells
that can no longer hold a wanted state, and splits on the column whose cells lower the bound most.
States to compare with are the best of each component, single changes of the best so far, and what
the bounds lead to on the way.
"""

from __future__ import annotations

import heapq
import math
from itertools import compress, product
from typing import NamedTuple

import numpy as np

from strudel._compiling import now
from strudel._types import AnyArray, ByteArray, FloatArray, IntArray
from strudel.queries.state_bounds import (
    Question,
    best_of_components,
    log_of,
    passes,
    relax,
    row_values,
)

ROUGH = 1e-80  # a value below may be that of parameters kept at SMALLEST
ROUNDING = 1e-11  # what a bound and the probability it bounds may differ by when they are equal
N_TAKEN = 4  # assignments looked at together
N_TRIED = 4  # columns whose cells are tried, where one walk down is no exact bound
N_LISTED = 64  # with this few states left all of them are scored
MOST_GAIN = 50.0  # nats; an impossible cell counts as much


class Assignment(NamedTuple):
    """The cells that a partial assignment allows; it may still hold one of the best states."""

    minus_bound: float  # log
    number: int  # of equal bounds the first comes first
    allowed: ByteArray  # (n_choices,)


class StateSearch:
    """Best-first branch and bound over the columns in question that have several cells left."""

    def __init__(self, question: Question, row: int) -> None:
        self._started = now()
        self._n_wanted = question.n_wanted
        self._seen: set[tuple[int, ...]] = set()  # states that were scored
        self._best: list[tuple[float, tuple[int, ...]]] = []  # a heap: the last wanted is first
        self._heap: list[Assignment] = []
        self._n_pushed = 0
        self.n_nodes = 0
        self.upper_bound: float | None = None  # of a search that was stopped
        self._row = row_values(question, row)
        value = self._row.values()
        log_best = value[-1] + question.circuit.log_weight
        if log_best.max() == -np.inf:
            return
        log_enough = -np.inf
        seeds = best_of_components(self._row, value, log_best)
        if self._row.is_exact and self._n_wanted == 1:
            log_enough = float(log_best.max())
        elif self._row.is_exact and question.k_best is not None:
            favourite = int(np.argmax(log_best))
            states, log_p = question.k_best.of(self._row.log_cells, favourite)
            seeds = np.concatenate([seeds, states[:, self._row.places]])
            if len(log_p) == self._n_wanted:
                log_enough = float(log_p[-1] + question.circuit.log_weight[favourite])
        self._relaxation = relax(self._row, value, log_best, log_enough)
        self._column_of = np.repeat(np.arange(len(self._row.places)), np.diff(self._row.first))
        self._score(seeds)
        everything = np.ones(len(self._column_of), dtype=np.uint8)
        self._push(everything, float(np.logaddexp.reduce(log_best)))

    @property
    def enough(self) -> float:
        """No assignment with a bound up to this can hold a state that is wanted and not found."""
        if len(self._best) < self._n_wanted:
            return -math.inf
        return self._best[0][0] + ROUNDING

    def states(self) -> tuple[IntArray, FloatArray]:
        """Cells `(n, n_columns)` of the best states, best first, and their log-probabilities.

        Columns that are not in question have NONE where several cells are possible.
        """
        best = sorted(self._best, key=lambda item: (-item[0], item[1]))
        cells = np.repeat(self._row.cells[np.newaxis], len(best), axis=0)
        if best:
            cells[:, self._row.places] = np.array([state for _, state in best])
        return cells, np.array([log_p for log_p, _ in best])

    def run(self, max_seconds: float, max_nodes: float) -> None:
        """Search until all others are ruled out, or until a limit."""
        while self._heap and -self._heap[0].minus_bound > self.enough:
            if now() - self._started >= max_seconds or self.n_nodes >= max_nodes:
                self.upper_bound = -self._heap[0].minus_bound
                return
            is_first = self.n_nodes == 0
            self._branch(min(N_TAKEN, max_nodes - self.n_nodes))
            if is_first and self._heap:  # most searches are over by now
                self._improve()

    def _bounds_of_choices(self, allowed: ByteArray) -> tuple[FloatArray, FloatArray]:
        """Log upper bounds of assignments, and with every cell they allow `(n_rows, n_choices)`."""
        r = self._relaxation
        total, choices = passes(r, allowed, is_exact=False, is_down=True)
        bound = log_of(total + r.rest) + r.log_unit
        of_choices = np.minimum(log_of(choices + r.rest) + r.log_unit, bound[:, np.newaxis])
        return bound, np.where(allowed == 1, of_choices, -np.inf)

    def _score(self, states: AnyArray) -> None:
        """Keep those states, cells of the columns in question, that are among the best so far."""
        distinct = dict.fromkeys(map(tuple, states.tolist()))
        new = [state for state in distinct if state not in self._seen]
        if not new:
            return
        self._seen.update(new)
        total, _ = passes(
            self._relaxation, self._allowed(np.array(new, dtype=np.int64)), True, False
        )
        log_p = log_of(total) + self._relaxation.log_unit
        for i in np.flatnonzero(total < ROUGH).tolist():
            log_p[i] = self._row.log_probability(new[i])
        self._keep(log_p, new)

    def _allowed(self, states: AnyArray) -> ByteArray:
        """The choices of complete states."""
        place = self._row.choice_of[np.arange(states.shape[1]), states]
        allowed = np.zeros((len(states), len(self._column_of)), dtype=np.uint8)
        np.put_along_axis(allowed, place, 1, axis=1)
        return allowed

    def _keep(self, log_p: FloatArray, states: list[tuple[int, ...]]) -> None:
        for item in zip(log_p.tolist(), states, strict=True):
            if item[0] == -math.inf:
                continue
            if len(self._best) < self._n_wanted:
                heapq.heappush(self._best, item)
            elif item[0] > self._best[0][0]:
                heapq.heapreplace(self._best, item)

    def _improve(self) -> None:
        """Change single cells of the best state for as long as that helps.

        One walk up and one down give the probability of all states that differ in one column.
        """
        last = None
        while self._best and last != (best := max(self._best)):
            last = best
            state = np.array(best[1], dtype=np.int64)
            _, choices = passes(self._relaxation, self._allowed(state[np.newaxis]), True, True)
            log_p = log_of(choices[0]) + self._relaxation.log_unit
            least = self._best[0][0] if len(self._best) == self._n_wanted else -math.inf
            better = np.flatnonzero((log_p > least) & (choices[0] >= ROUGH))
            changed = np.repeat(state[np.newaxis], len(better), axis=0)
            changed[np.arange(len(better)), self._column_of[better]] = self._row.choice_cell[better]
            new = list(map(tuple, changed.tolist()))
            is_new = [state not in self._seen for state in new]
            self._keep(log_p[better][is_new], list(compress(new, is_new)))
            self._seen.update(new)

    def _push(self, allowed: ByteArray, log_bound: float) -> None:
        """Keep an assignment for later; one with few states left is done with at once."""
        n_left = np.add.reduceat(np.append(allowed, 1), [*self._row.first[:-1], len(allowed)])
        if np.log2(n_left).sum() > math.log2(N_LISTED):
            heapq.heappush(self._heap, Assignment(-log_bound, self._n_pushed, allowed))
            self._n_pushed += 1
            return
        at = np.flatnonzero(allowed)
        column, cell = self._column_of[at], self._row.choice_cell[at]
        several = np.flatnonzero(n_left > 1)
        ways = list(product(*(cell[column == which].tolist() for which in several)))
        states = np.empty((len(ways), len(self._row.places)), dtype=np.int64)
        states[:, column] = cell
        states[:, several] = ways
        self._score(states)

    def _branch(self, n_taken: float) -> None:
        """Take the assignments with the largest bounds and split each."""
        taken: list[Assignment] = []
        while self._heap and len(taken) < n_taken and -self._heap[0].minus_bound > self.enough:
            taken.append(heapq.heappop(self._heap))
        self.n_nodes += len(taken)
        allowed = np.array([item.allowed for item in taken])
        log_bound, log_choice = self._bounds_of_choices(allowed)
        padded = np.append(log_choice, np.full((len(taken), 1), -np.inf), axis=1)
        before = max(self._best, default=(-math.inf,))
        self._score(padded[:, self._row.choice_of].argmax(axis=2))
        if max(self._best, default=(-math.inf,)) > before:
            self._improve()
        for item, bound, of_choices in zip(taken, log_bound.tolist(), log_choice, strict=True):
            # A bound holds for all that follows, even where that was raised to keep its digits.
            self._split(item.allowed, min(bound, -item.minus_bound), of_choices)

    def _split(self, allowed: ByteArray, log_bound: float, log_choice: FloatArray) -> None:
        """Drop the cells that no wanted state can have, or branch on the best column."""
        first = self._row.first[:-1]
        # Some cell of every column must hold.
        log_bound = min(log_bound, float(np.maximum.reduceat(log_choice, first).min()))
        if log_bound <= self.enough:
            return
        left = ((log_choice > self.enough) & (allowed == 1)).astype(np.uint8)
        n_left = np.add.reduceat(left, first, dtype=np.int64)
        if np.any((n_left == 1) & (np.add.reduceat(allowed, first, dtype=np.int64) > 1)):
            self._push(left, log_bound)
            return
        columns = self._by_gain(log_bound, log_choice, left, n_left)
        column = int(columns[0])
        if self._relaxation.all_max:
            children = self._children(left, column)
            bounds = log_choice[self._choices(left, column)]
        else:
            children, bounds = self._tried(left, log_bound, log_choice, columns[:N_TRIED])
        for child, bound in zip(children, bounds.tolist(), strict=True):
            if bound > self.enough:
                self._push(child, min(log_bound, bound))

    def _by_gain(
        self, log_bound: float, log_choice: FloatArray, left: ByteArray, n_left: AnyArray
    ) -> AnyArray:
        """The columns with several cells left, from the one that would leave least to search."""
        weight = np.exp(np.maximum(log_choice - log_bound, -MOST_GAIN) * 2.0) * left
        rest = np.add.reduceat(weight, self._row.first[:-1])
        order = np.argsort(rest, kind="stable")
        return order[n_left[order] > 1]

    def _choices(self, left: ByteArray, column: int) -> AnyArray:
        first, last = self._row.first[column : column + 2]
        return first + np.flatnonzero(left[first:last])

    def _children(self, left: ByteArray, column: int) -> ByteArray:
        """The assignments in which a column has one of the cells it has left."""
        choices = self._choices(left, column)
        children = np.repeat(left[np.newaxis], len(choices), axis=0)
        children[:, slice(*self._row.first[column : column + 2])] = 0
        children[np.arange(len(choices)), choices] = 1
        return children

    def _tried(
        self, left: ByteArray, log_bound: float, log_choice: FloatArray, columns: AnyArray
    ) -> tuple[ByteArray, FloatArray]:
        """The children by that column, of a few, whose cells have the lowest bounds."""
        every = [self._children(left, column) for column in columns.tolist()]
        r = self._relaxation
        total, _ = passes(r, np.concatenate(every), is_exact=False, is_down=False)
        bounds = log_of(total + r.rest) + r.log_unit
        ends = np.cumsum([len(children) for children in every])
        best, least = (every[0], bounds[: ends[0]]), math.inf
        for column, children, own in zip(
            columns.tolist(), every, np.split(bounds, ends[:-1]), strict=True
        ):
            own = np.minimum(own, log_choice[self._choices(left, column)])
            rest = float(np.exp(np.maximum(own - log_bound, -MOST_GAIN) * 2.0).sum())
            if rest < least:
                best, least = (children, own), rest
        return best
