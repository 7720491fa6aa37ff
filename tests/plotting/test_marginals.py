"""Bars of probabilities, and of Shapley values."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import oracle
from artists import labels, segments
from strudel import Strudel, shap_values
from strudel.circuits.compile import figure_1_circuit
from strudel.plotting.marginals import plot_marginals, plot_shap_values
from strudel.tables.encoder import TableEncoder


def bars(ax):
    """The width of every bar by its label."""
    widths = [bar.get_width() for bar in ax.patches if bar.get_gid() == "bar"]
    return dict(zip(labels(ax), widths, strict=True))


def before(ax):
    found = [artist for artist in ax.collections if artist.get_gid() == "without evidence"]
    return [segment[0][0] for artist in found for segment in artist.get_segments()]


def marginal(row):
    return np.exp(oracle.log_marginal(figure_1_circuit(), row))


def test_bars_are_marginals_in_the_order_of_the_variables(ax):
    assert plot_marginals(figure_1_circuit(), ax=ax) is ax
    one = np.full((4, 4), np.nan)
    np.fill_diagonal(one, 1.0)
    expected = {f"X{var + 1}": marginal(one[var]) for var in range(4)}
    assert list(bars(ax)) == list(expected)
    assert bars(ax) == pytest.approx(expected)
    assert before(ax) == []


def test_what_is_given_comes_first_and_the_others_show_where_they_were(ax):
    plot_marginals(figure_1_circuit(), {"X3": 1, "X1": 0}, ax=ax)
    drawn = bars(ax)
    assert list(drawn) == ["X1 = 0", "X3 = 1", "X2", "X4"]
    known = marginal([0, np.nan, 1, np.nan])
    assert drawn["X1 = 0"] == 0.0
    assert drawn["X3 = 1"] == 1.0
    assert drawn["X2"] == pytest.approx(marginal([0, 1, 1, np.nan]) / known)
    assert drawn["X4"] == pytest.approx(marginal([0, np.nan, 1, 1]) / known)
    nothing = np.full(4, np.nan)
    for place, var in enumerate([0, 2, 1, 3]):
        row = nothing.copy()
        row[var] = 1.0
        assert before(ax)[place] == pytest.approx(marginal(row))


def test_of_many_variables_those_that_change_most_are_shown(ax):
    plot_marginals(figure_1_circuit(), {"X3": 1}, ax=ax, top=2)
    # X4 moves from 0.4 to 0.2, X1 from 0.52 to 0.4, X2 from 0.74 to 0.9.
    assert list(bars(ax)) == ["X3 = 1", "X4"]
    assert "2 of 4 variables, those that change most" in ax.get_xlabel()
    other = plot_marginals(figure_1_circuit(), ax=Figure().add_subplot(), top=2)
    assert list(bars(other)) == ["X2", "X3"]  # the most probable


def test_several_rows_are_refused(ax):
    with pytest.raises(ValueError, match="given must be one row, but has 2"):
        plot_marginals(figure_1_circuit(), [[1, 0, 1, 0], [0, 0, 0, 0]], ax=ax)
    with pytest.raises(ValueError, match="top must be a whole number of at least 1, or None"):
        plot_marginals(figure_1_circuit(), ax=ax, top=0)


COLOURS, AGES = ("red", "green", "blue"), (20, 40, 60)


@pytest.fixture(scope="module")
def table_model():
    """A model of a table with three colours, three ages, and two answers that follow the colour."""
    rows = [
        {"colour": colour, "age": age, "answer": "yes" if colour == "red" else "no"}
        for colour, weight in zip(COLOURS, (3, 2, 1), strict=True)
        for age in AGES
        for _ in range(10 * weight)
    ]
    return Strudel(n_components=1, random_state=0, max_splits=20).fit(pd.DataFrame(rows))


def test_a_model_of_a_table_has_a_bar_for_every_value(table_model, ax):
    plot_marginals(table_model, ax=ax)
    drawn = bars(ax)
    assert [label.split(":")[0] for label in drawn] == ["colour"] * 3 + ["age"] * 3 + ["answer"]
    assert sum(list(drawn.values())[:3]) == pytest.approx(1.0)
    assert sum(list(drawn.values())[3:6]) == pytest.approx(1.0)
    expected = table_model.marginal_probabilities()
    assert drawn["colour: red"] == pytest.approx(expected["colour"]["red"])
    assert drawn["answer: yes"] == pytest.approx(expected["answer"]["yes"])


def test_what_is_given_of_a_table_is_one_bar_or_those_possible(table_model, ax):
    plot_marginals(table_model, {"colour": "red", "age": (30, None)}, ax=ax)
    drawn = bars(ax)
    assert [label.split(":")[0] for label in drawn] == ["colour", "age", "age", "answer"]
    assert drawn["colour: red"] == 1.0
    assert drawn["answer: yes"] > 0.9
    assert "given the values in orange" in ax.get_xlabel()


def test_dates_and_long_names_stay_different():
    start = np.datetime64("2015-01-01")
    kinds = [f"vocational training, {word}" for word in ("industrial", "commercial", "nursing")]
    days = [(start + np.timedelta64(30 * day, "D")).astype(object) for day in range(120)]
    rows = [[kinds[day % 3], date] for day, date in enumerate(days)]
    encoder = TableEncoder(n_bins=8)
    model = Strudel(n_components=1, columns=encoder, random_state=0, max_splits=0).fit(rows)
    ax = plot_marginals(model, ax=Figure(figsize=(7, 9)).add_subplot())
    written = labels(ax)
    assert len(set(written)) == len(written) >= 8
    assert max(map(len, written)) <= 16 + 2 + 24
    assert any("2019" in label for label in written)


ROW = {"X2": 1, "X3": 1, "X4": 0}


def spans(ax):
    """Left and right end of every bar, from the top down."""
    found = [patch for patch in ax.patches if patch.get_gid() == "bar"]
    return [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in found]


def test_the_bars_lead_from_the_expected_output_to_that_of_the_row(ax):
    shares = shap_values(figure_1_circuit(), "X1", ROW)
    assert plot_shap_values(shares, figure_1_circuit(), ROW, ax=ax) is ax
    found = spans(ax)
    assert found[0][1] == pytest.approx(shares.prediction)
    assert found[-1][0] == pytest.approx(shares.base_value)
    for (start, _), (_, end) in pairwise(found):
        assert start == pytest.approx(end)
    order = np.argsort(-np.abs(shares.values))[:3]
    assert [end - start for start, end in found] == pytest.approx(shares.values[order])
    assert labels(ax) == [f"X{var + 1} = {list(ROW.values())[var - 1]}" for var in order]


def test_sampled_values_have_their_errors(ax):
    shares = shap_values(figure_1_circuit(), "X1", ROW, max_exact=1, n_permutations=4)
    plot_shap_values(shares, figure_1_circuit(), ROW, ax=ax)
    long = [end[0] - start[0] for start, end in segments(ax, "standard errors")]
    known = np.argsort(-np.abs(shares.values))[:3]
    assert long == pytest.approx(4 * shares.standard_error[known])


def test_what_does_not_fit_is_one_bar(ax):
    shares = shap_values(figure_1_circuit(), "X1", ROW)
    plot_shap_values(shares, figure_1_circuit(), ROW, ax=ax, top=1)
    largest = shares.values[np.argmax(np.abs(shares.values))]
    (first, rest) = [end - start for start, end in spans(ax)]
    assert first == pytest.approx(largest)
    assert rest == pytest.approx(shares.values.sum() - largest)
    assert labels(ax)[-1] == "2 others"
