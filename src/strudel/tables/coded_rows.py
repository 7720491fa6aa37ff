"""Rows in the columns of a table, for a model over the 0/1 variables of its code.

In:  a frame with some of the columns, dicts, lists of values; the names of the variables, which
     know the code.
Out: rows of 0, 1 and NaN; or None if they already are rows of the 0/1 variables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from strudel._names import did_you_mean
from strudel._types import NONE, AnyArray, FloatArray
from strudel.data.validation import read_named_rows, read_values
from strudel.tables.coded_column import Column, literals_of
from strudel.tables.columns import RawTable, is_missing, read_columns
from strudel.tables.table_code import TableCode, bit_column


class CodedNames(tuple[str, ...]):
    """The names of 0/1 variables that also know which columns of a table they come from.

    A model has one name per variable, and hands them on to all models made of it; so the code goes
    where the names go.
    """

    code: TableCode

    def __new__(  # noqa: D102
        cls, code: TableCode, names: Sequence[str] | None = None
    ) -> CodedNames:
        names = code.variable_names if names is None else names
        if len(names) != code.n_vars:
            raise ValueError(
                f"A code of {code.n_vars} variables needs that many names, but has {len(names)}."
            )
        made = super().__new__(cls, names)
        made.code = code
        return made

    def encode_table(self, X: Any, name: str) -> FloatArray | None:
        """Fully observed rows; None if they are rows of the variables already."""
        return coded_table(X, self.code, name)

    def encode_evidence(self, X: Any, name: str) -> FloatArray | None:
        """Partly observed rows; None if they are rows of the variables already."""
        return coded_evidence(X, self.code, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return CodedNames, (self.code, tuple(self))


def code_of(names: Sequence[str] | None) -> TableCode | None:
    """The code that names know, if they do."""
    return names.code if isinstance(names, CodedNames) else None


def select_names(names: Sequence[str] | None, kept: Sequence[int]) -> tuple[str, ...] | None:
    """The names of some variables; with the code of their columns if these are all there."""
    if names is None:
        return None
    some = tuple(names[var] for var in kept)
    code = code_of(names)
    columns: list[Column] = []
    while code is not None and (done := columns[-1].stop if columns else 0) < len(kept):
        column = next((own for own in code.columns if own.start == kept[done]), None)
        width = 0 if column is None else column.stop - column.start
        if column is None or list(kept[done : done + width]) != list(column.variables):
            return some
        columns.append(replace(column, start=done, stop=done + width))
    return some if code is None else CodedNames(replace(code, columns=tuple(columns)), some)


def coded_evidence(X: Any, code: TableCode, name: str) -> FloatArray | None:
    """Partly observed rows, from any of the columns."""
    dicts = read_named_rows(X)
    if dicts is not None:
        return np.vstack([_row_of_dict(row, code, name) for row in dicts])
    table = _read_table(X, code, name)
    if table is None:
        return None
    return code.encode_columns(code.match(table, name, may_be_few=True), name)


def coded_table(
    X: Any, code: TableCode, name: str, may_be_missing: bool = False
) -> FloatArray | None:
    """Rows from all columns; fully observed, unless values may be missing."""
    table = _read_table(X, code, name)
    if table is None:
        return None
    rows = code.encode_columns(code.match(table, name), name)
    unknown = np.isnan(rows)
    if unknown.any() and not may_be_missing:
        row = int(np.argmax(unknown.any(axis=1)))
        var = int(np.argmax(unknown[row]))
        column = next(column for column in code.columns if var < column.stop)
        raise ValueError(
            f"{name} must have a value in every column, but {column.name!r} is missing at row "
            f"{row}. log_marginal takes rows with missing values and sums them out."
        )
    return rows


def known_values(X: Any, code: TableCode) -> dict[str, list[Any]]:
    """Per column the values that evidence gives as they are, None where it does not."""
    dicts = read_named_rows(X) if X is not None else []
    if dicts is not None:
        return {
            column.name: [_single(row.get(column.name)) for row in dicts]
            for column in code.columns
            if any(_single(row.get(column.name)) is not None for row in dicts)
        }
    table = _read_table(X, code, "given")
    if table is None:
        return {}
    columns = table.columns if table.has_names else code.match(table)
    names = [column.name for column in (table if table.has_names else code).columns]
    return {name: raw.objects() for name, raw in zip(names, columns, strict=True)}


def known_numbers(X: Any, code: TableCode) -> dict[str, FloatArray]:
    """Per column of numbers or dates the values that rows give, NaN where they do not.

    Also the places of values in columns whose rare categories share a cell. Nothing if the rows are
    of the 0/1 variables.
    """
    if X is None or not any(column.has_parts for column in code.columns):
        return {}
    dicts = read_named_rows(X)
    if dicts is None:
        table = _read_table(X, code, "X")
        if table is None:
            return {}
        columns = table.columns if table.has_names else code.match(table)
        names = [column.name for column in (table if table.has_names else code).columns]
        raws = dict(zip(names, columns, strict=True))
        return {
            column.name: np.asarray(raws[column.name].values, dtype=np.float64)
            if column.is_numeric
            else _as_places(column.places(raws[column.name], "missing"))
            for column in code.columns
            if column.has_parts and column.name in raws
        }
    found: dict[str, FloatArray] = {}
    for column in code.columns:
        if column.has_parts and any(column.name in row for row in dicts):
            values = [_single(row.get(column.name)) for row in dicts]
            own = column.own_value if column.is_numeric else column.place_of
            found[column.name] = np.array(
                [np.nan if value is None else own(value) for value in values], dtype=np.float64
            )
    return found


def _as_places(places: AnyArray) -> FloatArray:
    return np.where(places == NONE, np.nan, places)


def log_density_of(numbers: Mapping[str, FloatArray], code: TableCode) -> FloatArray | float:
    """The log-density of the numbers, and of rare categories, of every row given their cells."""
    total: FloatArray | float = 0.0
    for name, values in numbers.items():
        column = code.column(name)
        is_known = ~np.isnan(values)
        if not (column.is_shared or column.density) or not is_known.any():
            continue
        own = np.zeros(len(values))
        known = values[is_known]
        own[is_known] = column.cells.log_density(known) - column.cells.density.log_units(known)
        total = total + own
    return total


def table_log_density(X: Any, code: TableCode) -> FloatArray | float:
    """The log-density of numbers, dates and rare categories of every row, given their cells."""
    return log_density_of(known_numbers(X, code), code)


def _single(value: Any) -> Any:
    """One value; None for an interval, a set, or what is missing."""
    if isinstance(value, tuple | list | set | frozenset | range | np.ndarray):
        return None
    return None if is_missing(value) else value


def _read_table(X: Any, code: TableCode, name: str) -> RawTable | None:
    """The columns of a table; None if it has the variables instead."""
    if hasattr(X, "tocsr"):
        return None
    if isinstance(X, list | tuple | np.ndarray):
        values, _ = read_values(X, name)
        if values.ndim == 1 and values.size:
            values = values.reshape(1, -1)
        if values.ndim != 2 or values.shape[1] == code.n_vars != code.n_columns_in:
            return None
        if values.shape[1] != code.n_columns_in:  # in scikit-learn's words
            raise ValueError(
                f"{name} has {values.shape[1]} features, but Strudel is expecting "
                f"{code.n_columns_in} features as input, the columns of the table that the model "
                f"was learned from; or the {code.n_vars} variables that they became."
            )
        return read_columns(values, name)
    if not hasattr(X, "columns") and not hasattr(X, "column_names"):
        return None
    own = getattr(X, "column_names", None)  # pyarrow's are names, the others' columns are
    names = list(own if own is not None else X.columns)
    variables = set(code.variable_names)
    is_coded = all(column in variables for column in names)
    if is_coded and not all(column in code.names for column in names):
        return None
    return read_columns(X, name)


def _row_of_dict(row: Mapping[Any, Any], code: TableCode, name: str) -> FloatArray:
    """One row from values by column, or by variable."""
    bits = np.full(code.n_vars, np.nan)
    said_by: dict[int, Any] = {}
    if not isinstance(row, Mapping):
        raise ValueError(f"{name} must be a list of dicts, but one entry is {row!r}.")
    for key, value in row.items():
        for var, bit in _literals(key, value, code, name):
            if bits[var] == 1 - bit:
                raise ValueError(f"{name} contradicts itself: see {said_by[var]!r} and {key!r}.")
            bits[var] = bit
            said_by[var] = key
    return bits


def _literals(key: Any, value: Any, code: TableCode, name: str) -> Sequence[tuple[int, int]]:
    if isinstance(key, str) and key in code.names:
        return literals_of(code.column(key), value)
    is_number = isinstance(key, int | np.integer) and not isinstance(key, bool)
    if isinstance(key, str) and key in code.variable_names:
        var = code.variable_names.index(key)
    elif is_number and 0 <= key < code.n_vars:
        var = int(key)
    else:
        raise ValueError(
            f"{name} names {key!r}, which is not a column. {did_you_mean(key, code.names)}"
        )
    return literals_of(bit_column(code.variable_names[var], var), value)
