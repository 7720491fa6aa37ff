"""Drawings of Chow-Liu trees.

In:  a `ChowLiuTree`, or a model, of which the closest tree is drawn.
Out: the axes. The tree of a model of a table is one of columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.plotting.canvas import (
    Palette,
    axes_or_current,
    draw_links,
    palette_of,
    set_limits,
    size_in_points,
    write_box,
)
from strudel.plotting.labels import place_labels, short_labels, text_width
from strudel.plotting.tree_layout import link_information, place_layers, place_rings
from strudel.plotting.vtrees import checked_names
from strudel.queries.column_pairs import column_pairs
from strudel.trees.chow_liu import ChowLiuTree, spanning_tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SMALLEST, LARGEST = 6.0, 11.0  # font sizes of names in boxes; below there are dots
DOT_NAME = 7.0  # font size of names beside dots
MAX_LABELS = 300  # names that a place beside their dots is looked for
MAX_COMPARED = 1000  # dots up to which layouts are compared


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
        probabilities, and a model of a table as one of columns. Where boxes with all names do not
        fit, there are dots, in rings around the root or in levels, and names are written as far as
        they fit, those with most neighbours first.
    feature_names : sequence of str, optional
        One per variable or column; a model's own names, or x0, x1, ..., by default.
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
        drawn = ModelTree(tree, link_information(tree), checked_names(tree.n_vars, feature_names))
    else:
        drawn = tree_of_model(tree)
    tree = drawn.tree
    names = checked_names(tree.n_vars, feature_names or drawn.names)
    ax = axes_or_current(ax)
    ax.set_axis_off()
    colours = palette_of(ax)
    labels = short_labels(names)
    boxes = None if positions is not None else _places_of_boxes(ax, tree, labels)
    if positions is not None:
        place = np.asarray(positions, dtype=float)
        if place.shape != (tree.n_vars, 2):
            raise ValueError(
                f"positions must have shape ({tree.n_vars}, 2), but has {place.shape}."
            )
        x, y = place[:, 0], place[:, 1]
    else:
        x, y = _places_of_dots(ax, tree) if boxes is None else boxes[:2]
    draw_links(ax, x, y, tree.var_parent, colours, _link_widths(drawn))
    set_limits(ax, x, y)
    if boxes is not None:
        for node_x, node_y, label in zip(x, y, labels, strict=True):
            box = write_box(ax, node_x, node_y, label, boxes[2], colours, "center")
            box.set_gid("variable")
        return ax
    if positions is not None:
        ax.set_aspect("equal")
    area = _draw_dots(ax, tree, x, y, colours)
    if positions is None:
        _write_names(ax, tree, x, y, area, names, colours)
    return ax


class ModelTree(NamedTuple):
    """A tree over variables, or over the columns of a table."""

    tree: ChowLiuTree  # of columns, only the parents have a meaning
    information: FloatArray  # with the parent, in nats; 0 at a root
    names: tuple[str, ...]


def tree_of_model(model: Any) -> ModelTree:
    """The Chow-Liu tree of a model's own distribution."""
    pairs = column_pairs(model)
    parent = spanning_tree(pairs.information)
    link = np.where(parent == NONE, 0.0, pairs.information[np.arange(len(parent)), parent])
    return ModelTree(ChowLiuTree(parent, np.zeros((len(parent), 2))), link, pairs.names)


def _places_of_boxes(
    ax: Axes, tree: ChowLiuTree, labels: Sequence[str]
) -> tuple[FloatArray, FloatArray, float] | None:
    """Places and a font size for all names in boxes; None if they would be too small to read.

    Levels are below each other, or side by side if that has more room: long names take less.
    """
    across, level = place_layers(tree)
    width, height = size_in_points(ax)
    n_beside, n_levels = np.ptp(across) + 1.4, np.ptp(level) + 1.2
    long, high = text_width(labels, 1.0) + 1.4, 1.9  # of a box and the gap beside it
    downwards = min(width / n_beside / long, height / n_levels / high)
    sideways = min(width / n_levels / (long + 1.0), height / n_beside / high)
    size = min(max(downwards, sideways), LARGEST)
    if size < SMALLEST:
        return None
    return (across, level, size) if downwards >= min(sideways, LARGEST) else (-level, -across, size)


