"""The report: sections, verdicts and the machine; written as HTML, Markdown and csv.

In:  items and `Results`.
Out: files. The HTML holds its pictures; beside the Markdown lie pictures and csv files.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reproduce.claims import Verdict, check_claims
from reproduce.content import Section
from reproduce.facts import paper_datasets
from reproduce.items import Item
from reproduce.machine import describe_machine
from reproduce.store import Results, as_json, write_whole

TITLE = "Strudel: the paper's tables and figures, reproduced"


@dataclass(frozen=True)
class Report:
    """All contents of a report."""

    sections: list[Section]
    verdicts: list[Verdict]
    facts: dict[str, str]  # about the run
    missing: list[str]  # what has no result, and why
    warning: str = ""  # why the verdicts may not mean much

    def count(self, status: str) -> int:
        """How many claims have a status."""
        return sum(verdict.status == status for verdict in self.verdicts)


def make_report(items: Sequence[Item], results: Results) -> Report:
    """Write the sections of some items and check their claims."""
    names = [item.name for item in items]
    warning = _warning(results)
    verdicts = check_claims(results, names)
    if warning:  # the reasons explain complete runs
        verdicts = [replace(verdict, why="") for verdict in verdicts]
    return Report(
        [item.write(results) for item in items],
        verdicts,
        _facts(results),
        [
            *results.absent,
            *(
                f"{one.experiment} on {one.dataset}: {one.failure}"
                for one in results.outcomes
                if one.failure is not None
            ),
        ],
        warning,
    )


def _warning(results: Results) -> str:
    """A warning about the verdicts of a run without all datasets, or with quick settings."""
    tables = {one.dataset for one in results.outcomes if one.dataset in paper_datasets()}
    is_quick = any(one.settings.get("is_quick") for one in results.outcomes)
    if not is_quick and len(tables) == len(paper_datasets()):
        return ""
    limits = ", with quick settings" if is_quick else ""
    return (
        f"The claims are about {len(paper_datasets())} datasets. These results are about "
        f"{len(tables)} of them{limits}, so a claim that fails here may hold on all of them."
    )


def _facts(results: Results) -> dict[str, str]:
    """Machine, versions, commits, seeds and times of the results."""
    outcomes = [outcome for outcome in results.outcomes if outcome.result is not None]
    machine = next((one.machine for one in outcomes if one.machine), None) or describe_machine()
    commits = sorted({str(one.machine["commit"]) for one in outcomes if one.machine} - {""})
    finished = sorted(one.finished for one in outcomes if one.finished)
    seeds = sorted({str(one.settings["seed"]) for one in outcomes})
    peak = max((one.peak_mib or 0.0 for one in outcomes), default=0.0)
    limits: dict[str, set[str]] = {}
    for one in outcomes:
        limits.setdefault(one.experiment, set()).add(f"{one.settings['seconds']:g}")
    versions = ("python", "numpy", "scipy", "numba", "scikit-learn", "matplotlib", "strudel")
    return {
        "machine": f"{machine['processor']}, {machine['cores']} cores, "
        f"{machine['memory_gib']} GiB, {machine['system']}",
        "versions": ", ".join(f"{name} {machine[name]}" for name in versions),
        "commit": ", ".join(commits) or "unknown",
        "seeds": ", ".join(seeds),
        "computed": f"{finished[0]} to {finished[-1]}" if finished else "never",
        "results": f"{len(outcomes)} of {len(results.outcomes)}, "
        f"{sum(one.seconds for one in outcomes) / 3600:.2f} hours of one core, "
        f"at most {peak:,.0f} MiB",
        "seconds per dataset": ", ".join(
            f"{name} {'/'.join(sorted(seconds))}" for name, seconds in limits.items()
        ),
    }


def write_report(report: Report, folder: Path) -> Path:
    """Write `report.html`, `report.md`, pictures and csv files; returns the HTML."""
    from reproduce.html import to_html

    write_whole(folder / "report.html", to_html(report, TITLE))
    write_markdown(report, folder / "report.md", folder / "report")
    return folder / "report.html"


def write_markdown(report: Report, page: Path, folder: Path) -> None:
    """Write a page, and the files it links to into a folder."""
    from reproduce.markdown import to_markdown

    for section in report.sections:
        for picture in section.pictures:
            write_whole(folder / f"{picture.name}.png", picture.png)
        if section.numbers:
            write_whole(folder / csv_name(section), to_csv(section.numbers))
    write_whole(folder / "claims.csv", to_csv([one.facts() for one in report.verdicts]))
    write_whole(page, to_markdown(report, TITLE, folder.relative_to(page.parent).as_posix()))


def csv_name(section: Section) -> str:
    """The file with the numbers of a section."""
    return f"{section.item.replace(':', '-')}.csv"


def to_csv(rows: list[dict[str, Any]]) -> str:
    """Rows as csv; numbers with six digits."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        plain = as_json(row)
        writer.writerow(
            {name: f"{v:.6g}" if isinstance(v, float) else v for name, v in plain.items()}
        )
    return text.getvalue()
