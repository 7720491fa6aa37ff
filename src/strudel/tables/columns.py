"""The columns of a table as people have them: numbers, text, dates and gaps.

In:  a pandas, polars or pyarrow frame, a numpy array or a list of rows.
Out: `RawTable`: per column the cells, as floats with NaN where a value is missing or as objects
     with None there, and what type the column has; and from decoded columns a frame again.

Dates are microseconds since 1970, in UTC if they have a time zone: whole numbers that a float holds
exactly until the year 2255.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.data.validation import as_frame, check_shape, read_values
from strudel.errors import MissingDependencyError

# Types whose cells are floats; durations are in microseconds.
NUMERIC = ("boolean", "integer", "float", "date", "datetime", "duration")
_INT64 = 2**63  # the first whole number that is too large for frames
_EPOCH = datetime.datetime(1970, 1, 1)  # in UTC, without saying so, as NumPy has it
DURATION_UNITS = {
    "100 days": 8_640_000e6,
    "10 days": 864_000e6,
    "day": 86_400e6,
    "h": 3_600e6,
    "10 min": 600e6,
    "min": 60e6,
    "s": 1e6,
    "ms": 1e3,
    "us": 1.0,
}
_UNITS = {
    **dict.fromkeys(("d", "day", "days"), "day"),
    **dict.fromkeys(("h", "hour", "hours"), "h"),
    **dict.fromkeys(("m", "min", "minute", "minutes"), "min"),
    **dict.fromkeys(("s", "sec", "second", "seconds"), "s"),
    "ms": "ms",
    "us": "us",
}
_DURATION = re.compile(
    rf"([+-])?\s*(?:(\d+(?:\.\d+)?)\s*({'|'.join(_UNITS)}))?,?\s*"
    r"(?:(\d+):(\d\d)(?::(\d\d(?:\.\d+)?))?)?"
)


@dataclass(frozen=True, eq=False)
class RawColumn:
    """The cells of one column."""

    name: str
    dtype: str  # one of NUMERIC, or "text", "categorical", "enum" (categories in order), "object"
    values: AnyArray  # float64 with NaN for one of NUMERIC; else objects with None
    categories: tuple[Any, ...] | None = None  # where the column says which values there may be
    zone: str | None = None  # the time zone of a datetime

    def known(self) -> AnyArray:
        """The cells that are not missing."""
        return self.values[~self.is_missing()]

    def is_missing(self) -> AnyArray:
        """Whether each cell is missing."""
        if self.values.dtype == object:
            return np.equal(self.values, np.array(None)).astype(bool)
        return np.isnan(self.values)

    def objects(self) -> list[Any]:
        """The cells as Python objects, None where one is missing."""
        if self.values.dtype == object:
            return self.values.tolist()
        if self.dtype == "integer" or self.dtype == "boolean":
            kind = int if self.dtype == "integer" else bool
            return [None if value != value else kind(value) for value in self.values.tolist()]
        return [None if value != value else value for value in self.values.tolist()]


@dataclass(frozen=True, eq=False)
class RawTable:
    """The columns of a table, and what it came in; estimators take it as they take a frame."""

    columns: tuple[RawColumn, ...]
    n_rows: int
    container: str  # "pandas", "polars", "pyarrow", ..., or "numpy"
    has_names: bool  # whether the names are the table's own; if not, they are x0, x1, ...

    def __len__(self) -> int:
        return self.n_rows

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        return np.array(np.column_stack([column.values for column in self.columns]), dtype=dtype)

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]

    def select(self, names: Iterable[str]) -> RawTable:
        """Some of the columns, in this order; those that the table lacks are all missing."""
        own = {column.name: column for column in self.columns}
        empty = np.full(self.n_rows, np.nan)
        columns = tuple(own.get(name) or RawColumn(name, "float", empty) for name in names)
        return replace(self, columns=columns)


def read_columns(X: Any, name: str = "X") -> RawTable:
    """The columns of any table."""
    if isinstance(X, RawTable):
        return X
    frame = as_frame(X, name)
    if frame is not None:
        return _read_frame(frame, name)
    values, _ = read_values(X, name)
    if hasattr(X, "tocsr"):
        raise TypeError(
            f"{name} must be a frame or a dense array, but is a sparse matrix. Sparse data is not "
            "supported: call toarray(), or give a sparse 0/1 matrix to the model itself."
        )
    if values.dtype.kind == "c":
        raise ValueError(f"{name} is complex. Complex data not supported: take the real part.")
    check_shape(values.shape, name)
    columns = tuple(
        _column_of_array(values[:, place], f"x{place}") for place in range(values.shape[1])
    )
    return RawTable(columns, len(values), "numpy", has_names=False)


def _read_frame(frame: Any, name: str) -> RawTable:
    names = list(frame.columns)
    has_names = all(isinstance(column, str) for column in names)
    if not has_names:
        names = [f"x{place}" for place in range(len(names))]
    check_shape(frame.shape, name)
    columns = tuple(
        _column_of_series(series, column)
        for column, series in zip(names, frame.iter_columns(), strict=True)
    )
    return RawTable(columns, frame.shape[0], frame.implementation.value, has_names)


def _column_of_series(series: Any, name: str) -> RawColumn:
    """One column of a frame."""
    import narwhals as nw

    dtype = series.dtype
    if dtype.is_numeric() or dtype == nw.Boolean:
        kind = "boolean" if dtype == nw.Boolean else "integer" if dtype.is_integer() else "float"
        return RawColumn(name, kind, _floats(series))
    if dtype in (nw.Datetime, nw.Date):
        kind = "date" if dtype == nw.Date else "datetime"
        zone = getattr(dtype, "time_zone", None)
        series = series.cast(nw.Datetime("us")) if kind == "date" else series
        return RawColumn(name, kind, _floats(series.dt.timestamp("us")), zone=zone)
    if dtype == nw.Duration:
        return RawColumn(name, "duration", _floats(series.dt.total_microseconds()))
    if dtype in (nw.Categorical, nw.Enum):
        native = series.to_native()
        categories: tuple[Any, ...] | None = None
        if hasattr(native, "cat") and hasattr(native.cat, "categories"):  # pandas
            categories = tuple(native.cat.categories.tolist())
        elif dtype == nw.Enum:
            categories = tuple(dtype.categories)
        kind = "enum" if dtype == nw.Enum else "categorical"
        return RawColumn(name, kind, _known_objects(series), categories)
    if dtype == nw.String:
        return RawColumn(name, "text", _known_objects(series))
    if dtype in (nw.Object, nw.Unknown):
        return _column_of_objects(_objects(series.to_list(), name), name)
    raise ValueError(
        f"Column {name!r} is of type {dtype}. Turn it into numbers, text or dates, or drop it."
    )


def _floats(series: Any) -> FloatArray:
    """Numbers as floats with NaN where one is missing."""
    import narwhals as nw

    if series.implementation.is_pyarrow():  # refuses whole numbers beyond 2**53 unless told not to
        return np.array(series.to_native().cast("float64", safe=False), dtype=np.float64)
    return np.array(series.cast(nw.Float64).to_numpy(), dtype=np.float64)


def _known_objects(series: Any) -> AnyArray:
    """Objects with None where one is missing, of a column that holds single values only."""
    cells = np.empty(len(series), dtype=object)
    cells[:] = series.to_list()
    cells[series.is_null().to_numpy().astype(bool)] = None
    return cells


def _column_of_array(values: AnyArray, name: str) -> RawColumn:
    """One column of an array."""
    kind = values.dtype.kind
    if kind in "biuf":
        dtype = "boolean" if kind == "b" else "integer" if kind in "iu" else "float"
        return RawColumn(name, dtype, values.astype(np.float64))
    if kind == "M":
        return RawColumn(name, "datetime", _microseconds(values))
    if kind == "m":
        return RawColumn(name, "duration", _durations(values))
    return _column_of_objects(_objects(values.tolist(), name), name)


def _column_of_objects(values: AnyArray, name: str) -> RawColumn:
    """One column of Python objects: of the simplest type that fits them all."""
    known = [value for value in values.tolist() if value is not None]
    types = set(map(type, known))
    if not known:
        return RawColumn(name, "float", np.full(len(values), np.nan))
    if all(issubclass(kind, bool | np.bool_) for kind in types):
        return RawColumn(name, "boolean", values.astype(np.float64))
    if all(issubclass(kind, int | float | np.integer | np.floating) for kind in types):
        is_whole = all(issubclass(kind, int | np.integer) for kind in types)
        try:
            floats = values.astype(np.float64)
        except OverflowError:
            raise ValueError(
                f"Column {name!r} holds a whole number beyond 1e308, the largest that can be read. "
                "Turn the column into text, or take logarithms."
            ) from None
        return RawColumn(name, "integer" if is_whole else "float", floats)
    if all(issubclass(kind, datetime.date | np.datetime64) for kind in types):
        is_date = not any(issubclass(kind, datetime.datetime | np.datetime64) for kind in types)
        return RawColumn(name, "date" if is_date else "datetime", _microseconds(values))
    if all(issubclass(kind, datetime.timedelta | np.timedelta64) for kind in types):
        return RawColumn(name, "duration", _durations(values))
    return RawColumn(name, "text" if types == {str} else "object", values)


def _durations(values: AnyArray) -> FloatArray:
    """Durations in microseconds, with NaN where one is missing."""
    if values.dtype == object:
        return np.array([np.nan if value is None else as_duration(value) for value in values])
    spans = values.astype("timedelta64[us]")
    return np.where(np.isnat(spans), np.nan, spans.astype(np.int64).astype(np.float64))


def _microseconds(values: AnyArray) -> FloatArray:
    """Dates as microseconds since 1970, in UTC, with NaN where one is missing."""
    if values.dtype == object:
        values = np.array([without_zone(value) for value in values], dtype="datetime64[us]")
    stamps = values.astype("datetime64[us]")
    return np.where(np.isnat(stamps), np.nan, stamps.astype(np.int64).astype(np.float64))


def _objects(values: list[Any], name: str) -> AnyArray:
    """Objects with None where one is missing; refuse what is not a single value."""
    cells = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        if is_missing(value):
            continue
        if isinstance(value, list | tuple | dict | set | np.ndarray):
            raise TypeError(
                f"Every cell must be one text, number, boolean or date, "
                f"but column {name!r} holds {value!r} at row {row}."
            )
        cells[row] = value.item() if isinstance(value, np.generic) else value
    return cells


def is_missing(value: Any) -> bool:
    """Whether an object stands for a missing value: None, NaN, NaT or `pandas.NA`."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return isinstance(value, float | np.floating) and bool(value != value)


