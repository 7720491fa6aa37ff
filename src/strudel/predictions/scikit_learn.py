"""scikit-learn's models as forms.

In:  a fitted linear model, logistic regression, decision tree, forest or gradient boosting.
Out: `LinearForm` or `LeafForm` over the variables of a model.

Nothing is imported from scikit-learn: linear models are recognised by their `coef_`, models of
trees by the names of their classes. The trees of gradient boosting on histograms are in a private
attribute. Every form is compared with the predictions of its model on a few rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from strudel._names import quote
from strudel._types import NONE, AnyArray, FloatArray
from strudel.predictions.predictor_forms import LeafForm, LinearForm, Link, Output

SUPPORTED = (
    "Use a linear or logistic regression, a decision tree, a forest or gradient boosting of "
    "scikit-learn, a PredictorCircuit, a fitted RegressionCircuit, or an event."
)
N_PROBES = 16  # rows on which a form is compared with the model it was read off
TOLERANCE = 1e-7  # relative; forms add up the same numbers in another order

_TREE = frozenset({"DecisionTreeRegressor", "DecisionTreeClassifier"})
_FOREST = frozenset(
    {
        "RandomForestRegressor",
        "RandomForestClassifier",
        "ExtraTreesRegressor",
        "ExtraTreesClassifier",
    }
)
_BOOSTING = frozenset({"GradientBoostingRegressor", "GradientBoostingClassifier"})
_HISTOGRAMS = frozenset({"HistGradientBoostingRegressor", "HistGradientBoostingClassifier"})
_WITH_TREES = _TREE | _FOREST | _BOOSTING | _HISTOGRAMS


def is_estimator(predictor: Any) -> bool:
    """Whether something is a predictor of scikit-learn, fitted or not."""
    return bool(_kinds(predictor)) and hasattr(predictor, "predict")


def _kinds(predictor: Any) -> set[str]:
    """The names of the scikit-learn classes that something is of."""
    classes = type(predictor).__mro__
    return {kind.__name__ for kind in classes if kind.__module__.split(".")[0] == "sklearn"}


def form_of_estimator(
    model: Any, n_vars: int, feature_names: tuple[str, ...] | None
) -> LinearForm | LeafForm:
    """The form of a fitted scikit-learn model, over the variables of a circuit."""
    kinds = _kinds(model)
    if "Pipeline" in kinds:
        return form_of_estimator(_last_step(model), n_vars, feature_names)
    name = type(model).__name__
    is_linear = not kinds & _WITH_TREES
    if not hasattr(model, "n_features_in_"):
        raise ValueError(f"This {name} is not fitted yet: call fit first.")
    if is_linear and not (hasattr(model, "coef_") and hasattr(model, "intercept_")):
        raise TypeError(f"A {name} is not a known kind of predictor. {SUPPORTED}")
    feature_var = _feature_variables(model, n_vars, feature_names)
    classes = getattr(model, "classes_", None)
    if isinstance(classes, list):
        raise ValueError(
            f"This {name} predicts {len(classes)} targets at once. Fit one classifier for each."
        )
    form: LinearForm | LeafForm
    if is_linear:
        form = _linear_form(model, feature_var, n_vars, classes, feature_names)
    else:
        form = _leaf_form(model, kinds, feature_var, n_vars, classes, feature_names)
    _check_predictions(model, form, feature_var)
    return form


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
    if classes is not None and not hasattr(model, "predict_proba"):
        raise ValueError(
            f"This {type(model).__name__} has no probabilities, so its output is not log-odds. Use "
            "loss='log_loss', or a LogisticRegression."
        )
    coefficients = model.coef_.toarray() if hasattr(model.coef_, "toarray") else model.coef_
    coefficients = np.atleast_2d(np.asarray(coefficients, dtype=np.float64))
    weight = np.zeros((n_vars, len(coefficients)))
    np.add.at(weight, feature_var, coefficients.T)
    bias = np.broadcast_to(np.asarray(model.intercept_, dtype=np.float64), len(coefficients))
    return LinearForm(
        weight, bias.copy(), *_output_and_link(classes, len(bias)), classes, feature_names
    )


def _output_and_link(classes: AnyArray | None, n_outputs: int) -> tuple[Output, Link]:
    """What a sum of weights is: a value, or the log-odds of a class."""
    if classes is None:
        return "value", "identity"
    return "logit", "sigmoid" if n_outputs == 1 else "softmax"


class _Tree(NamedTuple):
    """A tree as arrays: a row goes left where its feature is at most the threshold."""

    left: AnyArray  # NONE at a leaf
    right: AnyArray
    feature: AnyArray
    threshold: AnyArray
    value: FloatArray  # (n_nodes, n_outputs)


def _leaf_form(
    model: Any,
    kinds: set[str],
    feature_var: AnyArray,
    n_vars: int,
    classes: AnyArray | None,
    feature_names: tuple[str, ...] | None,
) -> LeafForm:
    start, literals, tree, values = [0], [], [], []
    for number, one in enumerate(_trees(model, kinds, classes)):
        for path, value in _leaves(one, feature_var):
            literals += path
            start.append(len(literals))
            tree.append(number)
            values.append(value)
    n_outputs = len(values[0])
    output: Output = "value"
    link: Link = "identity"
    if kinds & (_BOOSTING | _HISTOGRAMS):
        output, link = _output_and_link(classes, n_outputs)
    elif classes is not None:
        output = "probability"
    form = LeafForm(
        n_vars,
        np.array(start, dtype=np.int32),
        np.array(literals, dtype=np.int32),
        np.array(tree, dtype=np.int32),
        np.array(values, dtype=np.float64),
        np.zeros(n_outputs),
        output,
        link,
        classes,
        feature_names,
    )
    if kinds & (_BOOSTING | _HISTOGRAMS):  # what boosting starts from is its output less the trees
        zeros = np.zeros((1, n_vars))
        predicted = model.predict if classes is None else model.decision_function
        bias = _scale(model) * _predictions(predicted, zeros[:, feature_var]) - form.evaluate(zeros)
        form.bias[:] = bias[0]
    return form


def _trees(model: Any, kinds: set[str], classes: AnyArray | None) -> Iterator[_Tree]:
    """The trees, their values weighted so that they add up to the model's output."""
    if kinds & _HISTOGRAMS:
        yield from _histogram_trees(model)
        return
    if kinds & _BOOSTING:
        n_outputs = model.estimators_.shape[1]
        for stage in model.estimators_:
            for column, one in enumerate(stage):
                weight = np.zeros((1, n_outputs))
                weight[0, column] = model.learning_rate * _scale(model)
                yield _tree(one.tree_, one.tree_.value[:, :, 0] * weight)
        return
    trees = [model] if kinds & _TREE else model.estimators_
    for one in trees:
        value = one.tree_.value
        if classes is None:
            value = value[:, :, 0]
        else:
            value = value[:, 0] / value[:, 0].sum(axis=1, keepdims=True)
        yield _tree(one.tree_, value / len(trees))


