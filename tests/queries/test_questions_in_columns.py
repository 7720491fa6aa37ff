"""Answers in columns against sums over all rows of a table."""

import functools
import itertools
import math
import sys

import numpy as np
import pandas as pd
import pytest

from column_circuits import joint_of as cells_of
from strategies import mixed
from strudel import Strudel, log_marginal, marginal_map, mutual_information, sample
from strudel.circuits import figure_1_circuit
from strudel.errors import CircuitPropertyError
from strudel.queries import compare, correlations, surprise
from strudel.tables import TableEncoder
from strudel.tables.evidence import evidence_of


def people(n=300):
    rng = np.random.default_rng(0)
    age = rng.integers(18, 90, n).astype(float)
    income = np.round(age * 10.0 + rng.normal(0.0, 150.0, n), 1)
    vote = np.where(age + rng.normal(0.0, 15.0, n) > 55.0, "yes", "no")
    region = rng.choice(["N", "M", "S"], n)
    frame = pd.DataFrame({"age": age, "income": income, "vote": vote, "region": region})
    return frame.mask(rng.random(frame.shape) < 0.05)


ENCODER = TableEncoder(n_bins=4)
MODELS = {
    "circuit": Strudel(n_components=1, columns=ENCODER, max_splits=4, random_state=0),
    "mixture": Strudel(n_components=3, max_splits=2, columns=ENCODER, random_state=0),
}


@pytest.fixture(
    scope="module",
    params=[
        name if name == "circuit" else pytest.param(name, marks=pytest.mark.compiled)
        for name in MODELS
    ],
)
def model(request):
    return MODELS[request.param].fit(people())


def joint_of(model, names, given=None):
    """The probability of all values of some columns, from that of all cells, node by node."""
    columns, p = model.circuit_.columns, table_of(model)
    [known] = evidence_of(columns, given).codes
    for place, cell in enumerate(known):
        if cell < columns[place].n_cells:
            is_known = np.arange(columns[place].n_cells) == cell
            p = p * is_known.reshape([-1 if at == place else 1 for at in range(p.ndim)])
    kept = [columns.place(name) for name in names]
    p = p.sum(axis=tuple(at for at in range(p.ndim) if at not in kept))
    p = np.moveaxis(p, np.argsort(np.argsort(kept)), range(len(kept))) / p.sum()
    return {places: float(p[places]) for places in np.ndindex(p.shape)}


@functools.lru_cache
def table_of(model):
    """The probability of all combinations of cells."""
    return cells_of(model.circuit_)


def column_of(model, name):
    """A column of a model by its name."""
    return model.circuit_.columns[model.circuit_.columns.place(name)]


def test_correlations_are_those_of_the_density(model):
    found = correlations(model)
    assert found.names == ("age", "income", "vote")
    joint = joint_of(model, ["age", "income"])
    age, income = (column_of(model, name).cells.moments() for name in ("age", "income"))
    e = {
        "x": sum(p * age[0][i] for (i, _), p in joint.items()),
        "y": sum(p * income[0][j] for (_, j), p in joint.items()),
        "xy": sum(p * age[0][i] * income[0][j] for (i, j), p in joint.items()),
        "xx": sum(p * (age[1][i] + age[0][i] ** 2) for (i, _), p in joint.items()),
        "yy": sum(p * (income[1][j] + income[0][j] ** 2) for (_, j), p in joint.items()),
    }
    spread = math.sqrt((e["xx"] - e["x"] ** 2) * (e["yy"] - e["y"] ** 2))
    assert found.values[0, 1] == pytest.approx((e["xy"] - e["x"] * e["y"]) / spread)
    assert found.values.diagonal() == pytest.approx(1.0)
    assert np.array_equal(found.to_frame().to_numpy(), found.values)
    assert np.isnan(model.correlations({"vote": "yes"}).values[2]).all()  # it is certain