def make_frame(columns: Mapping[str, tuple[Sequence[Any], Any]], container: str) -> Any:
    """A frame of `container`, from values and a `Column` for each name; dates are stamps."""
    maker = {"numpy": _numpy, "polars": _polars, "pyarrow": _pyarrow}.get(container, _pandas)
    try:
        return maker({name: _of_its_type(*column) for name, column in columns.items()})
    except ImportError as error:
        raise MissingDependencyError(
            f"The model was learned from a {container} frame and answers in one, "
            f"but {error.name or container} is not installed: pip install {container}."
        ) from None


def _of_its_type(values: Sequence[Any], column: Any) -> tuple[Sequence[Any], Any]:
    """Whole numbers as floats if frames cannot hold one, or if one that was given is not whole."""
    if column.dtype != "integer":
        return values, column
    known = {value for value in values if value is not None}
    if all(isinstance(value, int) and -_INT64 <= value < _INT64 for value in known):
        return values, column
    floats = [None if value is None else float(value) for value in values]
    own = tuple(None if value is None else float(value) for value in column.values)
    return floats, replace(column, dtype="float", values=own)


def as_date(stamp: float | None, column: RawColumn | Any) -> Any:
    """Microseconds since 1970 as a date, or as a datetime in the column's time zone."""
    if stamp is None:
        return None
    moment = _EPOCH + datetime.timedelta(microseconds=int(stamp))
    if column.dtype == "date":
        return moment.date()
    if column.zone is None:
        return moment
    import zoneinfo

    zone = zoneinfo.ZoneInfo(column.zone)
    return moment.replace(tzinfo=datetime.UTC).astimezone(zone)


