"""Learn a continuous mixture from prepared rows: grow the structure, choose its length, train.

In:  `Prepared` rows without unknown values, and the learner with what is asked for.
Out: `LearnedMixture`, the best so far if the fit is interrupted or reaches its time limit.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

from strudel._compiling import now
from strudel.circuits.circuit import Circuit
from strudel.errors import AlikeComponentsWarning
from strudel.learning.mixture_learner import CUT, LearnedMixture, MixtureLearner, MixtureTask
from strudel.learning.mixtures.choose import MOST_NUMBERS, Trial, describe
from strudel.learning.mixtures.networks import fit_continuous_mixture
from strudel.learning.options import Continuous, SearchOptions
from strudel.learning.prepared_rows import Prepared
from strudel.learning.progress import MixtureHistory

SPLITS = (0, 100, 300)  # lengths of structures that are tried
POINTS = (256, 512, 1024, 2048, 4096)  # of one network, of which validation chooses
SHORT = 8  # a run that chooses takes this part of the steps, and of the time


def learn_continuous(rows: Prepared, learner: MixtureLearner, method: Continuous) -> LearnedMixture:
    """Grow a structure, try some of its prefixes in short runs, and train on the best."""
    task, report = learner.task, learner.report
    report.say("structure", "growing the structure")
    grown = rows.grow(_search(task), report.on_split)
    last = len(grown.history) - 1  # fewer than asked for if nothing was left to split
    prefixes = _prefixes(grown.history.best) if task.chooses_splits else [last]
    n_splits = prefixes[-1]
    best: LearnedMixture | None = None
    try:
        if grown.history.stopped_because == "interrupted":
            raise KeyboardInterrupt
        for n in prefixes if len(prefixes) > 1 else []:
            tried = _try(rows, learner, method, grown.growing.snapshot(n), n)
            if best is None or tried.chosen["valid"] > best.chosen["valid"]:
                best, n_splits = tried, n
            if tried.history.stopped_because == "interrupted":
                raise KeyboardInterrupt
        learned = _train(rows, learner, method, grown.growing.snapshot(n_splits), n_splits)
        stopped = learned.history.stopped_because
        if best is None or stopped not in CUT or learned.chosen["valid"] > best.chosen["valid"]:
            return learned
        best.history.stopped_because = stopped
        return best
    except KeyboardInterrupt:
        if best is None:
            return learner.single_circuit(rows, grown.growing.snapshot(n_splits), n_splits)
        best.history.stopped_because = "interrupted"
        return best


def _search(task: MixtureTask) -> SearchOptions:
    """The search for a structure, no longer than what is tried."""
    if not task.chooses_splits:
        return task.search
    most = task.search.max_splits
    return replace(task.search, max_splits=SPLITS[-1] if most is None else min(most, SPLITS[-1]))


def _prefixes(best: int) -> list[int]:
    """Numbers of splits to choose from."""
    return [n for n in SPLITS if n < best / 1.5] + [best]


def _sizes(task: MixtureTask, n_runs: int, n_edges: int) -> list[int]:
    """Points of one network, to choose from."""
    if task.n_components != "auto":
        return [int(task.n_components)]
    most = max(1, min(task.max_components, MOST_NUMBERS // n_edges) // n_runs)
    return [n for n in POINTS if n <= most] or [most]


def _try(
    rows: Prepared, learner: MixtureLearner, method: Continuous, structure: Circuit, n_splits: int
) -> LearnedMixture:
    """A short run, to compare structures."""
    started = now()
    short = replace(method, n_runs=1, max_iter=-(-method.max_iter // SHORT))
    words = f"structure with {n_splits} splits, "
    with warnings.catch_warnings():  # what is said of it, only the last run says
        warnings.simplefilter("ignore", AlikeComponentsWarning)
        learned = _train(rows, learner, short, structure, n_splits, words)
    n_points, valid = learned.chosen["n_components"], learned.chosen["valid"]
    trial = Trial(n_splits, n_points, 1, 0.0, valid, now() - started)
    learner.trials.append(trial)
    learner.report.say("choice", describe(trial), len(learner.trials), valid)
    return learned


def _train(
    rows: Prepared,
    learner: MixtureLearner,
    method: Continuous,
    structure: Circuit,
    n_splits: int,
    short: str = "",
) -> LearnedMixture:
    """One fit with everything decided but the number of points; `short` says what is tried."""
    history = MixtureHistory()

    def on_iteration(latest: MixtureHistory) -> None:
        nonlocal history
        history = latest
        learner.report.train_step(history, short, step="check")

    sizes = _sizes(learner.task, method.n_runs, structure.n_edges)
    left = learner.clock.left()
    mixture = fit_continuous_mixture(
        structure,
        rows.train,
        sizes[:1] if short else sizes,
        method=method,
        X_valid=rows.valid,
        options=replace(
            learner.task.options,
            max_seconds=left / SHORT if short and left is not None else left,
        ),
        rng=rows.rng,
        on_iteration=on_iteration,
    )
    chosen = learner.chosen(rows, mixture, n_splits, mixture.n_components)
    return LearnedMixture(mixture, history, chosen)
