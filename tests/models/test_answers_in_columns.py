"""Queries in the columns of a table, against enumeration of all combinations of values.

The model gives probability zero to impossible codes, so its probabilities over the combinations of
values add up to one, and every answer is a sum over some of them.
"""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from column_circuits import probability_of
from strudel import (
    EM,
    Strudel,
    condition,
    count_distribution,
    load,
    log_likelihood,
    log_marginal,
    marginal_map,
    marginal_probabilities,
    most_probable_state,
    mutual_information,
    probability,
    sample,
    save,
    variables,
)
from strudel.algebra import marginalize
from strudel.errors import ExtraColumnsWarning, UnseenValueWarning, WrongTableError
from strudel.queries.given import circuit_of
from strudel.tables import TableEncoder

AGES, SMOKER, COLOURS, SIZES = (20, 35, 50, 70), ("no", "yes"), ("blue", "dark red", "red"), "SML"
DATES = (pd.Timestamp("2020-03-01"), pd.Timestamp("2021-03-01"))
NAMES = ("age", "smoker", "colour", "size", "flag", "when")
COMBOS = list(itertools.product(AGES, SMOKER, COLOURS, SIZES, (False, True), DATES))
approx = pytest.approx


def people(seed=0, n=300):
    """A table with every kind of column."""
    rng = np.random.default_rng(seed)
    age = rng.choice(AGES, n)
    smoker = np.where(rng.random(n) < 0.2 + 0.4 * (age < 40), "yes", "no")
    return pd.DataFrame(
        {
            "age": age,
            "smoker": smoker,
            "colour": rng.choice(COLOURS, n, p=[0.2, 0.3, 0.5]),
            "size": pd.Categorical(rng.choice(list(SIZES), n), list(SIZES), ordered=True),
            "flag": rng.random(n) < 0.3 + 0.3 * (smoker == "yes"),
            "when": pd.Series(DATES)[rng.integers(0, 2, n)].to_numpy(),
        }
    )


def encoder():
    return TableEncoder(edges={"age": [30, 40, 60], "when": ["2021-01-01"]})


@pytest.fixture(scope="module")
def model():
    fitted = Strudel(n_components=1, columns=encoder(), max_splits=3, random_state=0)
    return fitted.fit(people()).circuit_


@pytest.fixture(scope="module")
def joint(model):
    """The probability of every combination of cells, node by node."""
    found = []
    for age, smoker, colour, size, flag, when in COMBOS:
        cells = [sum(age >= edge for edge in (30, 40, 60)), smoker == "yes"]
        cells += [COLOURS.index(colour), "SML".index(size), flag, when == DATES[1]]
        found.append(probability_of(model, cells))
    p = np.array(found)
    assert p.sum() == approx(1.0)
    return p


def mass(joint, holds):
    """The probability of the combinations for which `holds` is true of a dict of values."""
    truth = [bool(holds(dict(zip(NAMES, combo, strict=True)))) for combo in COMBOS]
    return joint[truth].sum()


EVIDENCE = [
    ({"age": (30, 60)}, lambda r: 30 <= r["age"] < 60),
    ({"age": (None, 40), "smoker": "yes"}, lambda r: r["age"] < 40 and r["smoker"] == "yes"),
    ({"age": (60, None)}, lambda r: r["age"] >= 60),
    ({"age": (35, 36)}, lambda r: r["age"] == 35),
    ({"colour": ["red", "blue"]}, lambda r: r["colour"] in ("red", "blue")),
    ({"colour": {"dark red"}}, lambda r: r["colour"] == "dark red"),
    ({"size": ("M", None), "flag": True}, lambda r: r["size"] in "ML" and r["flag"]),
    ({"size": ("S", "L")}, lambda r: r["size"] in "SM"),
    ({"size": ["S", "M"]}, lambda r: r["size"] in "SM"),
    ({"flag": 0, "when": ("2021-01-01", None)}, lambda r: not r["flag"] and r["when"].year == 2021),
    ({"when": (None, "2020-12-31"), "smoker": None}, lambda r: r["when"].year == 2020),
    ({}, lambda r: True),
]


