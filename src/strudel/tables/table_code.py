"""Table codes: how the columns of a table become 0/1 variables, and back; rows of a model.

In:  a table with numbers, text, dates and missing values; for a model, a frame with some of the
     columns, dicts, lists of values, and the names of its variables, which know the code.
Out: float64 rows of 0 and 1, with NaN where a value is missing (`encode`, `coded_evidence`), or
     None if they already are rows of the 0/1 variables; a frame (`decode`).

Every column owns a range of variables, and every value of it (a category, or a cell of numbers) has
a codeword: one variable per category (one-hot), or one variable ``value >= edge`` per edge
(thermometer). Other bits in that range are impossible.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from strudel._names import did_you_mean, quote
from strudel._types import NONE, AnyArray, FloatArray
from strudel.data.validation import check_shared_names, read_named_rows, read_values
from strudel.errors import OutOfRangeWarning, UnseenValueWarning, outer_stack_level
from strudel.tables.coded_column import CodedColumn as CodedColumn
from strudel.tables.coded_column import column_from_dict, column_to_dict, literals_of
from strudel.tables.column import BIT, Column, bound_text
from strudel.tables.columns import RawColumn, RawTable, is_missing, make_frame, read_columns
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
        What kind of frame `decode` gives: "pandas", "polars", "pyarrow", or "numpy" for an array.
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
    >>> code.decode([[0, 0, 1, 1, 0]])
    array([['red', 2]], dtype=object)
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
        if self.unknown == "warn":
            self._warn_of_numbers_far_outside(columns)
        return rows

    def bits_of(self, cells: AnyArray) -> FloatArray:
        """Rows of 0 and 1 from cells of the columns, NaN where one is NONE."""
        rows = np.full((len(cells), self.n_vars), np.nan)
        for column, own in zip(self.columns, cells.T, strict=True):
            words = np.vstack([column.codewords, np.full((1, column.stop - column.start), np.nan)])
            rows[:, column.start : column.stop] = words[own]  # NONE is the last
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

    def decode(
        self,
        rows: Any,
        known: Mapping[str, Sequence[Any]] | None = None,
        rng: np.random.Generator | None = None,
        *,
        with_missing: bool = False,
    ) -> Any:
        """A frame of the kind that was encoded, from rows of 0, 1 and NaN.

        A number or date is given by the median of its cell at fit, or with a generator of random
        numbers by a draw from its density within the cell. A column whose bits do not say
        which value it has stays missing. Bits that are not a codeword stand for the value whose
        codeword is nearest: the one that differs in the fewest bits or, if several do, the one with
        most rows at fit.

        `known` gives values of some columns that stay as they are, and None where a value is to be
        decoded. Rows `with_missing` values, drawn with a generator, have them as the table had.
        """
        table = np.asarray(rows, dtype=np.float64)
        if table.ndim != 2 or table.shape[1] != self.n_vars:
            raise ValueError(
                f"Rows to decode must have {self.n_vars} columns of 0, 1 or NaN, "
                f"but have shape {table.shape}."
            )
        decoded: dict[str, tuple[list[Any], CodedColumn]] = {}
        for column in self.columns:
            bits = table[:, column.start : column.stop]
            values = column.decoded_bits(bits) if rng is None else column.drawn_bits(bits, rng)
            for row, value in enumerate((known or {}).get(column.name, ())):
                values[row] = values[row] if value is None else column.own_value(value)
            decoded[column.name] = values, column
        if with_missing and rng is not None:
            self.leave_out({name: values for name, (values, _) in decoded.items()}, rng, known)
        return make_frame(decoded, self.container)

    def leave_out(
        self,
        cells: Mapping[str, list[Any]],
        rng: np.random.Generator,
        known: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        """Put None where drawn values are missing, as in the table; what is `known` stays.

        Dates and durations are numbers here.
        """
        raws = {}
        for column in self.columns:
            values = np.array(cells[column.name], dtype=np.float64 if column.is_numeric else object)
            raws[column.name] = RawColumn(column.name, column.dtype, values)
        for name, is_gap in self.missingness.draw(raws, self.columns, rng).items():
            given = (known or {}).get(name)
            for row in np.flatnonzero(is_gap).tolist():
                if given is None or given[row] is None:
                    cells[name][row] = None

    def with_container(self, container: str) -> TableCode:
        """The same code, which decodes to another kind of frame."""
        return replace(self, container=container)

    def to_dict(self) -> dict[str, Any]:
        """The code as what JSON holds."""
        return {
            "container": self.container,
            "unknown": self.unknown,
            "left_out": list(self.left_out),
            "missingness": self.missingness.to_dict(),
            "columns": [column_to_dict(column) for column in self.columns],
        }

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> TableCode:
        """The code that `to_dict` gave; a `ValueError` if it is not one."""
        try:
            columns = tuple(column_from_dict(column) for column in content["columns"])
            missingness = Missingness.from_dict(content["missingness"])
            facts = content["container"], content["unknown"], content["left_out"], missingness
            return TableCode(columns, *facts)
        except (KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
            raise ValueError(f"This is not a table code: {error!r}.") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return TableCode.from_dict, (self.to_dict(),)

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

    def encode_table(self, X: Any, name: str) -> FloatArray | None:
        """Fully observed rows; None if they are rows of the variables already."""
        return coded_table(X, self.code, name)

    def encode_evidence(self, X: Any, name: str) -> FloatArray | None:
        """Partly observed rows; None if they are rows of the variables already."""
        return coded_evidence(X, self.code, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return CodedNames, (self.code, tuple(self))


def code_of(names: Sequence[str] | None) -> TableCode | None:
    """The code that names know, if they do."""
    return names.code if isinstance(names, CodedNames) else None


def select_names(names: Sequence[str] | None, kept: Sequence[int]) -> tuple[str, ...] | None:
    """The names of some variables; with the code of their columns if these are all there."""
    if names is None:
        return None
    some = tuple(names[var] for var in kept)
    code = code_of(names)
    columns: list[CodedColumn] = []
    while code is not None and (done := columns[-1].stop if columns else 0) < len(kept):
        column = next((own for own in code.columns if own.start == kept[done]), None)
        width = 0 if column is None else column.stop - column.start
        if column is None or list(kept[done : done + width]) != list(column.variables):
            return some
        columns.append(replace(column, start=done, stop=done + width))
    return some if code is None else CodedNames(replace(code, columns=tuple(columns)), some)


def coded_evidence(X: Any, code: TableCode, name: str) -> FloatArray | None:
    """Partly observed rows, from any of the columns."""
    dicts = read_named_rows(X)
    if dicts is not None:
        return np.vstack([_row_of_dict(row, code, name) for row in dicts])
    table = _read_table(X, code, name)
    if table is None:
        return None
    return code.encode_columns(code.match(table, name, may_be_few=True), name)


def coded_table(
    X: Any, code: TableCode, name: str, may_be_missing: bool = False
) -> FloatArray | None:
    """Rows from all columns; fully observed, unless values may be missing."""
    table = _read_table(X, code, name)
    if table is None:
        return None
    rows = code.encode_columns(code.match(table, name), name)
    unknown = np.isnan(rows)
    if unknown.any() and not may_be_missing:
        row = int(np.argmax(unknown.any(axis=1)))
        var = int(np.argmax(unknown[row]))
        column = next(column for column in code.columns if var < column.stop)
        raise ValueError(
            f"{name} must have a value in every column, but {column.name!r} is missing at row "
            f"{row}. log_marginal takes rows with missing values and sums them out."
        )
    return rows


def known_values(X: Any, code: TableCode) -> dict[str, list[Any]]:
    """Per column the values that evidence gives as they are, None where it does not."""
    dicts = read_named_rows(X) if X is not None else []
    if dicts is not None:
        return {
            column.name: [_single(row.get(column.name)) for row in dicts]
            for column in code.columns
            if any(_single(row.get(column.name)) is not None for row in dicts)
        }
    table = _read_table(X, code, "given")
    if table is None:
        return {}
    columns = table.columns if table.has_names else code.match(table)
    names = [column.name for column in (table if table.has_names else code).columns]
    return {name: raw.objects() for name, raw in zip(names, columns, strict=True)}


def known_numbers(X: Any, code: TableCode) -> dict[str, FloatArray]:
    """Per column of numbers or dates the values that rows give, NaN where they do not.

    Also the places of values in columns whose rare categories share a cell. Nothing if the rows are
    of the 0/1 variables.
    """
    if X is None or not any(column.has_parts for column in code.columns):
        return {}
    dicts = read_named_rows(X)
    if dicts is None:
        table = _read_table(X, code, "X")
        if table is None:
            return {}
        columns = table.columns if table.has_names else code.match(table)
        names = [column.name for column in (table if table.has_names else code).columns]
        raws = dict(zip(names, columns, strict=True))
        return {
            column.name: np.asarray(raws[column.name].values, dtype=np.float64)
            if column.is_numeric
            else _as_places(column.cells_of(raws[column.name], "missing"))
            for column in code.columns
            if column.has_parts and column.name in raws
        }
    found: dict[str, FloatArray] = {}
    for column in code.columns:
        if column.has_parts and any(column.name in row for row in dicts):
            values = [_single(row.get(column.name)) for row in dicts]
            own = column.own_value if column.is_numeric else column.place_of
            found[column.name] = np.array(
                [np.nan if value is None else own(value) for value in values], dtype=np.float64
            )
    return found


def _as_places(places: AnyArray) -> FloatArray:
    return np.where(places == NONE, np.nan, places)


def log_density_of(numbers: Mapping[str, FloatArray], code: TableCode) -> FloatArray | float:
    """The log-density of the numbers, and of rare categories, of every row given their cells."""
    total: FloatArray | float = 0.0
    for name, values in numbers.items():
        column = code.column(name)
        is_known = ~np.isnan(values)
        if not (column.is_shared or column.density) or not is_known.any():
            continue
        own = np.zeros(len(values))
        known = values[is_known]
        own[is_known] = column.cells.log_density(known) - column.cells.density.log_units(known)
        total = total + own
    return total


def table_log_density(X: Any, code: TableCode, of_numbers: bool = True) -> FloatArray | float:
    """The log-density of numbers, dates and rare categories of every row, given their cells."""
    known = known_numbers(X, code)
    if not of_numbers:
        known = {name: x for name, x in known.items() if not code.column(name).is_numeric}
    return log_density_of(known, code)


def _single(value: Any) -> Any:
    """One value; None for an interval, a set, or what is missing."""
    if isinstance(value, tuple | list | set | frozenset | range | np.ndarray):
        return None
    return None if is_missing(value) else value


def _read_table(X: Any, code: TableCode, name: str) -> RawTable | None:
    """The columns of a table; None if it has the variables instead."""
    if hasattr(X, "tocsr"):
        return None
    if isinstance(X, list | tuple | np.ndarray):
        values, _ = read_values(X, name)
        if values.ndim == 1 and values.size:
            values = values.reshape(1, -1)
        if values.ndim != 2 or values.shape[1] == code.n_vars != code.n_columns_in:
            return None
        if values.shape[1] != code.n_columns_in:  # in scikit-learn's words
            raise ValueError(
                f"{name} has {values.shape[1]} features, but Strudel is expecting "
                f"{code.n_columns_in} features as input, the columns of the table that the model "
                f"was learned from; or the {code.n_vars} variables that they became."
            )
        return read_columns(values, name)
    if not hasattr(X, "columns") and not hasattr(X, "column_names"):
        return None
    own = getattr(X, "column_names", None)  # pyarrow's are names, the others' columns are
    names = list(own if own is not None else X.columns)
    variables = set(code.variable_names)
    is_coded = all(column in variables for column in names)
    if is_coded and not all(column in code.names for column in names):
        return None
    return read_columns(X, name)


def _row_of_dict(row: Mapping[Any, Any], code: TableCode, name: str) -> FloatArray:
    """One row from values by column, or by variable."""
    bits = np.full(code.n_vars, np.nan)
    said_by: dict[int, Any] = {}
    if not isinstance(row, Mapping):
        raise ValueError(f"{name} must be a list of dicts, but one entry is {row!r}.")
    for key, value in row.items():
        for var, bit in _literals(key, value, code, name):
            if bits[var] == 1 - bit:
                raise ValueError(f"{name} contradicts itself: see {said_by[var]!r} and {key!r}.")
            bits[var] = bit
            said_by[var] = key
    return bits


def _literals(key: Any, value: Any, code: TableCode, name: str) -> Sequence[tuple[int, int]]:
    if isinstance(key, str) and key in code.names:
        return literals_of(code.column(key), value)
    is_number = isinstance(key, int | np.integer) and not isinstance(key, bool)
    if isinstance(key, str) and key in code.variable_names:
        var = code.variable_names.index(key)
    elif is_number and 0 <= key < code.n_vars:
        var = int(key)
    else:
        raise ValueError(
            f"{name} names {key!r}, which is not a column. {did_you_mean(key, code.names)}"
        )
    return literals_of(bit_column(code.variable_names[var], var), value)


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
        own.cells.density if own.is_numeric else None,
        own.region if own.is_numeric else (),
    )
