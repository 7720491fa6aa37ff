from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from strategies import binary_tables
from strudel.data import validation
from strudel.data.bits import pack_columns
from strudel.data.validation import (
    as_bits,
    check_binary,
    check_evidence,
    check_partial,
    check_sample_weight,
)
from strudel.errors import ExtraColumnsWarning, WrongTableError

NAN = float("nan")
ROWS = [[0, 1, 1], [1, 0, 1]]
NAMES = ("a", "b", "c")
TABLES = {
    "lists": ROWS,
    "tuples": tuple(map(tuple, ROWS)),
    "lists of booleans": [[bool(cell) for cell in row] for row in ROWS],
    "lists of arrays": [np.array(row) for row in ROWS],
    "bool": np.array(ROWS, dtype=bool),
    "int8": np.array(ROWS, dtype=np.int8),
    "uint64": np.array(ROWS, dtype=np.uint64),
    "float16": np.array(ROWS, dtype=np.float16),
    "float64": np.array(ROWS, dtype=float),
    "minus zero": np.where(np.array(ROWS) == 0, -0.0, 1.0),
    "objects": np.array([[0, True, 1.0], [np.int64(1), False, np.float32(1)]], dtype=object),
    "fortran": np.asfortranarray(ROWS),
    "strided": np.repeat(ROWS, 2, axis=1)[:, ::2],
    "masked, nothing hidden": np.ma.array(ROWS),
    "csr": sparse.csr_matrix(ROWS),
    "csc floats": sparse.csc_array(np.array(ROWS, dtype=float)),
    "coo booleans": sparse.coo_matrix(np.array(ROWS, dtype=bool)),
    "dok": sparse.dok_matrix(np.array(ROWS)),
    "lil": sparse.lil_matrix(ROWS),
    "bsr": sparse.bsr_matrix(ROWS),
    "explicit zeros": sparse.csr_matrix(([0, 1, 1, 1, 1], ([0, 0, 0, 1, 1], [0, 1, 2, 0, 2]))),
}
FRAMES = {
    "pandas": pd.DataFrame(ROWS, columns=NAMES),
    "pandas mixed": pd.DataFrame({"a": [0.0, 1.0], "b": [True, False], "c": [1, 1]}),
    "pandas nullable": pd.DataFrame(ROWS, columns=NAMES).astype("Int64"),
    "pandas boolean": pd.DataFrame(ROWS, columns=NAMES).astype("boolean"),
    "pandas objects": pd.DataFrame(ROWS, columns=NAMES).astype(object),
    "pandas sparse": pd.DataFrame(ROWS, columns=NAMES).astype(pd.SparseDtype(int, 0)),
    "pandas categories": pd.DataFrame(ROWS, columns=NAMES).astype("category"),
    "polars": pl.DataFrame(ROWS, schema=list(NAMES), orient="row"),
    "polars booleans": pl.DataFrame({"a": [False, True], "b": [True, False], "c": [True, True]}),
    "pyarrow": pa.table({"a": [0, 1], "b": [True, False], "c": [1.0, 1.0]}),
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_in_any_container_is_the_same_matrix(kind):
    table, names = check_binary(TABLES[kind])
    assert table.dtype == np.uint8
    assert table.flags.c_contiguous
    assert table.tolist() == ROWS
    assert names is None
    assert check_evidence(TABLES[kind], n_vars=3).tolist() == ROWS


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_also_gives_its_names(kind):
    table, names = check_binary(FRAMES[kind])
    assert table.dtype == np.uint8
    assert table.tolist() == ROWS
    assert names == NAMES
    evidence = check_evidence(FRAMES[kind], n_vars=3, feature_names=NAMES)
    assert evidence.dtype == np.float64
    assert evidence.tolist() == ROWS


def test_clean_arrays_are_not_copied():
    table = np.array(ROWS, dtype=np.uint8)
    assert check_binary(table)[0] is table
    assert np.shares_memory(check_binary(table.view(bool))[0], table)
    evidence = np.array(ROWS, dtype=np.float64)
    assert check_evidence(evidence, n_vars=3) is evidence


def test_the_table_given_does_not_change():
    matrix = sparse.coo_matrix(([1, 1, -1], ([0, 0, 0], [1, 1, 1])), shape=(1, 2)).tocsr()
    stored = sparse.csr_matrix(([1, 1, -1], [1, 1, 1], [0, 3]), shape=(1, 2))
    assert check_binary(stored)[0].tolist() == matrix.toarray().tolist() == [[0, 1]]
    assert stored.nnz == 3


@given(binary_tables(max_rows=30, max_vars=5), st.data())
def test_the_error_names_the_first_bad_cell(X, data):
    row = data.draw(st.integers(0, X.shape[0] - 1))
    column = data.draw(st.integers(0, X.shape[1] - 1))
    value = data.draw(st.sampled_from([2, -1, 7]))
    wrong = X.astype(int)
    wrong[row, column] = value
    place = f"column {column} holds {value} at row {row}"
    with pytest.raises(ValueError, match=place):
        check_binary(wrong)
    with pytest.raises(ValueError, match=place):
        check_evidence(wrong, n_vars=X.shape[1])


def test_a_bad_cell_far_down_a_long_table_is_found():
    X = np.zeros((100_000, 7))
    X[99_998, 6] = 0.5
    with pytest.raises(ValueError, match=r"column 6 holds 0\.5 at row 99998"):
        check_binary(X)
    with pytest.raises(ValueError, match=r"column 6 holds 0\.5 at row 99998"):
        check_evidence(X, n_vars=7)


def message(check, X, **options):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        check(X, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("X", "expected"),
    [
        ([[0, 2]], "X must hold only 0 and 1, but column 1 holds 2 at row 0."),
        ([[0.5]], "column 0 holds 0.5 at row 0. Binarise the data first."),
        ([[0], [NAN]], "column 0 holds NaN at row 1. Fill or drop unknown values first."),
        ([[0, None]], "column 1 holds NaN at row 0. Fill or drop"),
        ([[0, "yes"]], "column 1 holds 'yes' at row 0. Turn text into the numbers 0 and 1"),
        (np.array([["1", "0"]]), "column 0 holds '1' at row 0. Turn text"),
        ([[0, 10**400]], "column 1 holds 1000000"),
        (np.array([[1j]]), "Complex data not supported"),
        (np.array([["2020-01-01"]], dtype="M8[D]"), "holds datetime.date(2020, 1, 1) at row 0"),
        ([[0, 1], [1]], "rows of equal length, but row 0 has 2 values and row 1 has 1 values."),
        ([[0, [1]]], "one value per cell, but some cells are lists."),
        ([0, 1], "must have rows and columns, but has shape (2,). Reshape your data"),
        ([], "at least one row, but is empty."),
        ([[]], "at least one column, but has 0 feature(s) (shape=(1, 0))"),
        (np.zeros((0, 3)), "at least one row, but has 0 sample(s) (shape=(0, 3))"),
        (None, "but is of type NoneType."),
        ({"a": [0, 1]}, "but is of type dict."),
        ((row for row in ROWS), "but is of type generator."),
        (np.ma.array([[0, 1]], mask=[[0, 1]]), "column 1 holds NaN at row 0."),
        (sparse.csr_matrix([[0, 2]]), "column 1 holds 2 at row 0."),
        (pd.DataFrame({"a": [0, 1], "b": [1, 3]}), "column 'b' holds 3 at row 1."),
        (pd.DataFrame({"a": [0, None]}), "column 'a' holds NaN at row 1."),
        (pl.DataFrame({"a": [0], "b": ["x"]}), "column 'b' holds 'x' at row 0."),
        (pd.DataFrame({"d": pd.to_datetime(["2020-01-01"]), "e": [1]}), "column 'd' holds"),
        (pl.LazyFrame({"a": [1]}), "is lazy. Call its collect() first."),
        (pd.DataFrame([[0, 1]], columns=["a", "a"]), "name each column once, but has 'a' 2 times"),
    ],
)
def test_what_is_not_a_0_1_table_is_refused_with_the_reason(X, expected):
    assert expected in message(check_binary, X)


def test_the_width_must_be_that_of_the_model():
    expected = "X has 2 features, but Strudel is expecting 3 features as input"
    assert expected in message(check_binary, [[0, 1]], n_vars=3)
    assert expected in message(check_binary, [[0, 1]], feature_names=NAMES)
    assert expected in message(check_evidence, [[0, 1]], n_vars=3)
    assert expected in message(check_evidence, [0, 1], n_vars=3)


def test_columns_are_put_in_the_order_of_the_names():
    frame = pd.DataFrame({"c": [1, 0], "a": [0, 1], "b": [0, 0]})
    for same in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame)):
        table, names = check_binary(same, feature_names=NAMES)
        assert table.tolist() == [[0, 0, 1], [1, 0, 0]]
        assert names == NAMES
        assert check_evidence(same, feature_names=NAMES).tolist() == [[0, 0, 1], [1, 0, 0]]


