"""Axes and colours that the pictures share.

matplotlib is imported on the first picture, not with the package: it takes most of a second.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#333333"
FAINT = "#b8bec6"
BLUE = "#1f6fb2"
ORANGE = "#d98c21"
RED = "#d62728"


def axes_or_current(ax: Axes | None) -> Axes:
    """The axes given, or pyplot's current ones."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.gca()


def new_figure(width: float, height: float) -> Figure:
    """A figure of its own, in inches, that pyplot never hears of and no window shows."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a png on the Agg canvas."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure)
    figure.savefig(path, dpi=150, facecolor="white")
    return path


def points_per_unit(ax: Axes, n_units: float) -> float:
    """Typographic points that one of `n_units` equal parts of the height of `ax` has."""
    height = ax.get_window_extent().height / ax.figure.dpi * 72
    return float(height / max(n_units, 1.0))
