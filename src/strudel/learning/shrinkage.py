"""Hierarchical smoothing: a copied sum is drawn to the sum it was copied from.

In:  the start of a search and its operations.
Out: the circuit whose number of operations and strength of smoothing are best on validation rows.

A copy keeps, as the mean of a Dirichlet prior, the exact conditional distribution of the sum it was
copied from, so a split or a clone changes nothing until rows speak. The sum that stays behind is
drawn to what both were together. Parameters remain closed-form. How strongly copies are drawn
changes every parameter, but no structure, so a search is replayed with each strength.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from strudel.circuits.circuit import Circuit
from strudel.learning.growing import GrowingCircuit
from strudel.learning.history import History
from strudel.learning.operations import Operation, replay
from strudel.learning.options import SearchOptions

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

    Parameters
    ----------
    make : callable
        Gives the growing circuit before the first operation, for a `strength`.
    operations : list of Operation
    strength : float or "auto"
        Virtual rows per copied sum.
    history : History
        Of the search, for the seconds and the reason to stop.
    """
    if strength != "auto":
        best, best_strength = history, float(strength)
    else:
        histories = [(_likelihoods(make, operations, m, history), m) for m in STRENGTHS]
        if np.isnan(history.valid[0]):  # nothing to choose on
            histories = [pair for pair in histories if pair[1] == MIDDLE]
        best, best_strength = max(histories, key=lambda pair: float(pair[0].valid[pair[0].best]))
    growing = replay(make(strength=best_strength), operations[: best.best])
    return growing.shrunk(), best


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
