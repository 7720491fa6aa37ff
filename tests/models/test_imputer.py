"""The imputer: what it fills in by enumeration, what it leaves alone, and scikit-learn's rules."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import oracle
from strudel import (
    Strudel,
    StrudelClassifier,
    StrudelImputer,
    load,
    log_likelihood,
    marginal_probabilities,
    sample,
    save,
)
from strudel.circuits import figure_1_circuit
from strudel.errors import WrongTableError
from strudel.learning.options import EM
from strudel.tables import TableEncoder

SMALL = Strudel(
    n_components=2,
    max_splits=0,
    pseudocount=1.0,
    method=EM(max_iter=5),
    validation_fraction=None,
    random_state=0,
)


@pytest.mark.compiled
@parametrize_with_checks([StrudelImputer(SMALL, random_state=0)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def partly_known(n_rows=25, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 2, size=(n_rows, 4)).astype(float)
    rows[rng.random(rows.shape) < 0.5] = np.nan
    return rows


def fitted(strategy):
    """An imputer by the paper's circuit, which excludes some rows."""
    circuit = figure_1_circuit()
    imputer = StrudelImputer(circuit, strategy=strategy, random_state=0)
    return imputer.fit(sample(circuit, 10, random_state=0)), circuit


def chances(circuit, row):
    """The probability of every completion, given what is known."""
    rows = oracle.completions(list(row))
    p = np.array(oracle.probabilities(circuit, rows))
    return np.array(rows), p / p.sum()


def test_map_fills_the_most_probable_completion():
    imputer, circuit = fitted("map")
    rows = partly_known()
    for row, found in zip(rows, imputer.transform(rows), strict=True):
        states, _ = chances(circuit, row)
        assert oracle.probability(circuit, tuple(map(int, found))) == pytest.approx(
            max(oracle.probability(circuit, tuple(state)) for state in states)
        )


def test_mean_fills_the_conditional_probability():
    imputer, circuit = fitted("mean")
    rows = partly_known()
    for row, found in zip(rows, imputer.transform(rows), strict=True):
        states, p = chances(circuit, row)
        assert found == pytest.approx(p @ states)


def test_sample_draws_completions_as_often_as_they_are_probable():
    imputer, circuit = fitted("sample")
    row = np.array([np.nan, 1.0, np.nan, np.nan])
    states, p = chances(circuit, row)
    drawn = imputer.transform(np.tile(row, (4000, 1)))
    for state, share in zip(states, p, strict=True):
        found = np.mean((drawn == state).all(axis=1))
        assert abs(found - share) <= 4 * math.sqrt(share * (1 - share) / 4000)


def test_known_values_stay_and_complete_rows_are_returned():
    rows = partly_known()
    for strategy in ("map", "mean", "sample"):
        imputer, _ = fitted(strategy)
        filled = imputer.transform(rows)
        assert np.array_equal(filled[~np.isnan(rows)], rows[~np.isnan(rows)])
        assert not np.isnan(filled).any()
        assert np.array_equal(imputer.transform(filled > 0.5), filled > 0.5)
        assert np.array_equal(imputer.transform(rows), filled)  # the same seed, the same draws


def test_several_imputations_differ_only_where_nothing_is_known():
    imputer, _ = fitted("map")
    rows = partly_known()
    tables = imputer.impute(rows, 4)
    assert len(tables) == 4
    spread = np.ptp(tables, axis=0)
    assert np.all(spread[~np.isnan(rows)] == 0)
    assert spread.max() == 1
    with pytest.raises(ValueError, match="n_imputations must be a whole number of at least 1"):
        imputer.impute(rows, 0)


def mixed_frame(n_rows=150):
    rng = np.random.default_rng(0)
    age = rng.normal(50, 12, n_rows).round(1)
    frame = pd.DataFrame(
        {
            "age": age,
            "children": rng.integers(0, 4, n_rows),
            "town": np.where(age > 50, "north", rng.choice(["south", "east"], n_rows)),
            "old": age > 60,
            "born": pd.Timestamp("2020-01-01") - pd.to_timedelta((age * 365).round(), unit="D"),
        }
    )
    return frame, frame.astype({"children": "Int64", "old": "boolean"}).mask(
        rng.random(frame.shape) < 0.2
    )


