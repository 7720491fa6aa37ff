"""Words for rows of 0/1 variables that stand for the columns of a table.

In:  text such as ``sex=f, age >= 30``, or names of columns.
Out: rows of 0, 1 and NaN, and such rows in words again; the variables of columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from strudel.cli.advice_in_options import advice_for
from strudel.cli.console import InputError

if TYPE_CHECKING:
    from strudel._types import AnyArray, FloatArray
    from strudel.tables.cell_distribution import Region
    from strudel.tables.coded_column import Column
    from strudel.tables.table_code import TableCode

_PIECE = re.compile(r"""(?:[^,'"\[\]]|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|\[[^\]]*\]|['"\[\]])+""")


class Conditions(NamedTuple):
    """What text says about the columns of a table."""

    row: FloatArray  # (1, n_vars) 0, 1 and NaN
    regions: dict[str, Region]  # of numbers and dates: parts of cells
    numbers: dict[str, float]  # those that are given as a single value


def read_conditions(code: TableCode, text: str, option: str) -> Conditions:
    """What ``sex=f, age >= 30`` says."""
    from strudel.tables.cell_distribution import EVERYWHERE, meet

    found = Conditions(np.full((1, code.n_vars), np.nan), {}, {})
    for piece in _PIECE.finditer(text):
        said = piece.group().strip()
        if not said:
            continue
        number = _single_number(code, said)
        if number is not None:
            column, value = number
            bits = dict(column.literals(_cell(column, value)) or ())
            regions: dict[str, Region] = {}
            found.numbers[column.name] = value
        else:
            bits, regions = _bits_and_regions(code, piece.group(), piece.start(), option)
        for var, bit in bits.items():
            if found.row[0, var] == 1 - bit:
                raise InputError(f"{option} contradicts itself at {said!r}.")
            found.row[0, var] = bit
        for name, region in regions.items():
            found.regions[name] = meet(found.regions.get(name, EVERYWHERE), region)
        for column in code.columns:  # as kids > 3 does with kids < 2
            bits_of = found.row[0, column.start : column.stop]
            fits = ~(bits_of == 1.0 - column.cell_words).any(axis=1)
            if column.name in found.regions:
                fits &= column.cells.shares(found.regions[column.name]) > 0.0
            if not fits.any():
                raise InputError(f"{option} contradicts itself at {said!r}.")
    return found


def pieces_of(text: str) -> list[str]:
    """The conditions of a list."""
    return [piece for piece in _PIECE.findall(text) if piece.strip()]


def _single_number(code: TableCode, said: str) -> tuple[Column, float] | None:
    """The column and the value of ``age=35``, of numbers or dates."""
    from strudel.tables.column_conditions import said_region

    name, sign, value = said.partition("=")
    name = name.strip().strip("'\"")
    if not sign or name not in code.names or not code.column(name).is_numeric:
        return None
    try:
        return code.column(name), said_region(code.column(name), value.strip(" ='\""))[0][0]
    except ValueError:  # the grammar says what is wrong
        return None


def _cell(column: Column, value: float) -> AnyArray:
    return column.value_cell == np.searchsorted(column.cell_edges, value, side="right")


def _bits_and_regions(
    code: TableCode, piece: str, start: int, option: str
) -> tuple[dict[int, int], dict[str, Region]]:
    """The variables that a condition fixes, and the parts of cells, if it does nothing else."""
    from strudel.algebra.inner_bounds import conjunction_of
    from strudel.errors import EventSyntaxError
    from strudel.logic.event_forms import as_event
    from strudel.tables.coded_rows import CodedNames

    names = CodedNames(code)
    try:
        event = as_event(piece, code.n_vars, names)
    except EventSyntaxError as error:
        at = start + error.position + 1
        raise InputError(
            f"{option} cannot be read at character {at}, {error.reason} {advice_for(error)}"
        ) from None
    found = conjunction_of(event, names)
    if found is None:
        raise InputError(
            f"{option} must be a list of conditions like sex=f, age>=30, but {piece.strip()!r} "
            "leaves a choice. Ask for the probability of a formula instead."
        )
    if not found.is_possible:
        raise InputError(f"{option} is impossible at {piece.strip()!r}: no value fits.")
    return found.bits, found.regions


def said_in_words(code: TableCode, conditions: Conditions) -> dict[str, str]:
    """The numbers, and the parts of cells, that conditions name."""
    from strudel.tables.column_conditions import bound_text, region_text

    words = {name: region_text(code.column(name), own) for name, own in conditions.regions.items()}
    numbers = conditions.numbers.items()
    return words | {name: bound_text(code.column(name), value) for name, value in numbers}


def in_words(code: TableCode, row: AnyArray) -> dict[str, str]:
    """The value of every column of a row, as it is called; several where the row leaves a choice.

    Columns without a known value are left out.
    """
    from strudel.tables.column_conditions import either

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
            words[column.name] = either(labels)
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