@pytest.mark.parametrize(("given", "holds"), EVIDENCE)
def test_marginals_by_value(model, joint, given, holds):
    found = marginal_probabilities(model, given)
    total = mass(joint, holds)
    assert list(found) == list(NAMES)
    wanted = {
        "age": dict(zip(AGES, ("<30", "[30, 40)", "[40, 60)", ">=60"), strict=True)),
        "smoker": {own: own for own in SMOKER},
        "colour": {own: own for own in COLOURS},
        "size": {own: own for own in SIZES},
        "flag": {False: False, True: True},
    }
    for name, key_of in wanted.items():
        for value, key in key_of.items():
            p = mass(joint, lambda r, v=value, n=name: holds(r) and r[n] == v) / total
            assert found[name].get(value, found[name].get(key)) == approx(p, abs=1e-12)


EVENTS = [
    ("age >= 60", lambda x: x["age"] >= 60, lambda r: r["age"] >= 60),
    (
        "age < 40 & smoker = yes",
        lambda x: (x["age"] < 40) & (x["smoker"] == "yes"),
        lambda r: r["age"] < 40 and r["smoker"] == "yes",
    ),
    (
        "colour = 'dark red'",
        lambda x: x["colour"] == "dark red",
        lambda r: r["colour"] == "dark red",
    ),
    (
        "colour != red & flag",
        lambda x: (x["colour"] != "red") & x["flag"],
        lambda r: r["colour"] != "red" and r["flag"],
    ),
    (
        "colour in [red, 'blue']",
        lambda x: x["colour"].isin(["red", "blue"]),
        lambda r: r["colour"] in ("red", "blue"),
    ),
    ("~(size <= M)", lambda x: ~(x["size"] <= "M"), lambda r: r["size"] == "L"),
    ("size == M", lambda x: x["size"] == "M", lambda r: r["size"] == "M"),
    ("when >= 2021-01-01", lambda x: x["when"] >= "2021-01-01", lambda r: r["when"].year == 2021),
    (
        "when < '2021-01-01' & flag = 0",
        lambda x: (x["when"] < "2021-01-01") & ~x["flag"],
        lambda r: r["when"].year == 2020 and not r["flag"],
    ),
    ("age > 35.5", lambda x: x["age"] > 35.5, lambda r: r["age"] > 36),
    (
        "'age>=40' & ~'smoker=yes'",
        lambda x: x["age>=40"] & ~x["smoker=yes"],
        lambda r: r["age"] >= 40 and r["smoker"] == "no",
    ),
    (
        "30 <= age < 60 & flag",
        lambda x: x["age"].between(30, 60) & x["flag"],
        lambda r: 30 <= r["age"] < 60 and r["flag"],
    ),
    ("2021-01-01 > when", lambda x: x["when"] < "2021-01-01", lambda r: r["when"].year == 2020),
    ("age >= -3", lambda x: x["age"] >= -3, lambda r: True),
    ("age > 1e3", lambda x: x["age"] > 1000, lambda r: False),
    ("age in (20, 35)", lambda x: x["age"].between(None, 40), lambda r: r["age"] < 40),
]


def test_values_with_gaps_and_alternatives_are_events(model, joint):
    pytest.importorskip("pysdd", reason="needs PySDD: pip install 'strudel-pc[logic]'")
    x = variables(model)
    gap = mass(joint, lambda r: r["size"] in "SL")
    assert probability(model, x["size"].isin(["S", "L"])) == approx(gap)
    assert probability(model, "size != M") == approx(gap)
    either = mass(joint, lambda r: r["age"] >= 60 or r["colour"] == "dark red")
    assert probability(model, "age >= 60 | colour = 'dark red'") == approx(either)
    held = mass(joint, lambda r: r["size"] in "SL" and r["smoker"] == "yes") / gap
    assert probability(condition(model, "size in [S, L]"), "smoker = yes") == approx(held)
    assert np.exp(log_marginal(model, {"size": ["S", "L"]}))[0] == approx(gap)


MAKERS = {"pandas": lambda t: t, "polars": pl.from_pandas, "pyarrow": pa.Table.from_pandas}


