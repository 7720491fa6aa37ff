"""Tables of any types in files: text, numbers, dates and gaps -> columns with their types.

In:  what `read_table` takes.
Out: `RawTable`, which a `TableEncoder` turns into 0/1 variables.

The types of csv columns are found here and not by a frame library, so that a model does not depend
on which ones are installed: numbers (also inf), true and false, ISO dates, else text. A number with
a leading zero is text, as postal codes are.
"""

from __future__ import annotations

import csv
import datetime
import io
import math
import os
import re
import sys
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NoReturn

import numpy as np

from strudel._types import AnyArray
from strudel.errors import FileFormatError
from strudel.io.read_tables import (
    CELL,
    SAVE_AGAIN,
    UNKNOWN,
    checked_text,
    column_names,
    kind_of,
    one_line,
    path_of,
    read_arrays,
    read_parquet_frame,
    read_table,
    separator_of,
)
from strudel.io.table_bytes import check_bytes, read_bytes
from strudel.tables.columns import RawColumn, RawTable, as_stamp, read_columns

_NUMBER = re.compile(r"[+-]?(0|[1-9]\d*)(\.\d*)?([eE][+-]?\d+)?|[+-]?\.\d+([eE][+-]?\d+)?")
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
BLOCK_ROWS = 2**14  # of a csv file at a time
SPELLING = 150  # bytes that a new spelling takes besides its letters
CONTAINER = "pandas"  # what a model that was learned from a file answers with


def read_frame(
    source: str | os.PathLike[str], *, dataset_split: str | None = None
) -> tuple[RawTable, str]:
    """Read a table of any types; returns it, and what to call it in messages."""
    label = os.fspath(source)
    path = path_of(source)
    if label == "-":
        raw = read_bytes(sys.stdin.buffer, "standard input")
        return _read_text(raw, "standard input"), "standard input"
    if not path.exists() or path.is_dir():
        return _from_dataset(source, dataset_split)
    kind, raw = kind_of(path), read_bytes(path, label)
    if kind == ".parquet":
        return as_raw_table(read_parquet_frame(raw, label), label), label
    if kind in (".npy", ".npz"):
        arrays = read_arrays(raw, label)
        if len(arrays) != 1:
            return _from_dataset(source, dataset_split)
        return as_raw_table(next(iter(arrays.values())), label), label
    return _read_text(raw, label, "\t" if kind == ".tsv" else None), label


def _from_dataset(source: str | os.PathLike[str], split: str | None) -> tuple[RawTable, str]:
    """A dataset, whose table is 0/1."""
    table = read_table(source, dataset_split=split)
    raw = read_columns(table.X)
    if table.feature_names is None:
        return raw, table.source
    columns = [
        RawColumn(name, column.dtype, column.values)
        for name, column in zip(table.feature_names, raw.columns, strict=True)
    ]
    return RawTable(tuple(columns), raw.n_rows, CONTAINER, has_names=True), table.source


def as_raw_table(frame: Any, label: str) -> RawTable:
    """The columns of a frame, or of an array of numbers."""
    try:
        return read_columns(frame, label)
    except (ValueError, TypeError) as error:
        raise FileFormatError(one_line(error)) from None


def _read_text(raw: bytes, label: str, separator: str | None = None) -> RawTable:
    """Lines of cells under a line of names; without names if the first line holds only numbers."""
    try:
        text = checked_text(raw, label).decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileFormatError(
            f"{label} is not text in UTF-8: {error.reason}. {SAVE_AGAIN}"
        ) from None
    separator = separator or _separator(text)
    columns: list[_TextColumn] = []
    names: tuple[str, ...] | None = None
    n_rows, width, text_bytes = 0, 0, 0
    reader = csv.reader(io.StringIO(text), delimiter=separator, strict=True)
    try:
        while block := list(islice(reader, BLOCK_ROWS)):
            rows = [cells for cells in block if cells]
            if rows and not columns:
                width = len(rows[0])
                columns = [_TextColumn() for _ in range(width)]
                if not all(_is_number(cell.strip()) or _is_gap(cell) for cell in rows[0]):
                    names = _checked_names(rows.pop(0), label)
            if any(len(row) != width for row in rows):
                _refuse_uneven(text, separator, width, label)
            for column, cells in zip(columns, zip(*rows, strict=True), strict=False):
                text_bytes += column.add(cells)
            n_rows += len(rows)
            check_bytes(text_bytes + CELL * n_rows * width, label)
    except csv.Error as error:
        raise FileFormatError(f"{label} is not csv: {one_line(error)}.") from None
    if not n_rows:
        raise FileFormatError(f"{label} has names but no rows.")
    found = tuple(
        column.read(name)
        for name, column in zip(
            names or [f"x{place}" for place in range(width)], columns, strict=True
        )
    )
    return RawTable(found, n_rows, "numpy" if names is None else CONTAINER, names is not None)


