"""Facts about the artists of `plotting/vtrees.py`, and places in `plotting/tree_layout.py`."""

import io
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from strudel import Strudel
from strudel.circuits.examples import figure_1_circuit
from strudel.plotting.trees import place_vtree, plot_vtree
from strudel.tables import TableEncoder
from strudel.trees.vtree import Vtree, balanced_vtree, linear_vtree


@pytest.fixture
def ax():
    return Figure(figsize=(7, 5)).add_subplot()


def texts(ax, gid):
    return [text.get_text() for text in ax.texts if text.get_gid() == gid]


def segments(ax, gid):
    (lines,) = [artist for artist in ax.collections if artist.get_gid() == gid]
    return lines.get_segments()


def test_vtree_leaves_carry_their_names_from_left_to_right(ax):
    plot_vtree(Vtree.from_nested((2, (0, 1))), ["a", "b", "c"], ax=ax)
    leaves = [text for text in ax.texts if text.get_gid() == "leaf"]
    by_place = sorted(leaves, key=lambda text: text.xy[0])
    assert [text.get_text() for text in by_place] == ["c", "a", "b"]
    assert len(segments(ax, "edges")) == 4


def test_names_that_look_like_formulas_are_written_as_they_stand(ax):
    plot_vtree(Vtree.from_nested((0, 1)), ["$cost", "x_$^{1"], ax=ax)
    ax.figure.savefig(io.BytesIO(), format="png")
    assert texts(ax, "leaf") == [r"\$cost", r"x_\$^{1"]


def test_wrong_number_of_names_is_refused(ax):
    with pytest.raises(ValueError, match="2 feature names for 3 variables"):
        plot_vtree(balanced_vtree(3), ["a", "b"], ax=ax)


def test_models_bring_their_vtree_and_names(ax):
    plot_vtree(figure_1_circuit(), ax=ax)
    assert sorted(texts(ax, "leaf")) == ["X1", "X2", "X3", "X4"]


@pytest.mark.parametrize("vtree", [balanced_vtree(1000), linear_vtree(1000)])
def test_of_a_thousand_names_some_are_written_and_nothing_overlaps(vtree, ax):
    plot_vtree(vtree, ax=ax)
    leaves = [text for text in ax.texts if text.get_gid() == "leaf"]
    assert 10 <= len(leaves) <= 60
    renderer = FigureCanvasAgg(ax.figure).get_renderer()
    ax.figure.draw(renderer)
    boxes = [text.get_window_extent(renderer) for text in leaves]
    assert all(left.x1 <= right.x0 for left, right in pairwise(boxes))


@pytest.mark.parametrize("n_vars", [2, 5, 64, 65, 300])
def test_parents_of_a_vtree_stand_above_and_between_their_children(n_vars):
    for vtree in (balanced_vtree(n_vars), linear_vtree(n_vars)):
        x, y = place_vtree(vtree)
        inner = np.flatnonzero(vtree.node_var < 0)
        left, right = vtree.node_left[inner], vtree.node_right[inner]
        assert np.all((x[left] < x[inner]) & (x[inner] < x[right]))
        assert np.all((y[left] < y[inner]) & (y[right] < y[inner]))


ROWS = [["red", 1, True], ["green", 2, False], ["blue", 3, True], ["red", 4, False]] * 30


def test_the_vtree_of_a_table_has_its_columns_as_leaves(ax):
    model = Strudel(n_components=1, random_state=0, max_splits=2).fit(ROWS)
    plot_vtree(model, ax=ax)
    assert sorted(texts(ax, "leaf")) == ["x0", "x1", "x2"]


def tuple_of(leaves):
    """Leaves as a nested vtree, one after another."""
    first, *others = leaves
    return (first, tuple_of(others)) if others else first


def test_columns_that_a_vtree_takes_apart_are_drawn_by_variable(ax):
    encoder = TableEncoder(respect_one_hot=False)
    n_vars = encoder.fit(ROWS).code_.n_vars
    apart = Vtree.from_nested((tuple_of(range(0, n_vars, 2)), tuple_of(range(1, n_vars, 2))))
    model = Strudel(n_components=1, columns=encoder, vtree=apart, random_state=0, max_splits=0).fit(
        ROWS
    )
    plot_vtree(model, ax=ax)
    assert len(texts(ax, "leaf")) == n_vars
