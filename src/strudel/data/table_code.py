"""Table codes: how the columns of a table become 0/1 variables, and back.

In:  a table with numbers, text, dates and missing values.
Out: float64 rows of 0 and 1, with NaN where a value is missing (`encode`); a frame (`decode`).

Every column owns a range of variables, and every value of it (a category, or a cell of numbers) has
a codeword: one variable per category (one-hot), or one variable ``value >= edge`` per edge
(thermometer). Other bits in that range are impossible.
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from strudel._types import NONE, AnyArray, ByteArray, FloatArray
from strudel.data.containers import quote
from strudel.data.table_columns import NUMERIC, RawColumn, RawTable, is_missing, read_columns
from strudel.data.table_edges import as_stamp
from strudel.data.table_frames import make_frame

KINDS = ("boolean", "category", "ordinal", "number", "date")
_DTYPES = (*NUMERIC, "text", "categorical", "enum", "object")
_BLOCK = 2**16  # rows decoded at a time


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table, and the 0/1 code of each of its values."""

    name: str
    kind: str  # one of KINDS
    start: int  # its variables are start, ..., stop - 1
    stop: int
    labels: tuple[str, ...]  # (n_values,) what each value or cell is called
    codewords: ByteArray  # (n_values, stop - start) the bits of each value, all distinct
    variable_names: tuple[str, ...]  # (stop - start,) such as "smoker=yes" or "age>=40"
    values: tuple[Any, ...]  # (n_values,) the value that stands for each cell; dates as stamps
    edges: tuple[float, ...] = ()  # number and date: cell j holds edges[j - 1] <= x < edges[j]
    ranges: tuple[tuple[float, float], ...] = ()  # number and date: what was seen in each cell
    counts: tuple[int, ...] = ()  # (n_values,) rows with each value at fit; decides ties
    dtype: str = "object"  # the type of the frame's column, see `RawColumn`
    zone: str | None = None  # the time zone of a datetime column

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
        is_cell = self.kind in ("number", "date") and any(low != high for low, high in self.ranges)
        return self.labels if is_cell or self.kind == "date" else self.values

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
        found = np.array([place_of.get(cell, NONE - 1) for cell in cells], dtype=np.int64)
        strange = found == NONE - 1
        if strange.any():
            if unknown == "error":
                row = int(np.argmax(strange))
                self.raise_unseen(cells[row], f" at row {row}")
            found[strange] = NONE
        return found

    def _cells_of_numbers(self, raw: RawColumn) -> AnyArray:
        expected = "dates" if self.kind == "date" else "numbers"
        is_number = raw.dtype in NUMERIC and (raw.dtype in ("date", "datetime")) == (
            self.kind == "date"
        )
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

    def raise_unseen(self, value: Any, where: str = "") -> None:
        """Say that a value is not one of this column's."""
        raise ValueError(
            f"Column {self.name!r} holds {value!r}{where}, a value that was not seen at fit. "
            f"{did_you_mean(value, self.labels)} Put it right, fit on rows that have it, or take "
            "such values as missing with TableEncoder(unknown='missing')."
        )

    def own_value(self, value: Any) -> Any:
        """A value that someone gives, of the type that the column holds."""
        if self.kind == "date":
            return as_stamp(value)
        if self.kind != "number":
            return next((own for own in self.values if own == value), value)
        is_whole = self.dtype == "integer" and float(value).is_integer()
        return int(value) if is_whole else float(value)

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

        Ties go to the value with most rows at fit. NONE where bits are unknown and several values
        fit equally well.
        """
        known = ~np.isnan(bits)
        ones = np.where(known, bits, 0.0)
        words = self.codewords.astype(np.float64)
        distance = ones @ (1.0 - words).T + (known - ones) @ words.T
        order = np.argsort(-np.array(self.counts), kind="stable")
        found = order[np.argmin(distance[:, order], axis=1)]
        n_nearest = (distance == distance.min(axis=1, keepdims=True)).sum(axis=1)
        return np.where((n_nearest > 1) & ~known.all(axis=1), NONE, found)

    def decoded(self, bits: FloatArray) -> list[Any]:
        """The value of every row, None where it is unknown; dates as stamps."""
        places = np.concatenate(
            [self.nearest(bits[at : at + _BLOCK]) for at in range(0, max(1, len(bits)), _BLOCK)]
        )
        places[np.isnan(bits).all(axis=1)] = NONE
        values = (*self.values, None)  # NONE is the last
        return [values[place] for place in places.tolist()]


@dataclass(frozen=True, eq=False)
class TableCode:
    """How the columns of a table become 0/1 variables.

    Parameters
    ----------
    columns : tuple of Column
        In the order of their variables, without gaps.
    container : str
        What kind of frame `decode` gives: "pandas", "polars", "pyarrow", or "numpy" for an array.
    unknown : {"error", "missing"}
        What `encode` does with categories that have no code.

    Examples
    --------
    >>> from strudel import TableEncoder
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
    unknown: str = "error"

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
        missing = [column for column in self.names if column not in found]
        extra = [column for column in found if column not in self._place_of]
        if missing or extra:
            said = (("lacks", missing), ("also has", extra))
            raise ValueError(
                f"{name} must have the {len(self.names)} columns that the encoder was fitted on, "
                "but "
                + " and ".join(f"{verb} {quote(wrong)}" for verb, wrong in said if wrong)
                + f". {_misspelt(extra, missing)}Rename columns, drop them, or add them with None "
                "in every row where nothing is known."
            )
        return [found[column] for column in self.names]

    def encode_columns(self, columns: Sequence[RawColumn | None], name: str = "X") -> FloatArray:
        """`encode`, from one `RawColumn` per column, None where all of it is missing."""
        n_rows = next((len(raw.values) for raw in columns if raw is not None), 1)
        rows = np.full((n_rows, self.n_vars), np.nan)
        for column, raw in zip(self.columns, columns, strict=True):
            if raw is None:
                continue
            places = column.places(raw, self.unknown)
            words = np.vstack([column.codewords, np.full((1, column.stop - column.start), np.nan)])
            rows[:, column.start : column.stop] = words[places]  # NONE is the last
        return rows

    def decode(self, rows: Any, known: Mapping[str, Sequence[Any]] | None = None) -> Any:
        """A frame of the kind that was encoded, from rows of 0, 1 and NaN.

        A number or date is given by the median of its cell at fit. A column whose bits do not say
        which value it has stays missing. Bits that are no value's codeword stand for the value
        whose codeword is nearest: that differs in the fewest bits, or of several such, the one with
        most rows at fit.

        `known` gives values of some columns that stay as they are, and None where to decode.
        """
        table = np.asarray(rows, dtype=np.float64)
        if table.ndim != 2 or table.shape[1] != self.n_vars:
            raise ValueError(
                f"Rows to decode must have {self.n_vars} columns of 0, 1 or NaN, "
                f"but have shape {table.shape}."
            )
        decoded: dict[str, tuple[list[Any], Column]] = {}
        for column in self.columns:
            values = column.decoded(table[:, column.start : column.stop])
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
            "columns": [_column_to_dict(column) for column in self.columns],
        }

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> TableCode:
        """The code that `to_dict` gave; a `ValueError` if it is not one."""
        try:
            columns = tuple(_column_from_dict(column) for column in content["columns"])
            return TableCode(columns, content["container"], content["unknown"])
        except (KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
            raise ValueError(f"This is not a table code: {error!r}.") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return TableCode.from_dict, (self.to_dict(),)

    def __repr__(self) -> str:
        return f"TableCode(n_columns={len(self.columns)}, n_vars={self.n_vars})"


def did_you_mean(name: Any, names: Sequence[str]) -> str:
    """A sentence with the names that are close to a wrong one, or else with all."""
    close = difflib.get_close_matches(str(name), names, n=3)
    return f"Did you mean {quote(close)}?" if close else f"There are {quote(list(names))}."


def _misspelt(extra: Sequence[str], missing: Sequence[str]) -> str:
    """A sentence for every name that is close to a missing one."""
    close = {name: difflib.get_close_matches(name, missing, n=1) for name in extra}
    return "".join(f"Is {name!r} {match[0]!r}? " for name, match in close.items() if match)


def _column_to_dict(column: Column) -> dict[str, Any]:
    content = {field.name: getattr(column, field.name) for field in fields(column)}
    for name in ("labels", "variable_names", "values", "edges", "counts"):
        content[name] = list(content[name])
    content["ranges"] = [list(seen) for seen in column.ranges]
    content["codewords"] = ["".join(map(str, word)) for word in column.codewords.tolist()]
    return content


def _column_from_dict(content: Mapping[str, Any]) -> Column:
    known = {field.name for field in fields(Column)}
    if set(content) != known:
        raise ValueError(f"A column has {quote(sorted(known))}, but here {quote(sorted(content))}.")
    read = dict(content)
    for name in ("labels", "variable_names", "values", "edges", "counts"):
        if not isinstance(content[name], list):
            raise ValueError(f"{name!r} of a column must be a list.")
        read[name] = tuple(content[name])
    read["ranges"] = tuple(tuple(seen) for seen in content["ranges"])
    words = content["codewords"]
    if not all(isinstance(word, str) and set(word) <= {"0", "1"} for word in words):
        raise ValueError("Codewords must be texts of 0 and 1.")
    if len({len(word) for word in words}) != 1:
        raise ValueError("Codewords must be of equal length.")
    read["codewords"] = np.array([[int(bit) for bit in word] for word in words], dtype=np.uint8)
    return Column(**read)


def _why_not_a_column(column: Column) -> str | None:
    """Why the parts do not fit together, or None."""
    n_values, width = len(column.labels), column.stop - column.start
    if not isinstance(column.name, str) or column.kind not in KINDS or column.dtype not in _DTYPES:
        return f"it must have a name, a kind of {quote(KINDS)} and a known dtype"
    if not isinstance(column.start, int) or not isinstance(column.stop, int) or width < 1:
        return "it must have at least one variable"
    if n_values < 1 or column.codewords.shape != (n_values, width):
        return f"{n_values} values and {width} variables need as many codewords and bits"
    if np.any(column.codewords > 1) or len(np.unique(column.codewords, axis=0)) != n_values:
        return "the codewords must be distinct and of 0 and 1"
    if len(column.variable_names) != width or not (
        len(column.values) == len(column.counts) == n_values
    ):
        return "there must be a name for every variable, and a value and a count for every label"
    texts = (*column.labels, *column.variable_names, column.zone or "UTC")
    if not all(isinstance(text, str) for text in texts) or len(set(column.labels)) != n_values:
        return "labels, names and time zone must be texts, and the labels distinct"
    if not all(isinstance(count, int) for count in column.counts):
        return "counts must be whole numbers"
    if not all(value is None or isinstance(value, str | int | float) for value in column.values):
        return "values must be texts, numbers, booleans or None"
    if column.kind not in ("number", "date"):
        return None
    edges = column.edges
    if not all(isinstance(edge, float | int) and np.isfinite(edge) for edge in edges):
        return "edges must be numbers"
    if len(edges) != n_values - 1 or any(a >= b for a, b in pairwise(edges)):
        return "there must be one edge less than cells, each larger than the one before"
    if len(column.ranges) != n_values or not all(
        len(seen) == 2 and all(isinstance(end, float | int) for end in seen)
        for seen in column.ranges
    ):
        return "every cell must have a range"
    is_number = [
        isinstance(value, int | float) and not is_missing(value) for value in column.values
    ]
    if not all(is_number) and column.values != (None,):
        return "the values of numbers and dates must be numbers"
    return None


def _why_not_a_code(code: TableCode) -> str | None:
    if not code.columns or not all(isinstance(column, Column) for column in code.columns):
        return "it must have at least one column"
    if not isinstance(code.container, str) or code.unknown not in ("error", "missing"):
        return "its container must be a text, and unknown must be 'error' or 'missing'"
    end = 0
    for column in code.columns:
        if column.start != end:
            return (
                f"column {column.name!r} must start at variable {end}, but does at {column.start}"
            )
        end = column.stop
    for what, names in (("columns", code.names), ("variables", code.variable_names)):
        if len(set(names)) != len(names):
            return f"two {what} have the same name"
    return None
