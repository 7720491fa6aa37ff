"""Input checks: tables in any container, partly observed rows and weights as clean arrays.

In:  an array, a list of rows, a scipy sparse matrix, a pandas, polars or pyarrow frame, or dicts.
Out: `uint8` 0/1 (`check_binary`), `float64` with NaN where a value is unknown (`check_evidence`),
     `float64` weights (`check_sample_weight`), a packed table (`as_bits`); or the cells and column
     names of whatever it is (`read_values`).

Nothing here imports a library that the caller's own table does not come from; frames are read
through narwhals. Cells are checked in bulk; Python looks at single cells only to say where the
first bad one is.
"""

from __future__ import annotations

import reprlib
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, NoReturn

import numpy as np

from strudel._names import close_names, find_name, names_of, quote
from strudel._types import AnyArray, ByteArray, FloatArray
from strudel.data.bits import BitMatrix, pack_columns
from strudel.data.lazy import way_to_load
from strudel.errors import ExtraColumnsWarning, NotBinaryError, WrongTableError, outer_stack_level


def as_bits(X: Any, sample_weight: Any = None) -> BitMatrix:
    """Check and pack a 0/1 table; a `BitMatrix`, which has its own weights, stays as it is."""
    if isinstance(X, BitMatrix):
        if sample_weight is not None:
            raise ValueError(
                "sample_weight must be None when X is a BitMatrix, which carries its own weights. "
                "Give the weights to pack_columns instead."
            )
        if X.n_vars == 0:
            raise ValueError("X must have at least one column, but is a BitMatrix without any.")
        return X
    table, _ = check_binary(X)
    if sample_weight is None:
        return pack_columns(table)
    return pack_columns(table, check_sample_weight(sample_weight, len(table)))


def check_binary(
    X: Any,
    *,
    n_vars: int | None = None,
    feature_names: Sequence[str] | None = None,
    name: str = "X",
) -> tuple[ByteArray, tuple[str, ...] | None]:
    """Check a fully observed 0/1 table; returns its cells and its column names.

    The table is an array or a list of rows of any type that holds 0 and 1 (booleans, integers,
    floats, objects), a scipy sparse matrix, or a pandas, polars or pyarrow frame. It must have
    `n_vars` columns, and a frame those in `feature_names`, in any order, and perhaps others, which
    are ignored with a warning; `name` is what errors call
    it. The cells are C-contiguous, the caller's own memory when that is already so. The names are
    `feature_names` if given, else those of a frame if all of them are strings, else None.
    """
    values, names = _check_columns(*read_values(X, name), n_vars, feature_names, name, "complete")
    rule = f"{name} must hold only 0 and 1"
    numbers = _as_numbers(values, names, rule)
    table = to_uint8(numbers)
    if table is None:
        _raise_at_first_bad_cell(numbers, names, rule, may_be_unknown=False)
    return table, names


def check_evidence(
    X: Any,
    *,
    n_vars: int | None = None,
    feature_names: Sequence[str] | None = None,
    name: str = "X",
) -> FloatArray:
    """Check partly observed rows: 0, 1, or NaN where the value is unknown.

    Takes what `check_binary` takes, with NaN, None or `pandas.NA` where a value is unknown; also a
    single row, a dict or a list of dicts. A dict maps feature names or column numbers to values,
    and what it does not name is unknown; without feature names, the columns are called ``x0``,
    ``x1``, ... The result is C-contiguous, the caller's own memory when that is already so.
    """
    rows = read_named_rows(X)
    names: tuple[str, ...] | None
    if rows is not None:
        names = _variable_names(n_vars, feature_names, name)
        values = values_of_named_rows(rows, names, name)
    else:
        values, columns = read_values(X, name)
        if values.ndim == 1 and values.size:
            values = values.reshape(1, -1)
        values, names = _check_columns(values, columns, n_vars, feature_names, name, "evidence")
    rule = f"{name} must hold only 0, 1 or NaN"
    numbers = _as_numbers(values, names, rule)
    evidence = _to_float64(numbers)
    if evidence is None:
        _raise_at_first_bad_cell(numbers, names, rule, may_be_unknown=True)
    return evidence


def check_partial(
    X: Any,
    *,
    n_vars: int | None = None,
    feature_names: tuple[str, ...] | None = None,
    name: str = "X",
) -> tuple[ByteArray | FloatArray, tuple[str, ...] | None]:
    """Check a table to learn from, in which values may be unknown.

    Takes what `check_binary` takes, with NaN, None or `pandas.NA` where a value is unknown, and
    returns the same `uint8` table if nothing is; otherwise `float64` with NaN.
    """
    values, names = _check_columns(*read_values(X, name), n_vars, feature_names, name)
    rule = f"{name} must hold only 0 and 1, or NaN"
    numbers = _as_numbers(values, names, rule)
    table = to_uint8(numbers)
    if table is not None:
        return table, names
    evidence = _to_float64(numbers)
    if evidence is None:
        _raise_at_first_bad_cell(numbers, names, rule, may_be_unknown=True)
    return evidence, names


def check_sample_weight(sample_weight: Any, n_rows: int, *, is_part: bool = False) -> FloatArray:
    """Check row weights: one per row, finite, not negative, and not all zero.

    Those of a part of the rows may all be zero.
    """
    values, _ = read_values(sample_weight, "sample_weight")
    if values.shape != (n_rows,):
        raise ValueError(
            f"sample_weight must hold one number per row and so have shape ({n_rows},), "
            f"but has shape {values.shape}."
        )
    numbers = _as_numbers(values, None, "sample_weight must hold numbers")
    weight = np.ascontiguousarray(numbers, dtype=np.float64)
    for is_bad, rule in ((~np.isfinite(weight), "be finite"), (weight < 0, "not be negative")):
        if is_bad.any():
            row = int(np.argmax(is_bad))
            raise ValueError(f"sample_weight must {rule}, but holds {weight[row]!s} at row {row}.")
    with np.errstate(over="ignore"):
        total = float(weight.sum())
    if total == 0.0 and not is_part:
        raise ValueError("sample_weight must have a positive sum, but every weight is zero.")
    if total == np.inf:
        raise ValueError(
            "sample_weight must have a finite sum, but overflows. Divide all weights by a constant."
        )
    return weight


