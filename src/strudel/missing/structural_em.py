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

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from strudel.data.bits import BitMatrix
from strudel.missing.incomplete_rows import IncompleteRows
from strudel.missing.refit import mean_valid
from strudel.queries.model import Model

MOST_ROUNDS = 3


class Round(NamedTuple):
    """What one round of completing and learning reached."""

    n_completions: int  # of every row
    valid: float  # mean log-likelihood of what is known of the validation rows
    seconds: float  # since the start


class Learned(NamedTuple):
    """A model, and what came with it."""

    model: Any
    rest: Any  # of the learner: histories and such
    is_cut: bool  # by an interrupt or a limit of time: no further round


class Result(NamedTuple):
    """The best of all rounds."""

    learned: Learned
    valid: float
    rounds: list[Round]
    is_interrupted: bool


def learn_incomplete(
    rows: IncompleteRows,
    first: Model,
    learn: Callable[[BitMatrix, BitMatrix | None], Learned],
    refit: Callable[[Model], Model],
    rng: np.random.Generator,
    *,
    n_copies: int,
    tell: Callable[[str], None] | None = None,
) -> Result:
    """Rounds of completing and learning while they make validation rows more likely.

    `learn` gets completed rows, `refit` the model that came out of it.
    """
    started = time.perf_counter()
    completer, reached = first, mean_valid(first, rows)
    best: Result | None = None
    rounds: list[Round] = []
    try:
        for number in range(MOST_ROUNDS):
            if tell is not None:
                tell(f"round {number + 1}: completing the rows {n_copies} times")
            train, valid = rows.completed(completer, n_copies, rng)
            learned = learn(train, valid)
            learned = learned._replace(model=refit(learned.model))
            score = mean_valid(learned.model, rows)
            rounds.append(Round(n_copies, score, time.perf_counter() - started))
            if best is None or score > best.valid:
                best = Result(learned, score, rounds, False)
            # Without validation rows (nan) nothing says that another round would help.
            if learned.is_cut or not score > reached:
                break
            completer, reached = learned.model, score
    except KeyboardInterrupt:
        if best is None:
            raise
        return best._replace(is_interrupted=True)
    assert best is not None  # the first round at least
    return best
