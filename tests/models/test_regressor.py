"""Facts about `StrudelRegressor`."""

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from strudel import Strudel, StrudelClassifier, StrudelImputer, StrudelRegressor, load, save
from strudel.queries import expectation, quantile, variance

SMALL = Strudel(n_components=4, max_splits=0, validation_fraction=None)
EXPECTED = {
    "check_dataframe_column_names_consistency": "columns are found by name, in any order",
    "check_sample_weight_equivalence_on_dense_data": "cells and densities see rows, not weights",
    "check_sample_weight_equivalence_on_sparse_data": "cells and densities see rows, not weights",
}


@pytest.mark.compiled
@parametrize_with_checks(
    [StrudelRegressor(SMALL, random_state=0)], expected_failed_checks=lambda _: EXPECTED
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def table(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.random(n), "kind": rng.choice(["u", "v"], n), "b": rng.random(n)})
    y = pd.Series(5 * X["a"] + 3 * (X["kind"] == "u") + rng.normal(size=n) / 2, name="price")
    return X, y


@pytest.fixture(scope="module")
def model():
    return StrudelRegressor(random_state=0).fit(*table())


@pytest.mark.compiled
def test_predictions_take_any_missing_values(model):
    X, y = table(200, seed=1)
    assert model.score(X, y) > 0.9
    gaps = X.mask(np.random.default_rng(2).random(X.shape) < 0.4)
    assert 0.4 < model.score(gaps, y) < model.score(X, y)
    unknown = X[:1].mask(np.ones((1, 3), dtype=bool))
    assert model.predict(unknown)[0] == pytest.approx(table()[1].mean(), abs=0.2)


def test_few_rows_have_no_regressions_and_predictions_are_those_of_the_model():
    X, y = table(19)
    model = StrudelRegressor(SMALL, random_state=0).fit(X, y)
    assert model.regressions_ is None
    gaps = X.mask(np.random.default_rng(2).random(X.shape) < 0.4)
    assert model.predict(gaps) == pytest.approx(expectation(model, "price", gaps))
    assert model.predict_variance(gaps) == pytest.approx(variance(model, "price", gaps))
    levels = [0.1, 0.9]
    found = quantile(model, "price", levels, gaps)
    assert model.predict_quantile(gaps, levels) == pytest.approx(found)
    assert model.predict_interval(gaps, 0.8) == pytest.approx(found)


@pytest.mark.compiled
def test_a_line_is_predicted_better_than_by_cells():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    y = X @ [1.0, -2.0, 0.5] + rng.normal(size=500) / 10
    model = StrudelRegressor(SMALL, random_state=0).fit(X[:300], y[:300])
    by_cells = expectation(model, "y", np.column_stack([X[300:], np.full(200, np.nan)]))
    errors = [np.square(found - y[300:]).mean() for found in (model.predict(X[300:]), by_cells)]
    assert errors[0] < 0.1 * errors[1]


@pytest.mark.compiled
def test_every_question_is_answered_in_the_columns_and_the_target(model):
    X, y = table()
    chance = model.probability("price > 4 & kind = u")
    assert chance == pytest.approx(((y > 4) & (X["kind"] == "u")).mean(), abs=0.05)
    assert list(model.sample(3, random_state=0).columns) == ["a", "kind", "b", "price"]
    assert model.mutual_information("price", "a") > model.mutual_information("price", "b")


@pytest.mark.compiled
def test_intervals_hold_as_many_targets_as_they_say(model):
    X, y = table(400, seed=3)
    low, high = model.predict_interval(X, 0.8).T
    assert 0.75 < ((y >= low) & (y <= high)).mean() < 0.85
    gaps = X.mask(np.random.default_rng(5).random(X.shape) < 0.3)
    assert model.predict_variance(gaps).mean() > model.predict_variance(X).mean()
    assert (model.predict_quantile(X[:5]) <= model.predict_quantile(X[:5], 0.9)).all()


@pytest.mark.compiled
def test_a_saved_regressor_predicts_the_same(model, tmp_path):
    X, _ = table(20, seed=4)
    save(model, tmp_path / "price.strudel")
    again = load(tmp_path / "price.strudel")
    assert again.predict(X).tolist() == model.predict(X).tolist()
    assert again.predict_interval(X).tolist() == model.predict_interval(X).tolist()
    assert again.target_name_ == "price"
    assert again.feature_names_in_.tolist() == ["a", "kind", "b"]


def test_what_cannot_be_learned_from_is_refused():
    X, y = table(30)
    with pytest.raises(ValueError, match="X has 30 rows, but y has 29"):
        StrudelRegressor().fit(X, y[:-1])
    with pytest.raises(ValueError, match="NaN"):
        StrudelRegressor().fit(X, y.where(y > y.median()))
    model = StrudelRegressor(SMALL, random_state=0).fit(X, y)
    unknown = model.predict(X.assign(b=np.nan))
    assert np.array_equal(model.predict(X.drop(columns="b")), unknown)
    with pytest.raises(ValueError, match="has none of the"):
        model.predict(X.add_suffix("_"))


def test_a_target_of_text_is_refused():
    with pytest.raises(ValueError, match="y must hold numbers"):
        StrudelRegressor().fit([[1.0], [2.0], [3.0]], ["low", "high", "low"])


def test_a_target_of_dates_is_refused_and_so_are_names_that_repeat():
    X, y = table(20)
    with pytest.raises(ValueError, match="y must hold numbers, but holds dates"):
        StrudelRegressor().fit(X, pd.to_datetime(y))
    for model in (
        StrudelRegressor(),
        Strudel(n_components=1),
        StrudelClassifier(),
        StrudelImputer(),
    ):
        with pytest.raises(ValueError, match="X must name each column once, but has 'a' 2 times"):
            model.fit(X.set_axis(["a", "b", "a"], axis=1), y > 2)


@pytest.mark.compiled
def test_a_small_table_is_enough_for_a_straight_line():
    rng = np.random.default_rng(0)
    X = rng.random((400, 2))
    y = 10.0 * X[:, 0]
    model = StrudelRegressor(random_state=0).fit(X[:300], y[:300])
    assert model.score(X[300:], y[300:]) > 0.99  # four cells would reach 0.94


def test_the_estimator_that_is_given_says_what_columns_are():
    learner = Strudel(n_components=1, max_splits=0, columns={"zip": "category", "id": "ignore"})
    table = pd.DataFrame({"zip": [1, 2, 3, 4] * 15, "id": range(60)})
    model = StrudelRegressor(learner, random_state=0).fit(table, np.arange(60) % 4.0)
    assert model.circuit_.columns.names == ("zip", "y")
    assert model.circuit_.columns[0].kind == "category"
