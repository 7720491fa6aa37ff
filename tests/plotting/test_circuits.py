"""Circuits node by node, and maps of large ones."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from artists import artist, segments, texts
from strategies import mixed
from strudel.circuits import even_structure
from strudel.circuits.compile import compile_factorized, figure_1_circuit
from strudel.plotting.circuits import edges_by_vtree, plot_circuit
from strudel.plotting.layout import drawn_circuit, layout_circuit
from strudel.queries.given import circuit_of
from strudel.trees.vtree import balanced_vtree, linear_vtree


def test_figure_1_has_the_marks_of_the_paper(ax):
    plot_circuit(figure_1_circuit(), ax=ax)
    assert len(artist(ax, "sum").get_offsets()) == 7
    assert len(artist(ax, "product").get_offsets()) == 8  # 6 under sums, and the 2 without a choice
    assert len(segments(ax, "active edges")) == 0
    assert sorted(texts(ax, "literal")) == sorted(
        [f"X{var}" for var in range(1, 5)] + [f"¬X{var}" for var in range(1, 5)]
    )


def test_figure_1_shows_its_parameters_but_none_where_there_is_no_choice(ax):
    plot_circuit(figure_1_circuit(), ax=ax)
    # One table entry and its complement for every line of the paper's tables.
    ones = [0.4, 0.8, 0.3, 0.5, 0.9, 0.7, 0.4]
    expected = [f"{p:.2g}" for one in ones for p in (one, 1 - one)]
    assert sorted(texts(ax, "parameter")) == sorted(expected)


def test_active_edges_of_figure_1_are_red(ax):
    circuit = figure_1_circuit()
    plot_circuit(circuit, row=[1, 0, 1, 0], ax=ax)
    # X4 = 0 and X3 = 1: a line to the sum and two into the product each; the product of X1 and X2:
    # two lines; the literals of X1 = 1 and X2 = 0: one line each.
    assert len(segments(ax, "active edges")) == 3 + 3 + 2 + 1 + 1
    assert (
        len(segments(ax, "edges"))
        == len(layout_circuit(drawn_circuit(circuit_of(circuit))).line_edge) - 10
    )


def test_node_by_node_a_large_circuit_is_refused_with_a_way_out(ax):
    circuit = compile_factorized(balanced_vtree(200))
    with pytest.raises(ValueError, match=r"400 edges, but the circuit has 599.*detail='map'"):
        plot_circuit(circuit, ax=ax, detail="nodes")
    with pytest.raises(ValueError, match="detail must be"):
        plot_circuit(circuit, ax=ax, detail="all")


@pytest.mark.parametrize("vtree", [balanced_vtree(200), linear_vtree(200)])
def test_a_large_circuit_is_a_map_with_areas_by_edges(vtree, ax):
    circuit = compile_factorized(vtree)
    plot_circuit(circuit, ax=ax)
    discs = artist(ax, "discs")
    # One edge at every inner vtree node, two at every leaf: large discs come first.
    area = discs.get_sizes()
    assert len(area) == 399
    assert np.allclose(area[:200], 2 * area[200]) or area.max() == area.min() == 1.0
    assert len(texts(ax, "leaf")) < 200
    assert edges_by_vtree(circuit_of(circuit)).sum() == circuit.size == 599
    words = ax.get_legend().get_title().get_text()
    assert words.startswith("Overview of 599 edges: the vtree")
    extent = ax.get_window_extent().width * ax.get_window_extent().height
    assert area.sum() < 0.25 * extent


def test_a_row_shows_its_values(ax):
    plot_circuit(figure_1_circuit(), row=[1, 0, 1, 0], ax=ax)
    assert set(texts(ax, "taken literal")) == {"X1", "¬X2", "X3", "¬X4"}
    assert set(texts(ax, "literal")) == {"¬X1", "X2", "¬X3", "X4"}
    taken = [text for text in ax.texts if text.get_gid() == "taken literal"]
    ends = {tuple(start) for start, _ in segments(ax, "active edges")}
    assert all(text.get_position() in ends for text in taken)
    other = Figure(figsize=(7, 5)).add_subplot()
    plot_circuit(figure_1_circuit(), row=[1, 0, 1, 0], ax=other, detail="map")
    assert sorted(texts(other, "leaf")) == ["X1 = 1", "X2 = 0", "X3 = 1", "X4 = 0"]


def test_what_does_not_fit_into_small_axes_is_a_map(ax):
    circuit = compile_factorized(balanced_vtree(40))
    plot_circuit(circuit, ax=ax)
    assert [artist.get_gid() for artist in ax.collections].count("discs") == 1
    large = Figure(figsize=(7, 20)).add_subplot()
    plot_circuit(circuit, ax=large)
    assert len(artist(large, "sum").get_offsets()) == 40


def test_a_mixture_is_drawn_without_parameters_or_as_its_most_responsible_component(ax):
    circuit = figure_1_circuit()
    mixture = mixed([circuit, even_structure(circuit)])
    plot_circuit(mixture, ax=ax)
    assert len(artist(ax, "sum").get_offsets()) == 7
    assert texts(ax, "parameter") == []
    assert texts(ax, "caption") == ["the structure of 2 components"]
    other = Figure(figsize=(7, 5)).add_subplot()
    # 0.4 * 0.7 * 0.3 * 0.5 = 0.042 against 0.5 ** 4: the second component.
    plot_circuit(mixture, row=[0, 0, 0, 1], ax=other)
    assert set(texts(other, "parameter")) == {"0.5"}
    share = 0.5**4 / (0.5**4 + 0.042)
    assert texts(other, "caption") == [f"component 1 of 2, with responsibility {share:.0%}"]


@pytest.mark.parametrize("row", [[1, 0, 1], [[1, 0, 1, 0]] * 2, [1, 0, 1, 2], [1, 0, 1, np.nan]])
def test_a_row_that_is_not_complete_is_refused(row, ax):
    with pytest.raises(ValueError, match="row"):
        plot_circuit(figure_1_circuit(), row=row, ax=ax)
