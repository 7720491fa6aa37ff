"""Filled values, put where they belong in a table: known values stay as they are.

In:  a table, and its 0/1 variables with everything filled: bits, or probabilities of 1.
Out: the table, of the same kind, with a value in every cell that was unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.data.containers import as_frame, read_values
from strudel.tables.coded_column import BIT
from strudel.tables.columns import RawTable, read_columns
from strudel.tables.filled_cells import Gaps, fill_array, fill_raw_column, fill_series
from strudel.tables.table_code import Column, TableCode


def fill_variables(X: Any, rows: FloatArray, filled: FloatArray) -> Any:
    """A table of 0 and 1 with its unknown values filled.

    Examples
    --------
    >>> rows = np.array([[0.0, np.nan], [1.0, 1.0]])
    >>> fill_variables(rows, rows, np.array([[0.0, 0.25], [1.0, 1.0]]))
    array([[0.  , 0.25],
           [1.  , 1.  ]])
    """
    values = np.where(np.isnan(rows), filled, rows)
    frame = as_frame(X)
    if frame is None:
        return values
    import narwhals as nw

    unknown: AnyArray = np.asarray(np.isnan(rows).any(axis=0))
    return _put(
        X,
        frame,
        {
            v: nw.new_series(f"x{v}", values[:, v], nw.Float64, backend=frame.implementation)
            for v in np.flatnonzero(unknown).tolist()
        },
    )


ValuesOf: TypeAlias = Callable[[Column, AnyArray], Sequence[Any]]


def fill_columns(X: Any, code: TableCode, values_of: ValuesOf) -> Any:
    """An encoded table with its unknown values filled.

    `values_of` gives the values of a column in some rows, whose mask it gets; dates as stamps.
    """
    gaps: list[Gaps] = []
    for raw, column in zip(code.match(read_columns(X)), code.columns, strict=True):
        missing = raw.is_missing()
        if missing.any():
            gaps.append(Gaps(raw, column, missing, values_of(column, missing)))
    if isinstance(X, RawTable):
        filled = {gap.raw.name: fill_raw_column(gap) for gap in gaps}
        return replace(X, columns=tuple(filled.get(raw.name, raw) for raw in X.columns))
    frame = as_frame(X)
    if frame is None:
        return fill_array(np.array(read_values(X, "X")[0]), code, gaps)
    names = list(frame.columns)
    has_names = all(isinstance(name, str) for name in names)  # else columns are known by place
    place = {name: v for v, name in enumerate(names if has_names else code.names)}
    own = list(frame.iter_columns())
    return _put(
        X, frame, {place[gap.raw.name]: fill_series(own[place[gap.raw.name]], gap) for gap in gaps}
    )


def nearest_values(column: Column, bits: FloatArray) -> list[Any]:
    """The value whose codeword is nearest to the bits of each row."""
    return [column.values[place] for place in column.nearest(bits)]


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
