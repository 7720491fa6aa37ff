"""Q1 and Q2: how a circuit gets better with splits, by its start and by what chooses the splits.

In:  a table.
Out: per choice, the test bits per dimension, edges and seconds after every tenth split.

As in the paper there are up to 1,000 splits and no early stopping. The independent start is that of
LearnPSDD: all variables independent, on a vtree that pairs the sets with most mutual information.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from strudel.data.bits import pack_columns
from strudel.learning.options import SearchOptions
from strudel.learning.structure import grow
from strudel.reproduce.experiments.measures import bits_per_dimension
from strudel.reproduce.settings import Settings
from strudel.reproduce.tables import WARM, load_table

CHOICES: dict[str, dict[str, Any]] = {
    "eFLOW-vMI": {},
    "eFLOW-vRAND": {"variable_score": "random"},
    "eRAND-vMI": {"edge_score": "random"},
    "eRAND-vRAND": {"edge_score": "random", "variable_score": "random"},
    "independent start": {"init": "independent", "vtree": "bottom_up"},
}
N_SPLITS, N_QUICK_SPLITS, EVERY = 1000, 300, 10
MOST_EDGES = 5_000_000  # random variables may copy very much; so far none came near


def warm_up() -> None:
    """Load or compile every kernel."""
    for name in WARM:
        run(name, Settings(seconds=60.0, is_quick=True))


def run(name: str, settings: Settings) -> dict[str, Any]:
    """Grow one circuit per choice."""
    data = load_table(name)
    n_splits = N_QUICK_SPLITS if settings.is_quick else N_SPLITS
    # The rows that score a circuit never choose a split, so the test rows can stand there.
    train, test = pack_columns(data.train), pack_columns(data.test)
    runs = {}
    for label, options in CHOICES.items():
        search = SearchOptions(
            max_splits=n_splits,
            patience=n_splits + 1,
            max_edges=MOST_EDGES,
            max_seconds=settings.seconds / len(CHOICES),
            **options,
        )
        cpu = time.process_time()
        history = grow(train, test, search=search, rng=settings.seed).history
        # A search that ends early, because nothing is left to split, stays where it is.
        shown = np.minimum(np.arange(0, n_splits + 1, EVERY), len(history) - 1)
        runs[label] = {
            "bits": bits_per_dimension(history.valid[shown], data.n_vars),
            "edges": history.n_edges[shown],
            "seconds": history.seconds[shown],
            "cpu_seconds": time.process_time() - cpu,
            "n_splits": len(history) - 1,
            "stopped_because": history.stopped_because,
        }
    return {"n_vars": data.n_vars, "splits": np.arange(0, n_splits + 1, EVERY), "runs": runs}