def _check_columns(
    values: AnyArray,
    columns: tuple[str, ...] | None,
    n_vars: int | None,
    feature_names: Sequence[str] | None,
    name: str,
    rows: str = "partial",
) -> tuple[AnyArray, tuple[str, ...] | None]:
    """Check the shape, and put named columns in the order of `feature_names`.

    Columns that a frame lacks are unknown; `rows` that must be "complete" are refused then, and as
    "evidence" they may have few columns.
    """
    check_shape(values.shape, name)
    names = None if feature_names is None else tuple(feature_names)
    if names is not None and columns is not None and names != columns:
        check_shared_names(columns, names, name, may_be_few=rows == "evidence")
        place = {column: index for index, column in enumerate(columns)}
        missing = [feature for feature in names if feature not in place]
        if missing and rows == "complete":
            raise ValueError(
                f"{name} must have the {len(names)} columns of the model, but lacks "
                f"{quote(missing)}. log_marginal takes rows with missing values and sums them out."
            )
        if missing:
            unknown = np.full((len(values), 1), None, dtype=object)
            values = np.hstack([values.astype(object), unknown])
        values = values[:, [place.get(feature, -1) for feature in names]]
    expected = n_vars if n_vars is not None or names is None else len(names)
    if expected is not None and values.shape[1] != expected:
        raise ValueError(
            f"{name} has {values.shape[1]} features, but Strudel is expecting {expected} features "
            "as input: one column per variable of the model, in the same order."
        )
    return values, columns if names is None else names


def _variable_names(
    n_vars: int | None, feature_names: Sequence[str] | None, name: str
) -> tuple[str, ...]:
    """The feature names, or ``x0``, ``x1``, ... when there are none."""
    if feature_names is not None:
        return tuple(feature_names)
    if n_vars is None:
        raise ValueError(f"{name} must be a table, but names its values. Give a list of rows.")
    return names_of(n_vars, None)


def _as_numbers(values: AnyArray, names: tuple[str, ...] | None, rule: str) -> AnyArray:
    """Turn objects into floats, with NaN for None and `pandas.NA`; refuse what is not a number."""
    if values.dtype.kind in "biuf":
        return values
    if values.dtype.kind == "c":
        raise ValueError(f"{rule}, but is complex. Complex data not supported: take the real part.")
    cells = values.astype(object, copy=False)
    pandas = sys.modules.get("pandas")
    if pandas is not None:
        cells = np.where(pandas.isna(cells), np.array(None), cells)
    # A pass over the types, in C, because NumPy would read the text "1" as the number 1.
    types = set(map(type, cells.ravel().tolist()))
    if not any(issubclass(kind, str | bytes) for kind in types):
        try:
            return cells.astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            pass
    place = next(place for place in np.ndindex(cells.shape) if not _is_number(cells[place]))
    advice = "Turn text into the numbers 0 and 1 first." if isinstance(cells[place], str) else ""
    _raise_at(place, names, rule, reprlib.repr(cells[place]), advice or "Binarise the data first.")


def _is_number(value: Any) -> bool:
    """Whether one object is a number, or None, which stands for an unknown one."""
    if isinstance(value, str | bytes) or np.ndim(value) != 0:
        return False
    try:
        np.array(value, dtype=object).astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _to_float64(values: AnyArray) -> FloatArray | None:
    """A matrix of numbers as contiguous `float64`, or None if one of them is not 0, 1 or NaN."""
    if values.dtype.kind in "biu":
        table = to_uint8(values)
        return None if table is None else table.astype(np.float64)
    evidence = np.ascontiguousarray(values, dtype=np.float64)
    for block in row_slices(evidence.shape):
        part = evidence[block]
        if not np.all((part == 0.0) | (part == 1.0) | np.isnan(part)):
            return None
    return evidence


def _raise_at_first_bad_cell(
    values: AnyArray, names: tuple[str, ...] | None, rule: str, *, may_be_unknown: bool
) -> NoReturn:
    """Find the first number, row by row, that is not 0, 1 or, where it may be, unknown."""
    is_good = (values == 0) | (values == 1)
    if may_be_unknown:
        is_good |= np.isnan(values)
    place = tuple(int(i) for i in np.unravel_index(int(np.argmin(is_good)), values.shape))
    value = values[place]
    if np.isnan(value):
        _raise_at(place, names, rule, "NaN", "Fill or drop unknown values first.")
    advice = "Binarise the data first"
    advice += ", or use NaN for unknown values." if may_be_unknown else "."
    _raise_at(place, names, rule, str(value), advice)


def _raise_at(
    place: tuple[int, ...], names: tuple[str, ...] | None, rule: str, found: str, advice: str
) -> NoReturn:
    """Say which cell breaks the rule; a list of weights has rows only."""
    if len(place) == 1:
        raise ValueError(f"{rule}, but holds {found} at row {place[0]}.")
    column = place[1] if names is None else names[place[1]]
    raise NotBinaryError(
        f"{rule}, but column {column!r} holds {found} at row {place[0]}.",
        advice,
        row=place[0],
        column=column,
    )


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
