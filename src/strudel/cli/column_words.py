"""Words for rows of 0/1 variables that stand for the columns of a table.

In:  text such as ``sex=f, age >= 30``, or names of columns.
Out: rows of 0, 1 and NaN, and such rows in words again; the variables of columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from strudel.cli.advice_in_options import advice_for
from strudel.cli.console import InputError

if TYPE_CHECKING:
    from strudel._types import AnyArray, FloatArray
    from strudel.logic.events import Event
    from strudel.tables.table_code import TableCode

_PIECE = re.compile(r"""(?:[^,'"\[\]]|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|\[[^\]]*\]|['"\[\]])+""")


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

    Columns without a known value are left out.
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


def column_variables(code: TableCode, names: Iterable[str]) -> list[str]:
    """The variables of columns; a name of a variable stands for itself."""
    found: list[str] = []
    for name in names:
        if name in code.variable_names and name not in code.names:
            found.append(name)
        else:
            found += code.column(name).variable_names
    return found
