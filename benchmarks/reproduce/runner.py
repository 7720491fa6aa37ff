"""Run tasks side by side, the longest first, and store their results.

In:  tasks and a store.
Out: outcomes in the store; stored results are not computed again.

Every task has its own process with one thread. A task starts only when there is memory for it. If
the run is killed, only the running tasks are lost.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import perf_counter, process_time

from reproduce.machine import describe_machine, peak_memory_mib
from reproduce.processes import end_process, start_process
from reproduce.store import Outcome, Store
from reproduce.tasks import Task
from strudel._memory import total_memory

MEMORY_SHARE = 0.75  # of the machine's memory that all tasks together may need
SECONDS_BETWEEN_LOOKS = 0.5


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    n_done: int
    n_tasks: int
    running: tuple[Task, ...]
    seconds_left: float  # from the estimates, corrected by the tasks that are done
    last: Outcome | None = None  # the task that has just ended


OnProgress = Callable[[Progress], None]


def unfinished(tasks: Sequence[Task], store: Store) -> list[Task]:
    """The tasks without a result, the longest first; those that failed are tried again."""
    left = []
    for task in tasks:
        outcome = store.read(task.experiment.name, task.dataset, task.settings)
        if outcome is None or outcome.failure is not None:
            left.append(task)
    return sorted(left, key=lambda task: -task.estimate)


def run_tasks(
    tasks: Sequence[Task], store: Store, n_jobs: int, on_progress: OnProgress | None = None
) -> None:
    """Run all tasks that have no result yet."""
    store.remove_unfinished()
    waiting = unfinished(tasks, store)
    run = _Run(store, n_jobs, len(waiting), on_progress)
    try:
        while waiting or run.running:
            place = run.next_place(waiting)
            if place is not None:
                run.start(waiting.pop(place))
            else:
                run.wait(waiting)
    finally:  # an interrupt ends the running tasks
        for job in run.running:
            end_process(job.process)


@dataclass
class _Job:
    task: Task
    process: BaseProcess
    started: float

    @property
    def seconds(self) -> float:
        return perf_counter() - self.started


class _Run:
    """The running jobs, and how long tasks take."""

    def __init__(
        self, store: Store, n_jobs: int, n_tasks: int, on_progress: OnProgress | None
    ) -> None:
        self.store = store
        self.n_jobs = n_jobs
        self.n_tasks = n_tasks
        self.on_progress = on_progress
        self.running: list[_Job] = []
        self.n_done = 0
        self.estimated = self.taken = 30.0  # of the tasks that are done; 30 s to start with
        self.memory = MEMORY_SHARE * total_memory() / 2**20

    def next_place(self, waiting: list[Task]) -> int | None:
        """The place of the first waiting task for which there is memory."""
        if len(self.running) >= self.n_jobs:
            return None
        used = sum(job.task.experiment.mib for job in self.running)
        for place, task in enumerate(waiting):
            if not self.running or used + task.experiment.mib <= self.memory:
                return place
        return None

    def start(self, task: Task) -> None:
        self.running.append(
            _Job(task, start_process(work, task, self.store.folder), perf_counter())
        )

    def wait(self, waiting: list[Task]) -> None:
        """Wait until a process ends, or for half a second."""
        ended = wait([job.process.sentinel for job in self.running], SECONDS_BETWEEN_LOOKS)
        for job in list(self.running):
            if job.process.sentinel in ended:
                self._close(job, waiting)
            elif job.seconds > job.task.most_seconds:
                end_process(job.process)
                self._close(job, waiting, f"it took longer than {job.task.most_seconds:.0f} s")
        self._report(waiting, None)

    def _close(self, job: _Job, waiting: list[Task], failure: str | None = None) -> None:
        self.running.remove(job)
        job.process.join()
        task, store = job.task, self.store
        name, settings = task.experiment.name, task.settings
        if failure is None and job.process.exitcode != 0:
            failure = f"its process died, exit code {job.process.exitcode}"
        if failure is not None and unfinished([task], store):
            store.write(Outcome(name, task.dataset, settings.as_dict(), None, failure, job.seconds))
        self.n_done += 1
        self.estimated += task.estimate
        self.taken += job.seconds
        self._report(waiting, store.read(name, task.dataset, settings))

    def _report(self, waiting: list[Task], last: Outcome | None) -> None:
        if self.on_progress is None:
            return
        pace = self.taken / self.estimated
        running = [max(pace * job.task.estimate - job.seconds, 1.0) for job in self.running]
        work_left = sum(running) + pace * sum(task.estimate for task in waiting)
        longest = max([*running, *(pace * task.estimate for task in waiting)], default=0.0)
        self.on_progress(
            Progress(
                self.n_done,
                self.n_tasks,
                tuple(job.task for job in self.running),
                max(work_left / self.n_jobs, longest),
                last,
            )
        )


def work(task: Task, folder: Path) -> None:
    """Run a task and store its outcome, also if it failed."""
    result, failure = None, None
    started = perf_counter()
    try:
        task.experiment.warm_up()
        result = task.experiment.module.run(task.dataset, task.settings)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        failure = f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"
    Store(folder).write(
        Outcome(
            task.experiment.name,
            task.dataset,
            task.settings.as_dict(),
            result,
            failure,
            perf_counter() - started,
            process_time(),
            peak_memory_mib(),
            datetime.now(UTC).isoformat(timespec="seconds"),
            describe_machine(),
        )
    )
