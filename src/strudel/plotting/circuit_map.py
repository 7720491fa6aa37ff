"""An overview of a large circuit: its vtree, with a disc on every node for the edges there.

In:  a `Circuit` of any size.
Out: the axes. All discs together always have about the same area, so that they do not overlap.

The discs of a column of a table are one: what lies inside a column is its code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strudel._types import ByteArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.plotting.canvas import Palette, size_in_points
from strudel.plotting.tree_layout import MAX_STEPS, place_vtree
from strudel.plotting.vtrees import draw_vtree, shown_vtree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INKED = 0.2  # share of the axes that all discs together cover
LARGEST = 0.006  # share of the axes that one disc may cover
SMALLEST = 1.0  # visible area, in square points


def draw_map(
    ax: Axes,
    circuit: Circuit,
    row: ByteArray | None,
    is_active: np.ndarray | None,
    about: str = "",
) -> None:
    """Draw the vtree with a disc on every node, and a legend that says what is seen.

    Areas are numbers of edges; with a row and its active edges, in red, what the row loses at each
    node, and its values behind the names. `about` is said of the circuit.
    """
    vtree, names, nodes = shown_vtree(circuit)
    values = None
    if row is None or is_active is None:
        amount, words = edges_by_vtree(circuit), "edges at a vtree node"
        title = (
            f"Overview of {circuit.n_edges:,} edges: the vtree, with a disc for those of each node"
        )
    else:
        amount = nats_by_vtree(circuit, is_active)
        words = f"nats lost at a vtree node, {amount.sum():.3g} in all"
        title = "Overview: the vtree, with a disc for what is unusual about the row at each node"
        values = values_of(circuit, row, vtree.n_vars)
    amount = np.bincount(nodes, amount, vtree.n_nodes).astype(np.float64)
    width, height = size_in_points(ax)
    most, total = float(amount.max()), float(amount.sum())
    scale = min(INKED / total, LARGEST / most) * width * height if most > 0 else 1.0
    at_leaves = float(amount[vtree.var_leaf].max())
    if vtree.n_vars <= MAX_STEPS and at_leaves > 0:  # discs of neighbours do not touch
        scale = min(scale, (0.9 * width / vtree.n_vars) ** 2 / at_leaves)
    area = np.maximum(amount * scale, SMALLEST)
    leaf_radius = float(np.sqrt(area[vtree.var_leaf].max()) / 2)
    colours = draw_vtree(ax, vtree, names, 2.0 + leaf_radius, values)
    colour = colours.blue if is_active is None else colours.red
    x, y = place_vtree(vtree)
    drawn = np.argsort(-amount, kind="stable")  # small discs lie on large ones
    drawn = drawn[amount[drawn] > 0]
    discs = ax.scatter(
        x[drawn],
        y[drawn],
        s=area[drawn],
        color=colour,
        alpha=0.85,
        edgecolors=[colours.background],
        linewidths=np.where(area[drawn] > 20, 0.6, 0.0).tolist(),
        zorder=3,
        clip_on=False,  # the root is near the upper end
    )
    discs.set_gid("discs")
    if most > 0:
        title = f"{title}\n{about}" if about else title
        _write_sizes(ax, most, scale, words, title, colour, colours)


def values_of(circuit: Circuit, row: ByteArray, n_leaves: int) -> list[str]:
    """The value of every variable, or of every column of a table if those are the leaves."""
    code = circuit.table_code
    if code is None or n_leaves != len(code.columns):
        return [str(value) for value in row.tolist()]
    bits = row.astype(np.float64)[np.newaxis]
    return [
        column.labels[int(column.nearest(bits[:, column.start : column.stop])[0])]
        for column in code.columns
    ]


def edges_by_vtree(circuit: Circuit) -> FloatArray:
    """How many edges the sums of every vtree node have."""
    places = circuit.node_vtree[circuit.edge_parent]
    return np.bincount(places, minlength=circuit.vtree.n_nodes).astype(np.float64)


def nats_by_vtree(circuit: Circuit, is_active: np.ndarray) -> FloatArray:
    """What a row loses at every vtree node: minus the logs of its parameters there."""
    active = np.flatnonzero(is_active)
    places = circuit.node_vtree[circuit.edge_parent[active]]
    # Impossible edges are drawn as well.
    lost = np.clip(-circuit.edge_log_theta[active], 0.0, 1e6)
    return np.bincount(places, lost, circuit.vtree.n_nodes).astype(np.float64)


def _write_sizes(
    ax: Axes, most: float, scale: float, words: str, title: str, colour: str, colours: Palette
) -> None:
    """A legend of two round numbers, above the drawing."""
    from matplotlib.lines import Line2D

    power = 10.0 ** np.floor(np.log10(most))
    small, large = power / (10 if most < 2 * power else 1), power * np.floor(most / power)
    shown = [number for number in (small, large) if number * scale >= SMALLEST]
    labels = [f"{number:,g}" for number in shown]
    discs = [
        Line2D(
            [],
            [],
            linestyle="none",
            marker="o",
            markersize=np.sqrt(number * scale),
            markeredgewidth=0,
            color=colour,
            label=label if number < large else f"{label} {words}",
        )
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
