"""What queries about predictions take: a predictor, and rows of evidence.

In:  a variable of the model, a form, a `PredictorCircuit`, an event, a fitted scikit-learn model or
     pipeline, or an estimator that holds a predictor circuit as `predictor_`; evidence.
Out: `Asked`: a model and a `LinearForm`, `LeafForm`, `CircuitForm` or `EventForm` over exactly its
     variables; distinct rows as codes.

What is fitted on the raw columns of a table, or has bounds inside cells, is asked of the same model
with finer cells, so that everything after this file knows 0/1 variables only. A test of a tree is a
set of values or cells, and a leaf a set for each column. A linear model has a value for each of
them; of numbers that is the mean in the cell, and a `Line` says what a known number adds to it.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from strudel._names import names_of
from strudel._types import NONE, AnyArray, ByteArray, FloatArray, IntArray
from strudel.algebra.finer_cells import bits_in_finer, in_variables, with_finer_cells
from strudel.algebra.inner_bounds import bounds_of
from strudel.circuits.passes import decode, distinct_rows, encode
from strudel.circuits.predictor import PredictorCircuit
from strudel.circuits.walks import raise_if_impossible
from strudel.data.validation import check_evidence, is_single_row, read_named_rows
from strudel.errors import CutCellsWarning, outer_stack_level
from strudel.logic.event_forms import as_event, is_formula
from strudel.logic.events import Event
from strudel.predictions.predictor_forms import (
    SUPPORTED,
    CircuitForm,
    EventForm,
    Form,
    LeafForm,
    LinearForm,
    boosting_start,
    check_estimator,
    check_predictions,
    form_of_estimator,
    form_of_leaves,
    is_estimator,
    is_linear,
    linear_parts,
    mentioned_variables,
    output_and_link,
)
from strudel.queries.arguments import variable_indices
from strudel.queries.columns.value_probabilities import respects, value_sums
from strudel.queries.model import Model
from strudel.queries.probabilities import log_probabilities
from strudel.tables.coded_column import CodedColumn
from strudel.tables.column import bound_text
from strudel.tables.density import SURE
from strudel.tables.predictor_columns import (
    BOOSTING,
    FittedTree,
    Halving,
    PredictorColumns,
    compares_in_single,
    fitted_trees,
    kinds_of,
    step_of,
    tests_of,
)
from strudel.tables.table_code import TableCode, code_of_bits, coded_evidence, known_numbers


class Asked(NamedTuple):
    """A predictor as a form over the variables of a model, which may have finer cells."""

    model: Model
    form: Form
    original: Model  # the model as it was given
    lines: tuple[Line, ...] = ()  # columns that a linear model takes as numbers

    def indices(self, variables: Any, name: str) -> AnyArray:
        """The numbers in `model` of variables or columns of the original model."""
        original = self.original
        if self.model is original:
            return variable_indices(original, variables, name)
        old, new = original.table_code, self.model.table_code
        assert old is not None
        assert new is not None
        found: list[int] = []
        asked = variable_indices(original, variables, name).tolist()
        for before, after in zip(old.columns, new.columns, strict=True):
            own = [var for var in asked if before.start <= var < before.stop]
            is_same = before.cell_edges == after.cell_edges
            if own and not is_same and len(own) < before.stop - before.start:
                raise ValueError(
                    f"{name} names {before.variable_names[own[0] - before.start]!r}, but the "
                    f"predictor cuts column {before.name!r} elsewhere. Name the column itself."
                )
            moved = [var - before.start + after.start for var in own]
            found += moved if is_same else list(after.variables) if own else []
        return np.array(found, dtype=np.int64)


def ask(model: Model, *predictors: Any, query: str, are_decisions: bool = False) -> list[Asked]:
    """Predictors as forms over the variables of one model: the given one, or with finer cells."""
    readings = [_read(model, predictor, are_decisions) for predictor in predictors]
    code = model.table_code
    cuts: dict[str, set[float]] = {}
    for reading in readings:
        if isinstance(reading, RawPredictor):
            _check_codes(model, reading.used_columns, query)
            inner = {} if code is None else _inner_cuts(reading.cuts, code)
            _warn_of_cuts(inner, code)
            for name, own in inner.items():
                cuts.setdefault(name, set()).update(own)
        elif isinstance(reading, EventForm):
            for name, bounds in bounds_of(reading.event).items():
                cuts.setdefault(name, set()).update(bounds)
    finer = with_finer_cells(model, {name: sorted(own) for name, own in cuts.items()}, query)
    return [
        _asked(finer, model, reading, predictor, are_decisions)
        for reading, predictor in zip(readings, predictors, strict=True)
    ]


def _asked(model: Model, original: Model, reading: Any, predictor: Any, is_decision: bool) -> Asked:
    """What is asked of a model with the cells that all predictors need."""
    names = None if model.feature_names is None else tuple(model.feature_names)
    is_same = model is original
    if isinstance(reading, RawPredictor):
        if not is_same and _code_for(original, reading.predictor) is not original.table_code:
            _need_names(model, original, reading.predictor)
        form, lines = reading.form(_code_for(model, reading.predictor), model.n_vars, names)
        return Asked(model, form, original, lines)
    if isinstance(reading, EventForm) or (is_decision and _is_variable(original, predictor)):
        if isinstance(reading, EventForm):
            event = reading.event
        else:
            var = int(variable_indices(original, predictor, "decision")[0])
            if is_same:
                return Asked(model, _variable(model, var), original)
            event = Event("variable", var=var)
        if not is_same or bounds_of(event):
            event = in_variables(event, original, model)
        found: Form = EventForm(event, model.n_vars, names)
        return Asked(model, _simplest(model, found) if is_decision else found, original)
    if not is_same:
        _need_names(model, original, predictor)
    found = form_of_predictor(predictor, model.n_vars, model.feature_names)
    return Asked(model, _simplest(model, found) if is_decision else found, original)


def _need_names(model: Model, original: Model, predictor: Any) -> None:
    """Refuse a predictor of 0/1 variables that the model with finer cells does not have."""
    names = getattr(_unwrapped(predictor), "feature_names_in_", None)
    if names is None or not set(model.feature_names or ()).issuperset(names):
        raise ValueError(
            f"The {type(predictor).__name__} is over the {original.n_vars} variables of the model, "
            "but the other predictor cuts its cells. Fit it on the columns of the table."
        )


def _read(model: Model, predictor: Any, is_decision: bool) -> RawPredictor | EventForm | None:
    """A predictor of raw columns, or an event; None for all others."""
    predictor = _unwrapped(predictor)
    if is_estimator(predictor):
        if _is_raw(model, predictor):
            return RawPredictor(predictor, _code_for(model, predictor))
        return None
    is_variable = is_decision and _is_variable(model, predictor)
    if (is_formula(predictor) or isinstance(predictor, Mapping)) and not is_variable:
        event = as_event(predictor, model.n_vars, model.feature_names)
        return EventForm(event, model.n_vars, None)
    return None


def _is_variable(model: Model, predictor: Any) -> bool:
    """Whether what decides is the name or number of a variable."""
    is_number = isinstance(predictor, int | np.integer) and not isinstance(predictor, bool)
    return is_number or (isinstance(predictor, str) and predictor in (model.feature_names or ()))


def _unwrapped(predictor: Any) -> Any:
    """What a search of hyperparameters found; anything else as it is."""
    is_search = "BaseSearchCV" in kinds_of(predictor)
    return getattr(predictor, "best_estimator_", predictor) if is_search else predictor


def _is_raw(model: Model, predictor: Any) -> bool:
    """Whether a predictor was fitted on columns of a table, not on 0/1 variables as they are."""
    is_pipeline = "Pipeline" in kinds_of(predictor)
    if is_pipeline and any(
        step is not None and not isinstance(step, str) for _, step in predictor.steps[:-1]
    ):
        return True
    code = model.table_code
    if code is None:
        return False
    names = getattr(predictor, "feature_names_in_", None)
    if names is not None:
        variables = set(model.feature_names or ())
        return all(name in code.names for name in names) and any(
            name not in variables for name in names
        )
    n_features = getattr(predictor, "n_features_in_", None)
    return n_features == len(code.columns) != model.n_vars


def _code_for(model: Model, predictor: Any) -> TableCode:
    """The code of the columns that a predictor was fitted on."""
    code = model.table_code
    variables = names_of(model.n_vars, model.feature_names)
    names = getattr(predictor, "feature_names_in_", None)
    n_features = getattr(predictor, "n_features_in_", None)
    if code is not None:
        known = set(code.names)
        is_of_bits = (
            not known.issuperset(names) and set(variables).issuperset(names)
            if names is not None
            else n_features == len(variables) != len(code.columns)
        )
        if not is_of_bits:
            return code
    return code_of_bits([str(name) for name in variables], "pandas")


def _check_codes(model: Model, names: Sequence[str], query: str) -> None:
    """Refuse a model in which a column that a predictor uses may have no value."""
    code = model.table_code
    if code is None:
        return
    for name in names:
        if name in code.names and not respects(model, code.column(name), query):
            raise ValueError(
                f"The predictor uses column {name!r}, but the model gives probability to codes "
                "of no value of it. Learn the model with TableEncoder(respect_one_hot=True)."
            )


def _inner_cuts(cuts: Mapping[str, Sequence[float]], code: TableCode) -> dict[str, list[float]]:
    """The cuts at which no cells meet yet."""
    found = {}
    for name, own in cuts.items():
        column = code.column(name)
        if column.is_shared:
            found[name] = [cut for cut in own if cut not in column.cell_edges]
            continue
        step, edges = step_of(column), np.array(column.edges)
        ends = np.ceil(edges / step) * step if step else edges  # between whole numbers is one place
        span = max(abs(end) for end in column.cells.density.seen)
        apart = np.abs(np.subtract.outer(np.array(own), ends)).min(axis=1, initial=np.inf)
        inner = np.array(own)[apart > 1e-12 * span]
        if len(inner):
            found[name] = inner.tolist()
    return found


def _warn_of_cuts(cuts: Mapping[str, Sequence[float]], code: TableCode | None) -> None:
    """Say that the density inside cells takes part, where a cut leaves some of it on both sides."""
    parts = []
    for name, own in cuts.items():
        assert code is not None
        column = code.column(name)
        cut = next((cut for cut in own if _parts_a_cell(column, cut)), None)
        if cut is not None and column.is_numeric:
            more = f" and {len(own) - 1} more" if len(own) > 1 else ""
            parts.append(f"{name!r} at {bound_text(column, cut)}{more}")
    if parts:
        warnings.warn(
            CutCellsWarning(
                f"The predictor cuts cells of the model: {', '.join(parts)}. Inside a cell the "
                "density of the column decides, as if the number told no more about other columns "
                "than its cell does.",
                "Learn the model with TableEncoder(edges=predictor), whose cells end where the "
                "predictor cuts.",
            ),
            stacklevel=outer_stack_level(),
        )


def _parts_a_cell(column: CodedColumn, cut: float) -> bool:
    share = column.cells.shares(((cut, np.inf),))
    return bool(np.any((share > SURE) & (share < 1.0 - SURE)))


def _simplest(model: Model, form: Form) -> Form:
    """An event that is a variable or its negation as a sum; any other form as it is."""
    if isinstance(form, EventForm):
        event = form.event
        is_not = event.kind == "not"
        if (event.children[0] if is_not else event).kind == "variable":
            return _variable(model, int(mentioned_variables(form)[0]), is_not)
    return form


def _variable(model: Model, var: int, is_not: bool = False) -> LinearForm:
    """A variable or its negation as a sum of one term: sums have better bounds than events."""
    weight = np.zeros((model.n_vars, 1))
    weight[var] = -1.0 if is_not else 1.0
    return LinearForm(weight, np.array([float(is_not)]), output="probability")


def form_of_predictor(
    predictor: Any, n_vars: int, feature_names: Sequence[str] | None = None
) -> Form:
    """The form of a predictor over the variables of a model.

    Predictors that know the names of their features may have them in another order than the model,
    and may leave some out.
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
    predictor = _unwrapped(predictor)
    if is_estimator(predictor):
        return form_of_estimator(predictor, n_vars, names)
    is_unfitted = ", or it is not fitted yet" if hasattr(predictor, "fit") else ""
    raise TypeError(
        f"A {type(predictor).__name__} is not a known kind of predictor{is_unfitted}. {SUPPORTED}"
    )


