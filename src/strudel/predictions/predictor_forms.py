"""Predictors as flat arrays, whatever library they come from, and what they can still say.

In:  the parameters of a predictor over 0/1 variables, or a fitted linear model, decision tree,
     forest or gradient boosting of scikit-learn.
Out: `LinearForm`, `LeafForm`, `CircuitForm` or `EventForm`; `Ranges`: the least and the largest
     output over all completions of rows that are only partly known, even impossible ones.

Nothing is imported from scikit-learn: linear models are recognised by their `coef_`, models of
trees by the names of their classes. Every form is compared with the predictions of its model on a
few rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy.special import expit, softmax

from strudel._names import find_name, names_of, places_of, quote
from strudel._numba import kernel
from strudel._types import NONE, AnyArray, ByteArray, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.evaluate import evaluate_log
from strudel.circuits.passes import UNKNOWN
from strudel.circuits.predictor import PredictorCircuit
from strudel.data.validation import check_binary
from strudel.logic.events import Event, bounds_of_parts, children_first
from strudel.logic.sdd import FIRST_LITERAL, Sdd
from strudel.tables.predictor_columns import (
    BOOSTING,
    WITH_TREES,
    FittedTree,
    fitted_trees,
    kinds_of,
    scale_of,
)

Output: TypeAlias = Literal["value", "logit", "probability"]
Link: TypeAlias = Literal["identity", "sigmoid", "softmax"]


class PredictorForm:
    """What all forms share: evaluation of complete rows, and probabilities from log-odds."""

    n_vars: int
    bias: FloatArray
    output: Output
    link: Link
    classes: AnyArray | None
    feature_names: tuple[str, ...] | None

    @property
    def n_outputs(self) -> int:
        """Number of columns of `evaluate`."""
        return len(self.bias)

    def evaluate(self, X: Any) -> FloatArray:
        """The output `(n_rows, n_outputs)` for complete rows."""
        table, _ = check_binary(X, n_vars=self.n_vars, feature_names=self.feature_names)
        return self._outputs(table)

    def _outputs(self, table: ByteArray) -> FloatArray:
        raise NotImplementedError

    def probabilities(self, output: FloatArray) -> FloatArray:
        """Probabilities `(..., n_classes)` from outputs `(..., n_outputs)`.

        Probabilities and values come back as they are. The log-odds of two known classes give two
        columns, in the order of `classes`; without classes, one.
        """
        if self.link == "identity":
            return output
        if self.link == "softmax":
            return np.asarray(softmax(output, axis=-1))
        if self.classes is not None and len(self.classes) == 2:
            return np.concatenate([expit(-output), expit(output)], axis=-1)
        return np.asarray(expit(output))


@dataclass(frozen=True, eq=False)
class LinearForm(PredictorForm):
    """A weighted sum of the variables."""

    weight: FloatArray  # (n_vars, n_outputs)
    bias: FloatArray  # (n_outputs,)
    output: Output = "value"
    link: Link = "identity"
    classes: AnyArray | None = None
    feature_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.weight.ndim != 2 or self.bias.shape != self.weight.shape[1:]:
            raise ValueError(
                "weight must have shape (n_vars, n_outputs) and bias (n_outputs,), but they have "
                f"the shapes {self.weight.shape} and {self.bias.shape}."
            )

    @property
    def n_vars(self) -> int:  # type: ignore[override]
        """Number of variables."""
        return len(self.weight)

    def _outputs(self, table: ByteArray) -> FloatArray:
        return table @ self.weight + self.bias


@dataclass(frozen=True, eq=False)
class LeafForm(PredictorForm):
    """A sum over trees of the value at the leaf that a row reaches.

    A leaf is a conjunction of literals, ``2 * variable + value`` each, no variable twice, in the
    order from the root of its tree. The leaves of one tree exclude each other and are complete.
    """

    n_vars: int
    leaf_start: IntArray  # (n_leaves + 1,) literals of leaf l: leaf_start[l]:leaf_start[l + 1]
    leaf_literal: IntArray  # (n_literals,)
    leaf_tree: IntArray  # (n_leaves,) not decreasing
    leaf_value: FloatArray  # (n_leaves, n_outputs), weighted: trees are simply added up
    bias: FloatArray  # (n_outputs,)
    output: Output = "value"
    link: Link = "identity"
    classes: AnyArray | None = None
    feature_names: tuple[str, ...] | None = None

    @property
    def n_leaves(self) -> int:
        """Number of leaves of all trees."""
        return len(self.leaf_tree)

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return int(self.leaf_tree[-1]) + 1 if len(self.leaf_tree) else 0

    def _outputs(self, table: ByteArray) -> FloatArray:
        return self.ranges(table)[0]  # of complete rows both ends are the output

    def ranges(self, codes: AnyArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Least and largest outputs, and how much each variable would narrow them."""
        low, high = np.tile(self.bias, (len(codes), 1)), np.tile(self.bias, (len(codes), 1))
        gain = np.zeros((len(codes), self.n_vars))
        leaves = self.leaf_start, self.leaf_literal, self.leaf_tree, self.leaf_value
        _ranges(codes, *leaves, low, high, gain)
        return low, high, gain


