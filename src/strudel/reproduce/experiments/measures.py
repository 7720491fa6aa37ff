"""Measures that several experiments share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any

import numpy as np

from strudel.data.datasets import Dataset


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
