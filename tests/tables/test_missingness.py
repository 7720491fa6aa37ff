"""Missing for a reason: rules against the counts of the rows that follow them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from strudel import Strudel, StrudelImputer, load, save
from strudel.errors import LeftEmptyWarning, MissingForAReasonWarning
from strudel.tables import TableEncoder
from strudel.tables.missingness import why_not_rates

N = 1200


def people(seed=0):
    """Pregnancies are missing for men, licences below 16, two measurements together."""
    rng = np.random.default_rng(seed)
    sex, age = rng.choice(["female", "male"], N), rng.integers(1, 90, N)
    frame = pd.DataFrame({"sex": sex, "age": age, "height": rng.normal(170.0, 10.0, N)})
    frame["pregnancies"] = np.where(
        (sex == "male") | (rng.random(N) < 0.05), np.nan, rng.poisson(2, N)
    )
    frame["licence"] = np.where(age < 16, None, rng.choice(["car", "none"], N))
    frame["income"] = np.where(
        rng.random(N) < np.where(age >= 60, 0.5, 0.1), np.nan, rng.lognormal(10, 1, N)
    )
    is_lost = rng.random(N) < 0.3
    for name in ("left", "right"):
        frame[name] = np.where(is_lost, np.nan, rng.normal(size=N))
    return frame


@pytest.fixture(scope="module")
def rows():
    return people()


@pytest.fixture(scope="module")
def code(rows):
    with pytest.warns(MissingForAReasonWarning):
        return TableEncoder().fit(rows).code_


@pytest.fixture(scope="module")
def model(rows):
    with pytest.warns(MissingForAReasonWarning):
        return Strudel(n_components=1, max_splits=0, random_state=0).fit(rows)


def test_the_rules_are_those_of_the_rows(rows, code):
    rules = {rule.column: rule for rule in code.missingness.rules}
    assert set(rules) == {"pregnancies", "licence", "income", "left", "right"}
    assert {name for name, rule in rules.items() if rule.is_structural} == {
        "pregnancies",
        "licence",
    }
    gone = rows.isna()
    is_man = rows["sex"] == "male"
    rule = rules["pregnancies"]
    assert (rule.because_of, rule.values, rule.or_missing) == ("sex", ("male",), False)
    assert rule.rate == gone["pregnancies"][is_man].mean() == 1.0
    assert rule.rate_elsewhere == gone["pregnancies"][~is_man].mean()
    assert (rules["licence"].because_of, rules["licence"].intervals) == ("age", ((None, 16.0),))
    ((low, high),) = rules["income"].intervals
    is_old = rows["age"] >= low
    assert (rules["income"].because_of, high) == ("age", None)
    assert abs(low - 60) <= 3  # where chance in these rows puts the bound
    assert rules["income"].rate == gone["income"][is_old].mean()
    assert rules["income"].rate_elsewhere == gone["income"][~is_old].mean()
    assert (rules["left"].because_of, rules["left"].or_missing) == ("right", True)


def test_the_warning_names_pairs_and_rates(rows):
    share = f"{100 * rows['pregnancies'][rows['sex'] == 'female'].isna().mean():.0f} %"
    with pytest.warns(MissingForAReasonWarning) as caught:
        TableEncoder().fit(rows)
    (said,) = [str(one.message) for one in caught]
    assert (
        "pregnancies is missing in 100 % of the rows with sex = male, and in "
        f"{share} of the others" in said
    )
    assert "licence is missing in 100 % of the rows with age < 16, and in 0 % of the others" in said
    assert ("left is missing" in said) != ("right is missing" in said)  # together: once


def test_values_missing_by_chance_have_no_reason():
    rng = np.random.default_rng(3)
    rows = people().fillna({"licence": "none"}).fillna(0.0)
    rows = rows.mask(rng.random(rows.shape) < 0.2)
    assert TableEncoder().fit(rows).code_.missingness.rules == ()


def test_a_second_rule_is_found_where_the_first_does_not_hold():
    rows = people()
    rows.loc[rows["age"] < 12, "pregnancies"] = np.nan
    with pytest.warns(MissingForAReasonWarning):
        found = TableEncoder().fit(rows).code_.missingness.rules
    own = [rule for rule in found if rule.column == "pregnancies"]
    assert [(rule.because_of, rule.is_structural) for rule in own] == [("sex", True), ("age", True)]
    assert own[1].intervals == ((None, 12.0),)


@pytest.mark.compiled
def test_the_imputer_leaves_values_empty_that_are_missing_by_rule(rows, model):
    by_rule = rows["pregnancies"].isna() & (rows["sex"] == "male")
    young = rows["licence"].isna() & (rows["age"] < 16)
    n_left = int(by_rule.sum() + young.sum())
    imputer = StrudelImputer(model, strategy="mean").fit(rows)
    with pytest.warns(LeftEmptyWarning, match=f"Left {n_left:,} values empty") as caught:
        filled = imputer.transform(rows)
    assert caught[0].message.n_values == n_left
    assert filled["pregnancies"].isna().equals(by_rule)
    assert filled["licence"].isna().equals(young)
    assert not filled.drop(columns=["pregnancies", "licence"]).isna().any().any()
    everything = StrudelImputer(model, strategy="mean", fill_structural=True).fit_transform(rows)
    assert not everything.isna().any().any()
    assert everything[~by_rule]["pregnancies"].equals(filled[~by_rule]["pregnancies"])
    unknown_sex = rows[by_rule].assign(sex=None)  # whether the rule holds is not known
    with pytest.warns(LeftEmptyWarning):
        assert not imputer.transform(unknown_sex)["pregnancies"].isna().any()


@pytest.mark.compiled
@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_of_any_kind_keep_what_is_left_empty(rows, model, library):
    frame = rows[["sex", "pregnancies", "age", "height", "licence"]]
    if library == "polars":
        frame = pl.from_pandas(frame)
    elif library == "pyarrow":
        frame = pa.Table.from_pandas(frame)
    imputer = StrudelImputer(model, strategy="map").fit(rows)
    with pytest.warns(LeftEmptyWarning):
        filled = imputer.transform(frame)
    names = filled.column_names if library == "pyarrow" else list(filled.columns)
    assert set(names) == set(rows.columns)  # columns that the frame lacks are filled
    left = pd.Series(list(np.asarray(filled["pregnancies"], dtype=object))).isna()
    assert left.tolist() == (rows["sex"] == "male").tolist()


@pytest.mark.compiled
def test_drawn_rows_have_missing_values_as_the_table(rows, model):
    drawn = model.sample(4000, random_state=0, missing=True)
    assert not model.sample(100, random_state=0).isna().any().any()
    gone, own = drawn.isna(), rows.isna()
    assert gone["pregnancies"][drawn["sex"] == "male"].all()
    assert gone["licence"].equals(drawn["age"] < 16)

    def is_near(share, of_rows, n):
        spread = np.sqrt(of_rows * (1.0 - of_rows) * (1.0 / n + 1.0 / len(rows)))
        return abs(share - of_rows) < 4.0 * spread + 1e-9

    women, is_woman = drawn["sex"] == "female", rows["sex"] == "female"
    share = own["pregnancies"][is_woman].mean()
    assert is_near(gone["pregnancies"][women].mean(), share, women.sum())
    for old, is_old in (
        (drawn["age"] >= 65, rows["age"] >= 65),
        (drawn["age"] < 50, rows["age"] < 50),
    ):
        assert is_near(gone["income"][old].mean(), own["income"][is_old].mean(), old.sum())
    assert is_near(gone["left"].mean(), own["left"].mean(), len(drawn))
    assert is_near((gone["left"] & gone["right"]).mean(), own["left"].mean(), len(drawn))
    assert (gone["left"] != gone["right"]).mean() < 0.01
    assert not gone[["sex", "age", "height"]].any().any()


@pytest.mark.compiled
def test_what_is_given_is_not_missing_in_draws(model):
    drawn = model.sample(50, given={"sex": "male", "pregnancies": 1}, random_state=0, missing=True)
    assert (drawn["pregnancies"] == 1).all()


def test_a_model_of_0_and_1_knows_of_no_missing_values():
    circuit = Strudel(n_components=1, max_splits=0, random_state=0).fit(
        np.eye(4, dtype=int).repeat(20, axis=0)
    )
    with pytest.raises(ValueError, match="missing=True draws missing values as the columns"):
        circuit.sample(3, missing=True)


@pytest.mark.compiled
def test_files_keep_the_rules(model, code, tmp_path):
    save(model, tmp_path / "m.strudel")
    same = load(tmp_path / "m.strudel")
    assert same.missing_ == model.missing_ == list(code.missingness.rules)
    first, second = (one.sample(20, random_state=1, missing=True) for one in (model, same))
    assert first.equals(second)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"rate": 2.0}, "must be between 0 and 1"),
        ({"rate": "x"}, "must be between 0 and 1"),
        ({"intervals": ((1,),)}, "two bounds"),
        ({"intervals": (("a", None),)}, "two bounds"),
    ],
)
def test_a_rule_of_a_damaged_file_is_refused(code, wrong, words):
    rule = code.missingness.rules[0]
    assert why_not_rates(rule) is None
    assert words in why_not_rates(replace(rule, **wrong))
