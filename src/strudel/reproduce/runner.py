"""Run tasks side by side, the longest first, and keep what they give.

In:  tasks and a store.
Out: outcomes in the store; those that are there already are not computed again.

Every task has a process of its own, with one thread. A task starts only when there is memory for
it. Killing the run loses the tasks under way and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from time import perf_counter

from strudel._memory import total_memory
from strudel.reproduce.plan import Task
from strudel.reproduce.processes import end_process, start_process
from strudel.reproduce.store import Outcome, Store
from strudel.reproduce.worker import work

MEMORY_SHARE = 0.75  # of the machine's memory that all tasks together may need
SECONDS_BETWEEN_LOOKS = 0.5


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    n_done: int
    n_tasks: int
    running: tuple[Task, ...]
    seconds_left: float  # by the estimates, corrected by how they did so far
    last: Outcome | None = None  # what has just ended


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
    finally:  # an interrupt ends what is under way
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
    """The jobs under way, and what is known about the time."""

    def __init__(
        self, store: Store, n_jobs: int, n_tasks: int, on_progress: OnProgress | None
    ) -> None:
        self.store = store
        self.n_jobs = n_jobs
        self.n_tasks = n_tasks
        self.on_progress = on_progress
        self.running: list[_Job] = []
        self.n_done = 0
        self.estimated = self.taken = 30.0  # of the tasks that are done; a little faith to begin
        self.memory = MEMORY_SHARE * total_memory() / 2**20

    def next_place(self, waiting: list[Task]) -> int | None:
        """Which of the waiting tasks can start: the first for which there is memory."""
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
        """Until a process ends, or a moment has passed."""
        ended = wait([job.process.sentinel for job in self.running], SECONDS_BETWEEN_LOOKS)
        for job in list(self.running):
            if job.process.sentinel in ended:
                self._close(job, waiting)
            elif job.seconds > job.task.most_seconds:
                end_process(job.process)
                self._close(job, waiting, f"took longer than {job.task.most_seconds:.0f} s")
        self._tell(waiting, None)

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
        self._tell(waiting, store.read(name, task.dataset, settings))

    def _tell(self, waiting: list[Task], last: Outcome | None) -> None:
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