def _zeros(columns):
    return pd.DataFrame(np.zeros((1, len(columns)), dtype=int), columns=list(columns))


def test_a_table_with_none_or_few_of_the_columns_is_refused():
    with pytest.raises(WrongTableError, match=r"none of the 3 columns .* lacks 'a', 'b', 'c', and"):
        check_binary(_zeros("ABDEFGH"), feature_names=NAMES)
    with pytest.raises(
        WrongTableError, match=r"only 1 of the 3 .* lacks 'b', 'c', and has 'bb'"
    ) as e:
        check_partial(_zeros(["a", "bb"]), feature_names=NAMES)
    assert e.value.missing == ("b", "c")
    assert e.value.extra == ("bb",)


def test_evidence_may_have_few_columns_but_not_mostly_others():
    assert check_evidence(_zeros("b"), feature_names=NAMES) == pytest.approx(
        np.array([[NAN, 0, NAN]]), nan_ok=True
    )
    with pytest.raises(WrongTableError, match="only 1 of the 3"):
        check_evidence(_zeros("byz"), feature_names=NAMES)


def test_columns_that_a_frame_lacks_are_unknown_where_values_may_be():
    for check in (check_evidence, lambda X, **names: check_partial(X, **names)[0]):
        assert check(_zeros("ab"), feature_names=NAMES) == pytest.approx(
            np.array([[0, 0, NAN]]), nan_ok=True
        )
    assert "but lacks 'c'." in message(check_binary, _zeros("ab"), feature_names=NAMES)


