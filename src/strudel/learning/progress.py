"""What a fit says of itself while it runs.

In:  histories of searches and of EM, as they grow.
Out: `Progress` for the callback of `fit`; for `verbose=1` lines on stderr, and for `verbose="auto"`
     one line on a terminal or in a notebook, which is rewritten, and gone when the fit ends.
"""

from __future__ import annotations

import math
import multiprocessing
import shutil
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Self

from strudel._compiling import NO_LIMIT, Clock, Compiled, now, on_compile
from strudel.learning.history import Record

SECONDS_BETWEEN_LINES = 1.0
SECONDS_BEFORE, SECONDS_BETWEEN = 2.0, 0.25  # of the line that is rewritten
IN_WORDS = {
    "compiling": "compiling, once per installation",
    "structure": "growing the structure",
    "choice": "comparing settings",
    "training": "training",
}


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
    """Tells a callback, and with `verbose` a person, how a fit proceeds; inside a `with` block.

    Whoever has a callback shows what is to be seen: there is no line of its own for "auto".
    """

    def __init__(self, callback: Callback | None = None, verbose: int | str = 0) -> None:
        self.callback = callback
        self.prints = verbose != "auto" and bool(verbose)
        screen = find_screen() if verbose == "auto" and callback is None else None
        self.line = None if screen is None else LiveLine(screen)
        self._started = now()
        self._last_line = time.perf_counter()
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._open.enter_context(on_compile(self.compiled))
        if self.line is not None:
            self._open.enter_context(self.line)
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def within(self, clock: Clock) -> None:
        """Say how much time there is."""
        if self.line is not None:
            self.line.clock = clock

    @property
    def on_split(self) -> Callable[[Record], None] | None:
        """What a search is to call after every split; None if nobody listens."""
        return self._split if self.callback or self.line or self.prints else None

    def _split(self, history: Record) -> None:
        last = history.last_row()
        message = (
            f"split {last['n_splits']:.0f}: train {last['train']:.4f}, valid {last['valid']:.4f}, "
            f"{last['n_edges']:.0f} edges, {last['seconds']:.1f} s"
        )
        self._tell(_progress("structure", history, message), is_one_of_many=True)

    def train_step(self, history: Record, prefix: str = "", step: str = "iteration") -> None:
        """Say how training proceeds."""
        last = history.last_row()
        valid = "" if math.isnan(last["valid"]) else f", valid {last['valid']:.4f}"
        message = f"{prefix}{step} {len(history) - 1}: train {last['train']:.4f}{valid}"
        self._tell(_progress("training", history, message))

    def compiled(self, done: Compiled) -> None:
        """Say that one more function was compiled."""
        nan, n = math.nan, done.n_functions
        progress = Progress("compiling", n, nan, nan, n, nan, 0, done.seconds, str(done))
        self._tell(progress, is_one_of_many=True)

    def say(self, stage: str, message: str, step: int = 0, valid: float = math.nan) -> None:
        """Say what happens where there is no history."""
        elapsed = now() - self._started
        self._tell(Progress(stage, step, math.nan, valid, step, valid, 0, elapsed, message))

    def _tell(self, progress: Progress, is_one_of_many: bool = False) -> None:
        if self.callback is not None:
            self.callback(progress)
        if self.line is not None:
            self.line.progress = progress
        wait = SECONDS_BETWEEN_LINES if is_one_of_many else 0.0
        if self.prints and time.perf_counter() - self._last_line >= wait:
            self._last_line = time.perf_counter()
            print(progress.message, file=sys.stderr)


def _progress(stage: str, history: Record, message: str) -> Progress:
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


class LiveLine:
    """A line that a thread rewrites, from the third second on, and clears at the end."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self.progress: Progress | None = None
        self.clock = NO_LIMIT
        self._show = show
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._started = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        if self._ended.wait(SECONDS_BEFORE):
            return
        while True:
            self._show(self.words(time.monotonic() - self._started))
            if self._ended.wait(SECONDS_BETWEEN):
                break
        self._show("")

    def words(self, elapsed: float) -> str:
        """The stage, the likelihood so far, and the seconds gone and left."""
        progress, left = self.progress, self.clock.left()
        facts = ["preparing the rows"]
        if progress is not None:
            facts = [IN_WORDS.get(progress.stage, progress.stage), f"step {progress.step:,}"]
            score = progress.train if math.isnan(progress.best_valid) else progress.best_valid
            facts += [] if math.isnan(score) else [f"log-likelihood {score:.3f}"]
        facts.append(f"{elapsed:.0f} s")
        return ", ".join(facts if left is None else [*facts, f"at most {left:.0f} s left"])


def find_screen() -> Callable[[str], None] | None:
    """What shows a text in place of the one before: in a notebook, on a terminal; else None."""
    if multiprocessing.parent_process() is not None:  # one of many, who would all write
        return None
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if hasattr(shell, "kernel"):
        return _in_notebook()
    return _on_terminal if sys.stderr is not None and sys.stderr.isatty() else None


def _on_terminal(text: str) -> None:
    width = shutil.get_terminal_size().columns - 1
    print(f"\r{text[:width]:{width}}\r", end="", file=sys.stderr, flush=True)


def _in_notebook() -> Callable[[str], None]:
    from IPython.display import display  # type: ignore[import-not-found]

    shown: list[Any] = []

    def show(text: str) -> None:
        data = {"text/plain": text}
        if shown:
            shown[0].update(data, raw=True)
        else:
            shown.append(display(data, raw=True, display_id=True))

    return show