def as_timedelta(duration: float | None) -> datetime.timedelta | None:
    """Microseconds as a timedelta."""
    return None if duration is None else datetime.timedelta(microseconds=int(duration))


def _cells(values: Sequence[Any], column: Any) -> list[Any]:
    if column.kind == "date":
        date_of = {value: as_date(value, column) for value in set(values)}
        return [date_of[value] for value in values]
    if column.dtype == "duration":
        return [as_timedelta(value) for value in values]
    return list(values)


def _numpy(columns: Mapping[str, tuple[Sequence[Any], Any]]) -> Any:
    """An array of numbers if all columns are; of objects otherwise."""
    kinds = {column.dtype for _, column in columns.values()}
    lists = [_cells(values, column) for values, column in columns.values()]
    has_gaps = any(value is None for values in lists for value in values)
    if kinds <= {"boolean", "integer", "float"}:
        dtype: Any = np.float64 if has_gaps or len(kinds) > 1 else None
        return np.array(lists, dtype=dtype).T.copy() if lists else np.empty((0, 0))
    table = np.empty((len(lists[0]), len(lists)), dtype=object)
    for place, values in enumerate(lists):
        table[:, place] = values
    return table


def _pandas(columns: Mapping[str, tuple[Sequence[Any], Any]]) -> Any:
    import pandas as pd

    def series(values: Sequence[Any], column: Any) -> Any:
        cells = _cells(values, column)
        has_gaps = any(value is None for value in cells)
        if column.dtype in ("categorical", "enum"):
            is_ordered = column.dtype == "enum"
            known = [value for value in column.values if value is not None]
            return pd.Categorical(cells, categories=known, ordered=is_ordered)
        if column.dtype == "datetime":
            zone = column.zone
            return pd.Series(cells, dtype=f"datetime64[us, {zone}]" if zone else "datetime64[us]")
        if column.dtype == "duration":
            return pd.Series(cells, dtype="timedelta64[us]")
        dtype: Any = {
            "boolean": "boolean" if has_gaps else "bool",
            "integer": "Int64" if has_gaps else "int64",
            "float": "float64",
            "text": "str",
        }.get(column.dtype, "object")
        return pd.Series(cells, dtype=dtype)

    return pd.DataFrame({name: series(*column) for name, column in columns.items()})


