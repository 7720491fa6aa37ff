"""The density of a column, with point masses as lines.

In:  a `ColumnPosterior`.
Out: the axes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strudel._types import AnyArray
from strudel.plotting.canvas import axes_or_current, palette_of
from strudel.queries.columns.column_posterior import ColumnPosterior, density_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_column_density(posterior: ColumnPosterior, ax: Axes | None = None) -> Axes:
    """Draw the density of a column of numbers or dates, given what is known.

    Parameters
    ----------
    posterior : ColumnPosterior
        As `strudel.queries.posterior` gives it.
    ax : matplotlib.axes.Axes, optional
        Where to draw; pyplot's current axes by default.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from strudel import Strudel
    >>> from strudel.queries import posterior
    >>> model = Strudel(n_components=1, random_state=0).fit(np.arange(400.0).reshape(200, 2))
    >>> ax = plot_column_density(posterior(model, "x0"), ax=Figure().add_subplot())
    >>> ax.get_xlabel()
    'x0'
    """
    column = posterior.column
    bounds, density, points, heights = density_curve(posterior)
    ax = axes_or_current(ax)
    colours = palette_of(ax)

    def places(numbers: AnyArray) -> AnyArray:
        if column.kind == "date":
            return np.round(numbers).astype(np.int64).astype("datetime64[us]")
        return numbers / 3600e6 if column.dtype == "duration" else numbers

    if len(density):
        steps = np.append(density, density[-1])
        ax.fill_between(places(bounds), steps, step="post", color=colours.blue, alpha=0.3)
        ax.step(places(bounds), steps, where="post", color=colours.blue)
    if len(points):
        masses = ax.twinx() if density.any() else ax
        masses.vlines(places(points), 0.0, heights, color=colours.orange, linewidth=2.0)
        masses.set_ylim(bottom=0.0)
        masses.set_ylabel("probability of a single value")
    ax.set_ylim(bottom=0.0)
    unit = " (hours)" if column.dtype == "duration" else ""
    ax.set(xlabel=f"{column.name}{unit}")
    if len(density) and not (len(points) and not density.any()):
        ax.set_ylabel("density")
    ax.spines["top"].set_visible(False)
    return ax
