"""Structural EM: complete the rows, learn from them, complete them better, and so on.

In:  rows with unknown values, a first model, and any way to learn from complete rows.
Out: the model that makes the known values of the validation rows most likely.

Searches and EM for mixtures work on complete rows, whose flows are quick to find and to move. So
every row gets several completions, drawn exactly from the best model so far given what is known of
the row, that share its weight: counts on them are expected counts up to chance. What is learned
from them gets its parameters by EM on the rows themselves (`refit`), and is judged by the exact
likelihood of what is known of the validation rows. If it is better than the model that completed
the rows, it completes them for another round.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from strudel._compiling import Clock
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture, as_mixture
from strudel.learning.incomplete.em import Countable, EmLimits, climb, maximise
from strudel.learning.incomplete.expected_flows import ExpectedFlows, Passes
from strudel.learning.mixture_methods import MixtureOptions
from strudel.learning.mixtures.em import STRENGTHS, TRAINING_STRENGTH
from strudel.learning.mixtures.em_steps import Prior, uniform_prior
from strudel.queries.model import Model

# Rows that the parameters learned from completions count for: they know of the model that
# completed the rows, which is worth most where rows are few.
STRENGTH = 4.0
MOST_STEPS = 10
MOST_WORK = 2**32  # rows x edges that a row passes x components in all steps, about half a minute
TOLERANCE = 1e-3
MOST_ROUNDS = 3


class RowsWithGaps(Protocol):
    """Rows to fit and rows to check by: `IncompleteRows`, or such rows in partitions."""

    @property
    def train_rows(self) -> Countable:
        """Training rows."""

    @property
    def valid_rows(self) -> Countable | None:
        """Validation rows."""


def refit_circuit(circuit: Circuit, rows: RowsWithGaps, clock: Clock) -> Circuit:
    """A circuit with parameters between those it has and the best for what is known."""
    passes = Passes.of(circuit, "fit")
    prior = Prior(STRENGTH, circuit.theta)
    limits = EmLimits(MOST_STEPS, TOLERANCE, patience=1, clock=clock)
    start = as_mixture(circuit)
    return climb(passes, start, rows.train_rows, rows.valid_rows, prior, limits).model.component(0)


def refit_mixture(
    mixture: Mixture,
    rows: RowsWithGaps,
    options: MixtureOptions,
    n_runs: int,
    clock: Clock,
    max_work: float = MOST_WORK,
) -> Mixture:
    """A mixture after a few EM steps on the rows, smoothed as its options say.

    `n_runs` mixtures that were averaged stay mixtures of their own.
    """
    train, valid = rows.train_rows, rows.valid_rows
    work = 4 * train.n_rows * train.n_vars * mixture.n_components
    n_steps = min(int(max_work // max(work, 1)), MOST_STEPS)
    if n_steps == 0 or clock.is_up:
        return mixture  # as learned: there are too many flows, or no time
    passes = Passes.of(mixture, "fit")
    prior = _prior(passes, mixture, train, options, n_runs)
    limits = EmLimits(n_steps, TOLERANCE, patience=1, clock=clock)
    found = climb(passes, mixture, train, valid, prior, limits, n_groups=n_runs)
    if found.flows is None or valid is None or options.pseudocount != "auto" or clock.is_up:
        return found.model
    tried = [
        maximise(passes.circuit, found.flows, Prior(strength, prior.mean), n_runs)
        for strength in STRENGTHS
    ]
    scores = [valid.mean_log_probability(passes, one) for one in tried]
    return tried[int(np.argmax(scores))] if max(scores) > found.valid else found.model


def _prior(
    passes: Passes, mixture: Mixture, train: Countable, options: MixtureOptions, n_runs: int
) -> Prior:
    """What components are drawn to: the single circuit on the same rows, or all edges alike."""
    strength = TRAINING_STRENGTH if options.pseudocount == "auto" else options.pseudocount
    if options.smoothing != "single":
        return uniform_prior(passes.circuit, strength)
    flows = train.expect(passes, mixture, n_runs)
    # Of all components together, as if they were one.
    count = flows.edge_count.sum(axis=1, keepdims=True) / n_runs
    one = ExpectedFlows(count, np.ones(1), flows.log_likelihood)
    single = maximise(passes.circuit, one, uniform_prior(passes.circuit, 1.0))
    return Prior(strength, np.exp(single.edge_log_theta[:, 0]))


def mean_of_known(model: Model, gaps: RowsWithGaps, part: str = "valid") -> float:
    """Mean log-likelihood of what is known of the rows of "train" or "valid"; nan without any."""
    rows = gaps.train_rows if part == "train" else gaps.valid_rows
    if rows is None:
        return math.nan
    return rows.mean_log_probability(Passes.of(model, "fit"), as_mixture(model))


class Learned(NamedTuple):
    """A model, and what came with it."""

    model: Any
    rest: Any  # of the learner: histories and such
    is_cut: bool  # by an interrupt or a limit of time: no further round


class Result(NamedTuple):
    """The best of all rounds."""

    learned: Learned
    valid: float
    is_interrupted: bool


class Completable(RowsWithGaps, Protocol):
    """Rows that a model can complete."""

    @property
    def n_copies(self) -> int:
        """Completions of every row that make enough rows together."""

    def completed(self, model: Model, n: int, rng: np.random.Generator) -> tuple[Any, Any]:
        """`n` completions of every training and validation row, of 1/n of its weight each."""


def learn_incomplete(
    rows: Completable,
    first: Model,
    learn: Callable[[Any, Any], Learned],
    refit: Callable[[Model], Model],
    rng: np.random.Generator,
    *,
    n_copies: int,
    clock: Clock,
    max_rounds: int = MOST_ROUNDS,
) -> Result:
    """Rounds of completing and learning while they make validation rows more likely.

    `learn` gets completed rows, `refit` the model that came out of it.
    """
    completer = first
    reached = mean_of_known(first, rows) if max_rounds > 1 else math.nan
    best: Result | None = None
    try:
        for _ in range(max_rounds):
            train, valid = rows.completed(completer, n_copies, rng)
            learned = learn(train, valid)
            if best is None:  # what an interrupt would keep
                best = Result(learned, -np.inf, False)
            learned = learned._replace(model=refit(learned.model))
            score = mean_of_known(learned.model, rows)
            if not score <= best.valid:
                best = Result(learned, score, False)
            # Without validation rows (nan) nothing says that another round would help.
            if learned.is_cut or clock.is_up or not score > reached:
                break
            completer, reached = learned.model, score
    except KeyboardInterrupt:
        if best is None:
            raise
        if best.valid == -np.inf:
            best = best._replace(valid=np.nan)
        return best._replace(is_interrupted=True)
    assert best is not None  # the first round at least
    return best
