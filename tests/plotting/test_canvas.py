"""Colours, room for text, and names that are short and different."""

import io
import itertools

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib import style
from matplotlib.figure import Figure

from strudel.circuits.compile import figure_1_chow_liu_tree, figure_1_circuit
from strudel.plotting.canvas import (
    palette_of,
    place_labels,
    save_figure,
    short_labels,
)
from strudel.plotting.circuits import plot_circuit
from strudel.plotting.heat_maps import plot_dependencies
from strudel.plotting.marginals import plot_marginals
from strudel.plotting.trees import plot_chow_liu_tree, plot_vtree


def brightness(colour):
    return float(np.dot(matplotlib.colors.to_rgb(colour), [0.299, 0.587, 0.114]))


PLOTS = [
    lambda ax: plot_circuit(figure_1_circuit(), row=[1, 0, 1, 0], ax=ax),
    lambda ax: plot_circuit(figure_1_circuit(), ax=ax, detail="map"),
    lambda ax: plot_vtree(figure_1_circuit(), ax=ax),
    lambda ax: plot_chow_liu_tree(figure_1_chow_liu_tree(), ax=ax),
    lambda ax: plot_marginals(figure_1_circuit(), {"X3": 1}, ax=ax),
    lambda ax: plot_dependencies(figure_1_circuit(), ax=ax),
]


@pytest.mark.parametrize("name", ["default", "dark_background", "ggplot", "Solarize_Light2"])
@pytest.mark.parametrize("plot", PLOTS)
def test_text_can_be_read_on_any_style(plot, name):
    with style.context(name):
        figure = Figure()
        ax = plot(figure.add_subplot())
        behind = brightness(palette_of(ax).background)
        written = [*ax.texts, *(ax.get_xticklabels() + ax.get_yticklabels() if ax.axison else [])]
        assert all(abs(brightness(text.get_color()) - behind) > 0.3 for text in written)


@pytest.mark.parametrize("plot", PLOTS)
def test_new_axes_have_room_for_their_text(plot):
    plt.close("all")
    try:
        figure = plot(None).figure
        figure.set_size_inches(5, 4)
        figure.savefig(io.BytesIO())
        left, bottom, right, top = figure.get_tightbbox().extents
        assert min(left, bottom) >= 0.0
        assert right <= 5.0
        assert top <= 4.0
        plt.tight_layout()  # as many do by habit
    finally:
        plt.close("all")


def test_axes_made_under_another_style_keep_their_background():
    with style.context("dark_background"):
        ax = Figure().add_subplot()
    colours = palette_of(ax)
    assert brightness(colours.background) < 0.1
    assert brightness(colours.ink) > 0.7
    clear = Figure(facecolor="none").add_subplot(facecolor="none")
    assert brightness(palette_of(clear).background) > 0.99


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_the_same_picture_is_the_same_file_and_nothing_else_is_left(tmp_path, ending):
    found = []
    for name in ("a", "b"):
        figure = Figure()
        plot_vtree(figure_1_circuit(), ax=figure.add_subplot())
        found.append(save_figure(figure, tmp_path / f"{name}.{ending}").read_bytes())
    assert found[0] == found[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"a.{ending}", f"b.{ending}"]


@pytest.mark.parametrize("longest", [12, 16, 24])
def test_different_names_stay_different(longest):
    dates = [f"last visit of the patient>={year}-01-15" for year in range(2015, 2022)]
    middle = [f"north-western {word} and coast of the county" for word in ("high", "low", "wet")]
    numbers = [f"{'a' * 30}{n}{'b' * 30}" for n in range(12)]
    short = short_labels([*dates, *middle, *numbers, "age", "age"], longest)
    assert all(len(label) <= longest for label in short)
    assert len(set(short)) == len(dates) + len(middle) + len(numbers) + 1


def test_labels_hide_neither_dots_nor_each_other():
    rng = np.random.default_rng(0)
    x, y = rng.uniform(0, 100, (2, 40))
    radius, wide, high = np.full(40, 1.0), rng.uniform(5, 20, 40), 5.0
    found = place_labels(x, y, radius, wide, high, np.arange(40))
    assert 5 < len(found) < 40
    assert 0 in found  # the first has a place
    boxes = [(x[i] + dx, y[i] + dy, wide[i], high) for i, (dx, dy) in found.items()]
    boxes += [(x[i], y[i], 2.0, 2.0) for i in range(40)]
    for (ax, ay, aw, ah), (bx, by, bw, bh) in itertools.product(boxes[: len(found)], boxes):
        is_same = (ax, ay) == (bx, by)
        assert is_same or 2 * abs(ax - bx) >= aw + bw - 1e-6 or 2 * abs(ay - by) >= ah + bh - 1e-6
