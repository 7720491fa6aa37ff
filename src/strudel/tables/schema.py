"""All columns of a table: their cells, the container they came in, and why values are missing.

In:  tables with these columns, in any order and any container.
Out: the columns of the table as the model has them (`match`); a frame from values (`frame`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from strudel._names import did_you_mean, quote
from strudel._types import NONE, FloatArray, IntArray
from strudel.data.validation import check_shared_names
from strudel.errors import OutOfRangeWarning, UnseenValueWarning, outer_stack_level
from strudel.tables.column import BIT, Column, bit_column, bound_text
from strudel.tables.columns import RawColumn, RawTable, make_frame
from strudel.tables.missingness import Missingness

ENOUGH_FOR_A_RANGE = 20  # rows; the range of fewer says little about others


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a table.

    Parameters
    ----------
    columns : tuple of Column
    container : str
        What kind of frame answers come in: "pandas", "polars", "pyarrow", or "numpy" for an array.
    unknown : {"warn", "missing", "error"}
        What becomes of categories that were not seen at fit: they are missing, with or without a
        warning, or an error.
    left_out : tuple of str
        Columns of the table that the model leaves out: identifiers, and those to ignore. Later
        tables may have them or not; in an array they keep their places.
    missingness : Missingness
        What it depends on whether values of the table are missing.
    """

    columns: tuple[Column, ...]
    container: str = "numpy"
    unknown: str = "warn"
    left_out: tuple[str, ...] = ()
    missingness: Missingness = field(default_factory=Missingness)

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, place: int) -> Column:
        return self.columns[place]

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    @cached_property
    def shown(self) -> Columns:
        """The columns as people see them, and as a search for splits does."""
        shown = tuple(column.shown for column in self.columns)
        is_fine = any(a is not b for a, b in zip(shown, self.columns, strict=True))
        return replace(self, columns=shown) if is_fine else self

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def are_bits(self) -> bool:
        """Whether the table is one of 0 and 1, as the paper has it."""
        return all(column.kind == BIT for column in self.columns)

    @cached_property
    def n_cells(self) -> IntArray:
        """The number of cells of every column."""
        return np.array([column.n_cells for column in self.columns], dtype=np.int32)

    @cached_property
    def equal_weights(self) -> tuple[FloatArray, ...]:
        """For every column a row of weights that says nothing."""
        return tuple(np.ones((1, n_cells)) for n_cells in self.n_cells.tolist())

    @cached_property
    def _place_of(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names)}

    @property
    def places_in_array(self) -> list[int]:
        """The places of the columns in an array, which also has those that are left out."""
        every = range(len(self) + len(self.left_out))
        return [v for v in every if f"x{v}" not in self.left_out]

    def place(self, name: Any, who: str = "") -> int:
        """The place of a column, by its name or number; `who` named it."""
        if isinstance(name, str) and name in self._place_of:
            return self._place_of[name]
        is_number = isinstance(name, int | np.integer) and not isinstance(name, bool)
        if is_number and 0 <= name < len(self):
            return int(name)
        kind = "variable" if self.are_bits else "column"
        start = (
            f"{who} names {name!r}, which is not a {kind}."
            if who
            else (f"There is no {kind} {name!r}.")
        )
        raise ValueError(f"{start} {did_you_mean(name, self.names)}")

    def some(self, places: slice) -> Columns:
        """Some of the columns."""
        return replace(self, columns=self.columns[places])

    def match(
        self, table: RawTable, name: str = "X", *, may_be_few: bool = False
    ) -> list[RawColumn]:
        """The columns of a table in the model's order; those that it lacks are all missing.

        A table with fewer than half of them is refused, unless it `may_be_few` as in evidence.
        """
        if not table.has_names:
            n_columns = len(self) + len(self.left_out)
            if len(table.columns) != n_columns:
                # The words are scikit-learn's, which its estimator checks look for.
                raise ValueError(
                    f"{name} has {len(table.columns)} features, but Strudel is expecting "
                    f"{n_columns} features as input, the columns of the table that the model was "
                    f"learned from: {quote(self.names)}."
                )
            return [table.columns[place] for place in self.places_in_array]
        check_shared_names(
            table.names, self.names, name, may_be_few=may_be_few, left_out=self.left_out
        )
        return list(table.select(self.names).columns)

    def warn(self, raws: Sequence[RawColumn], cells: Sequence[Any]) -> None:
        """Name values that were not seen at fit, and numbers far outside the range seen there."""
        if self.unknown != "warn":
            return
        unseen: list[str] = []
        for column, raw, found in zip(self.columns, raws, cells, strict=True):
            is_unseen = (found == NONE) & ~raw.is_missing()
            if is_unseen.any():
                row = int(np.argmax(is_unseen))
                unseen.append(f"{raw.objects()[row]!r} of column {column.name!r} (row {row})")
        if unseen:
            warnings.warn(
                UnseenValueWarning(
                    f"Values that were not seen at fit are treated as missing: "
                    f"{', '.join(unseen[:5])}{', ...' if len(unseen) > 5 else ''}.",
                    "Correct them if they are misspelt.",
                ),
                stacklevel=outer_stack_level(),
            )
        far = [one for pair in zip(self.columns, raws, strict=True) if (one := _far(*pair))]
        if far:
            texts = [text for *_, text in far]
            name, value, row, _ = far[0]
            warnings.warn(
                OutOfRangeWarning(
                    "Numbers are far outside the range that was seen at fit: "
                    f"{', '.join(texts[:5])}{', ...' if len(texts) > 5 else ''}.",
                    "They count as the largest or smallest. Check their unit.",
                    column=name,
                    value=value,
                    row=row,
                ),
                stacklevel=outer_stack_level(),
            )

    def frame(self, values: Mapping[str, Sequence[Any]]) -> Any:
        """A frame of the kind that the table was, from values of some columns by name."""
        columns = {name: (cells, self[self.place(name)]) for name, cells in values.items()}
        return make_frame(columns, self.container)

    def __repr__(self) -> str:
        return f"Columns({quote(self.names)})"


def bit_columns(names: Sequence[str], container: str = "numpy") -> Columns:
    """The columns of a table of 0 and 1."""
    return Columns(tuple(map(bit_column, names)), container)


def why_not_columns(columns: Columns) -> str | None:
    """Why these are not the columns of one table, or None."""
    names = columns.names + columns.left_out
    if not columns.columns or len(set(names)) < len(names):
        return "there must be at least one column, and no two of one name"
    if columns.unknown not in ("warn", "missing", "error"):
        return "what becomes of unknown values must be one of warn, missing and error"
    if any(column.is_numeric and column.density is None for column in columns):
        return "a column of numbers has no density"
    return None


def _far(column: Column, raw: RawColumn) -> tuple[str, Any, int, str] | None:
    """The first number of a column that is far outside the range at fit, if one is."""
    is_asked = column.is_numeric and raw.values.dtype == np.float64
    if not is_asked or sum(column.counts) < ENOUGH_FOR_A_RANGE:
        return None
    low, high = column.range_at_fit
    width = high - low if high > low else max(abs(high), 1.0)
    with np.errstate(invalid="ignore"):
        is_far = (raw.values < low - width) | (raw.values > high + width)
    is_far &= np.isfinite(raw.values)  # infinity says of itself what it is
    if not is_far.any():
        return None
    row = int(np.argmax(is_far))
    value, *ends = (bound_text(column, end) for end in (raw.values[row], low, high))
    text = f"{column.name!r} is {value} in row {row} ({ends[0]} to {ends[1]})"
    return column.name, raw.objects()[row], row, text
