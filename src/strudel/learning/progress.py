"""What a fit says of itself while it runs.

In:  histories of searches and of EM, as they grow.
Out: `Progress` for the callback of `fit`, and lines on stderr for `verbose`.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from strudel._compiling import Compiled, now
from strudel.learning.history import Record

SECONDS_BETWEEN_LINES = 1.0


@dataclass(frozen=True)
class Progress:
    """Where a fit is now; the callback of `fit` gets one after every step.

    Attributes
    ----------
    stage : {"compiling", "structure", "choice", "training"}
        Functions that are compiled, once per installation; splits of the structure, settings of a
        mixture that are compared, or EM steps (of boosting, components).
    step : int
        Steps of this stage so far.
    train, valid : float
        Mean log-likelihoods after this step; NaN if they are unknown.
    best_step : int
        The step with the best validation likelihood so far.
    best_valid : float
        That likelihood.
    n_edges : int
        Edges of the circuit, in the stage "structure"; else 0.
    elapsed : float
        Seconds since the stage began; those of the compiler count only for "compiling".
    message : str
        The same in a sentence.
    """

    stage: str
    step: int
    train: float
    valid: float
    best_step: int
    best_valid: float
    n_edges: int
    elapsed: float
    message: str


Callback = Callable[[Progress], None]


class Reporter:
    """Tells a callback, and with `verbose` a person, how a fit proceeds."""

    def __init__(self, callback: Callback | None = None, verbose: Any = 0) -> None:
        self.callback = callback
        self.verbose = 0 if verbose == "auto" else verbose
        self._started = now()
        self._last_line = time.perf_counter()

    @property
    def on_split(self) -> Callable[[Record], None] | None:
        """What a search is to call after every split; None if nobody listens."""
        return self._split if self.callback is not None or self.verbose else None

    def _split(self, history: Record) -> None:
        last = history.last_row()
        message = (
            f"split {last['n_splits']:.0f}: train {last['train']:.4f}, valid {last['valid']:.4f}, "
            f"{last['n_edges']:.0f} edges, {last['seconds']:.1f} s"
        )
        if self.callback is not None:
            self.callback(self._progress("structure", history, message))
        if self.verbose and time.perf_counter() - self._last_line >= SECONDS_BETWEEN_LINES:
            self._print(message)

    def train_step(self, history: Record, prefix: str = "", step: str = "iteration") -> None:
        """Say how training proceeds."""
        last = history.last_row()
        valid = "" if math.isnan(last["valid"]) else f", valid {last['valid']:.4f}"
        message = f"{prefix}{step} {len(history) - 1}: train {last['train']:.4f}{valid}"
        if self.callback is not None:
            self.callback(self._progress("training", history, message))
        if self.verbose:
            self._print(message)

    def compiled(self, done: Compiled) -> None:
        """Say that one more function was compiled."""
        if self.callback is not None:
            self.callback(
                Progress(
                    "compiling",
                    done.n_functions,
                    math.nan,
                    math.nan,
                    done.n_functions,
                    math.nan,
                    0,
                    done.seconds,
                    str(done),
                )
            )
        if self.verbose and time.perf_counter() - self._last_line >= SECONDS_BETWEEN_LINES:
            self._print(str(done))

    def say(self, stage: str, message: str, step: int = 0, valid: float = math.nan) -> None:
        """Say what happens where there is no history."""
        if self.callback is not None:
            elapsed = now() - self._started
            self.callback(Progress(stage, step, math.nan, valid, step, valid, 0, elapsed, message))
        if self.verbose:
            self._print(message)

    def _progress(self, stage: str, history: Record, message: str) -> Progress:
        last, best = history.last_row(), history.last_row(history.best)
        return Progress(
            stage,
            len(history) - 1,
            last["train"],
            last["valid"],
            history.best,
            best["valid"],
            int(last.get("n_edges", 0)),
            last["seconds"],
            message,
        )

    def _print(self, message: str) -> None:
        self._last_line = time.perf_counter()
        print(message, file=sys.stderr)
