"""Numbers and dates are exact: against enumeration over cells and numerical integration.

A model says how probable every combination of cells is; within its cell, a number is independent of
all else. So every answer is a sum over cells of products of integrals.
"""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import integrate

from column_circuits import joint_of, states_of
from strudel import (
    Strudel,
    condition,
    load,
    log_conditional,
    log_likelihood,
    log_marginal,
    marginal_map,
    marginal_probabilities,
    most_probable_state,
    probability,
    sample,
    save,
    variables,
)
from strudel.logic import Event
from strudel.tables import TableEncoder
from strudel.tables.evidence import evidence_of_rows

RNG = np.random.default_rng(0)
N = 400
AGE = RNG.integers(18, 90, N)
TABLE = pd.DataFrame(
    {
        "age": AGE,
        "income": np.where(RNG.random(N) < 0.2, 0.0, np.exp(RNG.normal(size=N) + AGE / 60)),
        "vote": np.where(RNG.random(N) < np.where(AGE > 50, 0.7, 0.3), "yes", "no"),
        "when": pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 700, N), unit="D"),
    }
)
EDGES = {"age": [30, 45, 66], "income": [0.5, 2.0], "when": ["2020-09-01", "2021-04-01"]}
approx = pytest.approx
MODELS = {
    "circuit": lambda: Strudel(
        n_components=1, columns=TableEncoder(edges=EDGES), max_splits=6, random_state=0
    ),
    "one-hot": lambda: Strudel(
        n_components=1,
        columns=TableEncoder(edges=EDGES, code="one_hot"),
        max_splits=4,
        random_state=0,
    ),
    "mixture": lambda: Strudel(
        n_components=3, max_splits=2, columns=TableEncoder(edges=EDGES), random_state=0
    ),
    "loaded": lambda: Strudel(
        n_components=1, columns=TableEncoder(edges=EDGES), max_splits=2, random_state=0
    ),
}


@pytest.fixture(
    scope="module",
    params=[
        name if name == "mixture" else pytest.param(name, marks=pytest.mark.compiled)
        for name in MODELS
    ],
)
def model(request, tmp_path_factory):
    fitted = MODELS[request.param]().fit(TABLE)
    if request.param == "loaded":
        path = tmp_path_factory.mktemp("numbers") / "model.strudel"
        save(fitted, path)
        return load(path)
    return fitted


@pytest.fixture(scope="module")
def cells(model):
    """The probability of every combination of cells, node by node."""
    columns = model.circuit_.columns
    combos = states_of(columns)
    p = joint_of(model.circuit_).ravel()
    assert p.sum() == approx(1.0)
    return columns, combos, p


def integral(column, cell, low, high):
    """The mass of [low, high) within a cell, by its log-density alone."""
    distribution = column.cells
    low, high = max(low, distribution.low[cell]), min(high, distribution.high[cell])
    if low >= high:
        return 0.0
    part = distribution.density.parts[0]
    reach = 60.0 * max(part.scale)
    low = max(low, distribution.density.seen[0] - reach)
    high = min(high, distribution.density.seen[1] + reach)

    def density(x):
        return np.exp(distribution.log_density(np.atleast_1d(np.asarray(x, dtype=float))))

    if part.step:
        points = np.arange(np.ceil(low / part.step), np.ceil(high / part.step)) * part.step
        total = float(density(points).sum()) if len(points) else 0.0
        if len(distribution.density.parts) == 1:
            return total
    else:
        points = distribution.density.point
        points = points[(points >= low) & (points < high)]
        total = float(density(points).sum()) if len(points) else 0.0
    ends = [low, *(b for b in distribution.density.bounds() if low < b < high), high]
    for a, b in itertools.pairwise(ends):  # not at the ends, which may be point masses
        inside = a + (b - a) * 1e-12, b - (b - a) * 1e-12
        total += integrate.quad(lambda x: density(x)[0], *inside)[0]
    return total


def exact(cells, **limits):
    """The probability that columns lie within limits, or have a value."""
    columns, combos, p = cells
    shares = []
    for column in columns:
        said = limits.get(column.name)
        if said is None:
            shares.append(np.ones(column.n_values))
        elif column.is_numeric:
            shares.append([integral(column, k, *said) for k in range(column.n_values)])
        else:
            shares.append(np.array([value == said for value in column.values], dtype=float))
    weight = [np.prod([s[k] for s, k in zip(shares, combo, strict=True)]) for combo in combos]
    return float(p @ np.array(weight))


