"""Learning a column: its kind, its values or cells; and the code of learned columns.

In:  a `RawColumn` and options.
Out: a `Column`; of all columns together a `TableCode`.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np

from strudel._names import quote
from strudel._types import ByteArray, FloatArray
from strudel.errors import ManyCategoriesWarning, outer_stack_level
from strudel.tables.choose_cells import (
    ENOUGH,
    Rounding,
    fine_edges,
    quantile_edges,
    shortest_date,
    shortest_duration,
    shortest_number,
    supervised_edges,
    tail_edges,
    uniform_edges,
)
from strudel.tables.coded_column import CodedColumn
from strudel.tables.column import BIT, KINDS, Column, bound_text, labels_of_numbers
from strudel.tables.columns import (
    NUMERIC,
    RawColumn,
    as_duration,
    as_stamp,
    date_text,
    duration_text,
    is_missing,
    number_text,
)
from strudel.tables.density import (
    LARGEST,
    TINIEST,
    Density,
    density_of_points,
    learn_density,
)
from strudel.tables.schema import Columns
from strudel.tables.table_code import TableCode

_PLAIN = re.compile(r"[+-]?\d+")
_FORMS = (  # how people write numbers and dates, and what to do; thousands before decimals
    (
        re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?"),
        "numbers with commas between thousands",
        "write them without commas, as 1485 for 1,485",
    ),
    (
        re.compile(r"[+-]?\d+,\d+"),
        "numbers with a decimal comma",
        "write them with a point, as 1.5 for 1,5",
    ),
    (
        re.compile(r"\d{1,2}[/.-]\d{1,2}[/.-]\d{2,4}( .*)?|\d{4}[/.]\d{1,2}[/.]\d{1,2}( .*)?"),
        "dates in another form",
        "write them year first, as 2000-01-31",
    ),
    (
        re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"),
        "numbers",
        "leave the other cells empty",
    ),
)
FEW_CATEGORIES = 32  # of so many all have a cell each; of more, those that come once have none
FEWEST_ROWS = 10  # of a category with a cell of its own, where there are more


@dataclass(frozen=True)
class CodeOptions:
    """How columns become variables; see `TableEncoder`."""

    n_bins: int = 8
    edges: Any = "quantile"  # a method, or the edges themselves
    max_categories: int = 128
    has_tails: bool = False  # whether the outer cells of quantiles are halved again and again


def learn_column(
    raw: RawColumn, kind: Any = None, options: CodeOptions | None = None, y: Any = None
) -> Column:
    """A column with its cells.

    `kind` is one of KINDS, or the values of an ordinal in their order; by default what fits the
    column's type. `y` is the target of supervised edges.
    """
    options = options or CodeOptions()
    order = None if kind is None or isinstance(kind, str) else list(kind)
    kind = "ordinal" if order is not None else kind or _kind_of(raw)
    if kind not in KINDS:
        raise ValueError(
            f"The kind of column {raw.name!r} must be {quote((*KINDS, 'ignore'), 6)} or a list of "
            f"the values of an ordinal in their order, but is {kind!r}."
        )
    if kind in ("number", "date"):
        return _learn_cells(raw, kind, options, y)
    if kind == "boolean":
        return _learn_boolean(raw)
    return _learn_values(raw, kind, order, options)


def _kind_of(raw: RawColumn) -> str:
    """The kind that fits a column's type."""
    if raw.dtype in ("boolean", "enum"):
        return "boolean" if raw.dtype == "boolean" else "ordinal"
    if raw.dtype in ("date", "datetime"):
        return "date"
    if raw.dtype in NUMERIC:
        known = raw.known()
        is_binary = len(known) > 0 and bool(np.all((known == 0.0) | (known == 1.0)))
        return "boolean" if is_binary else "number"
    return "category"


def _learn_boolean(raw: RawColumn) -> Column:
    """A column of two values."""
    cells = [cell for cell in raw.objects() if cell is not None]
    strange = next((cell for cell in cells if cell not in (0, 1)), None)
    if strange is not None:
        raise ValueError(
            f"Column {raw.name!r} cannot be boolean: it holds {strange!r}, which is not "
            "True, False, 0 or 1. Give it another kind."
        )
    make = {"boolean": bool, "integer": int, "float": float}.get(raw.dtype, bool)
    values = (make(0), make(1))
    counts = tuple(sum(cell == value for cell in cells) for value in values)
    dtype = raw.dtype if raw.dtype in ("boolean", "integer", "float") else "boolean"
    return Column(
        raw.name,
        "boolean",
        tuple(number_text(value) if make is float else str(value) for value in values),
        values,
        counts=counts,
        dtype=dtype,
    )


