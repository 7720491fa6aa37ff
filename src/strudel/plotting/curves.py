"""How learning went, and how well the model knows every pair of columns.

In:  the history of a search or of a mixture; a `Check`, or a fitted estimator that has one.
Out: the axes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from strudel._types import AnyArray
from strudel.errors import in_the_middle
from strudel.plotting.canvas import Palette, axes_or_current, palette_of, write_beside
from strudel.queries.pair_check import Check

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
        words = f"{in_the_middle(a, 20)}, {in_the_middle(b, 20)}"
        offset = (-5, 7 if place % 2 else -7)  # above and below in turn
        how: dict[str, Any] = {
            "ha": "right",
            "va": "center",
            "color": colours.red,
            "fontsize": "small",
        }
        write_beside(ax, words, (x[p], y[p]), offset, **how)
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
