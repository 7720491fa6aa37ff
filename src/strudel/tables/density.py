"""Densities: how the numbers or dates of one column are distributed, and within its cells.

In:  the known values of a column, and where its cells meet.
Out: `Density`: point masses, and pieces of even density with a tail at either end; densities,
     masses and moments of intervals, all in closed form. `CellDistribution`: per cell the share of
     an interval, mean and variance; densities, draws and quantiles.

A value that repeats far more often than its neighbours is a point mass, and where all values do so
many times, all that repeat. What is left lies in pieces, within each of which all values are
equally dense. They hold equally many rows; how many is chosen by cross-validation, and four
histograms whose pieces start at different rows are averaged. Beyond the outermost pieces, a
hundredth at either end, which weighs one row more than it holds, the density falls exponentially,
so that it is finite and positive everywhere. Whole numbers and days lie on a lattice, where every
value has a probability of its own; elsewhere a density is per unit.

A model knows how probable a cell is, given anything; within the cell the column is distributed as
it is everywhere, cut to the cell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.data.validation import slices

FLOAT_DECIMALS = 15  # that a float64 can hold
ROUNDING = 1e-6  # by which the masses of a file may miss one
LARGEST = 1e150  # number of a column, so that squares are floats
TINIEST = 1e-290  # distance of numbers, so that densities are floats


@dataclass(frozen=True, eq=False)
class Pieces:
    """Even pieces between increasing bounds, and a tail at either end.

    On a lattice, bounds are points of it, and a piece holds those from its first bound to before
    its second.
    """

    bounds: FloatArray  # (n_pieces - 1,) where pieces meet; at least one
    mass: FloatArray  # (n_pieces,) the first and the last are the tails
    scale: tuple[float, float]  # mean distance from the outer bounds within the tails
    step: float = 0.0  # between points of a lattice; 0 if any number is possible

    def density(self, x: FloatArray) -> FloatArray:
        """The density at every number; on a lattice the probability, zero between its points."""
        piece = np.searchsorted(self.bounds, x, side="right")
        last = len(self.mass) - 1
        width = np.ones(len(self.mass))
        width[1:-1] = np.diff(self.bounds)
        found = (self.mass / width)[piece] * (self.step or 1.0)
        for place, bound, sign, scale in (
            (0, self.bounds[0], -1.0, self.scale[0]),
            (last, self.bounds[-1], 1.0, self.scale[1]),
        ):
            here = piece == place
            away = sign * (x[here] - bound)
            if self.step:  # the first point of the lower tail lies a step below its bound
                away = away - self.step * (place == 0)
                share = -np.expm1(-self.step / scale)
            else:
                share = 1.0 / scale
            with np.errstate(over="ignore"):  # far beyond all values
                found[here] = self.mass[place] * share * np.exp(-away / scale)
        return np.where(self.is_on(x), found, 0.0) if self.step else found

    def is_on(self, x: FloatArray) -> AnyArray:
        """Whether numbers are points of the lattice."""
        return np.asarray(x == self._next(x))

    def _next(self, x: FloatArray) -> FloatArray:
        """The first point of the lattice from each number on; without one the number itself."""
        return np.ceil(x / self.step) * self.step if self.step else x

    def moments(self, low: FloatArray, high: FloatArray, about: float = 0.0) -> FloatArray:
        """Mass, and sums of ``x - about`` and its square, `(3, n)`, over every [low, high)."""
        low, high = (self._next(end)[:, np.newaxis] for end in (low, high))
        start, stop = self.bounds[:-1], self.bounds[1:]
        first, last = np.clip(low, start, stop), np.clip(high, start, stop)
        width = np.maximum(last - first, 0.0)
        mass = self.mass[1:-1] * width / (stop - start)
        # Of n even points a step apart the last is one step before the end, and their variance is
        # (n^2 - 1) / 12; any numbers are the same with a step of 0.
        mean = (first + last - self.step) / 2.0 - about
        square = mean**2 + np.maximum(width**2 - self.step**2, 0.0) / 12.0
        inner = np.array([mass.sum(axis=1), (mass * mean).sum(axis=1), (mass * square).sum(axis=1)])
        below = self._tail(self.bounds[0] - high, self.bounds[0] - low, 0, about)
        above = self._tail(low - self.bounds[-1], high - self.bounds[-1], 1, about)
        return inner + below + above

    def _tail(self, near: FloatArray, far: FloatArray, side: int, about: float) -> FloatArray:
        """The same for a tail, from and to these distances from its bound."""
        near, far = (np.maximum(end[:, 0], 0.0) for end in (near, far))
        if not np.any(far > near):  # as for most cells
            return np.zeros((3, len(near)))
        sums = np.maximum(self._tail_sums(far, side) - self._tail_sums(near, side), 0.0)
        mass, once, twice = self.mass[-side] * sums
        sign, bound = (1.0, self.bounds[-1]) if side else (-1.0, self.bounds[0] - self.step)
        base = bound - about
        return np.array(
            [mass, base * mass + sign * once, base**2 * mass + 2.0 * base * sign * once + twice]
        )

    def _tail_sums(self, distance: FloatArray, side: int) -> FloatArray:
        """Mass, sum of distances and of their squares up to a distance, in a tail of mass one."""
        scale = self.scale[side]
        is_all = distance > 800.0 * scale  # what is left is zero in float64
        distance = np.where(is_all, 0.0, distance)
        if not self.step:
            t = distance / scale
            left = np.where(is_all, 0.0, np.exp(-t))
            return np.array(
                [
                    1.0 - left,
                    scale * (1.0 - left * (1.0 + t)),
                    scale**2 * (2.0 - left * (2.0 + 2.0 * t + t**2)),
                ]
            )
        k, q = np.rint(distance / self.step), np.exp(-self.step / scale)
        left = np.where(is_all, 0.0, np.exp(-k * self.step / scale))
        p = -np.expm1(-self.step / scale)
        return np.array(
            [
                1.0 - left,
                self.step * (q - left * (q + k * p)) / p,
                self.step**2
                * (q * (1.0 + q) - left * (k**2 * p**2 + 2 * k * q * p + q + q * q))
                / p**2,
            ]
        )


def why_not_pieces(pieces: Pieces) -> str | None:
    """Why numbers are no pieces, or None."""
    bounds, mass, scale, step = pieces.bounds, pieces.mass, pieces.scale, pieces.step
    for values in (bounds, mass, np.array([*scale, step])):
        if not _are_floats(values):
            return f"A density is made of lists of numbers up to {10.0 * LARGEST:g}"
    if len(mass) != len(bounds) + 1 or len(bounds) < 1 or np.any(np.diff(bounds) <= 0.0):
        return "Pieces of a density need increasing bounds and a mass for each"
    if np.any(mass < 0.0) or len(scale) != 2 or min(scale) <= 0.0 or step < 0.0:
        return "Masses, scales and step of a density must not be negative"
    widths = np.array([scale[0], *np.diff(bounds), scale[1]])
    with np.errstate(over="ignore"):
        if not np.isfinite(mass / widths).all():
            return "Pieces of a density must not be narrower than floats allow"
        if step and not np.all(np.abs(bounds / step - np.rint(bounds / step)) <= ROUNDING):
            return "Bounds of pieces on a lattice must be points of it"
    return None


@dataclass(frozen=True, eq=False)
class Density:
    """The distribution of a column of numbers or dates, as far as the column alone tells it.

    The density at a point mass is that mass, at a point of the lattice its probability, and at all
    other numbers one per unit of the column.
    """

    point: FloatArray  # (n_points,) values with a mass of their own, increasing
    point_mass: FloatArray  # (n_points,)
    parts: tuple[Pieces, ...]  # on a lattice, or of any number, or both; the first has most mass
    seen: tuple[float, float]  # smallest and largest value at fit: draws stay between
    decimals: int | None = None  # of the values at fit, if they are few: draws have as many
    unit: float = 1.0  # between values that repeat, such as 0.1: scores of points are per unit

    def density(self, x: FloatArray) -> FloatArray:
        """The density at every number, see the class."""
        found = np.zeros(len(x))
        is_free = np.ones(len(x), dtype=bool)
        if len(self.point):
            place = np.minimum(np.searchsorted(self.point, x), len(self.point) - 1)
            is_free = self.point[place] != x
            found[~is_free] = self.point_mass[place[~is_free]]
        for part in self.parts:
            counts = part.is_on(x) if part.step else is_free
            found += np.where(counts, part.density(x), 0.0)
            is_free &= ~counts  # a density per unit is nothing beside a probability
        return found

    def log_units(self, x: FloatArray) -> FloatArray:
        """The log of the unit where a number is a point, so that scores are all per unit."""
        return np.where(np.isin(x, self.point), np.log(self.unit), 0.0)

    def moments(self, low: FloatArray, high: FloatArray, about: float = 0.0) -> FloatArray:
        """Mass, and sums of ``x - about`` and its square, `(3, n)`, over every [low, high)."""
        found = np.zeros((3, len(low)))
        if len(self.point):
            away = self.point - about
            sums = np.array([self.point_mass, self.point_mass * away, self.point_mass * away**2])
            total = np.hstack([np.zeros((3, 1)), np.cumsum(sums, axis=1)])
            first = np.searchsorted(self.point, low)
            found += (
                total[:, np.maximum(np.searchsorted(self.point, high), first)] - total[:, first]
            )
        for part in self.parts:
            found += part.moments(low, high, about)
        return found

    def bounds(self) -> FloatArray:
        """Numbers between which the cumulative distribution has one form."""
        return np.unique(np.concatenate([self.point, *(part.bounds for part in self.parts)]))


def why_not_a_density(density: Density) -> str | None:
    """Why numbers are no density, or None; the parts are sound."""
    point, mass, seen, decimals = density.point, density.point_mass, density.seen, density.decimals
    for values in (point, mass, np.array([*seen, density.unit])):
        if not _are_floats(values):
            return f"A density is made of lists of numbers up to {10.0 * LARGEST:g}"
    if len(point) != len(mass) or np.any(np.diff(point) <= 0.0) or np.any(mass < 0.0):
        return "Points of a density must increase, with a mass for each"
    is_count = type(decimals) is int and 0 <= decimals <= FLOAT_DECIMALS
    if len(seen) != 2 or seen[0] > seen[1] or not (decimals is None or is_count):
        return "A density has a smallest and a largest value, and decimals"
    if not density.unit >= TINIEST:
        return "The unit of a density must be above zero"
    total = mass.sum() + sum(part.mass.sum() for part in density.parts)
    if not density.parts or abs(total - 1.0) > ROUNDING:
        return f"The masses of a density add up to {total:g}, not to 1"
    return None


def density_of_points(points: Sequence[float]) -> Density:
    """A column of which no value is known: what stands for its cells, each as probable."""
    point = np.unique(np.array(points, dtype=np.float64))
    none = Pieces(np.array([point[0], point[0] + 1.0]), np.zeros(3), (1.0, 1.0))
    mass = np.full(len(point), 1.0 / len(point))
    return Density(point, mass, (none,), (float(point[0]), float(point[-1])))


def _are_floats(values: FloatArray) -> bool:
    return values.ndim == 1 and bool(
        (np.abs(values) <= 10.0 * LARGEST).all()
    )  # tails reach further


# Learning


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
        place = np.minimum(place, len(held) - 1)  # between two neighbouring floats is none
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


# Within cells


Region: TypeAlias = tuple[tuple[float, float], ...]  # intervals low <= x < high, apart, in order
EVERYWHERE: Region = ((-np.inf, np.inf),)
BLOCK_VALUES = 2**22  # of rows and steps of a distribution, made at a time
SURE = 1e-9  # a share of a cell that is this close to nothing or all of it is that


class CellDistribution:
    """The distribution of a column within each of its cells."""

    def __init__(self, edges: Sequence[float], density: Density, region: Region = ()) -> None:
        self.density, self.region = density, region or EVERYWHERE
        ends = np.array([-np.inf, *edges, np.inf])
        self.low, self.high = ends[:-1], ends[1:]
        self._about = float(np.clip(0.0, *density.seen))  # moments about it lose few digits
        self.cell_mass = self._sums(self.region)[0]  # (n_cells,) of the column by itself

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.low)

    def _sums(self, region: Region) -> FloatArray:
        """Mass and moments of the part of every cell that lies in a region, `(3, n_cells)`."""
        found = np.zeros((3, self.n_cells))
        for low, high in region:
            first, last = np.clip(self.low, low, high), np.clip(self.high, low, high)
            found += self.density.moments(first, np.maximum(first, last), self._about)
        return found

    def shares(self, region: Region) -> FloatArray:
        """The probability of a region given each cell; 0 for cells that cannot be."""
        mass = self._sums(meet(self.region, region))[0]
        return _certain(mass, self.cell_mass)

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """The mean and the variance given each cell; NaN for cells that cannot be."""
        with np.errstate(invalid="ignore", divide="ignore"):
            _, once, twice = self._sums(self.region) / self.cell_mass
        return self._about + once, np.maximum(twice - once**2, 0.0)

    def log_density(self, x: FloatArray) -> FloatArray:
        """The log-density of every number given the cell that it lies in."""
        inside = np.zeros(len(x), dtype=bool)
        for low, high in self.region:
            inside |= (x >= low) & (x < high)
        cell = np.searchsorted(self.high[:-1], x, side="right")
        with np.errstate(divide="ignore"):
            found = np.log(self.density.density(x)) - np.log(self.cell_mass[cell])
        return np.where(inside, found, -np.inf)

    def cumulative(self, cell_chance: FloatArray, x: float, *, is_strict: bool) -> FloatArray:
        """P(X < x), or if not strict P(X <= x), for cells with these chances `(..., n_cells)`."""
        high = x if is_strict else math.nextafter(x, math.inf)
        return np.asarray(cell_chance @ self.shares(((-np.inf, high),)))

    def quantile(self, cell_chance: FloatArray, share: float) -> float:
        """The smallest number with P(X <= x) >= share, for cells with these chances."""
        return float(self.quantiles(cell_chance[np.newaxis], np.array([share]))[0, 0])

    def quantiles(self, cell_chances: FloatArray, shares: FloatArray) -> FloatArray:
        """The same for many chances of the cells and several shares: `(n_rows, n_shares)`."""
        at, _, _ = self._steps
        blocks = slices(len(cell_chances), max(1, BLOCK_VALUES // len(at)))
        found = [self._quantiles(cell_chances[block], shares) for block in blocks]
        return np.concatenate([np.zeros((0, len(shares))), *found])

    @cached_property
    def _steps(self) -> tuple[FloatArray, AnyArray, FloatArray]:
        """Numbers between which the distribution has one form; their cells, and the share below."""
        at = np.unique(np.concatenate([self.density.bounds(), self.high[:-1], self._ends()]))
        at = at[np.isfinite(at)]
        cell = np.searchsorted(self.high[:-1], at, side="right")
        return at, cell, self._share_up_to(at, cell)

    def _share_up_to(self, x: FloatArray, cell: AnyArray) -> FloatArray:
        """The probability of each number or less given its cell; 0 for cells that cannot be."""
        mass = np.zeros(len(x))
        for low, high in self.region:
            first, last = (
                np.clip(self.low[cell], low, high),
                np.clip(np.nextafter(x, np.inf), low, high),
            )
            mass += self.density.moments(first, np.maximum(first, last))[0]
        return _certain(mass, self.cell_mass[cell])

    def _quantiles(self, cell_chances: FloatArray, shares: FloatArray) -> FloatArray:
        chance = np.where(self.cell_mass > 0.0, cell_chances, 0.0)
        before = np.cumsum(chance, axis=1) - chance
        at, cell, share_below = self._steps
        below = before[:, cell] + chance[:, cell] * share_below
        place = np.array([(below < share).sum(axis=1) for share in shares]).T.ravel()
        row, share = np.repeat(np.arange(len(chance)), len(shares)), np.tile(shares, len(chance))
        beyond = 801.0 * np.max([part.scale for part in self.density.parts], axis=0)  # no mass
        ends = np.array([at[0] - beyond[0], *at, at[-1] + beyond[1]])
        low, high = ends[place], ends[place + 1]
        cell = np.searchsorted(self.high[:-1], low, side="right")
        own, base = chance[row, cell], before[row, cell]

        def move(x: FloatArray, which: AnyArray) -> None:
            """Move one of the two ends of these searches to numbers between them."""
            is_enough = base[which] + own[which] * self._share_up_to(x, cell[which]) >= share[which]
            high[which[is_enough]] = x[is_enough]
            low[which[~is_enough]] = x[~is_enough]

        # Between two steps the distribution is mostly a straight line: the number is close to where
        # this line has the share. Halving ends at the next float.
        first, last = below[row, place - 1], below[row, np.minimum(place, len(at) - 1)]
        is_line = (place > 0) & (place < len(at)) & (first < last)
        way = np.divide(share - first, last - first, out=np.zeros(len(low)), where=is_line)
        guess = low + way * (high - low)
        near = np.maximum(self.density.parts[0].step, 4.0 * np.spacing(np.abs(guess)))
        for x in (guess - near, guess + near):
            which = np.flatnonzero(is_line & (low < x) & (x < high))
            move(x[which], which)
        while True:
            middle = low / 2.0 + high / 2.0
            which = np.flatnonzero((low < middle) & (middle < high))
            if not len(which):
                return high.reshape(-1, len(shares))
            move(middle[which], which)

    def _ends(self) -> FloatArray:
        return np.array([end for interval in self.region for end in interval])

    def medians(self, asked: AnyArray) -> FloatArray:
        """The median given each cell that is asked for; NaN for others and those that cannot be."""
        found = np.full(self.n_cells, np.nan)
        cell = np.flatnonzero(asked & (self.cell_mass > 0.0))
        found[cell] = self.quantiles(np.eye(self.n_cells)[cell], np.array([0.5]))[:, 0]
        return found

    def draws(
        self, cells: AnyArray, number: FloatArray, *, beyond_seen: bool = False
    ) -> FloatArray:
        """A value within each of these cells, from numbers between 0 and 1.

        Draws lie between the smallest and the largest value at fit, as far as the cell and what is
        known let them, and look like values at fit. `beyond_seen` they follow the density as it
        is, so that their mean is that of the cell.
        """
        found = np.empty(len(cells))
        for cell in np.unique(cells):
            own = cells == cell
            found[own] = self._draw(int(cell), number[own], beyond_seen)
        return found

    def _draw(self, cell: int, number: FloatArray, beyond_seen: bool) -> FloatArray:
        low, high = self.density.seen
        within = meet(self.region, ((self.low[cell], self.high[cell]),))
        seen = meet(within, ((low, math.nextafter(high, math.inf)),))
        parts = self.density.parts if beyond_seen else self.density.parts[:1]
        is_cut = not beyond_seen and seen and self._mass_of(parts[0], seen) > 0.0
        seen = seen if is_cut else within
        made = [_elements(self.density, part, seen) for part in parts]
        start, stop, mass = (np.concatenate(arrays) for arrays in zip(*made, strict=True))
        part_of = np.repeat(np.arange(len(parts)), [len(own) for own, *_ in made])
        total = np.cumsum(mass)
        if not len(total) or total[-1] <= 0.0:  # a cell that cannot be
            return np.full(len(number), np.nan)
        target = number * total[-1]
        place = np.minimum(np.searchsorted(total, target, side="right"), len(total) - 1)
        share = np.clip((target - (total[place] - mass[place])) / mass[place], 0.0, 1.0)
        found = np.empty(len(number))
        for which, part in enumerate(parts):
            own = part_of[place] == which
            found[own] = _inside(part, start[place[own]], stop[place[own]], share[own])
        if self.density.decimals is not None and not beyond_seen:
            rounded = np.round(found, self.density.decimals)
            fits = np.zeros(len(found), dtype=bool)
            for first, last in seen:
                fits |= (rounded >= first) & (rounded < last)
            found = np.where(fits, rounded, found)
        return found

    def _mass_of(self, part: Pieces, region: Region) -> float:
        low, high = np.array(region).T
        point = self.density.point
        is_inside = ((point[:, np.newaxis] >= low) & (point[:, np.newaxis] < high)).any(axis=1)
        of_points = float(self.density.point_mass[is_inside].sum())
        return of_points + float(part.moments(low, high)[0].sum())


def _certain(mass: FloatArray, whole: FloatArray) -> FloatArray:
    """Masses as shares of whole ones, none or all if nearly so; 0 where there is nothing."""
    shares = np.divide(mass, whole, out=np.zeros(len(mass)), where=whole > 0.0)
    return np.where(shares < SURE, 0.0, np.where(shares > 1.0 - SURE, 1.0, shares))


def meet(a: Region, b: Region) -> Region:
    """The numbers that lie in both regions."""
    both = ((max(p, r), min(q, s)) for p, q in a for r, s in b)
    return tuple(sorted((low, high) for low, high in both if low < high))


def _elements(
    density: Density, part: Pieces, region: Region
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Pieces within a region: where they start and stop, and their mass; points with the first."""
    bounds = np.array([-np.inf, *part.bounds, np.inf])
    start, stop, mass = [], [], []
    for low, high in region:
        first, last = np.clip(bounds[:-1], low, high), np.clip(bounds[1:], low, high)
        is_there = first < last
        first, last = first[is_there], last[is_there]
        start.append(first)
        stop.append(last)
        mass.append(part.moments(first, last)[0])
        if part is not density.parts[0]:
            continue
        is_inside = (density.point >= low) & (density.point < high)
        start.append(density.point[is_inside])
        stop.append(density.point[is_inside])
        mass.append(density.point_mass[is_inside])
    made = [np.concatenate(parts) if parts else np.zeros(0) for parts in (start, stop, mass)]
    return made[0], made[1], made[2]


def _inside(part: Pieces, start: FloatArray, stop: FloatArray, share: FloatArray) -> FloatArray:
    """The number below which this share of a piece or tail lies; on a lattice a point of it."""
    step = part.step
    first, last = (np.ceil(end / step) * step if step else end for end in (start, stop))
    with np.errstate(invalid="ignore", over="ignore"):
        found = first + share * (last - first)
        above, below = start >= part.bounds[-1], stop <= part.bounds[0]
        for is_tail, sign, near, far, scale in (
            (above, 1.0, first, last, part.scale[1]),
            (below, -1.0, last, first, part.scale[0]),
        ):
            whole = -np.expm1(-np.abs(far - near) / scale)
            away = -scale * np.log1p(-share * whole)
            found = np.where(is_tail, near + sign * away, found)
        if step:
            found = np.where(below, np.ceil(found / step) - 1.0, np.floor(found / step)) * step
            found = np.clip(found, first, np.maximum(last - step, first))
    is_point = start == stop
    found = np.where(is_point, start, found)
    largest = np.where(is_point, start, np.nextafter(stop, -np.inf))
    return np.clip(found, start, largest)