INF = np.inf
JUNE = pd.Timestamp("2020-06-11").value / 1000.0
PARTS = [
    ("age > 60", {"age": (60.5, INF)}),
    ("age <= 33", {"age": (-INF, 33.5)}),
    ("age = 41", {"age": (40.5, 41.5)}),
    ("33 <= age < 71", {"age": (33, 71)}),
    ("income > 1.1 & vote = yes", {"income": (1.1, INF), "vote": "yes"}),
    ("income <= 0", {"income": (-INF, 1e-300)}),
    ("age >= 38 & 0.7 <= income < 3.3", {"age": (38, INF), "income": (0.7, 3.3)}),
    ("when < 2020-06-11 & age > 60", {"when": (-INF, JUNE), "age": (60.5, INF)}),
]


@pytest.mark.parametrize(("event", "limits"), PARTS)
def test_a_bound_inside_a_cell_is_exact(model, cells, event, limits):
    assert probability(model, event) == approx(exact(cells, **limits), abs=1e-8)


def test_an_interval_is_evidence_in_every_query(model, cells):
    limits = {"age": (33, 71), "income": (0.7, 3.3)}
    given = {"age": (33, 71), "income": (0.7, 3.3)}
    total = exact(cells, **limits)
    yes = exact(cells, **limits, vote="yes") / total
    assert np.exp(log_marginal(model, given)[0]) == approx(total, abs=1e-8)
    assert np.exp(log_marginal(model, given | {"vote": "yes"})[0]) == approx(yes * total, abs=1e-8)
    assert probability(model, "vote = yes", given=given) == approx(yes, abs=1e-8)
    text = "33 <= age < 71 & 0.7 <= income & income < 3.3"
    assert probability(model, "vote = yes", given=text) == approx(yes, abs=1e-8)
    assert marginal_probabilities(model, given)["vote"]["yes"] == approx(yes, abs=1e-8)
    assert np.exp(log_conditional(model, {"vote": "yes"}, given)[0]) == approx(yes, abs=1e-8)
    under = condition(model, text)
    assert probability(under, "vote = yes") == approx(yes, abs=1e-8)
    old = exact(cells, age=(60, 71), income=limits["income"]) / total
    assert probability(model, "age >= 60", given=given) == approx(old, abs=1e-8)
    assert probability(under, "age >= 60") == approx(old, abs=1e-8)
    assert probability(under, "age < 33") == 0.0
    assert np.exp(log_conditional(model, {"age": (60, 90)}, given)[0]) == approx(old, abs=1e-8)
    best = marginal_map(model, "vote", given)
    assert np.exp(best.log_probability) == approx(max(yes, 1 - yes) * total, abs=1e-8)
    state, log_p = most_probable_state(model, given)
    assert 33 <= state["age"][0] < 71
    assert 0.7 <= state["income"][0] < 3.3
    assert log_p <= best.log_probability + 1e-12
    drawn = sample(model, 300, given, random_state=0)
    assert drawn["age"].between(33, 70).all()
    assert drawn["income"].between(0.7, 3.3).all()
    assert (drawn["vote"] == "yes").mean() == approx(yes, abs=0.1)
    several = probability(model, "vote = yes", given=[given, {"age": 40}, {"income": (0.0, 1.1)}])
    alone = probability(model, "vote = yes", given={"age": 40})
    assert several[:2] == approx([yes, alone], abs=1e-8)
    assert len(marginal_probabilities(model, [given, {"vote": "no"}])["vote"]["yes"]) == 2
    assert len(sample(model, 2, [given, {"vote": "no"}], random_state=0)) == 4


def compiled_events():
    """Events that are no conjunctions, and as a function of whether their parts hold."""
    yield "age > 60 | vote = yes", lambda age, low, vote: age | vote
    yield "~(age > 60 & income < 1.1)", lambda age, low, vote: ~(age & low)
    yield "vote = yes | (age > 60 & income < 1.1)", lambda age, low, vote: vote | (age & low)
    yield "(age > 60) ^ (income < 1.1)", lambda age, low, vote: age ^ low
    yield (
        "exactly(2, age > 60, income < 1.1, vote = yes)",
        lambda age, low, vote: age.astype(int) + low + vote == 2,
    )


@pytest.mark.parametrize(("event", "holds"), list(compiled_events()))
def test_any_formula_takes_bounds_inside_cells(model, cells, event, holds):
    pytest.importorskip("pysdd")
    limits = {
        "age": ((60.5, INF), (-INF, 60.5)),
        "income": ((-INF, 1.1), (1.1, INF)),
        "vote": ("yes", "no"),
    }
    wanted = 0.0
    for sides in itertools.product((0, 1), repeat=3):
        truth = [np.array([side == 0]) for side in sides]
        if holds(*truth)[0]:
            own = {name: limits[name][side] for name, side in zip(limits, sides, strict=True)}
            wanted += exact(cells, **own)
    assert probability(model, event) == approx(wanted, abs=1e-8)
    total = exact(cells, vote="yes")
    with_vote = probability(model, event, given={"vote": "yes"})
    both = probability(model, f"({event}) & vote = yes")
    assert with_vote == approx(both / total, abs=1e-8)


