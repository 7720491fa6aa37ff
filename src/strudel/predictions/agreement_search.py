"""How probable it is that two decisions agree, by branch and bound.

In:  a model, rows of evidence as codes, and two deciders.
Out: per row, the probability that both decide alike, or an interval that contains it.

A decider gives a label to a partly known row if all its completions have that label; otherwise it
names a variable to split on. The search splits the most probable open row on that variable and adds
up the rows for which both labels are known.
"""

from __future__ import annotations

import heapq
import math
from typing import Any, NamedTuple, Protocol

import numpy as np

from strudel._compiling import now
from strudel._types import NONE, AnyArray, ByteArray, FloatArray, IntArray
from strudel.queries.model import Model
from strudel.queries.passes import decode
from strudel.queries.probabilities import log_probabilities

OPEN = -1  # the label of a row that is not decided yet
N_TAKEN = 256  # open rows looked at together
ROUNDING = 1e-11  # by which an interval is widened


class Decider(Protocol):
    """Something that decides about rows."""

    def labels(self, codes: ByteArray, owner: AnyArray) -> IntArray:
        """The label of each row, or OPEN; `owner` says which row of evidence it completes."""

    def next_variables(self, codes: ByteArray, owner: AnyArray) -> IntArray:
        """An unknown variable for each row that is open."""


class SameLabels:
    """A decider with a fixed label for each row of evidence."""

    def __init__(self, row_label: IntArray) -> None:
        self._row_label = row_label

    def labels(self, codes: ByteArray, owner: AnyArray) -> IntArray:
        """The label of the row of evidence."""
        return self._row_label[owner]

    def next_variables(self, codes: ByteArray, owner: AnyArray) -> IntArray:
        """No variable is needed."""
        return np.full(len(codes), NONE, dtype=np.int32)


class Agreement(NamedTuple):
    """How probable it is that two decisions agree; arrays where there are several rows."""

    probability: Any  # the middle of the interval where it is not exact
    lower_bound: Any
    upper_bound: Any
    is_exact: Any  # whether the search ended before any limit
    n_nodes: Any  # partial assignments that had to be split


def search_agreement(
    model: Model,
    codes: ByteArray,
    deciders: tuple[Decider, Decider],
    query: str,
    limits: tuple[float, float],
    enough: float | None = None,
) -> Agreement:
    """The probability, given each row of codes, that both deciders agree.

    The rows must be possible. `limits` are the seconds for all rows and the splits of each. With
    `enough`, a row is done as soon as its probability is known to be at least that, or less.
    """
    max_seconds, max_nodes = limits
    search = _Search(model, codes, deciders, query, max_nodes, enough)
    search.run(now() + max_seconds)
    return search.report()


