"""Filled values, put where they belong in a table: known values stay as they are.

In:  a table, and its 0/1 variables with everything filled: bits, or probabilities of 1.
Out: the table, of the same kind, with a value in every cell that was unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.data.containers import read_values
from strudel.data.table_code import Column, TableCode
from strudel.data.table_columns import read_columns
from strudel.data.table_frames import make_frame


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
    frame = _as_frame(X)
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


def fill_columns(X: Any, code: TableCode, filled: FloatArray, *, uses_means: bool) -> Any:
    """An encoded table with its unknown values filled.

    Of bits, the value whose codeword is nearest. Of probabilities, the mean of a number or a date,
    and the most probable value of any other column.
    """
    table = read_columns(X)
    changed: dict[str, tuple[list[Any], Column]] = {}
    for raw, column in zip(code.match(table), code.columns, strict=True):
        missing = raw.is_missing()
        if not missing.any():
            continue
        bits = filled[missing, column.start : column.stop]
        if uses_means and column.kind in ("number", "date") and None not in column.values:
            values: Sequence[Any] = _means(bits, column)
            if column.dtype == "integer":
                column = replace(column, dtype="float", values=tuple(map(float, column.values)))
        elif uses_means:
            values = [column.values[place] for place in value_shares(bits, column).argmax(axis=1)]
        else:
            values = [column.values[place] for place in column.nearest(bits)]
        cells = raw.objects()
        for row, value in zip(np.flatnonzero(missing), values, strict=True):
            cells[row] = value
        changed[column.name] = (cells, column)
    return _with_columns(X, code, changed)


def _means(bits: FloatArray, column: Column) -> list[float]:
    """The mean of a number, from the probability of every cell."""
    values = np.array(column.values, dtype=np.float64)
    return list((value_shares(bits, column) @ values).tolist())


def value_shares(bits: FloatArray, column: Column) -> FloatArray:
    """The probability of every value of a column, from those of its variables to be 1.

    Exact where the model excludes bits that are no codeword.

    Examples
    --------
    >>> from strudel import TableEncoder
    >>> column = TableEncoder().fit([[1], [2], [3]]).code_.columns[0]
    >>> value_shares(np.array([[0.75, 0.5]]), column)
    array([[0.25, 0.25, 0.5 ]])
    """
    width = column.stop - column.start
    if width == column.n_values:  # one variable per value
        shares = bits.copy()
    elif column.n_values == width + 1:  # one variable per edge: at least this value
        edges = np.hstack([np.ones((len(bits), 1)), bits, np.zeros((len(bits), 1))])
        shares = np.maximum(-np.diff(edges, axis=1), 0.0)
    else:
        shares = np.ones((len(bits), column.n_values))
    total = shares.sum(axis=1, keepdims=True)
    return np.divide(shares, total, out=np.full_like(shares, 1 / column.n_values), where=total > 0)


def _as_frame(X: Any) -> Any:
    """The table as a narwhals frame, or None if it is no frame."""
    import narwhals as nw

    frame = nw.from_native(X, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def _with_columns(X: Any, code: TableCode, changed: dict[str, tuple[list[Any], Column]]) -> Any:
    """The table with other columns in their places."""
    frame = _as_frame(X)
    if frame is None:
        values = np.array(read_values(X, "X")[0])
        if values.dtype.kind in "biu":
            return values
        for v, name in enumerate(code.names):
            if name in changed:
                values[:, v] = changed[name][0]
        return values
    if not changed:
        return X
    import narwhals as nw

    made = nw.from_native(make_frame(changed, frame.implementation.value), eager_only=True)
    names = list(frame.columns)
    has_names = all(isinstance(name, str) for name in names)  # else columns are known by place
    place = {name: v for v, name in enumerate(names if has_names else code.names)}
    return _put(X, frame, {place[name]: made[name] for name in changed})


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
