"""Columns of a table in events: ``x["age"] > 60`` as a statement about 0/1 variables.

In:  a `Column`, the names of all variables, and a comparison.
Out: `Event`: literals that all hold, or not all of them; several such only where values have gaps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from strudel._names import quote
from strudel._types import AnyArray
from strudel.logic.events import FALSE_EVENT, TRUE_EVENT, Event, Place
from strudel.tables.coded_column import CodedColumn, cell_of
from strudel.tables.column import (
    compare,
    compared_region,
    is_in,
    places_region,
    said_region,
    said_values,
)
from strudel.tables.density import Region


class ColumnTerm:
    """A column of a table, which comparisons turn into events.

    Made by `variables` of a model that was learned from a table. Has ``==``, ``!=``, ``<``, ``<=``,
    ``>``, ``>=``, `isin` and `between`. A bound may lie anywhere, also inside a cell.

    Examples
    --------
    >>> from strudel import Strudel, probability, variables
    >>> rows = [["red", 20], ["red", 40], ["blue", 60], ["green", 60]] * 50
    >>> model = Strudel(n_components=1, random_state=0, max_splits=0).fit(rows)
    >>> x = variables(model)
    >>> x["x1"] >= 40
    Event('x1 >= 40')
    >>> x["x0"].isin(["red", "green"])
    Event('x0 in {green, red}')
    """

    def __init__(self, column: CodedColumn, names: Sequence[str]) -> None:
        self.column, self.names = column, names

    def compare(self, operator: str, value: Any) -> Event:
        """The event that this comparison of the column with a value holds."""
        if operator == "!=":
            return ~self.compare("==", value)
        if self.column.is_numeric:
            return self._in(compared_region(self.column, operator, value))
        return self._has(compare(self.column, operator, value))

    def isin(self, values: Iterable[Any]) -> Event:
        """The event that the column has one of these values."""
        if self.column.is_numeric:
            return self._in(said_region(self.column, list(values)))
        return self._has(is_in(self.column, values))

    def between(self, low: Any, high: Any) -> Event:
        """The event ``low <= x < high``; None leaves an end open."""
        return self.agrees((low, high))

    def agrees(self, value: Any) -> Event:
        """The event that the column agrees with a piece of evidence, as in a dict."""
        if self.column.is_numeric:
            return self._in(said_region(self.column, value))
        return self._has(said_values(self.column, value))

    def __eq__(self, other: object) -> Event:  # type: ignore[override]
        return self.compare("==", other)

    def __ne__(self, other: object) -> Event:  # type: ignore[override]
        return self.compare("!=", other)

    def __lt__(self, other: Any) -> Event:
        return self.compare("<", other)

    def __le__(self, other: Any) -> Event:
        return self.compare("<=", other)

    def __gt__(self, other: Any) -> Event:
        return self.compare(">", other)

    def __ge__(self, other: Any) -> Event:
        return self.compare(">=", other)

    __hash__ = object.__hash__

    def in_region(self, region: Region) -> Event:
        """The event that the column lies in a region; of categories, among their places."""
        if self.column.is_numeric:
            return self._in(region)
        place = np.arange(self.column.n_values)
        return self._has(np.any([(place >= a) & (place < b) for a, b in region], axis=0))

    def _has(self, holds: AnyArray) -> Event:
        """The event that the column has one of those values that hold."""
        return self._in(places_region(holds)) if self.column.is_shared else self._event(holds)

    def _in(self, region: Region) -> Event:
        """The event that the column lies in a region; a point if that is one number of a cell."""
        is_one = len(region) == 1 and region[0][1] == math.nextafter(region[0][0], math.inf)
        is_cell = bool((self.column.cells.shares(region) == 1.0).any())
        if is_one and not is_cell and cell_of(self.column, region[0][0]).any():
            return Event("point", var=self.column.name, bound=region[0][0])
        return self.within(region)

    def within(self, region: Region) -> Event:
        """The same without points."""
        shares = self.column.cells.shares(region)
        if np.isin(shares, (0.0, 1.0)).all():
            return self._event((shares == 1.0)[self.column.value_cell])
        events = []
        for low, high in region:
            if self.column.cells.shares(((low, high),)).any():
                ends = self._at_least(low), ~self._at_least(high)
                kept = tuple(end for end in ends if end is not TRUE_EVENT)
                events.append(kept[0] if len(kept) == 1 else Event("and", kept))
        return events[0] if len(events) == 1 else Event("or", tuple(events))

    def _at_least(self, bound: float) -> Event:
        """The event that the column is a number or more, or a category at this place or later."""
        above = ((bound, np.inf),) if bound < np.inf else ()
        shares = self.column.cells.shares(above)
        if np.isin(shares, (0.0, 1.0)).all():
            return self._event((shares == 1.0)[self.column.value_cell])
        if self.column.is_shared:
            bound = Place(bound, self.column.labels[int(bound)])
        return Event("bound", var=self.column.name, bound=bound)

    def _event(self, holds: AnyArray) -> Event:
        return event_of_values(self.column, self.names, holds)

    def __and__(self, other: Any) -> Event:
        raise TypeError(
            f"Column {self.column.name!r} is not an event until it is compared, as in "
            f"(x[{self.column.name!r}] == {self.column.values[-1]!r}) & ...: write the "
            "parentheses, since & binds more tightly than a comparison."
        )

    __or__ = __rand__ = __ror__ = __xor__ = __rxor__ = __rshift__ = __rrshift__ = __and__

    def __invert__(self) -> Event:
        return self & self

    def __bool__(self) -> bool:
        raise TypeError(f"Column {self.column.name!r} is neither true nor false: compare it.")

    def __repr__(self) -> str:
        column = self.column
        return f"ColumnTerm({column.name!r}: {column.kind} with {quote(column.labels)})"


def _run(holds: AnyArray, start: int) -> AnyArray:
    """The values from one on, as long as they hold."""
    run = np.zeros(len(holds), dtype=bool)
    while start < len(holds) and holds[start]:
        run[start] = True
        start += 1
    return run


def event_of_values(column: CodedColumn, names: Sequence[str], holds: AnyArray) -> Event:
    """The event that a column has one of those values, or lies in one of those cells, that hold."""
    if holds.all():
        return TRUE_EVENT
    if not holds.any():
        return FALSE_EVENT
    literals, others = column.literals(holds), column.literals(~holds)
    if literals is not None:
        return _all_of(literals, names)
    if others is not None:
        return ~_all_of(others, names)
    starts = np.flatnonzero(np.diff(holds.astype(np.int8), prepend=0) == 1)
    runs = [_run(holds, int(start)) for start in starts]
    return Event("or", tuple(event_of_values(column, names, run) for run in runs))


def _all_of(literals: Iterable[tuple[int, int]], names: Sequence[str]) -> Event:
    events = []
    for var, bit in literals:
        event = Event("variable", var=names[var])
        events.append(event if bit else ~event)
    return events[0] if len(events) == 1 else Event("and", tuple(events))