def _learn_values(
    raw: RawColumn, kind: str, order: list[Any] | None, options: CodeOptions
) -> Column:
    """A category or an ordinal."""
    known = [cell for cell in raw.objects() if cell is not None]
    _check_types(raw, known)
    counts = Counter(known)
    values = _values_in_order(raw, kind, order, counts)
    rare: list[Any] = []
    if kind == "category" and len(values) > min(options.max_categories, FEW_CATEGORIES):
        rare = _rare_values(counts, values, options.max_categories)
        values = [value for value in values if value not in set(rare)] + rare
        if raw.dtype not in NUMERIC:
            _warn_if_not_text(raw, values)
    dtype = raw.dtype if raw.dtype not in ("date", "datetime") else "object"
    labels = tuple(map(str, values))
    if len(set(labels)) < len(labels):
        labels = tuple(map(repr, values))
    if not values:  # nothing is known of this column
        values, labels = [None], ("unknown",)
    n_alone = len(values) - len(rare)
    return Column(
        raw.name,
        kind,
        labels,
        tuple(values),
        counts=tuple(counts[value] for value in values),
        dtype=dtype,
        groups=tuple(min(place, n_alone) for place in range(len(values))) if rare else (),
    )


def _rare_values(counts: Counter[Any], values: list[Any], most: int) -> list[Any]:
    """The values that share a cell: the rarest of those beyond the few, and what is too much."""
    order = counts.most_common()
    n_some, n_more = (sum(n_rows >= few for _, n_rows in order) for few in (FEWEST_ROWS, 2))
    n_own = max(n_some, min(n_more, FEW_CATEGORIES - 1))
    n_own = n_own if n_own == len(values) <= most else min(n_own, most - 1)
    frequent = {value for value, _ in order[:n_own]}
    rare = [value for value in values if value not in frequent]
    return rare if len(rare) > 1 else []


def _warn_if_not_text(raw: RawColumn, values: list[Any]) -> None:
    """Warn of many categories that were probably meant to be numbers or dates."""
    advice = looks_like(values)
    if advice:
        warnings.warn(
            ManyCategoriesWarning(
                f"Column {raw.name!r} has {len(values)} categories.{advice}",
                "Drop the column if it is an identifier.",
                column=raw.name,
            ),
            stacklevel=outer_stack_level(),
        )


def looks_like(values: list[Any]) -> str:
    """A sentence, after a space, on text that was probably meant to be something else."""
    for kind, read, how in (
        ("numbers", float, "astype(float)"),
        ("dates", as_stamp, "to_datetime"),
    ):
        try:
            for value in values:
                read(value)
        except (ValueError, TypeError):
            continue
        return (
            f" Its values look like {kind}: convert them first, for example with {how} in pandas."
        )
    for form, what, advice in _FORMS:
        fits = [value for value in values if isinstance(value, str) and form.fullmatch(value)]
        n_plain = sum(bool(_PLAIN.fullmatch(str(value))) for value in values)
        if fits and 2 * (len(fits) + n_plain) > len(values):
            return f" Most of its values look like {what}, such as {fits[0]!r}: {advice}."
    return ""


def _check_types(raw: RawColumn, cells: list[Any]) -> None:
    """Refuse values that a model file could not hold."""
    for cell in cells:
        if not isinstance(cell, str | int | float):
            raise ValueError(
                f"Column {raw.name!r} holds {cell!r} of type {type(cell).__name__}. Turn the "
                "column into text, numbers, booleans or dates, or drop it."
            )


def _values_in_order(
    raw: RawColumn, kind: str, order: list[Any] | None, counts: Counter[Any]
) -> list[Any]:
    """The values a category or ordinal may have, in their order."""
    if order is None and kind == "ordinal" and raw.categories is None and raw.dtype not in NUMERIC:
        some = quote(sorted(map(str, counts))[:5])
        raise ValueError(
            f"Column {raw.name!r} is text, whose order is not known. Give the values in their "
            f"order, as in kinds={{{raw.name!r}: [{some}]}}."
        )
    if order is None and raw.categories is not None:
        order = [value for value in raw.categories if not is_missing(value)]
    if order is None:
        return sorted(counts, key=lambda value: (isinstance(value, str), value))
    order = [value.item() if isinstance(value, np.generic) else value for value in order]
    if len(set(order)) < len(order):
        raise ValueError(f"The values of column {raw.name!r} must be distinct, but are {order!r}.")
    strange = next((value for value in counts if value not in set(order)), None)
    if strange is not None:
        raise ValueError(
            f"Column {raw.name!r} holds {strange!r}, which is not one of its values "
            f"{quote(list(map(str, order)))}. Add it to kinds[{raw.name!r}], or correct it."
        )
    return order


