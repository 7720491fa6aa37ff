"""Predictors of all kinds as forms over the cells of a model's columns.

In:  a column of 0 and 1, a form, a predictor circuit, an event, a fitted scikit-learn model or
     pipeline, or an estimator that holds a predictor circuit as `predictor_`.
Out: `Reading`: where it tells the numbers of a column apart, and its form over cells that meet
     there.

Nothing is imported from scikit-learn: linear models are recognised by their `coef_`, models of
trees by the names of their classes. A test of a tree is a set of cells, and a leaf a set for each
column. A linear model has a value for each cell; of numbers that is the mean in the cell, and a
`Line` says what a known number adds to it. Every form is compared with the predictions of its model
on a few rows.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from strudel._types import NONE, AnyArray, FloatArray
from strudel.circuits.predictor import PredictorCircuit
from strudel.errors import CutCellsWarning, outer_stack_level
from strudel.logic.column_classes import column_leaves, conjunction_of, region_of
from strudel.logic.terms import is_formula, said_event
from strudel.predictions.forms import (
    CircuitForm,
    EventForm,
    Form,
    LeafForm,
    Line,
    LinearForm,
    Said,
    form_of_leaves,
)
from strudel.tables.column import BIT, Column, bound_text
from strudel.tables.density import SURE
from strudel.tables.predictor_columns import (
    BOOSTING,
    WITH_TREES,
    FittedTree,
    Halving,
    PredictorColumns,
    compares_in_single,
    fitted_trees,
    kinds_of,
    last_step,
    scale_of,
    step_of,
    tests_of,
)
from strudel.tables.schema import Columns

SUPPORTED = (
    "Use a linear or logistic regression, a decision tree, a forest or gradient boosting of "
    "scikit-learn, a PredictorCircuit, a fitted RegressionCircuit, or an event."
)
N_CHECKED = 32  # rows at least on which a form is compared with the predictor
TOLERANCE = 1e-7  # relative; forms add up the same numbers in another order
STRAIGHT = 1e-9  # how far a line may be off, relative to the largest value


class Reading(NamedTuple):
    """What a predictor is, whatever cells its columns will have."""

    form: Callable[[Columns], Form]  # over columns whose cells meet at the cuts
    cuts: Mapping[int, Iterable[float]] = {}  # by place: where it tells numbers apart
    is_estimator: bool = False


def reading_of(predictor: Any, columns: Columns, *, is_decision: bool = False) -> Reading:
    """Read a predictor of the columns of a model; a decision may be a column of 0 and 1."""
    if "BaseSearchCV" in kinds_of(predictor):
        predictor = getattr(predictor, "best_estimator_", predictor)
    held = getattr(predictor, "predictor_", None)
    circuit = held if isinstance(held, PredictorCircuit) else predictor
    if isinstance(circuit, PredictorCircuit):
        classes = getattr(predictor, "classes_", None)
        return Reading(lambda own: _circuit_form(circuit, classes, own))
    if isinstance(predictor, LinearForm | LeafForm | CircuitForm | EventForm):
        return Reading(lambda _: predictor)
    is_number = isinstance(predictor, int | np.integer) and not isinstance(predictor, bool)
    if is_decision and (is_number or (isinstance(predictor, str) and predictor in columns.names)):
        return Reading(lambda own: _variable(own, predictor))
    if is_formula(predictor) or isinstance(predictor, Mapping):
        return _event_reading(predictor, columns, is_decision)
    if kinds_of(predictor) and hasattr(predictor, "predict"):
        estimator = _Estimator(predictor, columns)
        return Reading(estimator.form, estimator.cuts, True)
    is_unfitted = ", or it is not fitted yet" if hasattr(predictor, "fit") else ""
    raise TypeError(
        f"A {type(predictor).__name__} is not a known kind of predictor{is_unfitted}. {SUPPORTED}"
    )


def warn_of_cuts(readings: Sequence[Reading], columns: Columns) -> None:
    """Say that the density inside cells takes part, where a tree has some of it on both sides."""
    parts: dict[str, str] = {}
    for reading in readings:
        for place, cuts in reading.cuts.items() if reading.is_estimator else ():
            column, own = columns[place], list(cuts)
            cut = next((cut for cut in own if _parts_a_cell(column, cut)), None)
            if cut is not None:
                more = f" and {len(own) - 1} more" if len(own) > 1 else ""
                parts[column.name] = f"{column.name!r} at {bound_text(column, cut)}{more}"
    if parts:
        warnings.warn(
            CutCellsWarning(
                f"The predictor cuts cells of the model: {', '.join(parts.values())}. Inside a "
                "cell the density of the column decides, as if the number told no more about "
                "other columns than its cell does.",
                "Learn the model with TableEncoder(edges=predictor), whose cells end where the "
                "predictor cuts.",
            ),
            stacklevel=outer_stack_level(),
        )


def _parts_a_cell(column: Column, cut: float) -> bool:
    share = column.cells.shares(((cut, np.inf),))
    return bool(np.any((share > SURE) & (share < 1.0 - SURE)))


def _circuit_form(
    predictor: PredictorCircuit, classes: AnyArray | None, columns: Columns
) -> CircuitForm:
    mine, theirs = predictor.structure.columns.names, columns.names
    if len(mine) != len(theirs):
        raise ValueError(
            f"The predictor has {len(mine)} variables, but the model has {len(theirs)}. They must "
            "be the same, in the same order."
        )
    if [column.n_cells for column in columns] != [2] * len(columns):
        raise ValueError(
            "The predictor circuit is over variables of 0 and 1, but the model has columns of more "
            "values. Use trees or linear models, which take the columns of a table."
        )
    nameless = tuple(f"x{v}" for v in range(len(mine)))
    if mine != theirs and nameless not in (mine, theirs):
        place = next(place for place, name in enumerate(mine) if name != theirs[place])
        raise ValueError(
            f"The predictor and the model must have the same variables in the same order, but "
            f"variable {place} is {mine[place]!r} in the predictor and {theirs[place]!r} in the "
            "model."
        )
    return CircuitForm(predictor, classes)


def _variable(columns: Columns, name: Any) -> LinearForm:
    """A column of 0 and 1 as a sum of one term: sums have better bounds than events."""
    place = columns.place(name, "decision")
    column = columns[place]
    if column.kind not in (BIT, "boolean"):
        raise ValueError(
            f"The decision is column {column.name!r}, which is not one of 0 and 1. Name a value "
            f'of it in an event, as in "{column.name} = {column.labels[0]}".'
        )
    return _indicator(columns, place, np.array(column.values, dtype=bool))


def _indicator(columns: Columns, place: int, cells: AnyArray) -> LinearForm:
    """Whether a column is in some cells."""
    weight = [np.zeros((column.n_cells, 1)) for column in columns]
    weight[place][:, 0] = cells
    return LinearForm(tuple(weight), np.zeros(1), Said("probability"), is_decided=True)


def _event_reading(item: Any, columns: Columns, is_decision: bool) -> Reading:
    """Anything that can be an event."""
    event = said_event(item, columns)

    def form(own: Columns) -> Form:
        facts = conjunction_of(event, own) if is_decision else None
        if facts is None or len(facts) != 1:
            return EventForm(event, own)
        [(place, region)] = facts.items()
        return _indicator(own, place, own[place].weights(region) > 0.5)

    cuts = {
        place: [end for leaf in leaves for ends in region_of(leaf) for end in ends]
        for place, leaves in column_leaves(event, columns).items()
    }
    return Reading(form, cuts)


# Models of scikit-learn


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


def said_of(model: Any, classes: AnyArray | None, n_outputs: int) -> Said:
    """What a predictor adds up: a value, a probability, or the log-odds of a class."""
    if classes is None:
        return Said()
    if not is_linear(model) and not kinds_of(model) & BOOSTING:
        return Said("probability", "identity", classes)
    return Said("logit", "sigmoid" if n_outputs == 1 else "softmax", classes)


class _Estimator:
    """A predictor of scikit-learn, read column by column."""

    def __init__(self, predictor: Any, columns: Columns) -> None:
        self.predictor = predictor
        self._classes = check_estimator(last_step(predictor))
        self._read = PredictorColumns(predictor, columns)
        self._last = self._read.last
        self._lines: dict[int, tuple[FloatArray, FloatArray]] = {}  # -> slope, intercept
        if is_linear(self._last):
            self._coefficients, self._bias = linear_parts(self._last, self._classes)
            cuts = self._cuts_of_sums()
        else:
            self._trees = list(fitted_trees(self._last, self._classes))
            self._tests, self._node_test = tests_of(self._trees, compares_in_single(self._last))
            cuts = self._read.cuts(self._tests)
        self.cuts: dict[int, list[float]] = {}  # at which no cells meet yet
        for name, own in cuts.items():
            place = columns.place(name)
            column = columns[place]
            step, edges = step_of(column), np.array(column.edges)
            ends = np.ceil(edges / step) * step if step else edges  # one place for whole numbers
            span = max(abs(end) for end in column.cells.density.seen)
            apart = np.abs(np.subtract.outer(own, ends)).min(axis=1, initial=np.inf)
            inner = np.array(own)[apart > 1e-12 * span]
            if len(inner):
                self.cuts[place] = inner.tolist()

    def _cuts_of_sums(self) -> dict[str, list[float]]:
        """Where what a column adds jumps; lines are kept apart."""
        asked = []
        uses = np.any(self._coefficients != 0.0, axis=1)
        for place, column in enumerate(self._read.columns):
            own = np.flatnonzero((self._read.owner == place) & uses)
            if not column.is_numeric or not len(own):
                continue
            values, features = self._read.probed(place)
            x = np.array(values, dtype=np.float64)
            adds = features[:, own] @ self._coefficients[own]
            slope = (adds[-1] - adds[0]) / (x[-1] - x[0])
            line = adds[0] + np.outer(x - x[0], slope)
            if np.all(np.abs(line - adds) <= STRAIGHT * np.abs(adds).max()):
                self._lines[place] = slope, adds[0] - slope * x[0]
                continue
            n_changes = int(np.any(features[1:, own] != features[:-1, own], axis=1).sum())
            step = step_of(column)
            is_whole = step > 0.0 and bool(np.all(np.diff(x) == step))
            if 4 * n_changes > len(x) and not is_whole:
                raise TypeError(
                    f"A linear model takes a curve of column {column.name!r} as a feature, whose "
                    "expectation is not exact. Scale the column (StandardScaler), cut it into "
                    "bins (KBinsDiscretizer), or use trees, which take any increasing feature."
                )
            asked.append(Halving(column, values, features[:, own], _feature_of(own)))
        return self._read.where_they_change(asked)

    def form(self, columns: Columns) -> LinearForm | LeafForm:
        """Its form, compared with its predictions."""
        read = self._read
        own = [columns[place] for place in read.places]
        values = [_representatives(column) for column in own]
        features = [read.features_of(i, some) for i, some in enumerate(values)]
        form: LinearForm | LeafForm
        if is_linear(self._last):
            form = self._linear_form(columns, own, features)
        else:
            form = self._leaf_form([column.n_cells for column in columns], own, features)
            if kinds_of(self._last) & BOOSTING:
                first = [np.zeros(1, dtype=np.int64)] * len(own)
                row = self._frame(own, values, first)
                output = form.evaluate(self._cells(columns, first))
                form.bias[:] = self._boosting_start(row, output)
        self._check(form, columns, own, values)
        return form

    def _linear_form(
        self, columns: Columns, own: Sequence[Column], features: Sequence[FloatArray]
    ) -> LinearForm:
        weight = [np.zeros((column.n_cells, len(self._bias))) for column in columns]
        free = self._read.owner == NONE
        bias = self._bias + self._read.base[free] @ self._coefficients[free]
        lines = []
        for i, (place, column) in enumerate(zip(self._read.places, own, strict=True)):
            mine = np.flatnonzero(self._read.owner == i)
            weight[place] = features[i][:, mine] @ self._coefficients[mine]
            if i in self._lines:
                slope, intercept = self._lines[i]
                weight[place] = np.outer(column.cell_means, slope) + intercept
                lines.append(Line(place, column, slope))
        said = said_of(self._last, self._classes, len(bias))
        return LinearForm(tuple(weight), bias, said, tuple(lines))

    def _leaf_form(
        self, n_cells: Sequence[int], own: Sequence[Column], features: Sequence[FloatArray]
    ) -> LeafForm:
        tests = self._tests
        owner = self._read.owner[tests.feature]
        goes_left = [(0, 0)] * len(tests.feature)
        for i in range(len(own)):
            mine = np.flatnonzero(owner == i)
            passes = tests.go_left(features[i][:, tests.feature[mine]], mine)
            for test, cells in zip(mine.tolist(), passes.T, strict=True):
                goes_left[test] = _as_bits(cells)
        for test in np.flatnonzero(owner == NONE).tolist():  # of a feature that never changes
            value = self._read.base[tests.feature[test : test + 1]]
            goes_left[test] = _as_bits(tests.go_left(value, np.array([test])))
        places = np.append(self._read.places, NONE)[owner].tolist()
        leaves = [
            _leaves(tree, node_test, goes_left, places)
            for tree, node_test in zip(self._trees, self._node_test, strict=True)
        ]
        n_outputs = self._trees[0].value.shape[1]
        return form_of_leaves(n_cells, leaves, said_of(self._last, self._classes, n_outputs))

    def _boosting_start(self, row: Any, output: FloatArray) -> FloatArray:
        """What boosting starts from: its output for a row less that of the trees."""
        model = self.predictor
        predicted = model.predict if self._classes is None else model.decision_function
        return np.asarray(scale_of(self._last) * _predictions(predicted, row) - output)[0]

    def _frame(
        self, own: Sequence[Column], values: Sequence[list[Any]], at: Sequence[AnyArray]
    ) -> Any:
        rows = {
            column.name: [some[k] for k in cells.tolist()]
            for column, some, cells in zip(own, values, at, strict=True)
        }
        return self._read.frame(rows)

    def _cells(self, columns: Columns, at: Sequence[AnyArray]) -> AnyArray:
        """Rows of the model's cells in which the predictor's columns have these."""
        cells = np.zeros((len(at[0]), len(columns)), dtype=np.int64)
        for place, own in zip(self._read.places, at, strict=True):
            cells[:, place] = own
        return cells

    def _check(
        self,
        form: LinearForm | LeafForm,
        columns: Columns,
        own: Sequence[Column],
        values: Sequence[list[Any]],
    ) -> None:
        """Refuse a predictor that does not predict what its form says, on some rows.

        They hold every category at least once.
        """
        rng = np.random.default_rng(0)
        drawn, at = [], []
        n_rows = max([N_CHECKED, *(column.n_cells for column in own if not column.is_numeric)])
        for column, some in zip(own, values, strict=True):
            cells = rng.integers(column.n_cells, size=n_rows).astype(np.int32)
            if not column.is_numeric:
                cells[rng.permutation(n_rows)[: column.n_cells]] = np.arange(column.n_cells)
            at.append(cells)
            raw = [some[k] for k in cells.tolist()]
            if column.is_numeric:
                inside = column.drawn(cells, rng)
                raw = [
                    usual if x is None or x != x or cell != column.cell_of(x) else x
                    for usual, x, cell in zip(raw, inside, cells.tolist(), strict=True)
                ]
            drawn.append(raw)
        output = form.evaluate(self._cells(columns, at))
        for line in form.lines:
            numbers = drawn[self._read.places.index(line.place)]
            output = output + line.shifts(np.array(numbers, dtype=np.float64))
        rows = self._frame(own, drawn, [np.arange(n_rows)] * len(own))
        self._check_predictions(form, rows, output)

    def _check_predictions(
        self, form: LinearForm | LeafForm, rows: Any, output: FloatArray
    ) -> None:
        model = self.predictor
        method = model.predict if form.said.classes is None else model.predict_proba
        predicted, found = _predictions(method, rows), form.said.probabilities(output)
        if found.shape != predicted.shape or not np.allclose(
            found, predicted, rtol=TOLERANCE, atol=TOLERANCE * float(np.abs(predicted).max())
        ):
            raise ValueError(
                f"This {type(model).__name__} does not predict the sum of its "
                f"{'coefficients' if isinstance(form, LinearForm) else 'trees'}, so its "
                f"expectation is not exact. {SUPPORTED}"
            )


def _predictions(method: Any, rows: Any) -> FloatArray:
    """What a model says of complete rows, `(n_rows, n_outputs)`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows of an array have no feature names
        predicted = np.asarray(method(rows), dtype=np.float64)
    return predicted.reshape(len(rows), -1)


