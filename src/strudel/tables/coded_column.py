"""Coded columns: the 0/1 variables of one column of a table.

In:  the codewords of the groups of cells of a column, and cells.
Out: the bits of every row.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from strudel._types import AnyArray, ByteArray, FloatArray
from strudel.tables.column import (
    Column,
    why_not_a_column,
)


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
