"""Identifiers: what looks like one is left out, what tells something is kept."""

import warnings

import numpy as np
import pandas as pd
import pytest

from strudel import Strudel, StrudelImputer, StrudelRegressor, load, save
from strudel.errors import ExtraColumnsWarning, IdentifierWarning
from strudel.tables import TableEncoder
from strudel.tables.choose_cells import find_identifiers
from strudel.tables.columns import read_columns

N = 400
SMALL = {"max_splits": 0, "random_state": 0}


def people(seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, N)
    return pd.DataFrame({"age": age, "smoker": rng.choice(["no", "yes"], N)})


def found(frame):
    return set(find_identifiers(read_columns(frame).columns))


def test_numbers_that_count_on_or_are_digits_at_random_are_identifiers():
    rng = np.random.default_rng(0)
    frame = people().assign(
        row=np.arange(N),
        shuffled=rng.permutation(N) + 1,
        account=rng.integers(10**7, 10**8, N),
        anything=rng.integers(0, 10**6, N),
    )
    assert found(frame) == {"row", "shuffled", "account", "anything"}


def test_text_with_a_value_of_its_own_in_nearly_every_row_is_an_identifier():
    names = [f"person {i}" for i in range(N)]
    assert found(people().assign(name=names)) == {"name"}
    names[:40] = ["nobody"] * 40  # 90 % are distinct
    assert found(people().assign(name=names)) == set()


def test_numbers_that_tell_about_others_are_kept():
    frame, rng = people(), np.random.default_rng(0)
    frame["income"] = 10_000 + 300 * frame["age"] + rng.integers(0, 20_000, N)
    frame["savings"] = 100_000 + frame["income"] * 5 + rng.integers(0, 10_000, N)
    frame = frame.sort_values("age").assign(visit=np.arange(N))  # numbered in the order of age
    assert found(frame) == set()


def test_floats_dates_few_rows_and_single_columns_are_no_identifiers():
    frame = people().assign(
        float=np.arange(N) + 0.5, date=pd.date_range("2020-01-01", periods=N, freq="D")
    )
    assert found(frame) == set()
    few = pd.DataFrame({"id": np.arange(49), "sex": ["f"] * 49})
    assert found(few) == set()
    assert found(pd.DataFrame({"number": np.arange(N)})) == set()


def test_a_model_leaves_them_out_and_says_so():
    frame = people().assign(id=np.random.default_rng(1).permutation(N))
    words = r"Column 'id' looks like an identifier \(400 of 400 values are distinct\) and is left"
    with pytest.warns(IdentifierWarning, match=words) as caught:
        model = Strudel(n_components=1, **SMALL).fit(frame)
    assert [str(one.message).endswith("columns={'id': 'number'} keeps it.") for one in caught] == [
        True
    ]
    assert model.circuit_.columns.names == ("age", "smoker")
    assert model.feature_names_in_.tolist() == ["age", "smoker", "id"]
    with warnings.catch_warnings():  # later tables may have it or not
        warnings.simplefilter("error")
        assert model.score(frame) == model.score(frame.drop(columns="id"))
    with pytest.warns(ExtraColumnsWarning, match="X has 'hat', which"):
        model.score(frame.assign(hat=1))


def test_a_kind_keeps_or_ignores_a_column_without_a_word():
    frame = people().assign(id=np.random.default_rng(1).permutation(N))
    kept = TableEncoder(kinds={"id": "number"}).fit(frame)
    assert kept.code_.names == ("age", "smoker", "id")
    ignored = TableEncoder(kinds={"id": "ignore", "age": "ignore"}).fit(frame)
    assert (ignored.code_.names, ignored.code_.left_out) == (("smoker",), ("age", "id"))
    assert ignored.n_features_in_ == 3


def test_columns_of_an_array_are_ignored_by_their_place():
    rows = people().assign(id=np.arange(N))[["age", "id", "smoker"]].to_numpy()
    model = Strudel(n_components=1, columns=TableEncoder(kinds={"x1": "ignore"}), **SMALL).fit(rows)
    assert model.circuit_.columns.names == ("x0", "x2")
    assert model.score(rows) == pytest.approx(model.log_marginal(rows).mean())
    gaps = rows.copy()
    gaps[0] = [None, 0, "yes"]
    filled = StrudelImputer(model).fit(rows).transform(gaps)
    assert filled[0, 1:].tolist() == [0, "yes"]
    assert 18 <= filled[0, 0] < 90
    assert np.array_equal(filled[1:], rows[1:])


def test_files_and_imputers_keep_what_was_left_out(tmp_path):
    frame = people().assign(id=np.random.default_rng(1).permutation(N))
    frame.loc[::7, "smoker"] = None
    with pytest.warns(IdentifierWarning):
        model = Strudel(n_components=1, **SMALL).fit(frame)
    save(model, tmp_path / "m.strudel")
    same = load(tmp_path / "m.strudel")
    assert same.circuit_.columns.left_out == ("id",)
    assert same.feature_names_in_.tolist() == ["age", "smoker", "id"]
    for imputer in (StrudelImputer(same), StrudelImputer(model)):
        filled = imputer.fit_transform(frame)
        assert list(filled) == list(frame)
        assert filled["id"].equals(frame["id"])
        assert not filled.isna().any().any()


def test_a_table_of_nothing_else_is_refused():
    frame = pd.DataFrame({"name": [f"p{i}" for i in range(N)]})
    words = "There is nothing to learn from: all columns, 'name', are to be ignored or look like"
    with pytest.warns(IdentifierWarning), pytest.raises(ValueError, match=words):
        Strudel(n_components=1).fit(frame)
    with (
        pytest.warns(IdentifierWarning),
        pytest.raises(ValueError, match="nothing to predict from: all columns of X, 'name'"),
    ):
        StrudelRegressor().fit(frame, np.arange(N))


def test_text_that_was_meant_to_be_numbers_is_said():
    prices = [f"{i // 1000 + 1},{i % 1000:03}" for i in range(1000, 1000 + N)]
    with pytest.warns(IdentifierWarning, match="numbers with commas between thousands"):
        TableEncoder().fit(people().assign(price=prices))
