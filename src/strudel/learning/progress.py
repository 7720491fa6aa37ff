"""How a fit goes on: histories, what a fit says of itself while it runs, and the best so far.

In:  steps of searches and of EM; models that learners offer, made only when they are written.
Out: `History` and `MixtureHistory`, one row per step, the best of them, and when to stop;
     `Progress` for the callback of `fit`, and for `verbose` lines on stderr or one line on a
     terminal or in a notebook, which is rewritten, and gone when the fit ends; a model file,
     complete at any time, which `warm_start` and `load` read.

Learners call `offer` and need not know whether anybody listens. Files are written by `strudel.io`,
a later layer, which is imported by name, only here.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import shutil
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from strudel._compiling import NO_LIMIT, Clock, Compiled, now, on_compile
from strudel._display import Shown, plotting
from strudel._types import AnyArray
from strudel.learning.growing.growing_circuit import GrowingCircuit
from strudel.learning.options import MixtureOptions, SearchOptions

SECONDS = 60.0  # between two writes, at least
SECONDS_BETWEEN_LINES = 1.0
SECONDS_BEFORE, SECONDS_BETWEEN = 2.0, 0.25  # of the line that is rewritten
IN_WORDS = {
    "compiling": "compiling, once per installation",
    "structure": "growing the structure",
    "choice": "comparing settings",
    "training": "training",
    "blocks": "counting all rows",
}


class BestSoFar:
    """Writes what is better than all before, about once a minute."""

    def __init__(self, path: str | os.PathLike[str], *, is_single: bool = False) -> None:
        if not Path(path).parent.is_dir() or Path(path).is_dir():
            raise ValueError(
                f"save_to must be a file in a folder that exists, but is {str(path)!r}."
            )
        self.path, self.is_single = path, is_single
        self.finish: Callable[[Any], Any] = lambda model: model  # of rows: over all columns
        self._score = -math.inf
        self._make: Callable[[], Any] | None = None  # of a model that is not written yet
        self._written = now()

    def offer(self, make: Callable[[], Any], score: float) -> None:
        """A model, and the mean log-likelihood by which models are compared."""
        if score > self._score:
            self._score, self._make = score, make
        if self._make is not None and now() - self._written >= SECONDS:
            model, self._make = self._make(), None
            self._written = now()
            circuit = self.finish(model)
            if not self.is_single or circuit.n_components == 1:
                self.write(circuit)

    def write(self, model: Any) -> None:
        """Write a model; a full disk does not end the fit."""
        try:
            import_module("strudel.io").save(model, self.path)
        except OSError as error:
            warnings.warn(
                f"The best model so far could not be written to {str(self.path)!r}: "
                f"{error.strerror or error}.",
                RuntimeWarning,
                stacklevel=2,
            )


_keeper: ContextVar[BestSoFar | None] = ContextVar("keeper", default=None)


@contextmanager
def kept_in(keeper: BestSoFar | None) -> Iterator[None]:
    """Inside the block, models that are offered go to a file, or nowhere."""
    before = _keeper.set(keeper)
    try:
        yield
    finally:
        _keeper.reset(before)


def offer(make: Callable[[], Any], score: float) -> None:
    """Say that there is a model now, with its score on validation rows."""
    keeper = _keeper.get()
    if keeper is not None:
        keeper.offer(make, score)


def finish_with(finish: Callable[[Any], Any]) -> None:
    """Say what makes a model of prepared rows one of all columns."""
    keeper = _keeper.get()
    if keeper is not None:
        keeper.finish = finish


def model_in(path: str | os.PathLike[str]) -> Any:
    """The model of a file."""
    return import_module("strudel.io").load(path)


class Record(Shown):
    """A table that grows by whole rows; columns are attributes."""

    COLUMNS: ClassVar[tuple[str, ...]]
    WHOLE: ClassVar[tuple[str, ...]]  # columns of whole numbers
    STEP: ClassVar[str]  # what one row is

    def __init__(self, started: float | None = None) -> None:
        self._rows: list[tuple[float, ...]] = []  # whole rows, so that an interrupt cannot tear one
        self._started = now() if started is None else started
        self.best = 0
        self.stopped_because = ""

    def __len__(self) -> int:
        return len(self._rows)

    def __getattr__(self, name: str) -> AnyArray:
        if name in self.COLUMNS:
            dtype = np.int64 if name in self.WHOLE else np.float64
            place = self.COLUMNS.index(name)
            return np.array([row[place] for row in self.__dict__["_rows"]], dtype=dtype)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return now() - self._started

    def _append(self, row: tuple[float, ...], is_best: bool) -> None:
        is_first = not self._rows
        self._rows.append(row)
        if is_first or is_best:
            self.best = len(self) - 1

    def last_row(self, place: int = -1) -> dict[str, float]:
        """One row by the names of its columns; the last one by default."""
        return dict(zip(self.COLUMNS, self._rows[place], strict=True))

    @property
    def best_score(self) -> float:
        """The log-likelihood of the best row: of validation rows, if there are any."""
        best = self.last_row(self.best)
        return best["train"] if best["valid"] != best["valid"] else best["valid"]

    def columns(self) -> dict[str, AnyArray]:
        """The columns by name."""
        return {name: getattr(self, name) for name in self.COLUMNS}

    @classmethod
    def from_columns(
        cls, columns: dict[str, AnyArray], best: int = 0, stopped_because: str = ""
    ) -> Self:
        """The history with these columns."""
        lengths = {len(columns[name]) for name in cls.COLUMNS}
        if len(lengths) != 1 or not 0 <= best < max(lengths.pop(), 1):
            raise ValueError("The columns of a history must be equally long and hold the best row.")
        history = cls()
        table = [np.asarray(columns[name]).tolist() for name in cls.COLUMNS]
        history._rows = list(zip(*table, strict=True))
        history.best = int(best)
        history.stopped_because = str(stopped_because)
        return history

    def to_frame(self) -> Any:
        """The history as a pandas DataFrame."""
        import pandas

        return pandas.DataFrame(self.columns())

    def plot(self, ax: Any = None) -> Any:
        """Draw the likelihoods step by step; returns the matplotlib axes."""
        return plotting("curves").plot_learning_curve(self, ax=ax)

    def __repr__(self) -> str:
        name = type(self).__name__
        if not len(self):
            return f"{name}(empty)"
        return (
            f"{name}({self.STEP}={len(self) - 1}, best={self.best}, "
            f"valid={self.valid[self.best]:.4f}, stopped_because={self.stopped_because!r})"
        )


class History(Record):
    """One row per circuit of the search, the first circuit included.

    Columns are attributes: `n_splits`, `train` and `valid` (mean log-likelihoods), `n_edges`,
    `rows_moved` (distinct training rows through the split edge) and `seconds` since the start.
    """

    COLUMNS = ("n_splits", "train", "valid", "n_edges", "rows_moved", "seconds")
    WHOLE = ("n_splits", "n_edges", "rows_moved")
    STEP = "splits"

    def add(self, growing: GrowingCircuit) -> None:
        """Write down the circuit as it is now."""
        self.add_row(self.row_of(growing))

    def row_of(self, growing: GrowingCircuit) -> tuple[float, ...]:
        """What there is to write down about the circuit as it is now."""
        return (
            growing.n_splits,
            growing.train_log_likelihood,
            growing.valid_log_likelihood,
            growing.n_edges,
            growing.rows_moved,
            self.elapsed,
        )

    def add_row(self, row: tuple[float, ...]) -> None:
        """Write down what `row_of` gave."""
        # Without validation rows (nan) the latest circuit is the best one.
        self._append(row, is_best=not self._rows or not row[2] <= self._rows[self.best][2])

    def after(self, earlier: History) -> History:
        """The rows behind those of an earlier history, from whose best circuit the search went on.

        Splits and seconds keep counting. What the earlier search did after its best circuit is
        left out; that circuit itself is the first of this history, on the rows of this one.
        """
        n_splits, seconds = (self.COLUMNS.index(name) for name in ("n_splits", "seconds"))
        history = History()
        history._rows = earlier._rows[: earlier.best]
        for row in self._rows:
            later = list(row)
            later[n_splits] += earlier._rows[earlier.best][n_splits]
            later[seconds] += earlier._rows[-1][seconds]
            history._rows.append(tuple(later))
        history.best = earlier.best + self.best
        history.stopped_because = self.stopped_because
        return history

    def is_finished(self, search: SearchOptions) -> bool:
        """Whether to stop; keeps the reason in `stopped_because`."""
        last = len(self) - 1
        if last - self.best >= search.patience:
            self.stopped_because = "patience"
        elif search.max_splits is not None and last >= search.max_splits:
            self.stopped_because = "max_splits"
        elif search.max_edges is not None and self._rows[-1][3] >= search.max_edges:
            self.stopped_because = "max_edges"
        elif search.max_seconds is not None and self.elapsed >= search.max_seconds:
            self.stopped_because = "max_seconds"
        return self.stopped_because != ""


class MixtureHistory(Record):
    """One row per EM step, the start included.

    Columns are attributes: `n_iterations`, `train` and `valid` (mean log-likelihoods of the
    mixture) and `seconds` since the start.
    """

    COLUMNS = ("n_iterations", "train", "valid", "seconds")
    WHOLE = ("n_iterations",)
    STEP = "iterations"

    def __init__(self, started: float | None = None) -> None:
        super().__init__(started)
        self._last_gain = 0  # the last step that was better by more than `tol`
        self._gained = -float("inf")

    def add(self, train: float, valid: float, tol: float) -> bool:
        """Write down the mixture after another step; returns whether it is the best so far."""
        return self.add_row((len(self), train, valid, self.elapsed), tol)

    def add_row(self, row: tuple[float, ...], tol: float) -> bool:
        """The same with any number of steps."""
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


@dataclass(frozen=True)
class Progress:
    """Where a fit is now; the callback of `fit` gets one after every step.

    Attributes
    ----------
    stage : {"compiling", "structure", "choice", "training", "blocks"}
        Functions that are compiled, once per installation; splits of the structure, settings of a
        mixture that are compared, EM steps (of boosting, components), or blocks of a Dask table.
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
