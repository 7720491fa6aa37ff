"""Marginal probabilities as bars, what is given marked, and how far the evidence moved them.

In:  a model, and what is known.
Out: the axes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from strudel.circuits.layout import variable_names
from strudel.plotting.canvas import Palette, axes_or_current, palette_of, plain, size_in_points
from strudel.queries.arguments import given_rows
from strudel.queries.model import Model, model_of
from strudel.queries.moments import marginal_probabilities

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE = 10.5  # points of height that a bar and its name need
THICKEST = 20.0  # points of a bar


class Bar(NamedTuple):
    """One probability to draw."""

    label: str
    now: float  # with what is given
    before: float  # without
    is_given: bool

    @property
    def change(self) -> float:
        """How far the evidence moved it, either way."""
        return abs(self.now - self.before)


def plot_marginals(
    model: Any, given: Any = None, ax: Axes | None = None, *, top: int | None = None
) -> Axes:
    """Draw how probable every variable is to be 1, given what is known.

    With evidence a short line across each bar shows the probability without it. What is given
    stands on top, in orange. Where there are more variables than lines, those are shown that the
    evidence changes most, or without evidence the most probable ones.

    Parameters
    ----------
    model : Circuit, Mixture or fitted estimator
        Smooth and decomposable.
    given : array-like of shape (n_vars,) or dict, optional
        One row of 0, 1, or NaN where the value is unknown; nothing is known by default.
    ax : matplotlib.axes.Axes, optional
        Where to draw; pyplot's current axes by default.
    top : int, optional
        At most so many bars; as many as can be read by default.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from strudel import figure_1_circuit
    >>> ax = plot_marginals(figure_1_circuit(), given={"X3": 1}, ax=Figure().add_subplot())
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['X3 = 1', 'X1', 'X2', 'X4']
    """
    if top is not None and top < 1:
        raise ValueError(f"top must be at least 1, but is {top!r}.")
    found = model_of(model)
    bars, has_evidence = _bars(found, given)
    ax = axes_or_current(ax)
    colours = palette_of(ax)
    room = int(size_in_points(ax)[1] / LINE) if top is None else top
    shown = _most_telling(bars, max(room, 1), has_evidence)
    _draw_bars(ax, shown, colours, has_evidence)
    words = "probability of 1"
    if has_evidence:
        words += ", given the values in orange" if any(bar.is_given for bar in shown) else ""
    if len(shown) < len(bars):
        which = "that change most" if has_evidence else "most probable"
        words += f"\n{len(shown)} of {len(bars):,} variables, those {which}"
    ax.set_xlabel(words)
    return ax


def _bars(model: Model, given: Any) -> tuple[list[Bar], bool]:
    """A bar for every variable, and whether anything is given."""
    rows, _ = given_rows(model, given)
    if len(rows) != 1:
        raise ValueError(
            f"given must be one row of values, but holds {len(rows)}. Draw one picture for each."
        )
    is_known = ~np.isnan(rows[0])
    now = marginal_probabilities(model, rows[0])
    before = marginal_probabilities(model) if is_known.any() else now
    names = variable_names(model.n_vars, model.feature_names)
    bars = [
        Bar(
            f"{names[var]} = {int(rows[0, var])}" if is_known[var] else str(names[var]),
            float(now[var]),
            float(before[var]),
            bool(is_known[var]),
        )
        for var in range(model.n_vars)
    ]
    return bars, bool(is_known.any())


def _most_telling(bars: list[Bar], room: int, has_evidence: bool) -> list[Bar]:
    """What is given, then the others: all as they come if they fit, else the first by change."""
    known = [bar for bar in bars if bar.is_given]
    others = [bar for bar in bars if not bar.is_given]
    n_known = min(len(known), max(room // 2, room - len(others)))
    n_others = room - n_known
    if len(others) > n_others:
        others.sort(key=lambda bar: -bar.change if has_evidence else -bar.now)
    return known[:n_known] + others[:n_others]


def _draw_bars(ax: Axes, bars: list[Bar], colours: Palette, has_evidence: bool) -> None:
    place = np.arange(len(bars))
    now = np.array([bar.now for bar in bars])
    tint = [colours.orange if bar.is_given else colours.blue for bar in bars]
    line = size_in_points(ax)[1] / max(len(bars), 1)
    thick = min(0.72, THICKEST / line)
    ax.barh(place, np.ones(len(bars)), height=thick, color=[colours.fill], linewidth=0, zorder=1)
    drawn = ax.barh(place, now, height=thick, color=tint, linewidth=0, zorder=2)
    for bar in drawn:
        bar.set_gid("bar")
    if has_evidence:
        before = np.array([bar.before for bar in bars])
        ends = place - 0.6 * thick, place + 0.6 * thick
        marks = ax.vlines(before, *ends, colors=[colours.ink], linewidth=1.6, zorder=3)
        marks.set_gid("without evidence")
        marks.set_label("without evidence")
        ax.legend(
            handles=[marks],
            loc="lower right",
            bbox_to_anchor=(1.0, 1.0),
            frameon=False,
            borderaxespad=0.2,
            fontsize=8,
        )
    size = float(np.clip(0.75 * line, 5, 9))
    ax.set_yticks(place, [plain(bar.label) for bar in bars], fontsize=size)
    for label, bar in zip(ax.get_yticklabels(), bars, strict=True):
        if bar.is_given:
            label.set_color(colours.orange)
    ax.set_ylim(len(bars) - 0.4, -0.6)
    ax.set_xlim(0.0, 1.0)
    ax.tick_params(axis="y", length=0)
    ax.grid(False)
    ax.spines[["top", "right", "left"]].set_visible(False)
