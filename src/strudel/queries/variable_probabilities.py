"""First and second moments: how probable it is that each variable, or each pair, is 1.

One pass up and one down give all P(X_i = 1 | given) at once; pairs take one such row per variable.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.circuits.passes import UNKNOWN, distinct_rows, encode
from strudel.data.validation import slices
from strudel.queries.arguments import given_rows
from strudel.queries.by_block import by_block
from strudel.queries.column_answers import column_marginals
from strudel.queries.marginal import raise_if_impossible
from strudel.queries.model import Model, model_of
from strudel.queries.probabilities import literal_probabilities

BLOCK_CELLS = 2**22  # cells of the evidence rows behind the pairs made at a time


@by_block("given")
def marginal_probabilities(model: Model, given: Any = None) -> Any:
    """Probability that each variable is 1, given what is known.

    Parameters
    ----------
    model : Circuit, Mixture or fitted estimator
        Smooth and decomposable.
    given : evidence in any form, as in `probability`, optional
        Nothing is known by default.

    Returns
    -------
    ndarray of shape (n_rows, n_vars)
        Without the first axis when `given` is a single row, a dict or nothing. Exactly 0 or 1 for
        what is known. If the model was learned from a table, `ColumnMarginals`: the probability of
        every value of every column, which as an array is that of the variables.

    Raises
    ------
    ValueError
        If a row of `given` has probability zero.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> marginal_probabilities(figure_1_circuit(), {"X3": 1}).round(4)
    array([0.4, 0.9, 1. , 0.2])
    """
    model = model_of(model)
    rows, is_single = given_rows(model, given)
    codes, place = distinct_rows(encode(rows))
    log_p, ones = literal_probabilities(model, codes, "marginal_probabilities")
    raise_if_impossible(log_p[place])
    if model.table_code is not None:
        return column_marginals(model, rows, log_p[place], ones[place], given, is_single)
    return ones[0] if is_single else ones[place]


@by_block("given")
def pair_probabilities(model: Model, given: Any = None) -> FloatArray:
    """Probability that two variables are both 1, for every pair, given what is known.

    Parameters
    ----------
    model : Circuit, Mixture or fitted estimator
        Smooth and decomposable.
    given : evidence in any form, as in `probability`, optional
        Nothing is known by default.

    Returns
    -------
    ndarray of shape (n_rows, n_vars, n_vars)
        Symmetric, with the marginal probabilities on the diagonal. Without the first axis when
        `given` is a single row, a dict or nothing.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> pair_probabilities(figure_1_circuit())[2:, 2:].round(4)  # X3 and X4
    array([[0.6 , 0.12],
           [0.12, 0.4 ]])
    """
    return pairs_among(model_of(model), given)


@by_block("given")
def pairs_among(model: Model, given: Any, is_asked: AnyArray | None = None) -> FloatArray:
    """The same where only some variables `(n_vars,)` are asked for; others have any numbers."""
    rows, is_single = given_rows(model, given)
    codes, place = distinct_rows(encode(rows))
    log_p, ones = literal_probabilities(model, codes, "pair_probabilities")
    raise_if_impossible(log_p[place])
    asked = np.ones(model.n_vars, dtype=np.bool_) if is_asked is None else is_asked
    pairs = np.empty((len(codes), model.n_vars, model.n_vars))
    for part in slices(len(codes), max(1, BLOCK_CELLS // model.n_vars**2)):
        pairs[part] = _pairs(model, codes[part], ones[part], asked)
    return pairs[0] if is_single else pairs[place]


def _pairs(model: Model, codes: AnyArray, ones: FloatArray, asked: AnyArray) -> FloatArray:
    """P(X_i = 1, X_j = 1) = P(X_i = 1) P(X_j = 1 | X_i = 1), given each row."""
    row, var = np.nonzero((codes == UNKNOWN) & (ones > 0.0) & asked)
    with_one = codes[row]
    with_one[np.arange(len(row)), var] = 1
    _, given_one = literal_probabilities(model, with_one, "pair_probabilities")
    # Where X_i is known: 1 or 0 times P(X_j = 1).
    pairs = (codes == 1)[:, :, np.newaxis] * ones[:, np.newaxis, :]
    pairs[row, var] = ones[row, var, np.newaxis] * given_one
    pairs = (pairs + pairs.transpose(0, 2, 1)) / 2.0  # equal up to rounding
    diagonal = np.arange(model.n_vars)
    pairs[:, diagonal, diagonal] = ones
    return pairs


@by_block("given")
def covariance(model: Model, given: Any = None) -> FloatArray:
    """Covariance of every two variables, given what is known.

    Parameters
    ----------
    model : Circuit, Mixture or fitted estimator
        Smooth and decomposable.
    given : evidence in any form, as in `probability`, optional
        Nothing is known by default.

    Returns
    -------
    ndarray of shape (n_rows, n_vars, n_vars)
        Symmetric; zero where a variable is known. Without the first axis when `given` is a single
        row, a dict or nothing.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> covariance(figure_1_circuit())[2:, 2:].round(4)  # X3 and X4
    array([[ 0.24, -0.12],
           [-0.12,  0.24]])
    """
    pairs = pair_probabilities(model, given)
    ones = np.diagonal(pairs, axis1=-2, axis2=-1)
    return pairs - ones[..., :, np.newaxis] * ones[..., np.newaxis, :]
