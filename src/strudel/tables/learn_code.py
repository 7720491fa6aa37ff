"""Learning the code of a column: its kind, its values or cells, and their codewords.

In:  a `RawColumn` and options.
Out: a `Column`.
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
    code: str = "thermometer"
    max_categories: int = 128
    has_tails: bool = False  # whether the outer cells of quantiles are halved again and again


def learn_column(
    raw: RawColumn, start: int, kind: Any = None, options: CodeOptions | None = None, y: Any = None
) -> CodedColumn:
    """The code of a column whose variables start at `start`.

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
        return _learn_cells(raw, start, kind, options, y)
    if kind == "boolean":
        return _learn_boolean(raw, start)
    return _learn_values(raw, start, kind, order, options)


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


def _learn_boolean(raw: RawColumn, start: int) -> CodedColumn:
    """One variable, which has the name of the column."""
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
    return CodedColumn(
        raw.name,
        "boolean",
        tuple(number_text(value) if make is float else str(value) for value in values),
        values,
        counts=counts,
        dtype=dtype,
        start=start,
        stop=start + 1,
        codewords=np.array([[0], [1]], dtype=np.uint8),
        variable_names=(raw.name,),
    )


def _learn_values(
    raw: RawColumn, start: int, kind: str, order: list[Any] | None, options: CodeOptions
) -> CodedColumn:
    """The code of a category or an ordinal."""
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
    own = labels[: len(labels) - len(rare)]
    cells = (*own, *([f"any of {len(rare)} rare values"] if rare else []))
    is_ordered = kind == "ordinal" and options.code == "thermometer"
    words, names = _words_of_values(raw.name, kind, cells, is_ordered=is_ordered)
    return CodedColumn(
        raw.name,
        kind,
        labels,
        tuple(values),
        counts=tuple(counts[value] for value in values),
        dtype=dtype,
        start=start,
        stop=start + len(names),
        codewords=words,
        variable_names=names,
        groups=tuple(min(place, len(cells) - 1) for place in range(len(values))) if rare else (),
    )


def _words_of_values(
    name: str, kind: str, cells: Sequence[str], *, is_ordered: bool
) -> tuple[ByteArray, tuple[str, ...]]:
    """The codewords of the cells of a category or an ordinal, and the names of its variables."""
    if not is_ordered and len(cells) > 2:
        return _one_hot(name, cells)
    words, names = _code(name, cells, [f"{name}>={label}" for label in cells[1:]])
    if kind == "category" or len(cells) == 1:
        names = (f"{name}={cells[-1]}",)
    return words, names


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


def _learn_cells(
    raw: RawColumn, start: int, kind: str, options: CodeOptions, y: Any
) -> CodedColumn:
    """The code of a column of numbers or dates."""
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
    words, names = _code(raw.name, labels, [f"{raw.name}>={text(edge)}" for edge in edges])
    if options.code == "one_hot" and len(labels) > 2:
        words, names = _one_hot(raw.name, labels)
    dtype = raw.dtype if raw.dtype in NUMERIC else "datetime" if is_date else "float"
    if dtype in ("integer", "boolean"):
        dtype = "integer" if all(isinstance(value, int) for value in values) else "float"
    return CodedColumn(
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
        start=start,
        stop=start + len(names),
        codewords=words,
        variable_names=names,
    )


def with_fine_cells(raw: RawColumn, column: CodedColumn) -> CodedColumn:
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


def _code(name: str, labels: Sequence[str], names: list[str]) -> tuple[ByteArray, tuple[str, ...]]:
    """Thermometer codewords: value k has its first k bits set. One value has the bit 1."""
    if len(labels) == 1:
        return np.ones((1, 1), dtype=np.uint8), (f"{name}={labels[0]}",)
    return np.tri(len(labels), len(labels) - 1, -1, dtype=np.uint8), tuple(names)


def _one_hot(name: str, labels: Sequence[str]) -> tuple[ByteArray, tuple[str, ...]]:
    """One-hot codewords: value k has only bit k set."""
    return np.eye(len(labels), dtype=np.uint8), tuple(f"{name}={label}" for label in labels)


def with_distinct_names(columns: list[CodedColumn]) -> list[CodedColumn]:
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


def code_of_columns(columns: Columns) -> TableCode:
    """A code for columns that were learned before, as a learner takes to go on from them."""
    made: list[CodedColumn] = []
    for column in columns:
        start = made[-1].stop if made else 0
        words, names = _words_of(column)
        own: dict[str, Any] = {field.name: getattr(column, field.name) for field in fields(Column)}
        own |= {"start": start, "stop": start + len(names)}
        made.append(CodedColumn(**own, codewords=words, variable_names=names))
    return TableCode(
        tuple(with_distinct_names(made)),
        columns.container,
        columns.unknown,
        columns.left_out,
        columns.missingness,
    )


def _words_of(column: Column) -> tuple[ByteArray, tuple[str, ...]]:
    """The codeword of every group of a column, and the names of its variables."""
    name, first = column.name, column.first_of_group
    if column.kind in ("boolean", BIT):
        return np.array([[0], [1]], dtype=np.uint8), (name,)
    if column.is_numeric:
        edges = (bound_text(column, column.edges[at - 1]) for at in first[1:].tolist())
        return _code(name, column.shown.labels, [f"{name}>={edge}" for edge in edges])
    sizes = np.bincount(column.group_of_cell)
    groups = [
        column.labels[at] if size == 1 else f"any of {size} rare values"
        for at, size in zip(first.tolist(), sizes.tolist(), strict=True)
    ]
    return _words_of_values(name, column.kind, groups, is_ordered=column.kind == "ordinal")
