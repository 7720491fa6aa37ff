"""What queries about predictions take: a predictor, and rows of evidence.

In:  a variable of the model, a form, a `PredictorCircuit`, an event, a fitted scikit-learn model,
     or an estimator that holds a predictor circuit as `predictor_`; evidence.
Out: `LinearForm`, `LeafForm`, `CircuitForm` or `EventForm` over exactly the variables of the model;
     distinct rows as codes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from strudel._types import ByteArray, IntArray
from strudel.circuits.predictor import PredictorCircuit
from strudel.logic.event_forms import as_event, is_formula
from strudel.logic.events import need_no_bounds
from strudel.predictions.predictor_forms import CircuitForm, EventForm, Form, LeafForm, LinearForm
from strudel.predictions.ranges import mentioned_variables
from strudel.predictions.scikit_learn import SUPPORTED, form_of_estimator, is_estimator
from strudel.queries.arguments import given_rows, variable_indices
from strudel.queries.marginal import raise_if_impossible
from strudel.queries.model import Model
from strudel.queries.passes import distinct_rows, encode
from strudel.queries.probabilities import log_probabilities


def form_of_decision(model: Model, predictor: Any) -> Form:
    """The form of what decides: a variable of the model, by name or number, or a predictor."""
    names = model.feature_names
    is_number = isinstance(predictor, int | np.integer) and not isinstance(predictor, bool)
    if is_number or (isinstance(predictor, str) and predictor in (names or ())):
        return _variable(model, int(variable_indices(model, predictor, "decision")[0]))
    form = form_of_predictor(predictor, model.n_vars, names)
    if isinstance(form, EventForm):
        event = form.event
        is_not = event.kind == "not"
        if (event.children[0] if is_not else event).kind == "variable":
            return _variable(model, int(mentioned_variables(form)[0]), is_not)
    return form


def _variable(model: Model, var: int, is_not: bool = False) -> LinearForm:
    """A variable or its negation as a sum of one term: sums have better bounds than events."""
    weight = np.zeros((model.n_vars, 1))
    weight[var] = -1.0 if is_not else 1.0
    return LinearForm(weight, np.array([float(is_not)]), output="probability")


def form_of_predictor(
    predictor: Any, n_vars: int, feature_names: Sequence[str] | None = None
) -> Form:
    """The form of a predictor over the variables of a model.

    Predictors that know the names of their features may have them in another order than the model,
    and may leave some out.
    """
    names = None if feature_names is None else tuple(feature_names)
    if isinstance(predictor, PredictorCircuit):
        predictor = CircuitForm(predictor)
    held = getattr(predictor, "predictor_", None)
    if isinstance(held, PredictorCircuit):
        predictor = CircuitForm(held, getattr(predictor, "classes_", None))
    if isinstance(predictor, LinearForm | LeafForm | CircuitForm | EventForm):
        _check_variables(predictor, n_vars, names)
        return predictor
    if is_formula(predictor) or isinstance(predictor, Mapping):
        event = as_event(predictor, n_vars, feature_names)
        need_no_bounds(event, "As a predictor, an event cannot say")
        return EventForm(event, n_vars, names)
    if is_estimator(predictor):
        return form_of_estimator(predictor, n_vars, names)
    is_unfitted = ", or it is not fitted yet" if hasattr(predictor, "fit") else ""
    raise TypeError(
        f"A {type(predictor).__name__} is not a known kind of predictor{is_unfitted}. {SUPPORTED}"
    )


def _check_variables(form: Form, n_vars: int, names: tuple[str, ...] | None) -> None:
    """Refuse a form over other variables than the model's."""
    if form.n_vars != n_vars:
        raise ValueError(
            f"The predictor has {form.n_vars} variables, but the model has {n_vars}. They must be "
            "the same, in the same order."
        )
    mine = form.feature_names
    if mine is not None and names is not None and mine != names:
        var = next(var for var in range(n_vars) if mine[var] != names[var])
        raise ValueError(
            f"The predictor and the model must have the same variables in the same order, but "
            f"variable {var} is {mine[var]!r} in the predictor and {names[var]!r} in the model."
        )


def possible_codes(
    model: Model, given: Any, name: str, query: str
) -> tuple[ByteArray, IntArray, bool]:
    """Rows of evidence as codes, each once; the place of each row; whether it is a single row.

    Impossible rows are refused.
    """
    rows, is_single = given_rows(model, given, name)
    raise_if_impossible(log_probabilities(model, rows, query))
    codes, place = distinct_rows(encode(rows))
    return codes, place, is_single
