"""Hierarchical smoothing: a copied sum is drawn to the sum it was copied from.

In:  the start of a search and its operations.
Out: the circuit whose number of operations and strength of smoothing are best on validation rows.

A copy keeps, as the mean of a Dirichlet prior, the exact conditional distribution of the sum it was
copied from, so a split or a clone changes nothing until rows speak. The sum that stays behind is
drawn to what both were together. Parameters remain closed-form. How strongly copies are drawn
changes every parameter, but no structure, so the search is replayed with other strengths.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from strudel.circuits.circuit import Circuit
from strudel.learning.growing.growing_circuit import GrowingCircuit, Operation, replay
from strudel.learning.history import History
from strudel.learning.search_options import SearchOptions

STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)  # virtual rows per copied sum
MIDDLE = 30.0  # while the structure is sought


def first_strength(search: SearchOptions) -> float | None:
    """How strongly copies are drawn while the structure is sought; None for uniform smoothing."""
    if search.smoothing == "uniform":
        return None
    return MIDDLE if search.smoothing_strength == "auto" else float(search.smoothing_strength)


def shrink(
    make: Callable[..., GrowingCircuit],
    operations: list[Operation],
    strength: float | Literal["auto"],
    history: History,
) -> tuple[Circuit, History]:
    """The best circuit on the way, with its parameters, and the history with those parameters.

    `make` gives the growing circuit before the first operation, for a strength: virtual rows per
    copied sum. The history is that of the search, for the seconds and the reason to stop.
    """
    best, best_strength = history, MIDDLE if strength == "auto" else float(strength)
    if strength == "auto" and not np.isnan(history.valid[0]):
        best, best_strength = _climb(make, operations, history)
    growing = replay(make(strength=best_strength), operations[: best.best])
    return growing.shrunk(), best


def _climb(
    make: Callable[..., GrowingCircuit], operations: list[Operation], history: History
) -> tuple[History, float]:
    """From the strength of the search to weaker and stronger ones, as long as validation gains."""

    def likelihood(some: History) -> float:
        return float(some.valid[some.best])

    best, middle = history, STRENGTHS.index(MIDDLE)
    chosen = middle
    for step in (1, -1):
        i = middle + step
        while 0 <= i < len(STRENGTHS):
            other = _likelihoods(make, operations, STRENGTHS[i], history)
            if likelihood(other) <= likelihood(best):
                break
            best, chosen = other, i
            i += step
        if chosen != middle:
            break
    return best, STRENGTHS[chosen]


def _likelihoods(
    make: Callable[..., GrowingCircuit],
    operations: list[Operation],
    strength: float,
    earlier: History,
) -> History:
    """The history with another strength; seconds are those of the search."""
    history = History()
    growing = make(strength=strength)
    history.add(growing)
    replay(growing, operations, history.add)
    columns = history.columns()
    columns["seconds"] = earlier.seconds[: len(history)]
    return History.from_columns(columns, history.best, earlier.stopped_because)
