"""What the page shows as columns, and which 0/1 variables it takes together.

In:  a model over 0/1 variables, and the code of its table if it has one.
Out: `PageColumn`s, as people see them, and `Slot`s, the variables of the circuit on the page.

The bits of a column usually are one subtree of the vtree. Then they are one slot, with a value for
each codeword. Where they are scattered, each piece that is a subtree of its own is a slot, and a
value of the column is one value in each of its slots.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from strudel._names import names_of
from strudel._types import NONE, AnyArray, ByteArray, FloatArray
from strudel.queries.model import Model
from strudel.tables.coded_column import BIT, Column, has_one_value_per_cell
from strudel.tables.columns import date_text, duration_text, number_text
from strudel.tables.filled_table import has_mean
from strudel.tables.table_code import code_of_bits
from strudel.trees.vtree import Vtree


@dataclass(frozen=True)
class PageColumn:
    """One column as the page shows it."""

    name: str
    kind: str  # "bit", "boolean", "category", "ordinal", "number" or "date"
    labels: tuple[str, ...]  # (n_values,) as Python calls the values
    texts: tuple[str, ...]  # (n_values,) as the page calls them
    numbers: tuple[float, ...]  # (n_values,) what stands for each cell in a mean; or none
    dtype: str
    slots: tuple[int, ...]  # none where the components decide, as the class of a classifier
    codes: tuple[tuple[int, ...], ...]  # (n_values, n_slots) the value in each slot

    @property
    def n_values(self) -> int:
        """Number of values or cells."""
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Slot:
    """One variable of the circuit on the page: the variables of a vtree node."""

    vtree_node: int
    variables: tuple[int, ...]
    patterns: ByteArray  # (n_values, n_variables) the bits of each value
    share: FloatArray  # (n_values,) how probable each is given its bits, where several share them


def columns_and_slots(
    model: Model, *, is_by_vtree: bool
) -> tuple[tuple[PageColumn, ...], tuple[Slot, ...]]:
    """The columns of the table, or the variables, and the slots that their bits become.

    Only a model whose nodes lie at the nodes of its vtree can take variables together.
    """
    code = model.table_code
    if code is None:
        code = code_of_bits(names_of(model.n_vars, model.feature_names), "numpy")
    slots: list[Slot] = []
    columns = []
    for column in code.columns:
        first = len(slots)
        words = []
        is_rare = np.bincount(column.value_cell)[column.value_cell] > 1  # shares its cell
        for v in _pieces(model.vtree, column.variables, is_by_vtree):
            variables = tuple(sorted(model.vtree.scope(v)))
            bits = column.cell_words[:, np.array(variables) - column.start]
            _, again, count = np.unique(bits, axis=0, return_inverse=True, return_counts=True)
            # Rare values are told apart in the first slot that tells their cell from all others.
            is_own = is_rare & (count[again.ravel()] == 1)[column.value_cell]
            is_rare &= ~is_own
            own = np.where(is_own, 1 + np.arange(column.n_values), 0)
            keys = np.column_stack([bits[column.value_cell], own])
            patterns = np.unique(keys, axis=0)
            if len(patterns) == len(keys):  # in the order of the column's values
                patterns = keys
            share = np.where(patterns[:, -1] > 0, column.value_share[patterns[:, -1] - 1], 1.0)
            slots.append(Slot(v, variables, patterns[:, :-1].astype(np.uint8), share))
            words.append([_place(key, patterns) for key in keys])
        codes = tuple(zip(*words, strict=True))
        columns.append(_page_column(column, tuple(range(first, len(slots))), codes))
    return tuple(columns), tuple(slots)


def class_column(name: str, classes: Sequence[object], taken: Sequence[str]) -> PageColumn:
    """The class of a classifier whose components each belong to one class."""
    while name in taken:
        name += "_"
    labels = tuple(map(str, classes))
    return PageColumn(name, "category", labels, labels, (), "object", (), ())


def _pieces(vtree: Vtree, variables: Sequence[int], is_by_vtree: bool) -> list[int]:
    """The highest vtree nodes that hold nothing but some of these variables."""
    own = np.zeros(vtree.n_vars, dtype=bool)
    own[list(variables)] = True
    if not is_by_vtree:
        return [int(vtree.var_leaf[var]) for var in variables]
    first, last = vtree.node_span
    pieces = []
    for var in variables:
        v, up = NONE, int(vtree.var_leaf[var])
        while up != NONE and last[up] - first[up] <= len(variables):
            if not own[vtree.order[first[up] : last[up]]].all():
                break
            v, up = up, int(vtree.node_parent[up])
        if v not in pieces:
            pieces.append(v)
    return pieces


def _place(key: AnyArray, patterns: AnyArray) -> int:
    return int(np.flatnonzero((patterns == key).all(axis=1))[0])


def _page_column(
    column: Column, slots: tuple[int, ...], codes: tuple[tuple[int, ...], ...]
) -> PageColumn:
    numbers: tuple[float, ...] = ()
    if has_mean(column) and column.kind != BIT:
        numbers = tuple(column.cell_means.tolist())
        if not all(map(math.isfinite, numbers)):
            numbers = ()
    return PageColumn(
        column.name,
        column.kind,
        column.labels,
        _texts(column),
        numbers,
        column.dtype,
        slots,
        codes,
    )


def _texts(column: Column) -> tuple[str, ...]:
    """What the page calls the values: cells of numbers and dates, and booleans, in words.

    Examples
    --------
    >>> from strudel.tables.columns import RawColumn
    >>> from strudel.tables.learn_code import CodeOptions, learn_column
    >>> ages = RawColumn("age", "integer", np.arange(100.0))
    >>> _texts(learn_column(ages, 0, options=CodeOptions(n_bins=4)))
    ('24 or less', '25 to 49', '50 to 74', '75 or more')
    >>> heights = RawColumn("height", "float", np.arange(100.0) / 2)
    >>> _texts(learn_column(heights, 0, options=CodeOptions(n_bins=4)))
    ('under 12.5', '12.5 to 25', '25 to 37.5', '37.5 or more')
    >>> incomes = RawColumn("income", "integer", 1000 * np.arange(100.0))
    >>> _texts(learn_column(incomes, 0, options=CodeOptions(n_bins=4)))[1]
    '25,000 to 49,999'
    """
    is_date = column.kind == "date"
    if column.labels == ("False", "True"):
        return ("no", "yes")
    if column.kind not in ("number", "date") or not column.edges:
        return column.labels
    if has_one_value_per_cell(column.values, column.edges, column.ranges):
        return column.labels
    if column.dtype == "integer":
        return tuple(map(_grouped, _whole_numbers(column)))
    if is_date:
        ends = [date_text(edge) for edge in column.edges]
    elif column.dtype == "duration":
        ends = [duration_text(edge) for edge in column.edges]
    else:
        ends = [_grouped(number_text(edge)) for edge in column.edges]
    below, above = ("before {}", "from {} on") if is_date else ("under {}", "{} or more")
    inner = [f"{a} to {b}" for a, b in pairwise(ends)]
    return (below.format(ends[0]), *inner, above.format(ends[-1]))


def _grouped(text: str) -> str:
    """A text with commas in its numbers, where these are 10,000 or more."""
    return re.sub(r"(?<![\d.])\d{5,}", lambda found: f"{int(found[0]):,}", text)


def _whole_numbers(column: Column) -> tuple[str, ...]:
    """Cells of whole numbers by the first and the last that is in them, so that none is in two."""
    first = [math.ceil(edge) for edge in column.edges]
    inner = [str(a) if b - a == 1 else f"{a} to {b - 1}" for a, b in pairwise(first)]
    (low, lowest), (low_of_last, high) = column.ranges[0], column.ranges[-1]
    below = number_text(low) if low == lowest else f"{first[0] - 1} or less"
    above = number_text(high) if low_of_last == high else f"{first[-1]} or more"
    return (below, *inner, above)
