"""Learning the density of a column of numbers or dates.

In:  its known values, and where its cells meet.
Out: a `Density`.

Values that repeat far more often than those around them become point masses, and where all values
do so many times, all that repeat. For the rest, pieces
hold equally many rows; how many is chosen by cross-validation, and four histograms whose pieces
start at different rows are averaged. The outermost hundredth at either end is a tail, which weighs
one row more than it holds, so that larger and smaller values are possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.tables.density import Density, Pieces

NEIGHBOURS = 5  # on either side, that tell how often a value would come without a mass of its own
FEWEST_REPEATS = 4  # of a point mass
OFTEN = 50  # rows of a value on average, from which those that repeat are point masses
RARE = 1e-11  # what other values weigh where all that were seen are point masses
MOST_TAIL_ROWS = 5  # at either end
MOST_DECIMALS = 6  # that count as a way to write numbers
SHIFTS = 4  # histograms that are averaged
PIECE_ROWS = (6, 12, 25, 50, 100, 200, 400, 800, 1600)  # rows per piece that are tried
FOLDS = 5
FEWEST_ROWS = 3.0  # of the outermost piece
MOST_ROWS = 10_000  # that choose the number of rows per piece
MOST_PIECES = 128  # of one histogram
_DAY = 86_400e6
_DATE_STEPS = (_DAY, 3600e6, 60e6, 1e6, 1.0)  # day, hour, minute, second, microsecond


def learn_density(
    known: FloatArray, edges: Sequence[float], *, is_typed: bool = False, is_date: bool = False
) -> Density:
    """The density of a column whose values are all finite.

    `is_typed` says that the type of the column has only whole numbers, or only days.
    """
    value, count = np.unique(known, return_counts=True)
    n = len(known)
    step = _step(value, is_typed, is_date)
    decimals = None if step else _decimals(value)
    unit = step or (0.0 if decimals is None else 10.0**-decimals)
    is_point = _point_masses(value, count, unit, is_lattice=step > 0.0)
    repeats = unit > 0.0 and n >= OFTEN * len(value)
    if repeats:  # so that bounds are exact, and cells have the means of their rows
        is_point |= count >= FEWEST_REPEATS
    if list(edges) == value[1:].tolist() and n >= FEWEST_REPEATS * len(value):
        is_point[:] = True  # few values, a cell for each
    rest, rest_count = value[~is_point], count[~is_point]
    cuts = _cuts(rest if len(rest) else value, unit, step)
    first, last = _inner(rest_count, n)
    ends = float(cuts[first]), float(cuts[last if len(rest) else -1])
    if first < last:
        inner = slice(first, last)
        bounds, rows = _best_pieces(rest[inner], rest_count[inner], cuts[first : last + 1])
    else:
        bounds, rows = np.array(ends), np.array([1.0 / n])
    tails = [
        _tail(ends[0] - step - rest[:first], rest_count[:first], value, count, unit),
        _tail(rest[last:] - ends[1], rest_count[last:], value, count[::-1], unit),
    ]
    beyond = (ends[0] - edges[0], edges[-1] - ends[1]) if edges else (0.0, 0.0)
    # So that every cell can be reached, also those that someone puts where there are no values.
    scale = max(tails[0][1], beyond[0] / 8.0), max(tails[1][1], beyond[1] / 8.0)
    main = Pieces(bounds, np.array([tails[0][0], *rows, tails[1][0]]), scale, step)
    # A column of floats that happen to be whole, or of times at midnight, may hold others later.
    others = Pieces(np.array(ends), np.array([0.1, 0.8, 0.1]) / n, scale)
    parts: tuple[Pieces, ...] = (main, others) if step and not is_typed else (main,)
    if is_point.all():
        parts = tuple(replace(part, mass=part.mass / part.mass.sum() * n * RARE) for part in parts)
    total = count[is_point].sum() + sum(part.mass.sum() for part in parts)
    return Density(
        value[is_point],
        count[is_point] / total,
        tuple(replace(part, mass=part.mass / total) for part in parts),
        (float(value[0]), float(value[-1])),
        decimals,
        unit if repeats and not step else 1.0,
    )


def _inner(count: AnyArray, n: int) -> tuple[int, int]:
    """The values between the tails, which hold a hundredth of the rows each, or no value at all."""
    most = min(n / 100.0, MOST_TAIL_ROWS)
    rows = np.cumsum(count)
    first = int(np.searchsorted(rows, most, side="right"))
    last = len(count) - int(np.searchsorted(np.cumsum(count[::-1]), most, side="right"))
    return (first, last) if first < last else (0, len(count))


def _tail(
    distance: FloatArray, rows: AnyArray, value: FloatArray, count: AnyArray, unit: float
) -> tuple[float, float]:
    """The rows of a tail, one more than were seen, and the mean distance from where it begins.

    Where the outermost value repeats, a value beyond it is less probable than one row.
    """
    spread = float(value[-1] - value[0])
    least = max(unit, spread / 100.0) or max(abs(float(value[0])) / 10.0, 1.0)
    if not len(rows):
        return 1.0 / float(count[0]), least
    return float(rows.sum()) + 1.0, max(float((distance * rows).sum() / rows.sum()), least)


def _cuts(value: FloatArray, unit: float, step: float) -> FloatArray:
    """Where pieces may meet: half way between values, before the first and after the last."""
    low, high = float(value[0]), float(value[-1])
    between = value[:-1] + np.diff(value) / 2.0
    if step:
        return np.array([low, *np.ceil(between / step) * step, high + step])
    gap = unit / 2.0 or (high - low) / (2.0 * len(value)) or max(abs(high), 1.0) * 1e-3
    return np.array([low - gap, *between, high + gap])


def _step(value: FloatArray, is_typed: bool, is_date: bool) -> float:
    """The distance between the points of the lattice that all values lie on; 0 for none."""
    if is_date:
        return next(step for step in _DATE_STEPS if np.all(value % step == 0.0) or step == 1.0)
    is_lattice = is_typed or bool(np.all(value == np.rint(value)))
    return 1.0 if is_lattice and np.abs(value).max() < 2.0**53 else 0.0


def _decimals(value: FloatArray) -> int | None:
    """How many decimals all values have, if these are few."""
    some = value[:: max(1, len(value) // MOST_ROWS)]
    if np.abs(some).max() > 1e9:
        return None
    for decimals in range(MOST_DECIMALS + 1):
        if np.array_equal(np.round(some, decimals), some):
            return decimals
    return None


def _point_masses(value: FloatArray, count: AnyArray, unit: float, *, is_lattice: bool) -> AnyArray:
    """Which values repeat far more often than their neighbours let expect."""
    n = len(value)
    place = np.arange(n)
    first, last = np.maximum(place - NEIGHBOURS, 0), np.minimum(place + NEIGHBOURS, n - 1)
    total = np.append(0, np.cumsum(count))
    around = total[last + 1] - total[first] - count
    width = value[last] - value[first]
    expected = np.where(width > 0.0, around * unit / np.maximum(width, 1e-300), 0.0)
    if is_lattice:  # a single value of a lattice has a piece of its own anyway
        expected = np.where(width > 0.0, expected, count)
    return np.asarray(count >= FEWEST_REPEATS + expected + 4.0 * np.sqrt(expected))


def _best_pieces(
    value: FloatArray, count: AnyArray, cuts: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Bounds, and rows between them, with as many rows per piece as predicts other rows best."""
    n = int(count.sum())
    sizes = [size for size in PIECE_ROWS if 16 * size <= n and size * MOST_PIECES >= n]
    best = (sizes or [max(PIECE_ROWS[0], n // MOST_PIECES)])[0]
    if len(sizes) > 1:
        rng = np.random.default_rng(0)
        some = np.repeat(np.arange(len(value)), count)
        if n > MOST_ROWS:
            some = rng.choice(some, MOST_ROWS, replace=False)
        fold = rng.permutation(len(some)) % FOLDS
        best = max(sizes, key=lambda size: _held_out(some, fold, size * len(some) / n, value, cuts))
    return _average(count, best, cuts)


def _held_out(
    some: AnyArray, fold: AnyArray, size: float, value: FloatArray, cuts: FloatArray
) -> float:
    """The log-density of the values of every fold under those of the others."""
    total = 0.0
    for number in range(FOLDS):
        count = np.bincount(some[fold != number], minlength=len(value))
        seen = np.flatnonzero(count)
        # Cuts lie half way between values that are there, so those of the others may be used.
        own = np.append(cuts[seen], cuts[-1])
        own[0] = cuts[0]
        bounds, rows = _average(count[seen], max(size * (1 - 1 / FOLDS), 1.0), own)
        piece = np.searchsorted(bounds, value[some[fold == number]], side="right") - 1
        piece = np.clip(piece, 0, len(rows) - 1)
        total += float(np.log(rows[piece] / count.sum() / np.diff(bounds)[piece]).sum())
    return total


def _average(count: AnyArray, size: float, cuts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The average of histograms whose pieces start at different rows."""
    number = _piece_number(np.cumsum(count) - count / 2.0, float(count.sum()), size)
    made = []
    for shift in range(SHIFTS):
        piece = np.floor(number + shift / SHIFTS)
        first = np.flatnonzero(np.diff(piece, prepend=piece[0] - 1.0))
        made.append((cuts[np.append(first, len(count))], np.add.reduceat(count, first)))
    bounds = np.unique(np.concatenate([own for own, _ in made]))
    center = bounds[:-1] + np.diff(bounds) / 2.0
    rows = np.zeros(len(center))
    for own, held in made:
        place = np.searchsorted(own, center, side="right") - 1
        rows += held[place] / np.diff(own)[place] * np.diff(bounds) / SHIFTS
    return bounds, rows


def _piece_number(rank: FloatArray, n: float, size: float) -> FloatArray:
    """How many pieces of `size` rows lie below each rank; toward the ends pieces get smaller.

    A piece that has as many rows as lie beyond it would spread the few outermost values evenly,
    and move the mean of a skewed column.
    """
    border = min(2.0 * size, n / 2.0)

    def from_end(rows: FloatArray) -> FloatArray:
        rows = np.maximum(rows, min(FEWEST_ROWS, border))
        inside = border / size * np.log(np.minimum(rows, border) / border)
        return inside + np.maximum(rows - border, 0.0) / size

    half = from_end(np.array([n / 2.0]))[0]
    return np.where(rank < n / 2.0, from_end(rank) - half, half - from_end(n - rank))
