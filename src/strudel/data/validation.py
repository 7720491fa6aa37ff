"""Input checks: tables, partly observed rows and weights as clean arrays.

In:  a table in any container that `containers` reads.
Out: `uint8` 0/1 (`check_binary`), `float64` with NaN where a value is unknown (`check_evidence`),
     `float64` weights (`check_sample_weight`), or a packed table (`as_bits`).

Cells are checked in bulk; Python looks at single cells only to say where the first bad one is.
"""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from strudel._names import names_of, quote
from strudel._types import AnyArray, ByteArray, FloatArray
from strudel.data.bits import BitMatrix, pack_columns
from strudel.data.containers import (
    check_shape,
    check_shared_names,
    read_named_rows,
    read_values,
    row_slices,
    to_uint8,
    values_of_named_rows,
)
from strudel.errors import NotBinaryError


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
    encode = getattr(feature_names, "encode_table", None)  # names that know the code of a table
    rows = None if encode is None else encode(X, name)
    if rows is not None:
        return rows.astype(np.uint8), tuple(feature_names or ())
    values, columns = read_values(X, name)
    values, names = _check_columns(values, columns, n_vars, feature_names, name, "complete")
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
    ``x1``, ... If the names know a table's code, the rows may be in the columns of that table, see
    `coded_rows`. The result is C-contiguous, the caller's own memory when that is already so.
    """
    encode = getattr(feature_names, "encode_evidence", None)  # names that know the code of a table
    coded = None if encode is None else encode(X, name)
    if coded is not None:
        return coded
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


def check_sample_weight(
    sample_weight: Any, n_rows: int, *, name: str = "sample_weight", is_part: bool = False
) -> FloatArray:
    """Check row weights: one per row, finite, not negative, and not all zero.

    Those of a part of the rows may all be zero.
    """
    values, _ = read_values(sample_weight, name)
    if values.shape != (n_rows,):
        raise ValueError(
            f"{name} must hold one number per row and so have shape ({n_rows},), "
            f"but has shape {values.shape}."
        )
    numbers = _as_numbers(values, None, f"{name} must hold numbers")
    weight = np.ascontiguousarray(numbers, dtype=np.float64)
    for is_bad, rule in ((~np.isfinite(weight), "be finite"), (weight < 0, "not be negative")):
        if is_bad.any():
            row = int(np.argmax(is_bad))
            raise ValueError(f"{name} must {rule}, but holds {weight[row]!s} at row {row}.")
    with np.errstate(over="ignore"):
        total = float(weight.sum())
    if total == 0.0 and not is_part:
        raise ValueError(f"{name} must have a positive sum, but every weight is zero.")
    if total == np.inf:
        raise ValueError(
            f"{name} must have a finite sum, but overflows. Divide all weights by a constant."
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
