"""What happened during a search: one row per split, the best of them, and when to stop."""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any

import numpy as np

from strudel._types import AnyArray
from strudel.errors import MissingDependencyError
from strudel.learning.growing import GrowingCircuit
from strudel.learning.options import SearchOptions

COLUMNS = ("n_splits", "train", "valid", "n_edges", "rows_moved", "seconds")


class History:
    """One row per circuit of the search, the first circuit included.

    Columns are attributes: `n_splits`, `train` and `valid` (mean log-likelihoods), `n_edges`,
    `rows_moved` (distinct training rows through the split edge) and `seconds` since the start.
    """

    def __init__(self, started: float | None = None) -> None:
        self._rows: list[tuple[float, ...]] = []  # whole rows, so that an interrupt cannot tear one
        self._started = time.perf_counter() if started is None else started
        self.best = 0
        self.stopped_because = ""

    def __len__(self) -> int:
        return len(self._rows)

    def __getattr__(self, name: str) -> AnyArray:
        if name in COLUMNS:
            dtype = np.int64 if name in ("n_splits", "n_edges", "rows_moved") else np.float64
            place = COLUMNS.index(name)
            return np.array([row[place] for row in self.__dict__["_rows"]], dtype=dtype)
        raise AttributeError(f"History has no attribute {name!r}")

    def add(self, growing: GrowingCircuit) -> None:
        """Write down the circuit as it is now."""
        row = (
            growing.n_splits,
            growing.train_log_likelihood,
            growing.valid_log_likelihood,
            growing.n_edges,
            growing.rows_moved,
            time.perf_counter() - self._started,
        )
        # Without validation rows (nan) the latest circuit is the best one.
        is_best = not self._rows or not row[2] <= self._rows[self.best][2]
        self._rows.append(row)
        if is_best:
            self.best = len(self) - 1

    def is_finished(self, search: SearchOptions) -> bool:
        """Whether to stop; keeps the reason in `stopped_because`."""
        last = len(self) - 1
        if last - self.best >= search.patience:
            self.stopped_because = "patience"
        elif search.max_splits is not None and last >= search.max_splits:
            self.stopped_because = "max_splits"
        elif search.max_edges is not None and self._rows[-1][3] >= search.max_edges:
            self.stopped_because = "max_edges"
        elif (
            search.max_seconds is not None
            and time.perf_counter() - self._started >= search.max_seconds
        ):
            self.stopped_because = "max_seconds"
        return self.stopped_because != ""

    def columns(self) -> dict[str, AnyArray]:
        """The columns by name."""
        return {name: getattr(self, name) for name in COLUMNS}

    @classmethod
    def from_columns(
        cls, columns: dict[str, AnyArray], best: int = 0, stopped_because: str = ""
    ) -> History:
        """The history with these columns."""
        lengths = {len(columns[name]) for name in COLUMNS}
        if len(lengths) != 1 or not 0 <= best < max(lengths.pop(), 1):
            raise ValueError("The columns of a history must be equally long and hold the best row.")
        history = cls()
        table = [np.asarray(columns[name]).tolist() for name in COLUMNS]
        history._rows = list(zip(*table, strict=True))
        history.best = int(best)
        history.stopped_because = str(stopped_because)
        return history

    def to_frame(self) -> Any:
        """The history as a pandas DataFrame."""
        try:
            pandas = import_module("pandas")  # late and by name: learning itself does not need it
        except ImportError as error:
            raise MissingDependencyError(
                "to_frame needs pandas: pip install 'strudel-pc[frames]'."
            ) from error
        return pandas.DataFrame(self.columns())

    def plot(self, ax: Any = None) -> Any:
        """Draw the likelihoods against the number of splits; returns the matplotlib axes."""
        module = import_module("strudel.plotting.learning_curve")  # a later step than learning
        return module.plot_learning_curve(self, ax=ax)

    def __repr__(self) -> str:
        if not len(self):
            return "History(empty)"
        return (
            f"History(splits={len(self) - 1}, best={self.best}, "
            f"valid={self._rows[self.best][2]:.4f}, "
            f"stopped_because={self.stopped_because!r})"
        )