@pytest.mark.parametrize("kind", MAKERS)
def test_frames_of_all_kinds_with_columns_in_any_order(model, joint, kind):
    table = people(1, 5)
    p = dict(zip(COMBOS, joint, strict=True))
    wanted = np.log([p[tuple(row)] for row in table.itertuples(index=False)])
    frame = MAKERS[kind](table[list(NAMES[::-1])])
    assert log_likelihood(model, frame) == approx(wanted)
    some = table[["smoker", "colour"]].astype(object)
    some.loc[2, "smoker"] = None
    found = np.exp(log_marginal(model, MAKERS[kind](some)))
    for row in range(5):
        known = some.loc[row].dropna().to_dict()
        assert found[row] == approx(
            mass(joint, lambda r, k=known: all(r[name] == value for name, value in k.items()))
        )


@pytest.mark.parametrize("kind", MAKERS)
def test_answers_come_in_frames_of_the_kind_that_was_learned_from(model, kind):
    model = model.with_columns(replace(model.columns, container=kind))
    drawn = sample(model, 20, random_state=0)
    assert type(drawn) is type(MAKERS[kind](people(0, 1)))
    assert np.isfinite(log_likelihood(model, drawn)).all()


def test_completions_keep_what_is_given_and_fill_the_rest(model, joint):
    table = people(2, 4)
    table["age"] = [33, 22, 64, 90]  # not the medians of their cells
    gaps = table.astype(object)
    gaps.loc[0, "smoker"] = gaps.loc[1, "colour"] = gaps.loc[2, "age"] = None
    filled, log_p = most_probable_state(model, gaps)
    assert list(filled.columns) == list(NAMES)
    assert filled["age"].tolist()[:2] == [33, 22]
    assert filled["age"].dtype == np.int64
    cell = {33: 35, 22: 20, 64: 70, 90: 70}
    for row in range(4):
        known = {n: cell.get(v, v) for n, v in gaps.loc[row].dropna().to_dict().items()}
        best = max(
            (p, combo)
            for p, combo in zip(joint, COMBOS, strict=True)
            if all(dict(zip(NAMES, combo, strict=True))[n] == v for n, v in known.items())
        )
        assert log_p[row] == approx(np.log(best[0]))
        found = {name: filled[name].iloc[row] for name in NAMES}
        found["age"] = cell.get(found["age"], found["age"])
        assert found == dict(zip(NAMES, best[1], strict=True))
    drawn = sample(model, 3, gaps, random_state=0)
    assert drawn["age"].tolist()[:6] == [33] * 3 + [22] * 3
    assert drawn["smoker"].tolist()[3:6] == [table.loc[1, "smoker"]] * 3
    best, log_best = most_probable_state(model, {"age": (30, 40)}, k=2)
    assert best["age"].tolist() == [35, 35]
    assert log_best.shape == (2,)


def test_pandas_answers_keep_the_index_and_names_that_are_not_text():
    rows = pd.DataFrame([["a", 1], ["b", 2], ["b", 3]] * 10)
    model = Strudel(n_components=1, max_splits=0, random_state=0).fit(rows)
    given = pd.DataFrame([["a", None], [None, 3]], index=["first", "second"])
    state, _ = model.most_probable_state(given)
    assert state.index.tolist() == ["first", "second"]
    assert state.columns.equals(rows.columns)
    assert state.loc["second", 1] == 3
    drawn = model.sample(3, given, random_state=0)
    assert drawn.index.tolist() == ["first"] * 3 + ["second"] * 3


def test_samples_have_the_frequencies_of_the_model(model, joint):
    drawn = sample(model, 4000, {"age": (30, 60)}, random_state=0)
    assert set(drawn["age"]) == {35, 50}
    total = mass(joint, lambda r: 30 <= r["age"] < 60)
    yes = mass(joint, lambda r: 30 <= r["age"] < 60 and r["smoker"] == "yes") / total
    assert (drawn["smoker"] == "yes").mean() == approx(yes, abs=0.03)


