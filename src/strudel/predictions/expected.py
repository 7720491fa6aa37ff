"""Expected predictions for rows with unknown values: moments under a model.

In:  a circuit, a mixture or a fitted estimator; a predictor; partly observed rows.
Out: exact expectations of the prediction, of its powers, and its variance, given each row.

Every form has its own method: linear models need the probability of each variable, trees that of
each leaf, predictor circuits a pass over pairs of nodes. The probability of a logistic model is not
a sum, so all states of the unknown variables are enumerated; where these are too many, samples are
drawn, with their standard error.
"""

from __future__ import annotations

from itertools import compress
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from strudel._names import quote
from strudel._types import AnyArray, FloatArray
from strudel.circuits.walks import raise_if_impossible
from strudel.data.argument_checks import RandomState, check_choice, check_count, generator_from
from strudel.predictions.asked import Asked, ask_about
from strudel.predictions.forms import LeafForm
from strudel.predictions.moments import (
    MAX_LEAF_PAIRS,
    Moments,
    enumerated_moments,
    moments_of,
    states_of,
)
from strudel.queries.by_block import lazily
from strudel.queries.cells import cell_probabilities
from strudel.queries.sampling import draw_cells

MAX_STATES = 2**12  # of what is unknown and matters, per row: some milliseconds
BLOCK_CELLS = 2**24  # of sampled rows

Kind: TypeAlias = Literal["value", "logit", "probability"]


class Estimate(NamedTuple):
    """An expectation by samples, and the standard error of each number; 0 where it is exact."""

    value: float | FloatArray
    standard_error: float | FloatArray


@lazily("given")
def expected_prediction(
    model: Any,
    predictor: Any,
    given: Any,
    moment: int = 1,
    *,
    output: Kind | None = None,
    max_states: int = MAX_STATES,
    max_pairs: int = MAX_LEAF_PAIRS,
    n_samples: int | None = None,
    random_state: RandomState = None,
) -> float | FloatArray | Estimate:
    """Expectation of a prediction, or of a power of it, given what is known of each row.

    Parameters
    ----------
    model : Circuit or fitted estimator
    predictor : fitted scikit-learn model, PredictorCircuit, estimator that holds one, or event
        Linear and logistic regressions, decision trees, forests and gradient boosting, over columns
        of the model's table, also in a pipeline with steps that take one column at a time:
        encoders, scalers, imputers. Regression and logistic circuits of 0/1 variables, which
        must be on the model's vtree; anything that `probability` takes for an event, which counts
        as 1 where it holds and 0 elsewhere.
    given : evidence in any form, as in `probability`
        For example rows of 0, 1, or NaN where the value is unknown; or values of the columns of a
        table.
    moment : int
        Which power of the prediction: 1 is the expected prediction itself.
    output : {"value", "logit", "probability"}, optional
        What is predicted. By default what the predictor adds up: the value of a regression, the
        class probabilities of a tree or a forest, the log-odds of a logistic regression, a
        logistic circuit or a boosted classifier. For the last three, "probability" asks for the
        probability of each class.
    max_states : int
        If no other way is exact, the limit per row on the states of the unknown variables that
        matter to the predictor: for probabilities made of log-odds, and from the third moment on
        for sums of trees.
    max_pairs : int
        Limit on the pairs of leaves, of all rows together, for the second moment of a sum of trees.
    n_samples : int, optional
        Completions to draw for each row that has too many states. The answer is then an `Estimate`,
        even where it is exact.
    random_state : int, numpy Generator, RandomState or None
        Seed of the samples.

    Returns
    -------
    ndarray of shape (n_rows,), or (n_rows, n_outputs) if there are several
        Without the first axis, a number if there is one output, when `given` is a single row. Class
        probabilities have one column per class, in the order of the predictor's `classes_`.

    Raises
    ------
    ValueError
        If a row has probability zero; if the answer is not exact within `max_states` or
        `max_pairs`; if the predictor is over other variables or on another vtree.
    TypeError
        If a step of a pipeline makes a feature of several columns.

    Warns
    -----
    CutCellsWarning
        If trees cut a cell of the model, so that the density inside it takes part. The cells of
        ``TableEncoder(edges=predictor)`` end where they cut.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from strudel.circuits import figure_1_circuit
    >>> rows = np.indices((2, 2, 2, 2)).reshape(4, -1).T  # all sixteen
    >>> tree = DecisionTreeRegressor().fit(rows, 10.0 + 10.0 * rows[:, 0] * (1 + rows[:, 1]))
    >>> circuit = figure_1_circuit()
    >>> round(expected_prediction(circuit, tree, {"X1": 1}), 4)  # 20 + 10 P(X2 = 1 | X1 = 1)
    26.8462
    """
    check_count("moment", moment)
    check_count("n_samples", n_samples, 2, may_be_none=True)
    task = _prepare(model, predictor, given, output, "expected_prediction")
    moments, is_open = _exact(task, int(moment), max_states, max_pairs)
    value = moments.raw(int(moment))
    if n_samples is None:
        _raise_if_open(task, is_open, max_states)
        return _shaped(task, value)
    error = np.zeros_like(value)
    value[is_open], error[is_open] = _sampled(task, is_open, int(moment), n_samples, random_state)
    return Estimate(_shaped(task, value), _shaped(task, error))