@pytest.mark.parametrize(
    "strategy",
    [*(pytest.param(name, marks=pytest.mark.compiled) for name in ("map", "mean")), "sample"],
)
def test_frames_come_back_in_their_own_columns(strategy, tmp_path):
    _, frame = mixed_frame()
    frame.index = frame.index + 7
    imputer = StrudelImputer(SMALL, strategy=strategy, random_state=0).fit(frame)
    filled = imputer.transform(frame)
    assert list(filled.columns) == list(frame.columns)
    assert filled.index.equals(frame.index)
    assert not filled.isna().any(axis=None)
    for name in frame:
        known = frame[name].notna()
        assert (filled[name][known] == frame[name][known]).all()
    assert filled["age"].between(frame["age"].min(), frame["age"].max()).all()
    assert set(filled["town"]) <= {"north", "south", "east"}
    save(imputer, tmp_path / "m.strudel")
    assert load(tmp_path / "m.strudel").transform(frame).equals(filled)
    if strategy != "sample":
        also = StrudelImputer(SMALL, strategy=strategy, random_state=0).fit_transform(
            pl.from_pandas(frame)
        )
        assert also["age"].to_list() == pytest.approx(filled["age"].tolist())


def test_names_of_several_types_are_refused_before_anything_is_learned():
    frame = pd.DataFrame(np.zeros((4, 2)), columns=["a", 1])
    imputer = StrudelImputer("never fitted")
    with pytest.raises(TypeError, match=r"convert them all to strings, by using X\.columns"):
        imputer.fit(frame)


TREE = Strudel(n_components=1, max_splits=0, random_state=0)
STAMPS = np.array([1_234_567_890_123_456_789, 10**18 + 1, 10**18 + 7], dtype="M8[ns]")


@pytest.mark.parametrize("strategy", ["map", "mean"])
@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_known_cells_stay_to_the_last_bit(kind, strategy):
    known = {
        "fraction": [None, 33.5, 2.25, None],  # in a column that was whole at fit
        "large": pd.array([None, 2**60 + 1, 3, None], dtype="Int64"),
        "small": pd.array([None, 7, 3, None], dtype="Int8"),
        "time": np.append(np.append(np.datetime64("NaT"), STAMPS[:2]), np.datetime64("NaT")),
        "category": pd.Categorical([None, "new", "u", None]),
    }
    whole = [10, 20, 30, 300] * 5
    seen = {
        "fraction": whole,
        "large": whole,
        "small": whole,
        "time": STAMPS[[0, 1, 2, 0] * 5],
        "category": pd.Categorical(["u", "v", "u", "w"] * 5),
    }
    make = {"pandas": lambda x: x, "polars": pl.from_pandas, "pyarrow": pa.Table.from_pandas}[kind]
    train, frame = make(pd.DataFrame(seen)), make(pd.DataFrame(known))
    own = TableEncoder(unknown="missing")
    filled = StrudelImputer(TREE, strategy=strategy, columns=own).fit(train).transform(frame)
    assert type(filled) is type(frame)
    for name in known:
        before, after = frame[name], filled[name]
        if kind == "pandas":
            assert after.notna().all()
            assert [after[i] for i in (1, 2)] == [before[i] for i in (1, 2)]
        elif kind == "polars":
            assert after.null_count() == 0
            assert (after[1:3] == before[1:3].cast(after.dtype)).all()
        else:
            assert after.null_count == 0
            assert after[1:3].to_pylist() == before[1:3].to_pylist()
        if name in ("large", "time"):
            assert getattr(after, "dtype", None) == getattr(before, "dtype", None)