def _check_variables(form: Form, n_vars: int, names: tuple[str, ...] | None) -> None:
    """Refuse a form over other variables than the model's."""
    if form.n_vars != n_vars:
        raise ValueError(
            f"The predictor has {form.n_vars} variables, but the model has {n_vars}. They must be "
            "the same, in the same order."
        )
    mine = form.feature_names
    if mine is not None and names is not None and mine != names:
        var = next(var for var in range(n_vars) if mine[var] != names[var])
        raise ValueError(
            f"The predictor and the model must have the same variables in the same order, but "
            f"variable {var} is {mine[var]!r} in the predictor and {names[var]!r} in the model."
        )


class Evidence(NamedTuple):
    """Rows of evidence as codes, each once."""

    codes: ByteArray  # (n_distinct, n_vars)
    place: IntArray  # (n_rows,) where each row is among them
    is_single: bool
    shift: FloatArray  # (n_distinct, n_lines, n_outputs) what known numbers add to their cells
    knows: AnyArray  # (n_distinct, n_lines) whether the number of a line is known

    @property
    def shifts(self) -> FloatArray:
        """What all known numbers of each row add, `(n_distinct, n_outputs)`."""
        return np.asarray(self.shift.sum(axis=1))


def evidence_of(asked: Asked, given: Any, name: str) -> Evidence:
    """Rows of evidence for what is asked; nothing is known by default."""
    model, form = asked.model, asked.form
    if given is None:
        rows, is_single = np.full((1, model.n_vars), np.nan), True
    else:
        names, is_single = model.feature_names, is_single_row(given)
        given = given if model is asked.original else _given_finer(asked, given, name)
        rows = check_evidence(given, n_vars=model.n_vars, feature_names=names, name=name)
    codes, n_lines = encode(rows), len(asked.lines)
    if not n_lines:
        codes, place = distinct_rows(codes)
        return evidence_of_codes(codes, place, is_single, form)
    assert model.table_code is not None
    numbers = known_numbers(given, model.table_code)
    shift = np.zeros((len(codes), n_lines, form.n_outputs))
    knows = np.zeros((len(codes), n_lines), dtype=np.bool_)
    for i, line in enumerate(asked.lines):
        if line.column.name in numbers:
            own = numbers[line.column.name]
            shift[:, i], knows[:, i] = line.shifts(own), ~np.isnan(own)
    place = np.arange(len(codes), dtype=np.int32)  # rows of equal cells may differ in their numbers
    return Evidence(codes, place, is_single, shift, knows)