def _checked_names(cells: list[str], label: str) -> tuple[str, ...]:
    names = column_names(cells, len(cells), label)
    if "" in names:
        raise FileFormatError(
            f"{label} has no name for column {names.index('')}. Give it one, or leave out the "
            "row numbers."
        )
    return names


def _refuse_uneven(text: str, separator: str, width: int, label: str) -> NoReturn:
    """Say which line has another number of cells than the first."""
    reader = csv.reader(io.StringIO(text), delimiter=separator, strict=True)
    line, n_cells = next(
        (reader.line_num, len(cells)) for cells in reader if cells and len(cells) != width
    )
    raise FileFormatError(
        f"{label} must have lines of equal length, but line 1 has {width} cells and line "
        f"{line} has {n_cells}."
    )


class _TextColumn:
    """The cells of a column: every spelling once, and which of them each row has."""

    def __init__(self) -> None:
        self._number: dict[str, int] = {}
        self._rows: list[AnyArray] = []

    def add(self, cells: Sequence[str]) -> int:
        """Append the cells of some rows; returns about how many bytes that takes."""
        number, n_known = self._number, len(self._number)
        rows = [number.setdefault(cell, len(number)) for cell in cells]
        self._rows.append(np.array(rows, dtype=np.int32))
        new = islice(number, n_known, None) if len(number) > n_known else ()
        return sum(SPELLING + len(cell) for cell in new)

    def read(self, name: str) -> RawColumn:
        """The column of the simplest type that fits."""
        column = column_of_text(name, list(self._number))
        rows = np.concatenate(self._rows)
        self._rows.clear()
        return RawColumn(name, column.dtype, column.values[rows])


def _separator(text: str) -> str:
    """The separator of cells; a space only if there is no other, as text also contains spaces."""
    head = text[: 2**16].splitlines()[0]
    return next((mark for mark in "\t;," if mark in head), separator_of(head.encode()))


def _is_gap(cell: str) -> bool:
    return cell.strip().lower() in UNKNOWN


def column_of_text(name: str, cells: Sequence[str]) -> RawColumn:
    """A column of the simplest type that fits all its cells."""
    known = {cell: cell.strip() for cell in set(cells) if not _is_gap(cell)}
    readers: tuple[tuple[str, Callable[[str], float]], ...] = (
        ("boolean", _boolean),
        ("integer", _integer),
        ("float", _number),
        ("date", _date),
        ("datetime", _datetime),
    )
    for dtype, read in readers if known else ():
        try:
            value = {cell: read(text) for cell, text in known.items()}
        except ValueError:
            continue
        if all(map(math.isinf, value.values())):  # a word, not a number
            continue
        return RawColumn(name, dtype, np.array([value.get(cell, np.nan) for cell in cells]))
    if not known:
        return RawColumn(name, "float", np.full(len(cells), np.nan))
    values = np.empty(len(cells), dtype=object)
    values[:] = [known.get(cell) for cell in cells]
    return RawColumn(name, "text", values)


def _boolean(text: str) -> float:
    if text.lower() not in ("true", "false"):
        raise ValueError
    return float(text.lower() == "true")


def _integer(text: str) -> float:
    number = _number(text)
    if math.isinf(number) or not number.is_integer() or "." in text or abs(number) >= 2.0**53:
        raise ValueError
    return number


def _is_number(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text) or _INFINITE.fullmatch(text))


def _number(text: str) -> float:
    if not _is_number(text):
        raise ValueError
    return float(text)


def _date(text: str) -> float:
    return as_stamp(datetime.date.fromisoformat(text))


def _datetime(text: str) -> float:
    return as_stamp(datetime.datetime.fromisoformat(text))
