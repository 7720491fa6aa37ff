"""Rows that are pictures: one small image per row, many to a drawing.

In:  rows with one pixel per variable, 0, 1 or NaN where unknown.
Out: the axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from strudel.plotting.canvas import axes_or_current, palette_of, points_per_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
