"""Table codes: how the columns of a table become 0/1 variables; rows of a model.

In:  a table with numbers, text, dates and missing values; for a model, a frame with some of the
     columns, dicts, lists of values, and the names of its variables, which know the code.
Out: float64 rows of 0 and 1, with NaN where a value is missing (`encode`, `coded_evidence`), or
     None if they already are rows of the 0/1 variables.

Every column owns a range of variables, and every value of it (a category, or a cell of numbers) has
a codeword: one variable per category (one-hot), or one variable ``value >= edge`` per edge
(thermometer). Other bits in that range are impossible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from strudel._names import quote
from strudel._types import AnyArray, FloatArray
from strudel.tables.coded_column import CodedColumn as CodedColumn
from strudel.tables.column import BIT, Column
from strudel.tables.columns import RawColumn, read_columns
from strudel.tables.missingness import Missingness
from strudel.tables.schema import Columns

UNKNOWN = ("warn", "missing", "error")  # what to do with categories that have no code


@dataclass(frozen=True, eq=False)
class TableCode:
    """How the columns of a table become 0/1 variables.

    Parameters
    ----------
    columns : tuple of CodedColumn
        In the order of their variables, without gaps.
    container : str
        What it was learned from: a frame of "pandas", "polars", "pyarrow", or "numpy" for an array.
    unknown : {"warn", "missing", "error"}
        What `encode` does with categories that have no code: they are missing, with or without a
        warning, or an error.
    left_out : tuple of str
        Columns of the table that have no variables: identifiers, and those to ignore. Later tables
        may have them or not; in an array they keep their places.
    missingness : Missingness
        What it depends on whether values of the table are missing.

    Examples
    --------
    >>> from strudel.tables import TableEncoder
    >>> code = TableEncoder().fit([["red", 1], ["green", 2], ["blue", 3]]).code_
    >>> code.variable_names
    ('x0=blue', 'x0=green', 'x0=red', 'x1>=2', 'x1>=3')
    >>> code.encode([["red", 2], [None, 3]])
    array([[ 0.,  0.,  1.,  1.,  0.],
           [nan, nan, nan,  1.,  1.]])
    """

    columns: tuple[CodedColumn, ...]
    container: str = "numpy"
    unknown: str = "warn"
    left_out: tuple[str, ...] = ()
    missingness: Missingness = field(default_factory=Missingness)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "left_out", tuple(self.left_out))
        problem = _why_not_a_code(self)
        if problem is not None:
            raise ValueError(f"This is not a table code: {problem}.")

    @property
    def n_vars(self) -> int:
        """Number of 0/1 variables."""
        return self.columns[-1].stop

    @property
    def n_columns_in(self) -> int:
        """Number of columns of the table, with those that were left out."""
        return len(self.columns) + len(self.left_out)

    @cached_property
    def as_columns(self) -> Columns:
        """The columns without the bits that stand for them."""
        columns = tuple(map(column_of_coded, self.columns))
        return Columns(columns, self.container, self.unknown, self.left_out, self.missingness)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def variable_names(self) -> tuple[str, ...]:
        """The names of the variables."""
        return tuple(name for column in self.columns for name in column.variable_names)

    def column(self, name: str) -> CodedColumn:
        """The column with this name."""
        return self.columns[self.as_columns.place(name)]

    def encode(self, X: Any, name: str = "X") -> FloatArray:
        """Rows of 0 and 1, NaN where a value is missing.

        A frame's columns are found by name, in any order; those of an array by place. Numbers and
        dates outside the range seen at fit belong to the first or last cell.
        """
        return self.encode_columns(self.as_columns.match(read_columns(X, name), name))

    def encode_columns(self, raws: Sequence[RawColumn]) -> FloatArray:
        """`encode`, from the columns in the order of the code."""
        pairs = zip(self.columns, raws, strict=True)
        cells = [column.cells_of(raw, self.unknown) for column, raw in pairs]
        self.as_columns.warn(raws, cells)
        return self.bits_of(np.column_stack(cells))

    def bits_of(self, cells: AnyArray) -> FloatArray:
        """Rows of 0 and 1 from cells of the columns, NaN where one is NONE."""
        rows = np.full((len(cells), self.n_vars), np.nan)
        for column, own in zip(self.columns, cells.T, strict=True):
            rows[:, column.start : column.stop] = column.bits_of(own)
        return rows

    def __repr__(self) -> str:
        return f"TableCode(n_columns={len(self.columns)}, n_vars={self.n_vars})"


def code_of_bits(names: Sequence[str], container: str) -> TableCode:
    """The code of a table of 0 and 1, whose columns are the variables."""
    columns = tuple(bit_column(name, var) for var, name in enumerate(names))
    return TableCode(columns, container, "error")


def bit_column(name: str, var: int) -> CodedColumn:
    """The column that is a 0/1 variable itself."""
    words = np.array([[0], [1]], dtype=np.uint8)
    return CodedColumn(
        name,
        BIT,
        ("0", "1"),
        (0, 1),
        dtype="integer",
        start=var,
        stop=var + 1,
        codewords=words,
        variable_names=(name,),
    )


def _why_not_a_code(code: TableCode) -> str | None:
    if not code.columns or not all(isinstance(column, CodedColumn) for column in code.columns):
        return "it must have at least one column"
    if not isinstance(code.container, str) or code.unknown not in UNKNOWN:
        return f"its container must be a text, and unknown must be one of {quote(UNKNOWN)}"
    if not all(isinstance(name, str) for name in code.left_out):
        return "the names of columns that are left out must be text"
    end = 0
    for column in code.columns:
        if column.start != end:
            return (
                f"column {column.name!r} must start at variable {end}, but starts at {column.start}"
            )
        end = column.stop
    for what, names in (
        ("columns", code.names + code.left_out),
        ("variables", code.variable_names),
    ):
        if len(set(names)) != len(names):
            return f"two {what} have the same name"
    return None


# Rows of a model


def column_of_coded(own: CodedColumn) -> Column:
    """A column without its bits, every value of which is a cell."""
    return Column(**{field.name: getattr(own, field.name) for field in fields(Column)})
