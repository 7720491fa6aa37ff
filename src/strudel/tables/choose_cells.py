"""How many cells a column of numbers or dates needs, and where else it is cut.

In:  the columns of a table.
Out: for each column of numbers or dates how many cells it gets at most, and where cells of equally
     many rows are cut once more.

Within a cell, a number is independent of all other columns; so more cells pay where they tell more
about another column. A number of cells is worth the information that it has about the one other
column that it tells most about, less half a log of the rows for every parameter of that dependence:
the description length of a table of the two. Cells of equally many rows may still lie across a
place where another column changes, such as the fever from which on nearly all have influenza: there
they are cut (`telling_cuts`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from strudel._types import AnyArray
from strudel.data.bits import x_log_x_of
from strudel.tables.bin_edges import quantile_edges
from strudel.tables.columns import NUMERIC, RawColumn

CELLS = (4, 6, 8, 16, 32)  # numbers of cells that may pay
USUAL = 8  # cells; and so many values have one each
ENOUGH = 480  # rows for the usual cells at least, so that answers are not too coarse; and tails
ROWS_PER_CELL = 25  # at least; with 40, fifteen tables of 74 to 405 rows gain 0.33 nats, not 0.36
MOST_ROWS = 20_000  # that are looked at
MOST_PARTNERS = 24  # other columns that a column is compared with
MOST_CUTS = 8  # more of a column, where others change
ROWS_OF_CUT = 15  # at least, on both sides of one
SURE = 20.0  # twice the log-likelihood that a cut gains beyond chance and its parameters
NOTHING = -1


def numbers_of_cells(columns: Sequence[RawColumn]) -> list[int]:
    """For every column how many cells pay; the usual ones for those that are not numbers."""
    n_rows = len(columns[0].values)
    some = np.arange(n_rows)
    if n_rows > MOST_ROWS:
        some = np.sort(np.random.default_rng(0).choice(n_rows, MOST_ROWS, replace=False))
    coarse = [coarse_places(raw, some, USUAL) for raw in columns]
    return [_best(column, columns, coarse, some) for column in range(len(columns))]


def _best(
    column: int, columns: Sequence[RawColumn], coarse: Sequence[AnyArray], some: AnyArray
) -> int:
    raw = columns[column]
    known = raw.values[some] if raw.dtype in NUMERIC else np.zeros(0)
    known = known[np.isfinite(known)]
    if len(np.unique(known)) <= USUAL:
        return USUAL
    fewest = USUAL if len(known) >= ENOUGH else CELLS[0]
    tried = [n for n in CELLS if n == fewest or fewest < n <= len(known) / ROWS_PER_CELL]
    if len(tried) < 2:
        return fewest
    others = [place for place in range(len(columns)) if place != column]
    others = others[:: max(1, -(-len(others) // MOST_PARTNERS))]
    worth = {}
    for n_cells in tried:
        own = coarse_places(raw, some, n_cells)
        worth[n_cells] = max((_worth(own, coarse[other]) for other in others), default=0.0)
    return max(tried, key=lambda n_cells: (worth[n_cells], -n_cells))


def telling_cuts(
    columns: Sequence[RawColumn], edges: Sequence[Sequence[float]]
) -> list[list[tuple[float, float]]]:
    """Per column the neighbouring values between which a cell is cut, as another column changes.

    `edges` are those that a column has already; a column without any is not cut.
    """
    some = np.arange(len(columns[0].values))
    if len(some) > MOST_ROWS:
        some = np.sort(np.random.default_rng(0).choice(len(some), MOST_ROWS, replace=False))
    coarse = [coarse_places(raw, some, USUAL) for raw in columns]
    return [
        _cuts(raw.values[some].astype(np.float64), own, [*coarse[:c], *coarse[c + 1 :]])
        if raw.dtype in NUMERIC and len(own)
        else []
        for c, (raw, own) in enumerate(zip(columns, edges, strict=True))
    ]


def _cuts(
    values: AnyArray, edges: Sequence[float], others: Sequence[AnyArray]
) -> list[tuple[float, float]]:
    """The best cut of a cell again and again, while it is more than chance and its cost."""
    others = others[:: max(1, -(-len(others) // MOST_PARTNERS))]
    order = np.argsort(values, kind="stable")
    order = order[np.isfinite(values[order])]
    values = values[order]
    is_step = np.flatnonzero(np.diff(values) > 0.0) + 1  # places of the sorted rows
    if len(values) < ENOUGH or not len(is_step) or not others:
        return []
    counts = []  # of every value of the others in the rows before each place
    for other in others:
        is_value = other[order][:, np.newaxis] == np.arange(int(other.max()) + 1)
        counts.append(np.vstack([np.zeros(is_value.shape[1]), np.cumsum(is_value, axis=0)]))
    ends = [0, *np.searchsorted(values, edges, side="left").tolist(), len(values)]
    found: list[tuple[float, float]] = []
    while len(found) < MOST_CUTS:
        bounds = np.unique(ends)
        cell = np.searchsorted(bounds, is_step, side="right") - 1
        low, high = bounds[cell], bounds[np.minimum(cell + 1, len(bounds) - 1)]
        is_open = (is_step - low >= ROWS_OF_CUT) & (high - is_step >= ROWS_OF_CUT)
        at, low, high = (part[is_open] for part in (is_step, low, high))
        if not len(at):
            break
        gains = np.max([_gain(table, at, low, high, len(values)) for table in counts], axis=0)
        best = int(np.argmax(gains))
        if gains[best] < 2.0 * np.log(max(len(at) * len(counts), 1)) + SURE:
            break
        ends.append(int(at[best]))
        found.append((float(values[at[best] - 1]), float(values[at[best]])))
    return found


def _gain(counts: AnyArray, at: AnyArray, low: AnyArray, high: AnyArray, n_rows: int) -> AnyArray:
    """Twice the log-likelihood that cutting a cell at each place gains, less what it costs."""
    left, right = counts[at] - counts[low], counts[high] - counts[at]

    def total(table: AnyArray) -> AnyArray:
        size = table.sum(axis=1)
        return np.asarray(x_log_x_of(table).sum(axis=1) - x_log_x_of(size))

    n_free = ((left + right) > 0.0).sum(axis=1) - 1
    return np.asarray(
        2.0 * (total(left) + total(right) - total(left + right)) - n_free * np.log(n_rows)
    )


def coarse_places(raw: RawColumn, some: AnyArray, n_cells: int) -> AnyArray:
    """The cell or category of some rows; rare categories share one."""
    values = raw.values[some]
    found = np.full(len(values), NOTHING)
    if raw.dtype in NUMERIC:
        is_known = np.isfinite(values)
        edges = quantile_edges(values[is_known], n_cells, lambda a, b: b) if is_known.any() else []
        found[is_known] = np.searchsorted(edges, values[is_known], side="right")
        return found
    is_known = ~raw.is_missing()[some]
    _, place, count = np.unique(
        values[is_known].astype(str), return_inverse=True, return_counts=True
    )
    rank = np.empty(len(count), dtype=np.int64)
    rank[np.argsort(-count, kind="stable")] = np.arange(len(count))
    found[is_known] = np.minimum(rank[place], n_cells - 1)
    return found


def _worth(a: AnyArray, b: AnyArray) -> float:
    """Rows times mutual information, less the cost of its parameters."""
    both = (a != NOTHING) & (b != NOTHING)
    n_rows = int(both.sum())
    if n_rows == 0:
        return 0.0
    size = int(b.max()) + 1
    table = np.bincount(a[both] * size + b[both], minlength=(int(a.max()) + 1) * size)
    table = table.reshape(-1, size).astype(np.float64)
    rows, lines = table.sum(axis=1, keepdims=True), table.sum(axis=0, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        gains = table * np.log(table * n_rows / (rows * lines))
    n_free = ((rows > 0).sum() - 1) * ((lines > 0).sum() - 1)
    return float(np.nansum(gains) - 0.5 * np.log(n_rows) * n_free)
