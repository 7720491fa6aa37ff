"""Regressions that fill gaps: the penalty by leaving rows out, and what they give an imputer."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from column_circuits import as_bits
from strudel import StrudelImputer, load, log_likelihood, sample, save
from strudel.circuits import figure_1_circuit
from strudel.learning.bits.fold import folded
from strudel.learning.bits.mixture import as_mixture
from strudel.learning.fill_in import (
    PENALTIES,
    _models_without,
    _ridge,
)
from strudel.learning.options import EM
from strudel.learning.parameters import closed_form


def on_lines(n_rows=300, seed=0):
    """Three numbers on straight lines, and a category that follows from their sum."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(n_rows, 2))
    frame = pd.DataFrame(
        {
            "a": 100.0 + 10.0 * hidden[:, 0],
            "b": 3.0 * hidden[:, 1],
            "c": 5.0 * hidden[:, 0] - 4.0 * hidden[:, 1] + 0.1 * rng.normal(size=n_rows),
            "side": np.where(hidden.sum(axis=1) > 0.0, "right", "left"),
        }
    )
    return frame, frame.mask(rng.random(frame.shape) < 0.15)


def test_the_penalty_is_the_best_of_those_that_predict_rows_left_out():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(40, 6)) * [1.0, 2.0, 3.0, 1.0, 0.5, 1.0]
    wanted = inputs[:, :2] + rng.normal(size=(40, 2))
    scale = inputs.std(axis=0)

    def loss(penalty):
        total = 0.0
        for row in range(len(inputs)):
            rest = np.arange(len(inputs)) != row
            # The penalty stays that of the inputs as they are scaled with all rows.
            model = Ridge(penalty).fit(inputs[rest] / scale, wanted[rest])
            total += ((model.predict(inputs[[row]] / scale) - wanted[row]) ** 2).sum()
        return total

    best = min(PENALTIES, key=loss)
    model = Ridge(best).fit(inputs / scale, wanted)
    weight, bias, *_ = _ridge(inputs, wanted, np.ones(40))
    assert weight == pytest.approx(model.coef_.T / scale[:, np.newaxis])
    assert inputs @ weight + bias == pytest.approx(model.predict(inputs / scale))


def test_a_row_that_counts_twice_is_two_rows():
    rng = np.random.default_rng(1)
    inputs, wanted = rng.normal(size=(60, 3)), rng.normal(size=(60, 1))
    count = rng.integers(1, 3, 60)
    once = _ridge(inputs, wanted, np.ones(60))
    assert _ridge(inputs, wanted, np.full(60, 7.0))[0] == pytest.approx(once[0])
    few = np.array([PENALTIES[-1]])
    with pytest.MonkeyPatch.context() as patch:  # leaving out a row or both of a pair differ
        patch.setattr("strudel.learning.fill_in.PENALTIES", few)
        weighted = _ridge(inputs, wanted, count.astype(float))
        many = np.repeat(np.arange(60), count)
        patch.setattr("strudel.learning.fill_in.PENALTIES", few * count.mean())
        weighted_mean = _ridge(inputs[many], wanted[many], np.ones(len(many)))
    # Weights are relative: a penalty is one of rows that count once on average.
    assert weighted[0] == pytest.approx(weighted_mean[0])


def test_numbers_on_lines_are_filled_far_better_than_by_the_means_of_the_model():
    frame, gaps = on_lines()
    errors = {}
    for strategy in ("auto", "mean"):
        filled = StrudelImputer(strategy=strategy, random_state=0).fit_transform(gaps)
        was_hidden = gaps["c"].isna()
        errors[strategy] = (filled["c"] - frame["c"])[was_hidden].abs().mean()
        assert filled["c"].where(~was_hidden).equals(gaps["c"])
        assert filled["c"].between(gaps["c"].min(), gaps["c"].max()).all()
    assert errors["auto"] < 0.6 * errors["mean"]


