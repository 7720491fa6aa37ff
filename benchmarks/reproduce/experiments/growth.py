"""Q1 and Q2: how a circuit gets better with splits, by its start and by what chooses the splits.

In:  a table.
Out: per choice, the test bits per dimension, edges and seconds after every tenth split.

There are up to 1,000 splits, as in the paper. It does not say whether these searches stop early;
its released program does by default, after 100 splits without a better validation likelihood. So
both are kept: the curve of all splits, and that of a search that stops early. The independent
start is that of LearnPSDD: all variables independent, on a vtree that pairs sets with most mutual
information.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from reproduce.benchmark_tables import load_table
from reproduce.experiments.measures import (
    bits_per_dimension,
    likelihoods_on_the_way,
    with_early_stopping,
)
from reproduce.tasks import Settings
from strudel._types import AnyArray, FloatArray
from strudel.data.bits import pack_columns
from strudel.data.datasets import Dataset
from strudel.learning.options import Greedy, SearchOptions
from strudel.learning.progress import History
from strudel.learning.search.learn_structure import grow

CHOICES: dict[str, dict[str, Any]] = {
    "eFLOW-vMI": {},
    "eFLOW-vRAND": {"search": Greedy(variable_score="random")},
    "eRAND-vMI": {"search": Greedy(edge_score="random")},
    "eRAND-vRAND": {"search": Greedy(edge_score="random", variable_score="random")},
    "independent start": {"init": "independent", "vtree": "bottom_up"},
}
N_SPLITS, N_QUICK_SPLITS, EVERY = 1000, 300, 10
PATIENCE = 100
MOST_EDGES = 2_000_000  # dna, with 1,600 rows and 180 variables, would go beyond


def run(name: str, settings: Settings) -> dict[str, Any]:
    """Grow one circuit per choice."""
    data = load_table(name)
    n_splits = N_QUICK_SPLITS if settings.is_quick else N_SPLITS
    shown = np.arange(0, n_splits + 1, EVERY)
    runs = {label: _grow(data, options, n_splits, settings) for label, options in CHOICES.items()}
    return {
        "n_vars": data.n_vars,
        "splits": shown,
        "runs": {label: _curves(data, shown, *found) for label, found in runs.items()},
    }


class _Found(NamedTuple):
    """One run, split by split."""

    history: History
    test: FloatArray
    cpu_seconds: float


def _grow(data: Dataset, options: dict[str, Any], n_splits: int, settings: Settings) -> _Found:
    search = SearchOptions(
        max_splits=n_splits,
        patience=n_splits + 1,
        max_edges=MOST_EDGES,
        max_seconds=settings.seconds / len(CHOICES),
        **options,
    )
    cpu = time.process_time()
    grown = grow(data.train, data.valid, search=search, rng=settings.seed)
    cpu = time.process_time() - cpu
    return _Found(grown.history, likelihoods_on_the_way(grown, pack_columns(data.test)), cpu)


def _curves(
    data: Dataset, splits: AnyArray, history: History, test: FloatArray, cpu_seconds: float
) -> dict[str, Any]:
    """What is shown of a run. A run that ends early, by a limit, keeps its last values."""
    kept, last = with_early_stopping(history.valid, test, PATIENCE)
    shown = np.minimum(splits, len(history) - 1)
    return {
        "bits": bits_per_dimension(test[shown], data.n_vars),
        "kept_bits": bits_per_dimension(kept[shown], data.n_vars),
        "edges": history.n_edges[shown],
        "seconds": history.seconds[shown],
        "cpu_seconds": cpu_seconds,
        "n_splits": len(history) - 1,
        "stopped_after": last,
        "stopped_because": history.stopped_because,
    }
