"""Commands keep what is missing for a reason: fit says it, impute leaves it, sample draws it."""

import numpy as np
import pandas as pd
import pytest

from strudel import load


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    rng = np.random.default_rng(0)
    sex = rng.choice(["female", "male"], 400)
    rows = pd.DataFrame({"sex": sex, "age": rng.integers(20, 90, 400), "number": range(400)})
    rows["births"] = pd.array(np.where(sex == "male", None, rng.poisson(2, 400)), dtype="Int64")
    rows["pulse"] = rng.normal(70.0, 9.0, 400).round(1)
    rows.loc[rng.random(400) < 0.25, "pulse"] = np.nan
    path = tmp_path_factory.mktemp("visits") / "visits.csv"
    rows.sample(frac=1.0, random_state=0).to_csv(path, index=False)
    return path


@pytest.fixture
def learned(run, visits, tmp_path):
    path = tmp_path / "visits.strudel"
    code, _, err = run("fit", visits, "--components", "1", "--max-splits", 0, "-o", path)
    assert code == 0, err
    return path, err


def test_fit_says_what_is_left_out_and_missing_for_a_reason(learned):
    path, err = learned
    assert "note: Column 'number' looks like an identifier (400 of 400 values are distinct)" in err
    assert "births is missing in 100 % of the rows with sex = male, and in 0 % of the others" in err
    assert "strudel impute leaves those empty that are missing by rule" in err
    assert load(path).circuit_.columns.names == ("sex", "age", "births", "pulse")


def test_impute_leaves_them_empty_and_says_how_many(run, learned, visits, tmp_path):
    path, rows = tmp_path / "filled.csv", pd.read_csv(visits)
    n_men, n_unknown = int((rows.sex == "male").sum()), int(rows.pulse.isna().sum())
    code, _, err = run("impute", learned[0], visits, "-o", path)
    assert code == 0
    assert f"note: Left {n_men} values empty that are missing by rule: births is missing" in err
    assert "--fill-structural fills them." in err
    assert f"filled {n_unknown} gaps in 400 rows" in err
    filled = pd.read_csv(path)
    assert filled.births.isna().equals(rows.sex == "male")
    assert list(filled) == list(rows)
    assert filled.number.equals(rows.number)
    code, _, err = run("impute", learned[0], visits, "-o", path, "--fill-structural")
    assert f"filled {n_unknown + n_men} gaps" in err
    assert not pd.read_csv(path).isna().any().any()


def test_sample_draws_missing_values_if_asked(run, learned, tmp_path):
    path = tmp_path / "drawn.csv"
    run("sample", learned[0], "-n", 500, "-o", path)
    assert not pd.read_csv(path).isna().any().any()
    code, _, _ = run("sample", learned[0], "-n", 500, "--missing", "-o", path)
    drawn = pd.read_csv(path)
    assert code == 0
    assert drawn.births.isna().equals(drawn.sex == "male")
    assert abs(drawn.pulse.isna().mean() - 0.25) < 0.1
    assert not drawn[["sex", "age"]].isna().any().any()


def test_a_model_of_0_and_1_draws_no_missing_values(refused, model):
    refused("sample", model, "--missing")
