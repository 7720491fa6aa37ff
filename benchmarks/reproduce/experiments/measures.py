"""Measures that several experiments share: likelihoods, curves of a search, seconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any

import numpy as np

from strudel._types import FloatArray
from strudel.data.bits import BitMatrix
from strudel.data.datasets import Dataset
from strudel.learning.growing.growing_circuit import GrowingCircuit, replay
from strudel.learning.search.learn_structure import Grown


def bits_per_dimension(mean_log_likelihood: Any, n_vars: int) -> Any:
    """The paper's bpd: mean code length per variable, in bits."""
    return -np.asarray(mean_log_likelihood) / (np.log(2.0) * n_vars)


def mean_scores(density: Any, data: Dataset) -> dict[str, Any]:
    """Mean log-likelihoods of the validation and the test rows."""
    return {"valid": float(density(data.valid).mean()), "test": float(density(data.test).mean())}


@dataclass
class Stopwatch:
    """Seconds on the clock and of the processor."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0


@contextmanager
def stopwatch() -> Iterator[Stopwatch]:
    """Time a block."""
    watch = Stopwatch()
    wall, cpu = perf_counter(), process_time()
    try:
        yield watch
    finally:
        watch.seconds, watch.cpu_seconds = perf_counter() - wall, process_time() - cpu


class Allowance:
    """Seconds that several steps share: each gets an equal share of what is left."""

    def __init__(self, seconds: float, n_steps: int) -> None:
        self._end = perf_counter() + seconds
        self._n_left = n_steps

    def next(self) -> float:
        """The seconds for the next step; what earlier steps did not use is passed on."""
        left = max(self._end - perf_counter(), 0.0) / max(self._n_left, 1)
        self._n_left -= 1
        return max(left, 0.1)


def likelihoods_on_the_way(grown: Grown, rows: BitMatrix) -> FloatArray:
    """Mean log-likelihood of other rows before the first and after every operation of a search."""
    growing = grown.make(valid=rows)
    found = [growing.valid_log_likelihood]

    def note(growing: GrowingCircuit) -> None:
        found.append(growing.valid_log_likelihood)

    replay(growing, grown.operations, note)
    return np.array(found)


def with_early_stopping(
    valid: FloatArray, test: FloatArray, patience: int
) -> tuple[FloatArray, int]:
    """The curve of `test` if the search had stopped early, and the split after which it had.

    It stops after `patience` splits without a better validation likelihood, and from then on stays
    at the circuit that it keeps, the best on the validation rows.
    """
    best = last = 0
    for last in range(len(valid)):
        if valid[last] > valid[best]:
            best = last
        if last - best >= patience:
            break
    curve = test.copy()
    curve[last + 1 :] = test[best]
    return curve, last