def _given_finer(asked: Asked, given: Any, name: str) -> Any:
    """Evidence about the original model for the one with finer cells.

    Rows of 0/1 variables are refused: they do not say enough.
    """
    original, code = asked.original, asked.original.table_code
    assert code is not None
    dicts: list[Any] | None = read_named_rows(given)  # entries of a list may be anything
    if dicts is None:
        if coded_evidence(given, code, name) is None:
            raise ValueError(
                f"{name} holds the {original.n_vars} variables of the model, but the predictor "
                f"cuts its cells. Use the {len(code.columns)} columns of the table instead."
            )
        return given
    rows = []
    for row in dicts:
        if not isinstance(row, Mapping):
            return given  # refused below
        by_column = {key: value for key, value in row.items() if key in code.names}
        others = {key: value for key, value in row.items() if key not in code.names}
        names = original.feature_names
        bits = check_evidence(others, n_vars=original.n_vars, feature_names=names, name=name)[0]
        rows.append({**by_column, **bits_in_finer(bits, original, asked.model, name)})
    return rows


def evidence_of_codes(codes: ByteArray, place: IntArray, is_single: bool, form: Form) -> Evidence:
    """Evidence without numbers."""
    shift, knows = np.zeros((len(codes), 0, form.n_outputs)), np.zeros((len(codes), 0), dtype=bool)
    return Evidence(codes, place, is_single, shift, knows)


