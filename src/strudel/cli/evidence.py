"""What is asked, what is given, and which variables are meant, as people type them.

In:  ``marginals``; ``x3=1,x7=0`` or a table with some of the model's columns; ``x1,x2``.
Out: one of a few questions; rows of 0, 1 and NaN; names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from functools import reduce
from operator import and_
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import numpy as np
import typer

from strudel._names import did_you_mean, find_name, names_of, places_of
from strudel.cli.column_words import pieces_of, read_conditions, said_in_words
from strudel.cli.console import InputError, warnings_as_notes
from strudel.cli.input_tables import read_frame_rows, read_rows
from strudel.cli.table_columns import model_columns
from strudel.data.containers import check_shared_names

if TYPE_CHECKING:
    from strudel._types import FloatArray
    from strudel.io.read_tables import Table
    from strudel.queries.model import Model
    from strudel.tables.cell_distribution import Region

GivenOption = Annotated[
    str | None,
    typer.Option(
        "--given",
        metavar="X=1,Y=0|TABLE",
        help="What is known: values by name, as in 'sex=f, age>=30'; or a table "
        "with some of the columns.",
    ),
]
E = TypeVar("E", bound=StrEnum)
FORMULA_FILES = (".cnf", ".dnf", ".nnf", ".sdd")
WORDS = {"0": 0, "1": 1, "false": 0, "true": 1}


def variable_names(model: Model) -> tuple[str, ...]:
    """The feature names, or x0, x1, ... when the model has none."""
    return names_of(model.n_vars, model.feature_names)


def read_what(text: str, kinds: type[E]) -> E:
    """The question or the picture that is meant, in the singular or in the plural."""
    for kind in kinds:
        if _singular(text) == _singular(kind.value):
            return kind
    known = [kind.value for kind in kinds]
    raise InputError(f"WHAT is {text!r}, which is not known. {did_you_mean(text, known)}")


def _singular(word: str) -> str:
    word = word.lower()
    return f"{word[:-3]}y" if word.endswith("ies") else word.removesuffix("s")


class Given(NamedTuple):
    """What is known: a model, and rows of its 0/1 variables."""

    model: Model  # given parts of cells, as in age>60 inside a cell; else the one that was asked
    rows: FloatArray  # (n_rows, n_vars) 0, 1 and NaN
    log_probability: float = 0.0  # of the parts of cells
    words: Mapping[str, str] = MappingProxyType({})  # columns of which the rows do not say all
    regions: Mapping[str, Region] = MappingProxyType({})  # the parts of cells


def read_given(model: Model, text: str | None, option: str = "--given") -> Given:
    """One row per line of a table, else one row; NaN where nothing is said."""
    if text is None:
        return Given(model, np.full((1, model.n_vars), np.nan))
    if not is_condition(text):
        return Given(model, _read_table(model, text))
    code = model.table_code
    if code is None:
        return Given(model, _read_values(model, text, option))
    from strudel.algebra.event_cases import within_regions
    from strudel.queries.soft_evidence import with_code

    said = read_conditions(code, text, option)
    found, log_p = within_regions(model, said.regions) if said.regions else (model, 0.0)
    if found is None:
        raise InputError(f"{option} is impossible under the model: {text!r}.")
    own = found.table_code
    assert own is not None
    numbers = said.numbers
    columns = (one.at(numbers[one.name]) if one.name in numbers else one for one in own.columns)
    if numbers:
        found = with_code(found, replace(own, columns=tuple(columns)))
    return Given(found, said.row, log_p, said_in_words(code, said), said.regions)


def given_values(model: Model, text: str, option: str) -> dict[str, Any]:
    """What is known in one row, by variable; parts of cells as intervals of their column."""
    if not is_condition(text):
        raise InputError(f"{option} must be conditions like sex=f, age>=30, but is {text!r}.")
    return values_by_name(model, read_given(model, text, option))


def values_by_name(model: Model, found: Given) -> dict[str, Any]:
    """One row of what is known, by variable; parts of cells as intervals of their column."""
    from strudel.tables.column_conditions import places_in

    names, (row,) = variable_names(model), found.rows
    values: dict[str, Any] = {
        names[var]: int(row[var]) for var in np.flatnonzero(~np.isnan(row)).tolist()
    }
    code = model.table_code
    for name, region in found.regions.items():
        assert code is not None
        column = code.column(name)
        if not column.is_numeric:
            values[name] = [column.values[place] for place in places_in(column, region)]
            continue
        ((low, high),) = region
        values[name] = (low if low > -np.inf else None, high if high < np.inf else None)
    return values


def read_looked_at(model: Model, source: str) -> Any:
    """The rows of a table as people have them, in the columns of the model."""
    if model.table_code is None:
        return _read_table(model, source)
    raw, label = read_frame_rows(source)
    return model_columns(model.table_code, raw, label)


def is_condition(text: str) -> bool:
    """Whether this says values, and does not name a table."""
    return any(sign in text for sign in "=<>") and not Path(text).exists()


def read_asked(model: Model, text: str, option: str) -> Any:
    """Values as an event: from ``x3=1,x7=0``, or for a model of a table ``sex=f, age>=30``."""
    from strudel.logic.event_forms import as_event

    code = model.table_code
    if code is None:
        row = _read_values(model, text, option)[0]
        return {var: int(row[var]) for var in np.flatnonzero(~np.isnan(row)).tolist()}
    read_conditions(code, text, option)  # says what is wrong with it
    pieces = [as_event(piece, code.n_vars, model.feature_names) for piece in pieces_of(text)]
    return reduce(and_, pieces)


def _read_values(model: Model, text: str, option: str) -> FloatArray:
    """One row from ``x3=1,x7=0``."""
    row = np.full((1, model.n_vars), np.nan)
    for part in filter(str.strip, text.split(",")):
        name, sign, value = (piece.strip() for piece in part.rpartition("="))
        if not sign or value.lower() not in WORDS:
            raise InputError(f"{option} must give values like x3=1,x7=0, but has {part.strip()!r}.")
        var = find_variable(model, name, option)
        if not np.isnan(row[0, var]):
            raise InputError(f"{option} names {name!r} twice.")
        row[0, var] = WORDS[value.lower()]
    return row


def read_event(model: Model, text: str) -> Any:
    """An event as text, or from the file of a formula."""
    from strudel.logic.event_forms import as_event

    return as_event(read_constraint(text), model.n_vars, model.feature_names)


def read_constraint(text: str) -> Any:
    """A formula as it was typed, or that of a file."""
    if Path(text.removesuffix(".gz")).suffix not in FORMULA_FILES:
        return text
    from strudel.io.read_write import read

    if not Path(text).is_file():
        raise InputError(f"there is no file {text!r}.")
    return read(text)


def number_variables(formula: Any, table: Table) -> Any:
    """A constraint over the columns of a table by their numbers: learning does not see names."""
    from strudel.logic.event_forms import as_event
    from strudel.logic.events import Event, children_first

    n_vars = table.X.shape[1]
    event = as_event(formula, n_vars, table.feature_names)
    place = places_of(names_of(n_vars, table.feature_names))
    made: dict[int, Event] = {}
    for part, _ in children_first(event, flat=False):
        changes: dict[str, Any] = {"children": tuple(made[id(child)] for child in part.children)}
        if part.kind == "variable":
            changes["var"] = find_name(part.var, place, "--constraint")
        made[id(part)] = replace(part, **changes)
    return made[id(event)]


def read_variables(model: Model, text: str | None, option: str) -> list[str] | None:
    """Names from ``x1,x2``, each once and known to the model; None if the option was not used."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InputError(f"{option} must name at least one variable.")
    for name in names:
        if model.table_code is None or name not in model.table_code.names:
            find_variable(model, name, option)
        if names.count(name) > 1:
            raise InputError(f"{option} names {name!r} twice.")
    return names


