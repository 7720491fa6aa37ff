"""Facts about the artists of `plotting/trees.py`, and about places in `plotting/tree_layout.py`."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from strudel import Strudel
from strudel.circuits.examples import figure_1_chow_liu_tree, figure_1_circuit
from strudel.plotting.trees import link_information, place_rings, plot_chow_liu_tree, tree_of_model
from strudel.trees.chow_liu import ChowLiuTree


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
    tree = tree_of_model(figure_1_circuit()).tree
    paper = figure_1_chow_liu_tree()
    links = {frozenset(link) for link in enumerate(tree.var_parent.tolist()) if link[1] >= 0}
    assert links == {
        frozenset(link) for link in enumerate(paper.var_parent.tolist()) if link[1] >= 0
    }


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
