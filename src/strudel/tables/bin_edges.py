"""Edges: where a column of numbers is cut into cells.

In:  the known values of a column.
Out: increasing edges; cell j holds ``edges[j - 1] <= x < edges[j]``, and the outer cells are open.

Of all edges that cut the values alike, the shortest decimal number (or the roundest date) is taken,
so that a variable is called ``age>=40`` and not ``age>=39.84210526``.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from strudel._types import FloatArray

_DURATIONS = {
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
_DATE_UNITS = ("Y", "M", "D", "h", "m", "s", "ms", "us")
Rounding = Callable[[float, float], float]
LEAST_TAIL_ROWS = 30  # of a cell in a tail


def quantile_edges(known: FloatArray, n_bins: int, shortest: Rounding) -> list[float]:
    """Cells with about equally many values; one cell per value if there are at most `n_bins`.

    Examples
    --------
    >>> quantile_edges(np.arange(100.0), 4, shortest_number)
    [25.0, 50.0, 75.0]
    >>> quantile_edges(np.array([1.0, 5.0, 5.0]), 4, shortest_number)
    [5.0]
    """
    values, counts = np.unique(known, return_counts=True)
    if len(values) <= n_bins:  # an edge at the value itself, not between it and the one before
        return [float(value) for value in values[1:]]
    below = np.cumsum(counts)[:-1] / len(known)  # share of values below the cut after each
    cuts = {int(np.argmin(np.abs(below - share / n_bins))) for share in range(1, n_bins)}
    return [shortest(float(values[cut]), float(values[cut + 1])) for cut in sorted(cuts)]


def tail_edges(known: FloatArray, edges: Sequence[float], shortest: Rounding) -> list[float]:
    """Edges that halve the rows of the outer cells again and again, down to some tens of rows.

    Examples
    --------
    >>> known = np.arange(1000.0)
    >>> tail_edges(known, [125.0, 875.0], shortest_number)
    [31.0, 62.0, 937.0, 968.0]
    """
    if not edges:
        return []
    values, counts = np.unique(known, return_counts=True)
    below = np.cumsum(counts)[:-1]  # rows below the cut after each value
    found = []
    for beyond, n_outer in (
        (below, int(np.sum(known < edges[0]))),
        (len(known) - below, int(np.sum(known >= edges[-1]))),
    ):
        while True:
            # Neither what is cut off nor what is left of the outer cell may be too small.
            is_open = (beyond >= LEAST_TAIL_ROWS) & (beyond <= n_outer - LEAST_TAIL_ROWS)
            if not is_open.any():
                break
            cut = int(np.argmin(np.where(is_open, np.abs(beyond - n_outer / 2), np.inf)))
            found.append(shortest(float(values[cut]), float(values[cut + 1])))
            n_outer = int(beyond[cut])
    return sorted(found)


def uniform_edges(known: FloatArray, n_bins: int, shortest: Rounding) -> list[float]:
    """Cells of about equal width, up to a hundredth of it.

    Examples
    --------
    >>> uniform_edges(np.array([0.0, 1.0, 9.0]), 3, shortest_number)
    [3.0, 6.0]
    """
    low, high = float(known.min()), float(known.max())
    slack = (high - low) / n_bins / 100.0
    edges = np.linspace(low, high, n_bins + 1)[1:-1].tolist()
    rounded = [shortest(edge - slack, edge + slack) for edge in edges] if slack > 0 else []
    return sorted({edge for edge in rounded if low < edge <= high})


def supervised_edges(known: FloatArray, y: Any, n_bins: int, shortest: Rounding) -> list[float]:
    """The cuts of a small decision tree that predicts `y` from the column."""
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
    from sklearn.utils.multiclass import type_of_target

    values = np.unique(known)
    if len(values) < 2:
        return []
    is_class = type_of_target(y) in ("binary", "multiclass")
    tree = DecisionTreeClassifier if is_class else DecisionTreeRegressor
    # A hundredth of the rows in every cell: a cut for a few rows is noise.
    fitted = tree(max_leaf_nodes=n_bins, min_samples_leaf=max(1, len(known) // 100), random_state=0)
    # Ranks, because trees compare in single precision, and dates need more.
    fitted.fit(np.searchsorted(values, known).reshape(-1, 1), y)
    inner = fitted.tree_.children_left >= 0
    cuts = sorted({int(threshold) for threshold in fitted.tree_.threshold[inner]})
    if not cuts:  # the column alone says nothing about y, but may do so with others
        return quantile_edges(known, 2, shortest)
    return [shortest(float(values[cut]), float(values[cut + 1])) for cut in cuts]


def most_even(edges: Sequence[float], known: FloatArray, n_bins: int) -> list[float]:
    """Of these edges those for at most `n_bins` cells with about equally many values.

    Examples
    --------
    >>> most_even([1.0, 2.0, 5.0, 8.0, 9.0], np.arange(10.0), 3)
    [2.0, 8.0]
    """
    if len(edges) < n_bins:
        return list(edges)
    below = np.array([np.mean(known < edge) for edge in edges])
    kept = {int(np.argmin(np.abs(below - share / n_bins))) for share in range(1, n_bins)}
    return [edges[place] for place in sorted(kept)]


def shortest_number(a: float, b: float) -> float:
    """The decimal number x with a < x <= b that has the fewest decimals.

    Examples
    --------
    >>> shortest_number(37.4218, 37.4303), shortest_number(998, 1204), shortest_number(-0.3, 0.2)
    (37.43, 1000.0, 0.0)
    """
    if a < 0.0 <= b:
        return 0.0
    first = -math.ceil(math.log10(max(abs(a), abs(b))))
    for digits in range(first, first + 18 if abs(first) < 250 else first):
        scale = 10.0 ** abs(digits)
        scaled = b * scale if digits >= 0 else b / scale
        floor = math.floor(scaled)
        candidate = floor / scale if digits >= 0 else floor * scale
        if a < candidate <= b:
            return float(candidate)
    return b


def shortest_date(a: float, b: float) -> float:
    """The roundest date x with a < x <= b, all in microseconds since 1970.

    Examples
    --------
    >>> day = 86400e6
    >>> shortest_date(100 * day, 500 * day) / day  # the start of 1971
    365.0
    """
    later = np.datetime64(int(b), "us")
    for unit in _DATE_UNITS:
        candidate = float(later.astype(f"datetime64[{unit}]").astype("datetime64[us]").astype(int))
        if a < candidate <= b:
            return candidate
    return b


def shortest_duration(a: float, b: float) -> float:
    """The roundest duration x with a < x <= b, all in microseconds.

    Examples
    --------
    >>> shortest_duration(1.2 * 3600e6, 3.4 * 3600e6) / 3600e6
    3.0
    """
    for unit in _DURATIONS.values():
        candidate = math.floor(b / unit) * unit
        if a < candidate <= b:
            return candidate
    return b


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
    total = float(number) * _DURATIONS[_UNITS[unit]] if number else 0.0
    for part, size in ((hours, "h"), (minutes, "min"), (seconds, "s")):
        total += float(part or 0.0) * _DURATIONS[size]
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
