"""Columns that look like identifiers: nearly every row has its own value, and it tells nothing.

In:  the columns of a table.
Out: the names of those that a model should leave out, with how many of their values are distinct.

Text of which nearly all values are distinct tells a model nothing. Whole numbers may: an income in
whole dollars is also nearly distinct. They are identifiers only if they have the look of one (they
count on, all have as many digits, or are spread evenly) and no other column depends on them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.tables.choose_cells import NOTHING, coarse_places
from strudel.tables.columns import NUMERIC, RawColumn

FEWEST_ROWS = 50  # that a column must have to be called an identifier
DISTINCT = 0.95  # at least, of the known values
FEWEST_PER_CELL = 25  # rows of a cell when two columns are compared
MOST_ROWS = 20_000  # that are looked at
SURE = 5.0  # standard deviations: two columns depend on each other


def find_identifiers(
    columns: Sequence[RawColumn], kept: Set[str] = frozenset()
) -> dict[str, tuple[int, int]]:
    """Columns that look like identifiers, with the numbers of their distinct and known values.

    Those that are `kept` in any case are never among them.
    """
    found: dict[str, tuple[int, int]] = {}
    open_numbers: dict[str, tuple[int, int]] = {}
    for raw in columns:
        counts = None if raw.name in kept else _distinct(raw)
        if counts is None:
            continue
        (open_numbers if raw.dtype == "integer" else found)[raw.name] = counts
    is_new = True  # a number that tells something is a column that others may tell about
    while open_numbers and is_new:
        others = [raw for raw in columns if raw.name not in found.keys() | open_numbers.keys()]
        telling = [
            raw.name
            for raw in columns
            if raw.name in open_numbers and (not others or _tells(raw, others))
        ]
        is_new = bool(telling)
        for name in telling:
            del open_numbers[name]
    return found | open_numbers


def _distinct(raw: RawColumn) -> tuple[int, int] | None:
    """How many values are distinct and known, if it may be an identifier by that and its type."""
    if raw.dtype not in ("text", "categorical", "object", "integer"):
        return None
    known = raw.known()
    if len(known) < FEWEST_ROWS:
        return None
    is_number = raw.dtype == "integer"
    n_distinct = len(np.unique(known)) if is_number else len(set(map(str, known.tolist())))
    if n_distinct < DISTINCT * len(known) or (is_number and not _counts_on(known, n_distinct)):
        return None
    return n_distinct, len(known)


def _counts_on(known: FloatArray, n_distinct: int) -> bool:
    """Whether whole numbers are nearly consecutive, of one length, or spread evenly."""
    low, high = float(known.min()), float(known.max())
    if high - low + 1.0 <= 1.1 * n_distinct:
        return True
    if low >= 1000.0 and math.floor(math.log10(low)) == math.floor(math.log10(high)):
        return True
    ranks = np.arange(1, len(known) + 1) / len(known)
    even = (np.sort(known) - low) / (high - low)
    return float(np.abs(ranks - even).max()) * math.sqrt(len(known)) < 1.63  # Kolmogorov, 1 %


def _tells(raw: RawColumn, others: Sequence[RawColumn]) -> bool:
    """Whether another column, or whether it is missing, depends on a number beyond chance."""
    some = np.arange(len(raw.values))[:: -(-len(raw.values) // MOST_ROWS)]
    n_cells = int(np.clip(len(some) // FEWEST_PER_CELL, 2, 8))
    own = coarse_places(raw, some, n_cells)
    is_known = own != NOTHING
    for other in others:
        cells = coarse_places(other, some, n_cells)
        size = int(cells.max()) + 2  # a value that is missing is the first cell
        counts = np.bincount(own[is_known] * size + cells[is_known] + 1, minlength=n_cells * size)
        z = chi_square_z(counts.reshape(-1, size).astype(np.float64))
        if z > SURE or (other.dtype in NUMERIC and _trend_z(own, cells) > SURE):
            return True
    return False


def _trend_z(a: AnyArray, b: AnyArray) -> float:
    """How far the correlation of two columns of cells is from zero, in standard deviations."""
    both = (a != NOTHING) & (b != NOTHING)
    if not both.any() or np.ptp(a[both]) == 0 or np.ptp(b[both]) == 0:
        return 0.0
    return abs(float(np.corrcoef(a[both], b[both])[0, 1])) * math.sqrt(both.sum() - 1)


def chi_square_z(counts: FloatArray) -> float:
    """Pearson's chi-square of a table of counts as a normal deviate (Wilson and Hilferty).

    Lines and columns in which less than one row is expected somewhere are taken together: the
    statistic would be too large too often.
    """
    counts = _without_rare(_without_rare(counts).T)
    n_free = (counts.shape[0] - 1) * (counts.shape[1] - 1)
    if n_free < 1:
        return 0.0
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    ratio = float(((counts - expected) ** 2 / expected).sum()) / n_free
    spread = 2.0 / (9.0 * n_free)
    return (ratio ** (1.0 / 3.0) - (1.0 - spread)) / math.sqrt(spread)


def _without_rare(counts: FloatArray) -> FloatArray:
    """The table with those lines added up that are expected to have an empty cell."""
    counts = counts[counts.sum(axis=1) > 0.0][:, counts.sum(axis=0) > 0.0]
    if not counts.size:
        return counts
    rarest = counts.sum(axis=0).min() / counts.sum()
    is_rare = counts.sum(axis=1) * rarest < 1.0
    if is_rare.sum() < 2:
        return counts
    return np.vstack([counts[~is_rare], counts[is_rare].sum(axis=0, keepdims=True)])
