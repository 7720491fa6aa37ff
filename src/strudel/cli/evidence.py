"""What is asked, what is given, and which variables are meant, as people type them.

In:  ``marginals``; an event such as ``x3=1, x7=0`` or a table with some of the model's columns;
     ``x1,x2``.
Out: one of a few questions; a model and rows of 0, 1 and NaN; names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import numpy as np
import typer

from strudel._names import did_you_mean, find_name, names_of, places_of
from strudel.cli.console import InputError, warnings_as_notes
from strudel.cli.console import advice_of as advice_for
from strudel.cli.input_tables import read_frame_rows, read_rows
from strudel.cli.table_columns import model_columns
from strudel.data.validation import check_shared_names

if TYPE_CHECKING:
    from strudel._types import AnyArray, FloatArray
    from strudel.io.read_tables import Table
    from strudel.logic.events import Event
    from strudel.queries.model import Model

GivenOption = Annotated[
    str | None,
    typer.Option(
        "--given",
        metavar="TEXT|TABLE",
        help="What is known, as in 'sex=f, age>=30' or 'x1=1 or x2=0'; or a table with some of the "
        "columns.",
    ),
]
E = TypeVar("E", bound=StrEnum)
FORMULA_FILES = (".cnf", ".dnf", ".nnf", ".sdd")


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

    model: Model  # given what is no row, as age>60 inside a cell; else the one that was asked
    rows: FloatArray  # (n_rows, n_vars) 0, 1 and NaN
    before: Model  # the one that was asked, with the cells of `model`
    log_probability: float = 0.0  # of what is no row
    words: Mapping[str, str] = MappingProxyType({})  # what the rows do not say
    kept: AnyArray | None = None  # (n_components,) which components are left


def read_given(model: Model, text: str | None, option: str = "--given") -> Given:
    """One row per line of a table, else one row; NaN where nothing is said."""
    if text is None:
        return Given(model, np.full((1, model.n_vars), np.nan), model)
    if not is_condition(text, model):
        return Given(model, _read_table(model, text), model)
    from strudel.algebra.conditioning import at_numbers
    from strudel.algebra.evidence import absorb, with_cells_of
    from strudel.queries.arguments import given_rows

    event = read_condition(model, text, option)
    found = absorb(model, event)
    rows, _ = given_rows(found.model, found.rest)
    before = model
    if found.model.n_vars != model.n_vars:
        before = with_cells_of(model, [event], "query")
    known = at_numbers(found.model, found.rest)
    return Given(known, rows, before, found.log_probability, _words(model, event, text), found.kept)


def _words(model: Model, event: Event, text: str) -> dict[str, str]:
    """What rows of variables do not say: numbers and parts of cells by column, or an event."""
    from strudel.algebra.inner_bounds import conjunction_of
    from strudel.tables.column import bound_text, region_text

    said = conjunction_of(event, variable_names(model))
    if said is None:
        return {"event": text}
    code = model.table_code
    if code is None:
        return {}
    words = {}
    for name, region in said.regions.items():
        (low, high), column = region[0], code.column(name)
        is_number = len(region) == 1 and high == math.nextafter(low, math.inf)
        words[name] = bound_text(column, low) if is_number else region_text(column, region)
    return words


def read_condition(model: Model, text: str, option: str) -> Event:
    """What ``sex=f, age >= 30`` says, or any other text of the grammar of events."""
    from strudel.errors import EventSyntaxError
    from strudel.logic.event_forms import said_event

    try:
        return said_event(text, model.n_vars, model.feature_names)
    except EventSyntaxError as error:
        raise InputError(
            f"{option} cannot be read at character {error.position + 1}, {error.reason} "
            f"{advice_for(error)}".rstrip()
        ) from None


def read_looked_at(model: Model, source: str) -> Any:
    """The rows of a table as people have them, in the columns of the model."""
    if model.table_code is None:
        return _read_table(model, source)
    raw, label = read_frame_rows(source)
    return model_columns(model.table_code, raw, label)


def is_condition(text: str, model: Model | None = None) -> bool:
    """Whether this says something about columns, and does not name a table."""
    if Path(text).exists() or text == "-":
        return False
    has_sign = any(sign in text for sign in ("=", "<", ">", "&", "|", "~", "!", "(", " in "))
    return has_sign or (model is not None and text in variable_names(model))


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
    from strudel.logic.events import children_first

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