def _places_of_dots(ax: Axes, tree: ChowLiuTree) -> tuple[FloatArray, FloatArray]:
    """Rings, or levels below each other or side by side: where close dots are farthest apart.

    Rings suit bushes, levels deep trees.
    """
    width, height = size_in_points(ax)
    across, level = place_layers(tree)
    rings = place_rings(tree)
    found = [rings, (across, level), (-level, -across)]
    if tree.n_vars > MAX_COMPARED:
        return rings
    nearest = []
    for x, y in found:
        points = np.stack([x * width / (np.ptp(x) or 1.0), y * height / (np.ptp(y) or 1.0)], axis=1)
        squares = ((points[:, np.newaxis] - points) ** 2).sum(axis=2)
        np.fill_diagonal(squares, np.inf)
        nearest.append(float(np.quantile(squares.min(axis=1), 0.1)))
    return found[int(np.argmax(nearest))]


def _link_widths(drawn: ModelTree) -> AnyArray:
    """The width of every line in points, by its mutual information; the thinnest is visible."""
    information = drawn.information[drawn.tree.var_parent != NONE]
    most = information.max(initial=0.0)
    share = information / most if most > 0 else np.ones_like(information)
    return 0.5 + float(np.clip(120 / drawn.tree.n_vars, 1.5, 4.0)) * share


def _draw_dots(
    ax: Axes, tree: ChowLiuTree, x: FloatArray, y: FloatArray, colours: Palette
) -> FloatArray:
    """One dot per variable, larger with more neighbours, and its area; roots are red."""
    area = float(np.clip(1600 / tree.n_vars, 3, 16)) * np.sqrt(_degree(tree))
    area[tree.roots] += 24
    ax.scatter(x, y, s=area, color=[colours.ink], linewidths=0, zorder=3)
    roots = tree.roots
    dots = ax.scatter(x[roots], y[roots], s=area[roots], color=colours.red, zorder=4)
    dots.set_gid("roots")
    return np.asarray(area)


def _degree(tree: ChowLiuTree) -> IntArray:
    """Neighbours of every variable, and at least one."""
    parents = tree.var_parent[tree.var_parent != NONE]
    counts = np.bincount(parents, minlength=tree.n_vars) + (tree.var_parent != NONE)
    return np.maximum(counts, 1).astype(np.int32)


def _write_names(
    ax: Axes,
    tree: ChowLiuTree,
    x: FloatArray,
    y: FloatArray,
    area: FloatArray,
    names: tuple[str, ...],
    colours: Palette,
) -> None:
    """Names beside their dots as far as they fit, those with most neighbours first."""
    from matplotlib.patheffects import withStroke

    room = [
        points / (high - low)
        for points, (low, high) in zip(
            size_in_points(ax), (ax.get_xlim(), ax.get_ylim()), strict=True
        )
    ]
    labels = short_labels(names, longest=16)
    wide = np.array([text_width([label], DOT_NAME) + 2 for label in labels])
    order = np.argsort(-_degree(tree), kind="stable")[:MAX_LABELS]
    radius = np.sqrt(area) / 2 + 0.5
    places = place_labels(x * room[0], y * room[1], radius, wide, 1.3 * DOT_NAME, order)
    for var, offset in places.items():
        text = ax.annotate(
            labels[var],
            (x[var], y[var]),
            xytext=offset,
            textcoords="offset points",
            fontsize=DOT_NAME,
            color=colours.ink,
            ha="center",
            va="center",
            zorder=5,
            path_effects=[withStroke(linewidth=2, foreground=colours.background)],
        )
        text.set_gid("variable")
