"""What a column's density says within each of its cells.

In:  the edges of the cells, the `Density` of the column, and the intervals that values are known to
     lie in, if any.
Out: per cell the share of an interval, mean and variance; densities, draws and quantiles.

A model knows how probable a cell is, given anything; within the cell the column is distributed as
it is everywhere, cut to the cell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.data.validation import slices
from strudel.tables.density import Density, Pieces

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
