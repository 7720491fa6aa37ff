"""Vtrees and Chow-Liu trees, and the places of their nodes."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from artists import segments, texts
from strudel import Strudel
from strudel.circuits.compile import figure_1_chow_liu_tree
from strudel.plotting.trees import (
    link_information,
    place_vtree,
    plot_chow_liu_tree,
    plot_vtree,
    tree_of_model,
)
from strudel.trees.chow_liu import ChowLiuTree
from strudel.trees.vtree import Vtree, balanced_vtree, linear_vtree


def test_vtree_leaves_carry_their_names_from_left_to_right(ax):
    plot_vtree(Vtree.from_nested((2, (0, 1))), ["a", "b", "c"], ax=ax)
    leaves = [text for text in ax.texts if text.get_gid() == "leaf"]
    by_place = sorted(leaves, key=lambda text: text.xy[0])
    assert [text.get_text() for text in by_place] == ["c", "a", "b"]
    assert len(segments(ax, "edges")) == 4


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


def chain(n_vars):
    """A path of variables that copy the one before with probability 0.9."""
    theta = np.tile([0.1, 0.9], (n_vars, 1))
    theta[0] = 0.5
    return ChowLiuTree(np.arange(-1, n_vars - 1, dtype=np.int32), theta)


def test_chow_liu_tree_over_positions_draws_between_them(ax):
    place = [(0, 0), (1, 0), (0, 1), (1, 1)]
    plot_chow_liu_tree(figure_1_chow_liu_tree(), ax=ax, positions=place)
    drawn = {(tuple(start), tuple(end)) for start, end in segments(ax, "edges")}
    assert drawn == {(place[0], place[2]), (place[1], place[2]), (place[2], place[3])}
    with pytest.raises(ValueError, match=r"shape \(4, 2\)"):
        plot_chow_liu_tree(figure_1_chow_liu_tree(), ax=ax, positions=place[:2])


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


@pytest.fixture(scope="module")
def table_model():
    """A number, two categories of several values, and a flag."""
    rng = np.random.default_rng(0)
    age = rng.integers(18, 90, 500)
    job = np.where(age > 65, "retired", rng.choice(["nurse", "clerk"], 500))
    town = rng.choice(["a", "b", "c"], 500)
    rows = [[int(a), str(j), str(t), bool(a > 40)] for a, j, t in zip(age, job, town, strict=True)]
    return Strudel(n_components=1, random_state=0, max_splits=3).fit(rows)


@pytest.mark.filterwarnings("error")
def test_the_tree_of_a_table_is_one_of_columns(table_model, ax):
    found = tree_of_model(table_model)
    assert found.names == ("x0", "x1", "x2", "x3")
    links = {frozenset(link) for link in enumerate(found.tree.var_parent.tolist()) if link[1] >= 0}
    assert {frozenset({0, 1}), frozenset({0, 3})} <= links
    assert np.isfinite(found.information).all()
    plot_chow_liu_tree(table_model, ax=ax)
    assert sorted(texts(ax, "variable")) == ["x0", "x1", "x2", "x3"]
    assert len(segments(ax, "edges")) == 3


@pytest.mark.parametrize("n_vars", [8, 20, 64, 200])
@pytest.mark.parametrize("words", ["x", "a rather long name of column "])
def test_names_in_a_tree_do_not_overlap(n_vars, words):
    rng = np.random.default_rng(n_vars)
    parent = np.array([-1, *(rng.integers(0, var) for var in range(1, n_vars))], dtype=np.int32)
    figure = Figure(figsize=(8, 6.5), layout="constrained")
    ax = figure.add_subplot()
    tree = ChowLiuTree(parent, np.full((n_vars, 2), 0.5))
    plot_chow_liu_tree(tree, [f"{words}{var}" for var in range(n_vars)], ax=ax)
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    written = [text for text in ax.texts if text.get_gid() == "variable"]
    assert len(written) >= min(n_vars, 20)
    boxes = [
        text.get_window_extent(renderer)
        if text.get_bbox_patch() is None
        else text.get_bbox_patch().get_window_extent(renderer)
        for text in written
    ]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


@pytest.mark.parametrize("reach", [12, 1000])
def test_dots_of_200_variables_do_not_overlap(reach):
    """Deep trees, where a variable hangs at one of the twelve before it, and bushes."""
    rng = np.random.default_rng(0)
    parent = [-1, *(rng.integers(max(0, var - reach), var) for var in range(1, 200))]
    tree = ChowLiuTree(np.array(parent, dtype=np.int32), np.full((200, 2), 0.5))
    figure = Figure(figsize=(8, 6.5), layout="constrained")
    ax = plot_chow_liu_tree(tree, ax=figure.add_subplot())
    figure.draw(FigureCanvasAgg(figure).get_renderer())
    dots = ax.collections[1]
    points = ax.transData.transform(dots.get_offsets()) / figure.dpi * 72
    distance = np.hypot(*(points[:, np.newaxis] - points).transpose(2, 0, 1))
    radius = np.sqrt(dots.get_sizes()) / 2
    overlaps = distance < 0.95 * np.add.outer(radius, radius)
    np.fill_diagonal(overlaps, False)
    assert not overlaps.any()
