"""Columns: the cells of one column of a table, which are what leaves of a circuit are tables over.

In:  a column as learned: categories, or cells of numbers and dates with a density inside; a value,
     an interval or a set, as someone gives it.
Out: which cell every value lies in; which region of the column is meant, and the share of every
     cell that it holds; values again.

A category is a cell of its own. Numbers and dates have cells between edges; within a cell they are
distributed as the column is everywhere, cut to the cell. A 0/1 variable is a column of two cells.

Cells may be fine: neighbours are then in groups, which are what a search splits on. Of numbers and
dates, groups are also what people see (`Column.shown`).
"""

from __future__ import annotations

import contextlib
import math
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Self

import numpy as np

from strudel._names import did_you_mean, quote
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.errors import NoValueError, UnorderedColumnError, UnseenValueError
from strudel.tables.columns import (
    NUMERIC,
    RawColumn,
    as_duration,
    as_stamp,
    date_text,
    duration_text,
    is_missing,
    number_text,
)
from strudel.tables.density import (
    EVERYWHERE,
    LARGEST,
    CellDistribution,
    Density,
    Pieces,
    Region,
    meet,
)

BIT = "bit"  # the kind of a column that is a 0/1 variable, whose mean is a probability
KINDS = ("boolean", "category", "ordinal", "number", "date")
DTYPES = (*NUMERIC, "text", "categorical", "enum", "object")
LAST_DATE = 253_402_300_799e6  # the end of the year 9999, in microseconds since 1970


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table and its cells."""

    name: str
    kind: str  # boolean, category, ordinal, number, date or bit
    labels: tuple[str, ...]  # (n_cells,) what each cell is called
    values: tuple[Any, ...]  # (n_cells,) the value that stands for each cell; dates as stamps
    edges: tuple[float, ...] = ()  # number and date: cell j holds edges[j - 1] <= x < edges[j]
    ranges: tuple[tuple[float, float], ...] = ()  # number and date: what was seen in each cell
    counts: tuple[int, ...] = ()  # (n_cells,) rows in each cell at fit
    dtype: str = "object"  # the type of the frame's column, see `RawColumn`
    zone: str | None = None  # the time zone of a datetime column
    density: Density | None = None  # number and date: how values are distributed
    region: Region = ()  # numbers and dates: where they are known to lie; () anywhere
    groups: tuple[int, ...] = ()  # (n_cells,) the group that each cell is in; () alone in its own

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.labels)

    n_values = n_cells  # a cell is what words and pictures call a value

    @property
    def is_numeric(self) -> bool:
        """Whether its values are numbers or dates."""
        return self.kind in ("number", "date")

    @property
    def keys(self) -> tuple[Any, ...]:
        """What stands for each cell: its value, or the text of a cell with several numbers."""
        if not self.is_numeric:
            return self.values
        is_plain = self.kind == "number" and self.dtype != "duration"
        is_single = list(self.edges) == list(self.values[1:]) and all(
            a == b for a, b in self.ranges
        )
        return self.values if is_plain and is_single else self.labels

    @property
    def range_at_fit(self) -> tuple[float, float]:
        """The smallest and the largest number or date that was seen."""
        seen = [ends for ends, n_rows in zip(self.ranges, self.counts, strict=True) if n_rows]
        lows, highs = zip(*(seen or self.ranges), strict=True)
        return min(lows), max(highs)

    # Groups of cells

    @cached_property
    def group_of_cell(self) -> IntArray:
        """The group that each cell is in, `(n_cells,)`: 0 and so on, in their order."""
        return np.array(self.groups or range(self.n_cells), dtype=np.int32)

    @cached_property
    def first_of_group(self) -> IntArray:
        """The first cell of each group, `(n_groups,)`."""
        return np.flatnonzero(np.diff(self.group_of_cell, prepend=NONE)).astype(np.int32)

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.first_of_group)

    @cached_property
    def share_of_group(self) -> FloatArray:
        """How probable each cell is given its group, as far as the column alone tells it.

        Categories are as probable as they were frequent at fit; one not seen counts half a row.
        """
        if not self.groups:
            return np.ones(self.n_cells)
        counts = np.array(self.counts or (0,) * self.n_cells)
        mass = self.cells.cell_mass if self.is_numeric else np.maximum(counts, 0.5)
        total = np.bincount(self.group_of_cell, mass)[self.group_of_cell]
        return np.divide(mass, total, out=np.zeros(self.n_cells), where=total > 0.0)

    @cached_property
    def shown(self) -> Self:
        """The column as people see it, in which a group of numbers or dates is one cell."""
        if not self.is_numeric or not self.groups:
            return self
        counts = np.array(self.counts or (0,) * self.n_cells)
        values, ranges = [], []
        for cells in np.split(np.arange(self.n_cells), self.first_of_group[1:]):
            rows = np.cumsum(counts[cells])
            middle = (
                int(np.searchsorted(rows, (rows[-1] + 1) // 2)) if rows[-1] else len(cells) // 2
            )
            values.append(self.values[cells[middle]])
            seen = [self.ranges[cell] for cell in cells if counts[cell]] or [self.ranges[cells[0]]]
            ranges.append((min(seen)[0], max(high for _, high in seen)))
        edges = tuple(self.edges[first - 1] for first in self.first_of_group[1:].tolist())
        return replace(
            self,
            labels=labels_of_numbers(partial(bound_text, self), values, edges, ranges),
            values=tuple(values),
            edges=edges,
            ranges=tuple(ranges),
            counts=tuple(np.add.reduceat(counts, self.first_of_group).tolist()),
            groups=(),
        )

    @cached_property
    def shown_of_cell(self) -> IntArray:
        """The cell of `shown` that each cell lies in."""
        is_fine = self.shown is not self
        return self.group_of_cell if is_fine else np.arange(self.n_cells, dtype=np.int32)

    # Cells

    @cached_property
    def cells(self) -> CellDistribution:
        """How numbers or dates are distributed within each cell."""
        assert self.density is not None
        return CellDistribution(self.edges, self.density, self.region)

    def weights(self, region: Region) -> FloatArray:
        """The share of every cell that lies in a region; of categories, of their places."""
        if self.is_numeric:
            return self.cells.shares(region)
        found = np.zeros(self.n_cells)
        for low, high in region:
            stop = math.ceil(min(max(high, 0.0), self.n_cells))
            found[math.ceil(max(low, 0.0)) : stop] = 1.0
        return found

    def cell_of(self, number: float) -> int:
        """The cell of a number or date."""
        return int(np.searchsorted(np.array(self.edges), number, side="right"))

    def cells_of(self, raw: RawColumn, unknown: str = "error") -> IntArray:
        """The cell of every value of a table's column, NONE where it is missing."""
        if self.is_numeric:
            return self._cells_of_numbers(raw)
        place_of = {value: place for place, value in enumerate(self.values)}
        place_of[None] = NONE
        found = np.empty(len(raw.values), dtype=np.int32)
        for row, value in enumerate(raw.objects()):
            if value not in place_of:
                place = self.place_of(value)  # "1" may have been read as a number
                place_of[value] = NONE - 1 if place is None else place
            found[row] = place_of[value]
        is_strange = found < NONE
        if is_strange.any() and unknown == "error":
            row = int(np.argmax(is_strange))
            value = raw.objects()[row]
            raise UnseenValueError(
                f"Column {self.name!r} holds {value!r} at row {row}, a value that was not seen at "
                f"fit. {did_you_mean(value, self.labels)}",
                "Correct it, or fit on rows that have it.",
                row=row,
                column=self.name,
                value=value,
            )
        return np.maximum(found, NONE)

    def _cells_of_numbers(self, raw: RawColumn) -> IntArray:
        numbers = self.numbers(raw)
        found = np.searchsorted(np.array(self.edges), numbers, side="right")
        return np.where(np.isnan(numbers), NONE, found).astype(np.int32)

    def numbers(self, raw: RawColumn) -> FloatArray:
        """The numbers or dates of a table's column, NaN where one is missing."""
        expected = "dates" if self.kind == "date" else "numbers"
        expected = "durations" if self.dtype == "duration" else expected
        is_number = raw.dtype in NUMERIC and _family(raw.dtype) == _family(self.dtype)
        missing = raw.is_missing()
        if not is_number and not missing.all():
            row = int(np.argmin(missing))
            texts = (r for r, value in enumerate(raw.values) if isinstance(value, str | bytes))
            row = next(texts, row)
            raise ValueError(
                f"Column {self.name!r} must hold {expected}, as when the encoder was fitted, but "
                f"holds {reprlib.repr(raw.objects()[row])} at row {row}. Turn the column into "
                f"{expected} first, with None or NaN where a value is unknown."
            )
        if missing.all():
            return np.full(len(missing), np.nan)
        return np.asarray(raw.values, dtype=np.float64)

    # Values

    def place_of(self, value: Any) -> int | None:
        """Which of its values this is: the value itself, or what it is called; None if none is."""
        names, texts = list(self.labels), label_texts(value)
        if self.kind in ("boolean", BIT):
            names = ["0", "1"]
            texts = [{"false": "0", "true": "1"}.get(text.casefold(), text) for text in texts]
        is_plain = isinstance(value, str | int | float | np.generic)
        ways = (
            [type(own) is type(value) and own == value for own in self.values],
            [is_plain and own == value for own in self.values],
            [is_plain and name in texts for name in names],
        )
        return next((found.index(True) for found in ways if any(found)), None)

    def own_value(self, value: Any) -> Any:
        """A value that someone gives, of the type that the column holds."""
        if self.kind == "date":
            return as_stamp(value)
        if self.dtype == "duration":
            return int(as_duration(value))
        if self.kind != "number":
            place = self.place_of(value)
            return value if place is None else self.values[place]
        number = float(value)
        is_whole = self.dtype == "integer" and number.is_integer() and abs(number) < 2.0**63
        return int(number) if is_whole else number

    def of_its_type(self, number: float) -> Any:
        """A number as the column holds it: whole ones, and dates, as int."""
        is_whole = self.dtype in ("integer", "boolean", "duration") or self.kind == "date"
        return int(number) if is_whole else number

    @cached_property
    def cell_means(self) -> FloatArray:
        """The mean of the numbers or dates of each cell; of 0/1 values themselves."""
        if not self.is_numeric:
            return np.array(self.values, dtype=np.float64)
        return np.nan_to_num(self.cells.moments()[0])  # a cell that cannot be has no mean

    @cached_property
    def cell_values(self) -> tuple[Any, ...]:
        """What stands for each cell: its value, or the median of what a region leaves of it."""
        if not self.region or not self.is_numeric:
            return self.values
        is_cut = self.cells.cell_mass < replace(self, region=()).cells.cell_mass
        medians = self.cells.medians(is_cut)
        return tuple(
            value if median != median else self.of_its_type(median)
            for value, median in zip(self.values, medians.tolist(), strict=True)
        )

    def decoded(self, cells: IntArray) -> list[Any]:
        """The value that stands for each of these cells, None for NONE."""
        values = (*self.cell_values, None)  # NONE is the last
        return [values[cell] for cell in cells.tolist()]

    def drawn(
        self, cells: IntArray, rng: np.random.Generator, *, beyond_seen: bool = False
    ) -> list[Any]:
        """A value within each of these cells, None for NONE.

        Numbers lie in the range at fit, or `beyond_seen` anywhere in the cell, as the density says.
        """
        if not self.is_numeric:
            return self.decoded(cells)
        number = rng.random(len(cells))
        found = np.full(len(cells), np.nan)
        is_known = cells != NONE
        found[is_known] = self.cells.draws(
            cells[is_known], number[is_known], beyond_seen=beyond_seen
        )
        values = (*self.cell_values, None)
        return [
            values[cell] if value != value else self.of_its_type(value)
            for value, cell in zip(found.tolist(), cells.tolist(), strict=True)
        ]

    # Other columns

    def within(self, region: Region) -> Self:
        """The column of those numbers or dates that lie in a region."""
        return replace(self, region=meet(self.region or EVERYWHERE, region))

    def at(self, number: float) -> Self:
        """The column that holds this number or date only."""
        none = Pieces(np.array([number, np.nextafter(number, np.inf)]), np.zeros(3), (1.0, 1.0))
        density = Density(np.array([number]), np.ones(1), (none,), (number, number))
        values = list(self.values)
        values[self.cell_of(number)] = self.own_value(number)
        is_own = all(isinstance(value, int) for value in values) or self.dtype != "integer"
        values = values if is_own else [float(value) for value in values]
        dtype = self.dtype if is_own else "float"
        return replace(self, values=tuple(values), density=density, region=(), dtype=dtype)


