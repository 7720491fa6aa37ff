"""What a process does with one task: the experiment, then its json."""

from __future__ import annotations

import traceback
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter, process_time

from strudel.reproduce.machine import describe_machine, peak_memory_mib
from strudel.reproduce.plan import Task
from strudel.reproduce.store import Outcome, Store


def work(task: Task, folder: Path) -> None:
    """Run a task and keep its outcome, a failure too."""
    result, failure = None, None
    started = perf_counter()
    try:
        module = task.experiment.module
        if hasattr(module, "warm_up"):
            module.warm_up()
        result = module.run(task.dataset, task.settings)
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
