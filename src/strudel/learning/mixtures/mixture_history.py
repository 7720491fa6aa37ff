"""What happened during EM: one row per step, the best of them, and when to stop."""

from __future__ import annotations

import time
from collections.abc import Callable

from strudel.learning.history import Record
from strudel.learning.mixture_methods import MixtureOptions


class MixtureHistory(Record):
    """One row per EM step, the start included.

    Columns are attributes: `n_iterations`, `train` and `valid` (mean log-likelihoods of the
    mixture) and `seconds` since the start.
    """

    COLUMNS = ("n_iterations", "train", "valid", "seconds")
    WHOLE = ("n_iterations",)
    STEP = "iterations"

    def __init__(
        self, started: float | None = None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        super().__init__(started, clock)
        self._last_gain = 0  # the last step that was better by more than `tol`
        self._gained = -float("inf")

    def add(self, train: float, valid: float, tol: float) -> bool:
        """Write down the mixture after another step; returns whether it is the best so far."""
        return self.add_again((len(self), train, valid, self.elapsed), tol)

    def add_again(self, row: tuple[float, ...], tol: float) -> bool:
        """Write down what was written down before."""
        _, train, valid, _ = row
        judge = train if valid != valid else valid  # without validation rows (nan) the training
        best = self._rows[self.best] if self._rows else None
        is_best = best is None or judge > (best[1] if best[2] != best[2] else best[2])
        self._append(row, is_best)
        if judge > self._gained + tol:
            self._gained, self._last_gain = judge, len(self) - 1
        return is_best

    def is_finished(self, options: MixtureOptions) -> bool:
        """Whether to stop; keeps the reason in `stopped_because`."""
        last = len(self) - 1
        if last - self._last_gain >= options.patience:
            self.stopped_because = "patience"
        elif last >= options.max_iter:
            self.stopped_because = "max_iter"
        elif options.max_seconds is not None and self.elapsed >= options.max_seconds:
            self.stopped_because = "max_seconds"
        return self.stopped_because != ""