def why_not_a_column(column: Column) -> str | None:
    """Why the parts of a column do not fit together, or None."""
    n_cells, kinds, known = column.n_cells, (*KINDS, BIT), column.values
    if not isinstance(column.name, str) or column.kind not in kinds or column.dtype not in DTYPES:
        return f"it must have a name, a kind of {quote(kinds)} and a known dtype"
    texts = (*column.labels, column.zone or "UTC")
    if not all(isinstance(text, str) for text in texts) or len(set(column.labels)) != n_cells:
        return "labels and time zone must be text, and the labels distinct"
    if n_cells < 1 or len(column.values) != n_cells or len(column.counts) not in (0, n_cells):
        return "there must be a value and a count for every label"
    if not all(isinstance(count, int) and 0 <= count < 2**53 for count in column.counts):
        return "counts must be whole numbers, zero or more"
    if not all(value is None or isinstance(value, str | int | float) for value in known):
        return "values must be text, numbers, booleans or None"
    if (column.dtype in ("date", "datetime")) > (column.kind == "date"):
        return "only a column of kind 'date' holds dates"
    types: dict[str, Any] = {"integer": int, "boolean": bool, "float": float, "text": str}
    known = tuple(value for value in known if value is not None)
    if not all(isinstance(value, types.get(column.dtype, object)) for value in known):
        return f"its values are not of type {column.dtype}"
    group = column.groups
    is_in_order = group[:1] == (0,) and all(b - a in (0, 1) for a, b in pairwise(group))
    if group and (len(group) != n_cells or not is_in_order):
        return "groups must be a number for every cell, from 0 on and no larger by more than one"
    region = column.region
    if not all(low < high for low, high in region) or not all(  # also if one is NaN
        before <= low for (_, before), (low, _) in pairwise(region)
    ):
        return "the intervals of a region must be apart and in order"
    return _why_not_numeric(column, known) if column.is_numeric else None


