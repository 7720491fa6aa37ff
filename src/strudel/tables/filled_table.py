"""Filled values, put where they belong in a table: known values stay as they are.

In:  a table, and its 0/1 variables with everything filled: bits, or probabilities of 1.
Out: the table, of the same kind, with a value in every cell that was unknown. A column keeps its
     type, or gets a wider one where its own cannot hold the values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any, TypeAlias

import numpy as np

from strudel._types import AnyArray
from strudel.data.validation import as_frame, read_values
from strudel.tables.column import BIT, Column
from strudel.tables.columns import (
    RawColumn,
    as_date,
    as_timedelta,
    make_frame,
    read_columns,
)
from strudel.tables.schema import Columns

_MOST_EXACT = 2**53  # whole numbers beyond it are not exact as floats


@dataclass(frozen=True, eq=False)
class Gaps:
    """The missing cells of a column, and what to put there."""

    raw: RawColumn
    column: Column
    missing: AnyArray  # (n_rows,) bool
    values: Sequence[Any]  # one per missing cell; dates as stamps

    def cells(self) -> list[Any]:
        """The values, dates as the column has them."""
        if self.column.kind == "date":
            like = self.raw if self.raw.dtype in ("date", "datetime") else self.column
            return [as_date(stamp, like) for stamp in self.values]
        if self.column.dtype == "duration":
            return [as_timedelta(value) for value in self.values]
        return list(self.values)


def fill_array(table: AnyArray, columns: Columns, gaps: Sequence[Gaps]) -> AnyArray:
    """An array with its gaps filled; it becomes one of objects if numbers cannot hold all."""
    if table.dtype.kind == "f" and not all(_are_numbers(gap.cells()) for gap in gaps):
        table = table.astype(object)
    place = dict(zip(columns.names, columns.places_in_array, strict=True))
    for gap in gaps:
        cells = gap.cells()
        table[gap.missing, place[gap.column.name]] = cells
    return table


def fill_series(own: Any, gap: Gaps) -> Any:
    """A narwhals series with its gaps filled."""
    import narwhals as nw

    values, dtype = gap.cells(), own.dtype
    is_untyped = dtype in (nw.Object, nw.Unknown) or _group(gap.raw) != _group(gap.column)
    if gap.raw.is_missing().all() and is_untyped:  # as at fit, for nothing says otherwise
        return _as_at_fit(gap, own.implementation.value)
    if dtype in (nw.Categorical, nw.Enum):
        return _fill_categories(own, gap.missing, values)
    if dtype == nw.String:
        values = list(map(str, values))
    elif dtype.is_numeric() or dtype == nw.Boolean:
        own, values = _fit_numbers(own, gap.raw, values)
    return _put_cells(own, gap.missing, values)


def _group(column: RawColumn | Column) -> str:
    if column.dtype in ("boolean", "integer", "float"):
        return "number"
    if column.dtype == "duration":
        return "duration"
    return "date" if column.dtype in ("date", "datetime") else "text"


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, bool | int | float) for value in values)


def _as_at_fit(gap: Gaps, container: str) -> Any:
    import narwhals as nw

    cells = np.full(len(gap.missing), None, dtype=object)
    cells[gap.missing] = list(gap.values)
    made = make_frame({gap.column.name: (cells.tolist(), gap.column)}, container)
    return nw.from_native(made, eager_only=True)[gap.column.name]


def _fit_numbers(own: Any, raw: RawColumn, values: list[Any]) -> tuple[Any, list[Any]]:
    """A column of numbers that can hold the values, and the values as it holds them."""
    import narwhals as nw

    if not _are_numbers(values):
        is_pandas = own.implementation.is_pandas_like()
        return own.cast(nw.Object if is_pandas else nw.String), list(map(str, values))
    if own.dtype == nw.Boolean:
        if set(values) <= {0, 1}:
            return own, list(map(bool, values))
        own = own.cast(nw.Int64)
    if own.dtype.is_integer():
        is_large = bool(np.any(np.abs(raw.known()) > _MOST_EXACT))
        if is_large or all(float(value).is_integer() for value in values):
            whole = [round(value) for value in values]
            limits = np.iinfo(str(own.dtype).lower())
            fits = limits.min <= min(whole) and max(whole) <= limits.max
            return (own if fits else own.cast(nw.Int64)), whole
    is_float = own.dtype in (nw.Float32, nw.Float64)
    return (own if is_float else own.cast(nw.Float64)), list(map(float, values))


def _fill_categories(own: Any, missing: AnyArray, values: list[Any]) -> Any:
    """A column of categories, with those that it lacks added."""
    import narwhals as nw

    if own.implementation.is_pandas_like():
        native = own.to_native()
        new = [value for value in dict.fromkeys(values) if value not in native.cat.categories]
        native = native.cat.add_categories(new)
        native[missing] = values
        return nw.from_native(native, series_only=True)
    if own.dtype == nw.Enum:
        own = own.cast(nw.Enum(list(dict.fromkeys([*own.dtype.categories, *values]))))
    return _put_cells(own, missing, values).cast(own.dtype)  # pyarrow's are texts now


def _put_cells(own: Any, missing: AnyArray, values: list[Any]) -> Any:
    import narwhals as nw

    cells = [values[0]] * len(missing)
    for row, value in zip(np.flatnonzero(missing).tolist(), values, strict=True):
        cells[row] = value
    backend = own.implementation
    made = nw.new_series("filled", cells, own.dtype, backend=backend)
    is_known = nw.new_series("known", (~missing).tolist(), nw.Boolean, backend=backend)
    return own.zip_with(is_known, made)


ValuesOf: TypeAlias = Callable[[Column, AnyArray], Sequence[Any]]


def fill_columns(
    X: Any, columns: Columns, values_of: ValuesOf, empty: Mapping[str, AnyArray] | None = None
) -> Any:
    """A table with its unknown values filled, except in rows where they stay `empty`.

    `values_of` gives the values of a column in some rows, whose mask it gets; dates as stamps.
    """
    gaps: list[Gaps] = []
    table = read_columns(X)
    raws = table.columns if columns.are_bits else columns.match(table)
    for raw, column in zip(raws, columns, strict=True):
        missing = raw.is_missing()
        if column.name in (empty or {}):
            missing = missing & ~empty[column.name]  # type: ignore[index]
        if missing.any():
            gaps.append(Gaps(raw, column, missing, values_of(column, missing)))
    frame = as_frame(X)
    if frame is None:
        return fill_array(np.array(read_values(X, "X")[0]), columns, gaps)
    names = list(frame.columns)
    has_names = all(isinstance(name, str) for name in names)  # else columns are known by place
    own_names = names if has_names else [f"x{v}" for v in range(len(names))]
    place = {name: v for v, name in enumerate(own_names)}
    own = list(frame.iter_columns())
    return _put(
        X, frame, {place[gap.raw.name]: fill_series(own[place[gap.raw.name]], gap) for gap in gaps}
    )


def has_mean(column: Column) -> bool:
    """Whether the values of a column can be averaged."""
    return column.kind in ("number", "date", BIT) and None not in column.values


def _put(X: Any, frame: Any, series: dict[int, Any]) -> Any:
    """The frame with other columns at some places; names, index and order stay."""
    names = list(frame.columns)
    if not series:
        return X
    if all(isinstance(name, str) for name in names):
        return frame.with_columns(*(own.alias(names[v]) for v, own in series.items())).to_native()
    filled = X.copy()  # only pandas has other names, which narwhals does not find again
    for v, own in series.items():
        filled.isetitem(v, own.to_native().set_axis(filled.index))
    return filled


def with_room(X: Any, row: Any, columns: Columns, strategy: str) -> Any:
    """A Dask frame whose columns can hold whatever fills the gaps of any block."""
    n_gaps = max(column.n_cells for column in columns)
    gaps = row.reindex(range(1 + n_gaps))
    can_miss = [name for name in row if gaps[name].dtype == row[name].dtype == X.dtypes[name]]
    example = row.loc[[0] * len(gaps)].reset_index(drop=True)
    for name in can_miss:
        example[name] = gaps[name]
    filled = fill_columns(example, columns, _all_values(strategy))
    wider = {
        name: filled[name].dtype
        for name in can_miss
        if filled[name].dtype != row[name].dtype and row[name].dtype != object
    }
    return X.astype(wider) if wider else X


def _all_values(strategy: str) -> Any:
    """Every value that may fill a gap of a column, or for its means, some that are not whole."""

    def values(column: Column, gaps: AnyArray) -> list[Any]:
        own = [value for value in column.values if value is not None]
        is_mean = strategy == "mean" or (strategy == "auto" and column.kind != BIT)
        if is_mean and has_mean(column):
            own = [value + 0.5 for value in own]
        return list(islice(cycle(own), int(gaps.sum())))

    return values
