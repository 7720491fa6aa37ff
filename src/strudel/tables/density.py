"""Densities: how the numbers or dates of one column are distributed.

In:  point masses, and pieces of even density with a tail at either end.
Out: densities, masses and moments of intervals, all in closed form.

A value that repeats far more often than its neighbours is a point mass. What is left lies in
pieces, within each of which all values are equally dense. Beyond the outermost pieces the density
falls exponentially, so that it is finite and positive everywhere. Whole numbers and days lie on a
lattice, where every value has a probability of its own; elsewhere a density is per unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from strudel._types import AnyArray, FloatArray

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

    def to_dict(self) -> dict[str, Any]:
        """The pieces as what JSON holds."""
        return {
            "bounds": self.bounds.tolist(),
            "mass": self.mass.tolist(),
            "scale": list(self.scale),
            "step": self.step,
        }

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> Pieces:
        """The pieces that `to_dict` gave; a `ValueError` if they are none."""
        bounds, mass = (_floats(content[name]) for name in ("bounds", "mass"))
        scale, (step,) = _floats(content["scale"]), _floats([content["step"]])
        if len(mass) != len(bounds) + 1 or len(bounds) < 1 or np.any(np.diff(bounds) <= 0.0):
            raise ValueError("Pieces of a density need increasing bounds and a mass for each.")
        if np.any(mass < 0.0) or len(scale) != 2 or np.any(scale <= 0.0) or step < 0.0:
            raise ValueError("Masses, scales and step of a density must not be negative.")
        widths = np.array([scale[0], *np.diff(bounds), scale[1]])
        with np.errstate(over="ignore"):
            if not np.isfinite(mass / widths).all():
                raise ValueError("Pieces of a density must not be narrower than floats allow.")
        if step and np.any(np.abs(bounds / step - np.rint(bounds / step)) > ROUNDING):
            raise ValueError("Bounds of pieces on a lattice must be points of it.")
        return Pieces(bounds, mass, (float(scale[0]), float(scale[1])), float(step))


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

    def to_dict(self) -> dict[str, Any]:
        """The density as what JSON holds."""
        return {
            "point": self.point.tolist(),
            "point_mass": self.point_mass.tolist(),
            "parts": [part.to_dict() for part in self.parts],
            "seen": list(self.seen),
            "decimals": self.decimals,
            "unit": self.unit,
        }

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> Density:
        """The density that `to_dict` gave; a `ValueError` if it is none."""
        point, mass, seen = (_floats(content[name]) for name in ("point", "point_mass", "seen"))
        decimals = content["decimals"]
        if len(point) != len(mass) or np.any(np.diff(point) <= 0.0) or np.any(mass < 0.0):
            raise ValueError("Points of a density must increase, with a mass for each.")
        is_count = isinstance(decimals, int) and 0 <= decimals <= FLOAT_DECIMALS
        if len(seen) != 2 or seen[0] > seen[1] or not (decimals is None or is_count):
            raise ValueError("A density has a smallest and a largest value, and decimals.")
        (unit,) = _floats([content["unit"]])
        if not unit >= TINIEST:
            raise ValueError("The unit of a density must be above zero.")
        parts = tuple(Pieces.from_dict(part) for part in content["parts"])
        total = mass.sum() + sum(part.mass.sum() for part in parts)
        if not parts or abs(total - 1.0) > ROUNDING:
            raise ValueError(f"The masses of a density add up to {total:g}, not to 1.")
        ends = float(seen[0]), float(seen[1])
        return Density(point, mass, parts, ends, decimals, float(unit))


def density_of_points(points: Sequence[float]) -> Density:
    """A column of which no value is known: what stands for its cells, each as probable."""
    point = np.unique(np.array(points, dtype=np.float64))
    none = Pieces(np.array([point[0], point[0] + 1.0]), np.zeros(3), (1.0, 1.0))
    mass = np.full(len(point), 1.0 / len(point))
    return Density(point, mass, (none,), (float(point[0]), float(point[-1])))


def _floats(values: Any) -> FloatArray:
    found = np.array(values, dtype=np.float64)
    if found.ndim != 1 or not (np.abs(found) <= 10.0 * LARGEST).all():  # tails reach further
        raise ValueError(f"A density is made of lists of numbers up to {10.0 * LARGEST:g}.")
    return found
