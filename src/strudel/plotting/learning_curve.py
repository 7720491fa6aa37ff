"""Likelihood and size against the number of splits.

In:  a `History`.
Out: the axes, with train and validation on the left scale and the size of the circuit on the right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strudel.plotting.canvas import BLUE, FAINT, INK, ORANGE, RED, axes_or_current

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from strudel.learning.history import History


def plot_learning_curve(history: History, ax: Axes | None = None) -> Axes:
    """Draw mean log-likelihoods and size against splits, and mark the circuit that was kept.

    Parameters
    ----------
    history : History
        As in `Strudel.history_`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; pyplot's current axes by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes of the likelihoods.

    Examples
    --------
    >>> ax = plot_learning_curve(model.history_)  # doctest: +SKIP
    """
    from matplotlib.ticker import EngFormatter

    ax = axes_or_current(ax)
    size = ax.twinx()
    size.fill_between(history.n_splits, history.n_edges, color=FAINT, alpha=0.35, linewidth=0)
    size.set_ylabel("edges", color="#7b838c")
    size.yaxis.set_major_formatter(EngFormatter(sep=""))  # 10k: short enough for a default figure
    size.tick_params(axis="y", colors="#7b838c")
    size.set_ylim(0, max(1.0, 1.6 * float(history.n_edges.max())))  # leaves room for the curves
    size.spines[:].set_visible(False)
    ax.set_zorder(size.get_zorder() + 1)  # the curves lie over the area of the size
    ax.patch.set_visible(False)

    marker = "o" if len(history.n_splits) == 1 else None
    ax.plot(history.n_splits, history.train, color=ORANGE, marker=marker, label="train")
    if not np.isnan(history.valid).all():
        ax.plot(history.n_splits, history.valid, color=BLUE, marker=marker, label="validation")
    split, value = int(history.n_splits[history.best]), float(history.valid[history.best])
    if np.isnan(value):  # no validation rows: the last circuit was kept
        value = float(history.train[history.best])
    ax.axvline(split, color=RED, linewidth=0.8, linestyle=":")
    ax.plot([split], [value], "o", color=RED, label=f"kept: split {split}, {value:.3f}")
    ax.set(xlabel="splits", ylabel="mean log-likelihood (nats)")
    ax.spines["top"].set_visible(False)
    ax.tick_params(colors=INK)
    ax.margins(x=0.02)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, borderaxespad=0.2)
    return ax
