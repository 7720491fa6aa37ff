"""Colours of components and dependencies, and rows as small images."""

import itertools

import numpy as np
import pytest

import oracle
from artists import artist, labels
from strategies import mixed
from strudel import Strudel, marginal_probabilities
from strudel.circuits import even_structure
from strudel.circuits.compile import figure_1_circuit
from strudel.plotting.heat_maps import plot_components, plot_dependencies, plot_images
from strudel.queries.column_pairs import column_pairs
from strudel.queries.given import circuit_of


def joint():
    """All rows and their probabilities."""
    rows = np.array(list(itertools.product([0, 1], repeat=4)))
    return rows, np.exp([oracle.log_marginal(figure_1_circuit(), row) for row in rows])


def test_colours_are_correlations_in_the_order_of_the_vtree(ax):
    assert plot_dependencies(figure_1_circuit(), ax=ax) is ax
    rows, p = joint()
    mean = p @ rows
    covariance = (rows - mean).T @ np.diag(p) @ (rows - mean)
    expected = covariance / np.sqrt(np.outer(covariance.diagonal(), covariance.diagonal()))
    order = figure_1_circuit().vtree.order
    drawn = np.ma.filled(ax.images[0].get_array(), np.nan)
    off = ~np.eye(4, dtype=bool)
    assert drawn[off] == pytest.approx(expected[np.ix_(order, order)][off])
    assert np.isnan(drawn.diagonal()).all()
    assert labels(ax) == [f"X{var + 1}" for var in order]


def test_dependencies_of_a_table_are_those_of_columns(ax):
    rows = [["red", 1], ["green", 20], ["blue", 30], ["red", 4]] * 30
    model = Strudel(n_components=1, random_state=0, max_splits=0).fit(rows)
    plot_dependencies(model, ax=ax)
    share = column_pairs(model).share[0, 1]
    drawn = np.ma.filled(ax.images[0].get_array(), np.nan)
    assert drawn.shape == (2, 2)
    assert drawn[0, 1] == pytest.approx(share)
    assert 0.3 < share < 1.0
    assert set(labels(ax)) == {"x0", "x1"}


def two_components(weights):
    circuit = figure_1_circuit()
    return mixed([circuit, even_structure(circuit)] * (len(weights) // 2), weights)


def test_bands_are_as_high_as_weights_and_coloured_by_marginals(ax):
    plot_components(two_components([0.3, 0.7]), ax=ax)
    mesh = artist(ax, "components")
    rows, p = joint()
    order = figure_1_circuit().vtree.order
    assert np.allclose(mesh.get_array(), [np.full(4, 0.5), (p @ rows)[order]])
    heights = np.diff(mesh.get_coordinates()[:, 0, 1])
    assert np.allclose(heights, [0.7, 0.3])
    assert labels(ax) == ["1: 70 %", "0: 30 %"]


def test_of_many_components_the_heaviest_are_drawn_and_the_others_together(ax):
    weights = np.arange(1.0, 1501.0) / np.arange(1.0, 1501.0).sum()
    plot_components(two_components(weights), ax=ax)
    mesh = artist(ax, "components")
    drawn, high = np.ma.filled(mesh.get_array(), np.nan), np.diff(mesh.get_coordinates()[:, 0, 1])
    n_heaviest = len(drawn) - 2
    assert 20 < n_heaviest < 40
    assert np.allclose(high[:n_heaviest], 1.0)
    assert np.isnan(drawn[n_heaviest]).all()  # a gap
    rows, p = joint()
    order = figure_1_circuit().vtree.order
    others = weights[:-n_heaviest]
    share = others[::2].sum() / others.sum()  # of the paper's circuit among the others
    assert np.allclose(drawn[-1], share * (p @ rows)[order] + (1 - share) * 0.5)
    written = labels(ax)
    assert written[0] == f"1499: {100 * weights[-1]:.2g} %"
    assert written[-1] == f"{1500 - n_heaviest:,} others: {100 * others.sum():.0f} %"
    assert len(written) == n_heaviest + 1
    assert ax.get_ylabel() == f"the {n_heaviest} heaviest of 1,500 components"


def test_a_single_circuit_is_one_band_and_a_table_has_a_field_per_value(ax):
    rows = [["red", 1], ["green", 20], ["blue", 30], ["red", 4]] * 30
    model = Strudel(n_components=1, random_state=0, max_splits=0).fit(rows)
    plot_components(model, ax=ax)
    found = marginal_probabilities(model)
    order = circuit_of(model).vtree.order
    expected = [np.ravel(list(found[f"x{place}"].values())) for place in order]
    assert np.allclose(artist(ax, "components").get_array(), np.concatenate(expected))
    assert [label.get_text() for label in ax.get_xticklabels()] == [f"x{place}" for place in order]


def test_every_row_becomes_an_image_of_its_shape_in_reading_order(ax):
    rows = np.random.default_rng(0).integers(0, 2, size=(5, 6))
    assert plot_images(rows, (2, 3), ax=ax, n_columns=3, column_labels=["a", "b", "c"]) is ax
    assert [text.get_text() for text in ax.texts] == ["a", "b", "c"]
    assert len(ax.images) == 5
    for row, image in zip(rows, ax.images, strict=True):
        assert np.array_equal(image.get_array(), row.reshape(2, 3))
    left = [image.get_extent()[0] for image in ax.images]
    top = [image.get_extent()[3] for image in ax.images]
    assert left[:3] == sorted(left[:3])
    assert left[3:] == left[:2]
    assert top[0] == top[2] < top[3]
    (low_x, high_x), (high_y, low_y) = ax.get_xlim(), ax.get_ylim()
    for image in ax.images:
        x0, x1, y0, y1 = image.get_extent()
        assert low_x <= x0 < x1 <= high_x
        assert low_y <= min(y0, y1) < max(y0, y1) <= high_y


def test_wrong_shapes_are_refused(ax):
    with pytest.raises(ValueError, match="need rows of 4 values"):
        plot_images(np.zeros((2, 5)), (2, 2), ax=ax)
    with pytest.raises(ValueError, match="1 labels for 2 columns"):
        plot_images(np.zeros((2, 4)), (2, 2), ax=ax, n_columns=2, column_labels=["a"])
