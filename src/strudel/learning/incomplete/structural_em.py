"""Structural EM: complete the rows, learn from them as ever, complete them better, and so on.

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

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from strudel.learning.incomplete.refit import RowsWithGaps, mean_of_known
from strudel.queries.model import Model

MOST_ROUNDS = 3


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
) -> Result:
    """Rounds of completing and learning while they make validation rows more likely.

    `learn` gets completed rows, `refit` the model that came out of it.
    """
    completer, reached = first, mean_of_known(first, rows)
    best: Result | None = None
    try:
        for _ in range(MOST_ROUNDS):
            train, valid = rows.completed(completer, n_copies, rng)
            learned = learn(train, valid)
            if best is None:  # what an interrupt would keep
                best = Result(learned, -np.inf, False)
            learned = learned._replace(model=refit(learned.model))
            score = mean_of_known(learned.model, rows)
            if not score <= best.valid:
                best = Result(learned, score, False)
            # Without validation rows (nan) nothing says that another round would help.
            if learned.is_cut or not score > reached:
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
