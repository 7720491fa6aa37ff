"""Curves of a search: how likely unseen rows are under every circuit on its way."""

from __future__ import annotations

import numpy as np

from strudel._types import FloatArray
from strudel.data.bits import BitMatrix
from strudel.learning.growing.growing_circuit import GrowingCircuit
from strudel.learning.growing.operations import replay
from strudel.learning.search.learn_structure import Grown


def likelihoods_on_the_way(grown: Grown, rows: BitMatrix) -> FloatArray:
    """Mean log-likelihood of other rows before the first and after every operation of a search."""
    growing = grown.make(valid=rows)
    found = [growing.valid_log_likelihood]

    def note(growing: GrowingCircuit) -> None:
        found.append(growing.valid_log_likelihood)

    replay(growing, grown.operations, note)
    return np.array(found)


def with_early_stopping(
    valid: FloatArray, test: FloatArray, patience: int
) -> tuple[FloatArray, int]:
    """The curve of `test` if the search had stopped early, and the split after which it had.

    It stops after `patience` splits without a better validation likelihood, and from then on stays
    at the circuit that it keeps, the best on the validation rows.

    Examples
    --------
    >>> curve, last = with_early_stopping(
    ...     np.array([-3.0, -2.0, -2.5, -2.6, -1.0]), np.array([-3.1, -2.1, -2.2, -2.3, -1.1]), 2
    ... )
    >>> curve, last
    (array([-3.1, -2.1, -2.2, -2.3, -2.1]), 3)
    """
    best = last = 0
    for last in range(len(valid)):
        if valid[last] > valid[best]:
            best = last
        if last - best >= patience:
            break
    curve = test.copy()
    curve[last + 1 :] = test[best]
    return curve, last
