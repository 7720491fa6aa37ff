"""Conditions on columns: which values of a column satisfy ``age > 60``, a list or an interval.

In:  a `Column` and what a user says about it.
Out: for numbers and dates the `Region` that is meant; for other columns one boolean per value; as
     evidence, how probable it is given each cell, or the 0/1 variables that say the same.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from strudel._names import did_you_mean, quote
from strudel._types import AnyArray, FloatArray
from strudel.errors import NoValueError, UnorderedColumnError
from strudel.tables.bin_edges import (
    as_duration,
    as_stamp,
    date_text,
    duration_text,
    number_text,
)
from strudel.tables.cell_distribution import EVERYWHERE, Region, meet
from strudel.tables.coded_column import BIT, Column
from strudel.tables.columns import is_missing


def compare(column: Column, operator: str, value: Any) -> AnyArray:
    """Which values of a column, not of numbers or dates, satisfy ``column operator value``."""
    if operator in ("==", "!="):
        found = _equals(column, value)
        return found if operator == "==" else ~found
    if column.kind in ("boolean", BIT):
        return _compare_bits(column, operator, value)
    if column.kind == "category":
        raise UnorderedColumnError(
            f"The values of column {column.name!r} have no order ({quote(column.labels)}), so "
            f"{operator} does not apply.",
            "Use ==, != or isin, or make it an ordinal: "
            f"TableEncoder(kinds={{{column.name!r}: [...]}}) with its values in order.",
            column=column.name,
        )
    place = int(np.argmax(_equals(column, value)))
    places = np.arange(column.n_values)
    return {"<": places < place, "<=": places <= place, ">": places > place}.get(
        operator, places >= place
    )


def _compare_bits(column: Column, operator: str, value: Any) -> AnyArray:
    """Which of 0 and 1, in a column of nothing else, satisfy ``column operator value``."""
    bits, bound = np.array(column.values, dtype=np.float64), _number(column, value)
    compared = {"<": bits < bound, "<=": bits <= bound, ">": bits > bound, ">=": bits >= bound}
    return compared[operator]


def compared_region(column: Column, operator: str, value: Any) -> Region:
    """Which numbers or dates satisfy ``column operator value``."""
    bound = _number(column, value)
    after = math.nextafter(bound, math.inf)
    return {
        "<": ((-np.inf, bound),),
        "<=": ((-np.inf, after),),
        ">": ((after, np.inf),),
        ">=": ((bound, np.inf),),
        "==": ((bound, after),),
        "!=": ((-np.inf, bound), (after, np.inf)),
    }[operator]


def said_region(column: Column, value: Any) -> Region:
    """Which numbers or dates agree with ``(low, high)``, with a list of values, or with one.

    Of other columns, the places of those values.
    """
    if not column.is_numeric:
        return places_region(said_values(column, value))
    if isinstance(value, tuple):
        low, high = _bounds(column, value)
        return ((low, high),)
    if not _is_several(value):
        return compared_region(column, "==", value)
    if isinstance(value, Mapping):
        raise ValueError(f"Column {column.name!r} needs a list of values, but got {value!r}.")
    numbers = sorted({_number(column, one) for one in value})
    return tuple((number, math.nextafter(number, math.inf)) for number in numbers)


def said_values(column: Column, value: Any) -> AnyArray:
    """Which values of a column, not of numbers or dates, agree with a piece of evidence.

    A single value; ``(low, high)`` for ``low <= x < high`` in a column with an order, with None
    where an end is open; or a list or set of values.
    """
    if isinstance(value, tuple) and column.kind in ("ordinal", "boolean", BIT):
        _check_interval(column, value)
        low, high = (None if is_missing(bound) else bound for bound in value)
        found = np.ones(column.n_values, dtype=bool)
        found &= compare(column, ">=", low) if low is not None else True
        return found & (compare(column, "<", high) if high is not None else True)
    return is_in(column, value) if _is_several(value) else _equals(column, value)


def places_region(holds: AnyArray) -> Region:
    """The places of the values that hold, as intervals.

    Examples
    --------
    >>> places_region(np.array([True, True, False, True]))
    ((0.0, 2.0), (3.0, 4.0))
    """
    ends = np.flatnonzero(np.diff(holds.astype(np.int8), prepend=0, append=0)).astype(np.float64)
    return tuple(zip(ends[::2].tolist(), ends[1::2].tolist(), strict=True))


def is_in(column: Column, values: Iterable[Any]) -> AnyArray:
    """Which values of a column, not of numbers or dates, are among those given."""
    if isinstance(values, str | bytes | Mapping):
        raise ValueError(f"Column {column.name!r} needs a list of values, but got {values!r}.")
    found = np.zeros(column.n_values, dtype=bool)
    for value in values:
        found |= _equals(column, value)
    return found


def evidence_shares(column: Column, value: Any) -> FloatArray:
    """How probable a piece of evidence is given each cell: from 0 to 1.

    A single number or date stands for its cell, within which only a density tells it from others;
    so does each of a list, if none of them has a probability of its own.
    """
    if not column.is_numeric:
        holds = said_values(column, value)
        return column.cells.shares(places_region(holds)) if column.is_shared else holds * 1.0
    if not _is_several(value):
        return cell_of(column, _number(column, value)).astype(np.float64)
    region = said_region(column, value)
    shares = column.cells.shares(region)
    if shares.any() or isinstance(value, tuple) or not region:
        return shares
    numbers = np.array([low for low, _ in region])
    cells = np.searchsorted(np.array(column.edges), numbers, side="right")
    found = np.bincount(cells, np.exp(column.cells.log_density(numbers)), column.n_values)
    return found / (found.max() or 1.0)


def literals_of(column: Column, value: Any) -> tuple[tuple[int, int], ...]:
    """A piece of evidence that needs no part of a cell, as variables and their bits."""
    if not _is_several(value) and is_missing(value):
        return ()
    shares = evidence_shares(column, value)
    check_possible(column, value, shares)
    if not _is_several(value):  # a single category stands for its cell, as a number does
        shares = np.ceil(shares)
    if not np.isin(shares, (0.0, 1.0)).all():
        raise ValueError(
            f"{column.name!r}: {_said(value)} takes parts of cells, which 0/1 variables cannot "
            "say. Ask a query for it, or condition(model, ...) on it first."
        )
    literals = column.literals((shares == 1.0)[column.value_cell])
    if literals is None:
        raise ValueError(gaps_of(column, value, shares))
    return literals


def check_possible(column: Column, value: Any, shares: FloatArray) -> None:
    """Refuse evidence that no value of a column agrees with."""
    if not shares.any():
        raise NoValueError(
            f"No value of column {column.name!r} seen at fit is {_said(value)}: {_seen(column)}.",
            "Give possible evidence.",
            column=column.name,
        )


def gaps_of(column: Column, value: Any, shares: FloatArray) -> str:
    """Why a thermometer code cannot say that a column has some values with others between."""
    places = np.flatnonzero(shares[column.value_cell])
    labels = ", ".join(column.labels[place] for place in places)
    return (
        f"{column.name!r}: {_said(value)} has gaps ({labels}), which "
        "its thermometer code cannot express in one row. Condition on the event "
        f"instead, condition(model, variables(model)[{column.name!r}].isin([...])), or learn "
        "with TableEncoder(code='one_hot')."
    )


def _is_several(value: Any) -> bool:
    return isinstance(value, tuple | list | Set | np.ndarray | range | Mapping)


def _check_interval(column: Column, bounds: tuple[Any, ...]) -> None:
    if len(bounds) != 2:
        raise ValueError(
            f"An interval of column {column.name!r} is (low, high), with None where it is open, "
            f"but got {bounds!r}. Use a list for a set of values."
        )


def _bounds(column: Column, bounds: tuple[Any, ...]) -> tuple[float, float]:
    """The ends of ``low <= x < high``."""
    _check_interval(column, bounds)
    low, high = bounds
    first = -np.inf if is_missing(low) else _number(column, low)
    last = np.inf if is_missing(high) else _number(column, high)
    if first >= last:
        raise ValueError(
            f"An interval of column {column.name!r} is (low, high) with low < high, "
            f"but got {bounds!r}."
        )
    return first, last


def cell_of(column: Column, number: float) -> AnyArray:
    """The cell of a number or date, if it can have this value."""
    cell = int(np.searchsorted(np.array(column.edges), number, side="right"))
    is_there = bool(
        meet(column.region or EVERYWHERE, ((number, math.nextafter(number, math.inf)),))
    )
    return (np.arange(column.n_values) == cell) & is_there


def _number(column: Column, value: Any) -> float:
    """A bound or value of a column of numbers or dates."""
    if column.kind == "date":
        return as_stamp(value)
    if column.dtype == "duration":
        return as_duration(value)
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = float(value)
    is_number = isinstance(value, int | float | np.number | np.bool_) and not is_missing(value)
    if not is_number:
        raise ValueError(
            f"Column {column.name!r} holds numbers, but got {value!r}: give a number, or a pair "
            "(low, high), of which one may be None."
        )
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"A value of column {column.name!r} is beyond 1e308.") from None


def _equals(column: Column, value: Any) -> AnyArray:
    """Which of a column's values this is: the value itself, or what it is called."""
    place = column.place_of(value)
    if place is not None:
        return np.arange(column.n_values) == place
    if column.kind == BIT:
        raise ValueError(f"The value of {column.name!r} must be 0 or 1, but is {value!r}.")
    raise ValueError(
        f"Column {column.name!r} has no value {value!r}. {did_you_mean(value, column.labels)}"
    )


