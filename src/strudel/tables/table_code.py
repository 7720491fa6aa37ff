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

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from strudel._names import did_you_mean, quote
from strudel._types import NONE, AnyArray, FloatArray
from strudel.data.validation import check_shared_names
from strudel.errors import OutOfRangeWarning, UnseenValueWarning, outer_stack_level
from strudel.tables.coded_column import CodedColumn as CodedColumn
from strudel.tables.column import BIT, Column, bound_text
from strudel.tables.columns import RawColumn, RawTable, read_columns
from strudel.tables.missingness import Missingness
from strudel.tables.schema import Columns

ENOUGH_FOR_A_RANGE = 20  # rows; the range of fewer says little about others
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

    @property
    def places_in(self) -> list[int]:
        """The place of every column in an array, in which columns that were left out stay."""
        return [v for v in range(self.n_columns_in) if f"x{v}" not in self.left_out]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def variable_names(self) -> tuple[str, ...]:
        """The names of the variables."""
        return tuple(name for column in self.columns for name in column.variable_names)

    @cached_property
    def _place_of(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names)}

    def column(self, name: str) -> CodedColumn:
        """The column with this name."""
        if name not in self._place_of:
            raise ValueError(f"There is no column {name!r}. {did_you_mean(name, self.names)}")
        return self.columns[self._place_of[name]]

    def encode(self, X: Any, name: str = "X") -> FloatArray:
        """Rows of 0 and 1, NaN where a value is missing.

        A frame's columns are found by name, in any order; those of an array by place. Numbers and
        dates outside the range seen at fit belong to the first or last cell.
        """
        return self.encode_columns(self.match(read_columns(X, name), name), name)

    def match(
        self, table: RawTable, name: str = "X", *, may_be_few: bool = False
    ) -> list[RawColumn]:
        """The columns of a table in the order of the code; those that it lacks are all missing.

        A table with fewer than half of them is refused, unless it `may_be_few` as in evidence.
        """
        if not table.has_names:
            if len(table.columns) != self.n_columns_in:
                # The words are scikit-learn's, which its estimator checks look for.
                raise ValueError(
                    f"{name} has {len(table.columns)} features, but TableEncoder is expecting "
                    f"{self.n_columns_in} features as input: {quote(self.names)}."
                )
            return [table.columns[place] for place in self.places_in]
        check_shared_names(
            table.names, self.names, name, may_be_few=may_be_few, left_out=self.left_out
        )
        return list(table.select(self.names).columns)

    def encode_columns(self, columns: Sequence[RawColumn | None], name: str = "X") -> FloatArray:
        """`encode`, from one `RawColumn` per column, None where all of it is missing."""
        n_rows = next((len(raw.values) for raw in columns if raw is not None), 1)
        rows = np.full((n_rows, self.n_vars), np.nan)
        unseen: list[str] = []
        for column, raw in zip(self.columns, columns, strict=True):
            if raw is None:
                continue
            places = column.cells_of(raw, self.unknown)
            rows[:, column.start : column.stop] = column.bits_of(places)
            is_unseen = (places == NONE) & ~raw.is_missing()
            if is_unseen.any() and self.unknown == "warn":
                row = int(np.argmax(is_unseen))
                unseen.append(f"{raw.objects()[row]!r} of column {column.name!r} (row {row})")
        if unseen:
            warnings.warn(
                UnseenValueWarning(
                    f"Values that were not seen at fit are treated as missing: "
                    f"{', '.join(unseen[:5])}{', ...' if len(unseen) > 5 else ''}.",
                    "Correct them if they are misspelt; TableEncoder(unknown='missing') accepts "
                    "them silently, unknown='error' refuses them.",
                ),
                stacklevel=outer_stack_level(),
            )
        if self.unknown == "warn":
            self._warn_of_numbers_far_outside(columns)
        return rows

    def bits_of(self, cells: AnyArray) -> FloatArray:
        """Rows of 0 and 1 from cells of the columns, NaN where one is NONE."""
        rows = np.full((len(cells), self.n_vars), np.nan)
        for column, own in zip(self.columns, cells.T, strict=True):
            rows[:, column.start : column.stop] = column.bits_of(own)
        return rows

    def _warn_of_numbers_far_outside(self, columns: Sequence[RawColumn | None]) -> None:
        """Name the first number of each column that is far outside the range at fit."""
        found: list[tuple[str, Any, int]] = []
        texts: list[str] = []
        for column, raw in zip(self.columns, columns, strict=True):
            if raw is None or not column.is_numeric or raw.values.dtype != np.float64:
                continue
            if sum(column.counts) < ENOUGH_FOR_A_RANGE:
                continue
            low, high = column.range_at_fit
            width = high - low if high > low else max(abs(high), 1.0)
            with np.errstate(invalid="ignore"):
                is_far = (raw.values < low - width) | (raw.values > high + width)
            is_far &= np.isfinite(raw.values)  # infinity says of itself what it is
            if is_far.any():
                row = int(np.argmax(is_far))
                value, *ends = (bound_text(column, end) for end in (raw.values[row], low, high))
                found.append((column.name, raw.objects()[row], row))
                texts.append(f"{column.name!r} is {value} in row {row} ({ends[0]} to {ends[1]})")
        if found:
            column_name, value, row = found[0]
            warnings.warn(
                OutOfRangeWarning(
                    "Numbers are far outside the range that was seen at fit: "
                    f"{', '.join(texts[:5])}{', ...' if len(texts) > 5 else ''}.",
                    "They count as the largest or smallest. Check their unit.",
                    column=column_name,
                    value=value,
                    row=row,
                ),
                stacklevel=outer_stack_level(),
            )

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


class CodedNames(tuple[str, ...]):
    """The names of 0/1 variables that also know which columns of a table they come from.

    A model has one name per variable, and hands them on to all models made of it; so the code goes
    where the names go.
    """

    code: TableCode

    def __new__(  # noqa: D102
        cls, code: TableCode, names: Sequence[str] | None = None
    ) -> CodedNames:
        names = code.variable_names if names is None else names
        if len(names) != code.n_vars:
            raise ValueError(
                f"A code of {code.n_vars} variables needs that many names, but has {len(names)}."
            )
        made = super().__new__(cls, names)
        made.code = code
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return CodedNames, (self.code, tuple(self))


def code_of(names: Sequence[str] | None) -> TableCode | None:
    """The code that names know, if they do."""
    return names.code if isinstance(names, CodedNames) else None


def columns_of_code(code: TableCode) -> Columns:
    """The columns of a table, without the bits that stand for them."""
    columns = tuple(map(column_of_coded, code.columns))
    return Columns(columns, code.container, code.unknown, code.left_out, code.missingness)


def column_of_coded(own: CodedColumn) -> Column:
    """A column without its bits, every value of which is a cell."""
    return Column(
        own.name,
        own.kind,
        own.labels,
        own.values,
        own.edges,
        own.ranges,
        own.counts,
        own.dtype,
        own.zone,
        own.density,
        own.region,
        own.groups,
    )
