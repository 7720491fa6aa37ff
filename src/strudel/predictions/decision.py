"""Decisions: which class a predictor chooses, once its output is known well enough.

In:  what decides (a variable of the model, an event, a classifier, any predictor) and a threshold.
Out: `Decision`: the predictor's margins, and labels from intervals of them; `PredictorDecider`, for
     `agreement_search`: what it decides about rows that are only partly known.

With two labels the margin is the output itself, and label 1 means that it reaches the threshold.
Classifiers of scikit-learn give ties to the first class, so their label 1 means that the output
exceeds the threshold. With more classes every two of them have a margin, the difference of their
outputs, and the label is the class that wins all of its margins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logit

from strudel._types import NONE, AnyArray, ByteArray, FloatArray, IntArray
from strudel.circuits.mixture import Mixture
from strudel.circuits.predictor import PredictorCircuit
from strudel.circuits.properties import check_properties
from strudel.predictions.agreement_search import OPEN
from strudel.predictions.expected import expected_outputs
from strudel.predictions.posterior_bounds import PosteriorBounds
from strudel.predictions.predictor_arguments import Asked, ask
from strudel.predictions.predictor_forms import CircuitForm, Form, LeafForm, LinearForm
from strudel.predictions.ranges import Ranges
from strudel.queries.model import Model, structure_of
from strudel.queries.passes import UNKNOWN, decode
from strudel.queries.probabilities import log_probabilities

TIE = 1e-12  # margins this small, relative to the largest output, count as zero
MOST_LEAVES = 64  # of a predictor whose leaves are bounded one by one


@dataclass(frozen=True, eq=False)
class Decision:
    """A predictor and how it decides."""

    asked: Asked
    margins: Form  # the same predictor, with one output for each comparison
    matrix: FloatArray  # (n_outputs, n_margins) from outputs to margins
    cut: float  # what a margin is compared with
    classes: AnyArray | None  # what the labels 0, 1, ... are called
    n_labels: int
    is_strict: bool  # whether a tie is label 0
    tie: float

    @property
    def form(self) -> Form:
        """The form of the predictor."""
        return self.asked.form

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


def decision_of(
    model: Model, decision: Any, threshold: float = 0.5, query: str = "decision"
) -> Decision:
    """The decision that a variable, an event or a predictor makes."""
    return decisions_of(model, [decision], threshold, query)[0]


def decisions_of(
    model: Model, decisions: Sequence[Any], threshold: float, query: str
) -> list[Decision]:
    """The decisions of several, all over the variables of one model: that of their `asked`."""
    found = ask(model, *decisions, query=query, are_decisions=True)
    return [_decision(asked, threshold) for asked in found]


def _decision(asked: Asked, threshold: float) -> Decision:
    form = asked.form
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
        asked=asked,
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


class PredictorDecider:
    """The label of a predictor's expected output given the *open* variables, as far as it is known.

    Open variables may become known; all others that are unknown are summed out. Where the open ones
    are all that the predictor looks at, the range of its output over the completions of a row
    decides. Otherwise the circuit bounds what can be expected (`posterior_bounds`).
    """

    def __init__(
        self,
        decision: Decision,
        open_vars: AnyArray,
        codes: ByteArray,
        shifts: FloatArray,
        query: str,
    ) -> None:
        model = decision.asked.model
        self._model, self._decision, self._query = model, decision, query
        self._open_vars = open_vars
        self._shifts = shifts  # (n_rows, n_outputs) what known numbers add to the outputs
        self._margin_shifts = shifts @ decision.matrix
        self._start = codes  # the rows of evidence
        self._ranges = Ranges(decision.margins)
        rest = np.setdiff1d(self._ranges.variables, open_vars)
        self._is_complete = bool(np.all(codes[:, rest] != UNKNOWN))
        self._order: dict[int, IntArray] = {}
        self._bounds: PosteriorBounds | None = None
        form = decision.margins
        is_small = isinstance(form, LeafForm) and form.n_leaves <= MOST_LEAVES
        if not self._is_complete and (isinstance(form, LinearForm) or is_small):
            circuit = model.to_circuit() if isinstance(model, Mixture) else model
            check_properties(structure_of(model), query, "in_normal_form")
            self._bounds = PosteriorBounds(circuit, open_vars)

    def labels(self, codes: ByteArray, owner: AnyArray) -> IntArray:
        """The label of each row, or OPEN."""
        codes = self._as_seen(codes, owner)
        low, high = self._ranges.bounds(codes)
        shift = self._margin_shifts[owner]
        low, high = low + shift, high + shift
        label = self._decision.labels(low, high)
        if self._is_complete:
            return label
        todo = np.flatnonzero(label == OPEN)
        is_known = (codes[todo][:, self._open_vars] != UNKNOWN).all(axis=1)
        known, unknown = todo[is_known], todo[~is_known]
        if len(known):
            output = expected_outputs(self._model, self._decision.form, decode(codes[known]))
            label[known] = self._decision.labels_of(output + self._shifts[owner[known]])
        if len(unknown) and self._bounds is not None:
            tighter = self._model_bounds(codes[unknown])
            label[unknown] = self._decision.labels(
                np.maximum(low[unknown], tighter[0] + shift[unknown]),
                np.minimum(high[unknown], tighter[1] + shift[unknown]),
            )
        return label

    def _as_seen(self, codes: ByteArray, owner: AnyArray) -> ByteArray:
        """Evidence and open variables only, without what the other decider asked for."""
        seen = self._start[owner]
        seen[:, self._open_vars] = codes[:, self._open_vars]
        return seen

    def _model_bounds(self, codes: ByteArray) -> tuple[FloatArray, FloatArray]:
        """Bounds on the expected margins that the circuit gives."""
        assert self._bounds is not None
        form = self._decision.margins
        if isinstance(form, LinearForm):
            ends = [self._bounds.of_sum(weight, codes) for weight in form.weight.T]
            low, high = (np.column_stack(side) for side in zip(*ends, strict=True))
            return low + form.bias, high + form.bias
        assert isinstance(form, LeafForm)
        return _leaf_expectations(form, self._bounds, codes)

    def next_variables(self, codes: ByteArray, owner: AnyArray) -> IntArray:
        """Of each row, the open and unknown variable that moves the expected output most."""
        codes = self._as_seen(codes, owner)
        if self._is_complete:
            return self._ranges.next_variables(codes)
        found = np.full(len(codes), NONE, dtype=np.int32)
        for mine in np.unique(owner):
            order = self._influence(int(mine))
            rows = np.flatnonzero(owner == mine)
            is_unknown = codes[np.ix_(rows, order)] == UNKNOWN
            found[rows] = np.where(is_unknown.any(axis=1), order[is_unknown.argmax(axis=1)], NONE)
        return found

    def _influence(self, owner: int) -> IntArray:
        """The open variables of a row of evidence, the one that moves the output most first."""
        if owner not in self._order:
            start = self._start[owner]
            variables = self._open_vars[start[self._open_vars] == UNKNOWN]
            rows = np.repeat(start[np.newaxis], 2 * len(variables), axis=0)
            rows[np.arange(len(rows)), np.repeat(variables, 2)] = np.arange(len(rows)) % 2
            log_p = log_probabilities(self._model, decode(rows), self._query)
            is_possible = log_p > -np.inf
            margin = np.zeros((len(rows), self._decision.matrix.shape[1]))
            if is_possible.any():
                output = expected_outputs(
                    self._model, self._decision.form, decode(rows[is_possible])
                )
                margin[is_possible] = output @ self._decision.matrix
            both = is_possible.reshape(-1, 2).all(axis=1)
            share = np.exp(
                log_p.reshape(-1, 2) - np.logaddexp.reduce(log_p.reshape(-1, 2), 1)[:, None]
            )
            moved = np.abs(np.diff(margin.reshape(len(variables), 2, -1), axis=1)[:, 0]).max(axis=1)
            moved *= np.sqrt(share.prod(axis=1)) * both
            self._order[owner] = variables[np.argsort(-moved, kind="stable")].astype(np.int32)
        return self._order[owner]


def _leaf_expectations(
    form: LeafForm, bounds: PosteriorBounds, codes: ByteArray
) -> tuple[FloatArray, FloatArray]:
    """Bounds on the sum over trees of the expected value at the leaf that is reached.

    The probabilities of a tree's leaves add up to one, so only what is above its least value
    counts, or below its largest.
    """
    shape = len(codes), form.n_outputs
    low, high = np.tile(form.bias, (len(codes), 1)), np.tile(form.bias, (len(codes), 1))
    for tree in range(form.n_trees):
        leaves = np.flatnonzero(form.leaf_tree == tree)
        value = form.leaf_value[leaves]
        most_p = np.empty((len(codes), len(leaves)))
        for i, leaf in enumerate(leaves):
            literals = form.leaf_literal[form.leaf_start[leaf] : form.leaf_start[leaf + 1]]
            most_p[:, i] = bounds.of_conjunction(literals, codes)[1]
        least, most = value.min(axis=0), value.max(axis=0)
        low += np.maximum(most - most_p @ (most - value), least)
        high += np.minimum(least + most_p @ (value - least), most)
    assert low.shape == high.shape == shape
    return low, high