@kernel
def _ranges(
    codes: AnyArray,
    leaf_start: IntArray,
    leaf_literal: IntArray,
    leaf_tree: IntArray,
    leaf_value: FloatArray,
    low: FloatArray,
    high: FloatArray,
    gain: FloatArray,
) -> None:
    """Add up, over the trees, the extremes of the leaves that a row may still reach.

    The range of a tree is added to the `gain` of the variable that it asks for next.
    """
    n_leaves, n_outputs = leaf_value.shape
    least = np.empty(n_outputs)
    most = np.empty(n_outputs)
    for s in range(len(codes)):
        least[:] = np.inf
        most[:] = -np.inf
        asked = NONE
        for l in range(n_leaves):
            if _may_reach(codes[s], leaf_start[l], leaf_start[l + 1], leaf_literal):
                for j in range(n_outputs):
                    least[j] = min(least[j], leaf_value[l, j])
                    most[j] = max(most[j], leaf_value[l, j])
                if asked == NONE:  # all leaves that can be reached ask for the same variable first
                    for i in range(leaf_start[l], leaf_start[l + 1]):
                        if codes[s, leaf_literal[i] // 2] == UNKNOWN:
                            asked = leaf_literal[i] // 2
                            break
            if l + 1 == n_leaves or leaf_tree[l + 1] != leaf_tree[l]:
                low[s] += least
                high[s] += most
                if asked != NONE:
                    for j in range(n_outputs):
                        gain[s, asked] += most[j] - least[j]
                least[:] = np.inf
                most[:] = -np.inf
                asked = NONE


@kernel
def _may_reach(codes: AnyArray, first: int, last: int, leaf_literal: IntArray) -> bool:
    """Whether a row may still satisfy all literals of a leaf."""
    for i in range(first, last):
        code = codes[leaf_literal[i] // 2]
        if code != UNKNOWN and code != leaf_literal[i] % 2:
            return False
    return True


@dataclass(frozen=True, eq=False)
class CircuitForm(PredictorForm):
    """A regression or logistic circuit."""

    circuit: PredictorCircuit
    classes: AnyArray | None = None

    @property
    def output(self) -> Output:  # type: ignore[override]
        """A value or log-odds."""
        return "value" if self.circuit.kind == "regression" else "logit"

    @property
    def link(self) -> Link:  # type: ignore[override]
        """The log-odds of a logistic circuit are of each class against all others."""
        return "identity" if self.circuit.kind == "regression" else "sigmoid"

    @property
    def n_vars(self) -> int:  # type: ignore[override]
        """Number of variables."""
        return self.circuit.n_vars

    @property
    def bias(self) -> FloatArray:  # type: ignore[override]
        """The constant part of the outputs."""
        return self.circuit.bias

    @property
    def feature_names(self) -> tuple[str, ...] | None:  # type: ignore[override]
        """The names of the structure's variables, if they have any."""
        return self.circuit.structure.feature_names

    def _outputs(self, table: ByteArray) -> FloatArray:
        return self.circuit.evaluate(table)


@dataclass(frozen=True, eq=False)
class EventForm(PredictorForm):
    """A logical event: 1 where it holds, 0 where it does not."""

    event: Event
    n_vars: int
    feature_names: tuple[str, ...] | None = None
    output: Output = "probability"
    link: Link = "identity"
    classes: AnyArray | None = None

    @property
    def n_outputs(self) -> int:
        """One: whether the event holds."""
        return 1

    def _outputs(self, table: ByteArray) -> FloatArray:
        holds = self.event.holds(table, self.feature_names)
        return holds.astype(np.float64)[:, np.newaxis]


Form: TypeAlias = LinearForm | LeafForm | CircuitForm | EventForm


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


def mentioned_variables(form: Form) -> AnyArray:
    """The variables that a predictor looks at, in order."""
    if isinstance(form, LinearForm):
        return np.flatnonzero(np.any(form.weight != 0.0, axis=1))
    if isinstance(form, LeafForm):
        return np.unique(form.leaf_literal // 2).astype(np.int64)
    if isinstance(form, EventForm):
        return np.array(sorted(_Truth(form).occurrences), dtype=np.int64)
    return np.arange(form.n_vars)


class Ranges:
    """The outputs that completions of a row can have."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.variables = mentioned_variables(form)
        if isinstance(form, EventForm):
            self._truth = _Truth(form)
        elif isinstance(form, CircuitForm):
            self._misses_rows = _misses_rows(form.circuit.structure)
            self._var_weight = _weight_by_variable(form)

    def bounds(self, codes: AnyArray) -> tuple[FloatArray, FloatArray]:
        """The least and the largest output of each row, `(n_rows, n_outputs)` each."""
        form = self.form
        if isinstance(form, LinearForm):
            return _linear_bounds(form, codes)
        if isinstance(form, EventForm):
            low, high = self._truth.bounds(codes)
            return low[:, np.newaxis].astype(np.float64), high[:, np.newaxis].astype(np.float64)
        if isinstance(form, LeafForm):
            return form.ranges(codes)[:2]
        low = np.empty((len(codes), form.n_outputs))
        high = np.empty_like(low)
        circuit = form.circuit
        _circuit_bounds(
            codes,
            circuit.structure.node_edges,
            circuit.structure.edge_left,
            circuit.structure.edge_right,
            np.ascontiguousarray(circuit.literal_weight),
            np.ascontiguousarray(circuit.edge_weight),
            circuit.bias,
            self._misses_rows,
            low,
            high,
        )
        return low, high

    def next_variables(self, codes: AnyArray) -> IntArray:
        """The unknown variable of each row that narrows the output most; NONE if none is left.

        For a tree it is the first unknown one on the path, so that a search visits no more rows
        than the tree has nodes.
        """
        gain = self._gains(codes)
        gain[codes[:, self.variables] != UNKNOWN] = -1.0
        if gain.shape[1] == 0:
            return np.full(len(codes), NONE, dtype=np.int32)
        best = gain.argmax(axis=1)
        found = self.variables[best].astype(np.int32)
        found[gain[np.arange(len(codes)), best] < 0.0] = NONE
        return found

    def _gains(self, codes: AnyArray) -> FloatArray:
        """How much each of `variables` narrows the output, zero or more."""
        form = self.form
        if isinstance(form, LinearForm):
            spread = np.abs(form.weight[self.variables]).max(axis=1, initial=0.0)
            return np.tile(spread, (len(codes), 1))
        if isinstance(form, EventForm):
            return self._truth.gains(codes)[:, self.variables]
        if isinstance(form, CircuitForm):
            return np.tile(self._var_weight, (len(codes), 1))
        return form.ranges(codes)[2][:, self.variables]


def _linear_bounds(form: LinearForm, codes: AnyArray) -> tuple[FloatArray, FloatArray]:
    known = (codes == 1).astype(np.float64) @ form.weight + form.bias
    is_unknown = (codes == UNKNOWN).astype(np.float64)
    low = known + is_unknown @ np.minimum(form.weight, 0.0)
    return low, known + is_unknown @ np.maximum(form.weight, 0.0)


def _misses_rows(structure: Circuit) -> bool:
    """Whether some row takes no edge of the root, so that only the bias is left of it."""
    ones = structure.with_parameters(np.zeros(structure.n_edges))
    log_count = evaluate_log(ones, np.full((1, structure.n_vars), np.nan))[0]
    return bool(log_count < structure.n_vars * np.log(2.0) - 1e-9)


def _weight_by_variable(form: CircuitForm) -> FloatArray:
    """How much weight lies on the literals of each variable and on the edges right above them."""
    circuit = form.circuit
    n_literals = 2 * circuit.n_vars
    weight = np.abs(circuit.literal_weight).max(axis=1, initial=0.0)
    edge = np.abs(circuit.edge_weight).max(axis=1, initial=0.0)
    for child in (circuit.structure.edge_left, circuit.structure.edge_right):
        is_literal = (child >= 0) & (child < n_literals)
        np.maximum.at(weight, child[is_literal], edge[is_literal])
    return np.asarray(weight.reshape(-1, 2).sum(axis=1))


@kernel
def _circuit_bounds(
    codes: AnyArray,
    node_edges: IntArray,
    edge_left: IntArray,
    edge_right: IntArray,
    literal_weight: FloatArray,
    edge_weight: FloatArray,
    bias: FloatArray,
    misses_rows: bool,
    low: FloatArray,
    high: FloatArray,
) -> None:
    """One pass up per row: a product adds the ranges of its children, a sum joins its edges'.

    A node that no completion satisfies has the empty range, from inf to -inf.
    """
    n_rows, n_vars = codes.shape
    n_nodes, n_outputs = len(node_edges) - 1, low.shape[1]
    least = np.empty((n_nodes, n_outputs))
    most = np.empty((n_nodes, n_outputs))
    for s in range(n_rows):
        is_complete = True
        for literal in range(2 * n_vars):
            code = codes[s, literal // 2]
            is_complete &= code != UNKNOWN
            if code == UNKNOWN or code == literal % 2:
                least[literal] = literal_weight[literal]
                most[literal] = literal_weight[literal]
            else:
                least[literal] = np.inf
                most[literal] = -np.inf
        for n in range(2 * n_vars, n_nodes):
            least[n] = np.inf
            most[n] = -np.inf
            for e in range(node_edges[n], node_edges[n + 1]):
                for j in range(n_outputs):
                    down = least[edge_left[e], j] + edge_weight[e, j]
                    up = most[edge_left[e], j] + edge_weight[e, j]
                    if edge_right[e] != NONE:
                        down += least[edge_right[e], j]
                        up += most[edge_right[e], j]
                    least[n, j] = min(least[n, j], down)
                    most[n, j] = max(most[n, j], up)
        for j in range(n_outputs):
            down, up = least[n_nodes - 1, j], most[n_nodes - 1, j]
            if down > up:
                down, up = 0.0, 0.0
            elif misses_rows and not is_complete:
                down, up = min(down, 0.0), max(up, 0.0)
            low[s, j] = bias[j] + down
            high[s, j] = bias[j] + up


class _Truth:
    """An event on partly known rows: whether it must hold, and whether it may."""

    def __init__(self, form: EventForm) -> None:
        self._event, self._n_vars = form.event, form.n_vars
        self._parts = list(children_first(form.event))
        self._place = places_of(names_of(form.n_vars, form.feature_names))
        self._var = {
            id(part): find_name(part.var, self._place, "The event")
            for part, _ in self._parts
            if part.kind == "variable"
        }
        self.occurrences = set(self._var.values())
        for part, _ in self._parts:
            if part.sdd is not None:
                self.occurrences |= set(_sdd_variables(part.sdd).tolist())

    def bounds(self, codes: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Whether each row satisfies the event for sure, and whether it possibly does."""
        return bounds_of_parts(self._event, codes, self._place)[id(self._event)]

    def gains(self, codes: AnyArray) -> FloatArray:
        """For each variable, how many parts that still matter mention it."""
        bounds = bounds_of_parts(self._event, codes, self._place)
        is_open = {key: low != high for key, (low, high) in bounds.items()}
        matters = {key: np.zeros(len(codes), dtype=np.bool_) for key in bounds}
        gain = np.zeros((len(codes), self._n_vars))
        last = id(self._event)
        matters[last] = is_open[last]
        for part, operands in reversed(self._parts):
            here = matters[id(part)]
            for child in operands:
                matters[id(child)] |= here & is_open[id(child)]
                if child.kind == "variable":
                    gain[:, self._var[id(child)]] += here & is_open[id(child)]
            if part.sdd is not None:
                gain[:, _sdd_variables(part.sdd)] += here[:, np.newaxis]
        if self._event.kind == "variable":
            gain[:, self._var[last]] += matters[last]
        return gain


def _sdd_variables(sdd: Sdd) -> AnyArray:
    """The variables of all literals that some decision uses, or of the root."""
    used = np.concatenate([sdd.element_prime, sdd.element_sub, [sdd.root]])
    used = used[(used >= FIRST_LITERAL) & (used < sdd.first_decision)]
    return np.unique((used - FIRST_LITERAL) // 2).astype(np.int64)
