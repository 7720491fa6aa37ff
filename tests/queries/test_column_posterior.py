"""Facts about one column of numbers or dates, against numerical integration and samples."""

import itertools

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy import integrate

from strudel import Strudel, marginal_probabilities, probability
from strudel.circuits import figure_1_circuit
from strudel.queries import cdf, expectation, pdf, posterior, quantile, variance
from strudel.tables import TableEncoder

RNG = np.random.default_rng(0)
N = 500
AGE = RNG.integers(18, 90, N)
TABLE = pd.DataFrame(
    {
        "age": AGE,
        "income": np.where(RNG.random(N) < 0.2, 0.0, np.exp(RNG.normal(size=N) + AGE / 60)),
        "vote": np.where(RNG.random(N) < np.where(AGE > 50, 0.7, 0.3), "yes", "no"),
        "flag": RNG.random(N) < 0.3,
        "when": pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 700, N), unit="D"),
        "stay": pd.to_timedelta(RNG.integers(1, 90, N), unit="h"),
    }
)
GIVEN = {"age": (61, None), "vote": "yes"}
approx = pytest.approx


@pytest.fixture(
    scope="module", params=["circuit", pytest.param("mixture", marks=pytest.mark.compiled)]
)
def model(request):
    encoder = TableEncoder(n_bins=5)
    if request.param == "circuit":
        return Strudel(n_components=1, columns=encoder, max_splits=5, random_state=0).fit(TABLE)
    return Strudel(n_components=3, max_splits=1, columns=encoder, random_state=0).fit(TABLE)


def integral(found, function, low, high):
    """Of function times density over a smooth column, with its point masses."""
    density = found.column.cells.density
    bounds = np.concatenate([density.bounds(), found.column.edges])
    ends = [low, *sorted(b for b in set(bounds) if low < b < high), high]
    total = sum(function(p) * found.pdf(p) for p in density.point if low <= p < high)
    for a, b in itertools.pairwise(ends):
        inner = a + (b - a) * 1e-12, b - (b - a) * 1e-12
        total += integrate.quad(lambda x: function(x) * found.pdf(float(x)), *inner)[0]
    return total


def test_moments_and_shares_are_integrals_of_the_density(model):
    found = posterior(model, "income", GIVEN)
    reach = 60.0 * max(found.column.cells.density.parts[0].scale)
    low, high = -reach, TABLE["income"].max() + reach
    assert integral(found, lambda x: 1.0, low, high) == approx(1.0, abs=1e-8)
    mean = integral(found, lambda x: x, low, high)
    assert found.mean == approx(mean, abs=1e-8)
    assert found.variance == approx(integral(found, lambda x: (x - mean) ** 2, low, high), rel=1e-8)
    for x in (-0.5, 0.0, 0.7, 3.3, 100.0):
        assert found.cdf(x) == approx(
            integral(found, lambda _: 1.0, low, np.nextafter(x, np.inf)), abs=1e-8
        )
        assert found.cdf(x) == approx(probability(model, f"income <= {x}", GIVEN), abs=1e-8)


@pytest.mark.parametrize("name", ["age", "income"])
def test_quantiles_of_many_rows_invert_the_cumulative_probability(model, name):
    rows = [{}, {"vote": "yes"}, {"vote": "no", "flag": True}, {"age": (30, 41.5)}]
    levels = [1e-4, 0.5, 0.97]
    found = np.array([quantile(model, name, levels, row) for row in rows])
    for row, numbers in zip(rows, found, strict=True):
        for level, x in zip(levels, numbers, strict=True):
            before = float(np.nextafter(x, -np.inf))  # the smallest number that has as much
            assert cdf(model, name, before, row) < level + 1e-9
            assert cdf(model, name, float(x), row) >= level - 1e-9
    assert quantile(model, name, levels, rows[:3]) == pytest.approx(found[:3], rel=1e-12)


def test_parts_of_cells_stand_for_themselves_by_their_median(model):
    low, high = 30.0, 33.0  # within a cell
    cut = model.circuit_.columns[0].within(((low, high),))
    inside = AGE[(low <= AGE) & (high > AGE)]
    cell = int(np.searchsorted(cut.edges, low, side="right"))
    assert cut.cell_values[cell] in inside
    assert cut.cell_values[:cell] == cut.values[:cell]


def test_whole_numbers_are_sums(model):
    found = posterior(model, "age", {"vote": "no"})
    ages = np.arange(-2000.0, 3000.0)
    p = np.array([found.pdf(age) for age in ages])
    assert p.sum() == approx(1.0, abs=1e-8)
    assert found.mean == approx(p @ ages, abs=1e-7)
    assert found.variance == approx(p @ (ages - found.mean) ** 2, rel=1e-7)
    assert found.pdf(41) == approx(probability(model, "age = 41", {"vote": "no"}), abs=1e-8)
    for q in (0.05, 0.5, 0.9):
        assert found.quantile(q) == ages[np.argmax(np.cumsum(p) >= q - 1e-12)]
        assert isinstance(found.quantile(q), int)


