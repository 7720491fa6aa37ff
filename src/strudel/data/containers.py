"""Containers: the cells and column names of whatever a table comes in.

In:  an array, a list of rows, a scipy sparse matrix, a pandas, polars or pyarrow frame, or dicts.
Out: an array of booleans, integers, floats or objects, and the column names if there are any.

Nothing here imports a library that the caller's own table does not come from; frames are read
through narwhals. `validation` checks what the cells hold.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np

from strudel._names import close_names, find_name, quote
from strudel._types import AnyArray, ByteArray
from strudel.data.lazy import way_to_load
from strudel.errors import ExtraColumnsWarning, WrongTableError, outer_stack_level

_BLOCK = 2**18  # cells converted at a time, so that temporaries stay in the processor's cache


def read_values(X: Any, name: str) -> tuple[AnyArray, tuple[str, ...] | None]:
    """The cells of any container, and its column names if all of them are strings."""
    if isinstance(X, np.ma.MaskedArray):
        return _values_of_masked(X), None
    if isinstance(X, np.ndarray):
        return X, None
    if isinstance(X, list | tuple):
        return _values_of_rows(X, name), None
    if _is_sparse(X):
        return _values_of_sparse(X), None
    if X is None or np.isscalar(X) or isinstance(X, bytes | Mapping | Set | Iterator):
        raise ValueError(
            f"{name} must be an array, a list, a sparse matrix or a frame, "
            f"but is of type {type(X).__name__}."
        )
    frame = _values_of_frame(X, name)
    return frame if frame is not None else (np.asarray(X), None)


def _values_of_masked(X: np.ma.MaskedArray[Any, Any]) -> AnyArray:
    """A masked array with None, unknown, where the mask is set."""
    values: AnyArray = X.data
    return np.where(X.mask, np.array(None), values.astype(object)) if np.any(X.mask) else values


def _values_of_rows(rows: Sequence[Any], name: str) -> AnyArray:
    """A list of rows, with text kept apart from numbers, so that errors show what was there."""
    try:
        values = np.asarray(rows)
        return np.asarray(rows, dtype=object) if values.dtype.kind in "US" else values
    except ValueError:
        widths = [f"{len(row)} values" if hasattr(row, "__len__") else "one value" for row in rows]
        for row, width in enumerate(widths):
            if width != widths[0]:
                raise ValueError(
                    f"{name} must have rows of equal length, "
                    f"but row 0 has {widths[0]} and row {row} has {width}."
                ) from None
        raise ValueError(
            f"{name} must hold one value per cell, but some cells are lists."
        ) from None


def _is_sparse(X: Any) -> bool:
    """Whether this is a scipy sparse matrix of any format, one of which is also a dict."""
    return hasattr(X, "tocsr") and hasattr(X, "toarray")


def _values_of_sparse(X: Any) -> AnyArray:
    """A sparse matrix made dense, in `uint8` if it stores only 0 and 1, to save memory."""
    matrix = X.tocsr()
    if not matrix.has_canonical_format:  # entries stored twice stand for their sum
        matrix = matrix.copy()
        matrix.sum_duplicates()
    stored = matrix.data.reshape(-1, 1)
    is_clean = stored.dtype.kind in "biuf" and to_uint8(stored) is not None
    return np.asarray((matrix.astype(np.uint8) if is_clean else matrix).toarray())


def _values_of_frame(X: Any, name: str) -> tuple[AnyArray, tuple[str, ...] | None] | None:
    """The cells and names of a frame, the cells of a series, or None for any other object."""
    import narwhals as nw

    series = nw.from_native(X, pass_through=True, series_only=True)
    if isinstance(series, nw.Series):
        return _values_of_column(series), None
    frame = as_frame(X, name)
    if frame is None:
        return None
    names = tuple(frame.columns)
    columns = [_values_of_column(column) for column in frame.iter_columns()]
    values = np.stack(columns, axis=1) if columns else np.empty(frame.shape)
    return values, names if all(isinstance(column, str) for column in names) else None


def as_frame(X: Any, name: str = "X") -> Any:
    """The table as a narwhals frame, or None if it is not a frame."""
    import narwhals as nw

    try:
        frame = nw.from_native(X, pass_through=True)
    except nw.exceptions.DuplicateError:
        names = list(X.column_names if hasattr(X, "column_names") else X.columns)
        repeated = next((name for name in names if names.count(name) > 1), None)
        raise ValueError(
            f"{name} must name each column once, but has {repeated!r} {names.count(repeated)} "
            "times. Rename one."
        ) from None
    if isinstance(frame, nw.LazyFrame):
        raise ValueError(
            f"{name} must be a frame in memory, but is lazy. Call its {way_to_load(X)} first."
        )
    return frame if isinstance(frame, nw.DataFrame) else None


def check_shape(shape: tuple[int, ...], name: str) -> None:
    """Refuse what is not a table, or is empty.

    The words are scikit-learn's; its estimator checks look for them.
    """
    if len(shape) != 2 and 0 in shape:
        raise ValueError(f"{name} must have at least one row, but is empty.")
    if len(shape) != 2:
        raise ValueError(
            f"{name} must have rows and columns, but has shape {shape}. Reshape your data: "
            f"{name}.reshape(1, -1) if it is one row, {name}.reshape(-1, 1) if it is one column."
        )
    for size, line, thing in zip(shape, ("row", "column"), ("sample", "feature"), strict=True):
        if size == 0:
            raise ValueError(
                f"{name} must have at least one {line}, but has 0 {thing}(s) (shape={shape}) "
                "while a minimum of 1 is required."
            )


def _values_of_column(column: Any) -> AnyArray:
    """One column of a frame: `uint8` if it is clean, else numbers with NaN, or objects."""
    import narwhals as nw

    if column.null_count() and (column.dtype.is_numeric() or column.dtype == nw.Boolean):
        column = column.cast(nw.Float64)
    values: AnyArray = column.to_numpy()
    if values.dtype.kind not in "biuf":
        return values.astype(object)
    clean = to_uint8(values.reshape(-1, 1))
    return values if clean is None else clean[:, 0]


def check_shared_names(
    found: Iterable[str],
    expected: Iterable[str],
    name: str,
    *,
    may_be_few: bool = False,
    keeps_others: bool = False,
    left_out: Iterable[str] = (),
) -> None:
    """Refuse a table with fewer than half of the columns of a model, and warn of other columns.

    Where `may_be_few`, as in evidence, a table that mostly has columns of the model may lack any of
    the others. Nothing is said of columns that were `left_out` at fit, or if the caller
    `keeps_others`.
    """
    own, known = dict.fromkeys(found), dict.fromkeys(expected)
    missing = tuple(column for column in known if column not in own)
    extra = tuple(column for column in own if column not in known.keys() | set(left_out))
    n_shared = len(known) - len(missing)
    is_few = 2 * n_shared < len(known) and (not may_be_few or n_shared <= len(extra))
    close = {column: close_names(column, missing, 1) for column in extra}
    asked = [f"Is {column!r} {match[0]!r}?" for column, match in close.items() if match]
    if is_few:
        share = f"only {n_shared} of" if n_shared else "none of"
        others = f", and has {quote(extra)} instead" if extra else ""
        raise WrongTableError(
            f"{name} has {share} the {len(known)} columns of the model: it lacks "
            f"{quote(missing)}{others}.",
            " ".join([*asked[:3], "Give the table that belongs to the model, or rename columns."]),
            missing=missing,
            extra=extra,
        )
    if extra and not keeps_others:
        warnings.warn(
            ExtraColumnsWarning(
                f"{name} has {quote(extra)}, which the model does not know and ignores.",
                " ".join(asked[:3]),
                columns=extra,
            ),
            stacklevel=outer_stack_level(),
        )


def read_named_rows(X: Any) -> list[Mapping[Any, Any]] | None:
    """The rows of a dict, a list of dicts or a labelled pandas series; None for a table."""
    if isinstance(X, Mapping) and not _is_sparse(X):
        return [X]
    if isinstance(X, list | tuple) and len(X) and isinstance(X[0], Mapping):
        return list(X)
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(X, pandas.Series):
        return [X.to_dict()] if all(isinstance(label, str) for label in X.index) else None
    return None


def values_of_named_rows(
    rows: Sequence[Mapping[Any, Any]], names: tuple[str, ...], name: str
) -> AnyArray:
    """One line of objects per dict of values by name or number, None where nothing is said."""
    var_of = {feature: var for var, feature in enumerate(names)}
    values = np.full((len(rows), len(names)), None, dtype=object)
    for index, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise ValueError(
                f"{name} must be a list of dicts or a list of rows, "
                f"but entry 0 is a dict and entry {index} is of type {type(row).__name__}."
            )
        key_of: dict[int, Any] = {}
        for key, value in row.items():
            var = find_name(key, var_of, name)
            if var in key_of:
                raise ValueError(
                    f"{name} must give each variable one value, "
                    f"but {key_of[var]!r} and {key!r} are the same variable."
                )
            key_of[var] = key
            values[index, var] = value
    return values


def to_uint8(values: AnyArray) -> ByteArray | None:
    """A matrix of numbers as contiguous `uint8`, or None if one of them is neither 0 nor 1."""
    if values.dtype.kind == "b":
        return np.ascontiguousarray(values).view(np.uint8)
    if values.dtype.kind in "iu":
        if values.size and (values.min() < 0 or values.max() > 1):
            return None
        return np.ascontiguousarray(values, dtype=np.uint8)
    table = np.empty(values.shape, dtype=np.uint8)
    with np.errstate(invalid="ignore"):  # NaN has no uint8 value; the comparison finds it
        for block in row_slices(values.shape):
            part = table[block]
            part[...] = values[block]
            if part.max(initial=0) > 1 or not np.array_equal(part, values[block]):
                return None
    return table


def row_slices(shape: tuple[int, ...]) -> Iterable[slice]:
    """Slices over the rows of a matrix, with about `_BLOCK` cells each."""
    return slices(shape[0], max(1, _BLOCK // max(1, shape[1])))


def slices(n: int, size: int) -> Iterable[slice]:
    """Slices of a size, one after another, that cover the numbers below `n`."""
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def is_single_row(given: Any) -> bool:
    """Whether evidence is one row without an axis of rows: nothing, a dict or a flat list."""
    if isinstance(given, list | tuple):
        return np.ndim(given) == 1 and not isinstance(given[0], Mapping)
    if hasattr(given, "shape"):  # arrays, frames, sparse matrices, series
        return len(given.shape) == 1
    return given is None or isinstance(given, Mapping)
