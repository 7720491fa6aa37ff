"""From what people call a predictor to one of the forms.

In:  a form, a `PredictorCircuit`, an event, a fitted scikit-learn model, or an estimator that holds
     a predictor circuit as `predictor_`; the number and names of the model's variables.
Out: `LinearForm`, `LeafForm`, `CircuitForm` or `EventForm` over exactly those variables.

scikit-learn's models are known by the names of their classes, which need no import; what is read
off their arrays is checked against what they predict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from strudel.circuits.predictor import PredictorCircuit
from strudel.logic.event_forms import as_event, is_formula
from strudel.predictions.predictor_forms import CircuitForm, EventForm, Form, LeafForm, LinearForm
from strudel.predictions.scikit_learn import SUPPORTED, form_of_estimator, is_estimator


def predictor_of(predictor: Any, n_vars: int, feature_names: Sequence[str] | None = None) -> Form:
    """The form of a predictor over the variables of a model.

    Parameters
    ----------
    predictor : form, PredictorCircuit, event, or fitted estimator
        A scikit-learn linear model, logistic regression, decision tree, forest or gradient
        boosting; a circuit read from a ``.glc`` or ``.circuit`` file; a fitted estimator that
        holds one as `predictor_`; an event as an `Event`, a string or a formula; or a form itself.
    n_vars : int
        Number of variables of the model.
    feature_names : sequence of str, optional
        Their names. Predictors that know the names of their features may have them in another
        order, and may leave some out.

    Returns
    -------
    LinearForm, LeafForm, CircuitForm or EventForm

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> tree = DecisionTreeRegressor().fit([[0, 0], [0, 1], [1, 0], [1, 1]], [1, 1, 5, 7])
    >>> form = predictor_of(tree, n_vars=2)
    >>> form.leaf_value.ravel()
    array([1., 5., 7.])
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
        return EventForm(as_event(predictor, n_vars, feature_names), n_vars, names)
    if is_estimator(predictor):
        return form_of_estimator(predictor, n_vars, names)
    if hasattr(predictor, "fit"):
        raise TypeError(
            f"A {type(predictor).__name__} is not a predictor that is understood here, or it is "
            f"not fitted yet. {SUPPORTED}"
        )
    raise TypeError(f"A predictor cannot be a {type(predictor).__name__}. {SUPPORTED}")


def _check_variables(form: Form, n_vars: int, names: tuple[str, ...] | None) -> None:
    """Refuse a form over other variables than the model's."""
    if form.n_vars != n_vars:
        raise ValueError(
            f"The predictor is over {form.n_vars} variables, but the model has {n_vars}. They "
            "must be the same, in the same order."
        )
    mine = form.feature_names
    if mine is not None and names is not None and mine != names:
        var = next(var for var in range(n_vars) if mine[var] != names[var])
        raise ValueError(
            f"The predictor and the model must have the same variables in the same order, but "
            f"variable {var} is {mine[var]!r} in the predictor and {names[var]!r} in the model."
        )
