"""Likelihood against the number of splits or of iterations, and size against splits.

In:  the history of a search or of a mixture.
Out: the axes, with train and validation on the left scale and the size of a growing circuit on the
     right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from strudel._types import AnyArray
from strudel.plotting.canvas import Palette, axes_or_current, palette_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_learning_curve(history: Any, ax: Axes | None = None) -> Axes:
    """Draw mean log-likelihoods against splits or iterations, and mark the model that was kept.

    Parameters
    ----------
    history : History, MixtureHistory or fitted estimator
        As in `Strudel.history_`: of a circuit, with its size, or of a mixture.
    ax : matplotlib.axes.Axes, optional
        Where to draw; pyplot's current axes by default.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from strudel.learning import History
    >>> columns = {"n_splits": [0, 1, 2], "train": [-3.0, -2.6, -2.4], "valid": [-3.1, -2.7, -2.8]}
    >>> columns |= {"n_edges": [10, 14, 18], "rows_moved": [0, 9, 5], "seconds": [0.0, 0.1, 0.2]}
    >>> ax = plot_learning_curve(History.from_columns(columns, best=1), ax=Figure().add_subplot())
    """
    history = getattr(history, "history_", history)
    columns = history.columns()
    step = "split" if "n_splits" in columns else "iteration"
    n_steps, train, valid = columns[f"n_{step}s"], columns["train"], columns["valid"]
    if not len(n_steps):
        raise ValueError("The history is empty: there is no step to draw.")
    ax = axes_or_current(ax)
    colours = palette_of(ax)
    if "n_edges" in columns:
        _draw_size(ax, n_steps, columns["n_edges"], colours)
    marker = "o" if len(n_steps) == 1 else None
    ax.plot(n_steps, train, color=colours.orange, marker=marker, label="train")
    if not np.isnan(valid).all():
        ax.plot(n_steps, valid, color=colours.blue, marker=marker, label="validation")
    best, value = int(n_steps[history.best]), float(valid[history.best])
    if np.isnan(value):  # no validation rows: the last model was kept
        value = float(train[history.best])
    ax.axvline(best, color=colours.red, linewidth=0.8, linestyle=":")
    ax.plot([best], [value], "o", color=colours.red, label=f"kept: {step} {best}, {value:.3f}")
    ax.set(xlabel=f"{step}s", ylabel="mean log-likelihood (nats)")
    ax.spines["top"].set_visible(False)
    ax.margins(x=0.02)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, borderaxespad=0.2)
    return ax


def _draw_size(ax: Axes, n_splits: AnyArray, n_edges: AnyArray, colours: Palette) -> None:
    """The size as a pale area behind the curves, on the right scale."""
    from matplotlib.ticker import EngFormatter

    size = ax.twinx()
    size.fill_between(n_splits, n_edges, color=colours.faint, alpha=0.45, linewidth=0)
    size.set_ylabel("edges", color=colours.muted)
    size.yaxis.set_major_formatter(EngFormatter(sep=""))  # 10k: short enough for a default figure
    size.tick_params(axis="y", colors=colours.muted)
    size.set_ylim(0, max(1.0, 1.6 * float(n_edges.max())))  # leaves room for the curves
    size.spines[:].set_visible(False)
    ax.set_zorder(size.get_zorder() + 1)  # the curves lie over the area of the size
    ax.patch.set_visible(False)
