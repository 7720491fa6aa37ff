"""Q3: single circuits, by Strudel and by our LearnPSDD.

In:  a table.
Out: of both searches the likelihoods, size, seconds and the curve of test bits per dimension; and
     a Wilcoxon signed-rank test on the likelihoods of the test rows.

Both stop after 100 operations without a better validation likelihood, as in the paper.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import wilcoxon

from reproduce.benchmark_tables import load_table
from reproduce.experiments.measures import (
    bits_per_dimension,
    likelihoods_on_the_way,
    stopwatch,
)
from reproduce.tasks import Settings
from strudel._types import FloatArray
from strudel.data.bits import pack_columns
from strudel.data.datasets import Dataset
from strudel.learning.bits.fold import folded
from strudel.learning.options import SearchOptions
from strudel.learning.search.learn_structure import Grown, grow
from strudel.queries.likelihood import log_likelihood

N_POINTS = 120  # of a curve
SEARCHES = ("greedy", "learnpsdd")


def run(name: str, settings: Settings) -> dict[str, Any]:
    """Learn both circuits and compare them."""
    data = load_table(name)
    train, valid = pack_columns(data.train), pack_columns(data.valid)
    results: dict[str, Any] = {"n_vars": data.n_vars}
    log_p = {}
    for kind in SEARCHES:
        search = SearchOptions(search=kind, max_seconds=settings.seconds)
        with stopwatch() as watch:
            grown = grow(train, valid, search=search, rng=settings.seed)
            circuit, history = grown.best()
        log_p[kind] = log_likelihood(folded(circuit), data.test)
        n_operations = len(history) - 1
        results[kind] = {
            "train": history.train[history.best],
            "valid": history.valid[history.best],
            "test": log_p[kind].mean(),
            "edges": circuit.n_edges,
            "nodes": circuit.n_nodes,
            "parameters": circuit.n_parameters,
            "iterations": n_operations,
            "best_iteration": history.best,
            "seconds": watch.seconds,
            "cpu_seconds": watch.cpu_seconds,
            "seconds_per_iteration": watch.seconds / max(n_operations, 1),
            "stopped_because": history.stopped_because,
            "curve": _curve(grown, data),
        }
    results["wilcoxon"] = compare_rows(log_p["greedy"], log_p["learnpsdd"])
    return results


def _curve(grown: Grown, data: Dataset) -> dict[str, Any]:
    """Test bits per dimension and seconds since the start, after some of the operations."""
    test = likelihoods_on_the_way(grown, pack_columns(data.test))
    shown = np.unique(np.linspace(0, len(test) - 1, N_POINTS).round().astype(int))
    return {
        "iterations": shown,
        "bits": bits_per_dimension(test[shown], data.n_vars),
        "seconds": grown.history.seconds[shown],
    }


def compare_rows(ours: FloatArray, theirs: FloatArray) -> dict[str, Any]:
    """Wilcoxon's signed-rank test on paired log-likelihoods."""
    difference = ours - theirs
    counted = difference[difference != 0.0]
    p = float(wilcoxon(counted, method="approx").pvalue) if len(counted) >= 10 else 1.0
    return {
        "p": p,
        "mean_difference": difference.mean(),
        "median_difference": np.median(difference),
        "n_rows": len(difference),
    }