@lazily("given")
def prediction_variance(
    model: Any,
    predictor: Any,
    given: Any,
    *,
    output: Kind | None = None,
    max_states: int = MAX_STATES,
    max_pairs: int = MAX_LEAF_PAIRS,
) -> float | FloatArray:
    """Variance of a prediction, given what is known of each row.

    Zero if all that matters is known. More exact than the second moment minus the square of the
    first, because no large numbers are subtracted.

    Parameters
    ----------
    model, predictor, given, output, max_states, max_pairs
        As in `expected_prediction`.

    Returns
    -------
    ndarray of shape (n_rows,), or (n_rows, n_outputs) if there are several
        Without the first axis when `given` is a single row.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from strudel.circuits import figure_1_circuit
    >>> rows = np.indices((2, 2, 2, 2)).reshape(4, -1).T  # all sixteen
    >>> line = LinearRegression().fit(rows, 3.0 * rows[:, 2])
    >>> round(prediction_variance(figure_1_circuit(), line, {}), 4)  # 9 * 0.6 * 0.4
    2.16
    """
    task = _prepare(model, predictor, given, output, "prediction_variance")
    moments, is_open = _exact(task, 2, max_states, max_pairs)
    _raise_if_open(task, is_open, max_states)
    return _shaped(task, np.maximum(moments.central[:, 0], 0.0))


class _Task(NamedTuple):
    """What is asked, checked."""

    asked: Asked
    is_linked: bool  # whether probabilities are to be made of log-odds
    query: str

    def made_of(self, output: FloatArray) -> FloatArray:
        """What is asked for, from what the form adds up."""
        return self.asked.form.said.probabilities(output) if self.is_linked else output


def _prepare(model: Any, predictor: Any, given: Any, output: Kind | None, query: str) -> _Task:
    [asked] = ask_about(model, [predictor], given)
    own = asked.form.said.output
    if output is not None:
        check_choice("output", output, get_args(Kind))
    is_linked = output == "probability" and own == "logit"
    if output is not None and output != own and not is_linked:
        raise ValueError(
            f"output is {output!r}, but this predictor gives a {own}. Leave output=None."
        )
    return _Task(asked, is_linked, query)


def _exact(task: _Task, order: int, max_states: int, max_pairs: int) -> tuple[Moments, AnyArray]:
    """The moments up to an order, and the rows that have too many states for them."""
    check_count("max_states", max_states)
    check_count("max_pairs", max_pairs)
    asked = task.asked
    form, known, codes = asked.form, asked.known, asked.codes
    is_open = np.zeros(len(codes), dtype=np.bool_)
    if task.is_linked or (isinstance(form, LeafForm) and form.n_trees > 1 and order > 2):
        asked.raise_if_impossible()
        states = states_of(form, known, codes)
        is_open = (states.n_states > max_states) | ~asked.knows.all(axis=1)
        return enumerated_moments(asked, states, order, task.made_of, ~is_open), is_open
    log_p, moments = moments_of(form, known, codes, order, task.query, max_pairs)
    raise_if_impossible(log_p[asked.place])
    moments = Moments(moments.mean + asked.shifts, moments.central)
    if form.lines and order > 1:
        _add_variances(asked, moments.central)
    return moments, is_open


