"""Codes of tables: the cells of numbers, and what is refused."""

import copy
import datetime
import pickle
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strudel.errors import OutOfRangeWarning
from strudel.tables import CodedColumn, TableCode, TableEncoder
from strudel.tables.choose_cells import (
    quantile_edges,
    shortest_date,
    shortest_number,
    uniform_edges,
)
from strudel.tables.columns import date_text

MAKERS = {"pandas": lambda t: t, "polars": pl.from_pandas, "pyarrow": pa.Table.from_pandas}
DAY = 86400e6
ROWS = [["a", 1.5, True], ["b", 2.5, False], ["c", 3.5, None]]
CODE = TableEncoder().fit(ROWS).code_


def tables():
    """Frames with all kinds of columns and gaps."""
    some = {
        "number": st.floats(-1e6, 1e6, width=32),
        "whole": st.integers(-5, 5),
        "text": st.sampled_from(["a", "b", "c c", "d'", "<"]),
        "flag": st.booleans(),
        "when": st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1)),
    }
    rows = st.tuples(*(st.none() | cells for cells in some.values()))
    return st.lists(rows, min_size=1, max_size=12).map(
        lambda cells: pd.DataFrame(
            {
                name: pd.Series(
                    [row[place] for row in cells],
                    dtype={"when": "datetime64[us]", "text": "str", "flag": "boolean"}.get(
                        name, "Float64" if name == "number" else "Int64"
                    ),
                )
                for place, name in enumerate(some)
            }
        )
    )


@given(
    tables(),
    st.sampled_from(list(MAKERS)),
    st.sampled_from(["thermometer", "one_hot"]),
    st.sampled_from(["quantile", "uniform"]),
    st.integers(2, 6),
)
@settings(max_examples=25)
@pytest.mark.filterwarnings("ignore::strudel.errors.EmptyColumnWarning")
def test_bits_are_unknown_where_values_are_missing(table, kind, code, edges, n_bins):
    frame = MAKERS[kind](table)
    encoder = TableEncoder(code=code, edges=edges, n_bins=n_bins).fit(frame)
    rows = encoder.transform(frame)
    assert np.array_equal(np.isnan(rows).any(axis=1), table.isna().any(axis=1))


@given(st.lists(st.floats(-1e9, 1e9), min_size=1), st.integers(2, 9))
def test_quantile_edges_cut_into_cells_that_all_hold_values(values, n_bins):
    known = np.array(values)
    edges = quantile_edges(known, n_bins, shortest_number)
    assert edges == sorted(set(edges))
    assert len(edges) < n_bins
    counts = np.bincount(np.searchsorted(edges, known, side="right"), minlength=len(edges) + 1)
    assert np.all(counts > 0)
    if len(set(values)) == len(values) and len(values) % n_bins == 0:
        assert np.all(counts == len(values) // n_bins)


@given(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300))
def test_the_shortest_number_lies_between(a, b):
    a, b = min(a, b), max(a, b)
    assert a == b or a < shortest_number(a, b) <= b


