"""Drawings of vtrees.

In:  a `Vtree`, or a model that has one.
Out: the axes. The vtree of a model of a table has one leaf per column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from strudel._names import names_of
from strudel._types import NONE, FloatArray, IntArray
from strudel.plotting.canvas import (
    Palette,
    add_lines,
    axes_or_current,
    draw_links,
    palette_of,
    set_limits,
    size_in_points,
)
from strudel.plotting.labels import every_few, short_labels, text_width
from strudel.plotting.tree_layout import MAX_STEPS, place_vtree
from strudel.queries.model import Model, model_of
from strudel.tables.column_codes import as_column_codes
from strudel.trees.column_tree import column_nodes
from strudel.trees.vtree import Vtree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_STEMS = 200  # variables up to which every leaf has its line down to its name


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
        One per leaf; a model's own names, or x0, x1, ..., by default. The vtree of a model of a
        table has one leaf per column.
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
    """The vtree that something is or has, and the names of its leaves."""
    if isinstance(holder, Vtree):
        return holder, checked_names(holder.n_vars, feature_names)
    vtree, names, _ = shown_vtree(model_of(holder))
    return vtree, checked_names(vtree.n_vars, feature_names or names)


def shown_vtree(model: Model) -> tuple[Vtree, tuple[str, ...], IntArray]:
    """The vtree to draw, its names, and for every vtree node of the model the one it belongs to.

    Of a table, columns are the leaves, unless the variables of one lie apart.
    """
    if model.table_code is not None:
        try:
            columns = as_column_codes(model.table_code.columns)
            vtree, nodes = column_nodes(model.vtree, columns)
        except ValueError:  # learned with respect_one_hot=False
            pass
        else:
            return vtree, model.table_code.names, nodes
    nodes = np.arange(model.vtree.n_nodes, dtype=np.int32)
    return model.vtree, checked_names(model.n_vars, model.feature_names), nodes


def checked_names(n_vars: int, feature_names: Sequence[str] | None) -> tuple[str, ...]:
    """The names as given, or x0, x1, ..., if they are as many as the variables."""
    return tuple(map(str, names_of(n_vars, feature_names)))


def draw_vtree(
    ax: Axes,
    vtree: Vtree,
    names: Sequence[str],
    gap: float = 2.0,
    values: Sequence[str] | None = None,
) -> Palette:
    """Draw the lines and the names of a vtree, without its nodes; gives the colours used.

    `gap` is how far below its leaf a name begins, in points; `values` stand behind the names.
    """
    ax.set_axis_off()
    colours = palette_of(ax)
    x, y = place_vtree(vtree)
    if vtree.n_vars <= MAX_STEPS:
        draw_links(ax, x, y, vtree.node_parent, colours)
    else:
        _draw_elbows(ax, vtree, x, y, colours)
    set_limits(ax, x, y)
    leaves = vtree.var_leaf[vtree.order]
    labels = short_labels(names, 24 if values is None else 16)
    if values is not None:
        pairs = zip(labels, short_labels(values, 18), strict=True)
        labels = [f"{name}{' ' if value[0] in '<>[' else ' = '}{value}" for name, value in pairs]
    written = [labels[var] for var in vtree.order]
    _write_leaves(ax, x[leaves], y[leaves], written, gap, colours)
    return colours


def _draw_elbows(ax: Axes, vtree: Vtree, x: FloatArray, y: FloatArray, colours: Palette) -> None:
    """Lines along the height of a parent, then down; of many leaves only short ends are drawn."""
    child = np.flatnonzero(vtree.node_parent != NONE)
    up = vtree.node_parent[child]
    bottom = y[child]
    if vtree.n_vars > MAX_STEMS:
        bottom = np.where(vtree.node_var[child] == NONE, bottom, y[up] - 0.4)
    bends = [(x[up], y[up]), (x[child], y[up]), (x[child], bottom)]
    path = np.stack([np.stack(point, axis=1) for point in bends], axis=1)
    add_lines(ax, path, colours.muted, float(np.clip(150 / vtree.n_vars, 0.3, 1.0)))


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