def possible_evidence(asked: Asked, given: Any, name: str, query: str) -> Evidence:
    """The same; impossible rows are refused."""
    found = evidence_of(asked, given, name)
    raise_if_impossible(log_probabilities(asked.model, decode(found.codes), query)[found.place])
    return found


N_CHECKED = 32  # rows at least on which a form is compared with the predictor
STRAIGHT = 1e-9  # how far a line may be off, relative to the largest value


class Line(NamedTuple):
    """A column of numbers of a linear model: what a number adds to the mean of its cell."""

    column: CodedColumn
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
        numbers = np.array(self.column.drawn_bits(own, rng, beyond_seen=True), dtype=np.float64)
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
        columns: Sequence[CodedColumn],
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
        columns: Sequence[CodedColumn],
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
        self,
        columns: Sequence[CodedColumn],
        values: Sequence[list[Any]],
        places: Sequence[AnyArray],
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
        columns: Sequence[CodedColumn],
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
                inside = column.drawn_bits(column.codewords[at].astype(np.float64), rng)
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

    def __init__(self, columns: Sequence[CodedColumn]) -> None:
        self._columns = columns
        self._is_thermometer = [_is_thermometer(column) for column in columns]
        self._known: dict[tuple[int, bytes], list[list[int]]] = {}

    def leaves(
        self, tree: FittedTree, node_test: AnyArray, goes_left: Sequence[AnyArray], owner: AnyArray
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


def _is_thermometer(column: CodedColumn) -> bool:
    n_values = column.n_values
    return np.array_equal(column.codewords, np.tri(n_values, n_values - 1, -1, dtype=np.uint8))


def _intervals(column: CodedColumn, values: AnyArray) -> Iterator[list[int]]:
    """Values of a thermometer code: an interval has a lowest and a highest value."""
    chosen = np.flatnonzero(values)
    for run in np.split(chosen, np.flatnonzero(np.diff(chosen) > 1) + 1):
        lower = [2 * (column.start + int(run[0]) - 1) + 1] if run[0] > 0 else []
        upper = [2 * (column.start + int(run[-1]))] if run[-1] < column.n_values - 1 else []
        yield lower + upper


def _conjunctions(column: CodedColumn, values: AnyArray) -> Iterator[list[int]]:
    """Values of any other code."""
    literals = () if values.all() else column.literals(values)
    if literals is None:
        for one in np.flatnonzero(values):
            yield from _conjunctions(column, np.arange(column.n_values) == one)
        return
    ones = [2 * var + 1 for var, bit in literals if bit]
    is_one_hot = values.sum() == 1 == len(ones) and column.codewords.shape[1] == column.n_values
    yield ones if is_one_hot else [2 * var + bit for var, bit in literals]


def _representatives(column: CodedColumn) -> list[Any]:
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


def _cell(column: CodedColumn, number: float) -> int:
    return int(np.searchsorted(np.array(column.edges), number, side="right"))


def _bits(columns: Sequence[CodedColumn], places: Sequence[AnyArray], n_vars: int) -> ByteArray:
    """Rows of 0 and 1 in which columns have these values."""
    rows = np.zeros((len(places[0]), n_vars), dtype=np.uint8)
    for column, at in zip(columns, places, strict=True):
        rows[:, column.start : column.stop] = column.codewords[at]
    return rows
