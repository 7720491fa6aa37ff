"""Results on disk: one json per experiment and dataset, complete or not there.

In:  a folder.
Out: outcomes that were written before, by this run or an earlier one.

A json is complete or not there, so a run may be killed at any moment.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strudel._files import complete_file
from strudel.reproduce.settings import Settings

FORMAT = 1  # of the json; raise it when an experiment means something else by its numbers


@dataclass(frozen=True)
class Outcome:
    """What one experiment gave on one dataset, or why it gave nothing."""

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

    def path(self, experiment: str, dataset: str) -> Path:
        """Where an outcome lies."""
        return self.folder / experiment / f"{dataset}.json"

    def read(self, experiment: str, dataset: str, settings: Settings) -> Outcome | None:
        """The outcome, if there is one with these settings that can be read."""
        path = self.path(experiment, dataset)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content.pop("format") != FORMAT:
                return None
            outcome = Outcome(**content)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None  # not there, or not one of ours: it is computed again
        return outcome if outcome.settings == settings.as_dict() else None

    def write(self, outcome: Outcome) -> None:
        """Keep an outcome, all of it or nothing."""
        content = {"format": FORMAT, **outcome.__dict__}
        text = json.dumps(as_json(content), indent=1, allow_nan=False)
        write_whole(self.path(outcome.experiment, outcome.dataset), text + "\n")

    def remove_unfinished(self) -> None:
        """Remove what a killed run has left half written."""
        for path in self.folder.glob("*/.*.tmp"):
            path.unlink(missing_ok=True)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file and the folders it lies in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with complete_file(path) as unfinished:
        unfinished.write_bytes(content.encode() if isinstance(content, str) else content)


def as_json(value: Any) -> Any:
    """Numbers of numpy as plain ones, and null for those that json does not know."""
    if isinstance(value, Mapping):
        return {str(name): as_json(item) for name, item in value.items()}
    if hasattr(value, "tolist"):
        return as_json(value.tolist())
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
