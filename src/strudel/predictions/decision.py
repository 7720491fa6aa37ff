"""Decisions: which class a predictor chooses, once its output is known well enough.

In:  a predictor as it is asked about, and a threshold.
Out: `Decision`: the predictor's margins, and labels from intervals of them; `PredictorDecider`,
     what it decides about rows that are only partly known.

With two labels the margin is the output itself, and label 1 means that it reaches the threshold.
Classifiers of scikit-learn give ties to the first class, so their label 1 means that the output
exceeds the threshold. With more classes every two of them have a margin, the difference of their
outputs, and the label is the class that wins all of its margins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.predictions.asked import Asked
from strudel.predictions.forms import Form, LeafForm, LinearForm, half_of, next_splits
from strudel.predictions.moments import expected_outputs
from strudel.predictions.posterior_bounds import PosteriorBounds

OPEN = -1  # the label of a row that is not decided yet
TIE = 1e-12  # margins this small, relative to the largest output, count as zero
MOST_LEAVES = 64  # of a predictor whose leaves are bounded one by one
MOST_CELLS = 8  # of a column that are looked at one by one


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


def decision_of(asked: Asked, threshold: float) -> Decision:
    """The decision that a column, an event or a predictor makes."""
    form = asked.form
    n_outputs = len(form.bias)
    cut = _cut(form, threshold)
    if cut is not None:
        matrix = np.zeros((n_outputs, 1))
        matrix[-1] = 1.0
    else:
        pairs = _pairs(n_outputs)
        matrix = np.zeros((n_outputs, len(pairs)))
        for column, (a, b) in enumerate(pairs):
            matrix[a, column], matrix[b, column] = -1.0, 1.0
    margins = form.with_columns(matrix)
    ends = margins.bounds(asked.known, asked.known.nothing())
    scale = max(float(np.abs(end).max(initial=0.0)) for end in (*ends, np.array([cut or 0.0])))
    classes = form.said.classes
    return Decision(
        asked=asked,
        margins=margins,
        matrix=matrix,
        cut=0.0 if cut is None else cut,
        classes=None if classes is None else np.asarray(classes),
        n_labels=2 if cut is not None else n_outputs,
        is_strict=classes is not None,
        tie=TIE * scale,
    )


def _cut(form: Form, threshold: float) -> float | None:
    """What the output must reach; None where classes compete."""
    n_outputs, output = len(form.bias), form.said.output
    is_number = isinstance(threshold, int | float | np.number) and np.isfinite(threshold)
    if not is_number:
        raise ValueError(f"threshold must be a number, but is {threshold!r}.")
    if n_outputs > 2 or (n_outputs == 2 and output != "probability"):
        if threshold != 0.5:
            raise ValueError(
                f"With {n_outputs} classes the most probable one is chosen and no threshold "
                f"applies, but threshold is {threshold!r}. Leave it out."
            )
        return None
    if output == "value":
        return float(threshold)
    if not 0.0 <= threshold <= 1.0:
        raise ValueError(
            f"threshold must be a probability from 0 to 1, but is {threshold!r}: the probability "
            "of the decision has to reach it."
        )
    if output == "probability":
        return float(threshold)
    if threshold in (0.0, 1.0):
        raise ValueError(
            f"threshold must be above 0 and below 1 for a predictor of log-odds, but is "
            f"{threshold!r}, which no log-odds reach."
        )
    from scipy.special import logit

    return float(logit(threshold))


def _pairs(n_labels: int) -> list[tuple[int, int]]:
    return [(a, b) for a in range(n_labels) for b in range(a + 1, n_labels)]


class PredictorDecider:
    """The label of a predictor's expected output given the *open* columns, as far as it is known.

    Open columns may become known; all others that are unknown are summed out. Where the open ones
    are all that the predictor looks at, the range of its output over the completions of a row
    decides. Otherwise the circuit bounds what can be expected (`PosteriorBounds`).
    """

    def __init__(
        self,
        decision: Decision,
        open_places: Sequence[int],
        codes: AnyArray,
        shifts: FloatArray,
        query: str,
        number: IntArray | None = None,
    ) -> None:
        # What labels are called instead; OPEN is the last, which it is.
        self._number = np.append(np.arange(decision.n_labels) if number is None else number, OPEN)
        self._decision, self._query = decision, query
        self._known = decision.asked.known
        self._open = np.array(open_places, dtype=np.int64)
        self._shifts = shifts  # (n_rows, n_outputs) what known numbers add to the outputs
        self._margin_shifts = shifts @ decision.matrix
        self._start = codes  # the rows of evidence
        rest = np.setdiff1d(np.array(decision.margins.places, dtype=np.int64), self._open)
        self._is_complete = bool(self._known.is_settled(codes)[:, rest].all())
        self._order: dict[int, tuple[IntArray, list[AnyArray]]] = {}
        self._bounds: PosteriorBounds | None = None
        form = decision.margins
        is_small = isinstance(form, LeafForm) and form.n_leaves <= MOST_LEAVES
        if not self._is_complete and (isinstance(form, LinearForm) or is_small):
            self._bounds = PosteriorBounds(self._known, self._open.tolist())

    def labels(self, codes: AnyArray, owner: AnyArray) -> IntArray:
        """The label of each row, or OPEN; `owner` says which row of evidence it completes."""
        return np.asarray(self._number[self._labels(codes, owner)])

    def _labels(self, codes: AnyArray, owner: AnyArray) -> IntArray:
        codes = self._as_seen(codes, owner)
        low, high = self._decision.margins.bounds(self._known, codes)
        shift = self._margin_shifts[owner]
        low, high = low + shift, high + shift
        label = self._decision.labels(low, high)
        if self._is_complete:
            return label
        todo = np.flatnonzero(label == OPEN)
        is_known = self._known.is_settled(codes[todo])[:, self._open].all(axis=1)
        known, unknown = todo[is_known], todo[~is_known]
        if len(known):
            output = self._expected(codes[known])
            label[known] = self._decision.labels_of(output + self._shifts[owner[known]])
        if len(unknown) and self._bounds is not None:
            tighter = self._model_bounds(codes[unknown])
            label[unknown] = self._decision.labels(
                np.maximum(low[unknown], tighter[0] + shift[unknown]),
                np.minimum(high[unknown], tighter[1] + shift[unknown]),
            )
        return label

    def _expected(self, codes: AnyArray) -> FloatArray:
        return expected_outputs(self._decision.form, self._known, codes, self._query)

    def _as_seen(self, codes: AnyArray, owner: AnyArray) -> AnyArray:
        """Evidence and open columns only, without what the other decider asked for."""
        seen = self._start[owner]
        seen[:, self._open] = codes[:, self._open]
        return seen

    def _model_bounds(self, codes: AnyArray) -> tuple[FloatArray, FloatArray]:
        """Bounds on the expected margins that the circuit gives."""
        assert self._bounds is not None
        form = self._decision.margins
        if isinstance(form, LinearForm):
            outputs = range(len(form.bias))
            weights = [[own[:, o] for own in form.weight] for o in outputs]
            ends = [self._bounds.of_sum(weight, codes) for weight in weights]
            low, high = (np.column_stack(side) for side in zip(*ends, strict=True))
            return low + form.bias, high + form.bias
        assert isinstance(form, LeafForm)
        return _leaf_expectations(form, self._bounds, codes)

    def next_splits(self, codes: AnyArray, owner: AnyArray) -> tuple[IntArray, list[AnyArray]]:
        """Of each row, the open column that moves the expected output most, and how to split it."""
        codes = self._as_seen(codes, owner)
        if self._is_complete:
            return next_splits(self._decision.margins, self._known, codes)
        places = np.full(len(codes), NONE, dtype=np.int32)
        cells: list[AnyArray] = [np.zeros(0, dtype=bool)] * len(codes)
        is_settled = self._known.is_settled(codes)
        for row, mine in enumerate(owner.tolist()):
            order, sets = self._influence(mine)
            is_open = np.flatnonzero(~is_settled[row, order])
            if not len(is_open):
                continue
            place = places[row] = order[is_open[0]]
            possible = self._known.weights(place)[codes[row, place]] > 0.0
            own = sets[is_open[0]]
            parts = (possible & own).any() and (possible & ~own).any()
            cells[row] = own if parts else half_of(possible)
        return places, cells

    def _influence(self, owner: int) -> tuple[IntArray, list[AnyArray]]:
        """The open columns of a row, what moves the output most first, and cells that raise it."""
        if owner in self._order:
            return self._order[owner]
        start, known = self._start[owner], self._known
        places = self._open[~known.is_settled(start[np.newaxis])[0, self._open]]
        rows, states = [start], []
        for place in places.tolist():
            possible = known.weights(place)[start[place]] > 0.0
            own = [np.arange(len(possible)) == cell for cell in np.flatnonzero(possible)]
            if len(own) > MOST_CELLS:
                half = half_of(possible)
                own = [possible & half, possible & ~half]
            for cells in own:
                rows.append(start.copy())
                rows[-1][place] = known.split(place, int(start[place]), cells)[0]
            states.append(own)
        asked = np.array(rows[1:]).reshape(-1, len(start))
        nothing = np.zeros(len(asked), dtype=np.int32)
        _, chance = known.answers(start[np.newaxis], nothing, asked)
        margin = np.zeros((len(asked), self._decision.matrix.shape[1]))
        is_possible = chance > 0.0
        if is_possible.any():
            margin[is_possible] = self._expected(asked[is_possible]) @ self._decision.matrix
        moved, above, last = np.zeros(len(places)), [], 0
        for i, own in enumerate(states):
            first, last = last, last + len(own)
            share = chance[first:last]
            away = margin[first:last] - share @ margin[first:last]
            spread = np.sqrt(share @ away**2)
            moved[i] = spread.max()
            is_above = away[:, int(spread.argmax())] > 0.0
            above.append(np.any(np.array(own)[is_above], axis=0))
        order = np.argsort(-moved, kind="stable")
        self._order[owner] = places[order].astype(np.int32), [above[i] for i in order]
        return self._order[owner]


def _leaf_expectations(
    form: LeafForm, bounds: PosteriorBounds, codes: AnyArray
) -> tuple[FloatArray, FloatArray]:
    """Bounds on the sum over trees of the expected value at the leaf that is reached.

    The probabilities of a tree's leaves add up to one, so only what is above its least value
    counts, or below its largest.
    """
    low, high = np.tile(form.bias, (len(codes), 1)), np.tile(form.bias, (len(codes), 1))
    for tree in range(form.n_trees):
        leaves = np.flatnonzero(form.leaf_tree == tree)
        value = form.leaf_value[leaves]
        most_p = np.empty((len(codes), len(leaves)))
        for i, leaf in enumerate(leaves):
            sets = form.leaf_set[form.leaf_start[leaf] : form.leaf_start[leaf + 1]].tolist()
            cells = {int(form.set_place[t]): form.set_cells[t] for t in sets}
            most_p[:, i] = bounds.of_conjunction(cells, codes)[1]
        least, most = value.min(axis=0), value.max(axis=0)
        low += np.maximum(most - most_p @ (most - value), least)
        high += np.minimum(least + most_p @ (value - least), most)
    return low, high