def test_information_given_a_column_is_an_average_over_its_values(model):
    found = mutual_information(model, "vote", "income", beyond="age")
    wanted = 0.0
    joint = joint_of(model, ["vote", "income", "age"])
    n_ages = column_of(model, "age").n_cells
    for k in range(n_ages):
        p_age = sum(p for (_, _, age), p in joint.items() if age == k)
        for (v, i, age), p in joint.items():
            if age == k and p > 0.0:
                a = sum(q for (v2, _, k2), q in joint.items() if v2 == v and k2 == k)
                b = sum(q for (_, i2, k2), q in joint.items() if i2 == i and k2 == k)
                wanted += p * math.log(p * p_age / (a * b))
    assert found == pytest.approx(wanted)
    both = mutual_information(model, ["vote", "region"], ["income"], beyond=["age"])
    assert both >= found - 1e-12
    with pytest.raises(ValueError, match="'vote' is in two"):
        mutual_information(model, "vote", "income", beyond=["age", "vote"])
    with pytest.raises(CircuitPropertyError, match="max_states = 5"):
        mutual_information(model, "vote", "income", beyond="age", max_states=5)


def test_the_best_profiles_are_those_of_the_table(model):
    best = marginal_map(model, ["income", "region"], {"vote": "yes"}, k=5)
    joint = joint_of(model, ["income", "region"], {"vote": "yes"})
    wanted = sorted(joint.values(), reverse=True)[:5]
    log_given = log_marginal(model, {"vote": "yes"})[0]
    assert [one.log_probability for one in best] == pytest.approx(np.log(wanted) + log_given)
    assert best[0].state == marginal_map(model, ["income", "region"], {"vote": "yes"}).state
    assert len({tuple(one.state.items()) for one in best}) == 5
    assert len(marginal_map(model, "vote", k=9)) == 2


def test_surprise_is_the_chain_rule_and_finds_the_strange_column(model):
    rows = people()[:6].reset_index(drop=True)
    rows.loc[2, ["age", "income", "vote"]] = [20.0, 880.0, "no"]
    found = surprise(model, rows, n_samples=200)
    whole = log_marginal(model, rows)
    assert found.log_probability == pytest.approx(whole)
    for c, name in enumerate(found.names):
        rest = log_marginal(model, rows.assign(**{name: None}))
        known = rows[name].notna().to_numpy()
        wanted = (whole - rest)[known]
        assert found.column_log_probability[known, c] == pytest.approx(wanted)
        assert np.isnan(found.column_percentile[~known, c]).all()
    assert found.because[2] in ("age", "income")
    assert found.percentile[2] < 0.2
    assert found.to_frame().shape == (6, 2 + 4)


@pytest.mark.compiled
def test_rows_of_the_model_itself_have_even_percentiles():
    model = MODELS["mixture"].fit(people())
    rows = sample(model, 400, random_state=1)
    percentile = surprise(model, rows, n_samples=400).percentile
    assert abs(percentile.mean() - 0.5) < 0.06
    assert abs((percentile < 0.25).mean() - 0.25) < 0.08


def test_groups_are_compared_over_the_columns_that_do_not_define_them(model):
    found = compare(model, {"vote": "yes"}, {"vote": "no"})
    assert set(found.names) == {"age", "income", "region"}
    assert found.names[-1] == "region"

    def divergence(p, q):
        terms = [
            0.5 * x * math.log(2.0 * x / (a + b))
            for a, b in zip(p, q, strict=True)
            for x in (a, b)
            if x > 0.0
        ]
        return sum(terms)

    names = ["age", "income", "region"]
    groups = [joint_of(model, names, {"vote": vote}) for vote in ("yes", "no")]
    wanted = divergence(*(group.values() for group in groups))
    assert found.divergence == pytest.approx(wanted)
    assert found.standard_error == 0.0
    ages = [joint_of(model, ["age"], {"vote": vote}) for vote in ("yes", "no")]
    place = found.names.index("age")
    wanted = divergence(*(age.values() for age in ages))
    assert found.column_divergence[place] == pytest.approx(wanted)
    assert found.means[place, 0] > found.means[place, 1]
    drawn = compare(model, {"vote": "yes"}, {"vote": "no"}, max_states=1, n_samples=500)
    assert abs(drawn.divergence - found.divergence) < 5.0 * drawn.standard_error
    assert 0.0 <= max(found.column_divergence) <= found.divergence + 1e-12 <= math.log(2.0)


