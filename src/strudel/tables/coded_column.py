"""Coded columns: the 0/1 variables of one column of a table, and what may be said about its values.

In:  the cells of a column; rows of its variables; a value, an interval or a set, as someone gives
     it.
Out: which value each cell has; which value each row's bits stand for; which of its cells, and what
     share of each, a condition holds for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from strudel._names import quote
from strudel._types import NONE, AnyArray, ByteArray, FloatArray
from strudel.tables.column import (
    Column,
    why_not_a_column,
)
from strudel.tables.density import (
    EVERYWHERE,
    CellDistribution,
    Density,
    Pieces,
    density_of_points,
    meet,
)

_BLOCK = 2**16  # rows decoded at a time


@dataclass(frozen=True, eq=False)
class CodedColumn(Column):
    """One column of a table, and the 0/1 code of each of its values."""

    start: int = field(kw_only=True)  # its variables are start, ..., stop - 1
    stop: int = field(kw_only=True)
    codewords: ByteArray = field(kw_only=True)  # (n_values, stop - start) bits, of rare categories
    # side by side the same
    variable_names: tuple[str, ...] = field(kw_only=True)  # such as "smoker=yes" or "age>=40"

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

    @property
    def variables(self) -> range:
        """The numbers of its variables."""
        return range(self.start, self.stop)

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

    def decoded_bits(self, bits: FloatArray) -> list[Any]:
        """The value of every row, None where it is unknown; dates as stamps."""
        return self.decoded(self._nearest_known(bits))

    def _nearest_known(self, bits: FloatArray) -> AnyArray:
        """The number of the nearest value of each row, NONE where nothing is known."""
        found = [self._nearest_few(bits[at : at + _BLOCK]) for at in range(0, len(bits), _BLOCK)]
        return np.concatenate([np.zeros(0, dtype=np.int64), *found])

    def _nearest_few(self, bits: FloatArray) -> AnyArray:
        _, first, again = np.unique(_keys(bits), return_index=True, return_inverse=True)
        few = bits[first]  # most rows share their bits with many others
        return np.where(np.isnan(few).all(axis=1), NONE, self.nearest(few))[again]


def _keys(bits: FloatArray) -> AnyArray:
    """A number for each row, the same for rows with the same bits."""
    if bits.shape[1] > 33:  # more digits than a float holds
        return np.arange(len(bits))
    return np.where(np.isnan(bits), 2.0, bits) @ 3.0 ** np.arange(bits.shape[1])


def column_to_dict(column: CodedColumn) -> dict[str, Any]:
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


def column_from_dict(content: Mapping[str, Any]) -> CodedColumn:
    """The column that `column_to_dict` gave; a `ValueError` if it is not one."""
    known = {field.name for field in fields(CodedColumn)}
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
    words = content["codewords"]
    if not all(isinstance(word, str) and set(word) <= {"0", "1"} for word in words):
        raise ValueError("Codewords must be strings of 0 and 1.")
    if len({len(word) for word in words}) != 1:
        raise ValueError("Codewords must be of equal length.")
    read["codewords"] = np.array([[int(bit) for bit in word] for word in words], dtype=np.uint8)
    return CodedColumn(**read)


def _why_not_a_column(column: CodedColumn) -> str | None:
    """Why the parts do not fit together, or None."""
    n_values, width = len(column.labels), column.stop - column.start
    reason = why_not_a_column(column)
    if reason is not None:
        return reason
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
    names = column.variable_names
    if len(names) != width or not all(isinstance(name, str) for name in names):
        return "there must be a name for every variable"
    return None
