"""Fits of tables in parts: what `fit` does with a Dask array or frame.

In:  `SpreadLearning`, the rows in parts, and options.
Out: what the estimator keeps, learned where the rows are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from strudel.circuits.circuit import Circuit
from strudel.data.bits import BitMatrix, pack_columns
from strudel.learning.history import History
from strudel.learning.methods import MixtureOptions
from strudel.learning.mixtures.learned_mixture import Clock, LearnedMixture
from strudel.learning.mixtures.mixture_history import MixtureHistory
from strudel.learning.partitioned.em import CLUSTERED_ROWS, fit_spread_mixture
from strudel.learning.partitioned.fit_incomplete import (
    learn_spread_incomplete_circuit,
    learn_spread_incomplete_mixture,
)
from strudel.learning.partitioned.fit_rows import SpreadLearning
from strudel.learning.partitioned.learn_structure import (
    fit_spread_parameters,
    grow_spread,
    learn_spread_structure,
)
from strudel.learning.search.learn_structure import learn_structure
from strudel.learning.searches import SearchOptions

CHOSEN_ON = 50_000  # rows on which numbers of splits and components are chosen


def fit_spread_circuit(
    learning: SpreadLearning,
    search: SearchOptions,
    structure_rows: int | None,
    on_split: Callable[[History], None] | None,
) -> tuple[Circuit, History]:
    """Learn a circuit where the rows are, or its structure from a sample of them here."""

    def learn(learning: SpreadLearning, search: SearchOptions) -> tuple[Circuit, History]:
        if structure_rows is None or structure_rows >= learning.table.n_rows:
            return learn_spread_structure(
                learning.train,
                learning.valid,
                search=search,
                rng=learning.rng,
                on_split=on_split,
                journal=learning.journal,
            )
        circuit, history = learn_structure(
            *_halves(learning, structure_rows),
            search=search,
            rng=learning.rng,
            on_split=on_split,
            journal=learning.journal,
        )
        return fit_spread_parameters(circuit, learning.train, search.pseudocount), history

    search = replace(search, columns=learning.columns)
    if learning.has_gaps:
        return learn_spread_incomplete_circuit(learning, search, learn)
    return learn(learning, search)


def _halves(learning: SpreadLearning, n_rows: int) -> tuple[BitMatrix, BitMatrix | None]:
    """A sample of the rows to grow a structure on, and one of those to stop by."""
    valid = learning.valid_sample(n_rows)
    return pack_columns(*learning.sample(n_rows)), None if valid is None else pack_columns(*valid)


def fit_spread_components(
    learning: SpreadLearning,
    search: SearchOptions,
    options: MixtureOptions,
    n_splits: int,
    n_bags: int | None,
    clock: Clock,
    on_iteration: Callable[[MixtureHistory], None] | None,
) -> LearnedMixture:
    """Grow a structure by so many splits, then fit a mixture to all rows."""

    def learn(learning: SpreadLearning) -> LearnedMixture:
        return _components(learning, search, options, n_splits, n_bags, clock, on_iteration)

    if learning.has_gaps:
        return learn_spread_incomplete_mixture(learning, options, learn)
    return learn(learning)


def _components(
    learning: SpreadLearning,
    search: SearchOptions,
    options: MixtureOptions,
    n_splits: int,
    n_bags: int | None,
    clock: Clock,
    on_iteration: Callable[[MixtureHistory], None] | None,
) -> LearnedMixture:
    """The same on complete rows."""
    search = replace(
        search, max_splits=n_splits, patience=max(1, n_splits), columns=learning.columns
    )
    run = grow_spread(
        learning.train, learning.valid, search=search, rng=learning.rng, journal=learning.journal
    )
    last = len(run.history) - 1  # fewer if nothing was left to split
    structure = run.growing.snapshot(last)
    was_interrupted = run.history.stopped_because == "interrupted"
    del run  # the flows of the search make room for those of EM

    def fit(options: MixtureOptions, **more: Any) -> LearnedMixture:
        mixture, history, valid = fit_spread_mixture(
            structure,
            learning.train,
            learning.valid,
            options=options,
            sample=learning.sample(CLUSTERED_ROWS),
            rng=learning.rng,
            on_iteration=on_iteration,
            **more,
        )
        size = min(options.n_components, mixture.n_components)
        chosen = {
            "n_splits": last,
            "n_components": size,
            "n_runs": mixture.n_components // size,
            "valid": valid,
        }
        return LearnedMixture(mixture, history, chosen)

    try:
        if was_interrupted:
            raise KeyboardInterrupt
        timed = replace(options, max_seconds=clock.left())
        return fit(timed, n_bags=n_bags, journal=learning.journal)
    except KeyboardInterrupt:  # before there was a mixture: one circuit is better than nothing
        single = replace(options, n_components=1, n_runs=1, n_init=1, init_params="random")
        learned = fit(replace(single, max_iter=1, max_seconds=None))
        learned.history.stopped_because = "interrupted"
        return learned