def test_a_group_may_be_part_of_a_cell_and_the_other_everybody(model):
    found = compare(model, {"age": (33.3, 71.5)})
    assert "age" not in found.names
    assert compare(model, {"vote": "no"}, {"vote": "no"}).divergence == pytest.approx(0.0)
    everything = {"age": 30.0, "income": 300.0, "vote": "no", "region": "N"}
    with pytest.raises(ValueError, match="nothing left"):
        compare(model, everything)


def test_without_a_table_variables_are_columns():
    circuit = figure_1_circuit()
    for model in (circuit, mixed([circuit] * 2)):
        assert correlations(model).values[2, 3] == pytest.approx(-0.12 / 0.24)
        best = marginal_map(model, [0, "X4"], k=4)
        assert sum(math.exp(one.log_probability) for one in best) == pytest.approx(1.0)
        information = mutual_information(model, "X1", "X4")
        assert mutual_information(model, "X1", "X4", beyond="X3") < information


# Each statement as text for the model, and as Python on one row.
FORMULAS = {
    "age > 61 | region = 'S'": lambda r: r["age"] > 61 or r["region"] == "S",
    "(age > 61 & vote = yes) | (region != N & income <= 433.3)": lambda r: (
        (r["age"] > 61 and r["vote"] == "yes") or (r["region"] != "N" and r["income"] <= 433.3)
    ),
    "(age < 31 | age >= 72) ^ vote = no": lambda r: (
        (r["age"] < 31 or r["age"] >= 72) != (r["vote"] == "no")
    ),
    "at_least(2, age > 61, income > 700, region = 'M', vote = yes)": lambda r: (
        sum([r["age"] > 61, r["income"] > 700, r["region"] == "M", r["vote"] == "yes"]) >= 2
    ),
    "~(vote = yes >> (age > 40 & age <= 61)) | income > 1e9": lambda r: (
        (r["vote"] == "yes" and not 40 < r["age"] <= 61) or r["income"] > 1e9
    ),
}
CUTS = {"age": [31, 40, 61, 72], "income": [250.0, 433.3, 700, 1e9]}


def pieces(model, name):
    """Every value of a column, numbers cut at all bounds: its place, a row's value, its share."""
    column = column_of(model, name)
    if not column.is_numeric:
        return [(k, value, 1.0) for k, value in enumerate(column.values)]
    # A cut by itself is a piece: "< 31" and "<= 31" differ.
    cuts = [end for cut in CUTS[name] for end in (cut, np.nextafter(cut, np.inf))]
    found = []
    for low, high in itertools.pairwise([-np.inf, *cuts, np.inf]):
        value = low if np.isfinite(low) else np.nextafter(high, low)
        shares = column.cells.shares(((low, high),))
        found += [(k, value, share) for k, share in enumerate(shares) if share > 0.0]
    return found


@pytest.mark.parametrize("max_asked", [2048, 0], ids=["cases", "compiled"])
def test_formulas_are_sums_over_pieces_of_cells(model, max_asked, monkeypatch):
    names = ["age", "income", "vote", "region"]
    joint = joint_of(model, names)
    rows = [
        (dict(zip(names, (value for _, value, _ in piece), strict=True)), weight)
        for piece in itertools.product(*(pieces(model, name) for name in names))
        if (weight := joint[tuple(k for k, _, _ in piece)] * math.prod(s for _, _, s in piece)) > 0
    ]
    if max_asked == 0:
        pytest.importorskip("pysdd")
        monkeypatch.setattr("strudel.logic.column_classes.MAX_CASES", 0)
    else:
        monkeypatch.setitem(sys.modules, "pysdd", None)
    given = {
        None: lambda r: True,
        ("region", "N"): lambda r: r["region"] == "N",
        ("income", (np.nextafter(250.0, np.inf), None)): lambda r: r["income"] > 250.0,
    }
    for text, holds in FORMULAS.items():
        for evidence, agrees in given.items():
            wanted = math.fsum(w for r, w in rows if agrees(r) and holds(r))
            wanted /= math.fsum(w for r, w in rows if agrees(r))
            known = None if evidence is None else dict([evidence])
            assert model.probability(text, known) == pytest.approx(wanted, rel=1e-9), text