def test_other_columns_are_ignored_with_a_warning_that_names_them():
    frame = _zeros("abcd").assign(d="text")
    for check in (check_binary, check_partial):
        with pytest.warns(ExtraColumnsWarning, match="X has 'd', which the model") as caught:
            assert check(frame, feature_names=NAMES)[0].tolist() == [[0, 0, 0]]
        assert len(caught) == 1


UNKNOWN_ROWS = {
    "nan": [[0, NAN, 1]],
    "none": [[0, None, 1]],
    "pandas.NA": [[0, pd.NA, 1]],
    "objects": np.array([[0, None, 1.0]], dtype=object),
    "masked": np.ma.array([[0, 1, 1]], mask=[[0, 1, 0]]),
    "float32": np.array([[0, NAN, 1]], dtype=np.float32),
    "sparse": sparse.csr_matrix(np.array([[0, NAN, 1]])),
    "pandas": pd.DataFrame({"a": [0], "b": [None], "c": [1]}),
    "pandas nullable": pd.DataFrame({"a": [0], "b": [pd.NA], "c": [1]}).astype("Int64"),
    "pandas boolean": pd.DataFrame({"a": [False], "b": [pd.NA], "c": [True]}).astype("boolean"),
    "polars": pl.DataFrame({"a": [0], "b": [None], "c": [True]}),
    "pyarrow": pa.table({"a": [0], "b": pa.array([None], pa.int8()), "c": [1]}),
    "one row": [0, NAN, 1],
    "one row as an array": np.array([0, NAN, 1]),
    "pandas series": pd.Series([0, None, 1]),
    "labelled series": pd.Series({"c": 1, "a": 0}),
    "polars series": pl.Series([0, None, 1]),
    "dict": {"a": 0, "c": 1},
    "dict by number": {0: 0, np.int64(2): True},
    "dict with unknowns": {"a": False, "b": None, "c": 1.0},
    "dict with NA": {"c": 1, "b": pd.NA, 0: 0},
    "list of dicts": [{"a": 0, "c": 1}],
}


