"""What `fit` does with unknown values of rows in parts: structural EM around the spread learners.

In:  `SpreadLearning` whose rows have gaps, and the learner that complete rows in parts have.
Out: what the learner gives, for the best round.

The model that completes the rows first is learned from a sample of them, in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.learning.history import History
from strudel.learning.options import MixtureOptions, SearchOptions
from strudel.missing.first_model import first_mixture, first_tree
from strudel.missing.incomplete_rows import IncompleteRows
from strudel.missing.refit import refit_circuit, refit_mixture
from strudel.missing.structural_em import Learned, learn_incomplete
from strudel.models.incomplete_learning import CUT
from strudel.models.learned_mixture import LearnedMixture
from strudel.models.spread_rows import SpreadLearning
from strudel.queries.model import Model
from strudel.scale.incomplete import SpreadIncompleteRows
from strudel.scale.tables import SpreadRows

FIRST_ROWS = 2**16  # rows from which the first model is learned


def learn_spread_incomplete_circuit(
    learning: SpreadLearning,
    search: SearchOptions,
    learn: Callable[[SpreadLearning, SearchOptions], tuple[Circuit, History]],
) -> tuple[Circuit, History]:
    """The best circuit of all rounds, and the history of the search that found it."""
    rows, now = SpreadIncompleteRows(learning.train, learning.valid), learning.journal.now
    started = now()

    def learn_once(train: SpreadRows, valid: SpreadRows | None) -> Learned:
        limits = search
        if search.max_seconds is not None:  # at least half of it: rows have to be completed first
            left = search.max_seconds - (now() - started)
            limits = replace(search, max_seconds=max(left, 0.5 * search.max_seconds))
        circuit, history = learn(replace(learning, train=train, valid=valid), limits)
        is_late = search.max_seconds is not None and history.stopped_because in CUT
        return Learned(circuit, history, is_late or history.stopped_because == "interrupted")

    found = learn_incomplete(
        rows,
        _first_model(learning),
        learn_once,
        lambda circuit: refit_circuit(circuit, rows),  # type: ignore[arg-type]
        learning.rng,
        n_copies=rows.n_copies,
    )
    history: History = found.learned.rest
    if found.is_interrupted:
        history.stopped_because = "interrupted"
    return found.learned.model, history


def learn_spread_incomplete_mixture(
    learning: SpreadLearning,
    options: MixtureOptions,
    learn: Callable[[SpreadLearning], LearnedMixture],
) -> LearnedMixture:
    """The best mixture of all rounds, with the history and the choices that led to it."""
    rows = SpreadIncompleteRows(learning.train, learning.valid)
    n_runs: dict[int, int] = {}  # of the mixture that is being learned

    def learn_once(train: SpreadRows, valid: SpreadRows | None) -> Learned:
        learned = learn(replace(learning, train=train, valid=valid))
        n_runs[id(learned.mixture)] = learned.chosen["n_runs"]
        return Learned(learned.mixture, learned, learned.history.stopped_because in CUT)

    def refit(model: Model) -> Model:
        assert isinstance(model, Mixture)
        return refit_mixture(model, rows, options, n_runs[id(model)])

    found = learn_incomplete(
        rows, _first_model(learning), learn_once, refit, learning.rng, n_copies=rows.n_copies
    )
    learned: LearnedMixture = found.learned.rest
    if found.is_interrupted:
        learned.history.stopped_because = "interrupted"
    return LearnedMixture(
        found.learned.model, learned.history, learned.chosen | {"valid": found.valid}
    )


def _first_model(learning: SpreadLearning) -> Mixture:
    """The model that completes the rows for the first round, from a sample of them."""
    train, weight = learning.sample(FIRST_ROWS)
    valid, valid_weight = learning.valid_sample(FIRST_ROWS) or (None, None)
    sample = IncompleteRows(train, weight, valid, valid_weight)
    columns: Any = learning.columns  # which have codes
    return first_mixture(first_tree(sample, columns=columns), sample, learning.rng)
