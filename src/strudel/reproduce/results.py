"""All outcomes that a report is about.

In:  a store and tasks.
Out: results by experiment and dataset, and what is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from strudel.reproduce.plan import Task
from strudel.reproduce.store import Outcome, Store


class Results:
    """What is known."""

    def __init__(self, outcomes: Iterable[Outcome], absent: Sequence[str] = ()) -> None:
        self.outcomes = list(outcomes)
        self.absent = list(absent)  # what could not even be tried, in words

    @classmethod
    def of(cls, tasks: Sequence[Task], store: Store, absent: Sequence[str] = ()) -> Results:
        """Read the outcomes of tasks, as far as there are any."""
        found = (store.read(task.experiment.name, task.dataset, task.settings) for task in tasks)
        return cls([outcome for outcome in found if outcome is not None], absent)

    def by_dataset(self, experiment: str) -> dict[str, Any]:
        """The results of an experiment, in the order of the datasets."""
        return {
            outcome.dataset: outcome.result
            for outcome in self.outcomes
            if outcome.experiment == experiment and outcome.result is not None
        }

    @property
    def failures(self) -> list[Outcome]:
        """What was tried and gave nothing."""
        return [outcome for outcome in self.outcomes if outcome.failure is not None]
