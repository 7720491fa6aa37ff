"""What others have published: csv files in `facts/`, each number with its source.

In:  nothing.
Out: rows by dataset, under the datasets' file names.

- `paper.csv`: all tables of the paper (Dang, Vergari, Van den Broeck 2020).
- `records.csv`: the best published test log-likelihood by dataset and class of models. Numbers
  chosen on test rows, without an author, or more than six nats from all others are left out.
  Numbers that were not looked up in their source have `is_checked` "no".
- `seconds.csv`: learning times.
- `expectations.csv`: the curves of the paper's figure 4.
- `differences.csv`: why our numbers differ, by item or claim.
- `by_design.csv`: what we do differently from the released programs.
- `sections.toml`: what our report says about each item, before its tables and pictures.
- `costs.csv`: seconds that our experiments take on one core, measured or guessed, for the
  estimate of the time left.
"""

from __future__ import annotations

import csv
import tomllib
from functools import cache
from importlib import resources

CLASSES = ("deterministic structured", "structured", "tractable", "any")


@cache
def read_facts(name: str) -> tuple[dict[str, str], ...]:
    """The rows of one file."""
    path = resources.files("reproduce").joinpath("facts", f"{name}.csv")
    with path.open(encoding="utf-8") as lines:
        return tuple(csv.DictReader(lines))


@cache
def section_text(item: str) -> str:
    """What the report says about an item before its tables and pictures."""
    path = resources.files("reproduce").joinpath("facts", "sections.toml")
    return str(tomllib.loads(path.read_text(encoding="utf-8"))[item]["text"])


def find_fact(name: str, **wanted: str) -> dict[str, str] | None:
    """The first row of a file with these values."""
    rows = read_facts(name)
    return next((row for row in rows if all(row[key] == wanted[key] for key in wanted)), None)


def paper(dataset: str) -> dict[str, float]:
    """What the paper's tables say about a dataset; empty for others than its twenty."""
    row = find_fact("paper", dataset=dataset) or {}
    return {name: float(row[name]) for name in row if name not in ("dataset", "paper_name")}


def paper_datasets() -> list[str]:
    """The twenty datasets, in the paper's order."""
    return [row["dataset"] for row in read_facts("paper")]


def record(dataset: str, model_class: str, *, is_checked: bool = True) -> dict[str, str] | None:
    """The best published likelihood of a class, among those looked up or among all."""
    rows = [
        row
        for row in read_facts("records")
        if (row["dataset"], row["model_class"]) == (dataset, model_class)
        and (row["is_checked"] == "yes" or not is_checked)
    ]
    return max(rows, key=lambda row: float(row["test"]), default=None)


def why_of(name: str) -> dict[str, str]:
    """Why an item or a claim differs from the paper, by dataset; "*" stands for all."""
    return {row["dataset"]: row["why"] for row in read_facts("differences") if row["item"] == name}


def published_error(dataset: str, method: str, missing: int) -> float | None:
    """The paper's error on a regression set with `missing` per cent of the bits removed."""
    row = find_fact("expectations", dataset=dataset, method=method, missing=str(missing))
    return None if row is None else float(row["rmse"])


def cost(experiment: str, dataset: str) -> float | None:
    """Seconds that an experiment took on one core."""
    row = find_fact("costs", experiment=experiment, dataset=dataset)
    return None if row is None else float(row["seconds"])
