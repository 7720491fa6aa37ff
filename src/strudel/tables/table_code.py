"""Table codes: how the columns of a table become 0/1 variables, and back.

In:  a table with numbers, text, dates and missing values.
Out: float64 rows of 0 and 1, with NaN where a value is missing (`encode`); a frame (`decode`).

Every column owns a range of variables, and every value of it (a category, or a cell of numbers) has
a codeword: one variable per category (one-hot), or one variable ``value >= edge`` per edge
(thermometer). Other bits in that range are impossible.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from strudel._names import check_same_names, did_you_mean, quote
from strudel._types import NONE, FloatArray
from strudel.errors import UnseenValueWarning, outer_stack_level
from strudel.tables.coded_column import BIT, column_from_dict, column_to_dict
from strudel.tables.coded_column import Column as Column
from strudel.tables.columns import RawColumn, RawTable, make_frame, read_columns

UNKNOWN = ("warn", "missing", "error")  # what to do with categories that have no code


@dataclass(frozen=True, eq=False)
class TableCode:
    """How the columns of a table become 0/1 variables.

    Parameters
    ----------
    columns : tuple of Column
        In the order of their variables, without gaps.
    container : str
        What kind of frame `decode` gives: "pandas", "polars", "pyarrow", or "numpy" for an array.
    unknown : {"warn", "missing", "error"}
        What `encode` does with categories that have no code: they are missing, with or without a
        warning, or an error.

    Examples
    --------
    >>> from strudel.tables import TableEncoder
    >>> code = TableEncoder().fit([["red", 1], ["green", 2], ["blue", 3]]).code_
    >>> code.variable_names
    ('x0=blue', 'x0=green', 'x0=red', 'x1>=2', 'x1>=3')
    >>> code.encode([["red", 2], [None, 3]])
    array([[ 0.,  0.,  1.,  1.,  0.],
           [nan, nan, nan,  1.,  1.]])
    >>> code.decode([[0, 0, 1, 1, 0]])
    array([['red', 2]], dtype=object)
    """

    columns: tuple[Column, ...]
    container: str = "numpy"
    unknown: str = "warn"

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        problem = _why_not_a_code(self)
        if problem is not None:
            raise ValueError(f"This is not a table code: {problem}.")

    @property
    def n_vars(self) -> int:
        """Number of 0/1 variables."""
        return self.columns[-1].stop

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

    def column(self, name: str) -> Column:
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

    def match(self, table: RawTable, name: str = "X") -> list[RawColumn]:
        """The columns of a table in the order of the code."""
        if not table.has_names:
            if len(table.columns) != len(self.columns):
                # The words are scikit-learn's, which its estimator checks look for.
                raise ValueError(
                    f"{name} has {len(table.columns)} features, but TableEncoder is expecting "
                    f"{len(self.columns)} features as input: {quote(self.names)}."
                )
            return list(table.columns)
        found = {column.name: column for column in table.columns}
        check_same_names(
            found,
            self.names,
            f"{name} must have the {len(self.names)} columns that the encoder was fitted on",
            "Rename columns, drop them, or add them with None in every row where nothing is known.",
        )
        return [found[column] for column in self.names]

    def encode_columns(self, columns: Sequence[RawColumn | None], name: str = "X") -> FloatArray:
        """`encode`, from one `RawColumn` per column, None where all of it is missing."""
        n_rows = next((len(raw.values) for raw in columns if raw is not None), 1)
        rows = np.full((n_rows, self.n_vars), np.nan)
        unseen: list[str] = []
        for column, raw in zip(self.columns, columns, strict=True):
            if raw is None:
                continue
            places = column.places(raw, self.unknown)
            words = np.vstack([column.codewords, np.full((1, column.stop - column.start), np.nan)])
            rows[:, column.start : column.stop] = words[places]  # NONE is the last
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
        return rows

    def decode(
        self,
        rows: Any,
        known: Mapping[str, Sequence[Any]] | None = None,
        rng: np.random.Generator | None = None,
    ) -> Any:
        """A frame of the kind that was encoded, from rows of 0, 1 and NaN.

        A number or date is given by the median of its cell at fit, or with a generator of random
        numbers by a draw from its density within the cell. A column whose bits do not say
        which value it has stays missing. Bits that are not a codeword stand for the value whose
        codeword is nearest: the one that differs in the fewest bits or, if several do, the one with
        most rows at fit.

        `known` gives values of some columns that stay as they are, and None where a value is to be
        decoded.
        """
        table = np.asarray(rows, dtype=np.float64)
        if table.ndim != 2 or table.shape[1] != self.n_vars:
            raise ValueError(
                f"Rows to decode must have {self.n_vars} columns of 0, 1 or NaN, "
                f"but have shape {table.shape}."
            )
        decoded: dict[str, tuple[list[Any], Column]] = {}
        for column in self.columns:
            bits = table[:, column.start : column.stop]
            values = column.decoded(bits) if rng is None else column.drawn(bits, rng)
            for row, value in enumerate((known or {}).get(column.name, ())):
                values[row] = values[row] if value is None else column.own_value(value)
            decoded[column.name] = values, column
        return make_frame(decoded, self.container)

    def with_container(self, container: str) -> TableCode:
        """The same code, which decodes to another kind of frame."""
        return replace(self, container=container)

    def to_dict(self) -> dict[str, Any]:
        """The code as what JSON holds."""
        return {
            "container": self.container,
            "unknown": self.unknown,
            "columns": [column_to_dict(column) for column in self.columns],
        }

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> TableCode:
        """The code that `to_dict` gave; a `ValueError` if it is not one."""
        try:
            columns = tuple(column_from_dict(column) for column in content["columns"])
            return TableCode(columns, content["container"], content["unknown"])
        except (KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
            raise ValueError(f"This is not a table code: {error!r}.") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return TableCode.from_dict, (self.to_dict(),)

    def __repr__(self) -> str:
        return f"TableCode(n_columns={len(self.columns)}, n_vars={self.n_vars})"


def code_of_bits(names: Sequence[str], container: str) -> TableCode:
    """The code of a table of 0 and 1, whose columns are the variables."""
    words = np.array([[0], [1]], dtype=np.uint8)
    columns = (
        Column(name, BIT, var, var + 1, ("0", "1"), words, (name,), (0, 1), dtype="integer")
        for var, name in enumerate(names)
    )
    return TableCode(tuple(columns), container, "error")


def _why_not_a_code(code: TableCode) -> str | None:
    if not code.columns or not all(isinstance(column, Column) for column in code.columns):
        return "it must have at least one column"
    if not isinstance(code.container, str) or code.unknown not in UNKNOWN:
        return f"its container must be a text, and unknown must be one of {quote(UNKNOWN)}"
    end = 0
    for column in code.columns:
        if column.start != end:
            return (
                f"column {column.name!r} must start at variable {end}, but starts at {column.start}"
            )
        end = column.stop
    for what, names in (("columns", code.names), ("variables", code.variable_names)):
        if len(set(names)) != len(names):
            return f"two {what} have the same name"
    return None
