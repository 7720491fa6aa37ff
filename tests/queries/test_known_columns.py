"""Columns that are missing for a reason: answers are about the rows in which they have values."""

import warnings

import numpy as np
import pandas as pd
import pytest

from strudel import Strudel, probability
from strudel.algebra import marginalize
from strudel.queries import expectation, marginal_probabilities, of_all_rows, quantile


def people(n_rows=4000, seed=0):
    """Wages of those who work, which the young do more often; births of women."""
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 80, n_rows)
    sex = np.where(rng.random(n_rows) < 0.4, "female", "male")
    wage = np.round(rng.gamma(4.0, 5.0, n_rows) * (1.0 - (age - 20) / 100), 2)
    births = rng.poisson((age - 15) / 20.0)
    works = rng.random(n_rows) < np.where(age < 60, 0.9, 0.15)
    return pd.DataFrame(
        {
            "age": age,
            "sex": sex,
            "wage": np.where(works, wage, np.nan),
            "births": np.where(sex == "female", births, np.nan),
        }
    )


@pytest.fixture(scope="module")
def rows():
    return people()


@pytest.fixture(scope="module")
def model(rows):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Strudel(random_state=0).fit(rows)


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("event", "given"),
    [
        ("wage > 20", None),
        ("age >= 60", "wage < 10"),
        ("sex = male", "births >= 2"),
        ("births >= 3", "age > 50"),
        ("births = 0 & wage > 15", None),
    ],
)
def test_a_probability_is_that_of_rows_with_values(model, rows, event, given):
    def fits(said):
        return rows.eval(said.replace(" = male", " == 'male'").replace(" = 0", " == 0"))

    known = pd.Series(True, index=rows.index)
    for name in ("wage", "births"):
        if name in f"{event} {given}":
            known &= rows[name].notna()
    if given:
        known &= fits(given)
    share, n_rows = fits(event)[known].mean(), known.sum()
    error = np.sqrt(max(share * (1.0 - share), 0.01) / n_rows)
    assert probability(model, event, given) == pytest.approx(share, abs=3.0 * error + 0.01)


@pytest.mark.compiled
def test_means_and_quantiles_are_those_of_rows_with_values(model, rows):
    wage = rows["wage"].dropna()
    assert expectation(model, "wage") == pytest.approx(wage.mean(), rel=0.03)
    assert quantile(model, "wage", 0.5) == pytest.approx(wage.median(), rel=0.06)
    births = marginal_probabilities(model)["births"]
    columns = model.circuit_.columns
    low = columns[columns.place("births")].edges[0]
    share = (rows["births"].dropna() < low).mean()
    assert next(iter(births.values())) == pytest.approx(share, abs=0.02)


@pytest.mark.compiled
def test_columns_of_which_all_values_are_known_do_not_change(model, rows):
    assert probability(model, "age >= 60") == pytest.approx((rows["age"] >= 60).mean(), abs=0.02)
    both = probability(model, "age >= 60 & sex = male")
    given = probability(model, "age >= 60", "sex = male")
    assert both == pytest.approx(given * probability(model, "sex = male"), rel=1e-9)


@pytest.mark.compiled
def test_the_model_of_all_rows_has_those_without_a_value_as_well():
    rng = np.random.default_rng(0)
    old = rng.random(3000) < 0.5
    pay = np.round(rng.normal(np.where(old, 20.0, 40.0), 4.0), 1)
    shown = np.where(rng.random(3000) < np.where(old, 0.2, 0.9), pay, np.nan)
    rows = pd.DataFrame({"old": np.where(old, "yes", "no"), "pay": shown})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = Strudel(random_state=0).fit(rows)
    assert expectation(model, "pay") == pytest.approx(np.nanmean(shown), abs=0.5)
    assert expectation(of_all_rows(model), "pay") == pytest.approx(pay.mean(), abs=0.8)


def test_a_part_of_a_model_has_the_same_causes():
    """Shares of known values that are the same up to rounding say nothing of single leaves."""
    rng = np.random.default_rng(0)
    age = rng.integers(20, 80, 600)
    answer = np.where(rng.random(600) < np.where(age < 50, 0.3, 0.7), "yes", "no").astype(object)
    answer[(age < 50) & (rng.random(600) < 0.7)] = None
    rows = pd.DataFrame({"age": age, "answer": answer, "other": rng.integers(0, 5, 600)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = Strudel(n_components=2, max_splits=2, random_state=0).fit(rows)
    part = marginalize(model.circuit_, ["age", "answer"])
    assert probability(part, "answer = yes") == pytest.approx(probability(model, "answer = yes"))
