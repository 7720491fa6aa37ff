"""Groups of cells: what a search splits on, and what people see of numbers and dates."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from strudel.tables import TableEncoder


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