def test_a_saved_imputer_fills_the_same_and_each_row_by_itself(tmp_path):
    _, gaps = on_lines()
    imputer = StrudelImputer(random_state=0).fit(gaps)
    save(imputer, tmp_path / "model.strudel")
    filled = imputer.transform(gaps)
    assert load(tmp_path / "model.strudel").transform(gaps).equals(filled)
    one_by_one = [imputer.transform(gaps.iloc[[row]]) for row in range(20)]
    pd.testing.assert_frame_equal(pd.concat(one_by_one), filled.iloc[:20], rtol=1e-12)


def test_what_tells_nothing_does_no_harm():
    _, gaps = on_lines(80)
    gaps["same"] = 1.5
    gaps["huge"] = np.where(np.arange(80) % 2, 1e100, -1e100)
    gaps.loc[:5, ["same", "huge"]] = np.nan
    filled = StrudelImputer(random_state=0).fit_transform(gaps)
    assert np.isfinite(filled.drop(columns="side").to_numpy()).all()
    assert (filled["same"] == 1.5).all()


def test_a_model_that_is_given_is_not_corrected():
    _, gaps = on_lines(80)
    imputer = StrudelImputer(random_state=0).fit(gaps)
    again = StrudelImputer(imputer.circuit_).fit(gaps)
    assert again.regressions_ is None
    by_model = imputer.set_params(strategy="mean").transform(gaps)
    assert again.transform(gaps)["c"].tolist() == pytest.approx(by_model["c"].tolist())


def test_rounds_are_counted_from_one():
    with pytest.raises(ValueError, match="max_rounds"):
        EM(max_rounds=0).check()


def test_very_wide_tables_are_filled_by_the_model_alone(monkeypatch):
    _, gaps = on_lines(100)
    monkeypatch.setattr("strudel.learning.fill_in.MOST_CELLS", 1000)
    wide = StrudelImputer(random_state=0).fit(gaps)
    assert wide.regressions_ is None
    mean = StrudelImputer(wide.circuit_, strategy="mean").fit(gaps)
    pd.testing.assert_frame_equal(wide.transform(gaps)[["a"]], mean.transform(gaps)[["a"]])


def test_a_table_in_which_nothing_varies_needs_no_regression():
    constant = pd.DataFrame({"a": ["x", "x", None, "x"], "b": [2.5, None, 2.5, 2.5]})
    filled = StrudelImputer(random_state=0).fit_transform(constant)
    assert list(filled["a"]) == ["x"] * 4
    assert list(filled["b"]) == [2.5] * 4


def test_rows_are_completed_by_what_the_others_would_have_taught():
    structure = as_bits(figure_1_circuit())
    rows = sample(folded(structure), 30, random_state=0).astype(float)
    fold, weight = np.arange(30) % 3, np.full(30, 1e6)  # so that little is left of what is taken
    whole = closed_form(structure, rows, sample_weight=weight)
    for number, without in enumerate(_models_without(as_mixture(whole), rows, weight, fold)):
        others = closed_form(structure, rows[fold != number], sample_weight=weight[:20])
        assert np.exp(without.edge_log_theta[:, 0]) == pytest.approx(others.theta, abs=1e-5)


def test_rows_that_cannot_be_teach_nothing():
    structure = as_bits(figure_1_circuit())
    rows = sample(folded(structure), 30, random_state=0).astype(float)
    log_theta = structure.edge_log_theta.copy()
    log_theta[:2] = -np.inf, 0.0  # a sum of two edges
    certain = structure.with_parameters(log_theta)
    is_possible = log_likelihood(folded(certain), rows) > -np.inf
    assert 0 < is_possible.sum() < 30
    fold = np.arange(30) % 3
    found = _models_without(as_mixture(certain), rows, None, fold)
    expected = _models_without(as_mixture(certain), rows[is_possible], None, fold[is_possible])
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.edge_log_theta, other.edge_log_theta)
        assert not np.isnan(one.edge_log_theta).any()
