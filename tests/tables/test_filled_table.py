"""Facts about `filled_table`."""

import datetime

import numpy as np
import pandas as pd
import pytest

from strudel import Strudel, StrudelImputer
from strudel.tables import TableEncoder
from strudel.tables.columns import read_columns
from strudel.tables.filled_table import Gaps, fill_array


@pytest.mark.parametrize("strategy", ["map", "mean"])
def test_a_lazy_frame_is_filled_as_one_in_memory(strategy):
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(
        {
            "whole": np.tile([1, 2, 3, 9], 5),
            "flag": np.tile([True, False], 10),
            "kind": ["a", "b", "b", "c"] * 5,
        }
    )
    model = Strudel(n_components=1, columns=TableEncoder(n_bins=2), max_splits=0, random_state=0)
    imputer = StrudelImputer(model, strategy=strategy, random_state=0).fit(frame)
    holes = frame.astype({"whole": "Int64", "flag": "boolean"}).iloc[:6].copy()
    holes.loc[[0, 3], "whole"] = pd.NA
    holes.loc[[1, 4], "flag"] = pd.NA
    holes.loc[[2, 5], "kind"] = None
    whole = imputer.transform(holes)
    lazy = imputer.transform(dd.from_pandas(holes, npartitions=2)).compute()
    pd.testing.assert_frame_equal(lazy, whole, check_dtype=False)
    assert not whole.isna().any().any()


def gaps_of(values, missing, fill):
    """The gaps of one column of any values, and the code of that column."""
    table = [[value] for value in values]
    code = TableEncoder().fit(table).code_.as_columns
    raw = read_columns(table).columns[0]
    return code, Gaps(raw, code.columns[0], np.array(missing), fill)


def test_dates_and_durations_are_filled_as_what_they_are():
    day = datetime.date(2020, 1, 31)
    _, gap = gaps_of([day, None, day], [False, True, False], [86_400e6])
    assert gap.cells() == [datetime.date(1970, 1, 2)]
    spans = [datetime.timedelta(days=1), None, datetime.timedelta(days=3)]
    code, gap = gaps_of(spans, [False, True, False], [2 * 86_400e6])
    assert gap.cells() == [datetime.timedelta(days=2)]
    table = np.array([[np.nan], [np.nan], [np.nan]])
    assert fill_array(table, code, [gap])[1, 0] == datetime.timedelta(days=2)


@pytest.mark.parametrize(
    ("dtype", "fill", "wanted"),
    [
        ("boolean", [2.0], [1, 2, 1]),
        ("Int8", [300.0], [1, 300, 1]),
        ("Int8", [1.5], [1.0, 1.5, 1.0]),
        ("Int64", [2.0], [1, 2, 1]),
    ],
)
def test_a_column_of_numbers_grows_until_it_holds_the_value(dtype, fill, wanted):
    import narwhals as nw

    from strudel.tables.filled_table import fill_series

    series = pd.Series([1, None, 1], dtype=dtype, name="a")
    code = TableEncoder().fit(pd.DataFrame({"a": [1, 2, 300]})).code_.as_columns
    raw = read_columns(series.to_frame()).columns[0]
    own = nw.from_native(series, series_only=True)
    gap = Gaps(raw, code.columns[0], np.array([False, True, False]), fill)
    assert fill_series(own, gap).to_native().tolist() == wanted
