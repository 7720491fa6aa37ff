"""Facts about the artists of `plotting/learning_curve.py`."""

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

from strudel.learning.history import History
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


@pytest.fixture
def ax():
    return Figure().add_subplot()


def lines(ax):
    return {line.get_label(): line for line in ax.lines}


def test_ax_in_is_ax_out(ax):
    assert plot_learning_curve(make_history([-3, -2.5, -2.7], best=1), ax=ax) is ax


def test_both_curves_and_the_kept_circuit_are_drawn(ax):
    plot_learning_curve(make_history([-3, -2.5, -2.7], best=1), ax=ax)
    drawn = lines(ax)
    assert drawn["train"].get_ydata().tolist() == [-3, -2.5, -2]
    assert drawn["validation"].get_ydata().tolist() == [-3, -2.5, -2.7]
    kept = drawn["kept: split 1, -2.500"]
    assert (kept.get_xdata()[0], kept.get_ydata()[0]) == (1, -2.5)
    assert ax.get_xlabel() == "splits"
    assert "log-likelihood" in ax.get_ylabel()


def test_the_size_has_its_own_scale(ax):
    plot_learning_curve(make_history([-3, -2.5, -2.7], best=1), ax=ax)
    other = [twin for twin in ax.figure.axes if twin is not ax]
    assert [twin.get_ylabel() for twin in other] == ["edges"]


def test_without_validation_the_kept_circuit_lies_on_the_train_curve(ax):
    plot_learning_curve(make_history([np.nan] * 3, best=2), ax=ax)
    assert "validation" not in lines(ax)
    assert "kept: split 2, -2.000" in lines(ax)


def test_a_history_of_one_row_can_be_drawn(ax):
    plot_learning_curve(make_history([-3.0], best=0), ax=ax)
    ax.figure.canvas.draw()
    assert "kept: split 0, -3.000" in lines(ax)


def test_iterations_of_a_mixture_have_no_size(ax):
    columns = {
        "n_iterations": np.array([0, 10, 20]),
        "train": np.array([-3.0, -2.0, -1.5]),
        "valid": np.array([-3.1, -2.4, -2.6]),
        "seconds": np.linspace(0, 1, 3),
    }
    plot_learning_curve(SimpleNamespace(columns=lambda: columns, best=1), ax=ax)
    assert ax.get_xlabel() == "iterations"
    assert lines(ax)["train"].get_xdata().tolist() == [0, 10, 20]
    kept = lines(ax)["kept: iteration 10, -2.400"]
    assert (kept.get_xdata()[0], kept.get_ydata()[0]) == (10, -2.4)
    assert ax.figure.axes == [ax]


def test_history_plots_itself(ax):
    assert make_history([-3, -2], best=1).plot(ax) is ax


def test_estimators_bring_their_history_and_an_empty_one_is_refused(ax):
    model = SimpleNamespace(history_=make_history([-3, -2], best=1))
    assert plot_learning_curve(model, ax=ax) is ax
    with pytest.raises(ValueError, match="history is empty"):
        plot_learning_curve(History(), ax=ax)