def _why_not_numeric(column: Column, known: tuple[Any, ...]) -> str | None:
    """The same for what only numbers and dates have."""
    edges = column.edges
    if column.kind == "date" and any(abs(value) > LAST_DATE for value in (*known, *edges)):
        return "its dates are beyond the year 9999"
    if not all(isinstance(edge, float | int) and abs(edge) <= LARGEST for edge in edges):
        return f"edges must be numbers up to {LARGEST:g}"
    if len(edges) != column.n_cells - 1 or any(a >= b for a, b in pairwise(edges)):
        return "there must be one edge fewer than cells, each larger than the one before"
    if len(column.ranges) != column.n_cells or not all(
        len(seen) == 2 and all(isinstance(end, float | int) and abs(end) <= LARGEST for end in seen)
        for seen in column.ranges
    ):
        return f"every cell must have a range of numbers up to {LARGEST:g}"
    is_number = [
        isinstance(value, int | float) and not is_missing(value) for value in column.values
    ]
    if not all(is_number) and column.values != (None,):
        return "the values of numbers and dates must be numbers"
    return None


def bit_column(name: str) -> Column:
    """The column that is a 0/1 variable."""
    return Column(name, BIT, ("0", "1"), (0, 1), dtype="integer", counts=(0, 0))


def cells_of_values(column: Column, values: Sequence[Any]) -> AnyArray:
    """The cells of single values that someone gives, NONE for None."""
    made = [NONE if value is None else column.place_of(value) for value in values]
    return np.array([NONE if place is None else place for place in made], dtype=np.int32)


