"""Models given evidence, or given an event, as models again.

In:  a circuit; a row, a dict, or an event.
Out: a circuit on the same vtree that gives zero to every row that contradicts the evidence.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from strudel.algebra.operands import need_deterministic, two_circuits
from strudel.algebra.products import power_of
from strudel.circuits.circuit import Circuit
from strudel.circuits.products import MAX_PAIRS, product
from strudel.circuits.reweigh import given_row, normalized
from strudel.errors import NoValueError
from strudel.logic.terms import is_formula
from strudel.queries.given import ask, circuit_of

TOLERANCE = 1e-9  # of logs that are equal but for rounding
IF_ZERO = (
    "The evidence has probability zero under the model, so it cannot be conditioned on. Set "
    "some of its values to NaN."
)
IF_EVENT_ZERO = (
    "The event has probability zero under the model, so it cannot be conditioned on: no row "
    "is possible under both."
)


def condition(p: Any, given: Any, *, normalize: bool = True, max_pairs: int = MAX_PAIRS) -> Circuit:
    """The distribution given evidence or an event, ``p(x | given)``, as a circuit.

    Parameters
    ----------
    p : Circuit or fitted estimator
    given : evidence in any form, as in `probability`, of one row
        Also a deterministic circuit on the same vtree that is 1 on the rows of the event and 0
        elsewhere.
    normalize : bool
        Whether the result adds up to 1. If not, it is `p` on the rows that agree and zero on all
        others, and adds up to the probability of what is given.
    max_pairs : int
        Limit on the pairs of nodes, and of edges, of `p` and an event.

    Returns
    -------
    Circuit
        Over all columns, known ones included, on the same vtree, so that it can be compared and
        multiplied; `marginalize` drops some. Given an event with bounds inside cells that is no
        conjunction, its cells also meet at the bounds. Deterministic if `p` is. Components for
        which the evidence is impossible are dropped.

    Raises
    ------
    ValueError
        If what is given has probability zero and `normalize` is set.
    MissingDependencyError
        If the event needs PySDD, which is not installed; see `probability`.

    Examples
    --------
    >>> from strudel import log_likelihood
    >>> from strudel.circuits import figure_1_circuit
    >>> p = condition(figure_1_circuit(), {"X3": 1})
    >>> np.exp(log_likelihood(p, [[1, 0, 1, 0]])).round(4)  # 0.0192 / 0.6
    array([0.032])
    >>> p = condition(figure_1_circuit(), "exactly(1, X1, X2)")
    >>> np.exp(log_likelihood(p, [[1, 0, 1, 0], [1, 1, 1, 0]])).round(4)
    array([0.035, 0.   ])
    """
    try:
        found, log_p = _given(p, given, max_pairs)
    except NoValueError:
        if normalize:
            raise
        found, log_p = None, -np.inf
    if found is not None:
        return found if normalize else replace(found, log_total=log_p)
    if normalize:
        is_event = is_formula(given) or isinstance(given, Circuit)
        raise ValueError(IF_EVENT_ZERO if is_event else IF_ZERO)
    return circuit_of(p).nothing()


def _given(p: Any, given: Any, max_pairs: int) -> tuple[Circuit | None, float]:
    """The circuit given what is known, None if that cannot be; and the log of its probability."""
    if isinstance(given, Circuit):
        circuit, event = two_circuits(p, given, "condition")
        return normalized(product(circuit, _checked(event), max_pairs, "condition"))
    asked = ask(p, given, max_pairs=max_pairs)
    if len(asked.evidence) != 1:
        raise ValueError(
            "condition makes one circuit and takes one row of evidence, but got "
            f"{len(asked.evidence)}. Call it once per row."
        )
    found, log_p = given_row(asked.circuit, asked.evidence)
    log_density = float(asked.evidence.log_density()[0])
    return found, log_p + asked.log_probability + log_density


def _checked(event: Circuit) -> Circuit:
    """A circuit that someone gives for an event: its powers all add up to the same."""
    need_deterministic(event, "condition counts every row of an event once")
    totals = [normalized(power_of(event, a))[1] for a in (0.0, 1.0, 2.0)]
    if not np.allclose(totals, totals[0], rtol=TOLERANCE, atol=TOLERANCE):
        raise ValueError(
            "A circuit given as an event must be 1 on some rows and 0 on all others. Use multiply "
            "for any other circuit."
        )
    return event
