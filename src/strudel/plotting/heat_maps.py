"""Fields of colours: components, dependencies of columns, rows as small images.

In:  a model, or rows with one pixel per variable.
Out: the axes. Columns of a model are in the order of the vtree, which puts related ones side by
     side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from strudel._types import FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.walks import leaf_flows, leaf_rows
from strudel.plotting.canvas import (
    Palette,
    axes_or_current,
    every_few,
    palette_of,
    points_per_unit,
    short_labels,
    size_in_points,
    text_width,
)
from strudel.queries.column_pairs import Correlations, column_pairs, correlations
from strudel.queries.given import ask, shown_circuit
from strudel.tables.evidence import nothing_known

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Colormap

LINE = 9.0  # points of height that a component and its label need


def plot_components(model: Any, ax: Axes | None = None) -> Axes:
    """Draw one band per component, as high as its weight, coloured by its marginals.

    If bands would be too thin to read, all have the same height: the heaviest components, as many
    as fit, and one band for the weighted mean of all others. Columns of a table have a field for
    each of their values.

    Parameters
    ----------
    model : Circuit or fitted estimator
        Of any size.
    ax : matplotlib.axes.Axes, optional
        Where to draw; pyplot's current axes by default.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from strudel import Strudel
    >>> rows = np.random.default_rng(0).integers(0, 2, (50, 4))
    >>> model = Strudel(n_components=2, max_splits=0, random_state=0).fit(rows)
    >>> ax = plot_components(model, ax=Figure().add_subplot())
    """
    circuit = shown_circuit(model)
    columns, order = circuit.columns, circuit.vtree.order.tolist()
    shares = _cells_by_component(circuit)
    if columns.are_bits:
        shares, words = [own[:, 1:] for own in shares], "probability of 1"
    else:
        words = "probability"
    ax = axes_or_current(ax)
    colours = palette_of(ax)
    in_order = np.hstack([shares[place] for place in order])
    bands = _bands(np.exp(circuit.log_weight), in_order, size_in_points(ax)[1])
    n_fields = bands.shares.shape[1]
    most = float(np.nanmax(bands.shares))
    fields, shades = np.arange(n_fields + 1) - 0.5, _shades([colours.background, colours.blue])
    how: dict[str, Any] = {"vmin": 0.0, "vmax": most if most > 0 else 1.0, "gid": "components"}
    mesh = ax.pcolormesh(fields, bands.ends, bands.shares, cmap=shades, rasterized=True, **how)
    between: dict[str, Any] = {"colors": [colours.background], "linewidth": 1.0}
    ax.hlines(bands.ends[1:-1], -0.5, n_fields - 0.5, **between)
    ax.set_xlim(-0.5, n_fields - 0.5)
    ax.set_ylim(bands.ends[-1], 0.0)
    middle = (bands.ends[:-1] + bands.ends[1:]) / 2
    ticks = [(y, label) for y, label in zip(middle, bands.labels, strict=True) if label]
    ax.set_yticks([y for y, _ in ticks], [label for _, label in ticks], fontsize=8)
    ax.set_ylabel(bands.words)
    if columns.are_bits:
        _write_names(ax, [columns.names[place] for place in order])
    else:
        ends = np.cumsum([0, *(shares[place].shape[1] for place in order)]) - 0.5
        ax.vlines(ends[1:-1], 0.0, bands.ends[-1], colors=[colours.muted], linewidth=0.8)
        labels = short_labels([columns.names[place] for place in order], longest=22)
        middle = (ends[:-1] + ends[1:]) / 2
        ax.set_xticks(middle, labels, fontsize=7.0, rotation=90)
    _write_scale(ax, mesh, words, colours)
    _without_frame(ax)
    return ax


def _cells_by_component(circuit: Circuit) -> list[FloatArray]:
    """The probability of every cell under every component, per column `(k, n_cells)`."""
    nothing = nothing_known(circuit.columns)
    _, flows = leaf_flows(circuit, leaf_rows(circuit, nothing.weights), nothing.codes)
    ends = circuit.column_leaves
    return [
        np.einsum(
            "kl,lck->kc",
            flows[0][:, ends[place] : ends[place + 1]],
            np.exp(circuit.leaf_table(place)),
        )
        for place in range(len(circuit.columns))
    ]


class Bands(NamedTuple):
    """Components from the top down, the heaviest first."""

    ends: FloatArray  # (n_bands + 1,) where each begins and ends
    shares: FloatArray  # (n_bands, n_fields) how probable every value is; NaN in a gap
    labels: list[str]  # (n_bands,) empty for a gap
    words: str  # what the bands are


def _bands(weights: FloatArray, shares: FloatArray, height: float) -> Bands:
    """Bands as high as their weights, or of equal height with the lightest together last."""
    heaviest = np.argsort(-weights, kind="stable")
    n_bands, n_fit = len(weights), max(int(height / LINE) - 3, 1)
    is_by_weight = weights.min() * height >= LINE - 1.0
    if not is_by_weight and n_bands > n_fit:
        heaviest = heaviest[:n_fit]
    own = weights[heaviest]
    drawn = shares[heaviest]
    labels = [f"{c}: {_percent(weight)}" for c, weight in zip(heaviest, own, strict=True)]
    words = f"{n_bands:,} components, by weight" if n_bands > 1 else "a single component"
    high = own if is_by_weight else np.ones(len(own))
    n_others = n_bands - len(heaviest)
    if n_others:
        rest = 1.0 - own.sum()
        others = (weights @ shares - own @ drawn) / rest
        gap = np.full(shares.shape[1], np.nan)
        drawn = np.vstack([drawn, gap, np.clip(others, 0.0, 1.0)])
        labels += ["", f"{n_others:,} others: {_percent(rest)}"]
        high = np.append(high, [0.5, 2.0])
        words = f"the {len(heaviest)} heaviest of {n_bands:,} components"
    return Bands(np.concatenate([[0.0], np.cumsum(high)]), drawn, labels, words)


def _percent(weight: float) -> str:
    return f"{100 * weight:.0f} %" if weight >= 0.1 else f"{100 * weight:.2g} %"


def plot_dependencies(model: Any, given: Any = None, ax: Axes | None = None) -> Axes:
    """Draw the correlation of every two variables: blue if positive, orange if negative.

    Columns of several values have no such correlation. A model of a table that has any is drawn by
    column: the mutual information of every two, as a share of the smaller entropy. It is 0 if
    they are independent, and 1 if one determines the other.

    Parameters
    ----------
    model : Circuit or fitted estimator
        All values are exact, from its pair probabilities.
    given : evidence in any form, as in `probability`, of one row, optional
        Nothing is known by default.
    ax : matplotlib.axes.Axes, optional
        Where to draw; pyplot's current axes by default.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from strudel.circuits import figure_1_circuit
    >>> ax = plot_dependencies(figure_1_circuit(), ax=Figure().add_subplot())
    """
    asked = ask(model, given).one_row()
    columns, order = asked.circuit.columns, asked.circuit.vtree.order
    ax = axes_or_current(ax)
    colours = palette_of(ax)
    if columns.are_bits:
        values = np.nan_to_num(correlations(asked.circuit, asked.evidence).values)  # if certain
        words = "correlation"
        shades = _shades([colours.orange, colours.background, colours.blue])
    else:
        values = column_pairs(asked.circuit, asked.evidence).share
        words = "mutual information / smaller entropy"
        shades = _shades([colours.background, colours.blue])
    _draw_pairs(
        ax, [columns.names[place] for place in order], values[np.ix_(order, order)], words, shades
    )
    return ax


def plot_correlations(found: Correlations, ax: Axes | None = None) -> Axes:
    """Draw the correlation of every two columns: blue if positive, orange if negative.

    Parameters
    ----------
    found : Correlations
        As `strudel.queries.correlations` gives it.
    ax : matplotlib.axes.Axes, optional
        Where to draw; pyplot's current axes by default.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from strudel.circuits import figure_1_circuit
    >>> from strudel.queries import correlations
    >>> ax = plot_correlations(correlations(figure_1_circuit()), ax=Figure().add_subplot())
    """
    ax = axes_or_current(ax)
    colours = palette_of(ax)
    shades = _shades([colours.orange, colours.background, colours.blue])
    _draw_pairs(ax, found.names, found.values, "correlation", shades)
    return ax


def _draw_pairs(
    ax: Axes, names: Sequence[str], values: FloatArray, words: str, shades: Colormap
) -> None:
    """A square of colours with names on both sides; correlations may be negative."""
    colours = palette_of(ax)
    shown = values.copy()
    np.fill_diagonal(shown, np.nan)
    most = float(np.nanmax(np.abs(shown), initial=0.0)) or 1.0
    image = ax.imshow(
        shown,
        cmap=shades.with_extremes(bad=colours.faint),
        vmin=-most if words == "correlation" else 0.0,
        vmax=most,
        interpolation="nearest" if len(names) <= 200 else "antialiased",
    )
    image.set_gid("dependencies")
    _write_names(ax, names)
    _write_names(ax, names, is_vertical=True)
    _write_scale(ax, image, words, colours)
    _without_frame(ax)


def _write_names(ax: Axes, names: Sequence[Any], is_vertical: bool = False) -> None:
    """Names along an axis, as many as fit."""
    labels = short_labels([str(name) for name in names], longest=22)
    room = size_in_points(ax)[1 if is_vertical else 0]
    size = 7.0
    is_upright = not is_vertical and text_width(labels, size) > 0.9 * room / len(labels)
    needed = 1.2 * size if is_vertical or is_upright else 0.0
    step = every_few(len(labels), room, needed)
    ticks = np.arange(0, len(labels), step)
    axis = ax.yaxis if is_vertical else ax.xaxis
    axis.set_ticks(ticks, labels[::step], fontsize=size, rotation=90 if is_upright else 0)


def _write_scale(ax: Axes, drawn: ScalarMappable, words: str, colours: Palette) -> None:
    """A narrow scale of colours beside the axes."""
    bar = ax.figure.colorbar(drawn, ax=ax, fraction=0.03, pad=0.02)
    bar.set_label(words)
    bar.outline.set_edgecolor(colours.faint)
    bar.ax.tick_params(labelsize=8)


def _without_frame(ax: Axes) -> None:
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    ax.grid(False)


def _shades(colours: list[Any]) -> Colormap:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("strudel", colours)


GAP = 1.5  # pixels between two images
UNKNOWN, DARK_UNKNOWN = "#f4d9a8", "#6b4f1d"


def plot_images(
    rows: ArrayLike,
    shape: tuple[int, int],
    ax: Axes | None = None,
    *,
    n_columns: int = 10,
    column_labels: Sequence[str] | None = None,
) -> Axes:
    """Draw rows as images, in reading order; unknown pixels are tinted.

    Parameters
    ----------
    rows : array-like of shape (n_rows, height * width)
        0 has the colour of the background, 1 that of text; NaN is unknown.
    shape : (int, int)
        Height and width of one image.
    ax : matplotlib.axes.Axes, optional
        Where to draw; pyplot's current axes by default.
    n_columns : int
        Images side by side.
    column_labels : sequence of str, optional
        One per column, written above it.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> ax = plot_images([[0, 1, 1, 0], [1, np.nan, 0, 1]], (2, 2), ax=Figure().add_subplot())
    """
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Rectangle

    images = np.asarray(rows, dtype=float)
    height, width = shape
    if images.ndim != 2 or images.shape[1] != height * width:
        raise ValueError(
            f"Images of {height} x {width} pixels need rows of {height * width} values, "
            f"but rows has shape {images.shape}."
        )
    if column_labels is not None and len(column_labels) != n_columns:
        raise ValueError(f"There are {len(column_labels)} labels for {n_columns} columns.")
    ax = axes_or_current(ax)
    n_lines = -(-len(images) // n_columns)
    step_x, step_y = width + GAP, height + GAP
    ax.set_xlim(-0.5, n_columns * step_x - GAP + 0.5)
    ax.set_ylim(n_lines * step_y - GAP + 0.5, -3.5 if column_labels else -0.5)
    ax.set_aspect("equal")
    ax.set_axis_off()
    colours = palette_of(ax)
    unknown = DARK_UNKNOWN if colours.is_dark else UNKNOWN
    shades = ListedColormap([colours.background, colours.ink]).with_extremes(bad=unknown)
    for place, image in enumerate(images):
        line, column = divmod(place, n_columns)
        x, y = column * step_x, line * step_y
        pixels = np.ma.masked_invalid(image.reshape(shape))
        extent = (x, x + width, y + height, y)
        ax.imshow(pixels, extent=extent, cmap=shades, vmin=0, vmax=1, interpolation="nearest")
        frame = Rectangle((x, y), width, height, fill=False, edgecolor=colours.muted, linewidth=0.8)
        ax.add_patch(frame)
    # imshow moves the limits to its last image.
    ax.set_xlim(-0.5, n_columns * step_x - GAP + 0.5)
    ax.set_ylim(n_lines * step_y - GAP + 0.5, -3.5 if column_labels else -0.5)
    for column, label in enumerate(column_labels or ()):
        size = float(np.clip(points_per_unit(ax, n_lines * step_y + 3.5) * 1.4, 5, 11))
        centre = column * step_x + width / 2
        ax.text(centre, -0.7, label, ha="center", va="bottom", fontsize=size, color=colours.ink)
    return ax