@pytest.mark.parametrize("kind", UNKNOWN_ROWS)
def test_unknown_values_are_nan(kind):
    evidence = check_evidence(UNKNOWN_ROWS[kind], n_vars=3, feature_names=NAMES)
    assert evidence.dtype == np.float64
    assert evidence.flags.c_contiguous
    assert np.array_equal(evidence, [[0, NAN, 1]], equal_nan=True)


def test_without_names_the_columns_are_x0_x1_and_so_on():
    evidence = check_evidence([{"x0": 1}, {"x2": 0}], n_vars=3)
    assert np.array_equal(evidence, [[1, NAN, NAN], [NAN, NAN, 0]], equal_nan=True)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"smokr": 1}, "X names 'smokr', which is not a variable. Did you mean 'smoker'?"),
        ({"zzz": 1}, "not a variable. Choose from 'smoker', 'age'."),
        ({2: 1}, "X must name variables or number them from 0 to 1, but has 2."),
        ({None: 1}, "but has None."),
        ({"age": 1, 1: 1}, "one value, but 'age' and 1 are the same variable."),
        ({"age": 2}, "only 0, 1 or NaN, but column 'age' holds 2.0 at row 0. Binarise the data"),
        ({"age": "1"}, "column 'age' holds '1' at row 0. Turn text"),
        ([{"age": 1}, [0, 1]], "entry 0 is a dict and entry 1 is of type list."),
        ([[0, -1]], "Binarise the data first, or use NaN for unknown values."),
        ([[0, pd.NA], ["x", 1]], "column 'smoker' holds 'x' at row 1."),
    ],
)
def test_evidence_that_makes_no_sense_is_refused_with_the_reason(given, expected):
    assert expected in message(check_evidence, given, n_vars=2, feature_names=["smoker", "age"])


@pytest.mark.parametrize(
    "weight", [[1, 0, 2], (1, 0, 2), np.array([1, 0, 2], dtype=np.int8), pd.Series([1, 0, 2])]
)
def test_weights_in_any_container(weight):
    checked = check_sample_weight(weight, 3)
    assert checked.dtype == np.float64
    assert checked.tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    ("weight", "expected"),
    [
        ([1, 2], "one number per row and so have shape (3,), but has shape (2,)."),
        (1.0, "but is of type float."),
        ([1, NAN, 2], "must be finite, but holds nan at row 1."),
        ([1, 2, float("inf")], "must be finite, but holds inf at row 2."),
        ([1, -2, 1], "must not be negative, but holds -2.0 at row 1."),
        ([0, 0, 0], "a positive sum, but every weight is zero."),
        ([1e308, 1e308, 1e308], "a finite sum, but overflows."),
        ([1, "2", 3], "must hold numbers, but holds '2' at row 1."),
    ],
)
def test_bad_weights_are_refused_with_the_reason(weight, expected):
    text = message(lambda weight: check_sample_weight(weight, 3), weight)
    assert text.startswith("sample_weight ")
    assert expected in text


def test_as_bits_checks_packs_and_weighs():
    bits = as_bits(ROWS, sample_weight=[1, 3])
    assert bits.unpack().tolist() == ROWS
    assert bits.weights.tolist() == [1, 3]


def test_as_bits_leaves_a_bit_matrix_alone():
    bits = pack_columns(ROWS)
    assert as_bits(bits) is bits
    assert "carries its own weights" in message(lambda X: as_bits(X, [1, 1]), bits)
    assert "at least one column" in message(as_bits, pack_columns(np.zeros((2, 0))))


def test_no_frame_library_is_imported_for_those_who_have_no_frames():
    top = ast.parse(Path(validation.__file__).read_text(encoding="utf-8")).body
    imports = {alias.name for node in top if isinstance(node, ast.Import) for alias in node.names}
    imports |= {node.module for node in top if isinstance(node, ast.ImportFrom)}
    heavy = {"pandas", "polars", "pyarrow", "sklearn", "scipy", "narwhals"}
    assert not heavy & {name.partition(".")[0] for name in imports}
