"""Conditions on columns: which values or cells of a column satisfy ``age > 60`` or an interval.

In:  a `Column` and what a user says about it.
Out: one boolean per value or cell; or the 0/1 variables and bits that say the same.

A cell of numbers counts as a whole. A bound inside a cell is exact if all values seen at fit lie on
one side of it; else it moves to the nearer end of the cell, and a `MovedBoundWarning` says so.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy as np

from strudel._types import AnyArray
from strudel.data.containers import quote
from strudel.data.table_code import Column, did_you_mean
from strudel.data.table_columns import is_missing
from strudel.data.table_edges import as_stamp, date_text, number_text
from strudel.errors import MovedBoundWarning

OPERATORS = ("==", "!=", "<", "<=", ">", ">=")


def compare(column: Column, operator: str, value: Any) -> AnyArray:
    """Which values of a column satisfy ``column operator value``.

    Examples
    --------
    >>> from strudel import TableEncoder
    >>> age = TableEncoder().fit([[20], [40], [60]]).code_.columns[0]
    >>> compare(age, ">=", 40)
    array([False,  True,  True])
    """
    if operator in ("==", "!="):
        if column.kind in ("number", "date"):
            found = _cell_of(column, value, warn=True)
        else:
            found = _equals(column, value)
        return found if operator == "==" else ~found
    if column.kind in ("category", "boolean"):
        raise ValueError(
            f"Column {column.name!r} has values without an order ({quote(column.labels)}), so it "
            f"has no {operator}. Use ==, != or isin, or make it an ordinal: "
            f"TableEncoder(kinds={{{column.name!r}: [...]}}) with its values in order."
        )
    if column.kind == "ordinal":
        place = int(np.argmax(_equals(column, value)))
        places = np.arange(column.n_values)
        return {"<": places < place, "<=": places <= place, ">": places > place}.get(
            operator, places >= place
        )
    # x <= v is the opposite of x > v, and x < v that of x >= v.
    cut = _cut(column, _number(column, value), operator in (">", "<="), operator)
    is_above = np.arange(column.n_values) >= cut
    return ~is_above if operator in ("<", "<=") else is_above


def matches(column: Column, value: Any) -> AnyArray:
    """Which values of a column agree with a piece of evidence.

    A single value; ``(low, high)`` for ``low <= x < high`` in a column with an order, with None
    where an end is open; or a list or set of values.
    """
    if isinstance(value, tuple) and column.kind in ("ordinal", "number", "date"):
        return _between(column, value)
    if isinstance(value, list | tuple | Set | np.ndarray | range):
        return is_in(column, value)
    if column.kind in ("number", "date"):
        return _cell_of(column, value, warn=False)
    return _equals(column, value)


def is_in(column: Column, values: Iterable[Any]) -> AnyArray:
    """Which values of a column are among those given."""
    if isinstance(values, str | bytes | Mapping):
        raise ValueError(f"Column {column.name!r} needs a list of values, but got {values!r}.")
    found = np.zeros(column.n_values, dtype=bool)
    for value in values:
        one = column.kind in ("number", "date")
        found |= _cell_of(column, value, warn=False) if one else _equals(column, value)
    return found


def literals_of(column: Column, value: Any) -> tuple[tuple[int, int], ...]:
    """A piece of evidence as variables and their bits."""
    if not isinstance(value, tuple | list | Set | np.ndarray | range) and is_missing(value):
        return ()
    found = matches(column, value)
    if not found.any():
        raise ValueError(
            f"No value of column {column.name!r} that was seen at fit is {_said(value)}: "
            f"{_seen(column)}. Nothing can be said given what is impossible."
        )
    literals = column.literals(found)
    if literals is None:
        raise ValueError(
            f"{column.name!r}: {_said(value)} has gaps ({_labels(column, found)}), and the "
            "variables of its thermometer code cannot say so in one row. Condition on the event "
            f"instead, condition(model, variables(model)[{column.name!r}].isin([...])), or learn "
            "with TableEncoder(code='one_hot')."
        )
    return literals


def _between(column: Column, bounds: tuple[Any, ...]) -> AnyArray:
    """Values with low <= x < high."""
    if len(bounds) != 2:
        raise ValueError(
            f"An interval of column {column.name!r} is (low, high), with None where it is open, "
            f"but got {bounds!r}. Use a list for a set of values."
        )
    low, high = (None if is_missing(bound) else bound for bound in bounds)
    if column.kind == "ordinal":
        found = np.ones(column.n_values, dtype=bool)
        found &= compare(column, ">=", low) if low is not None else True
        return found & (compare(column, "<", high) if high is not None else True)
    ends = [None if bound is None else _number(column, bound) for bound in (low, high)]
    if ends[0] is not None and ends[1] is not None and ends[0] >= ends[1]:
        raise ValueError(
            f"An interval of column {column.name!r} is (low, high) with low < high, "
            f"but got {bounds!r}."
        )
    n_cells = column.n_values
    first = 0 if ends[0] is None else _cut(column, ends[0], False, ">=")
    last = n_cells if ends[1] is None else _cut(column, ends[1], False, "<")
    if first == last and ends[0] is not None and ends[0] <= column.ranges[-1][1]:
        # Both ends moved to one edge: the cell that the interval lies in is nearest.
        inside = np.searchsorted(np.array(column.edges), ends[0], side="right")
        low_seen, high_seen = column.ranges[inside]
        if ends[0] <= high_seen and (ends[1] is None or ends[1] > low_seen):
            first, last = int(inside), int(inside) + 1
    places = np.arange(n_cells)
    return (places >= first) & (places < last)


def _cut(column: Column, bound: float, is_strict: bool, said: str) -> int:
    """The number of cells below a bound; those from there on are x >= bound (x > if strict)."""
    for cell, (low, high) in enumerate(column.ranges):
        is_below = high <= bound if is_strict else high < bound
        if is_below:
            continue
        is_above = low > bound if is_strict else low >= bound
        if is_above:
            return cell
        cut = cell if bound - low <= high - bound else cell + 1
        _warn_moved(column, bound, cut, said, is_strict)
        return cut
    return column.n_values


def _warn_moved(column: Column, bound: float, cut: int, said: str, is_strict: bool) -> None:
    text = date_text if column.kind == "date" else number_text
    is_below = said.startswith("<")
    if 0 < cut < column.n_values:
        used = f"{column.name} {'<' if is_below else '>='} {text(column.edges[cut - 1])}"
    else:
        used = "any value" if (cut == 0) != is_below else "no value"
    is_next = is_strict and column.dtype == "integer" and float(bound).is_integer()
    wanted = text(bound + 1 if is_next else bound)
    wanted = repr(wanted) if column.kind == "date" else wanted
    warnings.warn(
        f"{column.name} {said} {text(bound)} was taken as {used}: the model tells values of "
        f"{column.name!r} apart only at {', '.join(map(text, column.edges)) or 'no edge'}. For an "
        f"exact answer, learn with TableEncoder(edges={{{column.name!r}: [{wanted}, ...]}}).",
        MovedBoundWarning,
        stacklevel=_stack_level(),
    )


def _stack_level() -> int:
    """How far up the caller is who is not in this package."""
    import sys

    level, frame = 1, sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("strudel."):
        level, frame = level + 1, frame.f_back  # type: ignore[assignment]
    return level


def _cell_of(column: Column, value: Any, warn: bool) -> AnyArray:
    """The cell of a number or date."""
    number = _number(column, value)
    cell = int(np.searchsorted(np.array(column.edges), number, side="right"))
    low, high = column.ranges[cell]
    if warn and not low == high == number:
        text = date_text if column.kind == "date" else number_text
        warnings.warn(
            f"{column.name} == {text(number)} was taken as its cell, {column.labels[cell]}: the "
            f"model tells values of {column.name!r} apart only at "
            f"{', '.join(map(text, column.edges)) or 'no edge'}. Ask for an interval, or learn "
            f"with more edges: TableEncoder(edges={{{column.name!r}: [...]}}).",
            MovedBoundWarning,
            stacklevel=_stack_level(),
        )
    return np.arange(column.n_values) == cell


def _number(column: Column, value: Any) -> float:
    """A bound or value of a column of numbers or dates."""
    if column.kind == "date":
        return as_stamp(value)
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = float(value)
    is_number = isinstance(value, int | float | np.number | np.bool_) and not is_missing(value)
    if not is_number:
        raise ValueError(f"Column {column.name!r} holds numbers, but got {value!r}.")
    return float(value)


def _equals(column: Column, value: Any) -> AnyArray:
    """Which of a column's values this is: the value itself, or what it is called."""
    for place, own in enumerate(column.values):
        if type(own) is type(value) and own == value:
            return np.arange(column.n_values) == place
    is_plain = isinstance(value, str | int | float | np.generic)
    texts = [label.casefold() for label in column.labels] if column.kind == "boolean" else None
    for place, own in enumerate(column.values):
        is_same = is_plain and (own == value or column.labels[place] == str(value))
        is_same |= texts is not None and texts[place] == str(value).casefold()
        if column.kind == "boolean" and isinstance(value, str):
            is_same |= value.casefold() in (("false", "0"), ("true", "1"))[place]
        if is_same:
            return np.arange(column.n_values) == place
    raise ValueError(
        f"Column {column.name!r} has no value {value!r}. {did_you_mean(value, column.labels)}"
    )


def _said(value: Any) -> str:
    if isinstance(value, tuple) and len(value) == 2:
        low, high = value
        return f"from {low!r} to below {high!r}"
    return repr(value)


def _seen(column: Column) -> str:
    if column.kind not in ("number", "date"):
        return f"there are {quote(column.labels)}"
    text = date_text if column.kind == "date" else number_text
    return f"they go from {text(column.ranges[0][0])} to {text(column.ranges[-1][1])}"


def _labels(column: Column, found: AnyArray) -> str:
    return ", ".join(label for label, holds in zip(column.labels, found, strict=True) if holds)