def _polars(columns: Mapping[str, tuple[Sequence[Any], Any]]) -> Any:
    import polars as pl

    def series(values: Sequence[Any], column: Any) -> Any:
        dtype: Any = {
            "boolean": pl.Boolean,
            "integer": pl.Int64,
            "float": pl.Float64,
            "categorical": pl.Categorical,
            "date": pl.Date,
            "datetime": pl.Datetime("us", column.zone),
            "duration": pl.Duration("us"),
        }.get(column.dtype, pl.String)
        if column.dtype == "enum":
            dtype = pl.Enum([value for value in column.values if value is not None])
        return pl.Series(_texts(_cells(values, column), column), dtype=dtype)

    return pl.DataFrame({name: series(*column) for name, column in columns.items()})


def _pyarrow(columns: Mapping[str, tuple[Sequence[Any], Any]]) -> Any:
    import pyarrow as pa

    def array(values: Sequence[Any], column: Any) -> Any:
        dtype = {
            "boolean": pa.bool_(),
            "integer": pa.int64(),
            "float": pa.float64(),
            "date": pa.date32(),
            "datetime": pa.timestamp("us", tz=column.zone),
            "duration": pa.duration("us"),
        }.get(column.dtype, pa.string())
        made = pa.array(_texts(_cells(values, column), column), type=dtype)
        return made.dictionary_encode() if column.dtype in ("categorical", "enum") else made

    return pa.table({name: array(*column) for name, column in columns.items()})


