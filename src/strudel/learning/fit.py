"""The one pipeline of a fit: prepare -> learn -> what the estimator keeps.

In:  `FitInput`, the options of a search or of a mixture, and a reporter of progress.
Out: `FittedCircuit` or `FittedMixture`.

A table in memory and a partitioned one go the same way: only `prepare` knows which it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from strudel._compiling import Clock, now
from strudel._numba import use_threads
from strudel.circuits.circuit import Circuit
from strudel.circuits.flows import flow_log_likelihood
from strudel.circuits.mixture import Mixture, as_mixture
from strudel.data.argument_checks import BYTES_OF_A_SPLIT, check_fits
from strudel.data.bits import BitMatrix
from strudel.data.lazy import is_lazy
from strudel.learning.best_so_far import finish_with
from strudel.learning.history import History, MixtureHistory
from strudel.learning.learn_circuit import SampledRows, learn_circuit
from strudel.learning.learn_mixture import learn_mixture
from strudel.learning.mixture_learner import MixtureLearner, MixtureTask
from strudel.learning.mixtures.choose import Trial
from strudel.learning.options import EM, Auto, SearchOptions
from strudel.learning.prepared_rows import (
    FitInput,
    LogLikelihoods,
    Prepared,
    check_fraction,
    prepare_rows,
)
from strudel.learning.progress import Reporter

# Seconds in which networks learn something, beside those in which torch is loaded. In 10 seconds
# plants has -11.72 with them and -11.68 by EM alone, in 20 seconds -11.65 and -11.68.
FOR_NETWORKS = 15.0


@dataclass(frozen=True, eq=False)
class FittedCircuit:
    """All that `fit` keeps of a circuit, together, so that a fit that fails changes nothing."""

    rows: Prepared
    circuit: Circuit
    history: History
    log_likelihoods: LogLikelihoods


@dataclass(frozen=True, eq=False)
class FittedMixture:
    """All that `fit` keeps of a mixture."""

    rows: Prepared
    mixture: Mixture
    history: MixtureHistory
    chosen: dict[str, Any]
    trials: list[Trial]
    log_likelihoods: LogLikelihoods


def prepare(given: FitInput, search: SearchOptions) -> Prepared:
    """Rows that can be learned from, in memory or partitioned."""
    check_fraction(given.estimator.validation_fraction)
    if not is_lazy(given.X):
        return prepare_rows(given, search)
    # Late: what a partitioned table needs is not loaded for any other.
    from strudel.learning.partitioned.prepared_partitions import prepare_partitions

    return prepare_partitions(given, search)


def fit_circuit(
    given: FitInput, search: SearchOptions, sampled_rows: SampledRows, report: Reporter
) -> FittedCircuit:
    """Learn one circuit."""
    is_asked_for = bool(search.search.sampled_rows)  # not only by the preset
    if is_asked_for and is_lazy(given.X):
        raise ValueError("sampled_rows needs all rows in memory: take a sample of them.")
    started = now()
    rows = prepare(given, search)
    finish_with(rows.named)
    search = replace(search, max_seconds=_left(search.max_seconds, started))
    report.within(Clock(search.max_seconds))
    if is_asked_for and rows.start is not None:
        raise ValueError("sampled_rows cannot be used with a constraint or with warm_start.")
    search = replace(search, columns=rows.columns)
    with use_threads(given.estimator.n_jobs):
        circuit, history = learn_circuit(rows, search, sampled_rows, report)
        last = given.last
        assert last is None or isinstance(last, Circuit)
        if last is not None and rows.valid is not None and search.smoothing == "hierarchical":
            circuit = _better(last, circuit, rows.valid)
        knows_rows = rows.gaps is None and not sampled_rows and circuit is not last
        if knows_rows and search.search.structure_rows is None:  # the history is about all rows
            best = history.last_row(history.best)
            likelihoods = LogLikelihoods(best["train"], best["valid"])
        else:
            likelihoods = _log_likelihoods(rows, circuit)
    return FittedCircuit(rows, circuit, history, likelihoods)


def fit_mixture(given: FitInput, task: MixtureTask, report: Reporter) -> FittedMixture:
    """Learn a mixture."""
    started = now()
    rows = replace(prepare(given, task.search), device=task.options.device)
    finish_with(rows.named)
    _check_memory(task, rows)
    total, search = task.options.max_seconds, replace(task.search, columns=rows.columns)
    left = _left(total, started)
    if total and left is not None and search.max_seconds is not None:
        search = replace(search, max_seconds=search.max_seconds * left / total)
    task = replace(task, search=search, options=replace(task.options, max_seconds=left))
    if task.method == Auto() and left is not None and left < FOR_NETWORKS:
        task = replace(task, method=EM())
    learner = MixtureLearner(task, Clock(left), report, [])
    report.within(learner.clock)
    with use_threads(given.estimator.n_jobs):
        start = None if given.last is None else as_mixture(given.last)
        learned = learn_mixture(rows, learner, start)
        likelihoods = _log_likelihoods(rows, learned.mixture)
    return FittedMixture(
        rows, learned.mixture, learned.history, learned.chosen, learner.trials, likelihoods
    )


def _left(max_seconds: float | None, started: float) -> float | None:
    """What is left when rows are encoded and completed: a little at least."""
    if max_seconds is None:
        return None
    return max(max_seconds - (now() - started), min(0.5 + 0.1 * max_seconds, max_seconds))


def _check_memory(task: MixtureTask, rows: Prepared) -> None:
    """Refuse more components than the memory can hold, before anything is allocated.

    A component has at least two edges per variable, each in four arrays of EM; a run also has its
    share of every row.
    """
    n_rows = 0 if rows.is_partitioned else rows.train.n_rows
    bytes_each = 64 * rows.train.n_vars
    n_components = task.sizes[0]
    if isinstance(task.n_splits, int):
        check_fits("max_splits", task.n_splits, BYTES_OF_A_SPLIT)
    check_fits("n_components", n_components, bytes_each + 8 * n_rows)
    check_fits("max_components", task.max_components, bytes_each)
    for name in ("n_runs", "n_bags"):
        n_parts = getattr(task.method, name, None) or 1
        check_fits(name, n_parts, bytes_each * n_components)


def _log_likelihoods(rows: Prepared, model: Any) -> LogLikelihoods:
    return LogLikelihoods(
        rows.mean_log_likelihood(model, "train"), rows.mean_log_likelihood(model, "valid")
    )


def _better(last: Circuit, circuit: Circuit, valid: BitMatrix) -> Circuit:
    """The circuit of the last fit, if it remains better: what its copies came from is not known."""
    before = flow_log_likelihood(last, valid) @ valid.weights
    after = flow_log_likelihood(circuit, valid) @ valid.weights
    return last if before > after else circuit
