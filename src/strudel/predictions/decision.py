"""Decisions: which class a predictor stands for, once its output is known well enough.

In:  what decides (a variable of the model, an event, a classifier, any predictor) and a threshold.
Out: `Decision`: the predictor's margins, and labels from intervals of them.

With two labels the margin is the output itself, and label 1 is to reach the threshold. Classifiers
of scikit-learn give ties to the first class, and so do they here: their label 1 is to exceed it.
With more classes there is one margin for every two of them, their difference, and the label is the
class that wins all of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logit

from strudel._types import AnyArray, FloatArray, IntArray
from strudel.circuits.predictor import PredictorCircuit
from strudel.predictions.agreement_search import OPEN
from strudel.predictions.predictor_forms import CircuitForm, EventForm, Form, LeafForm, LinearForm
from strudel.predictions.ranges import Ranges, mentioned_variables
from strudel.predictions.recognise import predictor_of
from strudel.queries.arguments import variable_indices
from strudel.queries.model import Model
from strudel.queries.passes import UNKNOWN

TIE = 1e-12  # margins this small, relative to the largest output, are taken for zero


@dataclass(frozen=True, eq=False)
class Decision:
    """A predictor and how it decides."""

    form: Form
    margins: Form  # the same predictor, with one output for each comparison
    matrix: FloatArray  # (n_outputs, n_margins) from outputs to margins
    cut: float  # what a margin is compared with
    classes: AnyArray | None  # what the labels 0, 1, ... are called
    n_labels: int
    is_strict: bool  # whether a tie is label 0
    tie: float

    def labels(self, low: FloatArray, high: FloatArray) -> IntArray:
        """The label of each row with margins between `low` and `high`, or OPEN."""
        label = np.full(len(low), OPEN, dtype=np.int32)
        if self.n_labels == 2:
            label[self._reaches(low[:, 0])] = 1
            label[~self._reaches(high[:, 0])] = 0
            return label
        for mine in range(self.n_labels):
            wins = np.ones(len(low), dtype=np.bool_)
            for column, (a, b) in enumerate(_pairs(self.n_labels)):
                if b == mine:
                    wins &= low[:, column] > self.tie
                elif a == mine:
                    wins &= high[:, column] <= self.tie
            label[wins] = mine
        return label

    def _reaches(self, margin: FloatArray) -> AnyArray:
        less = margin - self.cut
        return less > self.tie if self.is_strict else less >= -self.tie

    def labels_of(self, output: FloatArray) -> IntArray:
        """The label of each row with these outputs `(n_rows, n_outputs)` of the predictor."""
        margin = output @ self.matrix
        return self.labels(margin, margin)

    def score(self, output: FloatArray) -> FloatArray:
        """The outputs as people want them: with two labels, that of label 1 alone."""
        return output[:, -1] if self.n_labels == 2 else output

    def name(self, label: int) -> Any:
        """What a label is called: a class, or the number itself."""
        return label if self.classes is None else self.classes.tolist()[label]

    def names(self, labels: IntArray) -> AnyArray:
        """What several labels are called."""
        return labels if self.classes is None else self.classes[labels]


def decision_of(model: Model, decision: Any, threshold: float = 0.5) -> Decision:
    """The decision that a variable, an event or a predictor makes.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> decision = decision_of(figure_1_circuit(), "X1", threshold=0.3)
    >>> decision.cut, decision.form.weight.ravel()
    (0.3, array([1., 0., 0., 0.]))
    """
    form = form_of(model, decision)
    n_outputs = form.n_outputs
    cut = _cut(form, threshold)
    if cut is not None:
        matrix = np.zeros((n_outputs, 1))
        matrix[-1] = 1.0
    else:
        pairs = _pairs(n_outputs)
        matrix = np.zeros((n_outputs, len(pairs)))
        for column, (a, b) in enumerate(pairs):
            matrix[a, column], matrix[b, column] = -1.0, 1.0
    margins = _with_columns(form, matrix)
    nothing = np.full((1, form.n_vars), UNKNOWN, dtype=np.uint8)
    ends = Ranges(margins).bounds(nothing)
    scale = max(float(np.abs(end).max(initial=0.0)) for end in (*ends, np.array([cut or 0.0])))
    return Decision(
        form=form,
        margins=margins,
        matrix=matrix,
        cut=0.0 if cut is None else cut,
        classes=None if form.classes is None else np.asarray(form.classes),
        n_labels=2 if cut is not None else n_outputs,
        is_strict=form.classes is not None,
        tie=TIE * scale,
    )


def form_of(model: Model, predictor: Any) -> Form:
    """The form of a predictor; a number, or a name, is that variable of the model."""
    names = model.feature_names
    is_number = isinstance(predictor, int | np.integer) and not isinstance(predictor, bool)
    if is_number or (isinstance(predictor, str) and predictor in (names or ())):
        return _variable(model, int(variable_indices(model, predictor, "decision")[0]))
    form = predictor_of(predictor, model.n_vars, names)
    if isinstance(form, EventForm):
        event = form.event
        is_not = event.kind == "not"
        if (event.children[0] if is_not else event).kind == "variable":
            return _variable(model, int(mentioned_variables(form)[0]), is_not)
    return form


def _variable(model: Model, var: int, is_not: bool = False) -> LinearForm:
    """A variable, or its opposite, as a sum of one: sums have better bounds than events."""
    weight = np.zeros((model.n_vars, 1))
    weight[var] = -1.0 if is_not else 1.0
    return LinearForm(weight, np.array([float(is_not)]), output="probability")


def _cut(form: Form, threshold: float) -> float | None:
    """What the output must reach; None where classes compete."""
    is_number = isinstance(threshold, int | float | np.number) and np.isfinite(threshold)
    if not is_number:
        raise ValueError(f"threshold must be a number, but is {threshold!r}.")
    if form.n_outputs > 2 or (form.n_outputs == 2 and form.output != "probability"):
        if threshold != 0.5:
            raise ValueError(
                f"With {form.n_outputs} classes the largest decides, and no threshold applies, but "
                f"it is {threshold!r}. Leave it out."
            )
        return None
    if form.output == "value":
        return float(threshold)
    if not 0.0 <= threshold <= 1.0:
        raise ValueError(
            f"threshold must be a probability from 0 to 1, but is {threshold!r}: it is what the "
            "probability of the decision has to reach."
        )
    if form.output == "probability":
        return float(threshold)
    if threshold in (0.0, 1.0):
        raise ValueError(
            f"threshold must be above 0 and below 1 for a predictor of log-odds, but is "
            f"{threshold!r}, which no log-odds reach."
        )
    return float(logit(threshold))


def _with_columns(form: Form, matrix: FloatArray) -> Form:
    """The same predictor with outputs ``output @ matrix``."""
    if isinstance(form, LinearForm):
        return LinearForm(
            form.weight @ matrix, form.bias @ matrix, feature_names=form.feature_names
        )
    if isinstance(form, LeafForm):
        return replace(
            form,
            leaf_value=form.leaf_value @ matrix,
            bias=form.bias @ matrix,
            output="value",
            link="identity",
            classes=None,
        )
    if isinstance(form, CircuitForm):
        circuit = form.circuit
        return CircuitForm(
            PredictorCircuit(
                circuit.structure,
                circuit.literal_weight @ matrix,
                circuit.edge_weight @ matrix,
                circuit.bias @ matrix,
                "regression",
            )
        )
    return form


def _pairs(n_labels: int) -> list[tuple[int, int]]:
    return [(a, b) for a in range(n_labels) for b in range(a + 1, n_labels)]
