"""Circuits given evidence, or given an event, as circuits again.

In:  a circuit in normal form, and a row, a dict, or an event that is itself a circuit.
Out: a `Circuit` on the same vtree that gives zero to every row against the evidence.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel.algebra.operands import need_deterministic, one_circuit
from strudel.algebra.pairs import MAX_PAIRS
from strudel.algebra.products import multiply
from strudel.algebra.settle import settle, weighted
from strudel.circuits.circuit import Circuit
from strudel.queries.arguments import given_rows


def condition(p: Any, given: Any, *, normalize: bool = True, max_pairs: int = MAX_PAIRS) -> Circuit:
    """The distribution given evidence, ``p(x | given)``, as a circuit.

    Parameters
    ----------
    p : Circuit or fitted estimator
        In normal form.
    given : array-like of shape (n_vars,), dict by feature name, frame of one row, or Circuit
        0, 1, or NaN where the value is unknown. An event is a deterministic circuit on the same
        vtree with parameters 0 and 1 only, so that it is 1 on the rows of the event and else 0.
    normalize : bool
        Whether the result adds up to 1. If not, it is `p` on the rows that agree and zero on all
        others, and adds up to the probability of what is given.
    max_pairs : int
        The most pairs of nodes, and of edges, of `p` and an event that may be met.

    Returns
    -------
    Circuit
        Over all variables, known ones included, on the same vtree, so that it can be compared and
        multiplied; `marginalize` drops some. Deterministic if `p` is.

    Raises
    ------
    ValueError
        If what is given has probability zero and the result should be normalised.

    Examples
    --------
    >>> from strudel import figure_1_circuit, log_likelihood
    >>> p = condition(figure_1_circuit(), {"X3": 1})
    >>> np.exp(log_likelihood(p, [[1, 0, 1, 0]])).round(4)  # 0.0192 / 0.6
    array([0.032])
    """
    circuit = one_circuit(p, "condition")
    if isinstance(given, Circuit):
        log_theta = given.edge_log_theta
        if np.any((log_theta != 0.0) & (log_theta != -np.inf)):
            raise ValueError(
                "An event must have parameters 0 and 1 only, so that it holds or not; use multiply "
                "for any other circuit."
            )
        need_deterministic(given, "condition counts every row of an event once")
        return multiply(circuit, given, normalize=normalize, max_pairs=max_pairs)
    rows, _ = given_rows(circuit, given)
    if len(rows) != 1:
        raise ValueError(
            f"condition makes one circuit and takes one row of evidence, but got {len(rows)}. Call "
            "it once per row."
        )
    return settle(
        weighted(circuit, circuit.edge_log_theta),
        normalize=normalize,
        if_zero="What is given has probability zero under the model, so nothing can be said given "
        "it. Set some of its values to NaN.",
        evidence=rows,
    )
