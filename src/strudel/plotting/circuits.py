"""Drawings of circuits: small ones node by node, large ones as an overview.

In:  a `Circuit` of any size, or a model that has one; a row of which the edges it takes are
     red.
Out: the axes.

The overview is the vtree with a disc on every node for the edges there. All discs together always
have about the same area, so that they do not overlap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from strudel._types import FloatArray, IntArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.walks import component_logs
from strudel.data.argument_checks import check_choice
from strudel.plotting.canvas import (
    Palette,
    add_lines,
    axes_or_current,
    palette_of,
    points_per_unit,
    short_label,
    short_labels,
    size_in_points,
    text_width,
    write_box,
    write_caption,
)
from strudel.plotting.layout import (
    LOST,
    CircuitLayout,
    Taken,
    drawn_circuit,
    layout_circuit,
    taken_by,
)
from strudel.plotting.trees import MAX_STEPS, draw_vtree, place_vtree
from strudel.queries.given import component_posterior, shown_circuit
from strudel.tables.evidence import evidence_of, nothing_known

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

    Node by node, literals are on the left, the root on the right, and parameters on the edges; a
    leaf over the values of a column of a table is a box. The overview is a map: the vtree with a
    disc on every node, whose area is its number of edges.

    Parameters
    ----------
    model : Circuit or fitted estimator
        Of any size. Of several components, the structure is drawn without parameters; with a row,
        the component that is most responsible for it.
    row : array-like of shape (n_columns,) or dict, optional
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
    found = shown_circuit(model)
    cells = None if row is None else checked_row(found, row)
    circuit, has_parameters, about = circuit_to_draw(found, cells)
    drawn = drawn_circuit(circuit)
    if detail == "nodes" and drawn.n_edges > MAX_EDGES:
        raise ValueError(
            f"detail='nodes' is readable up to {MAX_EDGES} edges, but the circuit has "
            f"{drawn.n_edges:,}. Use detail='map', which draws any size, or to_dot(circuit) for "
            "Graphviz."
        )
    taken = None if cells is None else taken_by(circuit, cells)
    ax = axes_or_current(ax)
    ax.set_axis_off()
    layout = layout_circuit(drawn) if detail != "map" and drawn.n_edges <= MAX_EDGES else None
    if layout is None or (detail == "auto" and _row_height(ax, layout) < ROW):
        draw_map(ax, circuit, cells, taken, about)
        return ax
    _draw_nodes(ax, layout, None if taken is None else drawn.is_taken(taken), has_parameters)
    if about:
        write_caption(ax, about)
    return ax


def size_of_nodes(model: Any) -> tuple[float, float] | None:
    """Inches in which a circuit can be drawn node by node; None if it is too large for that."""
    drawn = drawn_circuit(shown_circuit(model))
    if drawn.n_edges > MAX_EDGES:
        return None
    layout = layout_circuit(drawn)
    height = (layout.height + 4.0) * GOOD_ROW / 72
    return (
        (max(10.0, (layout.width + 3.0) * COLUMN), max(6.0, height)) if height < HIGHEST else None
    )


def circuit_to_draw(circuit: Circuit, cells: IntArray | None) -> tuple[Circuit, bool, str]:
    """The circuit, whether its parameters are those of the model, and what to say of it."""
    k = circuit.n_components
    if k == 1:
        return circuit, True, ""
    if cells is None:
        return circuit, False, f"the structure of {k:,} components"
    rows = nothing_known(circuit.columns).with_cells(dict(enumerate(cells[:, np.newaxis])))
    shares = component_posterior(circuit, component_logs(circuit, rows))[0]
    most = int(np.argmax(shares))
    about = f"component {most} of {k:,}, with responsibility {shares[most]:.0%}"
    return circuit.components(np.array([most])), True, about


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
    points = np.stack([layout.mark_x, layout.mark_y], axis=1)
    lines = np.stack([points[layout.line_start], points[layout.line_end]], axis=1)
    add_lines(ax, lines[~is_red], colours.muted, 0.9)
    add_lines(ax, lines[is_red], colours.red, 2.0, "active edges")
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
        if layout.mark_kind[start] == "input":
            share = from_literals[0 if line in steep else 1]
        x, y = (at[start] * (1 - share) + at[end] * share for at in (layout.mark_x, layout.mark_y))
        how: dict[str, Any] = {
            "fontsize": size,
            "color": colours.red if is_red[line] else colours.ink,
        }
        box = {"facecolor": colours.background, "edgecolor": "none", "pad": 0.6}
        how |= {"ha": "center", "va": "center", "bbox": box, "zorder": 2, "gid": "parameter"}
        ax.text(x, y, f"{layout.line_theta[line]:.2g}", **how)


def _steepest_from_literals(layout: CircuitLayout) -> set[int]:
    """For every sum of two literals, the steeper of its lines."""
    rise = np.abs(layout.mark_y[layout.line_end] - layout.mark_y[layout.line_start])
    steepest: dict[int, int] = {}
    for line in np.flatnonzero(~np.isnan(layout.line_theta)).tolist():
        end = int(layout.line_end[line])
        if layout.mark_kind[layout.line_start[line]] == "input" and (
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
        how: dict[str, Any] = {
            "edgecolors": [colours.ink],
            "linewidths": 0.8,
            "zorder": 3,
            "gid": kind,
        }
        ax.scatter(x, y, s=(diameter * scale) ** 2, color=[colours.background], **how)
        size = (diameter * scale * 0.55) ** 2
        ax.scatter(x, y, s=size, marker=inside, color=[colours.ink], linewidths=0.8, zorder=4)
    written = sorted(set(layout.mark_label) - {""})
    short_of = dict(zip(written, short_labels(written), strict=True))
    for mark in np.flatnonzero(kinds == "input"):
        x, y = layout.mark_x[mark], layout.mark_y[mark]
        label = short_of[layout.mark_label[mark]]
        box = write_box(ax, x, y, label, literal_size, colours, "right", "literal")
        if mark in taken:
            box.set(color=colours.red, fontweight="bold", gid="taken literal")
            patch = box.get_bbox_patch()
            assert patch is not None
            patch.set_edgecolor(colours.red)


INKED = 0.2  # share of the axes that all discs together cover
LARGEST = 0.006  # share of the axes that one disc may cover
SMALLEST = 1.0  # visible area, in square points


def draw_map(
    ax: Axes, circuit: Circuit, cells: IntArray | None, taken: Taken | None, about: str = ""
) -> None:
    """Draw the vtree with a disc on every node, and a legend that says what is seen.

    Areas are numbers of edges; with a row and what it takes, in red, what the row loses at each
    node, and its values behind the names. `about` is said of the circuit.
    """
    vtree, columns = circuit.vtree, circuit.columns
    values = None
    if cells is None or taken is None:
        amount, words = edges_by_vtree(circuit), "edges at a vtree node"
        title = f"Overview of {circuit.size:,} edges: the vtree, with a disc for those of each node"
    else:
        amount = nats_by_vtree(circuit, taken)
        words = f"nats lost at a vtree node, {amount.sum():.3g} in all"
        title = "Overview: the vtree, with a disc for what is unusual about the row at each node"
        values = [own.labels[cell] for own, cell in zip(columns, cells.tolist(), strict=True)]
    width, height = size_in_points(ax)
    most, total = float(amount.max()), float(amount.sum())
    scale = min(INKED / total, LARGEST / most) * width * height if most > 0 else 1.0
    at_leaves = float(amount[vtree.var_leaf].max())
    if vtree.n_vars <= MAX_STEPS and at_leaves > 0:  # discs of neighbours do not touch
        scale = min(scale, (0.9 * width / vtree.n_vars) ** 2 / at_leaves)
    area = np.maximum(amount * scale, SMALLEST)
    leaf_radius = float(np.sqrt(area[vtree.var_leaf].max()) / 2)
    colours = draw_vtree(ax, vtree, columns.names, 2.0 + leaf_radius, values)
    colour = colours.blue if taken is None else colours.red
    x, y = place_vtree(vtree)
    drawn = np.argsort(-amount, kind="stable")  # small discs lie on large ones
    drawn = drawn[amount[drawn] > 0]
    outlines = np.where(area[drawn] > 20, 0.6, 0.0).tolist()
    how: dict[str, Any] = {"edgecolors": [colours.background], "linewidths": outlines, "zorder": 3}
    how |= {"clip_on": False, "gid": "discs"}  # the root is near the upper end
    ax.scatter(x[drawn], y[drawn], s=area[drawn], color=colour, alpha=0.85, **how)
    if most > 0:
        title = f"{title}\n{about}" if about else title
        _write_sizes(ax, most, scale, words, title, colour, colours)


def edges_by_vtree(circuit: Circuit) -> FloatArray:
    """How many edges every vtree node has, those of leaves as the paper counts them."""
    n_nodes = circuit.vtree.n_nodes
    is_cell = np.any(circuit.leaf_log_p > -np.inf, axis=1)
    n_cells = np.add.reduceat(is_cell, circuit.leaf_first[:-1])
    at = circuit.node_vtree[: circuit.n_leaves]
    found = np.bincount(at, np.where(n_cells > 1, n_cells, 0), n_nodes)
    return np.asarray(found + np.bincount(circuit.sum_vtree, np.diff(circuit.sum_edges), n_nodes))


def nats_by_vtree(circuit: Circuit, taken: Taken) -> FloatArray:
    """What a row loses at every vtree node: minus the logs of its parameters there."""
    n_nodes = circuit.vtree.n_nodes
    edges, cells = np.flatnonzero(taken.edges), np.flatnonzero(taken.cells)
    leaf = np.searchsorted(circuit.leaf_first, cells, side="right") - 1
    at = np.append(circuit.sum_vtree[circuit.edge_sum[edges]], circuit.node_vtree[leaf])
    lost = np.append(-circuit.edge_log_theta[edges, 0], -circuit.leaf_log_p[cells, 0])
    return np.asarray(np.bincount(at, np.clip(lost, 0.0, LOST), n_nodes))


def _write_sizes(
    ax: Axes, most: float, scale: float, words: str, title: str, colour: str, colours: Palette
) -> None:
    """A legend of two round numbers, above the drawing."""
    from matplotlib.lines import Line2D

    power = 10.0 ** np.floor(np.log10(most))
    small, large = power / (10 if most < 2 * power else 1), power * np.floor(most / power)
    shown = [number for number in (small, large) if number * scale >= SMALLEST]
    labels = [f"{number:,g}" if number < large else f"{number:,g} {words}" for number in shown]
    how: dict[str, Any] = {
        "linestyle": "none",
        "marker": "o",
        "markeredgewidth": 0,
        "color": colour,
    }
    discs = [
        Line2D([], [], markersize=np.sqrt(number * scale), label=label, **how)
        for number, label in zip(shown, labels, strict=True)
    ]
    legend = ax.legend(
        handles=discs,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        frameon=False,
        ncols=len(shown),
        labelcolor=[colours.ink] * len(shown),
        fontsize=8,
        handlelength=np.sqrt(large * scale) / 8,
        handleheight=max(0.7, np.sqrt(large * scale) / 8),
        labelspacing=max(0.5, np.sqrt(large * scale) / 16),  # below the title
        handletextpad=0.4,
        columnspacing=1.0,
        borderaxespad=0.2,
        title=title,
        title_fontsize=9,
        alignment="left",
    )
    legend.get_title().set_color(colours.ink)
    legend.set_gid("sizes")


def checked_row(circuit: Circuit, row: Any) -> IntArray:
    """The cells of a row, if it gives every column: in order or by name."""
    evidence = evidence_of(circuit.columns, row, "row")
    if len(evidence) != 1 or not evidence.is_single_cell().all():
        n_columns = len(circuit.columns)
        raise ValueError(
            f"row must hold one value per column, {n_columns} in all: where one is unknown, it "
            "takes no edges."
        )
    return evidence.codes[0]