@given(st.integers(-(10**9), 10**9), st.integers(1, 10**9), st.integers(0, 8))
def test_no_number_between_has_fewer_decimals(a, width, decimals):
    low, high = (Decimal(end).scaleb(-decimals) for end in (a, a + width))
    found = Decimal(repr(shortest_number(float(low), float(high)))).normalize()
    assert low < found <= high
    grid = Decimal(1).scaleb(int(found.as_tuple().exponent) + 1)
    assert found == 0 or (high // grid) * grid <= low or high < 0


def test_edges_are_round():
    ages = np.arange(18.0, 90.0)
    assert quantile_edges(ages + 0.123, 2, shortest_number) == [54.0]
    assert uniform_edges(np.array([0.0, 10.01]), 5, shortest_number) == [2.0, 4.0, 6.0, 8.0]
    assert date_text(shortest_date(0.0, 400 * DAY)) == "1971-01-01"
    assert date_text(shortest_date(10 * DAY, 40.7 * DAY)) == "1970-02-01"
    assert date_text(shortest_date(40.2 * DAY, 40.7 * DAY)) == "1970-02-10 16:00"


def test_cells_are_given_by_their_median_and_empty_ones_by_their_middle():
    encoder = TableEncoder(edges={"x0": [10, 20, 30, 40]}).fit([[1], [3], [9], [12], [35]])
    column = encoder.code_.columns[0]
    assert column.labels == ("<10", "[10, 20)", "[20, 30)", "[30, 40)", ">=40")
    assert column.values == (3, 12, 25, 35, 40)
    assert encoder.transform([[-100], [1000]]).tolist() == [[0] * 4, [1] * 4]


def test_codes_are_copied_and_pickled():
    for again in (copy.deepcopy(CODE), pickle.loads(pickle.dumps(CODE))):
        assert again.variable_names == CODE.variable_names
        assert np.array_equal(again.encode(ROWS), CODE.encode(ROWS), equal_nan=True)
    with pytest.raises(ValueError, match="read-only"):
        CODE.columns[0].codewords[0, 0] = 1


def changed(place, wrong):
    """The code with something else in it, or in one of its columns."""
    if place is None:
        return replace(CODE, **wrong)
    columns = list(CODE.columns)
    columns[place] = replace(columns[place], **wrong)
    return replace(CODE, columns=tuple(columns))


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (None, {"columns": ()}),
        (None, {"columns": CODE.columns[::-1]}),
        (None, {"container": 3}),
        (None, {"unknown": "maybe"}),
        (0, {"kind": "strange"}),
        (0, {"start": 1}),
        (0, {"labels": ("a", "a", "b")}),
        (0, {"codewords": [[1, 0, 0], [1, 0, 0], [0, 0, 1]]}),
        (0, {"counts": (1, -1, 1)}),
        (0, {"variable_names": ("a",)}),
        (1, {"groups": (0, 1)}),
        (1, {"groups": (0, 2, 1)}),
        (1, {"groups": (1, 1, 2)}),
        (1, {"edges": (3.5, 2.5)}),
        (1, {"edges": (float("nan"), 2.5)}),
        (1, {"values": ("a", "b", "c")}),
        (1, {"zone": 3}),
        (1, {"name": "x0"}),
    ],
)
def test_what_is_no_code_is_refused(place, wrong):
    with pytest.raises(ValueError, match=r"not a|must|has"):
        changed(place, wrong)


def test_a_column_by_hand():
    column = CodedColumn("size", "ordinal", ("S", "M", "L"), ("S", "M", "L"), start=0, stop=2,
                         codewords=[[0, 0], [1, 0], [1, 1]],
                         variable_names=("size>=M", "size>=L"))  # fmt: skip
    code = TableCode((column,))
    assert code.encode([["M"], ["L"]]).tolist() == [[1, 0], [1, 1]]


def test_numbers_far_outside_what_was_seen_are_named_once():
    frame = pd.DataFrame(
        {"age": np.arange(20.0, 60.0), "day": pd.date_range("2020-01-01", periods=40), "c": 7}
    )
    encoder = TableEncoder().fit(frame)
    later = frame[:3].assign(age=[30.0, 1980.0, 99.0], c=[7, 7, 8])
    with pytest.warns(OutOfRangeWarning) as caught:
        rows = encoder.transform(later)
    (found,) = [one.message for one in caught]
    assert (found.column, found.value, found.row) == ("age", 1980.0, 1)
    assert "range that was seen at fit: 'age' is 1980 in row 1 (20 to 59)." in str(found)
    assert np.array_equal(rows[1], encoder.transform(later.assign(age=59.0))[1])
    far = frame[:3].assign(day=pd.Timestamp("1999-12-31"))
    with pytest.warns(OutOfRangeWarning, match=r"'day' is 1999-12-31 in row 0 \(2020-01-01 to"):
        encoder.transform(far)
    encoder.transform(frame.assign(age=[98.0, -19.0, np.nan, np.inf] * 10))  # not far


def test_a_date_that_only_one_float_can_say_has_a_cell():
    frame = pd.DataFrame({"day": [None, datetime.datetime(2113, 1, 1, 0, 0, 0, 1)], "n": [1, 2]})
    assert np.isnan(TableEncoder().fit(frame).transform(frame)[0]).any()
