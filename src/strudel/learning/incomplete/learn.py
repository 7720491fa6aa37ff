"""What `fit` does with unknown values: structural EM around the learner that complete rows have.

In:  rows with gaps, in memory or in parts, the model that completes them first, and the learner.
Out: what the learner gives, for the best round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.learning.history import History
from strudel.learning.incomplete.first_model import first_mixture, fit_first
from strudel.learning.incomplete.refit import refit_circuit, refit_mixture
from strudel.learning.incomplete.structural_em import Completable, Learned, learn_incomplete
from strudel.learning.incomplete.unknown_columns import with_coins
from strudel.learning.methods import MixtureOptions
from strudel.learning.mixtures.learned_mixture import LearnedMixture
from strudel.learning.searches import SearchOptions
from strudel.models.base import LearningRows
from strudel.queries.model import Model

CUT = ("interrupted", "max_seconds")
FEWEST_COPIES = 4  # of a search for one circuit: on one, chance stops it too early


def learn_incomplete_circuit(
    rows: LearningRows,
    search: SearchOptions,
    learn: Callable[[LearningRows, SearchOptions], tuple[Circuit, History]],
) -> tuple[Circuit, History]:
    """The best circuit of all rounds, and the history of the search that found it."""
    assert rows.incomplete is not None
    incomplete = rows.incomplete.rows
    circuit, history = best_circuit(
        incomplete,
        _first(rows),
        lambda train, valid, search: learn(rows._replace(train=train, valid=valid), search),
        search,
        rows.rng,
        rows.journal.now,
        n_copies=max(incomplete.n_copies, FEWEST_COPIES),
    )
    return with_coins(circuit, rows.incomplete.is_known), history


def learn_incomplete_mixture(
    rows: LearningRows,
    options: MixtureOptions,
    learn: Callable[[LearningRows], LearnedMixture],
) -> LearnedMixture:
    """The best mixture of all rounds, with the history and the choices that led to it."""
    assert rows.incomplete is not None
    incomplete = rows.incomplete.rows
    found = best_mixture(
        incomplete,
        _first(rows),
        lambda train, valid: learn(rows._replace(train=train, valid=valid)),
        options,
        rows.rng,
        n_copies=incomplete.n_copies,
    )
    return replace(found, mixture=with_coins(found.mixture, rows.incomplete.is_known))


def best_circuit(
    rows: Completable,
    first: Model,
    learn: Callable[[Any, Any, SearchOptions], tuple[Circuit, History]],
    search: SearchOptions,
    rng: np.random.Generator,
    now: Callable[[], float],
    *,
    n_copies: int,
) -> tuple[Circuit, History]:
    """The best circuit of all rounds; `learn` gets completed rows and what is left of the time."""
    started = now()

    def learn_once(train: Any, valid: Any) -> Learned:
        limits = search
        if search.max_seconds is not None:  # at least half of it: rows have to be completed first
            left = search.max_seconds - (now() - started)
            limits = replace(search, max_seconds=max(left, 0.5 * search.max_seconds))
        circuit, history = learn(train, valid, limits)
        is_late = search.max_seconds is not None and history.stopped_because in CUT
        return Learned(circuit, history, is_late or history.stopped_because == "interrupted")

    def refit(model: Model) -> Model:
        assert isinstance(model, Circuit)
        return refit_circuit(model, rows)

    found = learn_incomplete(rows, first, learn_once, refit, rng, n_copies=n_copies)
    history: History = found.learned.rest
    if found.is_interrupted:
        history.stopped_because = "interrupted"
    return found.learned.model, history


def best_mixture(
    rows: Completable,
    first: Model,
    learn: Callable[[Any, Any], LearnedMixture],
    options: MixtureOptions,
    rng: np.random.Generator,
    *,
    n_copies: int,
) -> LearnedMixture:
    """The best mixture of all rounds; `learn` gets completed rows."""
    n_runs: dict[int, int] = {}  # of the mixture that is being learned

    def learn_once(train: Any, valid: Any) -> Learned:
        learned = learn(train, valid)
        n_runs[id(learned.mixture)] = learned.chosen["n_runs"]
        return Learned(learned.mixture, learned, learned.history.stopped_because in CUT)

    def refit(model: Model) -> Model:
        assert isinstance(model, Mixture)
        return refit_mixture(model, rows, options, n_runs[id(model)])

    found = learn_incomplete(rows, first, learn_once, refit, rng, n_copies=n_copies)
    learned: LearnedMixture = found.learned.rest
    if found.is_interrupted:
        learned.history.stopped_because = "interrupted"
    chosen = learned.chosen | {"valid": found.valid}
    return LearnedMixture(found.learned.model, learned.history, chosen)


def _first(rows: LearningRows) -> Model:
    """The model that completes the rows for the first round."""
    assert rows.incomplete is not None
    incomplete, tree = rows.incomplete.rows, rows.incomplete.tree
    if tree is None:  # a circuit to continue from
        assert rows.start is not None
        return rows.start
    structure = tree if rows.start is None else fit_first(rows.start, incomplete)
    return first_mixture(structure, incomplete, rows.rng)