def test_marginal_map_and_information_of_columns(model, joint):
    def chance(age, size):
        return mass(joint, lambda r: (r["age"], r["size"]) == (age, size) and r["smoker"] == "yes")

    found = marginal_map(model, ["age", "size", "flag"], {"smoker": "yes"})
    wanted = max(
        (
            mass(
                joint, lambda r, c=c: (r["age"], r["size"], r["flag"], r["smoker"]) == (*c, "yes")
            ),
            c,
        )
        for c in itertools.product(AGES, SIZES, (False, True))
    )
    assert np.exp(found.log_probability) == approx(wanted[0])
    assert tuple(found.state.values()) == wanted[1]
    p = np.array([[chance(age, size) for size in SIZES] for age in AGES])
    p /= p.sum()
    information = (p * np.log(p / p.sum(0) / p.sum(1, keepdims=True))).sum()
    assert mutual_information(model, "age", "size", {"smoker": "yes"}) == approx(information)
    counts = count_distribution(model, ["flag", "smoker"])
    assert counts[2] == approx(mass(joint, lambda r: r["flag"] and r["smoker"] == "yes"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"aeg": 3}, "given names 'aeg', which is not a column. Did you mean 'age'?"),
        ({"smoker": "yse"}, "Column 'smoker' has no value 'yse'. Did you mean 'yes'?"),
        ({"age": "old"}, "Column 'age' holds numbers, but got 'old'"),
        ({"age": (40, 30)}, "low < high"),
        ({"age": (1, 2, 3)}, "Use a list for a set of values"),
        ({"age": (500, None)}, "No value of column 'age' seen at fit is 500 or more"),
        ({"age": (None, -500)}, "No value of column 'age' seen at fit is below -500"),
        ({"age": (500, 600)}, "No value of column 'age' seen at fit is from 500 to below 600"),
        ({"when": "soon"}, "Expected a date such as '2020-01-31', but found 'soon'"),
        ({99: 1}, "given names 99"),
        ({"colour": []}, "No value of column 'colour'"),
        (pd.DataFrame({"aeg": [3]}), "and has 'aeg' instead. Is 'aeg' 'age'?"),
        ([[1, 2, 3]], "has 3 features"),
    ],
)
def test_what_cannot_be_given_is_said(model, given, words):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        marginal_probabilities(model, given)
    assert words in str(caught.value)


def test_a_value_of_a_table_that_was_never_seen_counts_as_missing(model):
    with pytest.warns(UnseenValueWarning, match="'nope' of column 'smoker'"):
        found = marginal_probabilities(model, pd.DataFrame({"smoker": ["nope"]}))
    assert found["smoker"]["yes"] == pytest.approx(marginal_probabilities(model)["smoker"]["yes"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("age & flag", "'age' is a column: compare it with a value, as in age >= 70"),
        ("aeg > 3", "'aeg' is not a column. Did you mean 'age'"),
        ("smoker = yse", "has no value 'yse'. Did you mean 'yes'"),
        ("smoker > no", "have no order"),
        ("age >", "expected a value"),
        ("colour in red", "expected values in brackets such as {a, b}"),
        ("colour in [red, blue", "expected a comma or ']'"),
        ("age > 3 4", "expected an operator such as & or |"),
        ("30 < flagg", "'flagg' is not a column"),
        ("30 & flag", "a number is allowed only as in a=1"),
        ("2020-01-31", "a number is allowed only"),
        ("__import__('os')", "there is no __import__(...)"),
        ("at_least(1.5, flag)", "this number must be whole"),
    ],
)
def test_what_cannot_be_read_is_said(model, text, words):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        probability(model, text)
    assert words in str(caught.value)


def test_a_column_is_no_event_until_compared(model):
    x = variables(model)
    for use in (lambda: x["age"] & x["flag"], lambda: ~x["age"], lambda: bool(x["age"])):
        with pytest.raises(TypeError, match="compare"):
            use()
    assert "number with '<30'" in repr(x["age"])
    with pytest.raises(ValueError, match=r"'aeg', which is not a column\. Did you mean 'age'"):
        x["aeg"]