@pytest.mark.compiled
def test_values_are_drawn_and_averaged_as_the_model_says():
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 5, 200)
    other = np.where(rng.random(200) < 0.5, kind, rng.integers(0, 5, 200))
    frame = pd.DataFrame({"kind": np.array(list("abcde"))[kind], "number": other * 10.0})
    imputer = StrudelImputer(SMALL, strategy="mean", random_state=0).fit(frame)
    gaps = pd.DataFrame({"kind": ["a", None], "number": [np.nan, 30.0]})
    chances = marginal_probabilities(imputer.circuit_, gaps)
    mean = sum(value * p[0] for value, p in chances["number"].items())
    found = imputer.transform(gaps)
    assert found["number"][0] == pytest.approx(mean)
    assert found["kind"][1] == max(chances["kind"], key=lambda value: chances["kind"][value][1])
    many = pd.DataFrame({"kind": [None] * 4000, "number": [30.0] * 4000})
    drawn = imputer.set_params(strategy="sample").transform(many)["kind"]
    for value, p in chances["kind"].items():
        assert abs((drawn == value).mean() - p[1]) <= 4 * math.sqrt(p[1] * (1 - p[1]) / 4000)


def test_one_column_and_fitted_estimators():
    X = np.array([[0.0], [1.0], [1.0], [1.0]] * 10)
    assert StrudelImputer(SMALL).fit(X).transform([[np.nan]]).tolist() == [[1.0]]
    model = Strudel(n_components=1, max_splits=0, random_state=0).fit(X.repeat(2, axis=1))
    imputer = StrudelImputer(model).fit(X.repeat(2, axis=1))
    assert imputer.circuit_ is model.circuit_
    with pytest.raises(
        ValueError, match=r"X has 1 columns of 0 and 1, but the model .* 2 variables"
    ):
        StrudelImputer(model).fit(X)
    with pytest.raises(ValueError, match="strategy must be one of auto, map, mean, sample"):
        StrudelImputer(strategy="median").fit(X)


@pytest.mark.parametrize("method", ["per_class", "joint"])
def test_a_classifier_fills_its_inputs_and_its_class(method, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(200, 3))
    y = np.where(X[:, 0] ^ (rng.random(200) < 0.2), "yes", "no")
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    options = {"max_splits": 0, "pseudocount": 1.0, "class_pseudocount": 1.0, "random_state": 0}
    classifier = StrudelClassifier(2, method=method, **options).fit(
        frame, pd.Series(y, name="well")
    )
    gaps = frame.assign(well=y)[:40].astype(object)
    gaps = gaps.mask(rng.random(gaps.shape) < 0.4)
    imputer = StrudelImputer(classifier, strategy="map").fit(gaps)
    states = [(*bits, well) for bits in np.ndindex(2, 2, 2) for well in ("no", "yes")]
    full = pd.DataFrame(states, columns=list(gaps))
    p = np.exp(log_likelihood(imputer.circuit_, full))
    assert p.sum() == pytest.approx(1.0)
    means = StrudelImputer(classifier, strategy="mean").fit(gaps).transform(gaps)
    filled = imputer.transform(gaps)
    for row in range(len(gaps)):
        known = gaps.iloc[row].notna()
        fits = (full.loc[:, known] == gaps.iloc[row][known]).all(axis=1).to_numpy()
        chosen = (full == filled.iloc[row]).all(axis=1).to_numpy()
        assert p[chosen].sum() == pytest.approx(p[fits].max())
        for name in ("a", "b", "c"):
            mean = p[fits] @ full[name][fits] / p[fits].sum()
            assert means[name][row] == pytest.approx(mean)
        is_yes = p[fits] @ (full["well"][fits] == "yes") / p[fits].sum()
        assert means["well"][row] == ("yes" if is_yes > 0.5 else "no")
    unknown = filled.assign(well=None)
    of_lacking = StrudelImputer(classifier).fit_transform(unknown.drop(columns="well"))
    of_unknown = StrudelImputer(classifier).fit_transform(unknown)
    assert list(of_lacking["well"]) == list(of_unknown["well"])
    with pytest.raises(ValueError, match="holds 2 at row 0"):
        imputer.transform(gaps.assign(a=2))
    save(imputer, tmp_path / "m.strudel")
    assert load(tmp_path / "m.strudel").transform(gaps).equals(filled)


