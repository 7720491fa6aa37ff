"""What a terminal shows while experiments run: a bar, what is under way, and the time left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strudel.cli.console import note
from strudel.cli.progress import LiveLine, line_of

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from strudel.reproduce.runner import Progress as RunProgress


class ReproduceProgress(LiveLine):
    """A live line on a terminal; elsewhere one line per task that has ended."""

    def __init__(self, is_quiet: bool = False) -> None:
        super().__init__(is_quiet)
        self.is_quiet = is_quiet

    def _make(self) -> Progress:
        from rich.progress import BarColumn, SpinnerColumn, TextColumn

        return line_of(
            SpinnerColumn(),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.description}", markup=False),
        )

    def _first_task(self, progress: Progress) -> TaskID:
        return progress.add_task("starting", total=1)

    def update(self, now: RunProgress) -> None:
        """Show how far the run is; say what has ended."""
        if now.last is not None and not self.is_quiet:
            last = now.last
            outcome = f"failed: {last.failure}" if last.failure else f"{last.seconds:.0f} s"
            line = f"{last.experiment} on {last.dataset}: {outcome}"
            if self.is_live and self._progress is not None:
                self._progress.console.print(line, markup=False, highlight=False)
            else:
                note(f"{now.n_done}/{now.n_tasks}  {line}  {_left(now)}")
        if self._is_due():
            running = ", ".join(f"{task.experiment.name} {task.dataset}" for task in now.running)
            self._show(
                completed=now.n_done, total=now.n_tasks, description=f"{_left(now)}  {running}"
            )


def _left(now: RunProgress) -> str:
    return "" if now.n_done == now.n_tasks else f"{as_duration(now.seconds_left)} left"


def as_duration(seconds: float) -> str:
    """Seconds as people say them.

    Examples
    --------
    >>> as_duration(42), as_duration(600), as_duration(9000)
    ('42 s', '10 min', '2 h 30 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"
