"""Drawings of vtrees and Chow-Liu trees.

In:  a `Vtree` or `ChowLiuTree`, or a model that has one.
Out: the axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from strudel._names import names_of
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.plotting.canvas import (
    LETTER,
    Palette,
    axes_or_current,
    every_few,
    labels_that_fit,
    palette_of,
    short_label,
    size_in_points,
    text_width,
)
from strudel.plotting.tree_layout import (
    MAX_STEPS,
    link_information,
    place_layers,
    place_rings,
    place_vtree,
)
from strudel.queries.model import model_of
from strudel.queries.variable_probabilities import pair_probabilities
from strudel.trees.chow_liu import ChowLiuTree, tree_from_pairs
from strudel.trees.vtree import Vtree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

MAX_STEMS = 200  # variables of a vtree up to which every leaf has its line down to its name
MAX_BOXES = 40  # variables of a Chow-Liu tree up to which all have a box with their name


def plot_vtree(
    vtree: Any, feature_names: Sequence[str] | None = None, ax: Axes | None = None
) -> Axes:
    """Draw a vtree from its root down, with the variables below their leaves.

    Parameters
    ----------
    vtree : Vtree, Circuit, Mixture or fitted estimator
        Of any size. With more than 64 variables the leaves are in one line, the height of a node is
        the logarithm of how many are below it, and only as many names as fit are written.
    feature_names : sequence of str, optional
        One per variable; a model's own names, or x0, x1, ..., by default.
    ax : matplotlib.axes.Axes, optional
        Where to draw; pyplot's current axes by default.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from strudel.trees import balanced_vtree
    >>> ax = plot_vtree(balanced_vtree(5), ["a", "b", "c", "d", "e"], ax=Figure().add_subplot())
    """
    tree, names = vtree_and_names(vtree, feature_names)
    ax = axes_or_current(ax)
    colours = draw_vtree(ax, tree, names)
    x, y = place_vtree(tree)
    inner = tree.node_var == NONE
    size = float(np.clip(1500 / tree.n_vars, 2, 16))
    ax.scatter(x[inner], y[inner], s=size, color=[colours.ink], linewidths=0, zorder=3)
    return ax


def vtree_and_names(
    holder: Any, feature_names: Sequence[str] | None
) -> tuple[Vtree, tuple[str, ...]]:
    """The vtree that something is or has, and the names of its variables."""
    if isinstance(holder, Vtree):
        return holder, checked_names(holder.n_vars, feature_names)
    model = model_of(holder)
    return model.vtree, checked_names(model.n_vars, feature_names or model.feature_names)


def checked_names(n_vars: int, feature_names: Sequence[str] | None) -> tuple[str, ...]:
    """The names as given, or x0, x1, ..., if they are as many as the variables."""
    return tuple(map(str, names_of(n_vars, feature_names)))


def draw_vtree(ax: Axes, vtree: Vtree, names: tuple[str, ...], gap: float = 2.0) -> Palette:
    """Draw the lines and the names of a vtree, without its nodes; gives the colours used.

    `gap` is how far below its leaf a name begins, in points.
    """
    ax.set_axis_off()
    colours = palette_of(ax)
    x, y = place_vtree(vtree)
    if vtree.n_vars <= MAX_STEPS:
        _draw_links(ax, x, y, vtree.node_parent, colours)
    else:
        _draw_elbows(ax, vtree, x, y, colours)
    _set_limits(ax, x, y)
    leaves = vtree.var_leaf[vtree.order]
    labels = [short_label(names[var]) for var in vtree.order]
    _write_leaves(ax, x[leaves], y[leaves], labels, gap, colours)
    return colours


def _draw_links(
    ax: Axes, x: FloatArray, y: FloatArray, parent: IntArray, colours: Palette, width: Any = 1.2
) -> None:
    """Straight lines from every node to its parent."""
    child = np.flatnonzero(parent != NONE)
    points = np.stack([x, y], axis=1)
    _add_lines(ax, np.stack([points[child], points[parent[child]]], axis=1), colours.faint, width)


def _draw_elbows(ax: Axes, vtree: Vtree, x: FloatArray, y: FloatArray, colours: Palette) -> None:
    """Lines along the height of a parent, then down; of many leaves only short ends are drawn."""
    child = np.flatnonzero(vtree.node_parent != NONE)
    up = vtree.node_parent[child]
    bottom = y[child]
    if vtree.n_vars > MAX_STEMS:
        bottom = np.where(vtree.node_var[child] == NONE, bottom, y[up] - 0.4)
    bends = [(x[up], y[up]), (x[child], y[up]), (x[child], bottom)]
    path = np.stack([np.stack(point, axis=1) for point in bends], axis=1)
    _add_lines(ax, path, colours.muted, float(np.clip(150 / vtree.n_vars, 0.3, 1.0)))


def _add_lines(ax: Axes, path: AnyArray, colour: Any, width: Any) -> None:
    from matplotlib.collections import LineCollection

    lines = LineCollection(list(path), colors=[colour], linewidths=width, zorder=1)
    lines.set_capstyle("round")
    lines.set_gid("edges")
    ax.add_collection(lines, autolim=False)


def _set_limits(ax: Axes, x: FloatArray, y: FloatArray) -> None:
    """Everything inside, with a margin for marks."""
    ax.set_xlim(x.min() - 0.7 - 0.01 * np.ptp(x), x.max() + 0.7 + 0.01 * np.ptp(x))
    ax.set_ylim(y.min() - 0.7, y.max() + 0.5)


def _write_leaves(
    ax: Axes, x: FloatArray, y: FloatArray, labels: Sequence[str], gap: float, colours: Palette
) -> None:
    """Names right below the leaves, upright where they would not fit side by side."""
    low, high = ax.get_xlim()
    width, height = size_in_points(ax)
    column = width / (high - low)
    is_upright = text_width(labels, 9) > column
    size = float(np.clip(column * 0.8, 6, 9)) if is_upright else 9.0
    step = every_few(len(x), column * len(x), 1.1 * size) if is_upright else 1
    for leaf_x, leaf_y, label in zip(x[::step], y[::step], labels[::step], strict=True):
        text = ax.annotate(
            label,
            (leaf_x, leaf_y),
            xytext=(0, -gap),
            textcoords="offset points",
            fontsize=size,
            color=colours.ink,
            rotation=90 if is_upright else 0,
            ha="center",
            va="top",
        )
        text.set_gid("leaf")
    below = (text_width(labels, size) if is_upright else 1.2 * size) + 4 + gap
    high = ax.get_ylim()[1]
    share = min(below / height, 0.5)  # of the axes, to keep free under the deepest leaf
    ax.set_ylim(float(y.min()) - share * (high - float(y.min())) / (1 - share), high)


def plot_chow_liu_tree(
    tree: Any,
    feature_names: Sequence[str] | None = None,
    ax: Axes | None = None,
    positions: ArrayLike | None = None,
) -> Axes:
    """Draw a Chow-Liu tree: from its root down, in rings, or over given positions.

    The thicker a line, the more mutual information the two variables have.

    Parameters
    ----------
    tree : ChowLiuTree, Circuit, Mixture or fitted estimator
        Of any size. A model is drawn as the tree closest to it, found from its exact pair
        probabilities. With more than 40 variables the root is in the middle of rings, and the names
        of the variables with most neighbours are written as far as they fit.
    feature_names : sequence of str, optional
        One per variable; a model's own names, or x0, x1, ..., by default.
    ax : matplotlib.axes.Axes, optional
        Where to draw; pyplot's current axes by default.
    positions : array-like of shape (n_vars, 2), optional
        Where each variable lies, for example its pixel. The names are then left out.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from strudel.circuits import figure_1_circuit
    >>> ax = plot_chow_liu_tree(figure_1_circuit(), ax=Figure().add_subplot())
    """
    if isinstance(tree, ChowLiuTree):
        names = checked_names(tree.n_vars, feature_names)
    else:
        model = model_of(tree)
        names = checked_names(model.n_vars, feature_names or model.feature_names)
        tree = tree_of_model(model)
    ax = axes_or_current(ax)
    ax.set_axis_off()
    colours = palette_of(ax)
    has_boxes = positions is None and tree.n_vars <= MAX_BOXES
    if positions is not None:
        place = np.asarray(positions, dtype=float)
        if place.shape != (tree.n_vars, 2):
            raise ValueError(
                f"positions must have shape ({tree.n_vars}, 2), but has {place.shape}."
            )
        x, y = place[:, 0], place[:, 1]
    else:
        x, y = (place_layers if has_boxes else place_rings)(tree)
    _draw_links(ax, x, y, tree.var_parent, colours, _link_widths(tree))
    _set_limits(ax, x, y)
    if has_boxes:
        _write_boxes(ax, x, y, [short_label(name) for name in names], colours)
        return ax
    ax.set_aspect("equal")
    _draw_dots(ax, tree, x, y, colours)
    if positions is None:
        _write_hubs(ax, tree, x, y, names, colours)
    return ax


def tree_of_model(model: Any) -> ChowLiuTree:
    """The Chow-Liu tree of a model's own distribution.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> tree_of_model(figure_1_circuit()).var_parent  # that of the paper
    array([ 2,  2, -1,  2], dtype=int32)
    """
    return tree_from_pairs(pair_probabilities(model))


def _link_widths(tree: ChowLiuTree) -> AnyArray:
    """The width of every line in points, by its mutual information; the thinnest is visible."""
    information = link_information(tree)[tree.var_parent != NONE]
    most = information.max(initial=0.0)
    share = information / most if most > 0 else np.ones_like(information)
    return 0.5 + float(np.clip(120 / tree.n_vars, 1.5, 4.0)) * share


def _draw_dots(ax: Axes, tree: ChowLiuTree, x: FloatArray, y: FloatArray, colours: Palette) -> None:
    """One dot per variable, larger with more neighbours; roots are red."""
    degree = _degree(tree)
    size = float(np.clip(1600 / tree.n_vars, 3, 16)) * np.sqrt(degree)
    ax.scatter(x, y, s=size, color=[colours.ink], linewidths=0, zorder=3)
    roots = tree.roots
    dots = ax.scatter(x[roots], y[roots], s=size[roots] + 24, color=colours.red, zorder=4)
    dots.set_gid("roots")


def _degree(tree: ChowLiuTree) -> IntArray:
    """Neighbours of every variable, and at least one."""
    parents = tree.var_parent[tree.var_parent != NONE]
    counts = np.bincount(parents, minlength=tree.n_vars) + (tree.var_parent != NONE)
    return np.maximum(counts, 1).astype(np.int32)


def _write_boxes(
    ax: Axes, x: FloatArray, y: FloatArray, labels: Sequence[str], colours: Palette
) -> None:
    """Names in boxes centred on the nodes, as large as fits side by side."""
    low, high = ax.get_xlim()
    column = size_in_points(ax)[0] / (high - low)
    longest = max(map(len, labels), default=1)
    size = float(np.clip(column / (LETTER * longest + 1.0), 5, 11))
    for node_x, node_y, label in zip(x, y, labels, strict=True):
        write_box(ax, node_x, node_y, label, size, colours, "center").set_gid("variable")


def _write_hubs(
    ax: Axes,
    tree: ChowLiuTree,
    x: FloatArray,
    y: FloatArray,
    names: tuple[str, ...],
    colours: Palette,
) -> None:
    """The names of the variables with most neighbours, where they do not hide each other."""
    from matplotlib.patheffects import withStroke

    size = 7.0
    low, high = ax.get_xlim()
    unit = min(size_in_points(ax)) / (high - low)
    labels = [short_label(name, longest=16) for name in names]
    wide = np.array([LETTER * size * len(label) + 4 for label in labels])
    order = np.argsort(-_degree(tree), kind="stable")[:150]
    for var in labels_that_fit(x * unit, y * unit, wide, 1.5 * size, order):
        text = ax.annotate(
            labels[var],
            (x[var], y[var]),
            xytext=(0, 3),
            textcoords="offset points",
            fontsize=size,
            color=colours.ink,
            ha="center",
            va="bottom",
            zorder=5,
            path_effects=[withStroke(linewidth=2, foreground=colours.background)],
        )
        text.set_gid("variable")


def write_box(
    ax: Axes, x: float, y: float, label: str, size: float, colours: Palette, side: str
) -> Text:
    """A name in a rounded box, whose middle or right end is at x."""
    style = {"facecolor": colours.fill, "edgecolor": colours.muted, "linewidth": 0.8}
    return ax.text(
        x,
        y,
        label,
        fontsize=size,
        color=colours.ink,
        ha=side,
        va="center",
        bbox={**style, "boxstyle": "round,pad=0.35"},
        zorder=3,
    )
