"""What queries about predictions take: a predictor, and rows of evidence.

In:  a variable of the model, a form, a `PredictorCircuit`, an event, a fitted scikit-learn model or
     pipeline, or an estimator that holds a predictor circuit as `predictor_`; evidence.
Out: `Asked`: a model and a `LinearForm`, `LeafForm`, `CircuitForm` or `EventForm` over exactly its
     variables; distinct rows as codes.

What is fitted on the raw columns of a table, or has bounds inside cells, is asked of the same model
with finer cells, so that everything after this file knows 0/1 variables only.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from strudel._names import names_of
from strudel._types import AnyArray, ByteArray, FloatArray, IntArray
from strudel.algebra.finer_cells import bits_in_finer, in_variables, with_finer_cells
from strudel.algebra.inner_bounds import bounds_of
from strudel.circuits.predictor import PredictorCircuit
from strudel.data.containers import is_single_row, read_named_rows
from strudel.data.validation import check_evidence
from strudel.errors import CutCellsWarning, outer_stack_level
from strudel.logic.event_forms import as_event, is_formula
from strudel.logic.events import Event
from strudel.predictions.predictor_forms import CircuitForm, EventForm, Form, LeafForm, LinearForm
from strudel.predictions.ranges import mentioned_variables
from strudel.predictions.raw_columns import Line, RawPredictor
from strudel.predictions.scikit_learn import SUPPORTED, form_of_estimator, is_estimator
from strudel.queries.arguments import variable_indices
from strudel.queries.columns.value_probabilities import respects
from strudel.queries.marginal import raise_if_impossible
from strudel.queries.model import Model
from strudel.queries.passes import decode, distinct_rows, encode
from strudel.queries.probabilities import log_probabilities
from strudel.tables.cell_distribution import SURE
from strudel.tables.coded_column import Column
from strudel.tables.coded_rows import coded_evidence, known_numbers
from strudel.tables.column_conditions import bound_text
from strudel.tables.fitted_trees import kinds_of
from strudel.tables.predictor_columns import step_of
from strudel.tables.table_code import TableCode, code_of_bits


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


def _parts_a_cell(column: Column, cut: float) -> bool:
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
