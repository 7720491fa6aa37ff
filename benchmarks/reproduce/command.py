"""`python benchmarks/reproduce`: the paper's tables and figures, and ours beside them."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from strudel.cli.console import InputError, JsonOption, note, print_json, say, show_table

if TYPE_CHECKING:
    from reproduce.plan import Plan
    from reproduce.report import Report
    from reproduce.runner import Progress as RunProgress

FULL, QUICK = Path("strudel-reproduction"), Path("strudel-reproduction-quick")


def reproduce(
    items: Annotated[
        list[str] | None,
        typer.Argument(metavar="ITEM", help="Tables and figures, see --list; all by default."),
    ] = None,
    show_list: Annotated[bool, typer.Option("--list", help="List the items and stop.")] = False,
    datasets: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME ...",
            help="Names of datasets, also separated by commas; the twenty benchmarks by default.",
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds-per-dataset",
            help="Time limit of the searches of an experiment on one dataset; each has its own.",
        ),
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(min=1, help="Run our best models with so many seeds: mean and spread."),
    ] = 1,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for results and report; strudel-reproduction by default."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="All items on four small datasets, in five minutes.")
    ] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Parallel processes; one per core by default.")
    ] = None,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Run nothing; report what was computed before.")
    ] = False,
    docs: Annotated[
        Path | None,
        typer.Option(help="Also write the Markdown page here, with pictures and csv beside it."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Reproduce the paper's tables and figures, with ours beside them.

    Every experiment on every dataset writes one json file; a run that was stopped continues where
    it was. The results are report.html, with all pictures inside, and report.md, with csv files of
    every number. All items on all twenty datasets take less than four hours on two cores.
    """
    if show_list:
        _list_items(as_json)
        return
    from reproduce.plan import make_plan
    from reproduce.report import write_markdown, write_report

    if seconds is not None and not 0 < seconds < float("inf"):
        raise InputError(f"--seconds-per-dataset must be above 0, but is {seconds:g}.")
    folder = out or (QUICK if quick else FULL)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{str(folder)!r} is a file; --out names a folder.")
    if docs is not None and (docs.suffix != ".md" or not docs.parent.is_dir()):
        raise InputError(f"--docs names a .md file in a folder that exists, but is {str(docs)!r}.")
    wanted, tables = list(items or []), list(datasets or [])
    if tables:  # --datasets nltcs dna: what has no colon belongs there also
        tables += [name for name in wanted if ":" not in name]
        wanted = [name for name in wanted if ":" in name]
    names = [name for part in tables for name in part.replace(",", " ").split()]
    plan = make_plan(
        wanted,
        folder,
        datasets=names,
        seconds=seconds,
        is_quick=quick,
        can_download=not report_only,
        n_seeds=seeds,
    )
    if not plan.tasks:
        raise InputError(f"nothing can be run. {' '.join(plan.absent)}")
    folder.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    if not report_only:
        _run(plan, jobs or os.cpu_count() or 1, is_quiet=as_json)
    report = plan.report()
    page = write_report(report, folder)
    if docs is not None:
        write_markdown(report, docs, docs.parent / docs.stem)
    if as_json:
        print_json(_summary(report, page, time.perf_counter() - started))
    else:
        _show(report, page)


def _list_items(as_json: bool) -> None:
    from reproduce.items import ITEMS

    if as_json:
        print_json({"items": {item.name: item.title for item in ITEMS.values()}})
    else:
        show_table([{"item": one.name, "what it shows": one.title} for one in ITEMS.values()])


def _run(plan: Plan, n_jobs: int, is_quiet: bool) -> None:
    left = plan.unfinished()
    n_before = len(plan.tasks) - len(left)
    if not is_quiet:
        for line in plan.absent:
            note(f"missing: {line}")
        estimate = max(
            sum(task.estimate for task in left) / n_jobs,
            max((task.estimate for task in left), default=0.0),
        )
        done = f", {n_before} were done before" if n_before else ""
        note(
            f"{len(left)} tasks to do{done}; about {as_duration(estimate)} with {n_jobs} processes"
        )
    with ReproduceProgress(is_quiet) as progress:
        plan.run(n_jobs, progress.update)


def _show(report: Report, page: Path) -> None:
    if report.verdicts:
        lines = (
            {"claim": f"{one.claim.name}  {one.claim.text}", "": one.status, "figures": one.figures}
            for one in report.verdicts
        )
        show_table([*lines])
        say()
    for line in report.missing:
        note(f"missing: {line}")
    say(
        f"{report.count('holds')} claims hold, {report.count('fails')} fail, "
        f"{report.count('not enough results')} do not have enough results."
    )
    say(f"Report: {page}")


def _summary(report: Report, page: Path, seconds: float) -> dict[str, Any]:
    return {
        "report": page,
        "seconds": seconds,
        "claims": [one.facts() for one in report.verdicts],
        "missing": report.missing,
        "facts": report.facts,
    }


class ReproduceProgress:
    """A live line on a terminal; elsewhere one line per task that has ended."""

    def __init__(self, is_quiet: bool = False) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        self.is_quiet = is_quiet
        self.is_live = not is_quiet and sys.stderr.isatty()
        counts = TextColumn("{task.completed:.0f}/{task.total:.0f}")
        news = TextColumn("{task.description}", markup=False)
        columns = (SpinnerColumn(), BarColumn(bar_width=24), counts, news)
        console = Console(stderr=True)
        self._line = Progress(*columns, console=console, transient=True, disable=not self.is_live)
        self._task = self._line.add_task("starting", total=1)

    def __enter__(self) -> Self:
        self._line.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._line.stop()

    def update(self, now: RunProgress) -> None:
        """Show how far the run is; say what has ended."""
        if now.last is not None and not self.is_quiet:
            last = now.last
            outcome = f"failed: {last.failure}" if last.failure else f"{last.seconds:.0f} s"
            line = f"{last.experiment} on {last.dataset}: {outcome}"
            if self.is_live:
                self._line.console.print(line, markup=False, highlight=False)
            else:
                note(f"{now.n_done}/{now.n_tasks}  {line}  {_left(now)}")
        running = ", ".join(f"{task.experiment.name} {task.dataset}" for task in now.running)
        news = f"{_left(now)}  {running}"
        self._line.update(self._task, completed=now.n_done, total=now.n_tasks, description=news)


def _left(now: RunProgress) -> str:
    return "" if now.n_done == now.n_tasks else f"{as_duration(now.seconds_left)} left"


def as_duration(seconds: float) -> str:
    """Seconds as people say them: 42 s, 10 min, 2 h 30 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"
