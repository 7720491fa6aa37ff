"""Q5: mixtures evaluated by shared flows, and classically, for a growing number of components.

In:  a table.
Out: seconds of both for all test rows, by number of components.

The structure is the one that `Strudel` grows with its defaults, and the components' parameters are
drawn around its own. All test rows are used as they are: neither side merges equal rows.
Shared flows are one call of `log_likelihood`, with checking and packing the rows and finding their
flows; the median of several calls. The classical evaluation runs on as many whole blocks of rows as
take its share of the time, or on all rows, and its time is scaled to all rows in proportion. All
must agree to 1e-9 on the rows they share. One thread each, and seconds of the processor: on a busy
machine short calls wait much longer than they run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import median
from time import get_clock_info, perf_counter, process_time
from typing import Any

import numpy as np

from reproduce.benchmark_tables import load_table
from reproduce.experiments.classical import FORMS, Classical
from reproduce.tasks import Settings
from strudel._numba import n_threads
from strudel._types import ByteArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.reweigh import normalized
from strudel.learning.search.learn_structure import learn_structure
from strudel.queries.likelihood import log_likelihood

COMPONENTS, QUICK_COMPONENTS = (1, 2, 5, 10, 20, 50, 100), (1, 10, 100)
SPREAD = 0.3  # standard deviation of the components' log-parameters, before they are normalised
N_CALLS = 9  # of shared flows; the median counts
TOLERANCE = 1e-9
# Some systems count the processor's time in steps that are longer than a call.
now = process_time if get_clock_info("process_time").resolution < 1e-5 else perf_counter


def run(name: str, settings: Settings) -> dict[str, Any]:
    """Time all numbers of components on one table."""
    data = load_table(name)
    circuit, _ = learn_structure(data.train, data.valid, rng=settings.seed)
    rows = np.ascontiguousarray(data.test, dtype=np.uint8)
    components = QUICK_COMPONENTS if settings.is_quick else COMPONENTS
    share = settings.seconds / (len(components) * len(FORMS))
    largest = random_mixture(circuit, max(components), settings.seed)
    results = []
    for k in components:
        mixture = largest.components(np.arange(k))
        expected = log_likelihood(mixture, rows)
        shared = median(_timed(log_likelihood, mixture, rows)[0] for _ in range(N_CALLS))
        result: dict[str, Any] = {"components": k, "shared_seconds": shared}
        for form in FORMS:
            seconds, n_done, error = _time_classical(
                Classical(mixture, form), rows, expected, share
            )
            result |= {
                f"{form}_seconds": seconds,
                f"{form}_rows": n_done,
                f"{form}_ratio": seconds / shared,
                f"{form}_difference": error,
            }
        results.append(result)
    return {"edges": circuit.size, "rows": len(rows), "times": results}


def random_mixture(circuit: Circuit, k: int, seed: int) -> Circuit:
    """Components with parameters around those of the circuit."""
    rng = np.random.default_rng(seed)

    def noisy(logs: FloatArray) -> FloatArray:
        return np.asarray(logs + SPREAD * rng.standard_normal((len(logs), k)))

    weights = np.log(rng.dirichlet(np.full(k, 10.0)))
    made = replace(
        circuit,
        edge_log_theta=noisy(circuit.edge_log_theta),
        leaf_log_p=noisy(circuit.leaf_log_p),
        log_weight=weights,
    )
    found, _ = normalized(made)
    assert found is not None
    return replace(found, log_weight=weights)


def _time_classical(
    evaluate: Classical, rows: ByteArray, expected: FloatArray, seconds: float
) -> tuple[float, int, float]:
    """Seconds for all rows, rows that were done, and the largest difference from `expected`."""
    unit = evaluate.block_rows * n_threads()
    n_done = min(unit, len(rows))
    while True:
        taken, found = _timed(evaluate, rows[:n_done])
        if n_done == len(rows) or taken >= 0.8 * seconds:
            break
        n_units = max(1, round(min(seconds / taken, len(rows) / n_done) * n_done / unit))
        n_next = min(n_units * unit, len(rows))
        if n_next <= n_done:
            break
        n_done = n_next
    if n_done == len(rows) and taken < 0.2 * seconds:  # short: the median of several
        taken = median([taken, *(_timed(evaluate, rows)[0] for _ in range(4))])
    error = float(np.max(np.abs(found - expected[:n_done])))
    if not error <= TOLERANCE:
        raise AssertionError(f"{evaluate.form} differs from shared flows by {error}")
    return taken * len(rows) / n_done, n_done, error


def _timed(call: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """Seconds of the processor that a call takes, and its answer."""
    start = now()
    answer = call(*arguments)
    return now() - start, answer
