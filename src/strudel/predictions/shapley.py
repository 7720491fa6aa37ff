"""Shapley values of expected predictions.

In:  a model, a predictor, and rows.
Out: `ShapValues`: how much each known value moves the expected output, from knowing nothing to the
     whole row.

The players of the game are the features that a row knows: columns of a table, or 0/1 variables. A
set S of them is worth v(S) = E[f(X) | x_S], the conditional expectation under the model, with all
other features summed out. The features are dependent: one that the predictor does not use can have
a value, because it says something about others that it uses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from strudel._display import plotting
from strudel._names import quote
from strudel._types import AnyArray, ByteArray, FloatArray
from strudel.data.argument_checks import check_count
from strudel.data.random_state import RandomState, generator_from
from strudel.predictions.expected import expected_outputs
from strudel.predictions.players import Players, players_of
from strudel.predictions.predictor_arguments import Asked, ask, possible_evidence
from strudel.predictions.predictor_forms import Form
from strudel.queries.by_block import by_block
from strudel.queries.model import Model, model_of
from strudel.queries.passes import UNKNOWN, decode

MAX_EXACT = 12  # players: 4,096 sets
MOST_EXACT = 20
N_PERMUTATIONS = 200
ROWS_AT_ONCE = 2**15
QUERY = "shap_values"

Worth: TypeAlias = Callable[[AnyArray], FloatArray]


class ShapValues(NamedTuple):
    """Shapley values; without the first axis for a single row."""

    values: FloatArray  # (n_rows, n_features) 0 for features that a row does not know
    standard_error: FloatArray  # (n_rows, n_features) 0 where exact
    base_value: float  # the expected output when nothing is known
    prediction: Any  # (n_rows,) the expected output given the row
    is_exact: Any  # (n_rows,)

    def plot(self, model: Any, row: Any, ax: Any = None) -> Any:
        """Draw the values of one row as a waterfall; see `strudel.plotting.plot_shap_values`."""
        return plotting("marginals").plot_shap_values(self, model, row, ax=ax)


@by_block("given")
def shap_values(
    model: Model,
    predictor: Any,
    given: Any,
    *,
    target: Any = None,
    max_exact: int = MAX_EXACT,
    n_permutations: int = N_PERMUTATIONS,
    random_state: RandomState = None,
) -> ShapValues:
    """How much each known value of a row moves the expected output of a predictor.

    The Shapley values of the game v(S) = E[f(X) | x_S], with conditional expectations under the
    model. ``values.sum() == prediction - base_value``, even if they are sampled.

    Parameters
    ----------
    model : Circuit, Mixture or fitted estimator
        In normal form.
    predictor : name or number of a variable, event, or predictor
        As in `expected_prediction`; with two classes the output is that of the second one. What
        gives log-odds is explained in log-odds.
    given : evidence in any form, as in `probability`
        For example rows of 0, 1, or NaN where the value is unknown; or values of the columns of a
        table. Unknown features take no part, and what is no value of one feature (an event, or an
        interval inside a cell) is known from the start.
    target : class of the classifier, optional
        Whose output is explained; needed with more than two classes.
    max_exact : int
        Rows with at most this many known values are exact, from all their subsets; at most 20.
        Others are sampled.
    n_permutations : int
        Number of feature orders to sample, in pairs of an order and its reverse; at least four.
    random_state : int, numpy Generator, RandomState or None
        Seed of the orders. None means 0, so that values are repeatable.

    Returns
    -------
    ShapValues
        `values`, `standard_error`, `base_value`, `prediction` and `is_exact`. The features are the
        columns of the table that the model was learned from, in their order, or its variables.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> found = shap_values(figure_1_circuit(), "X1", {"X3": 1, "X4": 0})
    >>> found.values.round(4)  # all that X4 says about X1, it says about X3
    array([ 0.  ,  0.  , -0.09, -0.03])
    >>> round(found.base_value, 4), round(found.prediction, 4)
    (0.52, 0.4)
    """
    [asked] = ask(model_of(model), predictor, query=QUERY, are_decisions=True)
    form = asked.form
    column = _column(form, target)
    check_count("max_exact", max_exact, 0, MOST_EXACT)
    check_count("n_permutations", n_permutations, 4)
    codes, place, is_single, shift, _ = possible_evidence(asked, given, "given", QUERY)
    everyone = players_of(asked.model)
    generator = generator_from(0 if random_state is None else random_state)
    is_known = everyone.known(codes)
    values, errors = np.zeros(is_known.shape), np.zeros(is_known.shape)
    n_players = is_known.sum(axis=1)
    for row in range(len(codes)):
        players = np.flatnonzero(is_known[row])
        worth = partial(_worth, asked, column, everyone, players, codes[row], shift[row, :, column])
        if n_players[row] <= max_exact:
            values[row, players] = _exact(worth, len(players))
        else:
            found = _sampled(worth, len(players), n_permutations, generator)
            values[row, players], errors[row, players] = found
    nothing = np.full((1, asked.model.n_vars), UNKNOWN, dtype=np.uint8)
    base = float(_expected(asked, column, nothing)[0])
    prediction = _expected(asked, column, codes) + shift.sum(axis=1)[:, column]
    is_exact = n_players <= max_exact
    if is_single:
        return ShapValues(values[0], errors[0], base, float(prediction[0]), bool(is_exact[0]))
    return ShapValues(values[place], errors[place], base, prediction[place], is_exact[place])


def _worth(
    asked: Asked,
    column: int,
    everyone: Players,
    players: AnyArray,
    codes: ByteArray,
    shift: FloatArray,
    is_in: AnyArray,
) -> FloatArray:
    """What sets of the players that a row knows are worth: the expected output given each."""
    worth = _expected(asked, column, everyone.rows(codes, players, is_in))
    chosen = np.zeros((len(is_in), len(everyone.names)))
    chosen[:, players] = is_in
    return worth + chosen[:, everyone.of_lines(asked)] @ shift


def _expected(asked: Asked, column: int, codes: ByteArray) -> FloatArray:
    """The expected output given each row of codes."""
    blocks = [
        decode(codes[start : start + ROWS_AT_ONCE]) for start in range(0, len(codes), ROWS_AT_ONCE)
    ]
    found = [expected_outputs(asked.model, asked.form, rows)[:, column] for rows in blocks]
    return np.concatenate(found)


def _exact(worth_of: Worth, m: int) -> FloatArray:
    """The Shapley values from the worth of all subsets; player i is bit i of a subset's number."""
    subset = np.arange(2**m)
    is_in = (subset[:, np.newaxis] >> np.arange(m) & 1) == 1
    worth = worth_of(is_in)
    size = is_in.sum(axis=1)
    share = np.array([1.0 / (m * math.comb(m - 1, k)) for k in range(m)])
    values = np.empty(m)
    for i in range(m):
        without = subset[~is_in[:, i]]
        values[i] = math.fsum(share[size[without]] * (worth[without | 1 << i] - worth[without]))
    return values


