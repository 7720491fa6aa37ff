"""Decoded columns as a frame of the kind that was encoded.

In:  per column a list of Python values with None where one is missing, and its type.
Out: a pandas, polars or pyarrow frame, or an array.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from strudel.errors import MissingDependencyError
from strudel.tables.columns import RawColumn

_INT64 = 2**63  # the first whole number that is too large for frames
_EPOCH = datetime.datetime(1970, 1, 1)  # in UTC, without saying so, as NumPy has it


def make_frame(columns: Mapping[str, tuple[Sequence[Any], Any]], container: str) -> Any:
    """A frame of `container`, from values and a `Column` for each name; dates are stamps."""
    maker = {"numpy": _numpy, "polars": _polars, "pyarrow": _pyarrow}.get(container, _pandas)
    try:
        return maker({name: _of_its_type(*column) for name, column in columns.items()})
    except ImportError as error:
        raise MissingDependencyError(
            f"The model was learned from a {container} frame and answers in one, "
            f"but {error.name or container} is not installed: pip install {container}."
        ) from None


def _of_its_type(values: Sequence[Any], column: Any) -> tuple[Sequence[Any], Any]:
    """Whole numbers as floats if frames cannot hold one, or if one that was given is not whole."""
    if column.dtype != "integer":
        return values, column
    known = {value for value in values if value is not None}
    if all(isinstance(value, int) and -_INT64 <= value < _INT64 for value in known):
        return values, column
    floats = [None if value is None else float(value) for value in values]
    own = tuple(None if value is None else float(value) for value in column.values)
    return floats, replace(column, dtype="float", values=own)


def as_date(stamp: float | None, column: RawColumn | Any) -> Any:
    """Microseconds since 1970 as a date, or as a datetime in the column's time zone."""
    if stamp is None:
        return None
    moment = _EPOCH + datetime.timedelta(microseconds=int(stamp))
    if column.dtype == "date":
        return moment.date()
    if column.zone is None:
        return moment
    import zoneinfo

    zone = zoneinfo.ZoneInfo(column.zone)
    return moment.replace(tzinfo=datetime.UTC).astimezone(zone)


def _cells(values: Sequence[Any], column: Any) -> list[Any]:
    if column.kind == "date":
        date_of = {value: as_date(value, column) for value in set(values)}
        return [date_of[value] for value in values]
    return list(values)


def _numpy(columns: Mapping[str, tuple[Sequence[Any], Any]]) -> Any:
    """An array of numbers if all columns are; of objects otherwise."""
    kinds = {column.dtype for _, column in columns.values()}
    lists = [_cells(values, column) for values, column in columns.values()]
    has_gaps = any(value is None for values in lists for value in values)
    if kinds <= {"boolean", "integer", "float"}:
        dtype: Any = np.float64 if has_gaps or len(kinds) > 1 else None
        return np.array(lists, dtype=dtype).T.copy() if lists else np.empty((0, 0))
    table = np.empty((len(lists[0]), len(lists)), dtype=object)
    for place, values in enumerate(lists):
        table[:, place] = values
    return table


def _pandas(columns: Mapping[str, tuple[Sequence[Any], Any]]) -> Any:
    import pandas as pd

    def series(values: Sequence[Any], column: Any) -> Any:
        cells = _cells(values, column)
        has_gaps = any(value is None for value in cells)
        if column.dtype in ("categorical", "enum"):
            is_ordered = column.dtype == "enum"
            known = [value for value in column.values if value is not None]
            return pd.Categorical(cells, categories=known, ordered=is_ordered)
        if column.dtype == "datetime":
            zone = column.zone
            return pd.Series(cells, dtype=f"datetime64[us, {zone}]" if zone else "datetime64[us]")
        dtype: Any = {
            "boolean": "boolean" if has_gaps else "bool",
            "integer": "Int64" if has_gaps else "int64",
            "float": "float64",
            "text": "str",
        }.get(column.dtype, "object")
        return pd.Series(cells, dtype=dtype)

    return pd.DataFrame({name: series(*column) for name, column in columns.items()})


def _polars(columns: Mapping[str, tuple[Sequence[Any], Any]]) -> Any:
    import polars as pl

    def series(values: Sequence[Any], column: Any) -> Any:
        dtype: Any = {
            "boolean": pl.Boolean,
            "integer": pl.Int64,
            "float": pl.Float64,
            "categorical": pl.Categorical,
            "date": pl.Date,
            "datetime": pl.Datetime("us", column.zone),
        }.get(column.dtype, pl.String)
        if column.dtype == "enum":
            dtype = pl.Enum([value for value in column.values if value is not None])
        return pl.Series(_texts(_cells(values, column), column), dtype=dtype)

    return pl.DataFrame({name: series(*column) for name, column in columns.items()})


def _pyarrow(columns: Mapping[str, tuple[Sequence[Any], Any]]) -> Any:
    import pyarrow as pa

    def array(values: Sequence[Any], column: Any) -> Any:
        dtype = {
            "boolean": pa.bool_(),
            "integer": pa.int64(),
            "float": pa.float64(),
            "date": pa.date32(),
            "datetime": pa.timestamp("us", tz=column.zone),
        }.get(column.dtype, pa.string())
        made = pa.array(_texts(_cells(values, column), column), type=dtype)
        return made.dictionary_encode() if column.dtype in ("categorical", "enum") else made

    return pa.table({name: array(*column) for name, column in columns.items()})


def _texts(cells: list[Any], column: Any) -> list[Any]:
    """Values of several types as text, for frames whose columns have one type."""
    if column.dtype != "object":
        return cells
    return [None if cell is None else str(cell) for cell in cells]
