"""What `fit` does with unknown values of rows in parts: the same rounds as in memory.

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
from strudel.learning.incomplete.first_model import first_mixture, first_tree
from strudel.learning.incomplete.incomplete_rows import IncompleteRows
from strudel.learning.incomplete.learn import best_circuit, best_mixture
from strudel.learning.methods import MixtureOptions
from strudel.learning.mixtures.learned_mixture import LearnedMixture
from strudel.learning.partitioned.fit_rows import SpreadLearning
from strudel.learning.partitioned.incomplete_rows import SpreadIncompleteRows
from strudel.learning.searches import SearchOptions

FIRST_ROWS = 2**16  # rows from which the first model is learned


def learn_spread_incomplete_circuit(
    learning: SpreadLearning,
    search: SearchOptions,
    learn: Callable[[SpreadLearning, SearchOptions], tuple[Circuit, History]],
) -> tuple[Circuit, History]:
    """The best circuit of all rounds, and the history of the search that found it."""
    rows = SpreadIncompleteRows(learning.train, learning.valid)
    return best_circuit(
        rows,
        _first_model(learning),
        lambda train, valid, search: learn(replace(learning, train=train, valid=valid), search),
        search,
        learning.rng,
        learning.journal.now,
        n_copies=rows.n_copies,
    )


def learn_spread_incomplete_mixture(
    learning: SpreadLearning,
    options: MixtureOptions,
    learn: Callable[[SpreadLearning], LearnedMixture],
) -> LearnedMixture:
    """The best mixture of all rounds, with the history and the choices that led to it."""
    rows = SpreadIncompleteRows(learning.train, learning.valid)
    return best_mixture(
        rows,
        _first_model(learning),
        lambda train, valid: learn(replace(learning, train=train, valid=valid)),
        options,
        learning.rng,
        n_copies=rows.n_copies,
    )


def _first_model(learning: SpreadLearning) -> Mixture:
    """The model that completes the rows for the first round, from a sample of them."""
    train, weight = learning.sample(FIRST_ROWS)
    valid, valid_weight = learning.valid_sample(FIRST_ROWS) or (None, None)
    sample = IncompleteRows(train, weight, valid, valid_weight)
    columns: Any = learning.columns  # which have codes
    return first_mixture(first_tree(sample, columns=columns), sample, learning.rng)
