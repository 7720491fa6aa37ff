"""The encoder: scikit-learn's own checks, kinds of columns, edges, and what it refuses."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from strudel import Strudel
from strudel.errors import EmptyColumnWarning, ManyCategoriesWarning, UnseenValueWarning
from strudel.tables import TableEncoder

BY_NAME = {
    "check_dataframe_column_names_consistency": "columns are found by name, in any order",
}


@parametrize_with_checks(
    [TableEncoder(n_bins=4), TableEncoder(n_bins=3, edges="supervised", code="one_hot")],
    expected_failed_checks=lambda _: BY_NAME,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def people():
    return pd.DataFrame(
        {
            "age": [20, 40, None, 60],
            "smoker": ["no", "yes", None, "no"],
            "colour": ["red", "green", "blue", "red"],
            "size": pd.Categorical(["S", "L", None, "M"], ["S", "M", "L"], ordered=True),
            "flag": [0, 1, 1, 0],
            "when": pd.to_datetime(["2020-01-01", "2020-06-01", None, "2021-01-01"]),
        }
    )


def test_kinds_and_names_come_from_the_types():
    code = TableEncoder().fit(people()).code_
    kinds = {column.name: column.kind for column in code.columns}
    assert list(kinds.values()) == ["number", "category", "category", "ordinal", "boolean", "date"]
    assert code.variable_names == (
        *("age>=40", "age>=60", "smoker=yes", "colour=blue", "colour=green", "colour=red"),
        *("size>=M", "size>=L", "flag", "when>=2020-06-01", "when>=2021-01-01"),
    )
    row = [1, 0, 1, 0, 1, 0, 1, 1, 1, 1, 0]
    assert code.encode(people())[1].tolist() == row
    assert np.isnan(code.encode(people())[2]).tolist() == [True] * 3 + [False] * 3 + [True] * 2 + [
        False,
        True,
        True,
    ]


def test_one_hot_cells_and_other_kinds():
    encoder = TableEncoder(
        code="one_hot", kinds={"age": "category", "colour": ["red", "blue", "green"]}
    )
    code = encoder.fit(people()).code_
    assert code.variable_names[:3] == ("age=20.0", "age=40.0", "age=60.0")
    assert code.column("colour").kind == "ordinal"
    assert code.column("colour").labels == ("red", "blue", "green")
    assert code.column("size").variable_names == ("size=S", "size=M", "size=L")
    assert code.column("when").variable_names[0] == "when=2020-01-01"


def test_supervised_edges_tell_the_classes_apart():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=500), "noise": rng.normal(size=500)})
    y = np.where(X["a"] > 1.0, "high", "low")
    code = TableEncoder(edges="supervised", n_bins=3).fit(X, y).code_
    assert code.column("a").edges == pytest.approx((1.0,), abs=0.05)
    smooth = TableEncoder(edges="supervised", n_bins=3).fit(X, 3.0 * (X["a"] > 1.0)).code_
    assert min(abs(edge - 1.0) for edge in smooth.column("a").edges) < 0.05
    mixed = TableEncoder(edges={"a": "supervised"}, n_bins=8).fit(X, y).code_
    assert len(mixed.column("noise").edges) == 7
    with pytest.raises(ValueError, match="requires y to be passed"):
        TableEncoder(edges="supervised").fit(X)
    with pytest.raises(ValueError, match="X has 500 rows, but y has 3"):
        TableEncoder(edges="supervised").fit(X, [0, 1, 0])
    model = Strudel(
        n_components=1, columns=TableEncoder(edges={"a": "supervised"}), max_splits=0
    ).fit(X, y)
    assert model.circuit_.columns[0].edges == code.column("a").edges


def test_columns_with_one_value_or_none():
    table = pd.DataFrame(
        {"one": ["a", "a"], "same": [3.5, 3.5], "none": [None, None], "ok": [0, 1]}
    )
    with pytest.warns(EmptyColumnWarning, match="All values of 'none' are missing"):
        encoder = TableEncoder().fit(table)
    rows = encoder.transform(table)
    assert rows[:, :2].tolist() == [[1, 1], [1, 1]]
    assert np.isnan(rows[:, 2]).all()


def test_arrays_without_names_and_objects():
    X = np.array([[1.5, np.nan], [2.5, 1.0], [3.5, 0.0]])
    encoder = TableEncoder().fit(X)
    assert encoder.get_feature_names_out().tolist() == ["x0>=2.5", "x0>=3.5", "x1"]
    mixed = np.array([["a", 1, None], ["b", 2, True], [None, 3, False]], dtype=object)
    again = TableEncoder().fit(mixed)
    assert [column.kind for column in again.code_.columns] == ["category", "number", "boolean"]
    dates = np.array([["2020-01-01"], ["NaT"], ["2021-01-01"]], dtype="datetime64[D]")
    assert TableEncoder().fit(dates).code_.variable_names == ("x0>=2021-01-01",)


def test_output_frames_and_pipelines():
    table = people().drop(columns="when").dropna()
    encoder = TableEncoder().set_output(transform="polars").fit(table)
    assert isinstance(encoder.transform(table), pl.DataFrame)
    pipeline = make_pipeline(
        TableEncoder(), Strudel(n_components=1, max_splits=0, random_state=0)
    ).fit(table)
    assert pipeline.score(table) < 0
    assert clone(encoder).get_params() == encoder.get_params()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda t: t[["age"]].rename(columns={"age": "aeg"}),
            "and has 'aeg' instead. Is 'aeg' 'age'?",
        ),
        (lambda t: t[["age"]], "X has only 1 of the 6 columns of the model: it lacks"),
        (
            lambda t: t.assign(smoker="yse"),
            "Column 'smoker' holds 'yse' at row 0, a value that was",
        ),
        (lambda t: t.assign(smoker="yse"), "Did you mean 'yes'? Correct it"),
        (lambda t: t.assign(age="old"), "Column 'age' must hold numbers, as when the encoder"),
        (lambda t: t.assign(when=3), "Column 'when' must hold dates"),
        (lambda t: t.assign(age=[[1]] * 4), "column 'age' holds [1] at row 0"),
        (lambda t: t.to_numpy()[:, :3], "X has 3 features, but Strudel is expecting 6"),
    ],
)
def test_tables_that_do_not_fit_are_refused(change, words):
    encoder = TableEncoder(unknown="error").fit(people())
    with pytest.raises((ValueError, TypeError)) as caught:
        encoder.transform(change(people()))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"kinds": {"aeg": "number"}},
            "kinds names 'aeg', which is not a column. Did you mean 'age'",
        ),
        ({"kinds": {"age": "text"}}, "The kind of column 'age' must be"),
        ({"kinds": {"age": "boolean"}}, "cannot be boolean: it holds 20.0"),
        ({"kinds": {"smoker": "number"}}, "cannot be of kind 'number': it holds 'no'"),
        ({"kinds": {"smoker": "ordinal"}}, "Give the values in their order, as in kinds={'smoker'"),
        ({"kinds": {"smoker": ["no", "maybe"]}}, "holds 'yes', which is not one of its values"),
        ({"kinds": {"smoker": ["no", "no", "yes"]}}, "must be distinct"),
        ({"edges": {"age": ["a"]}}, "must be numbers up to 1e+150, or dates"),
        ({"edges": {"age": "best"}}, "edges['age'] must be one of quantile"),
        ({"edges": {"when": ["soon"]}}, "Expected a date"),
        ({"edges": "best"}, "edges must be one of quantile, uniform, supervised, but is 'best'"),
        ({"code": "gray"}, "code must be one of thermometer, one_hot"),
        ({"unknown": "drop"}, "unknown must be one of warn, missing, error"),
        ({"n_bins": 1}, "n_bins must be a whole number of at least 2"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, words):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        TableEncoder(**options).fit(people())
    assert words in str(caught.value)


def test_numbers_whose_squares_are_no_floats_are_refused():
    with pytest.raises(ValueError, match=r"holds -2e\+200, but numbers beyond 1e\+150 have no"):
        TableEncoder().fit(pd.DataFrame({"a": [1.0, 2.0, -2e200]}))
    largest = Strudel(n_components=1, columns=TableEncoder(), max_splits=0, random_state=0)
    largest.fit(pd.DataFrame({"a": [-1e150, 1e150] * 20 + [0.5] * 10}))
    assert largest.variance("a") == pytest.approx(0.8e300, rel=0.01)
    tiniest = TableEncoder().fit(pd.DataFrame({"p": [5e-324, 1e-310, 1e-300, 0.1, 0.2] * 20}))
    assert np.isfinite(tiniest.code_.columns[0].cells.log_density(np.array([0.0, 1e-310]))).all()


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (pl.DataFrame({"a": [[1], [2]]}), "is of type List"),
        (pl.DataFrame({"a": [1]}).lazy(), "lazy"),
        (pd.DataFrame({"a": [b"x", b"y"]}), "of type bytes"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "name each column once"),
        ([1, 2, 3], "Reshape your data"),
        (None, "must be an array"),
        (pd.DataFrame({"a": []}), "at least one row"),
    ],
)
def test_what_is_no_table_is_refused(table, words):
    with pytest.raises((ValueError, TypeError)) as caught:
        TableEncoder().fit(table)
    assert words in str(caught.value)


def test_text_that_looks_like_something_else_is_said():
    days = pd.date_range("2020-01-01", periods=40).strftime("%Y-%m-%d")
    with pytest.warns(ManyCategoriesWarning, match="look like dates: convert them first"):
        TableEncoder().fit(pd.DataFrame({"day": days}))
    with pytest.warns(ManyCategoriesWarning, match="look like numbers: convert them first"):
        TableEncoder().fit(pd.DataFrame({"n": [f"{n}.5" for n in range(40)]}))


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (
            [f"{n},485" if n else "7" for n in range(40)],
            "commas between thousands, such as '1,485'",
        ),
        ([f"{n},5" for n in range(40)], "a decimal comma, such as '0,5'"),
        ([f"{n % 28 + 1:02}/{n // 28 + 1:02}/2000" for n in range(40)], "dates in another form"),
        ([f"{n}.5" for n in range(40)] + ["some"], "numbers, such as '0.5': leave the other cells"),
    ],
)
def test_numbers_and_dates_in_other_forms_are_recognised(texts, words):
    with pytest.warns(ManyCategoriesWarning, match="look like") as caught:
        TableEncoder().fit(pd.DataFrame({"a": texts}))
    assert words in str(caught[0].message)


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"a": pd.Categorical([None, None]), "b": [0, 1]}),
        pd.DataFrame({"a": pd.to_datetime([None, None]), "b": [0, 1]}),
        pl.DataFrame({"a": pl.Series([None, None], dtype=pl.String), "b": [0, 1]}),
        pl.DataFrame({"a": pl.Series([None, None], dtype=pl.Enum(["x"])), "b": [0, 1]}),
        pl.DataFrame({"a": pl.Series([None, None], dtype=pl.Date), "b": [0, 1]}),
        pl.DataFrame({"a": pl.Series([None, None], dtype=pl.Null), "b": [0, 1]}),
    ],
)
def test_empty_columns_of_all_types(table):
    with pytest.warns(EmptyColumnWarning):
        encoder = TableEncoder().fit(table)
    rows = encoder.transform(table)
    assert np.isnan(rows[:, :-1]).all()


def test_an_estimator_says_what_columns_are():
    with pytest.raises(TypeError, match="columns must be None, or a dict"):
        Strudel(n_components=1, columns="yes").fit(people())


def test_a_second_fit_forgets_or_continues():
    table = pd.DataFrame({"a": ["x", "y", "z"] * 20, "b": [0, 1, 1] * 20})
    own = TableEncoder(unknown="error")
    model = Strudel(n_components=1, columns=own, max_splits=1, random_state=0).fit(table)
    columns = model.circuit_.columns
    model.fit(table.assign(a=["x", "y"] * 30), X_valid=table, warm_start=True)
    assert [own.counts for own in model.circuit_.columns] == [own.counts for own in columns]
    assert model.n_features_in_ == 2
    with pytest.raises(ValueError, match="not seen at fit"):
        model.fit(table.assign(a="w"), warm_start=True)
    model.set_params(columns=None).fit(np.eye(3))
    assert model.n_features_in_ == 3
    assert model.circuit_.columns.are_bits


def test_a_variable_is_not_called_as_another_column():
    table = pd.DataFrame(
        {"a": ["u", "v", "u"], "a=v": [0, 1, 1], "n>=2": [5, 6, 7], "n": [1, 2, 2]}
    )
    code = TableEncoder().fit(table).code_
    assert code.variable_names == ("a=v (2)", "a=v", "n>=2>=6", "n>=2>=7", "n>=2 (2)")
    model = Strudel(n_components=1, max_splits=0, random_state=0).fit(table)
    columns = model.marginal_probabilities(given={"a=v": 1})
    assert columns["a=v"][1] == 1.0
    assert columns["a"]["v"] < 1.0


def test_rare_categories_share_a_cell_and_stay_values():
    table = pd.DataFrame({"town": ["a"] * 5 + ["b"] * 3 + ["d", "c", "c", "other"]})
    encoder = TableEncoder(max_categories=3).fit(table)
    [column] = encoder.code_.columns
    assert column.labels == ("a", "b", "c", "d", "other")  # a value of the table, not ours
    assert column.counts == (5, 3, 2, 1, 1)
    assert column.share_of_group.tolist() == pytest.approx([1.0, 1.0, 0.5, 0.25, 0.25])
    assert column.variable_names == ("town=a", "town=b", "town=any of 3 rare values")
    later = pd.DataFrame({"town": ["d", "b", "new", None]})
    with pytest.warns(UnseenValueWarning, match="'new' of column 'town'"):
        rows = encoder.transform(later)
    assert rows[:2].tolist() == [[0, 0, 1], [0, 1, 0]]
    assert np.isnan(rows[2:]).all()


def test_more_cells_where_they_pay():
    rng = np.random.default_rng(0)
    x = rng.random(4000)
    table = pd.DataFrame({"x": x, "y": x + rng.normal(size=4000) / 50, "alone": rng.random(4000)})
    n_cells = [column.n_groups for column in TableEncoder().fit(table).code_.columns]
    # Tails halve 250 and 500 rows, and eight cells are cut again where the other column changes.
    assert n_cells == [16 + 2 * 3 + 8, 16 + 2 * 3 + 8, 8 + 2 * 4]
    few = [column.n_groups for column in TableEncoder().fit(table.head(60)).code_.columns]
    assert few == [4, 4, 4]
    some = [column.n_groups for column in TableEncoder().fit(table.head(300)).code_.columns]
    assert some == [8, 8, 4]
    assert [c.n_cells for c in TableEncoder(n_bins=5).fit(table).code_.columns] == [5, 5, 5]
    counts = pd.DataFrame({"kids": rng.integers(0, 7, 500), "z": rng.random(500)})
    assert TableEncoder().fit(counts).code_.column("kids").n_cells == 7


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_durations_are_numbers(make):
    hours = [datetime.timedelta(hours=h) for h in (1, 2, 30, 49)]
    encoder = TableEncoder().fit(make({"stay": [*hours, None], "b": [0, 1, 0, 1, 0]}))
    code = encoder.code_
    assert code.variable_names[:3] == ("stay>=02:00", "stay>=1 day 06:00", "stay>=2 days 01:00")
    assert code.columns[0].values[2] == 30 * 3600e6
    with pytest.raises(ValueError, match="must hold durations"):
        encoder.transform(make({"stay": [1.0], "b": [1]}))
