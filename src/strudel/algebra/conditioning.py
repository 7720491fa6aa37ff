"""Circuits given evidence, or given an event, as circuits again.

In:  a circuit or mixture in normal form, and a row, a dict, or an event that is itself a circuit.
Out: a `Circuit` or `Mixture` on the same vtree that gives zero to every row against the evidence.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel.algebra.operands import columns_of, need_deterministic, one_model
from strudel.algebra.pairs import MAX_PAIRS
from strudel.algebra.products import multiply
from strudel.algebra.settle import settle, settle_mixture, weighted
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.queries.arguments import given_rows
from strudel.queries.model import Model


def condition(p: Any, given: Any, *, normalize: bool = True, max_pairs: int = MAX_PAIRS) -> Model:
    """The distribution given evidence, ``p(x | given)``, as a circuit.

    Parameters
    ----------
    p : Circuit, Mixture or fitted estimator
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
    Circuit or Mixture
        Over all variables, known ones included, on the same vtree, so that it can be compared and
        multiplied; `marginalize` drops some. Deterministic if `p` is. A mixture again if `p` is
        one: what is given changes its weights, too.

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
    model = one_model(p, "condition")
    if isinstance(given, Circuit):
        log_theta = given.edge_log_theta
        if np.any((log_theta != 0.0) & (log_theta != -np.inf)):
            raise ValueError(
                "An event must have parameters 0 and 1 only, so that it holds or not; use multiply "
                "for any other circuit."
            )
        need_deterministic(given, "condition counts every row of an event once")
        return multiply(model, given, normalize=normalize, max_pairs=max_pairs)
    rows, _ = given_rows(model, given)
    if len(rows) != 1:
        raise ValueError(
            f"condition makes one circuit and takes one row of evidence, but got {len(rows)}. Call "
            "it once per row."
        )
    if_zero = (
        "What is given has probability zero under the model, so nothing can be said given it. Set "
        "some of its values to NaN."
    )
    structure, log_theta, log_weight = columns_of(model)
    arrays = weighted(structure, structure.edge_log_theta)
    if isinstance(model, Mixture):
        return settle_mixture(
            arrays,
            log_theta,
            log_weight,
            normalize=normalize,
            if_zero=if_zero,
            evidence=rows,
        )
    return settle(arrays, normalize=normalize, if_zero=if_zero, evidence=rows)