def _add_variances(asked: Asked, central: FloatArray) -> None:
    """Add what the numbers inside their cells vary, given each row that does not know them."""
    if central.shape[1] > 1 and not asked.knows.all():
        raise ValueError(
            "From the third moment on, a linear model of numbers is exact only where these are "
            "known. Ask for the first or second moment, or cut the numbers into bins."
        )
    places = [line.place for line in asked.form.lines]
    _, chances = cell_probabilities(asked.circuit, asked.evidence, places)
    for line, chance, knows in zip(asked.form.lines, chances, asked.knows.T, strict=True):
        central[:, 0] += ~knows[:, np.newaxis] * (chance @ line.variances())


def _raise_if_open(task: _Task, is_open: AnyArray, max_states: int) -> None:
    """Refuse rows whose answer would not be exact."""
    asked = task.asked
    rows = np.flatnonzero(is_open[asked.place])
    if len(rows) == 0:
        return
    row = int(rows[0])
    at = asked.place[row : row + 1]
    what, way = "this moment of many trees", "ask for the first or second moment"
    if task.is_linked:
        what = "a probability made of log-odds"
        way = "ask for output='logit', whose expectation is exact"
    names = [line.column.name for line in asked.form.lines]
    unknown = list(compress(names, ~asked.knows[at[0]]))
    if unknown:
        why = (
            f"Row {row} of X leaves {quote(unknown)} unknown, which the predictor takes as "
            f"{'a number' if len(unknown) == 1 else 'numbers'}: {what} is not exact then. Cut "
            "numbers into bins (KBinsDiscretizer)"
        )
    else:
        states = states_of(asked.form, asked.known, asked.codes[at])
        n_unknown, n_states = int(states.is_asked.sum()), states.n_states[0]
        number = f"2**{n_unknown}" if n_states == 2.0**n_unknown else f"{n_states:.6g}"
        why = (
            f"Row {row} of X leaves {n_unknown} values unknown that matter to the predictor. For "
            f"{what} all their {number} states are needed, more than max_states = {max_states}. "
            "Allow more"
        )
    raise ValueError(
        f"{why}, {way}, or give n_samples: expected_prediction then draws completions of such rows "
        "and returns an Estimate with its standard error."
    )


def _sampled(
    task: _Task, is_open: AnyArray, moment: int, n_samples: int, random_state: RandomState
) -> tuple[FloatArray, FloatArray]:
    """The moment by samples of each row, and its standard error."""
    asked, rng = task.asked, generator_from(random_state)
    means, errors = [np.empty((0, 1))], [np.empty((0, 1))]
    rows = np.flatnonzero(is_open)
    first = np.unique(asked.place, return_index=True)[1]  # of the evidence, by distinct row
    block = max(1, BLOCK_CELLS // (n_samples * asked.codes.shape[1]))
    for start in range(0, len(rows), block):
        own = rows[start : start + block]
        drawn = draw_cells(asked.circuit, asked.evidence.take(first[own]), n_samples, rng)
        cells = drawn.reshape(-1, drawn.shape[2])
        output = asked.form.evaluate(cells) + np.repeat(asked.shifts[own], n_samples, axis=0)
        for i, line in enumerate(asked.form.lines):
            knows = np.repeat(asked.knows[own, i], n_samples)
            output[~knows] += line.draws(cells[~knows, line.place], rng)
        value = task.made_of(output)
        power = value.reshape(len(own), n_samples, -1) ** moment
        means.append(power.mean(axis=1))
        errors.append(power.std(axis=1, ddof=1) / np.sqrt(n_samples))
    return np.concatenate(means[1:] or means), np.concatenate(errors[1:] or errors)


def _shaped(task: _Task, answer: FloatArray) -> float | FloatArray:
    """One answer per row of X, with an axis for outputs if there are several."""
    answer = answer[task.asked.place]
    if answer.shape[1] == 1:
        return float(answer[0, 0]) if task.asked.is_single else answer[:, 0]
    return answer[0] if task.asked.is_single else answer
