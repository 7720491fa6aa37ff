"""What a terminal shows while a circuit grows.

No total is known, so the bar shows how much of the patience is used up: it empties whenever the
validation likelihood improves, and learning stops when it is full.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from strudel.learning.history import History

SECONDS_BETWEEN_UPDATES = 0.1


class FitProgress:
    """A live line on stderr; nothing when that is not a terminal, or when asked to be quiet."""

    def __init__(self, patience: int, is_quiet: bool = False) -> None:
        self.patience = patience
        self.is_live = not is_quiet and sys.stderr.isatty()
        self._next_update = 0.0
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> FitProgress:
        if self.is_live:
            self._progress = _bar()
            self._task = self._progress.add_task(
                "preparing", total=self.patience, line="counting pairs, compiling on the first run"
            )
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def update(self, history: History) -> None:
        """Show the latest split; cheap enough to be called after every one."""
        if self._progress is None or self._task is None:
            return
        now = time.monotonic()
        if now < self._next_update:
            return
        self._next_update = now + SECONDS_BETWEEN_UPDATES
        since_best = len(history) - 1 - history.best
        self._progress.update(
            self._task,
            description="learning",
            completed=min(since_best, self.patience),
            line=progress_line(history, self.patience),
        )


def progress_line(history: History, patience: int) -> str:
    """Splits, likelihoods, size and speed in one line."""
    last = len(history) - 1
    seconds = float(history.seconds[-1])
    valid = history.valid
    facts: list[str] = [
        f"split {last:,}",
        f"train {history.train[-1]:.4f}",
        f"valid {valid[-1]:.4f}",
        f"best {valid[history.best]:.4f}",
        f"{history.n_edges[-1]:,} edges",
        f"{last / seconds:,.0f} splits/s" if seconds > 0 else "",
        f"{seconds:.1f} s",
        f"patience left {max(patience - (last - history.best), 0):,}",
    ]
    return "  ".join(fact for fact in facts if fact)


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    columns: tuple[Any, ...] = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=16),
        TextColumn("{task.fields[line]}"),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)
