"""Drawings of the three structures: vtree, Chow-Liu tree, circuit.

In:  a `Vtree`, `ChowLiuTree` or small `Circuit`.
Out: the axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from strudel._types import NONE, FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.flows import dense_flows
from strudel.circuits.layout import CircuitLayout, layout_circuit, variable_names
from strudel.plotting.canvas import FAINT, INK, RED, axes_or_current, points_per_unit
from strudel.trees.chow_liu import ChowLiuTree
from strudel.trees.vtree import Vtree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_EDGES = 400  # beyond this nothing can be read on a screen
MAX_WRITTEN = 80  # edges up to which the parameters still fit on the lines


def plot_circuit(circuit: Circuit, row: ArrayLike | None = None, ax: Axes | None = None) -> Axes:
    """Draw a small circuit: literals on the left, the root on the right, parameters on the edges.

    Parameters
    ----------
    circuit : Circuit
        At most 400 edges.
    row : array-like of shape (n_vars,), optional
        A fully observed row, whose active edges are drawn in red.
    ax : matplotlib.axes.Axes, optional
        Where to draw; pyplot's current axes by default.

    Examples
    --------
    >>> from strudel import figure_1_circuit
    >>> ax = plot_circuit(figure_1_circuit(), row=[1, 0, 1, 0])  # doctest: +SKIP
    """
    if circuit.n_edges > MAX_EDGES:
        raise ValueError(
            f"A drawing is readable up to {MAX_EDGES} edges, but the circuit has "
            f"{circuit.n_edges}. `strudel info` summarises a saved model of any size, and "
            "to_dot(circuit) writes it for Graphviz."
        )
    is_active = _active_edges(circuit, row)
    ax = axes_or_current(ax)
    layout = layout_circuit(circuit)
    ax.set_axis_off()
    ax.set_ylim(layout.mark_y.min() - 0.7, layout.mark_y.max() + 0.7)
    room = points_per_unit(ax, layout.height + 1.4)
    literal_size = float(np.clip(room * 0.36, 4, 11))
    ax.set_xlim(*_horizontal_limits(ax, layout, literal_size))
    is_red = is_active[layout.line_edge]
    _draw_lines(ax, layout, ~is_red, color="#8a9199", gid="edges", width=0.9)
    _draw_lines(ax, layout, is_red, color=RED, gid="active edges", width=1.8)
    if circuit.n_edges <= MAX_WRITTEN:
        _write_parameters(ax, layout, is_red, size=float(np.clip(room * 0.28, 4, 9)))
    _draw_marks(ax, layout, float(np.clip(room * 0.42, 2.5, 15)), literal_size)
    return ax


def _active_edges(circuit: Circuit, row: ArrayLike | None) -> np.ndarray:
    """One bool per edge: whether `row` flows through it."""
    if row is None:
        return np.zeros(circuit.n_edges, dtype=bool)
    values = np.asarray(row)
    if values.shape != (circuit.n_vars,):
        raise ValueError(
            f"row must hold one value per variable, {circuit.n_vars} in all, "
            f"but has shape {values.shape}."
        )
    if not np.isin(values, (0, 1)).all():
        raise ValueError("row must hold only 0 and 1: unknown values have no active edges.")
    return np.asarray(dense_flows(circuit, values[None, :].astype(np.uint8))[:, 0] != 0)


def _draw_lines(
    ax: Axes, layout: CircuitLayout, is_drawn: np.ndarray, *, color: str, gid: str, width: float
) -> None:
    from matplotlib.collections import LineCollection

    points = np.stack([layout.mark_x, layout.mark_y], axis=1)
    segments = np.stack([points[layout.line_start], points[layout.line_end]], axis=1)[is_drawn]
    lines = LineCollection(list(segments), colors=color, linewidths=width, zorder=1)
    lines.set_gid(gid)
    ax.add_collection(lines, autolim=False)


def _write_parameters(ax: Axes, layout: CircuitLayout, is_red: np.ndarray, size: float) -> None:
    for line in np.flatnonzero(~np.isnan(layout.line_theta)):
        start, end = layout.line_start[line], layout.line_end[line]
        share = 0.7  # nearer to the sum, where the lines of different sums have not yet met
        text = ax.text(
            layout.mark_x[start] * (1 - share) + layout.mark_x[end] * share,
            layout.mark_y[start] * (1 - share) + layout.mark_y[end] * share,
            format_theta(layout.line_theta[line]),
            color=RED if is_red[line] else INK,
            fontsize=size,
            ha="center",
            va="center",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
            zorder=2,
        )
        text.set_gid("parameter")


def _horizontal_limits(ax: Axes, layout: CircuitLayout, size: float) -> tuple[float, float]:
    """Limits that leave room for the names of the literals, which end at their marks."""
    points = ax.get_window_extent().width / ax.figure.dpi * 72
    right = float(layout.mark_x.max()) + 0.5
    span = right - float(layout.mark_x.min()) + 0.3
    for label, x in zip(layout.mark_label, layout.mark_x, strict=True):
        if label:
            share = min((_text_width([label], size) + 2 * size) / points, 0.8)  # of the axes
            span = max(span, (right - float(x)) / (1 - share))
    return right - span, right


def _draw_marks(ax: Axes, layout: CircuitLayout, diameter: float, literal_size: float) -> None:
    """Circles with a plus or a cross, and the literals by name."""
    kinds = np.array(layout.mark_kind)
    for kind, inside, scale in (("sum", "+", 1.0), ("product", "x", 0.8)):
        x, y = layout.mark_x[kinds == kind], layout.mark_y[kinds == kind]
        area = (diameter * scale) ** 2
        circles = ax.scatter(x, y, s=area, color="white", edgecolors=INK, linewidths=1.0, zorder=3)
        circles.set_gid(kind)
        size = (diameter * scale * 0.55) ** 2
        ax.scatter(x, y, s=size, marker=inside, color=INK, linewidths=1.0, zorder=4)
    for mark in np.flatnonzero(kinds == "literal"):
        text = ax.text(
            layout.mark_x[mark],
            layout.mark_y[mark],
            plain(layout.mark_label[mark]),
            fontsize=literal_size,
            ha="right",
            va="center",
            bbox={"facecolor": "#eef1f4", "edgecolor": INK, "linewidth": 0.8, "boxstyle": "round"},
            zorder=3,
        )
        text.set_gid("literal")


def format_theta(theta: float) -> str:
    """A parameter in few characters: 0.4, 0.07, 1e-05."""
    return f"{theta:.2g}"


def plain(label: str) -> str:
    """A label that matplotlib writes as it stands, dollar signs included."""
    return label.replace("$", r"\$")


def plot_vtree(
    vtree: Vtree, feature_names: Sequence[str] | None = None, ax: Axes | None = None
) -> Axes:
    """Draw a vtree from its root down, with the variables below their leaves.

    Parameters
    ----------
    vtree : Vtree
        Of any size; beyond 200 variables the names are left out.
    feature_names : sequence of str, optional
        One per variable; x0, x1, ... by default.
    ax : matplotlib.axes.Axes, optional
        Where to draw; pyplot's current axes by default.

    Examples
    --------
    >>> ax = plot_vtree(model.circuit_.vtree)  # doctest: +SKIP
    """
    ax = axes_or_current(ax)
    x = _vtree_x(vtree)
    y = -vtree.node_depth.astype(float)
    parent = vtree.node_parent
    _draw_tree(ax, x, y, parent)
    inner = vtree.node_var == NONE
    ax.scatter(x[inner], y[inner], s=14 if vtree.n_vars <= 100 else 4, color=INK, zorder=3)
    if vtree.n_vars <= 200:
        names = _names(vtree.n_vars, feature_names)
        leaves = np.flatnonzero(~inner)
        labels = [names[vtree.node_var[leaf]] for leaf in leaves]
        _write_leaves(ax, x[leaves], y[leaves], labels)
    return ax


def _vtree_x(vtree: Vtree) -> FloatArray:
    """Leaves at 0, 1, 2, ... from left to right, inner nodes between their children."""
    x = vtree.node_span[0].astype(float)
    for node in np.flatnonzero(vtree.node_var == NONE):
        x[node] = (x[vtree.node_left[node]] + x[vtree.node_right[node]]) / 2
    return x


def plot_chow_liu_tree(
    tree: ChowLiuTree,
    feature_names: Sequence[str] | None = None,
    ax: Axes | None = None,
    positions: ArrayLike | None = None,
) -> Axes:
    """Draw a Chow-Liu tree from its roots down, or over given positions.

    Parameters
    ----------
    tree : ChowLiuTree
        Of any size; beyond 200 variables the names are left out.
    feature_names : sequence of str, optional
        One per variable; x0, x1, ... by default.
    ax : matplotlib.axes.Axes, optional
        Where to draw; pyplot's current axes by default.
    positions : array-like of shape (n_vars, 2), optional
        Where each variable lies, for example its pixel. The names are then left out.

    Examples
    --------
    >>> ax = plot_chow_liu_tree(learn_chow_liu_tree(X))  # doctest: +SKIP
    """
    ax = axes_or_current(ax)
    if positions is not None:
        place = np.asarray(positions, dtype=float)
        if place.shape != (tree.n_vars, 2):
            raise ValueError(
                f"positions must have shape ({tree.n_vars}, 2), but has {place.shape}."
            )
        _draw_tree(ax, place[:, 0], place[:, 1], tree.var_parent)
        ax.scatter(place[:, 0], place[:, 1], s=16, color=INK, zorder=3)
        ax.scatter(place[tree.roots, 0], place[tree.roots, 1], s=60, color=RED, zorder=4)
        ax.set_aspect("equal")
        return ax
    x, y = _tree_positions(tree)
    _draw_tree(ax, x, y, tree.var_parent)
    if tree.n_vars <= 200:
        names = _names(tree.n_vars, feature_names)
        _write_boxes(ax, x, y, names)
    else:
        ax.scatter(x, y, s=4, color=INK, zorder=3)
    return ax


def _tree_positions(tree: ChowLiuTree) -> tuple[FloatArray, FloatArray]:
    """Leaves side by side, a parent in the middle of its children, roots on top."""
    children = tree.children()
    order = list(tree.roots)
    for var in order:
        order.extend(children[var])
    y = np.zeros(tree.n_vars)
    for var in order[len(tree.roots) :]:
        y[var] = y[tree.var_parent[var]] - 1
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
    return x, y


def _names(n_vars: int, feature_names: Sequence[str] | None) -> tuple[str, ...]:
    names = variable_names(n_vars, None if feature_names is None else tuple(feature_names))
    if len(names) != n_vars:
        raise ValueError(f"There are {len(names)} feature names for {n_vars} variables.")
    return names


def _draw_tree(ax: Axes, x: FloatArray, y: FloatArray, parent: IntArray) -> None:
    """Straight lines from every node to its parent, in axes without ticks."""
    from matplotlib.collections import LineCollection

    child = np.flatnonzero(parent != NONE)
    points = np.stack([x, y], axis=1)
    segments = np.stack([points[child], points[parent[child]]], axis=1)
    lines = LineCollection(list(segments), colors=FAINT, linewidths=1.2, zorder=1)
    lines.set_gid("edges")
    ax.add_collection(lines, autolim=False)
    ax.set_axis_off()
    ax.set_xlim(x.min() - 0.7, x.max() + 0.7)
    ax.set_ylim(y.min() - 0.7, y.max() + 0.5)


def _text_width(labels: Sequence[str], size: float) -> float:
    """About how wide the longest label is, in points."""
    return 0.62 * size * max(map(len, labels), default=0)


def _points_per_column(ax: Axes) -> float:
    low, high = ax.get_xlim()
    return float(ax.get_window_extent().width / ax.figure.dpi * 72 / (high - low))


def _write_leaves(ax: Axes, x: FloatArray, y: FloatArray, labels: Sequence[str]) -> None:
    """Names right below the leaves, upright where they would not fit side by side."""
    column = _points_per_column(ax)
    is_upright = _text_width(labels, 9) > column
    size = float(np.clip(column * 0.8, 4, 9)) if is_upright else 9.0
    offset = (0, -2)
    for leaf_x, leaf_y, label in zip(x, y, labels, strict=True):
        text = ax.annotate(
            plain(label),
            (leaf_x, leaf_y),
            xytext=offset,
            textcoords="offset points",
            fontsize=size,
            rotation=90 if is_upright else 0,
            ha="center",
            va="top",
        )
        text.set_gid("leaf")
    below = (_text_width(labels, size) if is_upright else 1.2 * size) + 6
    high = ax.get_ylim()[1]
    height = ax.get_window_extent().height / ax.figure.dpi * 72
    share = min(below / height, 0.5)  # of the axes, to keep free under the deepest leaf
    ax.set_ylim(float(y.min()) - share * (high - float(y.min())) / (1 - share), high)


def _write_boxes(ax: Axes, x: FloatArray, y: FloatArray, labels: Sequence[str]) -> None:
    """Names in boxes centred on the nodes, as large as fits side by side."""
    column = _points_per_column(ax)
    longest = max(map(len, labels), default=1)
    size = float(np.clip(column / (0.62 * longest + 1.0), 4, 11))
    for node_x, node_y, label in zip(x, y, labels, strict=True):
        text = ax.text(
            node_x,
            node_y,
            plain(label),
            fontsize=size,
            ha="center",
            va="center",
            bbox={"facecolor": "#eef1f4", "edgecolor": INK, "linewidth": 0.8, "boxstyle": "round"},
            zorder=3,
        )
        text.set_gid("variable")
