"""Facts about the artists of `plotting/trees.py`, and about places in `plotting/tree_layout.py`."""

import io
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from strudel.circuits.examples import figure_1_chow_liu_tree, figure_1_circuit
from strudel.plotting.tree_layout import link_information, place_rings, place_vtree
from strudel.plotting.trees import plot_chow_liu_tree, plot_vtree, tree_of_model
from strudel.trees.chow_liu import ChowLiuTree
from strudel.trees.vtree import Vtree, balanced_vtree, linear_vtree


@pytest.fixture
def ax():
    return Figure(figsize=(7, 5)).add_subplot()


def texts(ax, gid):
    return [text.get_text() for text in ax.texts if text.get_gid() == gid]


def segments(ax, gid):
    (lines,) = [artist for artist in ax.collections if artist.get_gid() == gid]
    return lines.get_segments()


def chain(n_vars):
    """A path of variables that copy the one before with probability 0.9."""
    theta = np.tile([0.1, 0.9], (n_vars, 1))
    theta[0] = 0.5
    return ChowLiuTree(np.arange(-1, n_vars - 1, dtype=np.int32), theta)


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


def test_chow_liu_tree_has_a_box_per_variable_and_a_line_per_parent(ax):
    plot_chow_liu_tree(figure_1_chow_liu_tree(), ax=ax)
    assert sorted(texts(ax, "variable")) == ["x0", "x1", "x2", "x3"]
    assert len(segments(ax, "edges")) == 3


def test_chow_liu_tree_over_positions_draws_between_them(ax):
    place = [(0, 0), (1, 0), (0, 1), (1, 1)]
    plot_chow_liu_tree(figure_1_chow_liu_tree(), ax=ax, positions=place)
    drawn = {(tuple(start), tuple(end)) for start, end in segments(ax, "edges")}
    assert drawn == {(place[0], place[2]), (place[1], place[2]), (place[2], place[3])}
    with pytest.raises(ValueError, match=r"shape \(4, 2\)"):
        plot_chow_liu_tree(figure_1_chow_liu_tree(), ax=ax, positions=place[:2])


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


def test_rings_put_every_variable_farther_out_than_its_parent():
    tree = chain(50)
    x, y = place_rings(tree)
    assert np.all(np.diff(np.hypot(x, y)) > 0)
    forest = ChowLiuTree(np.array([-1, 0, -1, 2], dtype=np.int32), np.full((4, 2), 0.5))
    x, y = place_rings(forest)
    assert len({(round(a, 6), round(b, 6)) for a, b in zip(x, y, strict=True)}) == 4


def test_many_variables_stand_in_rings_and_some_have_names(ax):
    plot_chow_liu_tree(chain(300), ax=ax)
    assert len(segments(ax, "edges")) == 299
    assert 0 < len(texts(ax, "variable")) < 300
    (roots,) = [artist for artist in ax.collections if artist.get_gid() == "roots"]
    assert roots.get_offsets().tolist() == [[0.0, 0.0]]


def test_information_on_a_link_is_that_of_its_joint_table():
    tree = ChowLiuTree(
        np.array([-1, 0, 1], dtype=np.int32), np.array([[0.3, 0.3], [0.2, 0.9], [0.5, 0.6]])
    )
    one = [0.3, 0.7 * 0.2 + 0.3 * 0.9]
    expected = [0.0]
    for up, (low, high) in zip(one, tree.var_theta[1:], strict=True):
        joint = np.array([[(1 - up) * (1 - low), (1 - up) * low], [up * (1 - high), up * high]])
        margins = np.outer(joint.sum(axis=1), joint.sum(axis=0))
        expected.append(float(np.sum(joint * np.log(joint / margins))))
    assert link_information(tree) == pytest.approx(expected)


def test_the_tree_of_a_model_that_is_a_tree_is_that_tree():
    tree = tree_of_model(figure_1_circuit())
    paper = figure_1_chow_liu_tree()
    links = {frozenset(link) for link in enumerate(tree.var_parent.tolist()) if link[1] >= 0}
    assert links == {
        frozenset(link) for link in enumerate(paper.var_parent.tolist()) if link[1] >= 0
    }
