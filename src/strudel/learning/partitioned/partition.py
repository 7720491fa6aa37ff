"""The rows of one part of a table, with their flows through a circuit that grows elsewhere.

In:  packed rows, the first circuit, and the splits and clones made so far.
Out: the weight of the rows through some edges, and answers to questions about them.

A part carries out every operation itself, by the kernels of `learning/`, on its own copy of the
circuit: nodes and edges are numbered by the operations alone, not by the rows, so all copies agree.
It knows how many it has done. One that was made again, or put back in time, catches up.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from strudel._types import CountArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.data.bits import BitMatrix
from strudel.learning.growing.growing_circuit import GrowingCircuit, Operation, apply
from strudel.learning.partitioned.counted_per_part import Question
from strudel.learning.partitioned.engines import file_backed


class Partition:
    """Rows that move with every operation."""

    def __init__(self, rows: BitMatrix, circuit: Circuit, is_valid: bool) -> None:
        self.is_valid = is_valid  # validation rows are only counted
        nothing = BitMatrix(np.zeros((rows.n_vars, 0), dtype=np.uint64), 0)
        self.growing = GrowingCircuit(circuit, rows, nothing).without_queue()
        self.n_done = 0
        self._lock = Lock()

    def catch_up(self, request: Request) -> bool:
        """Do what this part has not done; False if the request begins too late."""
        if self.n_done < request.first:
            return False
        for operation in request.operations[self.n_done - request.first :]:
            apply(self.growing, operation)
            self.n_done += 1
        return True

    def __getstate__(self) -> dict[str, Any]:
        # A copy, between two operations: a worker may write a part to disk while it is at work.
        with self._lock:
            kept = {name: value for name, value in self.__dict__.items() if name != "_lock"}
            return deepcopy(kept)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = Lock()

    def __sizeof__(self) -> int:
        return sum(array.nbytes for array in self.growing.growth)

    def to_files(self) -> None:
        """Keep the active edges, four bytes per row and vtree node, on disk."""
        growth = self.growing.growth
        self.growing.growth = growth._replace(train_active=file_backed(growth.train_active))


@dataclass(frozen=True, eq=False)
class Request:
    """What is asked of every part at once."""

    first: int  # number of the first operation sent
    operations: list[Operation]
    edges: IntArray  # whose counts are wanted
    questions: tuple[Question, ...] = ()

    def __sizeof__(self) -> int:
        arrays = [self.edges, *(value for one in self.questions for value in vars(one).values())]
        return 100 * len(self.operations) + sum(getattr(array, "nbytes", 0) for array in arrays)


@dataclass(frozen=True, eq=False)
class Answer:
    """Counts of one part, or the sum of several."""

    count: CountArray  # (2, n_edges_asked) of training and of validation rows
    found: tuple[Any, ...] = ()  # for every question; nothing of validation rows
    n_behind: int = 0  # parts that lack operations sent before

    def __add__(self, other: Answer) -> Answer:
        if self.n_behind or other.n_behind:
            return Answer(np.zeros((2, 0)), (), self.n_behind + other.n_behind)
        if not self.found or not other.found:
            return Answer(self.count + other.count, self.found or other.found)
        found = tuple(a + b for a, b in zip(self.found, other.found, strict=True))
        return Answer(self.count + other.count, found)


def answer(partition: Partition, request: Request) -> Answer:
    """Do the operations of a request, then count."""
    with partition._lock:  # a task that is run again must not meet itself
        if not partition.catch_up(request):
            return Answer(np.zeros((2, 0)), (), 1)
        g = partition.growing.growth
        count = np.zeros((2, len(request.edges)))
        count[int(partition.is_valid)] = g.edge["train"][request.edges]
        asked = () if partition.is_valid else request.questions
        return Answer(count, tuple(question.of(g) for question in asked))