def has_one_value_per_cell(
    values: Sequence[Any], edges: Sequence[float], ranges: Sequence[Sequence[float]]
) -> bool:
    """Whether every cell starts at the only value that was seen in it."""
    return list(edges) == list(values[1:]) and all(low == high for low, high in ranges)


def labels_of_numbers(
    text: Callable[[float], str],
    values: Sequence[float],
    edges: Sequence[float],
    ranges: Sequence[Sequence[float]],
) -> tuple[str, ...]:
    """What cells of numbers or dates are called: their only value, or where they lie.

    Examples
    --------
    >>> labels_of_numbers("{:g}".format, [1, 2], [2.0], [(1, 1), (2, 2)])
    ('1', '2')
    >>> labels_of_numbers("{:g}".format, [1, 5], [4.0], [(0, 3), (4, 9)])
    ('<4', '>=4')
    """
    if has_one_value_per_cell(values, edges, ranges):
        return tuple(text(value) for value in values)
    ends = [text(edge) for edge in edges]
    inner = [f"[{a}, {b})" for a, b in pairwise(ends)]
    return (f"<{ends[0]}", *inner, f">={ends[-1]}") if ends else ("any",)


def _family(dtype: str) -> str:
    """What numbers of a type are about."""
    return {"date": "date", "datetime": "date", "duration": "duration"}.get(dtype, "number")