def test_a_mixture_answers_in_columns_and_all_survive_a_file(tmp_path):
    table = MAKERS["polars"](people())
    options = {"n_components": 2, "max_splits": 2, "method": EM(max_iter=3), "random_state": 0}
    mixture = Strudel(columns=encoder(), **options).fit(table, X_valid=table)
    single = Strudel(n_components=1, max_splits=1, random_state=0).fit(people())
    for held in (mixture, mixture.circuit_, single, single.circuit_):
        save(held, tmp_path / "model.strudel")
        again = load(tmp_path / "model.strudel")
        assert np.array_equal(log_likelihood(again, table), log_likelihood(held, table))
        event = "smoker = yes & flag"
        assert probability(again, event) == probability(held, event)
    assert isinstance(mixture.sample(3, random_state=0), pl.DataFrame)
    save(mixture, tmp_path / "model.strudel")
    again = load(tmp_path / "model.strudel")
    assert again.get_params()["columns"].get_params() == mixture.columns.get_params()
    assert again.score(table) == mixture.score(table)
    assert again.n_features_in_ == 6


def test_scores_take_missing_values_and_missing_columns():
    model = Strudel(n_components=1, columns=encoder(), max_splits=0, random_state=0).fit(people())
    table = people(1, 4)
    assert model.score_samples(table) == approx(log_likelihood(model, table))
    gaps = table.astype(object)
    gaps.loc[1, "age"] = None
    assert model.score_samples(gaps) == approx(log_marginal(model, gaps))
    with pytest.raises(ValueError, match=r"'age' is missing at row 1\. log_marginal takes rows"):
        log_likelihood(model, gaps)
    lacking, unknown = table.drop(columns="age"), table.assign(age=np.nan)
    assert model.score_samples(lacking) == approx(log_marginal(model, unknown))
    with pytest.warns(ExtraColumnsWarning, match="X has 'hat', which"):
        assert model.score(table.assign(hat="red")) == model.score(table)
    with pytest.raises(WrongTableError, match=r"only 1 of the .* it lacks"):
        model.score(table[["age"]].assign(hat="red"))


def test_a_marginal_has_the_columns_that_are_kept(model, joint):
    some = marginalize(model, ["colour", "age"])
    assert circuit_of(some).columns.names == ("colour", "age")
    holds = mass(joint, lambda r: r["age"] >= 40 and r["colour"] == "red")
    assert probability(some, "age >= 40 & colour = red") == approx(holds)


def test_a_constraint_may_be_about_columns():
    table = people()
    table = table[(table["age"] < 40) | (table["smoker"] == "no")]
    rule = "age >= 40 >> smoker = no"
    model = Strudel(
        n_components=1, columns=encoder(), constraint=rule, max_splits=1, random_state=0
    ).fit(table)
    assert probability(model, "age >= 40 & smoker = yes") == 0.0
    with pytest.raises(ValueError, match="must satisfy the constraint"):
        model.fit(people())


@pytest.mark.parametrize("step", [2**63, 10**25])
def test_whole_numbers_that_frames_cannot_hold_are_floats(step):
    whole = [step * (1 + k % 3) if step > 2**64 else step + 2048 * (k % 3) for k in range(30)]
    flag = np.arange(30) % 2
    frame = pd.DataFrame({"z": pd.Series(whole), "flag": flag})
    other = pl.DataFrame({"z": pl.Series(whole, dtype=pl.Int128), "flag": flag})
    for table in (frame, other, frame.to_numpy()):
        model = Strudel(n_components=1, max_splits=0, random_state=0).fit(table)
        drawn = np.asarray(model.sample(2, random_state=0))
        assert np.isin(drawn[:, 0].astype(float), np.array(whole, dtype=float)).all()


def test_a_number_given_stays_as_it_is_in_a_column_of_whole_numbers():
    table = pd.DataFrame({"age": np.arange(20), "flag": np.arange(20) % 2})
    model = Strudel(n_components=1, max_splits=0, random_state=0).fit(table)
    for age in (3.5, 10**25):
        assert sample(model, 2, {"age": age}, random_state=0)["age"].tolist() == [float(age)] * 2
    with pytest.raises(ValueError, match="beyond 1e308"):
        log_marginal(model, {"age": 10**400})
    with pytest.raises(ValueError, match="beyond 1e308"):
        TableEncoder().fit([[10**400], [1]])
