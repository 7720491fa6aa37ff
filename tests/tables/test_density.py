"""Facts about densities of columns: masses and moments against numerical integration."""

import itertools
import re

import numpy as np
import pytest
from scipy import integrate, stats

from strudel.tables.density import (
    CellDistribution,
    Density,
    Pieces,
    learn_density,
    meet,
    why_not_a_density,
    why_not_pieces,
)

RNG = np.random.default_rng(0)
AGES = RNG.integers(18, 90, 600).astype(float)
COLUMNS = {
    "normal": (RNG.normal(10.0, 2.0, 600), {}),
    "skewed with zeros": (np.where(RNG.random(600) < 0.3, 0.0, np.exp(RNG.normal(size=600))), {}),
    "two decimals": (np.round(RNG.normal(size=600), 2), {}),
    "ages": (AGES, {"is_typed": True}),
    "ages as floats": (AGES, {}),
    "heaped ages": (np.where(RNG.random(600) < 0.3, np.round(AGES, -1), AGES), {"is_typed": True}),
    "counts": (RNG.poisson(1.5, 600).astype(float), {"is_typed": True}),
    "days": (RNG.integers(18000, 19000, 600) * 86_400e6, {"is_typed": True, "is_date": True}),
    "few rows": (np.array([1.5, 2.25, 7.0]), {}),
    "one value": (np.full(9, 3.7), {}),
}
approx = pytest.approx


def learned(name, edges=()):
    values, how = COLUMNS[name]
    return learn_density(values, list(edges), **how), values


def pieces(density, low, high):
    """Intervals within which a smooth density has no jump."""
    ends = [low, *(bound for bound in density.bounds() if low < bound < high), high]
    return itertools.pairwise(ends)


def summed(density, low, high, power=0, about=0.0):
    """The sum and integral of ``(x - about)**power`` over [low, high), from densities alone."""
    [step] = {part.step for part in density.parts if part.step} or {0.0}
    points = density.point[(density.point >= low) & (density.point < high)]
    if step:
        lattice = np.arange(np.ceil(low / step), np.ceil(high / step)) * step
        points = np.union1d(points, lattice)
    total = float(density.density(points) @ (points - about) ** power) if len(points) else 0.0
    if any(not part.step for part in density.parts):

        def smooth(x):
            return float(density.density(np.array([x]))[0]) * (x - about) ** power

        for a, b in pieces(density, low, high):
            # Not at the ends, which may be point masses.
            total += integrate.quad(smooth, np.nextafter(a, b), np.nextafter(b, a), limit=200)[0]
    return total


@pytest.mark.parametrize("name", COLUMNS)
def test_a_density_adds_up_to_one(name):
    density, values = learned(name)
    everywhere = density.moments(np.array([-np.inf]), np.array([np.inf]))
    assert everywhere[0, 0] == approx(1.0, abs=1e-12)
    reach = 40.0 * max(scale for part in density.parts for scale in part.scale)
    low, high = values.min() - reach, values.max() + reach
    assert summed(density, low, high) == approx(1.0, abs=1e-8)


@pytest.mark.parametrize("name", COLUMNS)
def test_masses_and_moments_are_those_of_the_density(name):
    density, values = learned(name)
    about = float(np.median(values))
    spread = float(np.ptp(values)) or 1.0
    for low, high in ((-0.3, 0.2), (0.2, 0.55), (0.5, 1.4), (1.01, 1.3)):
        low, high = values.min() + low * spread, values.min() + high * spread
        found = density.moments(np.array([low]), np.array([high]), about)[:, 0]
        wanted = [summed(density, low, high, power, about) for power in range(3)]
        assert found == approx(wanted, rel=1e-8, abs=1e-9 * spread)


@pytest.mark.parametrize("name", COLUMNS)
def test_draws_follow_the_distribution_and_stay_among_the_values(name):
    edges = [float(edge) for edge in np.unique(np.quantile(COLUMNS[name][0], (0.3, 0.7)))]
    density, values = learned(name, edges)
    cells = CellDistribution(edges, density)
    cell = np.searchsorted(edges, values, side="right").repeat(20)
    draws = cells.draws(cell, np.random.default_rng(1).random(len(cell)))
    assert (np.searchsorted(edges, draws, side="right") == cell).all()
    assert values.min() <= draws.min() <= draws.max() <= values.max()
    if all(part.step for part in density.parts):
        step = density.parts[0].step
        assert (draws == np.rint(draws / step) * step).all()
    for own in np.unique(cell):
        chance = np.eye(cells.n_cells)[own]
        here = draws[cell == own]
        for share in (0.2, 0.5, 0.8):
            number = cells.quantile(chance, share)
            wanted = cells.cumulative(chance, number, is_strict=False)
            assert (here <= number).mean() == approx(wanted, abs=4.0 / np.sqrt(len(here)) + 0.01)
    assert len(np.unique(draws)) >= min(len(np.unique(values)), 3) // 2


def test_quantiles_are_where_the_distribution_reaches_a_share():
    density, _ = learned("skewed with zeros")
    cells = CellDistribution((0.0, 1.0), density)
    chance = np.array([0.1, 0.6, 0.3])
    for share in (0.001, 0.05, 0.2, 0.5, 0.95, 0.999999):
        number = cells.quantile(chance, share)
        assert cells.cumulative(chance, number, is_strict=True) <= share + 1e-12
        assert cells.cumulative(chance, number, is_strict=False) >= share - 1e-12
    assert cells.quantile(chance, 0.2) == 0.0  # the point mass


