"""From items and datasets to a report: the whole of `python benchmarks/reproduce`.

In:  names of items and datasets.
Out: `Plan`: the tasks; `Plan.run` fills the store, `Plan.report` reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reproduce.benchmark_tables import QUICK, QUICK_OFFLINE, canonical, is_here, load_table
from reproduce.facts import paper_datasets
from reproduce.items import Item, find_items
from reproduce.report import Report, make_report
from reproduce.runner import OnProgress, run_tasks, unfinished
from reproduce.store import Results, Store
from reproduce.tasks import EXPERIMENTS, NO_TABLE, Experiment, Task, settings_of

REGRESSION_SETS = ("abalone", "delta-ailerons", "elevators", "insurance")
QUICK_REGRESSION_SETS = ("delta-ailerons", "insurance")


@dataclass(frozen=True)
class Plan:
    """The tasks, and where their results go."""

    items: list[Item]
    tasks: list[Task]
    store: Store
    absent: list[str]  # what cannot be run, and why

    def unfinished(self) -> list[Task]:
        """Tasks without a result."""
        return unfinished(self.tasks, self.store)

    def run(self, n_jobs: int, on_progress: OnProgress | None = None) -> None:
        """Run the tasks without a result."""
        run_tasks(self.tasks, self.store, n_jobs, on_progress)

    def report(self) -> Report:
        """The report of all results so far."""
        return make_report(self.items, Results.of(self.tasks, self.store, self.absent))


def make_plan(
    items: Sequence[str],
    out: Path,
    *,
    datasets: Sequence[str] = (),
    seconds: float | None = None,
    is_quick: bool = False,
    can_download: bool = True,
    n_seeds: int = 1,
) -> Plan:
    """Find the tasks of some items, all by default, on some datasets.

    By default these are the twenty benchmarks, or four small tables with quick settings: fewer
    tables, steps and repeats. `seconds` replaces the time limit that every experiment has for its
    searches on one dataset; results and report go to the folder `out`. With several seeds,
    experiments on our best models are run with each of them.
    """
    chosen = find_items(items)
    experiments = [
        EXPERIMENTS[name]
        for name in dict.fromkeys(name for item in chosen for name in item.experiments)
    ]
    absent: list[str] = []
    needs_tables = any(experiment.on == "tables" for experiment in experiments)
    named = list(dict.fromkeys(canonical(name) for name in datasets))
    tables = _find_tables(named, is_quick, can_download, absent) if needs_tables else []
    tasks = [
        Task(experiment, name, settings_of(experiment, seconds, is_quick, seed))
        for experiment in experiments
        for name in _names_for(experiment, tables, is_quick, absent)
        for seed in range(n_seeds if experiment.is_seeded else 1)
    ]
    return Plan(chosen, tasks, Store(out / "results"), absent)


def _names_for(
    experiment: Experiment, tables: list[str], is_quick: bool, absent: list[str]
) -> list[str]:
    if experiment.on == "nothing":
        return [NO_TABLE]
    if experiment.on == "tables":
        return tables
    from reproduce.experiments.expectations import missing_files

    found = []
    for name in QUICK_REGRESSION_SETS if is_quick else REGRESSION_SETS:
        missing = missing_files(name)
        if missing:
            absent.append(
                f"{experiment.name} on {name}: STRUDEL_DATA must name a folder with "
                f"{' and '.join(missing)}, the regression sets of Khosravi et al. (2019)."
            )
        else:
            found.append(name)
    return found


def _find_tables(
    named: list[str], is_quick: bool, can_download: bool, absent: list[str]
) -> list[str]:
    """The tables that can be loaded; one that is named and missing is an error."""
    if named:
        for name in named:
            if not is_here(name) and can_download:
                load_table(name)
        return named
    found, is_offline = [], not can_download
    for name in QUICK if is_quick else paper_datasets():
        if not is_here(name) and not is_offline:
            try:
                load_table(name)
            except ConnectionError:
                is_offline = True  # the next download would fail as well
        if is_here(name):
            found.append(name)
    if is_quick:
        return found if len(found) == len(QUICK) else list(QUICK_OFFLINE)
    missing = [name for name in paper_datasets() if name not in found]
    if missing:
        absent.append(
            f"{', '.join(missing)}: not on this machine, and they could not be downloaded. Set "
            "STRUDEL_DATA to a folder that holds debd/."
        )
    return found
