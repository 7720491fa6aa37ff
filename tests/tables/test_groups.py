"""Groups of cells: what a search splits on, and what people see of numbers and dates."""

from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest

from strudel.tables import TableEncoder
from strudel.tables.column import Column
from strudel.tables.columns import read_columns
from strudel.tables.learn_code import CodeOptions, learn_column, with_fine_cells


def fine_column():
    """Ages by the year, in three groups."""
    ages = np.repeat(np.arange(20, 50), np.arange(1, 31))
    fine = TableEncoder(n_bins=40).fit(pd.DataFrame({"age": ages})).code_.columns[0]
    return ages, replace(
        fine,
        groups=tuple(np.repeat(range(3), 10).tolist()),
        codewords=np.tri(3, 2, -1),
        stop=2,
        variable_names=("age>=30", "age>=40"),
    )


def test_people_see_groups_of_numbers():
    ages, column = fine_column()
    shown = column.shown
    assert shown.labels == ("<30", "[30, 40)", ">=40")
    assert shown.edges == (30.0, 40.0)
    groups = [ages[ages < 30], ages[(ages >= 30) & (ages < 40)], ages[ages >= 40]]
    assert shown.counts == tuple(map(len, groups))
    assert shown.values == tuple(np.sort(own)[(len(own) - 1) // 2] for own in groups)
    assert shown.ranges == ((20, 29), (30, 39), (40, 49))
    assert shown.shown is shown
    assert column.shown_of_cell.tolist() == column.group_of_cell.tolist()


def test_a_cell_has_the_share_of_its_group_that_it_has_of_all_rows():
    ages, column = fine_column()
    in_last = column.share_of_group[20:]
    assert in_last == pytest.approx(np.bincount(ages)[40:] / np.sum(ages >= 40), rel=0.05)
    assert np.bincount(column.group_of_cell, column.share_of_group) == pytest.approx(np.ones(3))


def numbers():
    rng = np.random.default_rng(0)
    days = np.datetime64("2020-01-01") + rng.integers(0, 900, 4000).astype("timedelta64[D]")
    return pd.DataFrame(
        {
            "income": np.where(rng.random(4000) < 0.3, 0.0, rng.lognormal(10.0, 1.0, 4000)),
            "age": rng.integers(18, 90, 4000),
            "day": days,
            "wait": rng.exponential(3600.0, 4000).astype("timedelta64[s]"),
            "few": rng.integers(0, 5, 4000),
        }
    )


@pytest.mark.parametrize("name", ["income", "age", "day", "wait", "few"])
def test_fine_cells_are_shown_as_they_would_be_without(name):
    [raw] = read_columns(numbers()[[name]]).columns
    column = learn_column(raw, None, CodeOptions(16, has_tails=True))
    fine = with_fine_cells(raw, column)
    for field in fields(Column):
        if field.name != "groups":
            assert getattr(fine.shown, field.name) == getattr(column, field.name)
    values = raw.known()
    assert np.bincount(fine.cells_of(raw)).tolist() == list(fine.counts)
    counts = np.array(fine.counts)
    if name == "few":
        assert fine is column
        return
    assert fine.n_groups < fine.n_cells <= 90
    assert counts.min() >= 10
    assert counts[-1] < 20 or name in ("age", "day")  # tails are fine
    frequent = (np.unique(values, return_counts=True)[1] > 2 * len(values) / 64).sum()
    is_single = [low == high for low, high in fine.ranges]
    assert np.sum((counts > 2 * len(values) / 64) & is_single) == frequent
    assert np.all((counts <= 3 * len(values) / 64) | is_single)


def test_few_rows_have_hardly_more_cells_than_groups():
    column = TableEncoder().fit(numbers()[["income"]].head(60)).code_.columns[0]
    assert column.n_groups <= column.n_cells <= 6


def test_edges_that_are_given_are_cells_and_groups():
    frame = numbers()[["age", "income"]]
    for options in ({"n_bins": 6}, {"edges": {"age": [30, 60], "income": [1e4]}}):
        for column in TableEncoder(**options).fit(frame).code_.columns:
            assert column.n_groups == column.n_cells
