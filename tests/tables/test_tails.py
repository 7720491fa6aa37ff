"""Cells reach into the tails: answers keep moving beyond the last percentiles."""

import numpy as np
import pandas as pd
import pytest

from strudel import Strudel
from strudel.queries import expectation
from strudel.tables import TableEncoder


def debts(n_rows=8000):
    """Debts with a long upper tail, in which defaults become frequent."""
    rng = np.random.default_rng(0)
    debt = np.exp(rng.normal(size=n_rows))
    chance = 1.0 / (1.0 + np.exp(3.5 - 0.25 * debt))
    return pd.DataFrame(
        {
            "debt": debt,
            "default": np.where(rng.random(n_rows) < chance, "yes", "no"),
            "cost": debt**2 + rng.normal(size=n_rows),
        }
    )


def test_answers_keep_moving_beyond_the_last_percentile():
    table = debts()
    model = Strudel(n_components=1, max_splits=0, random_state=0).fit(table)
    before = 0.0
    for share in (0.9, 0.95, 0.98, 0.99, 0.995):
        bound = float(table["debt"].quantile(share))
        rows = table[table["debt"] >= bound]
        counted = float((rows["default"] == "yes").mean())
        error = np.sqrt(counted * (1 - counted) / len(rows))
        found = model.probability("default = yes", given={"debt": (bound, None)})
        assert found == pytest.approx(counted, abs=2 * error + 0.02)
        assert found > before + 0.02
        before = found
        cost = expectation(model, "cost", given={"debt": (bound, None)})
        assert cost == pytest.approx(rows["cost"].mean(), rel=0.25)


def test_outer_cells_hold_some_tens_of_rows():
    table = debts()
    column = TableEncoder().fit(table).code_.column("debt").shown
    assert 30 <= column.counts[0] < 60
    assert 30 <= column.counts[-1] < 60
    assert min(column.counts) >= 30


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(0).normal(size=200),  # too few rows
        np.repeat([0.0, *np.arange(1.0, 11.0), 99.0], [1000, *[10] * 10, 1000]),  # nothing to halve
    ],
)
def test_few_rows_and_equal_values_have_no_tail_cells(values):
    frame = pd.DataFrame({"x": values})
    column = TableEncoder().fit(frame).code_.columns[0]
    assert column.n_groups <= 8


def test_cells_are_cut_where_another_column_changes():
    """Fever begins at 38, where few rows are: quantiles would not cut there."""
    rng = np.random.default_rng(0)
    ill = rng.random(3000) < 0.1
    heat = np.where(ill, 38.0 + rng.exponential(0.7, 3000), rng.normal(36.6, 0.35, 3000)).round(2)
    frame = pd.DataFrame({"heat": heat, "ill": np.where(ill, "yes", "no"), "x": rng.random(3000)})
    code = TableEncoder().fit(frame).code_
    assert any(37.5 < edge <= 38.0 for edge in code.column("heat").edges)
    plain = TableEncoder().fit(frame[["x"]]).code_.column("x").edges
    assert code.column("x").edges == plain  # which tells nothing
    model = Strudel(n_components=1, random_state=0).fit(frame)
    counted = (frame.ill[frame.heat >= 38] == "yes").mean()
    assert model.probability("ill = yes", given="heat >= 38") == pytest.approx(counted, abs=0.02)