def find_variable(model: Model, name: str, option: str) -> int:
    """The number of the variable with this name."""
    names = variable_names(model)
    if name in names:
        return names.index(name)
    if model.table_code is not None:
        names = model.table_code.names
    raise InputError(
        f"{option} names {name!r}, which the model does not have. {did_you_mean(name, names)}"
    )


def _read_table(model: Model, source: str) -> FloatArray:
    """The rows of a table; columns that it lacks are unknown."""
    if model.table_code is not None:
        raw, label = read_frame_rows(source)
        cells = model_columns(model.table_code, raw, label, may_be_few=True)
        return model.table_code.encode_columns(model.table_code.match(cells, label), label)
    table = read_rows(source)
    if table.feature_names is None:
        if table.X.shape[1] != model.n_vars:
            raise InputError(
                f"{table.source} has {table.X.shape[1]} columns without names, "
                f"but the model has {model.n_vars}."
            )
        return table.X.astype(np.float64)
    names = variable_names(model)
    with warnings_as_notes():
        check_shared_names(table.feature_names, names, table.source, may_be_few=True)
    known = [place for place, name in enumerate(table.feature_names) if name in names]
    rows = np.full((len(table.X), model.n_vars), np.nan)
    rows[:, [names.index(table.feature_names[place]) for place in known]] = table.X[:, known]
    return rows
