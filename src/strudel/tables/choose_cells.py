"""What is learned of the columns of a table before they get their codes: cells and identifiers.

In:  the columns, as they came.
Out: where a column of numbers or dates is cut into cells: cell j holds
     ``edges[j - 1] <= x < edges[j]``, and the outer cells are open; how many cells it gets at most,
     and where cells of equally many rows are cut once more. And the names of columns that look
     like identifiers, which a model should leave out.

Of all edges that cut the values alike, the shortest decimal number (or the roundest date) is taken,
so that a variable is called ``age>=40`` and not ``age>=39.84210526``.

Within a cell, a number is independent of all other columns; so more cells pay where they tell more
about another column. A number of cells is worth the information that it has about the one other
column that it tells most about, less half a log of the rows for every parameter of that dependence:
the description length of a table of the two. Cells of equally many rows may still lie across a
place where another column changes, such as the fever from which on nearly all have influenza: there
they are cut (`telling_cuts`).

A search splits on these cells. Learners that have a table of cells get finer ones inside of them
(`fine_edges`).

Text of which nearly all values are distinct tells a model nothing. Whole numbers may: an income in
whole dollars is also nearly distinct. They are identifiers only if they have the look of one (they
count on, all have as many digits, or are spread evenly) and no other column depends on them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Set
from itertools import pairwise
from typing import Any

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.data.bits import x_log_x_of
from strudel.tables.columns import DURATION_UNITS, NUMERIC, RawColumn

# Edges


_DATE_UNITS = ("Y", "M", "D", "h", "m", "s", "ms", "us")
Rounding = Callable[[float, float], float]
LEAST_TAIL_ROWS = 30  # of a cell in a tail
FINE = 128  # fine cells of a number at most, besides those in tails
FINE_ROWS = 75  # of a fine cell; of 32, 64 and 128 cells those with 60 to 80 rows predict best
FEWEST_FINE_ROWS = 10  # in a tail
OF_TAIL = 4.0  # times the rows of a fine cell lie between it and the nearer end


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


def fine_edges(known: FloatArray, edges: Sequence[float], shortest: Rounding) -> list[float]:
    """These edges and more: a cell for every frequent value, else equally many rows in each.

    Towards the ends cells get smaller, as far as the fewest rows allow.

    Examples
    --------
    >>> fine_edges(np.arange(60.0), [30.0], shortest_number)
    [10.0, 20.0, 30.0, 40.0, 50.0]
    >>> fine_edges(np.repeat([1.0, 2.0, 3.0, 4.0], [6, 50, 3, 4]), [], shortest_number)
    []
    """
    values, counts = np.unique(known, return_counts=True)
    after = np.cumsum(counts)
    ends = np.minimum(after, len(known) - after + counts)  # rows to the nearer end
    most = np.minimum(max(len(known) / FINE, FINE_ROWS), ends / OF_TAIL)
    most = np.maximum(most, FEWEST_FINE_ROWS)
    found = []
    firsts = np.searchsorted(values, [-np.inf, *edges, np.inf])
    for first, last in pairwise(firsts.tolist()):  # the values of a cell that there is already
        n_inside, n_left = 0, int(counts[first:last].sum())
        for place in range(first, last):
            is_frequent = counts[place - 1] >= most[place - 1] or counts[place] >= most[place]
            least = FEWEST_FINE_ROWS if is_frequent else most[place]
            if n_inside >= least and n_left >= max(least / 2.0, FEWEST_FINE_ROWS):
                found.append(shortest(float(values[place - 1]), float(values[place])))
                n_inside = 0
            n_inside += int(counts[place])
            n_left -= int(counts[place])
    return sorted({*edges, *found})


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
    for unit in DURATION_UNITS.values():
        candidate = math.floor(b / unit) * unit
        if a < candidate <= b:
            return candidate
    return b


# How many cells, and further cuts


CELLS = (4, 6, 8, 16, 32)  # numbers of cells that may pay
USUAL = 8  # cells; and so many values have one each
ENOUGH = 480  # rows for the usual cells at least, so that answers are not too coarse; and tails
ROWS_PER_CELL = 25  # at least; with 40, fifteen tables of 74 to 405 rows gain 0.33 nats, not 0.36
MOST_ROWS = 20_000  # that are looked at
MOST_PARTNERS = 24  # other columns that a column is compared with
MOST_CUTS = 8  # more of a column, where others change
ROWS_OF_CUT = 15  # at least, on both sides of one
SURE_CUT = 20.0  # twice the log-likelihood that a cut gains beyond chance and its parameters
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
        if gains[best] < 2.0 * np.log(max(len(at) * len(counts), 1)) + SURE_CUT:
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


# Identifiers


FEWEST_ROWS = 50  # that a column must have to be called an identifier
DISTINCT = 0.95  # at least, of the known values
FEWEST_PER_CELL = 25  # rows of a cell when two columns are compared
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
