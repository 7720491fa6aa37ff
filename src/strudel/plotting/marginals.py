"""Marginal probabilities as bars, the density of a column, and Shapley values as a waterfall.

In:  a model and what is known; a `ColumnPosterior`; the `ShapValues` of one row.
Out: the axes. Of bars that do not fit, those that tell most are drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.circuits.other_columns import with_edges
from strudel.data.argument_checks import check_count
from strudel.plotting.canvas import (
    Palette,
    axes_or_current,
    palette_of,
    short_labels,
    size_in_points,
    write_beside,
)
from strudel.predictions.explanation import ShapValues, values_of_row
from strudel.queries.column_posterior import ColumnPosterior, density_curve
from strudel.queries.given import ask, circuit_of
from strudel.queries.marginals import marginal_probabilities
from strudel.tables.column import Column
from strudel.tables.schema import Columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE = 10.5  # points of height that a bar and its name need
THICKEST = 20.0  # points of a bar


class Bar(NamedTuple):
    """One probability to draw."""

    label: str
    group: str  # the variable, or the column of a table that the value belongs to
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
    """Draw the probability of 1 of every variable, or of every value of a table, given evidence.

    With evidence, a short line across each bar shows the probability without it, and the given
    values are at the top, in orange. If there is no room for all variables, those that the
    evidence changes most are shown, or without evidence the most probable ones. A model of a table
    has a bar for every value of its columns, or one for a column of two values.

    Parameters
    ----------
    model : Circuit, Mixture or fitted estimator
        Smooth and decomposable.
    given : evidence in any form, as in `probability`, of one row, optional
        Nothing is known by default.
    ax : matplotlib.axes.Axes, optional
        Where to draw; pyplot's current axes by default.
    top : int, optional
        Limit on the bars; by default as many as can be read.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from strudel.circuits import figure_1_circuit
    >>> ax = plot_marginals(figure_1_circuit(), given={"X3": 1}, ax=Figure().add_subplot())
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['X3 = 1', 'X1', 'X2', 'X4']
    """
    check_count("top", top, may_be_none=True)
    asked = ask(model, given).one_row()
    columns = asked.circuit.columns.shown
    edges = {place: own.edges for place, own in enumerate(asked.circuit.columns) if own.is_numeric}
    found = with_edges(circuit_of(model), edges)  # cells meet at the bounds of what is given
    has_evidence = bool(asked.named)
    now = marginal_probabilities(asked.circuit, asked.evidence)
    before = marginal_probabilities(found) if has_evidence else now
    if columns.are_bits:
        known = np.isin(np.arange(len(columns)), list(asked.named))
        bars = _bars_of_variables(columns.names, known, now, before)
        words, things = "probability of 1", "variables"
    else:
        titles = short_labels(columns.names, longest=16)
        bars = [
            bar
            for place, (column, title) in enumerate(zip(columns, titles, strict=True))
            for bar in _bars_of_column(
                column, title, place in asked.named, now[column.name], before[column.name]
            )
        ]
        words, things = "probability", "values"
    ax = axes_or_current(ax)
    colours = palette_of(ax)
    room = int(size_in_points(ax)[1] / LINE) if top is None else top
    shown = _most_telling(bars, max(room, 1), has_evidence)
    _draw_bars(ax, shown, colours, has_evidence)
    if has_evidence:
        words += ", given the values in orange"
    if len(shown) < len(bars):
        which = "that change most" if has_evidence else "most probable"
        words += f"\n{len(shown)} of {len(bars):,} {things}, those {which}"
    ax.set_xlabel(words)
    return ax


def _bars_of_variables(
    names: Sequence[str], is_known: AnyArray, now: FloatArray, before: FloatArray
) -> list[Bar]:
    return [
        Bar(
            f"{name} = {now[var]:.0f}" if is_known[var] else name,
            name,
            float(now[var]),
            float(before[var]),
            bool(is_known[var]),
        )
        for var, name in enumerate(short_labels([str(name) for name in names]))
    ]


def _bars_of_column(
    column: Column, title: str, is_given: bool, now: dict[Any, Any], before: dict[Any, Any]
) -> Iterator[Bar]:
    """A bar for every value; one if there are two; of a given column, those still possible."""
    values = list(zip(short_labels(column.labels), now.values(), before.values(), strict=True))
    if len(values) == 2 and not is_given:
        values = values[1:]
    for label, chance, earlier in values:
        share, first = float(np.ravel(chance)[0]), float(np.ravel(earlier)[0])
        if not is_given or share > 0.0:
            yield Bar(f"{title}: {label}", column.name, share, first, is_given)


def _most_telling(bars: list[Bar], room: int, has_evidence: bool) -> list[Bar]:
    """The given values, then the others: in their order if they fit.

    Otherwise, those that changed most: the column with the greatest change first, its values in
    their own order.
    """
    known = [bar for bar in bars if bar.is_given]
    others = [bar for bar in bars if not bar.is_given]
    n_known = min(len(known), max(room // 2, room - len(others)))
    n_others = room - n_known
    if len(others) > n_others:
        place = {id(bar): number for number, bar in enumerate(others)}
        others.sort(key=lambda bar: -bar.change if has_evidence else -bar.now)
        others = others[:n_others]
        first = {bar.group: number for number, bar in reversed(list(enumerate(others)))}
        others.sort(key=lambda bar: (first[bar.group], place[id(bar)]))
    return known[:n_known] + others


def _draw_bars(ax: Axes, bars: list[Bar], colours: Palette, has_evidence: bool) -> None:
    place = np.arange(len(bars))
    now = np.array([bar.now for bar in bars])
    tint = [colours.orange if bar.is_given else colours.blue for bar in bars]
    line = size_in_points(ax)[1] / max(len(bars), 1)
    thick = min(0.72, THICKEST / line)
    ax.barh(place, np.ones(len(bars)), height=thick, color=[colours.fill], linewidth=0, zorder=1)
    ax.barh(place, now, height=thick, color=tint, linewidth=0, zorder=2, gid="bar")
    if has_evidence:
        before = np.array([bar.before for bar in bars])
        ends = place - 0.6 * thick, place + 0.6 * thick
        how: dict[str, Any] = {"linewidth": 1.6, "zorder": 3, "gid": "without evidence"}
        marks = ax.vlines(before, *ends, colors=[colours.ink], label="without evidence", **how)
        above: dict[str, Any] = {
            "loc": "lower right",
            "bbox_to_anchor": (1.0, 1.0),
            "borderaxespad": 0.2,
        }
        ax.legend(handles=[marks], frameon=False, fontsize=8, **above)
    groups = [bar.group for bar in bars]
    if len(set(groups)) < len(groups):  # a line between two columns
        border = [i - 0.5 for i in range(1, len(bars)) if groups[i] != groups[i - 1]]
        ax.hlines(border, 0.0, 1.0, colors=[colours.faint], linewidth=0.6, zorder=1)
    size = float(np.clip(0.75 * line, 5, 9))
    ax.set_yticks(place, [bar.label for bar in bars], fontsize=size)
    for label, bar in zip(ax.get_yticklabels(), bars, strict=True):
        if bar.is_given:
            label.set_color(colours.orange)
    ax.set_ylim(len(bars) - 0.4, -0.6)
    ax.set_xlim(0.0, 1.0)
    ax.tick_params(axis="y", length=0)
    ax.grid(False)
    ax.spines[["top", "right", "left"]].set_visible(False)


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


SHARE_LINE = 15.0  # points of height that a bar and its label need
SHARE_THICKEST = 22.0  # points of a bar


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
    ax = axes_or_current(ax)
    room = max(int(size_in_points(ax)[1] / SHARE_LINE) - 1, 1) if top is None else top
    bars = _largest(_shares(shares, circuit_of(model).columns, values_of_row(model, row)), room)
    prediction = float(np.ravel(shares.prediction)[0])
    _draw_shares(ax, bars, prediction, palette_of(ax))
    ax.set_xlabel(
        f"expected output: {shares.base_value:.3g} of any row, {prediction:.3g} of this one"
    )
    return ax


def _shares(shares: ShapValues, columns: Columns, said: Sequence[Any]) -> list[Share]:
    """One for every column that is known, the largest first."""
    values, errors = np.ravel(shares.values), np.ravel(shares.standard_error)
    between, longest = (" = ", 24) if columns.are_bits else (": ", 16)
    names = short_labels(columns.names, longest=longest)
    found = []
    for place, value in enumerate(said):
        if value is not None:
            label = f"{names[place]}{between}{short_labels([str(value)])[0]}"
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


def _draw_shares(ax: Axes, bars: list[Share], prediction: float, colours: Palette) -> None:
    place = np.arange(len(bars))
    value = np.array([bar.value for bar in bars])
    end = prediction - np.concatenate([[0.0], np.cumsum(value)])[:-1]  # from the top down
    start = end - value
    line = size_in_points(ax)[1] / max(len(bars), 1)
    thick = min(0.72, SHARE_THICKEST / line)
    tint = [colours.blue if share >= 0.0 else colours.orange for share in value]
    how: dict[str, Any] = {"color": tint, "linewidth": 0, "zorder": 2, "gid": "bar"}
    ax.barh(place, value, left=start, height=thick, **how)
    ax.vlines(end[1:], place[:-1], place[1:], colors=[colours.muted], linewidth=0.8, zorder=1)
    error = np.array([bar.error for bar in bars])
    if error.any():
        spans = (end - 2 * error, end + 2 * error)
        how = {"linewidth": 1.2, "zorder": 3, "gid": "standard errors"}
        ax.hlines(place, *spans, colors=[colours.ink], **how)
    low = min([*start, *end, *(end - 2 * error)], default=0.0)
    high = max([*start, *end, *(end + 2 * error)], default=1.0)
    size = float(np.clip(0.6 * line, 6, 9))
    largest = max((abs(bar.value) for bar in bars), default=0.0)
    digits = max(0, 2 - int(np.floor(np.log10(largest)))) if largest > 0.0 else 3
    for at, bar, left, right in zip(place, bars, start, end, strict=True):
        end_of_bar = max(left, right) + 2 * bar.error
        how = {"color": colours.blue if bar.value >= 0.0 else colours.orange, "gid": "share"}
        words = f"{bar.value:+.{digits}f}"
        write_beside(ax, words, (end_of_bar, at), (3, 0), fontsize=size, va="center", **how)
    ax.set_yticks(place, [bar.label for bar in bars], fontsize=size)
    ax.set_ylim(len(bars) - 0.4, -0.6)
    margin = 0.04 * ((high - low) or 1.0)
    ax.set_xlim(low - margin, high + 4 * margin)
    ax.tick_params(axis="y", length=0)
    ax.grid(False)
    ax.spines[["top", "right", "left"]].set_visible(False)