def test_a_fitted_model_keeps_its_own_encoder():
    complete, frame = mixed_frame()
    complete["place"] = frame["place"] = [f"p{i % 40}" for i in range(len(frame))]
    own = TableEncoder(max_categories=100)
    model = Strudel(n_components=1, columns=own, max_splits=0, random_state=0).fit(complete)
    imputer = StrudelImputer(model).fit(frame[complete["age"] > 55])  # has other quantiles
    assert imputer.circuit_ is model.circuit_
    shuffled = frame[frame.columns[::-1]]
    filled = StrudelImputer(model).fit_transform(shuffled)
    assert list(filled) == list(shuffled)
    assert filled[frame.columns].equals(imputer.transform(frame))
    lacking, unknown = frame.drop(columns="age"), frame.assign(age=np.nan)
    assert imputer.transform(lacking)["age"].equals(imputer.transform(unknown)["age"])
    assert (
        StrudelImputer(model)
        .fit_transform(lacking)["age"]
        .equals(imputer.transform(unknown)["age"])
    )
    for wrong in (frame[["age"]].assign(hat=1), frame.add_suffix("_")):
        with pytest.raises(WrongTableError, match="of the 6 columns of the model"):
            imputer.transform(wrong)
    with pytest.raises(ValueError, match="is fitted and knows its columns: leave out columns"):
        StrudelImputer(model, columns=own).fit(frame)


def test_a_fitted_model_of_variables_takes_only_these():
    complete, _ = mixed_frame()
    encoder = TableEncoder(n_bins=3).fit(complete)
    model = Strudel(n_components=1, max_splits=0, random_state=0).fit(encoder.transform(complete))
    with pytest.raises(ValueError, match="must hold only 0, 1 or NaN"):
        StrudelImputer(model).fit(complete[["age", "children"]])
    named = pd.DataFrame({"a": [0, 1, 1], "b": [1, 0, 1]})
    model = Strudel(n_components=1, max_splits=0, random_state=0).fit(named)
    assert StrudelImputer(model).fit(named[["b", "a"]]).feature_names_in_.tolist() == ["a", "b"]


def test_the_encoder_of_an_estimator_that_is_not_fitted_is_used():
    complete, _ = mixed_frame()
    small = Strudel(n_components=1, columns=TableEncoder(n_bins=3), max_splits=0, random_state=0)
    imputer = StrudelImputer(small).fit(complete)
    assert imputer.circuit_.columns[0].n_cells == 3
    finer = StrudelImputer(small, columns=TableEncoder(n_bins=4)).fit(complete)
    assert finer.circuit_.columns[0].n_cells == 4
    rows = np.array([[0.0, 1.0], [1.0, 0.0]] * 10)
    auto = StrudelImputer(small.set_params(columns=None), strategy="mean").fit(rows)
    assert 0.0 < auto.transform([[np.nan, 0.0]])[0, 0] < 1.0  # 0 and 1 stay as they are


def test_a_file_keeps_what_the_imputer_learns_with(tmp_path):
    complete, frame = mixed_frame(60)
    path = tmp_path / "m.strudel"
    small = Strudel(n_components=1, columns=TableEncoder(n_bins=3), max_splits=0, random_state=4)
    imputer = StrudelImputer(small, random_state=0).fit(complete)
    save(imputer, path)
    back = load(path)
    assert back.estimator.get_params()["columns__n_bins"] == 3
    assert back.estimator.max_splits == 0
    found = clone(back).fit(complete).transform(frame)
    pd.testing.assert_frame_equal(found, imputer.transform(frame), rtol=1e-12)
    model = Strudel(n_components=1, max_splits=0, random_state=0).fit(complete)
    save(StrudelImputer(model).fit(frame), path)
    again = load(path).fit(frame[:10])  # has no rows to learn the model from
    assert again.transform(frame).equals(StrudelImputer(model).fit(frame).transform(frame))


