"""What a terminal shows while a circuit grows, or a mixture learns.

No total is known, so the bar of a circuit shows how much of the patience is used up: it empties
whenever the validation likelihood improves, and learning stops when it is full. A mixture
says what it does.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from rich.progress import Progress as Line
    from rich.progress import TaskID

    from strudel.learning.progress import Progress

SECONDS_BETWEEN_UPDATES = 0.1
NAME, SECONDS, BAR = 9, 7, 10  # letters of the parts of a circuit's line
TAKEN = 1 + NAME + SECONDS + BAR + 5  # with the spinner and the spaces between


class LiveLine:
    """A live line on stderr; nothing when that is not a terminal, or when asked to be quiet."""

    def __init__(self, is_quiet: bool = False) -> None:
        self.is_live = not is_quiet and sys.stderr.isatty()
        self._next_update = 0.0
        self._progress: Line | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if self.is_live:
            columns, first = self._look()
            self._progress = line_of(*columns)
            self._task = self._progress.add_task(**first)
            self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def _is_due(self) -> bool:
        """Whether the line is shown, and its last change long enough ago."""
        now = time.monotonic()
        if self._progress is None or now < self._next_update:
            return False
        self._next_update = now + SECONDS_BETWEEN_UPDATES
        return True

    def _show(self, **changes: Any) -> None:
        assert self._progress is not None
        assert self._task is not None
        self._progress.update(self._task, **changes)

    def _look(self) -> tuple[list[Any], dict[str, Any]]:
        """The columns of the line, and what it says before the first news."""
        raise NotImplementedError


class CircuitProgress(LiveLine):
    """The line of a circuit that grows: name, seconds, bar, and as many facts as there is room."""

    def __init__(self, patience: int, is_quiet: bool = False) -> None:
        super().__init__(is_quiet)
        self.patience = patience

    def _look(self) -> tuple[list[Any], dict[str, Any]]:
        from rich.progress import BarColumn, SpinnerColumn, TextColumn

        columns = [
            SpinnerColumn(),
            TextColumn("{task.description}", table_column=_fixed(NAME)),
            TextColumn("{task.elapsed:.1f} s", table_column=_fixed(SECONDS)),
            BarColumn(bar_width=BAR),
            TextColumn("{task.fields[line]}", markup=False, table_column=_fixed(1)),
        ]
        line = "counting pairs; the first run compiles"
        return columns, {"description": "preparing", "total": self.patience, "line": line}

    def update(self, progress: Progress) -> None:
        """Show the latest split; cheap enough to be called after every one."""
        if not self._is_due():
            return
        assert self._progress is not None
        room = self._progress.console.width - TAKEN
        if progress.stage != "structure":  # a mixture that rows are sampled from
            self._show(description=progress.stage, line=progress.message[:room])
            return
        since_best = progress.step - progress.best_step
        self._show(
            description="learning",
            completed=min(since_best, self.patience),
            line=progress_line(progress, self.patience, room),
        )


def _fixed(width: int) -> Any:
    """A column that is not wrapped, and not narrower than this."""
    from rich.table import Column

    return Column(no_wrap=True, min_width=width)


def progress_line(progress: Progress, patience: int, room: int = 1000) -> str:
    """Splits, likelihoods, size and speed, the most important first, as far as they fit."""
    seconds = progress.elapsed
    facts = [
        f"split {progress.step:,}",
        f"valid {progress.valid:.4f}",
        f"best {progress.best_valid:.4f}",
        f"{progress.n_edges:,} edges",
        f"train {progress.train:.4f}",
        f"patience left {max(patience - (progress.step - progress.best_step), 0):,}",
        f"{progress.step / seconds:,.0f} splits/s" if seconds > 0 else "",
    ]
    line = ""
    for fact in filter(None, facts):
        longer = f"{line}  {fact}" if line else fact
        if len(longer) > room:
            break
        line = longer
    return line


class MixtureProgress(LiveLine):
    """The line of a mixture: the latest news, and the seconds since the start."""

    def _look(self) -> tuple[list[Any], dict[str, Any]]:
        from rich.progress import SpinnerColumn, TextColumn
        from rich.table import Column

        columns = [
            SpinnerColumn(),
            TextColumn("{task.elapsed:.1f} s", table_column=_fixed(6)),
            # On a narrow terminal the news take two lines rather than lose their end.
            TextColumn("{task.description}", markup=False, table_column=Column()),
        ]
        return columns, {"description": "preparing", "total": None}

    def update(self, progress: Progress) -> None:
        """Show the latest news; cheap enough to be called after every step."""
        if self._is_due():
            self._show(description=progress.message)


def line_of(*columns: Any) -> Line:
    """A live line of these columns, which leaves nothing behind."""
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True), transient=True)