def label_texts(value: Any) -> list[str]:
    """What a value may be called: a number that is whole, also without its point."""
    is_whole = isinstance(value, float) and value.is_integer()
    return [str(value), str(int(value))] if is_whole else [str(value)]


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
    bits, bound = np.array(column.values, dtype=np.float64), number_of(column, value)
    compared = {"<": bits < bound, "<=": bits <= bound, ">": bits > bound, ">=": bits >= bound}
    return compared[operator]


def compared_region(column: Column, operator: str, value: Any) -> Region:
    """Which numbers or dates satisfy ``column operator value``."""
    bound = number_of(column, value)
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
    if not is_several(value):
        return compared_region(column, "==", value)
    if isinstance(value, Mapping):
        raise ValueError(f"Column {column.name!r} needs a list of values, but got {value!r}.")
    numbers = sorted({number_of(column, one) for one in value})
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
    return is_in(column, value) if is_several(value) else _equals(column, value)


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


def check_possible(column: Column, value: Any, shares: AnyArray) -> None:
    """Refuse evidence that no value of a column agrees with."""
    if not shares.any():
        raise NoValueError(
            f"No value of column {column.name!r} seen at fit is {value_text(value)}: "
            f"{_seen(column)}.",
            "Give possible evidence.",
            column=column.name,
        )


def is_several(value: Any) -> bool:
    """Whether someone gives an interval or a set, and not a single value."""
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
    first = -np.inf if is_missing(low) else number_of(column, low)
    last = np.inf if is_missing(high) else number_of(column, high)
    if first >= last:
        raise ValueError(
            f"An interval of column {column.name!r} is (low, high) with low < high, "
            f"but got {bounds!r}."
        )
    return first, last


def number_of(column: Column, value: Any) -> float:
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


def value_text(value: Any) -> str:
    """A value or an interval in words."""
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
