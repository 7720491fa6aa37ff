"""Shapley values as a waterfall: from the expected output to that of a row.

In:  `ShapValues` of one row, and the row.
Out: the axes. The largest shares are on top; what does not fit is one bar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from strudel._names import names_of
from strudel._types import FloatArray
from strudel.data.argument_checks import check_count
from strudel.plotting.canvas import Palette, axes_or_current, palette_of, size_in_points
from strudel.plotting.labels import short_labels
from strudel.plotting.marginals import one_row
from strudel.predictions.players import values_of_columns
from strudel.predictions.shapley import ShapValues
from strudel.queries.model import Model, model_of
from strudel.queries.passes import encode

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE = 15.0  # points of height that a bar and its label need
THICKEST = 22.0  # points of a bar


class Share(NamedTuple):
    """One bar to draw."""

    label: str
    value: float
    error: float


def plot_shap_values(
    shares: ShapValues, model: Any, row: Any, ax: Axes | None = None, *, top: int | None = None
) -> Axes:
    """Draw how the known values of a row move the expected output of a predictor.

    The bars lead from the output that is expected when nothing is known, at the bottom, to the one
    given the row, at the top: to the right in blue, to the left in orange. Sampled values have a
    line of two standard errors to each side. A column of a table is one bar.

    Parameters
    ----------
    shares : ShapValues
        Of one row, from `shap_values`.
    model : Circuit, Mixture or fitted estimator
        The model that gave them; it has the names.
    row : array-like of shape (n_vars,) or dict
        The row that is explained.
    ax : matplotlib.axes.Axes, optional
        Where to draw; pyplot's current axes by default.
    top : int, optional
        Limit on the bars besides that of all others; by default as many as can be read.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from strudel import shap_values
    >>> from strudel.circuits import figure_1_circuit
    >>> circuit, row = figure_1_circuit(), {"X3": 1, "X4": 0}
    >>> shares = shap_values(circuit, "X1", row)
    >>> ax = plot_shap_values(shares, circuit, row, ax=Figure().add_subplot())
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['X3 = 1', 'X4 = 0']
    """
    check_count("top", top, may_be_none=True)
    if np.ndim(shares.values) != 1 and len(shares.values) != 1:
        raise ValueError(
            f"plot_shap_values draws one row, but these are the values of {len(shares.values)}. "
            "Ask for one row with shap_values, and draw one picture for each."
        )
    found = model_of(model)
    ax = axes_or_current(ax)
    room = max(int(size_in_points(ax)[1] / LINE) - 1, 1) if top is None else top
    bars = _largest(_shares(shares, found, one_row(found, row), row), room)
    prediction = float(np.ravel(shares.prediction)[0])
    _draw(ax, bars, prediction, palette_of(ax))
    ax.set_xlabel(
        f"expected output: {shares.base_value:.3g} of any row, {prediction:.3g} of this one"
    )
    return ax


def _shares(shares: ShapValues, model: Model, row: FloatArray, given: Any) -> list[Share]:
    """One for every variable that is known, or column of a table, the largest first."""
    values, errors = np.ravel(shares.values), np.ravel(shares.standard_error)
    is_known = ~np.isnan(row)
    code = model.table_code
    found = []
    if code is None:
        names = short_labels([str(name) for name in names_of(model.n_vars, model.feature_names)])
        for var in np.flatnonzero(is_known):
            label = f"{names[var]} = {row[var]:.0f}"
            found.append(Share(label, float(values[var]), float(errors[var])))
    else:
        names = short_labels(code.names, longest=16)
        said = values_of_columns(code, given, encode(row[np.newaxis])[0])
        for place, (column, name) in enumerate(zip(code.columns, names, strict=True)):
            if is_known[column.start : column.stop].any():
                label = f"{name}: {short_labels([str(said[place])])[0]}"
                found.append(Share(label, float(values[place]), float(errors[place])))
    return sorted(found, key=lambda share: -abs(share.value))


def _largest(shares: list[Share], room: int) -> list[Share]:
    """The largest shares, and the sum of all others last."""
    if len(shares) <= room + 1:
        return shares
    others = shares[room:]
    error = float(np.sqrt(sum(share.error**2 for share in others)))
    rest = Share(f"{len(others)} others", sum(share.value for share in others), error)
    return [*shares[:room], rest]


def _draw(ax: Axes, bars: list[Share], prediction: float, colours: Palette) -> None:
    place = np.arange(len(bars))
    value = np.array([bar.value for bar in bars])
    end = prediction - np.concatenate([[0.0], np.cumsum(value)])[:-1]  # from the top down
    start = end - value
    line = size_in_points(ax)[1] / max(len(bars), 1)
    thick = min(0.72, THICKEST / line)
    tint = [colours.blue if share >= 0.0 else colours.orange for share in value]
    drawn = ax.barh(place, value, left=start, height=thick, color=tint, linewidth=0, zorder=2)
    for bar in drawn:
        bar.set_gid("bar")
    ax.vlines(end[1:], place[:-1], place[1:], colors=[colours.muted], linewidth=0.8, zorder=1)
    error = np.array([bar.error for bar in bars])
    if error.any():
        spans = (end - 2 * error, end + 2 * error)
        lines = ax.hlines(place, *spans, colors=[colours.ink], linewidth=1.2, zorder=3)
        lines.set_gid("standard errors")
    low = min([*start, *end, *(end - 2 * error)], default=0.0)
    high = max([*start, *end, *(end + 2 * error)], default=1.0)
    size = float(np.clip(0.6 * line, 6, 9))
    largest = max((abs(bar.value) for bar in bars), default=0.0)
    digits = max(0, 2 - int(np.floor(np.log10(largest)))) if largest > 0.0 else 3
    for at, bar, left, right in zip(place, bars, start, end, strict=True):
        is_up = bar.value >= 0.0
        text = ax.annotate(
            f"{bar.value:+.{digits}f}",
            (max(left, right) + 2 * bar.error, at),
            xytext=(3, 0),
            textcoords="offset points",
            fontsize=size,
            color=colours.blue if is_up else colours.orange,
            va="center",
        )
        text.set_gid("share")
    ax.set_yticks(place, [bar.label for bar in bars], fontsize=size)
    ax.set_ylim(len(bars) - 0.4, -0.6)
    margin = 0.04 * ((high - low) or 1.0)
    ax.set_xlim(low - margin, high + 4 * margin)
    ax.tick_params(axis="y", length=0)
    ax.grid(False)
    ax.spines[["top", "right", "left"]].set_visible(False)
