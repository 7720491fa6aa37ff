"""Predictors that were fitted on the raw columns of a table, as forms over a model's 0/1 variables.

In:  a fitted scikit-learn predictor or pipeline, the code of the table, and a model of it.
Out: where the predictor cuts numbers; once the model's cells meet there, a `LinearForm` or a
     `LeafForm`, and the `Line`s of columns that a linear model takes as numbers.

A test of a tree is a set of values or cells, and a leaf a set for each column. A linear model has a
value for each of them; of numbers that is the mean in the cell, and a `Line` says what a known
number adds to it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from strudel._types import NONE, AnyArray, ByteArray, FloatArray
from strudel.predictions.predictor_forms import LeafForm, LinearForm
from strudel.predictions.scikit_learn import (
    boosting_start,
    check_estimator,
    check_predictions,
    form_of_leaves,
    is_linear,
    linear_parts,
    output_and_link,
)
from strudel.queries.columns.value_probabilities import value_sums
from strudel.tables.coded_column import Column
from strudel.tables.fitted_trees import (
    BOOSTING,
    FittedTree,
    compares_in_single,
    fitted_trees,
    kinds_of,
)
from strudel.tables.predictor_columns import Halving, PredictorColumns, step_of, tests_of
from strudel.tables.table_code import TableCode

N_CHECKED = 32  # rows at least on which a form is compared with the predictor
STRAIGHT = 1e-9  # how far a line may be off, relative to the largest value


class Line(NamedTuple):
    """A column of numbers of a linear model: what a number adds to the mean of its cell."""

    column: Column
    slope: FloatArray  # (n_outputs,)

    def shifts(self, numbers: FloatArray) -> FloatArray:
        """What known numbers add, `(n_rows, n_outputs)`; nothing where they are NaN."""
        edges = np.array(self.column.edges)
        cell = np.searchsorted(edges, np.nan_to_num(numbers), side="right")
        away = np.nan_to_num(numbers - self.column.cell_means[cell])
        return away[:, np.newaxis] * self.slope

    def variances(self) -> FloatArray:
        """The variance that the numbers of every cell have, `(n_cells, n_outputs)`."""
        if self.column.density is None:
            return np.zeros((self.column.n_values, len(self.slope)))
        within = np.nan_to_num(self.column.cells.moments()[1])
        return np.asarray(within[:, np.newaxis] * self.slope**2)

    def draws(self, bits: ByteArray, rng: np.random.Generator) -> FloatArray:
        """What numbers drawn from the cells of rows add."""
        own = bits[:, self.column.start : self.column.stop].astype(np.float64)
        numbers = np.array(self.column.drawn(own, rng, beyond_seen=True), dtype=np.float64)
        return self.shifts(numbers)


class RawPredictor:
    """A predictor of raw columns, read column by column."""

    def __init__(self, predictor: Any, code: TableCode) -> None:
        self.predictor = predictor
        self._read = PredictorColumns(predictor, code)
        self._last = self._read.last
        self._classes = check_estimator(self._last)
        self._lines: dict[int, tuple[FloatArray, FloatArray]] = {}  # place -> slope, intercept
        if is_linear(self._last):
            self._coefficients, self._bias = linear_parts(self._last, self._classes)
            self.cuts = self._cuts_of_sums()
        else:
            self._trees = list(fitted_trees(self._last, self._classes))
            single = compares_in_single(self._last)
            self._tests, self._node_test = tests_of(self._trees, single)
            self.cuts = self._read.cuts(self._tests)
        self.cuts = {**self.cuts, **self._cuts_of_categories()}

    @property
    def used_columns(self) -> list[str]:
        """The names of the columns that some feature is made of."""
        columns = self._read.columns
        return [columns[place].name for place in np.unique(self._read.owner) if place != NONE]

    def _cuts_of_categories(self) -> dict[str, list[float]]:
        """The places of rare categories that share a cell: what is predicted for each differs."""
        return {
            column.name: np.arange(1.0, column.n_values).tolist()
            for place, column in enumerate(self._read.columns)
            if column.is_shared and np.any(self._read.owner == place)
        }

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
            asked.append(Halving(column, values, features[:, own], _Feature(own)))
        return self._read.where_they_change(asked)

    def form(
        self, code: TableCode, n_vars: int, names: tuple[str, ...] | None
    ) -> tuple[LinearForm | LeafForm, tuple[Line, ...]]:
        """The form over the variables of a code whose cells meet at all cuts."""
        columns = [code.column(column.name) for column in self._read.columns]
        values = [_representatives(column) for column in columns]
        features = [
            self._read.features_of(column, some)
            for column, some in zip(columns, values, strict=True)
        ]
        form: LinearForm | LeafForm
        lines: tuple[Line, ...] = ()
        if is_linear(self._last):
            form, lines = self._linear_form(columns, features, n_vars, names)
        else:
            form = self._leaf_form(columns, features, n_vars, names)
            if kinds_of(self._last) & BOOSTING:
                places = [np.zeros(1, dtype=np.int64) for _ in columns]
                row = self._frame(columns, values, places)
                output = form.evaluate(_bits(columns, places, n_vars))
                form.bias[:] = boosting_start(self.predictor, self._classes, row, output)
        self._check(form, lines, columns, values, n_vars)
        return form, lines

    def _linear_form(
        self,
        columns: Sequence[Column],
        features: Sequence[FloatArray],
        n_vars: int,
        names: tuple[str, ...] | None,
    ) -> tuple[LinearForm, tuple[Line, ...]]:
        weight = np.zeros((n_vars, len(self._bias)))
        free = self._read.owner == NONE
        bias = self._bias + self._read.base[free] @ self._coefficients[free]
        lines = []
        for place, column in enumerate(columns):
            own = np.flatnonzero(self._read.owner == place)
            adds = features[place][:, own] @ self._coefficients[own]
            if place in self._lines:
                slope, intercept = self._lines[place]
                adds = np.outer(column.cell_means, slope) + intercept
                lines.append(Line(column, slope))
            sums = value_sums(column.codewords)
            weight[column.start : column.stop] = sums[:, :-1].T @ adds
            bias = bias + sums[:, -1] @ adds
        output, link = output_and_link(self._last, self._classes, len(bias))
        return LinearForm(weight, bias, output, link, self._classes, names), tuple(lines)

    def _leaf_form(
        self,
        columns: Sequence[Column],
        features: Sequence[FloatArray],
        n_vars: int,
        names: tuple[str, ...] | None,
    ) -> LeafForm:
        n_tests = len(self._tests.feature)
        owner = self._read.owner[self._tests.feature]
        goes_left: list[AnyArray] = [np.zeros(0)] * n_tests
        for place in range(len(columns)):
            own = np.flatnonzero(owner == place)
            found = self._tests.go_left(features[place][:, self._tests.feature[own]], own)
            for test, column in zip(own.tolist(), np.ascontiguousarray(found.T), strict=True):
                goes_left[test] = column
        for test in np.flatnonzero(owner == NONE).tolist():  # of a feature that never changes
            value = self._read.base[self._tests.feature[test : test + 1]]
            goes_left[test] = self._tests.go_left(value, np.array([test]))
        paths = _Paths(columns)
        leaves = [
            paths.leaves(tree, node_test, goes_left, owner)
            for tree, node_test in zip(self._trees, self._node_test, strict=True)
        ]
        return form_of_leaves(self._last, leaves, n_vars, self._classes, names)

    def _frame(
        self, columns: Sequence[Column], values: Sequence[list[Any]], places: Sequence[AnyArray]
    ) -> Any:
        rows = {
            column.name: [some[k] for k in at.tolist()]
            for column, some, at in zip(columns, values, places, strict=True)
        }
        return self._read.frame(rows)

    def _check(
        self,
        form: LinearForm | LeafForm,
        lines: tuple[Line, ...],
        columns: Sequence[Column],
        values: Sequence[list[Any]],
        n_vars: int,
    ) -> None:
        """Refuse a predictor that does not predict what its form says, on some rows.

        They hold every category at least once.
        """
        rng = np.random.default_rng(0)
        drawn, places = [], []
        n_rows = max([N_CHECKED, *(own.n_values for own in columns if not own.is_numeric)])
        for column, some in zip(columns, values, strict=True):
            at = rng.integers(column.n_values, size=n_rows)
            if not column.is_numeric:
                at[rng.permutation(n_rows)[: column.n_values]] = np.arange(column.n_values)
            places.append(at)
            own = [some[k] for k in at.tolist()]
            if column.is_numeric and column.density is not None:
                inside = column.drawn(column.codewords[at].astype(np.float64), rng)
                own = [
                    usual if x is None or cell != _cell(column, x) else x
                    for usual, x, cell in zip(own, inside, at.tolist(), strict=True)
                ]
            drawn.append(own)
        output = form.evaluate(_bits(columns, places, n_vars))
        for line in lines:
            numbers = drawn[[column.name for column in columns].index(line.column.name)]
            output = output + line.shifts(np.array(numbers, dtype=np.float64))
        own_places = [np.arange(n_rows)] * len(columns)
        rows = self._frame(columns, drawn, own_places)
        check_predictions(self.predictor, form, rows, output)


class _Feature:
    """Asks for the features of a column, one for each row."""

    def __init__(self, own: AnyArray) -> None:
        self._own = own

    def __call__(self, features: FloatArray, question: AnyArray) -> FloatArray:
        return np.asarray(features[np.arange(len(features)), self._own[question]])


class _Paths:
    """Sets of values of columns as literals, each found once."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._is_thermometer = [_is_thermometer(column) for column in columns]
        self._known: dict[tuple[int, bytes], list[list[int]]] = {}

    def leaves(
        self,
        tree: FittedTree,
        node_test: AnyArray,
        goes_left: Sequence[AnyArray],
        owner: AnyArray,
    ) -> Iterator[tuple[list[int], FloatArray]]:
        """The leaves that some row reaches: literals in the order from the root, and a value."""
        todo: list[tuple[int, dict[int, AnyArray]]] = [(0, {})]
        left, right, tests = tree.left.tolist(), tree.right.tolist(), node_test.tolist()
        while todo:
            node, known = todo.pop()
            if left[node] == NONE:
                parts = [self._literals(place, values) for place, values in known.items()]
                for chosen in itertools.product(*parts):
                    yield [literal for part in chosen for literal in part], tree.value[node]
                continue
            passes, place = goes_left[tests[node]], int(owner[tests[node]])
            if place == NONE:
                todo.append((left[node] if passes[0] else right[node], known))
                continue
            for child, holds in ((right[node], ~passes), (left[node], passes)):
                values = holds & known[place] if place in known else holds
                if values.any():
                    todo.append((child, {**known, place: values}))

    def _literals(self, place: int, values: AnyArray) -> list[list[int]]:
        """Conjunctions of literals, one of which holds where a column has one of these values."""
        key = place, values.tobytes()
        if key not in self._known:
            make = _intervals if self._is_thermometer[place] else _conjunctions
            self._known[key] = list(make(self._columns[place], values))
        return self._known[key]


