"""Coded columns: the 0/1 variables of one column of a table, and what may be said about its values.

In:  the cells of a column; rows of its variables; a value, an interval or a set, as someone gives
     it.
Out: which value each cell has; which value each row's bits stand for; which of its cells, and what
     share of each, a condition holds for.
"""

from __future__ import annotations

import contextlib
import math
import reprlib
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from strudel._names import did_you_mean, quote
from strudel._types import NONE, AnyArray, ByteArray, FloatArray
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
    density_of_points,
    meet,
)

KINDS = ("boolean", "category", "ordinal", "number", "date")
BIT = "bit"  # the kind of a column that is a 0/1 variable itself, whose mean is a probability
_DTYPES = (*NUMERIC, "text", "categorical", "enum", "object")
_LAST_DATE = 253_402_300_799e6  # the end of the year 9999, in microseconds since 1970
_BLOCK = 2**16  # rows decoded at a time


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table, and the 0/1 code of each of its values."""

    name: str
    kind: str  # one of KINDS, or BIT
    start: int  # its variables are start, ..., stop - 1
    stop: int
    labels: tuple[str, ...]  # (n_values,) what each value or cell is called
    codewords: ByteArray  # (n_values, stop - start) bits; rare categories, side by side, share them
    variable_names: tuple[str, ...]  # (stop - start,) such as "smoker=yes" or "age>=40"
    values: tuple[Any, ...]  # (n_values,) the value that stands for each cell; dates as stamps
    edges: tuple[float, ...] = ()  # number and date: cell j holds edges[j - 1] <= x < edges[j]
    ranges: tuple[tuple[float, float], ...] = ()  # number and date: what was seen in each cell
    counts: tuple[int, ...] = ()  # (n_values,) rows with each value at fit; decides ties
    dtype: str = "object"  # the type of the frame's column, see `RawColumn`
    zone: str | None = None  # the time zone of a datetime column
    density: Density | None = None  # number and date: of the values; None if none is known
    region: Region = ()  # where values, or the places of categories, are known to lie; () anywhere

    def __post_init__(self) -> None:
        codewords = np.array(self.codewords, dtype=np.uint8)
        if codewords.ndim != 2:
            codewords = codewords.reshape(len(self.labels), -1)
        codewords.flags.writeable = False
        object.__setattr__(self, "codewords", codewords)
        if not self.counts:
            object.__setattr__(self, "counts", (0,) * len(self.labels))
        if self.kind in ("number", "date") and not self.ranges:
            seen = tuple((value or 0.0, value or 0.0) for value in self.values)
            object.__setattr__(self, "ranges", seen)
        problem = _why_not_a_column(self)
        if problem is not None:
            raise ValueError(f"This is not a column of a table code: {problem}.")

    @property
    def n_values(self) -> int:
        """Number of values or cells."""
        return len(self.labels)

    @property
    def keys(self) -> tuple[Any, ...]:
        """What stands for each value: itself, or the text of a cell with several numbers."""
        is_plain = self.kind == "number" and self.dtype != "duration"
        if is_plain and has_one_value_per_cell(self.values, self.edges, self.ranges):
            return self.values
        return self.labels if self.kind in ("number", "date") else self.values

    @property
    def is_numeric(self) -> bool:
        """Whether its values are numbers or dates, in cells."""
        return self.kind in ("number", "date")

    @property
    def range_at_fit(self) -> tuple[float, float]:
        """The smallest and the largest number or date that was seen."""
        seen = [ends for ends, n_rows in zip(self.ranges, self.counts, strict=True) if n_rows]
        lows, highs = zip(*(seen or self.ranges), strict=True)
        return min(lows), max(highs)

    @cached_property
    def value_cell(self) -> AnyArray:
        """The cell of each value, `(n_values,)`: values with one codeword are in one cell."""
        is_new = (self.codewords[1:] != self.codewords[:-1]).any(axis=1)
        return np.concatenate([[0], np.cumsum(is_new)])

    @cached_property
    def cell_words(self) -> ByteArray:
        """The codeword of each cell, all distinct."""
        return self.codewords[np.unique(self.value_cell, return_index=True)[1]]

    @property
    def is_shared(self) -> bool:
        """Whether rare categories share a cell."""
        return self.kind == "category" and len(self.cell_words) < self.n_values

    @property
    def has_parts(self) -> bool:
        """Whether a condition may hold for a part of a cell only."""
        return self.is_numeric or self.is_shared

    @cached_property
    def cell_edges(self) -> tuple[float, ...]:
        """Where cells meet: the edges of numbers and dates, else the first place of each cell."""
        if self.is_numeric:
            return self.edges
        first = np.unique(self.value_cell, return_index=True)[1]
        return tuple(first[1:].astype(np.float64).tolist())

    @cached_property
    def value_share(self) -> FloatArray:
        """How probable each value is given its cell, `(n_values,)`."""
        if not self.is_shared:
            return np.ones(self.n_values)
        mass = np.zeros(self.n_values)
        for low, high in meet(self.region or EVERYWHERE, ((0.0, float(self.n_values)),)):
            inside = slice(math.ceil(low), math.ceil(high))
            mass[inside] = np.maximum(self.counts[inside], 0.5)
        total = np.bincount(self.value_cell, mass)[self.value_cell]
        return np.divide(mass, total, out=np.zeros(self.n_values), where=total > 0.0)

    def of_values(self, cell_chance: FloatArray) -> FloatArray:
        """The probability of every value, from those of the cells `(..., n_cells)`."""
        return (
            cell_chance[..., self.value_cell] * self.value_share if self.is_shared else cell_chance
        )

    @cached_property
    def cells(self) -> CellDistribution:
        """How the values of each cell are distributed: numbers and dates, or places of categories.

        Rare categories of one cell are as probable as they were frequent at fit; one that was not
        seen counts half a row.
        """
        if not self.is_numeric:
            place = np.arange(self.n_values, dtype=np.float64)
            mass = np.maximum(np.array(self.counts, dtype=np.float64), 0.5)
            none = Pieces(np.array([0.0, 1.0]), np.zeros(3), (1.0, 1.0))
            density = Density(place, mass / mass.sum(), (none,), (0.0, float(place[-1])))
            return CellDistribution(self.cell_edges, density, self.region)
        density = self.density or density_of_points([low for low, _ in self.ranges])
        return CellDistribution(self.edges, density, self.region)

    @cached_property
    def cell_means(self) -> FloatArray:
        """The mean of the numbers or dates of each cell; without a density its median at fit."""
        if self.density is None:
            return np.array(self.cell_values, dtype=np.float64)
        return np.nan_to_num(self.cells.moments()[0])  # a cell that cannot be has no mean

    @cached_property
    def cell_values(self) -> tuple[Any, ...]:
        """What stands for each cell: its value, or the median of what a region leaves of it."""
        if not self.region or not self.is_numeric:
            return self.values
        is_cut = self.cells.cell_mass < replace(self, region=()).cells.cell_mass
        medians = self.cells.medians(is_cut)
        return tuple(
            value if median != median else self._of_its_type(median)
            for value, median in zip(self.values, medians.tolist(), strict=True)
        )

    def within(self, region: Region) -> Column:
        """The column of those values that lie in a region."""
        return replace(self, region=meet(self.region or EVERYWHERE, region))

    def at(self, number: float) -> Column:
        """The column that holds this number or date only, or the category at this place."""
        if not self.is_numeric:
            return self.within(((number, number + 1.0),))
        none = Pieces(np.array([number, np.nextafter(number, np.inf)]), np.zeros(3), (1.0, 1.0))
        density = Density(np.array([number]), np.ones(1), (none,), (number, number))
        cell = int(np.searchsorted(np.array(self.edges), number, side="right"))
        values = list(self.values)
        values[cell] = self.own_value(number)
        is_own = all(isinstance(value, int) for value in values) or self.dtype != "integer"
        values = values if is_own else [float(value) for value in values]
        dtype = self.dtype if is_own else "float"
        return replace(self, values=tuple(values), density=density, region=(), dtype=dtype)

    def _of_its_type(self, number: float) -> Any:
        """A number as the column holds it: whole ones, and dates, as int."""
        is_whole = self.dtype in ("integer", "boolean", "duration") or self.kind == "date"
        return int(number) if is_whole else number

    def drawn(
        self, bits: FloatArray, rng: np.random.Generator, *, beyond_seen: bool = False
    ) -> list[Any]:
        """A value for every row, drawn within its cell; None where unknown.

        Numbers lie in the range at fit, or `beyond_seen` anywhere in the cell, as the density says.
        """
        places = np.concatenate(
            [self._nearest_known(bits[at : at + _BLOCK]) for at in range(0, len(bits), _BLOCK)]
            or [np.zeros(0, dtype=np.int64)]
        )
        values = (*self.cell_values, None)  # NONE is the last
        if not self.is_shared and self.density is None:
            return [values[place] for place in places.tolist()]
        is_known = places != NONE
        number = rng.random(len(places))
        found = np.full(len(places), np.nan)
        found[is_known] = self.cells.draws(
            self.value_cell[places[is_known]], number[is_known], beyond_seen=beyond_seen
        )
        if self.is_shared:
            drawn = np.where(np.isnan(found), places, found).astype(np.int64)
            return [values[place] for place in drawn.tolist()]
        return [
            values[place] if value != value else self._of_its_type(value)
            for value, place in zip(found.tolist(), places.tolist(), strict=True)
        ]

    @property
    def variables(self) -> range:
        """The numbers of its variables."""
        return range(self.start, self.stop)

    def places(self, raw: RawColumn, unknown: str = "error") -> AnyArray:
        """For each cell the number of its value, NONE where it is missing."""
        if self.kind in ("number", "date"):
            return self._cells_of_numbers(raw)
        place_of = {value: place for place, value in enumerate(self.values)}
        place_of[None] = NONE
        cells = raw.objects()
        for cell in set(cells) - place_of.keys():
            place = self.place_of(cell)  # "1" may have been read as a number
            if place is not None:
                place_of[cell] = place
        found = np.array([place_of.get(cell, NONE - 1) for cell in cells], dtype=np.int64)
        strange = found == NONE - 1
        if strange.any():
            if unknown == "error":
                row = int(np.argmax(strange))
                raise UnseenValueError(
                    f"Column {self.name!r} holds {cells[row]!r} at row {row}, a value that was not "
                    f"seen at fit. {did_you_mean(cells[row], self.labels)}",
                    "Correct it, fit on rows that have it, or treat such values as missing with "
                    "TableEncoder(unknown='missing').",
                    row=row,
                    column=self.name,
                    value=cells[row],
                )
            found[strange] = NONE
        return found

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

    def _cells_of_numbers(self, raw: RawColumn) -> AnyArray:
        expected = "dates" if self.kind == "date" else "numbers"
        expected = "durations" if self.dtype == "duration" else expected
        is_number = raw.dtype in NUMERIC and _family(raw.dtype) == _family(self.dtype)
        missing = raw.is_missing()
        if not is_number and not missing.all():
            row = int(np.argmin(missing))
            row = next(
                (r for r, value in enumerate(raw.values) if isinstance(value, str | bytes)), row
            )
            raise ValueError(
                f"Column {self.name!r} must hold {expected}, as when the encoder was fitted, but "
                f"holds {reprlib.repr(raw.objects()[row])} at row {row}. Turn the column into "
                f"{expected} first, with None or NaN where a value is unknown."
            )
        if missing.all():
            return np.full(len(missing), NONE, dtype=np.int64)
        found = np.searchsorted(np.array(self.edges), raw.values, side="right")
        return np.where(missing, NONE, found)

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

    def literals(self, holds: Iterable[bool]) -> tuple[tuple[int, int], ...] | None:
        """The variables and bits that say that `holds` is true of the value; None if none do.

        A single value is its whole codeword. Several are as few bits as tell them from all other
        values: an interval under a thermometer code, any values under a one-hot code.
        """
        chosen = np.array(list(holds), dtype=bool)
        words = self.codewords[chosen]
        if not len(words):
            return None
        shared = np.flatnonzero((words == words[0]).all(axis=0))
        meets = (self.codewords[:, shared] == words[0, shared]).all(axis=1)
        if not np.array_equal(meets, chosen):
            return None
        bits = shared.tolist()
        for bit in list(bits) if len(words) > 1 else []:
            fewer = [other for other in bits if other != bit]
            if np.array_equal((self.codewords[:, fewer] == words[0, fewer]).all(axis=1), chosen):
                bits = fewer
        return tuple((self.start + bit, int(words[0, bit])) for bit in bits)

    def nearest(self, bits: FloatArray) -> AnyArray:
        """The value whose codeword differs from each row in the fewest known bits.

        Ties go to the cell with most rows at fit, and within it to the value with most of them.
        NONE where bits are unknown and several cells fit equally well.
        """
        known = ~np.isnan(bits)
        ones = np.where(known, bits, 0.0)
        words = self.cell_words.astype(np.float64)
        distance = ones @ (1.0 - words).T + (known - ones) @ words.T
        order = np.argsort(-np.bincount(self.value_cell, self.counts), kind="stable")
        found = order[np.argmin(distance[:, order], axis=1)]
        n_nearest = (distance == distance.min(axis=1, keepdims=True)).sum(axis=1)
        return np.where((n_nearest > 1) & ~known.all(axis=1), NONE, self.commonest[found])

    @cached_property
    def commonest(self) -> AnyArray:
        """The place of the most probable value of each cell."""
        order = np.argsort(-self.value_share, kind="stable")
        return order[np.unique(self.value_cell[order], return_index=True)[1]]

    def decoded(self, bits: FloatArray) -> list[Any]:
        """The value of every row, None where it is unknown; dates as stamps."""
        values = (*self.cell_values, None)  # NONE is the last
        decoded: list[Any] = []
        for at in range(0, len(bits), _BLOCK):
            places = self._nearest_known(bits[at : at + _BLOCK])
            decoded += [values[place] for place in places.tolist()]
        return decoded

    def _nearest_known(self, bits: FloatArray) -> AnyArray:
        """The number of the nearest value of each row, NONE where nothing is known."""
        _, first, again = np.unique(_keys(bits), return_index=True, return_inverse=True)
        few = bits[first]  # most rows share their bits with many others
        return np.where(np.isnan(few).all(axis=1), NONE, self.nearest(few))[again]


def _family(dtype: str) -> str:
    """What numbers of a type are about."""
    return {"date": "date", "datetime": "date", "duration": "duration"}.get(dtype, "number")


def _keys(bits: FloatArray) -> AnyArray:
    """A number for each row, the same for rows with the same bits."""
    if bits.shape[1] > 33:  # more digits than a float holds
        return np.arange(len(bits))
    return np.where(np.isnan(bits), 2.0, bits) @ 3.0 ** np.arange(bits.shape[1])


def label_texts(value: Any) -> list[str]:
    """What a value may be called: a number that is whole, also without its point."""
    is_whole = isinstance(value, float) and value.is_integer()
    return [str(value), str(int(value))] if is_whole else [str(value)]


def has_one_value_per_cell(
    values: Sequence[Any], edges: Sequence[float], ranges: Sequence[Sequence[float]]
) -> bool:
    """Whether every cell starts at the only value that was seen in it."""
    return list(edges) == list(values[1:]) and all(low == high for low, high in ranges)


def column_to_dict(column: Column) -> dict[str, Any]:
    """A column as what JSON holds."""
    content = {field.name: getattr(column, field.name) for field in fields(column)}
    for name in ("labels", "variable_names", "values", "edges", "counts"):
        content[name] = list(content[name])
    content["ranges"] = [list(seen) for seen in column.ranges]
    content["codewords"] = ["".join(map(str, word)) for word in column.codewords.tolist()]
    content["density"] = None if column.density is None else column.density.to_dict()
    content["region"] = [[_finite(end) for end in ends] for ends in column.region]
    return content


def _finite(end: float) -> float | None:
    return float(end) if np.isfinite(end) else None


def column_from_dict(content: Mapping[str, Any]) -> Column:
    """The column that `column_to_dict` gave; a `ValueError` if it is not one."""
    known = {field.name for field in fields(Column)}
    if set(content) != known:
        raise ValueError(
            f"A column has the fields {quote(sorted(known))}, not {quote(sorted(content))}."
        )
    read = dict(content)
    for name in ("labels", "variable_names", "values", "edges", "counts"):
        if not isinstance(content[name], list):
            raise ValueError(f"{name!r} of a column must be a list.")
        read[name] = tuple(content[name])
    read["ranges"] = tuple(tuple(seen) for seen in content["ranges"])
    if content["density"] is not None:
        read["density"] = Density.from_dict(content["density"])
    read["region"] = tuple(
        (-np.inf if low is None else float(low), np.inf if high is None else float(high))
        for low, high in content["region"]
    )
    is_ordered = all(before <= low for (_, before), (low, _) in pairwise(read["region"]))
    if not is_ordered or not all(low < high for low, high in read["region"]):  # also if one is NaN
        raise ValueError("The intervals of a region must be apart and in order.")
    words = content["codewords"]
    if not all(isinstance(word, str) and set(word) <= {"0", "1"} for word in words):
        raise ValueError("Codewords must be strings of 0 and 1.")
    if len({len(word) for word in words}) != 1:
        raise ValueError("Codewords must be of equal length.")
    read["codewords"] = np.array([[int(bit) for bit in word] for word in words], dtype=np.uint8)
    return Column(**read)


def _why_not_a_column(column: Column) -> str | None:
    """Why the parts do not fit together, or None."""
    n_values, width = len(column.labels), column.stop - column.start
    kinds = (*KINDS, BIT)
    if not isinstance(column.name, str) or column.kind not in kinds or column.dtype not in _DTYPES:
        return f"it must have a name, a kind of {quote(kinds)} and a known dtype"
    if not isinstance(column.start, int) or not isinstance(column.stop, int) or width < 1:
        return "it must have at least one variable"
    if n_values < 1 or column.codewords.shape != (n_values, width):
        return f"its codewords must have shape ({n_values}, {width})"
    packed = np.packbits(column.codewords, axis=1)  # there may be thousands
    n_cells = n_values if column.kind != "category" else int(column.value_cell[-1]) + 1
    if np.any(column.codewords > 1) or len({word.tobytes() for word in packed}) != n_cells:
        return "the codewords must hold only 0 and 1 and be distinct, but for categories in a row"
    if 1 < n_cells < n_values:
        codes = np.eye(n_cells, dtype=np.uint8), np.tri(n_cells, n_cells - 1, -1, dtype=np.uint8)
        if not any(np.array_equal(column.cell_words, words) for words in codes):
            return "the cells of categories that share one must be one-hot or thermometer coded"
    if len(column.variable_names) != width or not (
        len(column.values) == len(column.counts) == n_values
    ):
        return "there must be a name for every variable, and a value and a count for every label"
    texts = (*column.labels, *column.variable_names, column.zone or "UTC")
    if not all(isinstance(text, str) for text in texts) or len(set(column.labels)) != n_values:
        return "labels, names and time zone must be text, and the labels distinct"
    if not all(isinstance(count, int) and 0 <= count < 2**53 for count in column.counts):
        return "counts must be whole numbers, zero or more"
    if not all(value is None or isinstance(value, str | int | float) for value in column.values):
        return "values must be text, numbers, booleans or None"
    if (column.dtype in ("date", "datetime")) > (column.kind == "date"):
        return "only a column of kind 'date' holds dates"
    types: dict[str, Any] = {"integer": int, "boolean": bool, "float": float, "text": str}
    known = [value for value in column.values if value is not None]
    if not all(isinstance(value, types.get(column.dtype, object)) for value in known):
        return f"its values are not of type {column.dtype}"
    if column.kind not in ("number", "date"):
        return None
    if column.kind == "date" and any(abs(value) > _LAST_DATE for value in (*known, *column.edges)):
        return "its dates are beyond the year 9999"
    edges = column.edges
    if not all(isinstance(edge, float | int) and abs(edge) <= LARGEST for edge in edges):
        return f"edges must be numbers up to {LARGEST:g}"
    if len(edges) != n_values - 1 or any(a >= b for a, b in pairwise(edges)):
        return "there must be one edge fewer than cells, each larger than the one before"
    if len(column.ranges) != n_values or not all(
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


# Conditions


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
