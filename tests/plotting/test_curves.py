"""Learning curves, and the check of pairs: one point per pair, lost ones in red."""

from types import SimpleNamespace

import numpy as np
import pytest

from strudel import Strudel, plot_check
from strudel.learning.progress import History
from strudel.plotting.curves import plot_learning_curve


def make_history(valid, best):
    n = len(valid)
    columns = {
        "n_splits": np.arange(n),
        "train": np.linspace(-3, -2, n),
        "valid": np.array(valid, dtype=float),
        "n_edges": np.arange(10, 10 + n),
        "rows_moved": np.zeros(n),
        "seconds": np.linspace(0, 1, n),
    }
    return History.from_columns(columns, best=best, stopped_because="patience")


def lines(ax):
    return {line.get_label(): line for line in ax.lines}


def test_both_curves_and_the_kept_circuit_are_drawn(ax):
    assert make_history([-3, -2.5, -2.7], best=1).plot(ax) is ax
    drawn = lines(ax)
    assert drawn["train"].get_ydata().tolist() == [-3, -2.5, -2]
    assert drawn["validation"].get_ydata().tolist() == [-3, -2.5, -2.7]
    kept = drawn["kept: split 1, -2.500"]
    assert (kept.get_xdata()[0], kept.get_ydata()[0]) == (1, -2.5)
    assert ax.get_xlabel() == "splits"
    assert "log-likelihood" in ax.get_ylabel()
    other = [twin for twin in ax.figure.axes if twin is not ax]
    assert [twin.get_ylabel() for twin in other] == ["edges"]


def test_without_validation_the_kept_circuit_lies_on_the_train_curve(ax):
    plot_learning_curve(make_history([np.nan] * 3, best=2), ax=ax)
    assert "validation" not in lines(ax)
    assert "kept: split 2, -2.000" in lines(ax)


def test_estimators_bring_their_history_and_an_empty_one_is_refused(ax):
    model = SimpleNamespace(history_=make_history([-3], best=0))
    assert plot_learning_curve(model, ax=ax) is ax
    ax.figure.canvas.draw()
    assert "kept: split 0, -3.000" in lines(ax)
    with pytest.raises(ValueError, match="history is empty"):
        plot_learning_curve(History(), ax=ax)


def test_every_pair_is_a_point_and_lost_ones_are_named(ax):
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (1000, 4))
    rows[:, 2] = rows[:, 0] ^ (rng.random(1000) < 0.1)
    model = Strudel(n_components=1, init="independent", max_splits=0, random_state=0).fit(rows)
    plot_check(model, ax=ax)
    kept, lost = (points.get_offsets() for points in ax.collections)
    assert (len(kept), len(lost)) == (5, 1)
    assert lost[0, 0] == pytest.approx(model.check_.mutual_information_rows.max())
    assert [text.get_text() for text in ax.texts] == ["x0, x2"]
