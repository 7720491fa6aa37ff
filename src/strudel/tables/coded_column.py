"""Coded columns: the 0/1 variables of one column of a table.

In:  the codewords of the groups of cells of a column; rows of its variables.
Out: which value each row's bits stand for.
"""

from __future__ import annotations

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
    Density,
)

_BLOCK = 2**16  # rows decoded at a time


@dataclass(frozen=True, eq=False)
class CodedColumn(Column):
    """One column of a table, and the 0/1 code of each group of its cells."""

    start: int = field(kw_only=True)  # its variables are start, ..., stop - 1
    stop: int = field(kw_only=True)
    codewords: ByteArray = field(kw_only=True)  # (n_groups, stop - start) bits
    variable_names: tuple[str, ...] = field(kw_only=True)  # such as "smoker=yes" or "age>=40"

    def __post_init__(self) -> None:
        codewords = np.array(self.codewords, dtype=np.uint8)
        if codewords.ndim != 2:
            codewords = codewords.reshape(self.n_groups, -1)
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
    def variables(self) -> range:
        """The numbers of its variables."""
        return range(self.start, self.stop)

    def bits_of(self, cells: AnyArray) -> FloatArray:
        """The codewords of cells, NaN where one is NONE."""
        unknown = np.full((1, self.stop - self.start), np.nan)
        return np.asarray(np.vstack([self.codewords[self.group_of_cell], unknown])[cells])

    def nearest(self, bits: FloatArray) -> AnyArray:
        """The group whose codeword differs from each row in the fewest known bits.

        Ties go to the group with most rows at fit. NONE where bits are unknown and several groups
        fit equally well.
        """
        known = ~np.isnan(bits)
        ones = np.where(known, bits, 0.0)
        words = self.codewords.astype(np.float64)
        distance = ones @ (1.0 - words).T + (known - ones) @ words.T
        order = np.argsort(-np.bincount(self.group_of_cell, self.counts), kind="stable")
        found = order[np.argmin(distance[:, order], axis=1)]
        n_nearest = (distance == distance.min(axis=1, keepdims=True)).sum(axis=1)
        return np.where((n_nearest > 1) & ~known.all(axis=1), NONE, found)

    @cached_property
    def group_values(self) -> tuple[Any, ...]:
        """What stands for each group: the median of numbers and dates, the commonest category."""
        if self.is_numeric:
            return self.shown.values
        order = np.argsort(-self.share_of_group, kind="stable")
        commonest = order[np.unique(self.group_of_cell[order], return_index=True)[1]]
        return tuple(self.values[cell] for cell in commonest.tolist())

    def decoded_bits(self, bits: FloatArray) -> list[Any]:
        """The value of every row, None where it is unknown; dates as stamps."""
        values = (*self.group_values, None)  # NONE is the last
        return [values[group] for group in self._nearest_known(bits).tolist()]

    def _nearest_known(self, bits: FloatArray) -> AnyArray:
        """The nearest group of each row, NONE where nothing is known."""
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
    for name in ("labels", "variable_names", "values", "edges", "counts", "groups"):
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
    for name in ("labels", "variable_names", "values", "edges", "counts", "groups"):
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
    width = column.stop - column.start
    reason = why_not_a_column(column)
    if reason is not None:
        return reason
    if not isinstance(column.start, int) or not isinstance(column.stop, int) or width < 1:
        return "it must have at least one variable"
    if column.codewords.shape != (column.n_groups, width):
        return f"its codewords must have shape ({column.n_groups}, {width})"
    words = column.codewords
    if np.any(words > 1) or len({word.tobytes() for word in words}) < len(words):
        return "the codewords must hold only 0 and 1 and be distinct"
    names = column.variable_names
    if len(names) != width or not all(isinstance(name, str) for name in names):
        return "there must be a name for every variable"
    return None
