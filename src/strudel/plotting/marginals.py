"""Marginal probabilities as bars, with the evidence marked and how far it moved them.

In:  a model, and what is known.
Out: the axes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from strudel._names import names_of
from strudel._types import AnyArray, FloatArray
from strudel.algebra.evidence import absorb, columns_in, with_cells_of
from strudel.data.argument_checks import check_count
from strudel.logic.event_forms import is_formula
from strudel.plotting.canvas import (
    Palette,
    axes_or_current,
    palette_of,
    size_in_points,
)
from strudel.plotting.labels import short_labels
from strudel.queries.arguments import given_rows
from strudel.queries.model import Model, model_of
from strudel.queries.variable_probabilities import marginal_probabilities
from strudel.tables.table_code import Column

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
    found = inside = model_of(model)
    is_known = np.zeros(found.n_vars, dtype=bool)
    if isinstance(given, Mapping) or is_formula(given):
        inside, rest, *_ = absorb(found, given)
        if inside.n_vars != found.n_vars:
            found = with_cells_of(found, [given], "plot_marginals")
            inside, rest, *_ = absorb(found, given)
        is_known = np.zeros(found.n_vars, dtype=bool)
        if found.table_code is not None:
            for name in columns_in(found, given):  # of which a row may not say all
                is_known[found.table_code.column(name).variables] = True
        given = rest
    row = one_row(inside, given)
    is_known |= ~np.isnan(row)
    has_evidence = bool(is_known.any()) or inside is not found
    now = marginal_probabilities(inside, as_evidence(inside, row))
    before = marginal_probabilities(found) if has_evidence else now
    if found.table_code is None:
        bars = _bars_of_variables(found, is_known, np.ravel(now), np.ravel(before))
        words, things = "probability of 1", "variables"
    else:
        titles = short_labels(found.table_code.names, longest=16)
        bars = [
            bar
            for column, title in zip(found.table_code.columns, titles, strict=True)
            for bar in _bars_of_column(
                column, title, is_known, now[column.name], before[column.name]
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


def one_row(model: Model, given: Any) -> FloatArray:
    """What is given as one row of 0, 1 and NaN."""
    rows, _ = given_rows(model, given)
    if len(rows) != 1:
        raise ValueError(
            f"given must be one row of values, but holds {len(rows)}. Draw one picture for each."
        )
    return rows[0]


def as_evidence(model: Model, row: FloatArray) -> Any:
    """A row of variables as unambiguous evidence: a table may have as many columns."""
    if model.table_code is None:
        return row
    names = names_of(model.n_vars, model.feature_names)
    return {names[var]: int(row[var]) for var in np.flatnonzero(~np.isnan(row))}


def _bars_of_variables(
    model: Model, is_known: AnyArray, now: FloatArray, before: FloatArray
) -> list[Bar]:
    names = short_labels([str(name) for name in names_of(model.n_vars, model.feature_names)])
    return [
        Bar(
            f"{name} = {now[var]:.0f}" if is_known[var] else name,
            name,
            float(now[var]),
            float(before[var]),
            bool(is_known[var]),
        )
        for var, name in enumerate(names)
    ]


def _bars_of_column(
    column: Column, title: str, is_known: AnyArray, now: dict[Any, Any], before: dict[Any, Any]
) -> Iterator[Bar]:
    """A bar for every value; one if there are two; of a given column, those still possible."""
    is_given = bool(is_known[column.start : column.stop].any())
    values = list(zip(short_labels(column.labels), now.values(), before.values(), strict=True))
    if len(values) == 2 and not is_given:
        values = [values[int(column.codewords[:, 0].argmax())]]
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
