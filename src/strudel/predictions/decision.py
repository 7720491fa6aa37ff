"""Decisions: which class a predictor chooses, once its output is known well enough.

In:  what decides (a variable of the model, an event, a classifier, any predictor) and a threshold.
Out: `Decision`: the predictor's margins, and labels from intervals of them.

With two labels the margin is the output itself, and label 1 means that it reaches the threshold.
Classifiers of scikit-learn give ties to the first class, so their label 1 means that the output
exceeds the threshold. With more classes every two of them have a margin, the difference of their
outputs, and the label is the class that wins all of its margins.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logit

from strudel._types import AnyArray, FloatArray, IntArray
from strudel.circuits.predictor import PredictorCircuit
from strudel.predictions.agreement_search import OPEN
from strudel.predictions.predictor_arguments import form_of_decision
from strudel.predictions.predictor_forms import CircuitForm, Form, LeafForm, LinearForm
from strudel.predictions.ranges import Ranges
from strudel.queries.model import Model
from strudel.queries.passes import UNKNOWN

TIE = 1e-12  # margins this small, relative to the largest output, count as zero


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
        """The outputs as users expect them: with two labels, that of label 1 alone."""
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
    form = form_of_decision(model, decision)
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


def _cut(form: Form, threshold: float) -> float | None:
    """What the output must reach; None where classes compete."""
    is_number = isinstance(threshold, int | float | np.number) and np.isfinite(threshold)
    if not is_number:
        raise ValueError(f"threshold must be a number, but is {threshold!r}.")
    if form.n_outputs > 2 or (form.n_outputs == 2 and form.output != "probability"):
        if threshold != 0.5:
            raise ValueError(
                f"With {form.n_outputs} classes the most probable one is chosen and no threshold "
                f"applies, but threshold is {threshold!r}. Leave it out."
            )
        return None
    if form.output == "value":
        return float(threshold)
    if not 0.0 <= threshold <= 1.0:
        raise ValueError(
            f"threshold must be a probability from 0 to 1, but is {threshold!r}: the probability "
            "of the decision has to reach it."
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