def _feature_of(own: AnyArray) -> Callable[[FloatArray, AnyArray], AnyArray]:
    """Asks for the features of a column, one for each row."""
    return lambda features, question: features[np.arange(len(features)), own[question]]


def _leaves(
    tree: FittedTree, node_test: AnyArray, goes_left: Sequence[tuple[int, int]], place_of: list[int]
) -> Iterator[tuple[dict[int, int], FloatArray]]:
    """The leaves that some row reaches: cells in the order from the root, and a value.

    For each test, `goes_left` has the cells that pass it and those that do not, as bits.
    """
    todo: list[tuple[int, dict[int, int]]] = [(0, {})]
    left, right, tests = tree.left.tolist(), tree.right.tolist(), node_test.tolist()
    while todo:
        node, known = todo.pop()
        if left[node] == NONE:
            yield known, tree.value[node]
            continue
        (passes, fails), place = goes_left[tests[node]], place_of[tests[node]]
        if place == NONE:
            todo.append((left[node] if passes else right[node], known))
            continue
        for child, holds in ((right[node], fails), (left[node], passes)):
            cells = holds & known[place] if place in known else holds
            if cells:
                todo.append((child, {**known, place: cells}))


def _as_bits(cells: AnyArray) -> tuple[int, int]:
    """Cells, and all others, as bits of a number."""
    both = (np.packbits(own, bitorder="little").tobytes() for own in (cells, ~cells))
    inside, outside = (int.from_bytes(own, "little") for own in both)
    return inside, outside


def _representatives(column: Column) -> list[Any]:
    """A value of every cell or category. Of numbers it is the edge at which the cell starts."""
    if not column.is_numeric:
        return list(column.values)
    step, edges = step_of(column), np.array(column.edges)
    below = edges[:1] - step if step else np.nextafter(edges[:1], -np.inf)
    usual = float(np.nan_to_num(float(column.values[0] or 0.0)))
    first = [usual] if not len(edges) else [min(usual, float(below[0]))]
    starts = np.ceil(edges / step) * step if step else edges
    is_whole = column.dtype in ("integer", "duration") or column.kind == "date"
    return [math.floor(x) if is_whole else x for x in [*first, *starts.tolist()]]