def _learn_cells(raw: RawColumn, kind: str, options: CodeOptions, y: Any) -> Column:
    """A column of numbers or dates."""
    is_date = kind == "date"
    known = raw.known()
    if len(known) and (raw.dtype not in NUMERIC or (raw.dtype in ("date", "datetime")) != is_date):
        raise ValueError(
            f"Column {raw.name!r} cannot be of kind {kind!r}: it holds {known[0]!r}. "
            f"Turn it into {'dates' if is_date else 'numbers'} first, or give it another kind."
        )
    text = date_text if is_date else duration_text if raw.dtype == "duration" else number_text
    edges = _edges(raw, options, y, is_date)
    finite = _finite(raw)
    is_whole = raw.dtype in ("integer", "boolean", "duration") or is_date
    values, ranges, counts = _numbers_in_cells(finite, edges, is_whole)
    is_known = values != (None,)
    labels = labels_of_numbers(text, values, edges, ranges) if is_known else ("unknown",)
    dtype = raw.dtype if raw.dtype in NUMERIC else "datetime" if is_date else "float"
    if dtype in ("integer", "boolean"):
        dtype = "integer" if all(isinstance(value, int) for value in values) else "float"
    return Column(
        raw.name,
        kind,
        labels,
        values,
        tuple(edges),
        ranges,
        counts,
        dtype,
        raw.zone,
        _density(raw, finite, edges, is_date)
        if len(finite)
        else density_of_points([low for low, _ in ranges]),
    )


def with_fine_cells(raw: RawColumn, column: Column) -> Column:
    """A column of numbers or dates whose cells are groups of finer ones.

    The median of a group stands for the cell that it lies in.
    """
    finite = _finite(raw)
    edges = fine_edges(finite, column.edges, shortest_of(column.kind, column.dtype))
    if len(edges) == len(column.edges):
        return column
    is_whole = raw.dtype in ("integer", "boolean", "duration") or column.kind == "date"
    values, ranges, counts = _numbers_in_cells(finite, edges, is_whole)
    stands = list(values)
    for value in column.values:
        stands[int(np.searchsorted(edges, value, side="right"))] = value
    groups = np.searchsorted(column.edges, [-np.inf, *edges], side="right")
    return replace(
        column,
        labels=labels_of_numbers(partial(bound_text, column), stands, edges, ranges),
        values=tuple(stands),
        edges=tuple(edges),
        ranges=ranges,
        counts=counts,
        groups=tuple(groups.tolist()),
    )


def _numbers_in_cells(
    finite: FloatArray, edges: Sequence[float], is_whole: bool
) -> tuple[tuple[Any, ...], tuple[tuple[float, float], ...], tuple[int, ...]]:
    """For every cell what stands for it, the smallest and largest number seen, and their count."""
    if not len(finite) and not edges:
        return (None,), ((0.0, 0.0),), (0,)
    ordered = np.sort(finite)
    parts = np.split(ordered, np.searchsorted(ordered, edges, side="left"))
    values = tuple(
        _representative(inside, cell, edges, is_whole) for cell, inside in enumerate(parts)
    )
    ranges = tuple(
        (float(inside[0]), float(inside[-1])) if len(inside) else (float(value),) * 2
        for value, inside in zip(values, parts, strict=True)
    )
    return values, ranges, tuple(map(len, parts))


def shortest_of(kind: str, dtype: str) -> Rounding:
    """How edges of a column are rounded."""
    shortest = shortest_date if kind == "date" else shortest_number
    return shortest_duration if dtype == "duration" else shortest


def _density(raw: RawColumn, finite: FloatArray, edges: Sequence[float], is_date: bool) -> Density:
    """How the known values of a column are distributed."""
    is_typed = raw.dtype in ("integer", "boolean", "date")
    is_date = is_date or raw.dtype == "duration"
    return learn_density(finite, edges, is_typed=is_typed, is_date=is_date)


def _finite(raw: RawColumn) -> FloatArray:
    """The known numbers of a column that are finite; the tiniest, of which no density is, are 0."""
    known = raw.known().astype(np.float64)
    found = known[np.isfinite(known)]
    if len(found) and np.abs(found).max() > LARGEST:
        raise ValueError(
            f"Column {raw.name!r} holds {found[np.argmax(np.abs(found))]:g}, but numbers beyond "
            f"{LARGEST:g} have no variance. Leave the cell empty if it is unknown, or divide the "
            "column by a power of ten."
        )
    return np.where(np.abs(found) < TINIEST, 0.0, found)


