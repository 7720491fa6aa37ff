"""Results on disk: one json per experiment and dataset, complete or absent.

In:  a folder.
Out: outcomes that were written before, by this run or an earlier one; `Results`, those of some
     tasks together.

A json is complete or not there, so a run may be killed at any moment.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from reproduce.tasks import Settings, Task
from strudel._files import complete_file

MEANS = ("valid", "test", "seconds", "cpu_seconds")  # what several seeds are averaged over
FORMAT = 1  # of the json; raise it when an experiment means something else by its numbers


@dataclass(frozen=True)
class Outcome:
    """The result of one experiment on one dataset, or why it failed."""

    experiment: str
    dataset: str
    settings: dict[str, Any]
    result: dict[str, Any] | None
    failure: str | None = None
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_mib: float | None = None
    finished: str = ""  # date and time, UTC
    machine: dict[str, Any] | None = None


class Store:
    """The folder of results."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, experiment: str, dataset: str, seed: int = 0) -> Path:
        """The file of an outcome."""
        name = f"{dataset}-seed-{seed}" if seed else dataset
        return self.folder / experiment / f"{name}.json"

    def read(self, experiment: str, dataset: str, settings: Settings) -> Outcome | None:
        """The outcome, if there is one with these settings that can be read."""
        path = self.path(experiment, dataset, settings.seed)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content.pop("format") != FORMAT:
                return None
            outcome = Outcome(**content)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None  # missing, or not one of ours: it is computed again
        return outcome if outcome.settings == settings.as_dict() else None

    def write(self, outcome: Outcome) -> None:
        """Store an outcome, completely or not at all."""
        content = {"format": FORMAT, **outcome.__dict__}
        text = json.dumps(as_json(content), indent=1, allow_nan=False)
        path = self.path(outcome.experiment, outcome.dataset, outcome.settings.get("seed", 0))
        write_whole(path, text + "\n")

    def remove_unfinished(self) -> None:
        """Remove files that a killed run has left half written."""
        for path in self.folder.glob("*/.*.tmp"):
            path.unlink(missing_ok=True)


class Results:
    """The outcomes that a report is about."""

    def __init__(self, outcomes: Iterable[Outcome], absent: Sequence[str] = ()) -> None:
        self.outcomes = list(outcomes)
        self.absent = list(absent)  # what could not be run, and why

    @classmethod
    def of(cls, tasks: Sequence[Task], store: Store, absent: Sequence[str] = ()) -> Results:
        """Read the outcomes of tasks, as far as there are any."""
        found = (store.read(task.experiment.name, task.dataset, task.settings) for task in tasks)
        return cls([outcome for outcome in found if outcome is not None], absent)

    def by_dataset(self, experiment: str) -> dict[str, Any]:
        """The results of an experiment with its first seed, in the order of the datasets."""
        return {name: found[0] for name, found in self.all_by_dataset(experiment).items()}

    def all_by_dataset(self, experiment: str) -> dict[str, list[Any]]:
        """The results of an experiment with all seeds."""
        found: dict[str, list[Any]] = {}
        for outcome in self.outcomes:
            if outcome.experiment == experiment and outcome.result is not None:
                found.setdefault(outcome.dataset, []).append(outcome.result)
        return found

    def means(self, experiment: str) -> dict[str, Any]:
        """Of every dataset, the result of the first seed, with likelihoods and seconds of all.

        These are means; `spread` is the standard deviation of the test likelihoods, None for one
        seed.
        """
        found = {}
        for name, results in self.all_by_dataset(experiment).items():
            tests = [one["test"] for one in results]
            means = {key: fmean(one[key] for one in results) for key in MEANS if key in results[0]}
            spread = stdev(tests) if len(tests) > 1 else None
            found[name] = results[0] | means | {"n_seeds": len(tests), "spread": spread}
        return found


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file and the folders it lies in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with complete_file(path) as unfinished:
        unfinished.write_bytes(content.encode() if isinstance(content, str) else content)


def as_json(value: Any) -> Any:
    """NumPy numbers as plain ones; None for those that json does not have."""
    if isinstance(value, Mapping):
        return {str(name): as_json(item) for name, item in value.items()}
    if hasattr(value, "tolist"):
        return as_json(value.tolist())
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
