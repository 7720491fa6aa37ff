"""The columns of a table at the command line, for a model over the 0/1 variables of its code.

In:  a table of any types, or text such as ``sex=f, age >= 30``.
Out: rows of 0, 1 and NaN; and such rows in words again.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from strudel.cli.advice import advice_for
from strudel.cli.console import InputError, left_out, note
from strudel.cli.frames import cells_of

if TYPE_CHECKING:
    from strudel._types import AnyArray, FloatArray
    from strudel.logic.events import Event
    from strudel.tables.coded_column import Column
    from strudel.tables.columns import RawTable
    from strudel.tables.table_code import TableCode

_PIECE = re.compile(r"""(?:[^,'"\[\]]|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|\[[^\]]*\]|['"\[\]])+""")


def model_columns(code: TableCode, table: RawTable, source: str) -> RawTable:
    """The columns of the model; those that the table lacks are unknown, other ones are left out."""
    if not table.has_names:
        return table
    shared = [name for name in table.names if name in code.names]
    if not shared:
        raise InputError(
            f"{source} has none of the columns of the model, {', '.join(code.names[:5])}"
            f"{', ...' if len(code.names) > 5 else ''}."
        )
    if len(shared) < len(table.columns):
        note(left_out(len(table.columns) - len(shared), source, "the model"))
    return table.select(code.names)


def read_conditions(code: TableCode, text: str, option: str) -> FloatArray:
    """One row from ``sex=f, age >= 30``."""
    from strudel.errors import EventSyntaxError
    from strudel.logic.event_forms import as_event
    from strudel.tables.coded_rows import CodedNames

    names = CodedNames(code)
    place = {name: var for var, name in enumerate(names)}
    row = np.full((1, code.n_vars), np.nan)
    for found in _PIECE.finditer(text):
        piece = found.group()
        if not piece.strip():
            continue
        try:
            event = as_event(piece, code.n_vars, names)
        except EventSyntaxError as error:
            at = found.start() + error.position + 1
            raise InputError(
                f"{option} cannot be read at character {at}, {error.reason} {advice_for(error)}"
            ) from None
        for name, bit in _literals(event, piece, option):
            if row[0, place[name]] == 1 - bit:
                raise InputError(f"{option} contradicts itself at {piece.strip()!r}.")
            row[0, place[name]] = bit
        for column in code.columns:  # as kids > 3 does with kids < 2
            bits = row[0, column.start : column.stop]
            if (bits == 1.0 - column.codewords).any(axis=1).all():
                raise InputError(f"{option} contradicts itself at {piece.strip()!r}.")
    return row


def _literals(event: Event, piece: str, option: str) -> Iterator[tuple[str, int]]:
    """The variables that an event fixes, if it does nothing else."""
    if event.kind == "and":
        for child in event.children:
            yield from _literals(child, piece, option)
    elif event.kind == "variable":
        yield str(event.var), 1
    elif event.kind == "not" and event.children[0].kind == "variable":
        yield str(event.children[0].var), 0
    elif event.kind != "constant":
        raise InputError(
            f"{option} must be a list of conditions like sex=f, age>=30, but {piece.strip()!r} "
            "leaves a choice. Ask for the probability of a formula instead."
        )
    elif not event.low:
        raise InputError(f"{option} is impossible at {piece.strip()!r}: no value fits.")


def in_words(code: TableCode, row: AnyArray) -> dict[str, str]:
    """The value of every column of a row, as it is called; several where the row leaves a choice.

    Columns of which nothing is known are left out.
    """
    words = {}
    for column in code.columns:
        bits = np.asarray(row[column.start : column.stop], dtype=np.float64)
        if np.isnan(bits).all():
            continue
        fits = ~(bits == 1.0 - column.codewords).any(axis=1)
        if not fits.any():  # no value has this code: the nearest, as when it is decoded
            fits = np.arange(column.n_values) == column.nearest(bits[np.newaxis])[0]
        if not fits.all() or column.n_values == 1:
            labels = [column.labels[place] for place in np.flatnonzero(fits)]
            words[column.name] = " or ".join(labels)
    return words


def write_columns(columns: Mapping[str, Sequence[Any]], file: Any, separator: str = ",") -> None:
    """Columns as csv, with nothing where a value is missing."""
    writer = csv.writer(file, delimiter=separator, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(map(_cell, cells) for cells in columns.values()), strict=True))


def decoded_columns(
    code: TableCode, rows: AnyArray, known: dict[str, list[Any]] | None = None
) -> dict[str, list[Any]]:
    """The values of every column, None where nothing is known.

    Numbers are the median of their cell, unless `known` has the value.
    """
    from strudel.tables.frames import as_date

    table = np.asarray(rows, dtype=np.float64)
    decoded: dict[str, list[Any]] = {}
    for column in code.columns:
        cells = column.decoded(table[:, column.start : column.stop])
        if column.kind == "date":
            cells = [as_date(cell, column) for cell in cells]
        for place, value in enumerate((known or {}).get(column.name, ())):
            cells[place] = cells[place] if value is None else value
        decoded[column.name] = cells
    return decoded


def known_cells(code: TableCode, table: RawTable, n: int = 1) -> dict[str, list[Any]]:
    """The cells of a table by column, each `n` times, None where one is missing."""
    names = table.names if table.has_names else code.names
    return {
        name: [cell for cell in cells_of(column) for _ in range(n)]
        for name, column in zip(names, table.columns, strict=True)
        if name in code.names
    }


def of_one_type(column: Column, cells: list[Any], with_means: bool) -> list[Any]:
    """Cells as the model has them, so that the column has one type in all partitions."""
    from strudel.tables.filled_table import has_mean

    if column.kind == "date":
        return cells
    if column.kind == "number" or (with_means and has_mean(column)):
        return [None if cell is None else float(cell) for cell in cells]
    own = {}
    for cell in set(cells):
        place = column.place_of(cell)
        own[cell] = cell if place is None else column.values[place]
    return [own[cell] for cell in cells]


def _cell(value: Any) -> Any:
    """A value as csv has it; whole numbers without a point, as `read_frame` reads them."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value


def column_variables(code: TableCode, names: Iterable[str]) -> list[str]:
    """The variables of columns; a name of a variable stands for itself."""
    found: list[str] = []
    for name in names:
        if name in code.variable_names and name not in code.names:
            found.append(name)
        else:
            found += code.column(name).variable_names
    return found


def read_encoder(is_encoded: bool, edges: list[str], max_categories: int | None) -> dict[str, Any]:
    """The option `encoder` of an estimator, with the bounds that were given."""
    given = {"--edges": bool(edges), "--max-categories": max_categories is not None}
    used = [option for option, is_given in given.items() if is_given]
    if used and not is_encoded:
        raise InputError(f"{used[0]} goes with --encode auto.")
    if not used:
        return {"encoder": "auto"} if is_encoded else {}
    from strudel.tables.encoder import TableEncoder

    bounds: dict[str, list[Any]] = {}
    for text in edges:
        name, sign, values = text.partition("=")
        cells = [value.strip() for value in values.split(",") if value.strip()]
        if not sign or not cells or name.strip() in bounds:
            raise InputError(f"--edges must be like age=18,65, once per column, but is {text!r}.")
        bounds[name.strip()] = [_bound(cell) for cell in cells]
    options: dict[str, Any] = {"edges": bounds} if bounds else {}
    options |= {} if max_categories is None else {"max_categories": max_categories}
    return {"encoder": TableEncoder(**options)}


def _bound(text: str) -> Any:
    """A number, or a date as it stands."""
    try:
        return float(text)
    except ValueError:
        return text
