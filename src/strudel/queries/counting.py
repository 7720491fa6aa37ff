"""How many of some variables are 1: generating polynomials up the vtree.

Coefficient j of a node's polynomial is the probability that exactly j of the counted variables
below it are 1, given the evidence. Products multiply polynomials, sums average them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel._types import FloatArray
from strudel.circuits.circuit import Circuit
from strudel.queries.arguments import given_rows, variable_indices
from strudel.queries.conditional import conditional_parameters
from strudel.queries.distributions import NodeDistributions
from strudel.queries.marginal import raise_if_impossible
from strudel.queries.model import circuit_of
from strudel.queries.passes import LANES, distinct_rows, encode, log_probabilities

BLOCK_BYTES = 2**28  # of polynomials, as long as that leaves one row of evidence


def count_distribution(model: Circuit, variables: Any = None, given: Any = None) -> FloatArray:
    """Probability that exactly j of some variables are 1, for every j.

    Parameters
    ----------
    model : Circuit or fitted estimator
        Smooth and structured-decomposable, in normal form.
    variables : names or numbers of variables, optional
        What is counted; all variables by default.
    given : array-like of shape (n_vars,) or (n_rows, n_vars), frame, or dict, optional
        0, 1, or NaN where the value is unknown; nothing is known by default. Variables that are
        known count as what they are.

    Returns
    -------
    ndarray of shape (n_rows, n_counted + 1)
        The probabilities of 0, 1, 2, ... ones. Without the first axis when `given` is a single row,
        a dict or nothing.

    Raises
    ------
    ValueError
        Where `given` has probability zero, so that nothing can be said.

    Examples
    --------
    >>> from strudel import figure_1_circuit
    >>> count_distribution(figure_1_circuit(), ["X1", "X2"], given={"X3": 1}).round(4)
    array([0.06, 0.58, 0.36])
    """
    circuit = circuit_of(model)
    is_counted = np.ones(circuit.n_vars, dtype=np.bool_)
    if variables is not None:
        is_counted[:] = False
        is_counted[variable_indices(circuit, variables, "variables")] = True
    rows, is_single = given_rows(circuit, given)
    raise_if_impossible(log_probabilities(circuit, rows, "count_distribution"))
    codes, place = distinct_rows(encode(rows))
    polynomials = NodeDistributions(circuit, is_counted, of="counts")
    n_together = max(1, min(LANES, BLOCK_BYTES // polynomials.peak))
    counts = np.empty((len(codes), int(is_counted.sum()) + 1))
    for start in range(0, len(codes), n_together):
        part = slice(start, start + n_together)
        theta = conditional_parameters(circuit, codes[part], "count_distribution")
        counts[part] = polynomials.of_root(theta)
    return counts[0] if is_single else counts[place]