def _sampled(
    worth_of: Worth, m: int, n_permutations: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Means over sampled orders, each with its reverse, and their standard errors."""
    n_pairs = n_permutations // 2
    order = np.array([rng.permutation(m) for _ in range(n_pairs)])
    rank = np.argsort(order, axis=1)
    # Prefixes of every order and of its reverse: the players of a rank below, or at least, k.
    is_in = rank[:, np.newaxis] < np.arange(m + 1)[:, np.newaxis]
    is_in = np.stack([is_in, ~is_in], axis=1)  # (n_pairs, 2, m + 1, m)
    worth = worth_of(is_in.reshape(-1, m)).reshape(n_pairs, 2, m + 1)
    forward, backward = np.diff(worth[:, 0]), -np.diff(worth[:, 1])
    gains = np.empty((n_pairs, m))
    np.put_along_axis(gains, order, 0.5 * (forward + backward), axis=1)
    return gains.mean(axis=0), gains.std(axis=0, ddof=1) / np.sqrt(n_pairs)


def _column(form: Form, target: Any) -> int:
    """The output that is explained."""
    if target is None:
        if form.n_outputs > 2:
            raise ValueError(
                f"The predictor has {form.n_outputs} classes. Set target to the class whose "
                "output to explain."
            )
        return form.n_outputs - 1
    classes = list(range(form.n_outputs)) if form.classes is None else form.classes.tolist()
    mine = classes[-form.n_outputs :]  # one output of two classes is that of the second
    if target not in mine:
        known = quote([str(one) for one in mine])
        raise ValueError(
            f"target must be a class that has an output, one of {known}, but is {target!r}."
        )
    return mine.index(target)
