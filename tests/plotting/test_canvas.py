"""Facts about colours and room for text."""

import io

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib import style
from matplotlib.figure import Figure

from strudel.circuits.examples import figure_1_chow_liu_tree, figure_1_circuit
from strudel.plotting.canvas import palette_of, save_figure
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


def test_the_layout_of_axes_that_were_there_stays():
    _, ax = plt.subplots()
    try:
        assert plot_marginals(figure_1_circuit()) is ax
        assert ax.figure.get_layout_engine() is None
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


def test_a_picture_that_fails_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="Format"):
        save_figure(Figure(), tmp_path / "a.nothing")
    assert list(tmp_path.iterdir()) == []
