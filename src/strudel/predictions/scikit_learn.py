"""scikit-learn's models as forms.

In:  a fitted linear model, logistic regression, decision tree, forest or gradient boosting.
Out: `LinearForm` or `LeafForm` over the variables of a model.

Nothing is imported from scikit-learn: linear models are recognised by their `coef_`, models of
trees by the names of their classes. Every form is compared with the predictions of its model on a
few rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from strudel._names import quote
from strudel._types import NONE, AnyArray, FloatArray
from strudel.predictions.predictor_forms import LeafForm, LinearForm, Link, Output
from strudel.tables.fitted_trees import (
    BOOSTING,
    WITH_TREES,
    FittedTree,
    fitted_trees,
    kinds_of,
    scale_of,
)

SUPPORTED = (
    "Use a linear or logistic regression, a decision tree, a forest or gradient boosting of "
    "scikit-learn, a PredictorCircuit, a fitted RegressionCircuit, or an event."
)
N_PROBES = 16  # rows on which a form is compared with the model it was read off
TOLERANCE = 1e-7  # relative; forms add up the same numbers in another order


def is_estimator(predictor: Any) -> bool:
    """Whether something is a predictor of scikit-learn, fitted or not."""
    return bool(kinds_of(predictor)) and hasattr(predictor, "predict")


def form_of_estimator(
    model: Any, n_vars: int, feature_names: tuple[str, ...] | None
) -> LinearForm | LeafForm:
    """The form of a fitted scikit-learn model, over the variables of a circuit."""
    if "Pipeline" in kinds_of(model):
        return form_of_estimator(_last_step(model), n_vars, feature_names)
    classes = check_estimator(model)
    feature_var = _feature_variables(model, n_vars, feature_names)
    form: LinearForm | LeafForm
    if is_linear(model):
        form = _linear_form(model, feature_var, n_vars, classes, feature_names)
    else:
        form = _leaf_form(model, feature_var, n_vars, classes, feature_names)
    rows = np.random.default_rng(0).integers(0, 2, (N_PROBES, n_vars)).astype(np.float64)
    check_predictions(model, form, rows[:, feature_var], form.evaluate(rows))
    return form


def is_linear(model: Any) -> bool:
    """Whether a predictor adds up its features; all others that are known have trees."""
    return not kinds_of(model) & WITH_TREES


def check_estimator(model: Any) -> AnyArray | None:
    """Refuse a model that has no form; returns its classes, if it has any."""
    name = type(model).__name__
    if not hasattr(model, "n_features_in_"):
        raise ValueError(f"This {name} is not fitted yet: call fit first.")
    if is_linear(model) and not (hasattr(model, "coef_") and hasattr(model, "intercept_")):
        raise TypeError(f"A {name} is not a known kind of predictor. {SUPPORTED}")
    classes: AnyArray | None = getattr(model, "classes_", None)
    if isinstance(classes, list):
        raise ValueError(
            f"This {name} predicts {len(classes)} targets at once. Fit one classifier for each."
        )
    return classes


def _last_step(pipeline: Any) -> Any:
    for name, step in pipeline.steps[:-1]:
        if step is not None and step != "passthrough":
            raise ValueError(
                f"The predictor is a pipeline whose step {name!r} changes the rows before they are "
                "used. Apply it to the table first, so that the predictor and the model are over "
                "the same 0/1 columns, and pass the last step alone."
            )
    return pipeline.steps[-1][1]


def _feature_variables(model: Any, n_vars: int, feature_names: tuple[str, ...] | None) -> AnyArray:
    """For every feature of the predictor, the variable of the model that it is."""
    kind = type(model).__name__
    names = getattr(model, "feature_names_in_", None)
    if names is not None and feature_names is not None:
        place = {name: var for var, name in enumerate(feature_names)}
        missing = [str(name) for name in names if name not in place]
        if missing:
            raise ValueError(
                f"This {kind} uses the features {quote(missing)}, which the model does not have. "
                "The model must be over all features of the predictor."
            )
        return np.array([place[name] for name in names], dtype=np.int64)
    if model.n_features_in_ != n_vars:
        raise ValueError(
            f"This {kind} has {model.n_features_in_} features, but the model has {n_vars} "
            "variables. Give both the same columns in the same order, or name those of both."
        )
    return np.arange(n_vars)


def _linear_form(
    model: Any,
    feature_var: AnyArray,
    n_vars: int,
    classes: AnyArray | None,
    feature_names: tuple[str, ...] | None,
) -> LinearForm:
    coefficients, bias = linear_parts(model, classes)
    weight = np.zeros((n_vars, len(bias)))
    np.add.at(weight, feature_var, coefficients)
    output, link = output_and_link(model, classes, len(bias))
    return LinearForm(weight, bias, output, link, classes, feature_names)


def linear_parts(model: Any, classes: AnyArray | None) -> tuple[FloatArray, FloatArray]:
    """The coefficients `(n_features, n_outputs)` of a linear model, and its intercepts."""
    if classes is not None and not hasattr(model, "predict_proba"):
        raise ValueError(
            f"This {type(model).__name__} has no probabilities, so its output is not log-odds. Use "
            "loss='log_loss', or a LogisticRegression."
        )
    coefficients = model.coef_.toarray() if hasattr(model.coef_, "toarray") else model.coef_
    coefficients = np.atleast_2d(np.asarray(coefficients, dtype=np.float64))
    bias = np.broadcast_to(np.asarray(model.intercept_, dtype=np.float64), len(coefficients))
    return coefficients.T, bias.copy()


def output_and_link(model: Any, classes: AnyArray | None, n_outputs: int) -> tuple[Output, Link]:
    """What a predictor adds up: a value, a probability, or the log-odds of a class."""
    if classes is None:
        return "value", "identity"
    if not is_linear(model) and not kinds_of(model) & BOOSTING:
        return "probability", "identity"
    return "logit", "sigmoid" if n_outputs == 1 else "softmax"


def _leaf_form(
    model: Any,
    feature_var: AnyArray,
    n_vars: int,
    classes: AnyArray | None,
    feature_names: tuple[str, ...] | None,
) -> LeafForm:
    if np.any(getattr(model, "is_categorical_", False)):
        raise ValueError(
            f"This {type(model).__name__} treats some features as categories. Fit it with "
            "categorical_features=None: 0 and 1 can be used as numbers."
        )
    leaves = [_leaves(tree, feature_var) for tree in fitted_trees(model, classes)]
    form = form_of_leaves(model, leaves, n_vars, classes, feature_names)
    if kinds_of(model) & BOOSTING:
        zeros = np.zeros((1, n_vars))
        form.bias[:] = boosting_start(model, classes, zeros[:, feature_var], form.evaluate(zeros))
    return form


def form_of_leaves(
    model: Any,
    trees: Iterable[Iterable[tuple[list[int], FloatArray]]],
    n_vars: int,
    classes: AnyArray | None,
    feature_names: tuple[str, ...] | None,
) -> LeafForm:
    """The form of trees, of which each is its leaves: literals and a value."""
    start, literals, number, values = [0], [], [], []
    for place, leaves in enumerate(trees):
        for path, value in leaves:
            literals += path
            start.append(len(literals))
            number.append(place)
            values.append(value)
    n_outputs = len(values[0])
    output, link = output_and_link(model, classes, n_outputs)
    return LeafForm(
        n_vars,
        np.array(start, dtype=np.int32),
        np.array(literals, dtype=np.int32),
        np.array(number, dtype=np.int32),
        np.array(values, dtype=np.float64),
        np.zeros(n_outputs),
        output,
        link,
        classes,
        feature_names,
    )


def boosting_start(
    model: Any, classes: AnyArray | None, row: Any, output: FloatArray
) -> FloatArray:
    """What boosting starts from: its output for a row less that of the trees."""
    predicted = model.predict if classes is None else model.decision_function
    last = model.steps[-1][1] if "Pipeline" in kinds_of(model) else model
    return np.asarray(scale_of(last) * _predictions(predicted, row) - output)[0]


def _leaves(tree: FittedTree, feature_var: AnyArray) -> Iterator[tuple[list[int], FloatArray]]:
    """The leaves that some 0/1 row reaches, each with its literals in the order from the root."""
    todo: list[tuple[int, dict[int, int]]] = [(0, {})]
    left, right = tree.left.tolist(), tree.right.tolist()
    feature, threshold = tree.feature.tolist(), tree.threshold.tolist()
    while todo:
        node, known = todo.pop()
        if left[node] == NONE:
            yield [2 * var + value for var, value in known.items()], tree.value[node]
            continue
        var = int(feature_var[feature[node]])
        for value in (1, 0):  # 0 is popped first
            if known.get(var, value) == value:
                child = left[node] if value <= threshold[node] else right[node]
                todo.append((child, {**known, var: value}))


def check_predictions(
    model: Any, form: LinearForm | LeafForm, rows: Any, output: FloatArray
) -> None:
    """Refuse a model that does not predict what its form gives for the same rows."""
    predicted = _predictions(model.predict if form.classes is None else model.predict_proba, rows)
    found = form.probabilities(output)
    if found.shape != predicted.shape or not np.allclose(
        found, predicted, rtol=TOLERANCE, atol=TOLERANCE * float(np.abs(predicted).max())
    ):
        raise ValueError(
            f"This {type(model).__name__} does not predict the sum of its "
            f"{'coefficients' if isinstance(form, LinearForm) else 'trees'}, so its expectation "
            f"is not exact. {SUPPORTED}"
        )


def _predictions(method: Any, rows: Any) -> FloatArray:
    """What a model says of complete rows, `(n_rows, n_outputs)`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows of an array have no feature names
        predicted = np.asarray(method(rows), dtype=np.float64)
    return predicted.reshape(len(rows), -1)
