"""Values in the gaps of one column: what is known stays as it is, to the last bit.

In:  a column of a frame or an array, and values for its missing cells.
Out: the column, of its own type, or of a wider one where its own cannot hold the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from strudel._types import AnyArray
from strudel.tables.coded_column import Column
from strudel.tables.columns import RawColumn
from strudel.tables.frames import as_date, make_frame
from strudel.tables.table_code import TableCode

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
        return list(self.values)


def fill_array(table: AnyArray, code: TableCode, gaps: Sequence[Gaps]) -> AnyArray:
    """An array with its gaps filled; it becomes one of objects if numbers cannot hold all."""
    if table.dtype.kind == "f" and not all(_are_numbers(gap.cells()) for gap in gaps):
        table = table.astype(object)
    place = {name: v for v, name in enumerate(code.names)}
    for gap in gaps:
        cells = gap.cells()
        table[gap.missing, place[gap.column.name]] = cells
    return table


def fill_raw_column(gap: Gaps) -> RawColumn:
    """A column of a `RawTable` with its gaps filled; cells are of any type."""
    values = gap.raw.values.astype(object)
    if gap.column.kind == "date":
        like = gap.raw if gap.raw.dtype in ("date", "datetime") else gap.column
        values[gap.missing] = list(gap.values)
        return RawColumn(gap.raw.name, like.dtype, values.astype(np.float64), zone=like.zone)
    values[:] = gap.raw.objects()
    values[gap.missing] = list(gap.values)
    return RawColumn(gap.raw.name, "object", values)


def fill_series(own: Any, gap: Gaps) -> Any:
    """A narwhals series with its gaps filled."""
    import narwhals as nw

    values, dtype = gap.cells(), own.dtype
    is_untyped = dtype in (nw.Object, nw.Unknown) or _group(gap.raw) != _group(gap.column)
    if gap.missing.all() and is_untyped:  # as at fit, for nothing says otherwise
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
    return "date" if column.dtype in ("date", "datetime") else "text"


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, bool | int | float) for value in values)


def _as_at_fit(gap: Gaps, container: str) -> Any:
    import narwhals as nw

    made = make_frame({gap.column.name: (list(gap.values), gap.column)}, container)
    return nw.from_native(made, eager_only=True)[gap.column.name]


def _fit_numbers(own: Any, raw: RawColumn, values: list[Any]) -> tuple[Any, list[Any]]:
    """A column of numbers that can hold the values, and they as it holds them."""
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
    """A column of categories, which gets those that it has not."""
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
