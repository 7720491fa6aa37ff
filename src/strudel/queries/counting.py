"""How many of some variables are 1: generating polynomials up the vtree.

Coefficient j of a node's polynomial is the probability that exactly j of the counted variables
below it are 1, given the evidence. Products multiply polynomials, sums average them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.circuits.passes import distinct_rows, encode
from strudel.data.validation import slices
from strudel.queries.arguments import given_rows, variable_indices
from strudel.queries.by_block import by_block
from strudel.queries.marginal import raise_if_impossible
from strudel.queries.model import Model, model_of, structure_of
from strudel.queries.node_distributions import NodeDistributions, distributions_given
from strudel.queries.probabilities import component_log_probabilities, log_mean, posterior

BLOCK_ROWS = 2**12  # rows of evidence at a time


@by_block("given")
def count_distribution(model: Model, variables: Any = None, given: Any = None) -> FloatArray:
    """Probability that exactly j of some variables are 1, for every j.

    Parameters
    ----------
    model : Circuit, Mixture or fitted estimator
        Smooth and structured-decomposable, in normal form.
    variables : names or numbers of variables, optional
        What is counted; all variables by default.
    given : evidence in any form, as in `probability`, optional
        Nothing is known by default. Known variables count with their values.

    Returns
    -------
    ndarray of shape (n_rows, n_counted + 1)
        The probabilities of 0, 1, 2, ... ones. Without the first axis when `given` is a single row,
        a dict or nothing.

    Raises
    ------
    ValueError
        If a row of `given` has probability zero.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> count_distribution(figure_1_circuit(), ["X1", "X2"], given={"X3": 1}).round(4)
    array([0.06, 0.58, 0.36])
    """
    model = model_of(model)
    is_counted = np.ones(model.n_vars, dtype=np.bool_)
    if variables is not None:
        is_counted[:] = False
        is_counted[variable_indices(model, variables, "variables")] = True
    rows, is_single = given_rows(model, given)
    counts = count_ones(model, is_counted, rows)
    return counts[0] if is_single else counts


def count_ones(model: Model, is_counted: AnyArray, rows: FloatArray) -> FloatArray:
    """`count_distribution` for rows of the 0/1 variables."""
    query = "count_distribution"
    codes, place = distinct_rows(encode(rows))
    log_p = np.empty(len(codes))
    counts = np.empty((len(codes), int(is_counted.sum()) + 1))
    polynomials = NodeDistributions(structure_of(model), is_counted, of="counts")
    for part in slices(len(codes), BLOCK_ROWS):
        by_component = component_log_probabilities(model, codes[part], query)
        log_p[part] = log_mean(model, by_component)
        weight = posterior(model, by_component)
        counts[part] = distributions_given(model, codes[part], polynomials, query, weight)
    raise_if_impossible(log_p[place])
    return counts[place]