def bound_text(column: Column, bound: float) -> str:
    """A bound as it is written: of a date, a duration, a number or the place of a category."""
    if not column.is_numeric:
        return column.labels[int(bound)]
    if column.dtype == "duration":
        return duration_text(bound)
    return date_text(bound) if column.kind == "date" else number_text(bound)


def region_text(column: Column, region: Region) -> str:
    """A region as it is written: ``30 <= age < 40``, or the categories in it."""
    if not column.is_numeric:
        return either([column.labels[place] for place in places_in(column, region)])
    parts = []
    for low, high in region:
        text = column.name
        text = text if low == -np.inf else f"{bound_text(column, low)} <= {text}"
        parts.append(text if high == np.inf else f"{text} < {bound_text(column, high)}")
    return " or ".join(parts)


def places_in(column: Column, region: Region) -> list[int]:
    """The places of a column's values that lie in a region."""
    places = range(column.n_values)
    return [place for place in places if any(low <= place < high for low, high in region)]


def either(labels: Sequence[str]) -> str:
    """Labels of which one holds; the first few where there are many."""
    return " or ".join(labels) if len(labels) < 9 else f"one of {quote(labels, 3)}"


def _said(value: Any) -> str:
    if isinstance(value, tuple) and len(value) == 2:
        low, high = value
        if high is None:
            return f"{low!r} or more"
        return f"below {high!r}" if low is None else f"from {low!r} to below {high!r}"
    return repr(value)


def _seen(column: Column) -> str:
    if not column.is_numeric:
        return f"there are {quote(column.labels)}"
    first, last = column.ranges[0][0], column.ranges[-1][1]
    return f"they go from {bound_text(column, first)} to {bound_text(column, last)}"
