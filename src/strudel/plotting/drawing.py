"""Drawings of circuits: small ones node by node, large ones as an overview.

In:  a `Circuit`, or a model that has one.
Out: the axes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from strudel.circuits.circuit import Circuit
from strudel.circuits.drawing_layout import CircuitLayout, layout_circuit
from strudel.circuits.mixture import Mixture
from strudel.data.argument_checks import check_choice
from strudel.plotting.active import active_edges, checked_row
from strudel.plotting.canvas import (
    Palette,
    axes_or_current,
    palette_of,
    points_per_unit,
    size_in_points,
    write_box,
    write_caption,
)
from strudel.plotting.circuit_map import draw_map
from strudel.plotting.labels import short_label, short_labels, text_width
from strudel.queries.model import model_of, structure_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_EDGES = 400  # larger circuits cannot be read node by node, however large the figure
ROW, GOOD_ROW = 7.0, 12.0  # points of height that a line of nodes needs, and should have
COLUMN = 0.8  # inches of width that a column of nodes should have
HIGHEST = 22.0  # inches of a picture that can still be looked at
WRITTEN = 9.0  # points of a line of nodes from which the parameters fit beside each other


def plot_circuit(
    model: Any,
    row: Any = None,
    ax: Axes | None = None,
    *,
    detail: Literal["auto", "nodes", "map"] = "auto",
) -> Axes:
    """Draw a circuit: every node of a small one, an overview of a large one.

    Node by node, literals are on the left, the root on the right, and parameters on the edges. The
    overview is a map: the vtree with a disc on every node, whose area is its number of edges.

    Parameters
    ----------
    model : Circuit, Mixture or fitted estimator
        Of any size. Of a mixture, the structure is drawn without parameters; with a row, the
        component that is most responsible for it.
    row : array-like of shape (n_vars,) or dict, optional
        A fully observed row, whose active edges and literals are drawn in red. On a map, names
        have its values, and discs show how much of its log-likelihood the row loses at each node.
    ax : matplotlib.axes.Axes, optional
        Where to draw; pyplot's current axes by default.
    detail : {"auto", "nodes", "map"}
        Node by node (up to 400 edges), as a map, or whichever can be read in these axes.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from strudel.circuits import figure_1_circuit
    >>> ax = plot_circuit(figure_1_circuit(), row=[1, 0, 1, 0], ax=Figure().add_subplot())
    """
    check_choice("detail", detail, ("auto", "nodes", "map"))
    found = model_of(model)
    values = None if row is None else checked_row(found, row)
    circuit, has_parameters, about = _circuit_to_draw(found, values)
    if detail == "nodes" and circuit.n_edges > MAX_EDGES:
        raise ValueError(
            f"detail='nodes' is readable up to {MAX_EDGES} edges, but the circuit has "
            f"{circuit.n_edges:,}. Use detail='map', which draws any size, or to_dot(circuit) for "
            "Graphviz."
        )
    is_active = None if values is None else active_edges(circuit, values)
    ax = axes_or_current(ax)
    ax.set_axis_off()
    layout = layout_circuit(circuit) if detail != "map" and circuit.n_edges <= MAX_EDGES else None
    if layout is None or (detail == "auto" and _row_height(ax, layout) < ROW):
        draw_map(ax, circuit, values, is_active, about)
        return ax
    _draw_nodes(ax, layout, is_active, has_parameters)
    if about:
        write_caption(ax, about)
    return ax


def size_of_nodes(model: Any) -> tuple[float, float] | None:
    """Inches in which a circuit can be drawn node by node; None if it is too large for that."""
    circuit = structure_of(model_of(model))
    if circuit.n_edges > MAX_EDGES:
        return None
    layout = layout_circuit(circuit)
    height = (layout.height + 4.0) * GOOD_ROW / 72
    return (
        (max(10.0, (layout.width + 3.0) * COLUMN), max(6.0, height)) if height < HIGHEST else None
    )


def _circuit_to_draw(model: Circuit | Mixture, row: np.ndarray | None) -> tuple[Circuit, bool, str]:
    """The circuit, whether its parameters are those of the model, and what to say of it."""
    if isinstance(model, Circuit):
        return model, True, ""
    if model.n_components == 1:
        return model.component(0), True, ""
    if row is None:
        return model.structure, False, f"the structure of {model.n_components:,} components"
    from strudel.queries.mixture_likelihood import rows_responsibilities

    shares = rows_responsibilities(model, row[np.newaxis].astype(np.float64))[0]
    most = int(shares.argmax())
    about = f"component {most} of {model.n_components:,}, with responsibility {shares[most]:.0%}"
    return model.component(most), True, about


def _row_height(ax: Axes, layout: CircuitLayout) -> float:
    """Points between two lines of nodes."""
    return points_per_unit(ax, layout.height + 1.4)


def _draw_nodes(
    ax: Axes, layout: CircuitLayout, is_active: np.ndarray | None, has_parameters: bool
) -> None:
    """Literals, sums and products with the lines between them; what is active is red."""
    colours = palette_of(ax)
    ax.set_ylim(layout.mark_y.min() - 0.7, layout.mark_y.max() + 0.7)
    room = _row_height(ax, layout)
    literal_size = float(np.clip(room * 0.46, 4.5, 9))
    ax.set_xlim(*_horizontal_limits(ax, layout, literal_size))
    is_red = np.zeros(len(layout.line_edge), dtype=bool)
    if is_active is not None:
        is_red = is_active[layout.line_edge]
    _draw_lines(ax, layout, ~is_red, colour=colours.muted, gid="edges", width=0.9)
    _draw_lines(ax, layout, is_red, colour=colours.red, gid="active edges", width=2.0)
    low, high = ax.get_xlim()
    column = size_in_points(ax)[0] / (high - low)  # points between two columns of marks
    diameter = float(np.clip(min(room * 0.6, column * 0.28), 4.5, 15))
    if has_parameters and room >= WRITTEN:
        size = float(np.clip(min(room * 0.42, column * 0.16), 4.5, 9))
        wide = text_width(["0.00"], size)
        # Two literals and their sums are so close that flat and steep lines have their own places:
        # one right before the sum, one a number further.
        apart = 0.5 + 0.65 * size / room  # from where two steep lines have room for a number each
        near = min(max(1.0 - (diameter / 2 + 0.6 * wide) / column, apart), 0.8)
        far = max(near - 1.1 * wide / column, 0.25)
        _write_parameters(ax, layout, is_red, size, (near, far), colours)
    taken = set(layout.line_start[is_red].tolist())
    _draw_marks(ax, layout, diameter, literal_size, taken, colours)


def _draw_lines(
    ax: Axes, layout: CircuitLayout, is_drawn: np.ndarray, *, colour: Any, gid: str, width: float
) -> None:
    from matplotlib.collections import LineCollection

    points = np.stack([layout.mark_x, layout.mark_y], axis=1)
    segments = np.stack([points[layout.line_start], points[layout.line_end]], axis=1)[is_drawn]
    lines = LineCollection(list(segments), colors=[colour], linewidths=width, zorder=1)
    lines.set_gid(gid)
    ax.add_collection(lines, autolim=False)


def _write_parameters(
    ax: Axes,
    layout: CircuitLayout,
    is_red: np.ndarray,
    size: float,
    from_literals: tuple[float, float],
    colours: Palette,
) -> None:
    """Numbers on the lines to sums; on those from literals, at the near or the far place."""
    steep = _steepest_from_literals(layout)
    for line in np.flatnonzero(~np.isnan(layout.line_theta)):
        start, end = layout.line_start[line], layout.line_end[line]
        share = 0.66  # nearer to the sum, where lines of different sums do not cross yet
        if layout.mark_kind[start] == "literal":
            share = from_literals[0 if line in steep else 1]
        text = ax.text(
            layout.mark_x[start] * (1 - share) + layout.mark_x[end] * share,
            layout.mark_y[start] * (1 - share) + layout.mark_y[end] * share,
            f"{layout.line_theta[line]:.2g}",
            color=colours.red if is_red[line] else colours.ink,
            fontsize=size,
            ha="center",
            va="center",
            bbox={"facecolor": colours.background, "edgecolor": "none", "pad": 0.6},
            zorder=2,
        )
        text.set_gid("parameter")


def _steepest_from_literals(layout: CircuitLayout) -> set[int]:
    """For every sum of two literals, the steeper of its lines."""
    rise = np.abs(layout.mark_y[layout.line_end] - layout.mark_y[layout.line_start])
    steepest: dict[int, int] = {}
    for line in np.flatnonzero(~np.isnan(layout.line_theta)).tolist():
        end = int(layout.line_end[line])
        if layout.mark_kind[layout.line_start[line]] == "literal" and (
            end not in steepest or rise[line] > rise[steepest[end]]
        ):
            steepest[end] = line
    return set(steepest.values())


def _horizontal_limits(ax: Axes, layout: CircuitLayout, size: float) -> tuple[float, float]:
    """Limits that leave room for the names of the literals, which end at their marks."""
    points = size_in_points(ax)[0]
    right = float(layout.mark_x.max()) + 0.5
    span = right - float(layout.mark_x.min()) + 0.3
    for label, x in zip(layout.mark_label, layout.mark_x, strict=True):
        if label:
            share = min(
                (text_width([short_label(label)], size) + 2 * size) / points, 0.8
            )  # of the axes
            span = max(span, (right - float(x)) / (1 - share))
    return right - span, right


def _draw_marks(
    ax: Axes,
    layout: CircuitLayout,
    diameter: float,
    literal_size: float,
    taken: set[int],
    colours: Palette,
) -> None:
    """Circles with a plus or a cross, and the literals by name."""
    kinds = np.array(layout.mark_kind)
    for kind, inside, scale in (("sum", "+", 1.0), ("product", "x", 0.8)):
        x, y = layout.mark_x[kinds == kind], layout.mark_y[kinds == kind]
        circles = ax.scatter(
            x,
            y,
            s=(diameter * scale) ** 2,
            color=[colours.background],
            edgecolors=[colours.ink],
            linewidths=0.8,
            zorder=3,
        )
        circles.set_gid(kind)
        size = (diameter * scale * 0.55) ** 2
        ax.scatter(x, y, s=size, marker=inside, color=[colours.ink], linewidths=0.8, zorder=4)
    written = sorted(set(layout.mark_label) - {""})
    short_of = dict(zip(written, short_labels(written), strict=True))
    for mark in np.flatnonzero(kinds == "literal"):
        x, y = layout.mark_x[mark], layout.mark_y[mark]
        label = short_of[layout.mark_label[mark]]
        box = write_box(ax, x, y, label, literal_size, colours, "right")
        box.set_gid("literal")
        if mark in taken:
            box.set(color=colours.red, fontweight="bold", gid="taken literal")
            patch = box.get_bbox_patch()
            assert patch is not None
            patch.set_edgecolor(colours.red)
