"""What happened in a search or during EM: one row per step, the best of them, and when to stop."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from strudel._compiling import now
from strudel._display import Shown, plotting
from strudel._types import AnyArray
from strudel.learning.growing.growing_circuit import GrowingCircuit
from strudel.learning.options import MixtureOptions, SearchOptions


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