def test_every_value_has_a_finite_log_density():
    for name, (values, _) in COLUMNS.items():
        density, _ = learned(name)
        beyond = np.array([values.min() - 50 * (np.ptp(values) or 1.0), values.max() * 2.0 + 9.0])
        step = density.parts[0].step
        beyond = np.rint(beyond / step) * step if step else beyond
        cells = CellDistribution((), density)
        logs = cells.log_density(np.concatenate([values, beyond]))
        assert np.isfinite(logs[: len(values)]).all(), name
        assert (logs[len(values) :] < 0.0).all(), name
    density, values = learned("ages")
    unseen = np.setdiff1d(np.arange(18.0, 90.0), values[:40])
    assert np.isfinite(CellDistribution((), density).log_density(unseen)).all()
    whole = CellDistribution((), learned("ages as floats")[0])
    assert np.isfinite(whole.log_density(np.array([33.5])))  # a float may be another one


def test_zeros_are_a_point_mass_and_rounding_is_not():
    density, values = learned("skewed with zeros")
    assert density.point.tolist() == [0.0]
    assert density.point_mass[0] == approx((values == 0.0).mean(), abs=0.01)
    assert len(learned("two decimals")[0].point) == 0
    assert learned("two decimals")[0].decimals == 2
    heaped, _ = learned("heaped ages")
    assert set(heaped.point) <= set(range(20, 91, 10))
    assert len(heaped.point) >= 6


def test_a_smooth_column_is_learned_about_as_well_as_it_can_be():
    rng = np.random.default_rng(3)
    density = learn_density(rng.normal(size=2000), [])
    others = rng.normal(size=20_000)
    loss = stats.norm.logpdf(others).mean() - np.log(density.density(others)).mean()
    assert -0.01 < loss < 0.03
    # Pieces are even, so a skewed column keeps its mean only roughly.
    skewed = np.exp(rng.normal(size=2000))
    mean = learn_density(skewed, []).moments(np.array([-np.inf]), np.array([np.inf]))[1, 0]
    assert mean == approx(skewed.mean(), rel=0.05)


def test_a_region_cuts_a_density():
    density, _ = learned("ages")
    whole = CellDistribution((30.0, 60.0), density)
    part = CellDistribution((30.0, 60.0), density, ((40.0, 50.0), (55.0, np.inf)))
    assert part.cell_mass[0] == 0.0
    share = whole.shares(((40.0, 50.0), (55.0, np.inf)))
    assert part.cell_mass == approx(whole.cell_mass * share)
    ages = np.array([45.0, 52.0, 70.0])
    assert part.log_density(ages)[[0, 2]] == approx(
        whole.log_density(ages)[[0, 2]] - np.log(share[[1, 2]])
    )
    assert part.log_density(ages)[1] == -np.inf
    draws = part.draws(np.ones(500, dtype=int), np.linspace(0.0, 0.999, 500))
    assert set(draws) == {*range(40, 50), *range(55, 60)}
    assert meet(((0.0, 2.0),), ((1.0, 3.0),)) == ((1.0, 2.0),)


def reason(content):
    """Why lists of numbers are no density, as a reader of files asks."""
    arrays = ("bounds", "mass", "point", "point_mass")
    parts = []
    for part in content["parts"]:
        own = {name: np.array(v) if name in arrays else v for name, v in part.items()}
        parts.append(Pieces(**own))
    own = {name: np.array(v) if name in arrays else v for name, v in content.items()}
    for problem in map(why_not_pieces, parts):
        if problem is not None:
            return problem
    return why_not_a_density(Density(**own | {"parts": tuple(parts)}))


PIECES = {"bounds": [0.0, 2.0], "mass": [0.0, 1.0, 0.0], "scale": [1.0, 1.0], "step": 0.0}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"point_mass": [0.5, -0.5]}, "a mass for each"),
        ({"unit": 0.0}, "above zero"),
        ({"point_mass": [0.5, 0.5]}, "add up to 2, not to 1"),
        ({"parts": []}, "add up to 0"),
        ({"parts": [PIECES | {"mass": [0.0, 1e308, 1e308]}]}, "numbers up to 1e"),
        ({"parts": [PIECES | {"bounds": [2.0, 0.0]}]}, "increasing bounds"),
        ({"parts": [PIECES | {"scale": [1.0, 0.0]}]}, "must not be negative"),
        ({"parts": [PIECES | {"bounds": [0.0, 5e-324]}]}, "narrower than floats"),
        ({"parts": [PIECES | {"step": 1.5}]}, "points of it"),
    ],
)
def test_numbers_that_are_no_density_are_refused(wrong, why):
    sound = {"point": [0.0, 1.0], "point_mass": [0.0, 0.0], "parts": [PIECES], "seen": [0.0, 2.0]}
    sound |= {"decimals": None, "unit": 1.0}
    assert reason(sound) is None
    assert re.search(why, reason(sound | wrong))


def test_values_that_repeat_many_times_are_point_masses_and_scores_are_per_unit():
    rng = np.random.default_rng(0)
    x = np.round(rng.normal(37.0, 0.5, 4000), 1)
    edges = [36.7, 37.0, 37.3]
    density = learn_density(x, edges)
    found = CellDistribution(tuple(edges), density)
    for cell in range(4):
        inside = x[np.searchsorted(edges, x, side="right") == cell]
        assert found.moments()[0][cell] == pytest.approx(inside.mean(), abs=0.01)
    assert found.cumulative(
        np.bincount(np.searchsorted(edges, x, side="right")) / 4000, 36.6, is_strict=True
    ) == pytest.approx((x < 36.6).mean(), abs=0.002)
    assert density.log_units(np.array([37.0, 37.05])) == pytest.approx([np.log(0.1), 0.0])
    assert density.unit == pytest.approx(0.1)
