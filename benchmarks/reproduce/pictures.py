"""Figures of the report: axes in one style, as png.

In:  what to draw, as a function of an axis.
Out: `Picture`s on white, readable on light and dark pages.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from reproduce.content import Picture
from strudel.plotting.canvas import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, BLUE, ORANGE, RED = "#333333", "#1f6fb2", "#d98c21", "#d62728"
GREEN, VIOLET = "#2a9d5c", "#7a4fb5"
COLOURS = (BLUE, RED, GREEN, ORANGE, VIOLET, INK)
N_COLUMNS = 5  # of a grid with one axis per dataset
DPI = 110

Draw = Callable[[Any, Any], None]


def draw_row(name: str, caption: str, draws: Sequence[Callable[[Any], None]]) -> Picture:
    """Axes side by side, each drawn by its own function."""
    figure = new_figure(5.2 * len(draws), 3.8)
    for place, draw in enumerate(draws):
        ax = figure.add_subplot(1, len(draws), place + 1)
        draw(ax)
        tidy(ax)
    return as_picture(name, caption, figure)


def draw_grid(name: str, caption: str, results: dict[str, Any], draw: Draw) -> Picture:
    """One small axis per dataset, drawn by `draw(ax, result)`; the first has the legend."""
    n_columns = min(N_COLUMNS, max(len(results), 1))
    n_rows = math.ceil(len(results) / n_columns)
    figure = new_figure(2.9 * n_columns, 2.3 * max(n_rows, 1))
    for place, (dataset, result) in enumerate(results.items()):
        ax = figure.add_subplot(n_rows, n_columns, place + 1)
        draw(ax, result)
        ax.set_title(dataset, fontsize=9, color=INK)
        tidy(ax, size=7)
        if place == 0 and ax.get_legend_handles_labels()[0]:
            ax.legend(frameon=False, fontsize=6.5)
    return as_picture(name, caption, figure)


def tidy(ax: Axes, size: float = 9) -> None:
    """No frame at the top and right, small figures, a faint grid."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=size, colors=INK)
    ax.grid(alpha=0.25)
    ax.set_axisbelow(True)


def as_picture(name: str, caption: str, figure: Figure) -> Picture:
    """The figure as a png."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure)
    raw = io.BytesIO()
    # No date and no version inside, so that the same numbers give the same file.
    figure.savefig(raw, dpi=DPI, facecolor="white", metadata={"Software": None})
    return Picture(name, caption, raw.getvalue())