def _tree(tree: Any, value: FloatArray) -> _Tree:
    return _Tree(tree.children_left, tree.children_right, tree.feature, tree.threshold, value)


def _histogram_trees(model: Any) -> Iterator[_Tree]:
    """The same for gradient boosting on histograms, whose trees have no public name."""
    if getattr(model, "loss", None) in ("poisson", "gamma"):
        raise ValueError(
            f"This {type(model).__name__} with loss={model.loss!r} predicts the exponential of a "
            "sum of trees, whose expectation is not exact. Use loss='squared_error'."
        )
    is_categorical = getattr(model, "is_categorical_", None)
    if is_categorical is not None and np.any(is_categorical):
        raise ValueError(
            f"This {type(model).__name__} treats some features as categories. Fit it with "
            "categorical_features=None: 0 and 1 can be used as numbers."
        )
    try:
        stages = [[one.nodes for one in stage] for stage in model._predictors]
        for stage in stages:
            for column, nodes in enumerate(stage):
                value = np.zeros((len(nodes), len(stage)))
                value[:, column] = nodes["value"]
                is_leaf = nodes["is_leaf"].astype(bool)
                yield _Tree(
                    np.where(is_leaf, NONE, nodes["left"].astype(np.int64)),
                    np.where(is_leaf, NONE, nodes["right"].astype(np.int64)),
                    nodes["feature_idx"],
                    nodes["num_threshold"],
                    value,
                )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"The trees of this {type(model).__name__} cannot be read with this version of "
            "scikit-learn. Use GradientBoostingRegressor or GradientBoostingClassifier."
        ) from error


def _scale(model: Any) -> float:
    """How many times its decision function the log-odds of a boosted model are."""
    return 2.0 if getattr(model, "loss", None) == "exponential" else 1.0


def _leaves(tree: _Tree, feature_var: AnyArray) -> Iterator[tuple[list[int], FloatArray]]:
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


def _check_predictions(model: Any, form: LinearForm | LeafForm, feature_var: AnyArray) -> None:
    """Refuse a model that does not predict what its form says."""
    rows = np.random.default_rng(0).integers(0, 2, (N_PROBES, form.n_vars)).astype(np.float64)
    predicted = _predictions(
        model.predict if form.classes is None else model.predict_proba, rows[:, feature_var]
    )
    found = form.probabilities(form.evaluate(rows))
    if found.shape != predicted.shape or not np.allclose(
        found, predicted, rtol=TOLERANCE, atol=TOLERANCE * float(np.abs(predicted).max())
    ):
        raise ValueError(
            f"This {type(model).__name__} does not predict the sum of its "
            f"{'coefficients' if isinstance(form, LinearForm) else 'trees'}, so its expectation "
            f"is not exact. {SUPPORTED}"
        )


def _predictions(method: Any, rows: FloatArray) -> FloatArray:
    """What a model says of complete rows, `(n_rows, n_outputs)`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows of an array have no feature names
        predicted = np.asarray(method(rows), dtype=np.float64)
    return predicted.reshape(len(rows), -1)