def _is_thermometer(column: Column) -> bool:
    n_values = column.n_values
    return np.array_equal(column.codewords, np.tri(n_values, n_values - 1, -1, dtype=np.uint8))


def _intervals(column: Column, values: AnyArray) -> Iterator[list[int]]:
    """Values of a thermometer code: an interval has a lowest and a highest value."""
    chosen = np.flatnonzero(values)
    for run in np.split(chosen, np.flatnonzero(np.diff(chosen) > 1) + 1):
        lower = [2 * (column.start + int(run[0]) - 1) + 1] if run[0] > 0 else []
        upper = [2 * (column.start + int(run[-1]))] if run[-1] < column.n_values - 1 else []
        yield lower + upper


def _conjunctions(column: Column, values: AnyArray) -> Iterator[list[int]]:
    """Values of any other code."""
    literals = () if values.all() else column.literals(values)
    if literals is None:
        for one in np.flatnonzero(values):
            yield from _conjunctions(column, np.arange(column.n_values) == one)
        return
    ones = [2 * var + 1 for var, bit in literals if bit]
    is_one_hot = values.sum() == 1 == len(ones) and column.codewords.shape[1] == column.n_values
    yield ones if is_one_hot else [2 * var + bit for var, bit in literals]


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
    return [int(np.floor(x)) if is_whole else x for x in [*first, *starts.tolist()]]


def _cell(column: Column, number: float) -> int:
    return int(np.searchsorted(np.array(column.edges), number, side="right"))


def _bits(columns: Sequence[Column], places: Sequence[AnyArray], n_vars: int) -> ByteArray:
    """Rows of 0 and 1 in which columns have these values."""
    rows = np.zeros((len(places[0]), n_vars), dtype=np.uint8)
    for column, at in zip(columns, places, strict=True):
        rows[:, column.start : column.stop] = column.codewords[at]
    return rows
