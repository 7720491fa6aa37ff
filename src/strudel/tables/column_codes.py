"""Columns of a table as groups of 0/1 variables, and which codes are possible.

In:  for each column its first variable and the 0/1 code of every value.
Out: `ColumnCode`; for rows, the number of every column's value.

A column with three values, one-hot coded, has three variables but only three of the eight codes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from strudel._types import NONE, AnyArray, ByteArray, FloatArray, IntArray
from strudel.data.bits import BitMatrix

ROWS = 2**16  # that are compared with all codes of a column at once


@dataclass(frozen=True, eq=False)
class ColumnCode:
    """The 0/1 variables of one column, next to one another, and the codes they can hold.

    Parameters
    ----------
    start : int
        The first variable.
    codewords : array-like of shape (n_values, n_variables)
        The 0/1 code of every value, all different; other codes are impossible.

    Examples
    --------
    >>> colour = ColumnCode(2, [[1, 0, 0], [0, 1, 0], [0, 0, 1]])  # variables 2, 3 and 4
    >>> colour.n_values, colour.stop
    (3, 5)
    """

    start: int
    codewords: ByteArray

    def __post_init__(self) -> None:
        codewords = np.asarray(self.codewords)
        words = f"The codewords of the column that starts at variable {self.start} must"
        if codewords.ndim != 2 or len(codewords) == 0:
            raise ValueError(f"{words} be a table with a row for every value, at least one.")
        if not np.isin(codewords, (0, 1)).all():
            raise ValueError(f"{words} hold only 0 and 1.")
        if codewords.shape[1] and len(np.unique(codewords, axis=0)) != len(codewords):
            raise ValueError(f"{words} differ from one another, but two of them are equal.")
        object.__setattr__(self, "start", int(self.start))
        object.__setattr__(self, "codewords", codewords.astype(np.uint8))

    @property
    def stop(self) -> int:
        """One more than the last variable."""
        return self.start + self.codewords.shape[1]

    @property
    def n_values(self) -> int:
        """How many codes are possible."""
        return len(self.codewords)

    @property
    def is_ordered(self) -> bool:
        """Whether bit j says that the value is j + 1 or more."""
        n_values, n_bits = self.codewords.shape
        is_thermometer = n_values == n_bits + 1
        return is_thermometer and np.array_equal(self.codewords, np.tri(n_values, n_bits, -1))

    @property
    def is_bit(self) -> bool:
        """Whether it is a single variable that may be 0 or 1."""
        return self.codewords.shape == (2, 1)


def as_column_codes(columns: Iterable[Any]) -> tuple[ColumnCode, ...]:
    """Columns, or pairs of a first variable and codewords, as `ColumnCode`s."""
    return tuple(
        ColumnCode(column.start, column.codewords)
        if hasattr(column, "codewords")
        else ColumnCode(*column)
        for column in columns
    )


def complete_columns(columns: Iterable[ColumnCode], n_vars: int) -> tuple[ColumnCode, ...]:
    """The columns by their first variable, and one for each variable that none of them holds.

    Columns without variables are left out.
    """
    given = sorted((one for one in columns if one.stop > one.start), key=lambda one: one.start)
    complete: list[ColumnCode] = []
    at = 0
    for column in given:
        if column.start < at or column.stop > n_vars:
            raise ValueError(
                f"Columns must lie side by side within the {n_vars} variables, but one holds "
                f"variables {column.start} to {column.stop - 1}."
            )
        complete += [free_bit(var) for var in range(at, column.start)]
        complete.append(column)
        at = column.stop
    return (*complete, *(free_bit(var) for var in range(at, n_vars)))


def free_bit(var: int) -> ColumnCode:
    """A single variable that may be 0 or 1."""
    return ColumnCode(var, np.array([[0], [1]], dtype=np.uint8))


def column_values(
    X: BitMatrix | FloatArray, columns: Sequence[ColumnCode], name: str = "training"
) -> IntArray:
    """For every column and row the number of its value, int32 `(n_columns, n_rows)`.

    Rows may hold NaN; a column of which not all bits are known has no value there, NONE.
    """
    table = X.unpack() if isinstance(X, BitMatrix) else X
    values = np.empty((len(columns), len(table)), dtype=np.int32)
    for c, column in enumerate(columns):
        codes = column.codewords.astype(np.float32)
        # How many ones a row shares with a code, less those it has besides: the code's own number
        # of ones where they are equal, and smaller everywhere else.
        likeness, n_ones = (2.0 * codes - 1.0).T, codes.sum(axis=1)
        for first in range(0, len(table), ROWS):
            rows = slice(first, first + ROWS)
            part: AnyArray = table[rows, column.start : column.stop]
            is_equal = part.astype(np.float32) @ likeness == n_ones
            found, is_known = is_equal.any(axis=1), ~np.isnan(part).any(axis=1)
            if not found[is_known].all():
                row = int(np.argmax(is_known & ~found))
                raise ValueError(
                    f"Row {first + row} of the {name} rows holds {part[row].tolist()} at variables "
                    f"{column.start} to {column.stop - 1}, which codes no value. Codes "
                    "come from the encoder."
                )
            values[c, rows] = np.where(found, is_equal.argmax(axis=1), NONE)
    return values
