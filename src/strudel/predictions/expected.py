"""Expected predictions for rows with unknown values: moments under a model.

In:  a circuit, a mixture or a fitted estimator; a predictor; partly observed rows.
Out: exact expectations of the prediction, of its powers, and its variance, given each row.

Every form has its own method: linear models need the probability of each variable, trees that of
each leaf, predictor circuits a pass over pairs of nodes. The probability of a logistic model is not
a sum, so all states of the unknown variables are enumerated; where these are too many, samples are
drawn, with their standard error.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from strudel._names import quote
from strudel._types import AnyArray, FloatArray
from strudel.algebra.event_probability import event_log_probabilities
from strudel.circuits.compile import compile_factorized
from strudel.circuits.passes import decode, distinct_rows, encode
from strudel.circuits.predictor import PredictorCircuit
from strudel.circuits.walks import raise_if_impossible
from strudel.data.argument_checks import RandomState, check_choice, check_count, generator_from
from strudel.predictions.moments import (
    MAX_LEAF_PAIRS,
    Moments,
    circuit_moments,
    enumerated_moments,
    leaf_moments,
    moments_of_points,
    states_of,
)
from strudel.predictions.predictor_arguments import (
    Asked,
    Evidence,
    ask,
    evidence_of,
    evidence_of_codes,
)
from strudel.predictions.predictor_forms import EventForm, Form, LeafForm, LinearForm
from strudel.queries.by_block import by_block
from strudel.queries.columns.value_probabilities import linear_shares
from strudel.queries.model import Model, model_of
from strudel.queries.probabilities import literal_probabilities, log_probabilities
from strudel.queries.sampling import drawn_bits

MAX_STATES = 2**12  # of what is unknown and matters, per row: some milliseconds
BLOCK_CELLS = 2**24  # of sampled rows

Kind: TypeAlias = Literal["value", "logit", "probability"]


class Estimate(NamedTuple):
    """An expectation by samples, and the standard error of each number; 0 where it is exact."""

    value: float | FloatArray
    standard_error: float | FloatArray


@by_block("given")
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
    model : Circuit, Mixture or fitted estimator
        Smooth and decomposable; in normal form for predictor circuits, and for powers of linear
        models.
    predictor : fitted scikit-learn model, PredictorCircuit, estimator that holds one, or event
        Linear and logistic regressions, decision trees, forests and gradient boosting, over the
        model's variables; or over the columns of its table, also in a pipeline with steps that take
        one column at a time: encoders, scalers, imputers. Regression and logistic circuits, which
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


@by_block("given")
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


def expected_outputs(model: Model, form: Form, rows: FloatArray) -> FloatArray:
    """The expectation of what a form adds up, given rows that are checked and possible.

    Decisions and explanations ask for it: each gets a row of outputs, even if there is only one.
    """
    codes, place = distinct_rows(encode(rows))
    known = evidence_of_codes(codes, place, False, form)
    task = _Task(Asked(model, form, model), known, False, "expected_prediction")
    moments, _ = _exact(task, 1, MAX_STATES, MAX_LEAF_PAIRS)
    return moments.raw(1)[place]


class _Task(NamedTuple):
    """What is asked, checked."""

    asked: Asked
    known: Evidence
    is_linked: bool  # whether probabilities are to be made of log-odds
    query: str

    @property
    def model(self) -> Model:
        """The model that is asked."""
        return self.asked.model

    @property
    def form(self) -> Form:
        """The form of the predictor."""
        return self.asked.form

    def made_of(self, output: FloatArray) -> FloatArray:
        """What is asked for, from what the form adds up."""
        return self.form.probabilities(output) if self.is_linked else output


def _prepare(model: Any, predictor: Any, given: Any, output: Kind | None, query: str) -> _Task:
    [asked] = ask(model_of(model), predictor, query=query)
    form = asked.form
    if output is not None:
        check_choice("output", output, get_args(Kind))
    is_linked = output == "probability" and form.output == "logit"
    if output is not None and output != form.output and not is_linked:
        raise ValueError(
            f"output is {output!r}, but this predictor gives a {form.output}. Leave output=None."
        )
    return _Task(asked, evidence_of(asked, given, "given"), is_linked, query)


def _exact(task: _Task, order: int, max_states: int, max_pairs: int) -> tuple[Moments, AnyArray]:
    """The moments up to an order, and the rows that have too many states for them."""
    check_count("max_states", max_states)
    check_count("max_pairs", max_pairs)
    model, form, query = task.model, task.form, task.query
    codes, place, shift = task.known.codes, task.known.place, task.known.shifts
    is_open = np.zeros(len(codes), dtype=np.bool_)
    if task.is_linked or (isinstance(form, LeafForm) and form.n_trees > 1 and order > 2):
        log_p = log_probabilities(model, decode(codes), query)
        raise_if_impossible(log_p[place])
        states = states_of(model, form, codes, query)
        is_open = (states.n_states > max_states) | ~task.known.knows.all(axis=1)
        moments = enumerated_moments(
            model, form, codes, states, order, task.made_of, ~is_open, shift, query
        )
        return moments, is_open
    if isinstance(form, EventForm):
        return _event_moments(task, form, order), is_open
    if isinstance(form, LinearForm):
        log_p, moments = _linear_moments(model, form, codes, order, query)
        moments = Moments(moments.mean + shift, moments.central)
        if task.asked.lines and order > 1:
            _add_variances(task, moments.central)
    elif isinstance(form, LeafForm):
        log_p, moments = leaf_moments(model, form, codes, order, query, max_pairs)
    else:
        log_p, moments = circuit_moments(model, form.circuit, codes, order, query)
    raise_if_impossible(log_p[place])
    return moments, is_open


def _add_variances(task: _Task, central: FloatArray) -> None:
    """Add what the numbers inside their cells vary, given each row that does not know them."""
    if central.shape[1] > 1 and not task.known.knows.all():
        raise ValueError(
            "From the third moment on, a linear model of numbers is exact only where these are "
            "known. Ask for the first or second moment, or cut the numbers into bins."
        )
    _, ones = literal_probabilities(task.model, task.known.codes, task.query)
    for line, knows in zip(task.asked.lines, task.known.knows.T, strict=True):
        column = line.column
        chance = linear_shares(column, ones[:, column.start : column.stop])
        central[:, 0] += ~knows[:, np.newaxis] * np.einsum("rk,ko->ro", chance, line.variances())


def _linear_moments(
    model: Model, form: LinearForm, codes: AnyArray, order: int, query: str
) -> tuple[FloatArray, Moments]:
    """Log-probability of every row of codes, and the moments given it; NaN where impossible.

    The probability of every variable is enough for the mean. For higher moments a linear model is a
    predictor circuit without a choice: one node at every vtree node.
    """
    if order == 1:
        log_p, ones = literal_probabilities(model, codes, query)
        nothing = np.empty((len(codes), 0, form.n_outputs))
        # Not a matrix product, whose last digits depend on how many rows there are.
        return log_p, Moments(np.einsum("rv,vo->ro", ones, form.weight) + form.bias, nothing)
    structure = compile_factorized(model.vtree)
    weight = np.zeros((2 * form.n_vars, form.n_outputs))
    weight[1::2] = form.weight
    nothing = np.zeros((structure.n_edges, form.n_outputs))
    predictor = PredictorCircuit(structure, weight, nothing, form.bias, "regression")
    return circuit_moments(model, predictor, codes, order, query)


def _event_moments(task: _Task, form: EventForm, order: int) -> Moments:
    """An event is 1 with its probability, else 0."""
    rows = decode(task.known.codes)
    raise_if_impossible(log_probabilities(task.model, rows, task.query)[task.known.place])
    chance = np.exp(event_log_probabilities(task.model, form.event, rows))
    coin = np.broadcast_to(np.array([[0.0], [1.0]]), (len(rows), 2, 1))
    return moments_of_points(np.column_stack([1.0 - chance, chance]), coin, order)


def _raise_if_open(task: _Task, is_open: AnyArray, max_states: int) -> None:
    """Refuse rows whose answer would not be exact."""
    rows = np.flatnonzero(is_open[task.known.place])
    if len(rows) == 0:
        return
    row = int(rows[0])
    at = task.known.place[row : row + 1]
    what = "a probability made of log-odds" if task.is_linked else "this moment of many trees"
    way = (
        "ask for output='logit', whose expectation is exact"
        if task.is_linked
        else "ask for the first or second moment"
    )
    unknown = [
        line.column.name
        for line, knows in zip(task.asked.lines, task.known.knows[at[0]], strict=True)
        if not knows
    ]
    if unknown:
        why = (
            f"Row {row} of X leaves {quote(unknown)} unknown, which the predictor takes as "
            f"{'a number' if len(unknown) == 1 else 'numbers'}: {what} is not exact then. Cut "
            "numbers into bins (KBinsDiscretizer)"
        )
    else:
        states = states_of(task.model, task.form, task.known.codes[at], task.query)
        n_unknown, n_states = int(states.is_asked.sum()), states.n_states[0]
        is_binary = n_states == 2.0**n_unknown
        why = (
            f"Row {row} of X leaves {n_unknown} values unknown that matter to the predictor. For "
            f"{what} all their {f'2**{n_unknown}' if is_binary else f'{n_states:.6g}'} states are "
            f"needed, more than max_states = {max_states}. Allow more"
        )
    raise ValueError(
        f"{why}, {way}, or give n_samples: expected_prediction then draws completions of such rows "
        "and returns an Estimate with its standard error."
    )


def _sampled(
    task: _Task, is_open: AnyArray, moment: int, n_samples: int, random_state: RandomState
) -> tuple[FloatArray, FloatArray]:
    """The moment by samples of each row, and its standard error."""
    rng = generator_from(random_state)
    means, errors = [], []
    rows = np.flatnonzero(is_open)
    block = max(1, BLOCK_CELLS // (n_samples * task.form.n_vars))
    for start in range(0, len(rows), block):
        own = rows[start : start + block]
        some = decode(task.known.codes[own])
        bits = drawn_bits(task.model, some, n_samples, rng)
        output = task.form.evaluate(bits) + np.repeat(task.known.shifts[own], n_samples, axis=0)
        for i, line in enumerate(task.asked.lines):
            knows = np.repeat(task.known.knows[own, i], n_samples)
            output[~knows] += line.draws(bits[~knows], rng)
        value = task.made_of(output)
        power = value.reshape(len(some), n_samples, -1) ** moment
        means.append(power.mean(axis=1))
        errors.append(power.std(axis=1, ddof=1) / np.sqrt(n_samples))
    if not means:
        return np.empty((0, 1)), np.empty((0, 1))
    return np.concatenate(means), np.concatenate(errors)


def _shaped(task: _Task, answer: FloatArray) -> float | FloatArray:
    """One answer per row of X, with an axis for outputs if there are several."""
    answer = answer[task.known.place]
    if answer.shape[1] == 1:
        return float(answer[0, 0]) if task.known.is_single else answer[:, 0]
    return answer[0] if task.known.is_single else answer