def _texts(cells: list[Any], column: Any) -> list[Any]:
    """Values of several types as text, for frames whose columns have one type."""
    if column.dtype != "object":
        return cells
    return [None if cell is None else str(cell) for cell in cells]


def duration_text(duration: float) -> str:
    """A duration in days, hours, minutes and seconds.

    Examples
    --------
    >>> duration_text(93_784e6), duration_text(90e6), duration_text(0.0)
    ('1 day 02:03:04', '00:01:30', '00:00')
    """
    days, rest = divmod(duration, 86_400e6)
    text = str(datetime.timedelta(microseconds=int(rest))).rjust(8, "0")
    text = text.removesuffix(":00") if text != "00:00:00" else "00:00"
    if not days:
        return text
    said = f"{int(days)} day{'' if days == 1 else 's'}"
    return said if text == "00:00" else f"{said} {text}"


def as_duration(value: Any) -> float:
    """A timedelta, or a text such as "2 days 01:30" or "90 min", in microseconds.

    Examples
    --------
    >>> as_duration("1 day 02:00") / 3600e6, as_duration("90 min") / 60e6
    (26.0, 90.0)
    """
    if isinstance(value, datetime.timedelta):
        return value / datetime.timedelta(microseconds=1)
    if isinstance(value, np.timedelta64) and not np.isnat(value):
        return float(value / np.timedelta64(1, "us"))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)  # in microseconds already
    found = _DURATION.fullmatch(str(value).strip()) if isinstance(value, str) else None
    if not found or not any(found.groups()):
        raise ValueError(f"Expected a duration such as '2 days 01:30' or '90 min', not {value!r}.")
    sign, number, unit, hours, minutes, seconds = found.groups()
    total = float(number) * DURATION_UNITS[_UNITS[unit]] if number else 0.0
    for part, size in ((hours, "h"), (minutes, "min"), (seconds, "s")):
        total += float(part or 0.0) * DURATION_UNITS[size]
    return -total if sign == "-" else total


def number_text(edge: float) -> str:
    """A number without a needless decimal point."""
    return str(int(edge)) if float(edge).is_integer() and abs(edge) < 1e15 else repr(float(edge))


def date_text(stamp: float) -> str:
    """A date without the parts that are zero.

    Examples
    --------
    >>> date_text(0.0), date_text(60e6)
    ('1970-01-01', '1970-01-01 00:01')
    """
    text = str(np.datetime64(int(stamp), "us")).replace("T", " ")
    for zeros in (".000000", ":00", " 00:00"):
        text = text.removesuffix(zeros)
    return text


def as_stamp(value: Any) -> float:
    """A date, or a text such as "2020-01-31 12:00", as microseconds since 1970.

    Examples
    --------
    >>> as_stamp("1970-01-02") / 86400e6
    1.0
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and value == value:
        return float(value)  # a stamp already
    try:
        stamp = np.datetime64(without_zone(value), "us")
    except (ValueError, TypeError):
        raise ValueError(f"Expected a date such as '2020-01-31', but found {value!r}.") from None
    if np.isnat(stamp):
        raise ValueError(f"Expected a date such as '2020-01-31', but found {value!r}.")
    return float(stamp.astype(np.int64))


def without_zone(value: Any) -> Any:
    """A date in UTC without its time zone, which NumPy does not know; anything else as it is."""
    if getattr(value, "tzinfo", None) is not None:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    return value


EXAMPLE = "patients"  # what the command line calls it


def example_csv() -> Path:
    """The path of a csv that ships with the package: 1,500 made-up visits to a clinic.

    Its 12 columns are numbers, categories, yes and no, and a date; some cells are missing. On the
    command line the table is called ``patients``.

    Returns
    -------
    Path

    Examples
    --------
    >>> import pandas as pd
    >>> pd.read_csv(example_csv()).shape
    (1500, 12)
    """
    return Path(__file__).with_name("patients.csv")
