"""The experiments, how long each may take, and tasks: one experiment on one dataset.

In:  an experiment, a dataset and `Settings`.
Out: `Task`, with an estimate of its seconds and memory.

Limits are chosen so that everything, on all twenty datasets, takes less than four hours on two
cores: see the estimates in `facts/costs.csv`, for one core.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from reproduce.benchmark_tables import WARM
from reproduce.facts import cost

NO_TABLE = "example"  # the dataset of an experiment that has none
START_SECONDS = 6.0  # to start a process and to load what is compiled
QUICK_SECONDS = 5.0  # estimate for an experiment without a known cost


@dataclass(frozen=True)
class Settings:
    """How much an experiment may do. Results of other settings are not mixed."""

    seconds: float  # time limit of all its searches on one dataset together
    is_quick: bool = False  # fewer steps, sizes and repeats
    seed: int = 0

    def as_dict(self) -> dict[str, Any]:
        """The settings as a json holds them."""
        return asdict(self)


@dataclass(frozen=True)
class Experiment:
    """What is run, on what data, and for how long."""

    name: str  # also the module in experiments/
    about: str
    seconds: float  # time limit of its searches on one dataset
    quick_seconds: float
    mib: float = 1500.0  # the most memory that it was seen to need, with room to spare
    warm_seconds: float | None = None  # limit of a first run on small tables, which compiles
    is_seeded: bool = False  # whether it is run with every seed that is asked for
    on: str = "tables"  # or "regression sets", or "nothing"

    @property
    def module(self) -> ModuleType:
        """Its module."""
        return import_module(f"reproduce.experiments.{self.name}")

    def warm_up(self) -> None:
        """Load or compile every kernel, in the way of the module if it has one."""
        if self.warm_seconds is not None:
            for name in WARM:
                self.module.run(name, Settings(self.warm_seconds, is_quick=True))
        elif hasattr(self.module, "warm_up"):
            self.module.warm_up()


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment("figure_1", "the example circuit", 60.0, 60.0, 400.0, on="nothing"),
        Experiment("growth", "starts and heuristics, split by split", 300.0, 20.0, 3000.0, 60.0),
        Experiment("single", "Strudel and LearnPSDD until they stop", 600.0, 12.0, 1500.0, 20.0),
        Experiment("ensembles", "EM and bagged EM on one structure", 300.0, 10.0, 2500.0, 5.0),
        Experiment("flows", "shared flows against classical evaluation", 20.0, 3.0, 2500.0, 0.1),
        Experiment(
            "expectations", "predictions from incomplete rows", 900.0, 60.0, on="regression sets"
        ),
        Experiment("accurate", "our best single circuit", 240.0, 12.0, 3000.0, is_seeded=True),
        Experiment("mixture", "our best mixture", 300.0, 10.0, 3000.0, is_seeded=True),
        Experiment("peers", "baselines and other packages", 60.0, 30.0),
    )
}


@dataclass(frozen=True)
class Task:
    """One experiment on one dataset."""

    experiment: Experiment
    dataset: str
    settings: Settings

    @property
    def estimate(self) -> float:
        """The seconds it will probably take."""
        limit = self.settings.seconds
        if self.settings.is_quick:
            return START_SECONDS + min(limit, QUICK_SECONDS)
        known = cost(self.experiment.name, self.dataset)
        return START_SECONDS + (limit / 2 if known is None else min(known, 2 * limit))

    @property
    def most_seconds(self) -> float:
        """The seconds after which something must have gone wrong."""
        return 900.0 + 10.0 * self.settings.seconds


def settings_of(
    experiment: Experiment, seconds: float | None, is_quick: bool, seed: int = 0
) -> Settings:
    """The settings of one experiment, with its own time limit by default."""
    own = experiment.quick_seconds if is_quick else experiment.seconds
    return Settings(own if seconds is None else seconds, is_quick, seed)