class _Search:
    """Best-first: the heap holds open rows, the most probable one first."""

    def __init__(
        self,
        model: Model,
        codes: ByteArray,
        deciders: tuple[Decider, Decider],
        query: str,
        max_nodes: float,
        enough: float | None,
    ) -> None:
        self._model, self._deciders, self._query = model, deciders, query
        self._max_nodes, self._enough = max_nodes, enough
        self._codes = codes
        n_rows = len(codes)
        self._log_start = log_probabilities(model, decode(codes), query)
        # Minus its mass, a number, its owner, its codes, and which decider is open.
        self._heap: list[tuple[float, int, int, bytes, bool]] = []
        self._n_pushed = 0
        self._agreed: list[list[float]] = [[] for _ in range(n_rows)]
        self._differed: list[list[float]] = [[] for _ in range(n_rows)]
        self._left = np.zeros(n_rows)  # mass that is open, because of a limit
        self._sum = np.zeros((n_rows, 2))  # rough sums of the lists above
        self._n_nodes = np.zeros(n_rows, dtype=np.int64)
        self._settle(codes, np.arange(n_rows), np.ones(n_rows))

    def run(self, deadline: float) -> None:
        """Split open rows until none is left, or a limit is reached."""
        while self._heap:
            is_late = now() >= deadline
            rows, owner, is_first = self._take(is_late)
            if len(rows):
                self._split(rows, owner, is_first)

    def _take(self, is_late: bool) -> tuple[ByteArray, AnyArray, AnyArray]:
        """The open rows of most mass; those past a limit are left as they are."""
        rows: list[bytes] = []
        owners: list[int] = []
        firsts: list[bool] = []
        while self._heap and len(rows) < N_TAKEN:
            minus_mass, _, owner, row, is_first = heapq.heappop(self._heap)
            if is_late or self._n_nodes[owner] >= self._max_nodes or self._is_done(owner):
                self._left[owner] -= minus_mass
                continue
            self._n_nodes[owner] += 1
            rows.append(row)
            owners.append(owner)
            firsts.append(is_first)
        codes = np.frombuffer(b"".join(rows), dtype=np.uint8)
        codes = codes.reshape(len(rows), self._codes.shape[1])
        return codes, np.array(owners, dtype=np.int64), np.array(firsts, dtype=np.bool_)

    def _is_done(self, owner: int) -> bool:
        if self._enough is None:
            return False
        agreed, differed = self._sum[owner]
        return bool(agreed >= self._enough + ROUNDING or 1.0 - differed < self._enough - ROUNDING)

    def _split(self, codes: ByteArray, owner: AnyArray, is_first: AnyArray) -> None:
        """Both values of the variable that an open decider asks for, for each row."""
        variable = np.full(len(codes), NONE, dtype=np.int32)
        for decider, asks in zip(self._deciders, (is_first, ~is_first), strict=True):
            if asks.any():
                variable[asks] = decider.next_variables(codes[asks], owner[asks])
        assert np.all(variable != NONE)
        children = np.repeat(codes, 2, axis=0)
        children[np.arange(len(children)), np.repeat(variable, 2)] = np.arange(len(children)) % 2
        owner = np.repeat(owner, 2)
        log_p = log_probabilities(self._model, decode(children), self._query)
        is_possible = log_p > -np.inf
        children, owner = children[is_possible], owner[is_possible]
        self._settle(children, owner, np.exp(log_p[is_possible] - self._log_start[owner]))

    def _settle(self, codes: ByteArray, owner: AnyArray, mass: FloatArray) -> None:
        """Count the rows that are decided, and keep the others."""
        if len(codes) == 0:
            return
        first, second = (decider.labels(codes, owner) for decider in self._deciders)
        is_open = (first == OPEN) | (second == OPEN)
        same = first == second
        for row in np.flatnonzero(~is_open):
            kept = self._agreed if same[row] else self._differed
            kept[owner[row]].append(float(mass[row]))
            self._sum[owner[row], 0 if same[row] else 1] += mass[row]
        for row in np.flatnonzero(is_open):
            key = -float(mass[row]), self._n_pushed  # of equal masses the first comes first
            is_first = bool(first[row] == OPEN)
            heapq.heappush(self._heap, (*key, int(owner[row]), codes[row].tobytes(), is_first))
            self._n_pushed += 1

    def report(self) -> Agreement:
        """The sums; where nothing is left open, relative to what was found in all."""
        agreed = np.array([math.fsum(parts) for parts in self._agreed])
        differed = np.array([math.fsum(parts) for parts in self._differed])
        is_exact = self._left == 0.0
        whole = np.where(is_exact, agreed + differed, 1.0)
        low = agreed / whole
        high = np.where(is_exact, low, np.minimum(agreed + self._left, 1.0 - differed))
        low = np.where(is_exact, low, np.maximum(low - ROUNDING, 0.0))
        high = np.where(is_exact, high, np.clip(high + ROUNDING, low, 1.0))
        middle = np.where(is_exact, low, 0.5 * (low + high))
        return Agreement(middle, low, high, is_exact, self._n_nodes)
