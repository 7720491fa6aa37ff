"""Conditions on columns: which values or cells of a column satisfy ``age > 60`` or an interval.

In:  a `Column` and what a user says about it.
Out: one boolean per value or cell; or the 0/1 variables and bits that say the same.

A cell of numbers counts as a whole. A bound inside a cell is exact if all values seen at fit lie on
one side of it; else it moves to the nearer end of the cell, and a `MovedBoundWarning` says so.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any

import numpy as np

from strudel._names import did_you_mean, quote
from strudel._types import AnyArray
from strudel.errors import MovedBoundWarning, UnorderedColumnError
from strudel.tables.bin_edges import as_stamp, date_text, number_text
from strudel.tables.coded_column import BIT, Column
from strudel.tables.columns import is_missing


def compare(column: Column, operator: str, value: Any) -> AnyArray:
    """Which values of a column satisfy ``column operator value``."""
    if operator in ("==", "!="):
        if column.kind in ("number", "date"):
            found = _cell_of(column, value, warn=True)
        else:
            found = _equals(column, value)
        return found if operator == "==" else ~found
    if column.kind in ("category", "boolean", BIT):
        raise UnorderedColumnError(
            f"The values of column {column.name!r} have no order ({quote(column.labels)}), so "
            f"{operator} does not apply.",
            "Use ==, != or isin, or make it an ordinal: "
            f"TableEncoder(kinds={{{column.name!r}: [...]}}) with its values in order.",
            column=column.name,
        )
    if column.kind == "ordinal":
        place = int(np.argmax(_equals(column, value)))
        places = np.arange(column.n_values)
        return {"<": places < place, "<=": places <= place, ">": places > place}.get(
            operator, places >= place
        )
    # x <= v is the opposite of x > v, and x < v that of x >= v.
    bound, is_strict = _number(column, value), operator in (">", "<=")
    cut, is_exact = _cut(column, bound, is_strict)
    first, last = (0, cut) if operator in ("<", "<=") else (cut, column.n_values)
    if not is_exact:
        is_next = is_strict and column.dtype == "integer" and bound.is_integer()
        said = f"{column.name} {operator} {_text(column)(bound)}"
        # Codes say x >= edge: between whole numbers that is x > edge - 1, elsewhere never x > edge.
        wide = {">": ">=", "<=": "<"}[operator] if is_strict and not is_next else None
        _warn_moved(column, said, first, last, [bound + 1 if is_next else bound], wide)
    return _cells(column, first, last)


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
        return _cell_of(column, value, warn=True)
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
            f"No value of column {column.name!r} seen at fit is {_said(value)}: "
            f"{_seen(column)}. Give possible evidence."
        )
    literals = column.literals(found)
    if literals is None:
        labels = ", ".join(column.labels[place] for place in np.flatnonzero(found))
        raise ValueError(
            f"{column.name!r}: {_said(value)} has gaps ({labels}), which "
            "its thermometer code cannot express in one row. Condition on the event "
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
    first, low_is_exact = (0, True) if ends[0] is None else _cut(column, ends[0])
    last, high_is_exact = (column.n_values, True) if ends[1] is None else _cut(column, ends[1])
    if first == last and not (low_is_exact and high_is_exact):  # all within one cell: take it
        bound = next(end for end in ends if end is not None)
        first = int(np.searchsorted(np.array(column.edges), bound, side="right"))
        last = first + 1
    if not (low_is_exact and high_is_exact):
        low_text, high_text = (None if e is None else _text(column)(e) for e in ends)
        said = " and ".join(
            f"{column.name} {sign} {text}"
            for sign, text in ((">=", low_text), ("<", high_text))
            if text is not None
        )
        _warn_moved(column, said, first, last, [end for end in ends if end is not None])
    return _cells(column, first, last)


def _cells(column: Column, first: int, last: int) -> AnyArray:
    """The cells from one to before another."""
    places = np.arange(column.n_values)
    return (places >= first) & (places < last)


def _cut(column: Column, bound: float, is_strict: bool = False) -> tuple[int, bool]:
    """The number of cells below a bound, and whether no cell has values on both sides of it.

    Cells from there on are x >= bound; if strict, x > bound.
    """
    for cell, (low, high) in enumerate(column.ranges):
        is_below = high <= bound if is_strict else high < bound
        if is_below:
            continue
        is_above = low > bound if is_strict else low >= bound
        if is_above:
            return cell, True
        return (cell if bound - low <= high - bound else cell + 1), False
    return column.n_values, True


def _text(column: Column) -> Callable[[float], str]:
    return date_text if column.kind == "date" else number_text


def _warn_moved(
    column: Column,
    said: str,
    first: int,
    last: int,
    wanted: list[float],
    operator: str | None = None,
) -> None:
    """Say which interval was used instead of the given one, and which would be exact.

    With an operator, only that one is exact at the wanted edge.
    """
    text = _text(column)
    used = "no value" if first == last else column.name
    used = f"{text(column.edges[first - 1])} <= {used}" if 0 < first < last else used
    used = f"{used} < {text(column.edges[last - 1])}" if first < last < column.n_values else used
    used = "any value" if (first, last) == (0, column.n_values) else used
    ask = ""
    if operator is not None:
        ask = f"ask for {column.name} {operator} {text(wanted[0])}, which an edge there decides"
    is_there = operator is not None and wanted[0] in column.edges
    _warn(column, f"{said} was taken as {used}", None if is_there else wanted, ask)


def _warn(column: Column, what: str, edges: Iterable[float] | None, ask: str) -> None:
    """Say what was done, and that it is exact with other edges and, if not empty, with `ask`."""
    text = _text(column)
    ways = [ask] if ask else []
    if edges is not None:
        shown = [repr(text(edge)) if column.kind == "date" else text(edge) for edge in edges]
        learn = f"TableEncoder(edges={{{column.name!r}: [{', '.join([*shown, '...'])}]}})"
        ways.insert(0, f"learn with {learn}")
    warnings.warn(
        MovedBoundWarning(
            f"{what}: the model separates values of {column.name!r} only at "
            f"{', '.join(map(text, column.edges)) or 'no edge'}.",
            f"For an exact answer, {' and '.join(ways)}.",
            column=column.name,
            edges=None if edges is None else list(map(text, edges)),
            ask=ask,
        ),
        stacklevel=_stack_level(),
    )


def _stack_level() -> int:
    """How far up the first caller outside this package is."""
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
        said = f"{column.name} == {_text(column)(number)}"
        taken = f"{said} was taken as its cell, {column.labels[cell]}"
        _warn(column, taken, (), "ask for an interval between edges")
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
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"A value of column {column.name!r} is beyond 1e308.") from None


def _equals(column: Column, value: Any) -> AnyArray:
    """Which of a column's values this is: the value itself, or what it is called."""
    place = column.place_of(value)
    if place is not None:
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
    text = _text(column)
    return f"they go from {text(column.ranges[0][0])} to {text(column.ranges[-1][1])}"
