"""Model against rows: the mutual information of every pair of columns, one point each.

In:  a `Check`, or a fitted estimator that has one.
Out: the axes. A point on the diagonal is a pair that the model knows as well as the rows show it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from strudel.errors import in_the_middle
from strudel.plotting.canvas import axes_or_current, palette_of
from strudel.queries.columns.pair_check import Check

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_NAMES = 8
FLOOR = 1e-4  # nats, below which nothing is told apart


def plot_check(check: Any, ax: Axes | None = None) -> Axes:
    """Draw the mutual information of every pair of columns, in the model against the rows.

    Pairs that the model has lost are red, the worst of them with their names.

    Parameters
    ----------
    check : Check or fitted estimator
        What `model.check()` returns; of an estimator, its check of the training rows.
    ax : matplotlib.axes.Axes, optional
        Where to draw; pyplot's current axes by default.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from strudel.circuits import figure_1_circuit
    >>> from strudel.queries import check, sample
    >>> rows = sample(figure_1_circuit(), 500, random_state=0)
    >>> ax = plot_check(check(figure_1_circuit(), rows), ax=Figure().add_subplot())
    """
    found = check if isinstance(check, Check) else check.check()
    ax = axes_or_current(ax)
    colours = palette_of(ax)
    rows, model = found.mutual_information_rows, found.mutual_information_model
    top = 1.5 * max(float(rows.max(initial=0.0)), float(model.max(initial=0.0)), 10 * FLOOR)
    x, y = np.maximum(rows, FLOOR), np.maximum(model, FLOOR)
    ax.plot([FLOOR, top], [FLOOR, top], color=colours.faint, linewidth=1.0, zorder=1)
    lost = found.is_lost
    ax.scatter(x[~lost], y[~lost], s=14, color=colours.blue, alpha=0.6, linewidth=0, label="kept")
    if lost.any():
        ax.scatter(x[lost], y[lost], s=22, color=colours.red, linewidth=0, label="lost")
    for place, p in enumerate(found.order[: min(int(lost.sum()), MOST_NAMES)].tolist()):
        a, b = (found.names[own[p]] for own in (found.pair_first, found.pair_second))
        ax.annotate(
            f"{in_the_middle(a, 20)}, {in_the_middle(b, 20)}",
            (x[p], y[p]),
            xytext=(-5, 7 if place % 2 else -7),  # above and below in turn
            textcoords="offset points",
            ha="right",
            va="center",
            color=colours.red,
            fontsize="small",
        )
    ax.set(
        xscale="log",
        yscale="log",
        xlim=(FLOOR / 1.3, top),
        ylim=(FLOOR / 1.3, top),
        xlabel="mutual information in the rows (nats)",
        ylabel="mutual information in the model (nats)",
    )
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(loc="upper left", frameon=False)
    return ax
