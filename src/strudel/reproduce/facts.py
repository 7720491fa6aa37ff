"""What others have published: csv files beside this one, each number with its source.

In:  nothing.
Out: rows by dataset, under the datasets' file names.

- `paper.csv`: all tables of the paper (Dang, Vergari, Van den Broeck 2020).
- `records.csv`: the best published test log-likelihood by dataset and class of models. Left out are
  numbers chosen on test rows, without an author, or more than six nats from all others. Numbers
  that nobody has looked up in their source have `is_checked` "no".
- `seconds.csv`: learning times.
- `expectations.csv`: the curves of the paper's figure 4.
- `differences.csv`: why our numbers differ, by item or claim.
- `by_design.csv`: what we do otherwise than the released programs.
- `costs.csv`: seconds that our experiments take on one core, measured or guessed, for the
  estimate of the time left.
"""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources

CLASSES = ("deterministic structured", "structured", "tractable", "any")


@cache
def read_facts(name: str) -> tuple[dict[str, str], ...]:
    """The rows of one file."""
    path = resources.files("strudel.reproduce").joinpath("facts", f"{name}.csv")
    with path.open(encoding="utf-8") as lines:
        return tuple(csv.DictReader(lines))


def paper(dataset: str) -> dict[str, float]:
    """What the paper's tables say about a dataset; nothing about others than its twenty."""
    for row in read_facts("paper"):
        if row["dataset"] == dataset:
            return {name: float(row[name]) for name in row if name not in ("dataset", "paper_name")}
    return {}


def paper_datasets() -> list[str]:
    """The twenty datasets, in the paper's order."""
    return [row["dataset"] for row in read_facts("paper")]


def record(dataset: str, model_class: str, *, is_checked: bool = True) -> dict[str, str] | None:
    """The best published likelihood of a class, of those that were looked up or of all."""
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
    """The paper's error of a regression set with so many per cent of the bits missing."""
    for row in read_facts("expectations"):
        if (row["dataset"], row["method"], int(row["missing"])) == (dataset, method, missing):
            return float(row["rmse"])
    return None


def cost(experiment: str, dataset: str) -> float | None:
    """Seconds that an experiment took on one core."""
    for row in read_facts("costs"):
        if (row["experiment"], row["dataset"]) == (experiment, dataset):
            return float(row["seconds"])
    return None
