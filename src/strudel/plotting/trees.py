"""Drawings of vtrees and Chow-Liu trees.

In:  a `Vtree` or a `ChowLiuTree`, or a model: its vtree, or the closest Chow-Liu tree.
Out: the axes. The trees of a model of a table are over its columns.

Places of nodes are coordinates, one pair per node; y grows upwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from strudel._names import names_of
from strudel._types import NONE, AnyArray, FloatArray, IntArray
from strudel.plotting.canvas import (
    Palette,
    add_lines,
    axes_or_current,
    draw_links,
    every_few,
    palette_of,
    place_labels,
    set_limits,
    short_labels,
    size_in_points,
    text_width,
    write_beside,
    write_box,
)
from strudel.queries.column_pairs import column_pairs
from strudel.queries.given import circuit_of
from strudel.trees.chow_liu import ChowLiuTree, spanning_tree
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
    vtree : Vtree, Circuit or fitted estimator
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
    circuit = circuit_of(holder)
    return circuit.vtree, checked_names(
        len(circuit.columns), feature_names or circuit.columns.names
    )


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
        how: dict[str, Any] = {
            "fontsize": size,
            "color": colours.ink,
            "rotation": 90 if is_upright else 0,
        }
        at = (leaf_x, leaf_y)
        write_beside(ax, label, at, (0, -gap), ha="center", va="top", gid="leaf", **how)
    below = (text_width(labels, size) if is_upright else 1.2 * size) + 4 + gap
    high = ax.get_ylim()[1]
    share = min(below / height, 0.5)  # of the axes, to keep free under the deepest leaf
    ax.set_ylim(float(y.min()) - share * (high - float(y.min())) / (1 - share), high)


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
    tree : ChowLiuTree, Circuit or fitted estimator
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
            write_box(ax, node_x, node_y, label, boxes[2], colours, "center", "variable")
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
    ax.scatter(x[roots], y[roots], s=area[roots], color=colours.red, zorder=4, gid="roots")
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
        how: dict[str, Any] = {
            "fontsize": DOT_NAME,
            "color": colours.ink,
            "ha": "center",
            "va": "center",
        }
        outline = [withStroke(linewidth=2, foreground=colours.background)]
        how |= {"zorder": 5, "path_effects": outline, "gid": "variable"}
        write_beside(ax, labels[var], (x[var], y[var]), offset, **how)


MAX_STEPS = 64  # variables up to which a vtree hangs by steps from its root


def place_vtree(vtree: Vtree) -> tuple[FloatArray, FloatArray]:
    """Leaves from left to right, the root on top, inner nodes between their children.

    A small vtree goes down one step per level. In a large one all leaves are at the bottom, and the
    height of a node is the logarithm of how many are below it, so that deep ones stay readable.
    """
    first, last = vtree.node_span
    x = first.astype(float)
    for node in np.flatnonzero(vtree.node_var == NONE):
        x[node] = (x[vtree.node_left[node]] + x[vtree.node_right[node]]) / 2
    if vtree.n_vars <= MAX_STEPS:
        return x, (vtree.depth - vtree.node_depth).astype(np.float64)
    return x, np.log2(last - first)


def place_layers(tree: ChowLiuTree) -> tuple[FloatArray, FloatArray]:
    """Leaves side by side, a parent in the middle of its children, roots on top."""
    children = tree.children()
    order, depth = _down(tree)
    x = np.zeros(tree.n_vars)
    next_x = 0.0
    pending = list(tree.roots[::-1])
    while pending:  # depth first, so that the leaves of one subtree stay together
        var = pending.pop()
        pending.extend(reversed(children[var]))
        if not children[var]:
            x[var] = next_x
            next_x += 1
    for var in reversed(order):
        if children[var]:
            x[var] = (x[children[var][0]] + x[children[var][-1]]) / 2
    return x, -depth.astype(float)


def place_rings(tree: ChowLiuTree) -> tuple[FloatArray, FloatArray]:
    """The root in the middle, every level on a ring around it; a subtree gets its share of circle.

    Shares go by the square root of how many variables a subtree has, so that long thin branches
    keep room beside a bush. Several roots stand on the first ring.
    """
    children = tree.children()
    order, depth = _down(tree)
    need = np.ones(tree.n_vars)  # of the circle: what the children need, and one at a leaf
    for var in reversed(order):
        if children[var]:
            need[var] = max(need[children[var]].sum() ** 0.85, 1.0)
    start, share = np.zeros(tree.n_vars), np.zeros(tree.n_vars)
    groups = [(0.0, 1.0, tree.roots.tolist())]
    for begin, width, members in groups:  # grows while it is walked
        total = need[members].sum()
        for var in members:
            start[var], share[var] = begin, width * need[var] / total
            begin += share[var]
            groups.append((start[var], share[var], children[var]))
    angle = 2 * np.pi * (start + share / 2)
    # Rings grow a little slower than levels, so that the crowd in the middle has room.
    radius = np.power(depth + float(len(tree.roots) > 1), 0.7)
    return radius * np.cos(angle), radius * np.sin(angle)


def _down(tree: ChowLiuTree) -> tuple[list[int], IntArray]:
    """All variables, parents first, and their levels."""
    order = tree.parents_first()
    depth = np.zeros(tree.n_vars, dtype=np.int32)
    for var in order[len(tree.roots) :]:
        depth[var] = depth[tree.var_parent[var]] + 1
    return order, depth


def link_information(tree: ChowLiuTree) -> FloatArray:
    """For every variable the mutual information with its parent, in nats; 0 at a root."""
    order = tree.parents_first()
    one = np.zeros(tree.n_vars)
    for var in order:
        parent = tree.var_parent[var]
        low, high = tree.var_theta[var]
        one[var] = high if parent == NONE else low + one[parent] * (high - low)
    up = one[np.maximum(tree.var_parent, 0)]
    inside = (1 - up) * _entropy(tree.var_theta[:, 0]) + up * _entropy(tree.var_theta[:, 1])
    information = np.maximum(_entropy(one) - inside, 0.0)
    information[tree.roots] = 0.0
    return information


def _entropy(one: FloatArray) -> FloatArray:
    from scipy.special import entr

    both: FloatArray = entr(one) + entr(1 - one)
    return both