def _edges(raw: RawColumn, options: CodeOptions, y: Any, is_date: bool) -> list[float]:
    finite = _finite(raw)
    is_duration = raw.dtype == "duration"
    shortest = shortest_of("date" if is_date else "number", raw.dtype)
    if not isinstance(options.edges, str):
        read = as_stamp if is_date else as_duration if is_duration else lambda edge: edge
        edges = [read(edge) for edge in options.edges]
        if not all(isinstance(edge, int | float | np.number) for edge in edges) or any(
            not abs(edge) <= LARGEST for edge in edges
        ):
            raise ValueError(
                f"The edges of column {raw.name!r} must be numbers up to {LARGEST:g}, or dates, "
                f"but are {list(options.edges)!r}."
            )
        return sorted({float(edge) for edge in edges})
    if not len(finite):
        return []
    if options.edges == "supervised":
        target = y[~raw.is_missing()][np.isfinite(raw.known().astype(np.float64))]
        return supervised_edges(finite, target, options.n_bins, shortest)
    if options.edges == "uniform":
        return uniform_edges(finite, options.n_bins, shortest)
    edges = quantile_edges(finite, options.n_bins, shortest)
    if options.has_tails and not is_date and len(finite) >= ENOUGH:
        edges = sorted({*edges, *tail_edges(finite, edges, shortest)})
    return edges


def _representative(
    inside: FloatArray, cell: int, edges: Sequence[float], is_whole: bool
) -> float | int:
    """The median of a cell, or if nothing fell into it, its middle or its only edge."""
    if len(inside):
        value = float(inside[(len(inside) - 1) // 2])
        return int(value) if is_whole else value
    if 0 < cell < len(edges):
        low, high = edges[cell - 1], edges[cell]
        middle = low + (high - low) / 2.0
        whole = np.floor(middle) if np.floor(middle) >= low else np.ceil(middle)
        return int(whole) if is_whole and low <= whole < high else middle
    if cell == 0:
        below = (
            edges[0] - 1.0 if edges[0] - 1.0 < edges[0] else float(np.nextafter(edges[0], -np.inf))
        )
        return int(np.floor(below)) if is_whole else below
    return int(np.ceil(edges[-1])) if is_whole else edges[-1]


def _with_distinct_names(columns: list[CodedColumn]) -> list[CodedColumn]:
    """The columns with a number after variable names that another column has or is called by."""
    called = {column.name for column in columns}
    seen: set[str] = set()
    result = []
    for column in columns:
        taken = seen | called - {column.name}
        names = []
        for name in column.variable_names:
            number, distinct = 1, name
            while distinct in taken:
                number += 1
                distinct = f"{name} ({number})"
            taken.add(distinct)
            names.append(distinct)
        seen.update(names)
        result.append(replace(column, variable_names=tuple(names)))
    return result


def code_of_columns(columns: Columns, *, is_one_hot: bool = False) -> TableCode:
    """The code of columns: a variable for every edge between groups, or one hot."""
    made: list[CodedColumn] = []
    for column in columns:
        start = made[-1].stop if made else 0
        words, names = _words_of(column, is_one_hot)
        own: dict[str, Any] = {field.name: getattr(column, field.name) for field in fields(Column)}
        own |= {"start": start, "stop": start + len(names)}
        made.append(CodedColumn(**own, codewords=words, variable_names=names))
    return TableCode(
        tuple(_with_distinct_names(made)),
        columns.container,
        columns.unknown,
        columns.left_out,
        columns.missingness,
    )


def _words_of(column: Column, is_one_hot: bool) -> tuple[ByteArray, tuple[str, ...]]:
    """The codeword of every group of a column, and the names of its variables."""
    name, first = column.name, column.first_of_group.tolist()
    if column.kind in ("boolean", BIT):
        return np.array([[0], [1]], dtype=np.uint8), (name,)
    labels = column.shown.labels
    if not column.is_numeric:
        sizes = np.bincount(column.group_of_cell).tolist()
        labels = tuple(
            column.labels[at] if size == 1 else f"any of {size} rare values"
            for at, size in zip(first, sizes, strict=True)
        )
    n = len(labels)
    if n > 2 and (is_one_hot or column.kind == "category"):
        return np.eye(n, dtype=np.uint8), tuple(f"{name}={label}" for label in labels)
    if n == 1 or column.kind == "category":
        words = np.tri(n, max(n - 1, 1), -1, dtype=np.uint8) if n > 1 else np.ones((1, 1), np.uint8)
        return words, (f"{name}={labels[-1]}",)
    said = labels[1:]
    if column.is_numeric:
        said = tuple(bound_text(column, column.edges[at - 1]) for at in first[1:])
    return np.tri(n, n - 1, -1, dtype=np.uint8), tuple(f"{name}>={text}" for text in said)
