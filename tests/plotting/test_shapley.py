"""Facts about the bars of `plotting/shapley.py`."""

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.figure import Figure

from strudel import Strudel, shap_values
from strudel.circuits.examples import figure_1_circuit
from strudel.plotting.marginals import plot_shap_values

ROW = {"X2": 1, "X3": 1, "X4": 0}


@pytest.fixture
def ax():
    return Figure(figsize=(6, 4)).add_subplot()


def bars(ax):
    """Left and right end of every bar, from the top down."""
    found = [patch for patch in ax.patches if patch.get_gid() == "bar"]
    return [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in found]


def labels(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def test_the_bars_lead_from_the_expected_output_to_that_of_the_row(ax):
    shares = shap_values(figure_1_circuit(), "X1", ROW)
    assert plot_shap_values(shares, figure_1_circuit(), ROW, ax=ax) is ax
    found = bars(ax)
    assert found[0][1] == pytest.approx(shares.prediction)
    assert found[-1][0] == pytest.approx(shares.base_value)
    for (start, _), (_, end) in pairwise(found):
        assert start == pytest.approx(end)
    order = np.argsort(-np.abs(shares.values))[:3]
    assert [end - start for start, end in found] == pytest.approx(shares.values[order])
    assert labels(ax) == [f"X{var + 1} = {list(ROW.values())[var - 1]}" for var in order]


def test_what_does_not_fit_is_one_bar(ax):
    shares = shap_values(figure_1_circuit(), "X1", ROW)
    plot_shap_values(shares, figure_1_circuit(), ROW, ax=ax, top=1)
    largest = shares.values[np.argmax(np.abs(shares.values))]
    (first, rest) = [end - start for start, end in bars(ax)]
    assert first == pytest.approx(largest)
    assert rest == pytest.approx(shares.values.sum() - largest)
    assert labels(ax)[-1] == "2 others"


def test_sampled_values_have_their_errors(ax):
    shares = shap_values(figure_1_circuit(), "X1", ROW, max_exact=1, n_permutations=4)
    plot_shap_values(shares, figure_1_circuit(), ROW, ax=ax)
    (lines,) = [artist for artist in ax.collections if artist.get_gid() == "standard errors"]
    long = [end[0] - start[0] for start, end in lines.get_segments()]
    known = np.argsort(-np.abs(shares.values))[:3]
    assert long == pytest.approx(4 * shares.standard_error[known])


def test_the_variables_of_a_column_are_one_bar(ax):
    rows = [["red", 1], ["green", 20], ["blue", 30], ["red", 4]] * 30
    model = Strudel(n_components=1, random_state=0, max_splits=0).fit(rows)
    row = {"x0": "red"}
    shares = shap_values(model, "x1>=20", row)
    shares.plot(model, row, ax=ax)
    assert labels(ax) == ["x0: red"]
    [(start, end)] = bars(ax)
    assert (start, end) == pytest.approx((shares.base_value, shares.prediction))


def test_several_rows_are_refused(ax):
    rows = [[1, 0, 1, 0], [0, 0, 1, 1]]
    shares = shap_values(figure_1_circuit(), "X1", rows)
    with pytest.raises(ValueError, match="one row, but these are the values of 2"):
        plot_shap_values(shares, figure_1_circuit(), rows, ax=ax)