def test_two_bounds_in_one_cell_are_not_independent(model, cells):
    pytest.importorskip("pysdd")
    event = "(income > 0.9 & vote = yes) | (income > 1.4 & vote = no)"
    wanted = exact(cells, income=(0.9, INF), vote="yes") + exact(
        cells, income=(1.4, INF), vote="no"
    )
    assert probability(model, event) == approx(wanted, abs=1e-8)
    assert probability(model, "income > 0.9 & ~(income > 1.4)") == approx(
        exact(cells, income=(0.9, 1.4)), abs=1e-8
    )
    assert probability(model, "income > 1.4 & income < 0.9") == 0.0


def test_scores_are_of_the_table_itself(model, cells):
    columns, combos, p = cells
    rows = TABLE.head(20)
    evidence = evidence_of_rows(columns, rows)
    for i in range(len(rows)):
        places, log_density = evidence.codes[i].tolist(), 0.0
        for column in columns:
            if column.is_numeric:
                value = rows[column.name].iloc[i]
                number = value.value / 1000.0 if column.kind == "date" else float(value)
                log_density += column.cells.log_density(np.array([number]))[0]
        wanted = np.log(p[combos.index(tuple(places))]) + log_density
        assert log_likelihood(model, rows.iloc[[i]])[0] == approx(wanted)
    assert model.score_samples(rows) == approx(log_likelihood(model, rows))
    gaps = rows.astype({"age": float})
    gaps.loc[:, "age"] = np.nan
    gaps.loc[3, "income"] = np.nan
    column = columns[columns.place("income")]
    log_p = log_marginal(model, gaps)
    assert log_p == approx(model.score_samples(gaps))
    assert log_p[0] - log_marginal(model, gaps.drop(columns="income"))[0] == approx(
        np.log(
            sum(
                share
                * np.exp(column.cells.log_density(rows["income"].to_numpy()[:1]))[0]
                * (k == np.searchsorted(column.edges, rows["income"][0], side="right"))
                for k, share in enumerate(
                    marginal_probabilities(model, gaps.drop(columns="income").head(1))[
                        "income"
                    ].values()
                )
            )
        )[0]
    )


def test_what_a_fit_reports_is_in_the_units_of_its_scores(model):
    if getattr(model, "held_out_rows_", None) is not None:
        held_out = TABLE.iloc[model.held_out_rows_]
        assert model.log_likelihoods_.valid == approx(model.score(held_out))


def test_a_number_that_is_given_is_known(model):
    # Its density cancels, and so does all that its cell does not tell.
    p = probability(model, "vote = yes", given={"income": 1.5})
    assert p == approx(probability(model, "vote = yes", given={"income": (0.5, 2.0)}))
    assert log_conditional(model, {"income": 1.5}, {"income": 1.5})[0] == approx(0.0)
    assert log_conditional(model, {"income": 1.5}, {"income": 1.6})[0] == -np.inf
    assert log_conditional(model, {"income": (1.0, 2.0)}, {"income": 1.5})[0] == approx(0.0)
    under = condition(model, {"income": 1.5})
    assert (sample(under, 5, random_state=0)["income"] == 1.5).all()
    inside = log_conditional(model, {"income": 1.5}, {"income": (1.0, 2.0)})[0]
    alone = log_marginal(model, {"income": 1.5})[0]
    assert inside == approx(alone - log_marginal(model, {"income": (1.0, 2.0)})[0])


def test_samples_look_like_the_table(model):
    drawn = sample(model, 2000, random_state=0)
    assert drawn.dtypes.astype(str).tolist() == TABLE.dtypes.astype(str).tolist()
    for name in ("age", "income", "when"):
        assert drawn[name].between(TABLE[name].min(), TABLE[name].max()).all()
        assert drawn[name].nunique() >= TABLE[name].nunique() / 2
    assert (drawn["income"] == 0.0).mean() == approx(0.2, abs=0.05)
    assert (drawn["age"] > 60).mean() == approx(probability(model, "age > 60"), abs=0.04)
    again = sample(model, 2000, random_state=0)
    pd.testing.assert_frame_equal(drawn, again)


def test_what_cannot_be_exact_is_refused(model):
    pytest.importorskip("pysdd")
    event = variables(model)["age"] > 60
    assert isinstance(event, Event)
    assert str(event) == "age > 60"
    with pytest.raises(ValueError, match="bound lies inside a cell"):
        Strudel(n_components=1, columns=TableEncoder(edges=EDGES), constraint="age > 60").fit(TABLE)
    with pytest.raises(ValueError, match="probability zero"):
        condition(model, "age > 60 & age < 50")
    assert probability(model, {"age": [20, 70]}) == approx(
        probability(model, "age = 20") + probability(model, "age = 70")
    )
