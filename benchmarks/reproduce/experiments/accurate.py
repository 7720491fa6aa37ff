"""Our best single circuit: the accurate preset within its time.

In:  a table.
Out: likelihoods, size and seconds.
"""

from __future__ import annotations

from typing import Any

from reproduce.benchmark_tables import WARM, load_table
from reproduce.experiments.measures import stopwatch
from reproduce.tasks import Settings
from strudel.learning.options import Race
from strudel.models.strudel import Strudel


def warm_up() -> None:
    """Load or compile every kernel: all parts of the search, however long the compiler takes."""
    for name in WARM:
        data = load_table(name)
        model = Strudel(
            n_components=1,
            preset="accurate",
            search=Race(sampled_rows=300),
            max_splits=3,
            max_seconds=600.0,
        )
        model.set_params(random_state=0).fit(data.train[:300], X_valid=data.valid)


def run(name: str, settings: Settings) -> dict[str, Any]:
    """Learn one circuit."""
    data = load_table(name)
    model = Strudel(
        n_components=1, preset="accurate", max_seconds=settings.seconds, random_state=settings.seed
    )
    with stopwatch() as watch:
        model.fit(data.train, X_valid=data.valid)
    history = model.history_
    return {
        "valid": history.valid[history.best],
        "test": model.score(data.test),
        "edges": model.circuit_.size,
        "parameters": model.circuit_.n_parameters,
        "iterations": history.best,
        "seconds": watch.seconds,
        "cpu_seconds": watch.cpu_seconds,
        "stopped_because": history.stopped_because,
    }