def test_clusters_are_the_most_responsible_components():
    rng = np.random.default_rng(0)
    X = np.where(np.arange(100)[:, np.newaxis] < 50, 0, 1) ^ (rng.random((100, 6)) < 0.05)
    model = Strudel(n_components=2, max_splits=0, random_state=0)
    clusters = model.fit_predict(X)
    assert len(set(clusters[:50])) == len(set(clusters[50:])) == 1
    assert clusters[0] != clusters[99]
    assert model.predict_proba(X) == pytest.approx(model.responsibilities(X))
    assert np.array_equal(model.predict(X), clusters)
    partly = np.where(rng.random(X.shape) < 0.3, np.nan, X)
    assert np.mean(model.predict(partly) == clusters) > 0.95
    usual, odd = model.score_samples([[0] * 6, [0, 1, 0, 1, 0, 1]])
    assert odd < usual


@pytest.mark.compiled
def test_auto_fills_means_of_numbers_and_modes_of_all_else():
    frame = frame_with_gaps()
    model = Strudel(n_components=2, max_splits=0, random_state=0).fit(frame)
    filled = StrudelImputer(model).fit(frame).transform(frame)
    marginals = model.marginal_probabilities(frame)
    for column in model.circuit_.columns:
        gaps = np.flatnonzero(frame[column.name].isna())
        chances = np.array(list(marginals[column.name].values()))[:, gaps]
        if column.kind == "number":
            wanted = column.cell_means @ chances
            assert filled[column.name].iloc[gaps].to_numpy() == pytest.approx(wanted)
        else:
            wanted = [column.values[place] for place in chances.argmax(axis=0)]
            assert filled[column.name].iloc[gaps].tolist() == wanted


def frame_with_gaps():
    rng = np.random.default_rng(3)
    age = rng.normal(50.0, 10.0, 120)
    smoker = np.where(age + rng.normal(0.0, 5.0, 120) > 50.0, "yes", "no")
    frame = pd.DataFrame({"age": age, "smoker": smoker}, index=np.arange(120) + 7)
    return frame.mask(rng.random(frame.shape) < 0.2).assign(sex=["f", "m"] * 60)


@pytest.mark.compiled
def test_zeros_and_ones_get_the_more_probable_value_of_each():
    X = np.random.default_rng(0).integers(0, 2, (100, 4)).astype(float)
    X[:, 1] = X[:, 0]
    gaps = np.where(np.random.default_rng(1).random(X.shape) < 0.3, np.nan, X)
    gaps[:, 3] = X[:, 3]
    modes = StrudelImputer(random_state=0).fit(gaps).transform(gaps)
    chances = StrudelImputer(strategy="mean", random_state=0).fit(gaps).transform(gaps)
    assert np.array_equal(modes, chances >= 0.5)


@pytest.mark.parametrize("backend", ["pandas", "polars"])
def test_columns_that_the_model_does_not_know_stay(backend):
    frame = frame_with_gaps()
    imputer = StrudelImputer(random_state=0).fit(frame)
    wider = frame.assign(note=[f"n{i}" for i in range(len(frame))])
    wider = wider[["note", "smoker", "age", "sex"]]
    asked = wider
    if backend == "polars":
        import polars as pl

        asked = pl.from_pandas(wider)
    filled = imputer.transform(asked)
    assert list(filled.columns) == ["note", "smoker", "age", "sex"]
    if backend == "pandas":
        assert filled.index.equals(frame.index)
        assert filled[["age", "smoker", "sex"]].equals(imputer.transform(frame))
    assert filled["note"].to_list() == wider["note"].tolist()
    by_model = imputer.set_params(strategy="mean").transform(asked)
    again = StrudelImputer(imputer.circuit_).fit(wider).transform(wider)
    assert again["age"].tolist() == pytest.approx(list(by_model["age"]))
    with pytest.raises(ValueError, match="columns"):
        imputer.transform(wider[["note", "age"]])
