"""The columns of a table from a file: those of a model, those to drop, the one to predict.

In:  a `RawTable`, as `read_frame` gives it.
Out: the table with other columns, or as a frame; the cells of a column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from strudel._names import did_you_mean
from strudel.cli.console import InputError, note, warnings_as_notes
from strudel.data.validation import check_shared_names

if TYPE_CHECKING:
    from strudel.tables.coded_column import CodedColumn
    from strudel.tables.columns import RawColumn, RawTable
    from strudel.tables.table_code import TableCode


def to_frame(table: RawTable) -> Any:
    """A pandas frame; an array if the table has no names."""
    cells = {column.name: cells_of(column) for column in table.columns}
    if not table.has_names:
        kinds = {column.dtype for column in table.columns}
        if kinds <= {"integer", "float", "boolean"}:
            return np.column_stack([column.values for column in table.columns])
        array = np.empty((table.n_rows, len(cells)), dtype=object)
        for place, values in enumerate(cells.values()):
            array[:, place] = values
        return array
    import narwhals as nw

    return nw.from_dict(cells, backend="pandas").to_native()


def cells_of(column: RawColumn) -> list[Any]:
    """The values of a column, None where one is missing; dates as dates."""
    from strudel.tables.columns import as_date

    if column.dtype in ("date", "datetime"):
        return [as_date(cell, column) for cell in column.objects()]
    return column.objects()


def model_columns(
    code: TableCode,
    table: RawTable,
    source: str,
    *,
    keeps_others: bool = False,
    may_be_few: bool = False,
) -> RawTable:
    """The columns of the model; those that the table lacks are unknown, other ones are left out.

    That is noted, unless the caller keeps the others itself.
    """
    if not table.has_names:
        return table
    with warnings_as_notes():
        check_shared_names(
            table.names,
            code.names,
            source,
            may_be_few=may_be_few,
            keeps_others=keeps_others,
            left_out=code.left_out,
        )
    return table.select(code.names)


def of_one_type(column: CodedColumn, cells: list[Any], with_means: bool) -> list[Any]:
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


def read_drop(text: str | None) -> list[str]:
    """The columns that --drop names."""
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    if text is not None and not names:
        raise InputError("--drop must name at least one column, as in --drop name,address.")
    return names


def drop_columns(table: RawTable, source: str, dropped: list[str]) -> RawTable:
    """The table without some of its columns."""
    check_drop([column.name for column in table.columns], source, dropped)
    rest = tuple(column for column in table.columns if column.name not in dropped)
    return replace(table, columns=rest)


def check_drop(names: Sequence[str], source: str, dropped: list[str]) -> None:
    """Refuse to drop columns that are not there, or all."""
    for name in dropped:
        if name not in names:
            raise InputError(
                f"--drop: {source} has no column {name!r}. {did_you_mean(name, names)}"
            )
    if set(names) <= set(dropped):
        raise InputError(f"--drop leaves no column of {source}.")


def rows_with_target(
    table: RawTable, y: list[Any], source: str, target: str
) -> tuple[RawTable, list[Any]]:
    """The rows whose target is known; a note says how many are left out."""
    is_known = np.array([value is not None for value in y])
    n_known, n_rows = int(is_known.sum()), len(y)
    if n_known == n_rows:
        return table, y
    if n_known == 0:
        raise InputError(f"column {target!r} of {source} is unknown in all {n_rows:,} rows.")
    note(
        f"note: {target!r} is unknown in {n_rows - n_known:,} of the {n_rows:,} rows of {source}, "
        "which were left out"
    )
    columns = tuple(replace(column, values=column.values[is_known]) for column in table.columns)
    known = [value for value in y if value is not None]
    return replace(table, columns=columns, n_rows=n_known), known


def split_target(table: RawTable, source: str, target: str) -> tuple[RawTable, list[Any]]:
    """The table without a column, and the values of that column."""
    names = [column.name for column in table.columns]
    if target not in names:
        raise InputError(f"{source} has no column {target!r}. {did_you_mean(target, names)}")
    if len(names) == 1:
        raise InputError(f"{source} has no column besides {target!r} to predict it from.")
    rest = tuple(column for column in table.columns if column.name != target)
    return replace(table, columns=rest), cells_of(table.columns[names.index(target)])