def test_functions_and_methods_and_rows_agree(model):
    found = posterior(model, "income", GIVEN)
    assert expectation(model, "income", GIVEN) == approx(found.mean)
    assert variance(model, "income", GIVEN) == approx(found.variance)
    assert quantile(model, "income", 0.5, GIVEN) == approx(found.quantile(0.5))
    assert cdf(model, "income", 2.0, GIVEN) == approx(found.cdf(2.0))
    assert pdf(model, "income", 2.0, GIVEN) == approx(found.pdf(2.0))
    assert model.expectation("income", GIVEN) == approx(found.mean)
    rows = TABLE.drop(columns=["income", "stay"]).head(4)
    one_by_one = [posterior(model, "income", rows.iloc[[i]]) for i in range(4)]
    assert expectation(model, "income", rows) == approx([one.mean for one in one_by_one])
    assert variance(model, "income", rows) == approx([one.variance for one in one_by_one])
    both = quantile(model, "income", [0.1, 0.9], rows)
    assert both == approx(np.array([one.quantile([0.1, 0.9]) for one in one_by_one]))
    assert quantile(model, "income", 0.9, rows) == approx(both[:, 1])
    assert cdf(model, "income", 1.0, rows) == approx([one.cdf(1.0) for one in one_by_one])
    parts = expectation(model, "income", [GIVEN, {"vote": "no"}])
    assert parts == approx([found.mean, expectation(model, "income", {"vote": "no"})])


def test_what_is_given_is_known(model):
    rows = TABLE.head(3).copy()
    rows.loc[1, "income"] = np.nan
    means = expectation(model, "income", rows)
    assert means[[0, 2]] == approx(rows["income"].to_numpy()[[0, 2]])
    assert (variance(model, "income", rows) == 0.0).tolist() == [True, False, True]
    assert expectation(model, "age", {"age": 35}) == 35.0
    known = posterior(model, "age", {"age": 35})
    assert (known.mean, known.variance, known.quantile(0.3)) == (35.0, 0.0, 35)
    assert (known.cdf(34), known.cdf(35), known.pdf(35)) == (0.0, 1.0, 1.0)


def test_dates_durations_and_truths(model):
    mean = expectation(model, "when", {"vote": "yes"})
    assert abs(mean - TABLE["when"].mean()) < pd.Timedelta("60 days")
    assert variance(model, "when") ** 0.5 == approx(
        TABLE["when"].std() / pd.Timedelta("1 day"), rel=0.05
    )
    assert quantile(model, "when", 0.5, TABLE[["vote"]].head(2)).dtype == "datetime64[us]"
    assert cdf(model, "when", "2020-12-01") == approx(probability(model, "when <= 2020-12-01"))
    stay = expectation(model, "stay")
    assert abs(stay - TABLE["stay"].mean()) < pd.Timedelta("3h")
    chance = marginal_probabilities(model, {"vote": "yes"})["flag"][True]
    assert expectation(model, "flag", {"vote": "yes"}) == approx(chance)
    assert variance(model, "flag", {"vote": "yes"}) == approx(chance * (1 - chance))


def test_what_has_no_numbers_is_refused(model):
    for ask in (expectation, variance, posterior):
        with pytest.raises(ValueError, match="'vote' is a category"):
            ask(model, "vote")
    with pytest.raises(ValueError, match="'flag' is a boolean"):
        quantile(model, "flag", 0.5)
    for q in (0, "a", [], [[0.5]], None):
        with pytest.raises(ValueError, match="q must be above 0 and below 1"):
            quantile(model, "age", q)
    with pytest.raises(ValueError, match="Expected a date"):
        cdf(model, "when", float("nan"))
    with pytest.raises(ValueError, match=r"up to 1e\+150, but 'income' is -inf"):
        posterior(model, "income", {"income": -np.inf})
    assert cdf(model, "income", 1.7e308) == pytest.approx(1.0)
    assert pdf(model, "income", -1.7e308) == 0.0
    with pytest.raises(ValueError, match="above 0 and below 1"):
        quantile(model, "age", 1.0)
    with pytest.raises(ValueError, match="Did you mean 'age'"):
        expectation(model, "aeg")
    with pytest.raises(ValueError, match="learned from 0 and 1"):
        expectation(figure_1_circuit(), "X1")


@pytest.mark.parametrize("name", ["age", "income", "when", "stay"])
def test_a_posterior_can_be_drawn(model, name):
    found = posterior(model, name, {"vote": "yes"})
    ax = found.plot(Figure().add_subplot())
    assert ax.get_xlabel().startswith(name)
    assert name in repr(found)
