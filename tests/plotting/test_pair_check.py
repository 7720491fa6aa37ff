"""The picture of the check: one point per pair, lost ones in red with their names."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from strudel import Strudel, plot_check
from strudel.circuits.examples import figure_1_circuit
from strudel.queries import check, sample


def axes():
    return Figure().add_subplot()


def test_every_pair_is_a_point_and_lost_ones_are_named():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (1000, 4))
    rows[:, 2] = rows[:, 0] ^ (rng.random(1000) < 0.1)
    model = Strudel(n_components=1, init="independent", max_splits=0, random_state=0).fit(rows)
    ax = plot_check(model, ax=axes())
    kept, lost = (points.get_offsets() for points in ax.collections)
    assert (len(kept), len(lost)) == (5, 1)
    assert lost[0, 0] == pytest.approx(model.check_.mutual_information_rows.max())
    assert [text.get_text() for text in ax.texts] == ["x0, x2"]


def test_a_model_without_lost_pairs_has_no_red_points():
    rows = sample(figure_1_circuit(), 500, random_state=0)
    ax = check(figure_1_circuit(), rows).plot(ax=axes())
    assert [len(points.get_offsets()) for points in ax.collections] == [6]
    assert not ax.texts


def test_one_column_has_axes_without_points():
    ax = check(Strudel(n_components=1, random_state=0).fit([[0], [1]] * 5), [[0], [1]]).plot(
        ax=axes()
    )
    assert ax.get_xlabel().startswith("mutual information in the rows")
