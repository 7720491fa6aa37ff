"""Why values are missing: columns whose missing values follow from another column.

In:  the columns of a table, and their code.
Out: `Missingness`: rules such as "pregnancies is missing where sex = male", and per column how
     often it is missing given the one other column that it depends on most; which values of drawn
     rows to leave out, and which values are missing by a rule.

Whether a value is missing is compared with the cells of every other column, and with whether that
is missing too. A dependence counts beyond five standard deviations, and beyond chance among all
pairs.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from strudel._types import NONE, AnyArray, FloatArray
from strudel.errors import MissingForAReasonWarning
from strudel.tables.choose_cells import SURE, chi_square_z
from strudel.tables.column import Column, bound_text
from strudel.tables.columns import RawColumn

FEWEST_ROWS = 100  # of a table in which reasons are looked for
FEWEST = 20  # missing values of a column, and rows of a condition
ALWAYS, SELDOM = 0.95, 0.5  # missing by a rule: at least that often where it holds, less elsewhere
MOST_RULES = 3  # of one column
MOST_ROWS = 20_000  # that are looked at


@dataclass(frozen=True)
class MissingRule:
    """A column that is missing more often where another column has certain values, or none.

    Attributes
    ----------
    column, because_of : str
        The column whose values are missing, and the one that this depends on.
    values : tuple
        Values of `because_of` under which it is missing more often; of numbers and dates there are
        `intervals` instead, each from a bound, None where there is none, to below another.
    or_missing : bool
        Whether a missing value of `because_of` is another such condition, or the only one.
    rate, rate_elsewhere : float
        The share of rows in which `column` is missing, where the condition holds and elsewhere.
    is_structural : bool
        Whether it is missing by rule: nearly always where the condition holds, seldom elsewhere.
    text : str
        The condition in words.
    """

    column: str
    because_of: str
    values: tuple[Any, ...]
    intervals: tuple[tuple[float | None, float | None], ...]
    or_missing: bool
    rate: float
    rate_elsewhere: float
    is_structural: bool
    text: str

    def __str__(self) -> str:
        return (
            f"{self.column} is missing in {_percent(self.rate)} of the rows {self.text}, and in "
            f"{_percent(self.rate_elsewhere)} of the others"
        )

    @property
    def contrast(self) -> float:
        """How much more often values are missing where the condition holds."""
        return self.rate - self.rate_elsewhere

    def shares(self, column: Column) -> FloatArray:
        """The share of every value, or cell, of the column it is about in which it holds."""
        if self.intervals:
            inside = tuple(
                (-np.inf if low is None else low, np.inf if high is None else high)
                for low, high in self.intervals
            )
            return np.asarray(column.cells.shares(inside))
        places = map(column.place_of, self.values)
        wanted = [place for place in places if place is not None]
        return np.isin(np.arange(column.n_values), wanted).astype(np.float64)

    def holds(self, raw: RawColumn, column: Column) -> AnyArray:
        """In which rows the condition holds, from the column that it is about."""
        found = raw.is_missing() if self.or_missing else np.zeros(len(raw.values), dtype=bool)
        if raw.is_missing().all():
            return found
        if self.intervals:
            numbers = raw.values.astype(np.float64)
            for low, high in self.intervals:
                with np.errstate(invalid="ignore"):
                    inside = numbers >= (-np.inf if low is None else low)
                    found |= inside & (numbers < (np.inf if high is None else high))
            return found
        places = map(column.place_of, self.values)
        wanted = [place for place in places if place is not None]
        return np.asarray(found | np.isin(column.cells_of(raw, "missing"), wanted))


@dataclass(frozen=True)
class MissingRates:
    """How often a column is missing, given the cell of another; elsewhere than its rules hold."""

    column: str
    because_of: str | None  # None if it depends on nothing
    rates: tuple[float, ...]  # one per cell, and the last where `because_of` is missing itself


@dataclass(frozen=True)
class Missingness:
    """All that is known about the missing values of a table."""

    rules: tuple[MissingRule, ...] = ()
    rates: tuple[MissingRates, ...] = ()  # in the order in which missing values are drawn

    def warning(self) -> MissingForAReasonWarning:
        """What to say at fit."""
        pairs: dict[Any, MissingRule] = {}  # two that are missing together are said once
        for rule in sorted(self.rules, key=lambda rule: (not rule.is_structural, -rule.contrast)):
            is_both = rule.or_missing and not rule.values and not rule.intervals
            pair = frozenset((rule.column, rule.because_of)) if is_both else rule
            pairs.setdefault(pair, rule)
        order = list(pairs.values())
        listed = "; ".join(map(str, order[:5]))
        rest = f"; and {len(order) - 5} more, see missing_" if len(order) > 5 else ""
        return MissingForAReasonWarning(
            f"Values are missing for a reason: {listed}{rest}.",
            "StrudelImputer leaves those empty that are missing by rule, and sample(missing=True) "
            "draws missing values as the table has them."
            if order[0].is_structural
            else "sample(missing=True) draws missing values as the table has them.",
            rules=self.rules,
        )

    @cached_property
    def caused(self) -> frozenset[str]:
        """The columns whose values are missing because of another column."""
        return frozenset(own.column for own in self.rates if own.because_of) | {
            rule.column for rule in self.rules if rule.is_structural
        }

    def without(self, names: Collection[str]) -> Missingness:
        """The same without some of the columns whose values are missing."""
        rules = tuple(rule for rule in self.rules if rule.column not in names)
        return Missingness(rules, tuple(own for own in self.rates if own.column not in names))

    def chances_of_values(
        self, names: Collection[str], columns: Sequence[Column]
    ) -> Iterator[tuple[str, FloatArray]]:
        """How often columns have a value, for every value of the columns which that depends on."""
        of = {column.name: column for column in columns}
        for own in (rates for rates in self.rates if rates.column in names):
            cause = of.get(own.because_of or "")
            rules = [rule for rule in self.rules if rule.column == own.column]
            rules = [rule for rule in rules if rule.is_structural and rule.because_of in of]
            if cause is not None and len(own.rates) == cause.shown.n_cells + 1:
                chance = 1.0 - np.array(own.rates)[cause.shown_of_cell]
                for rule in (rule for rule in rules if rule.because_of == cause.name):
                    inside = rule.shares(cause)
                    chance += inside * (1.0 - rule.rate - chance)
                yield cause.name, chance
            for rule in rules:
                if cause is None or rule.because_of != cause.name:
                    yield rule.because_of, 1.0 - rule.rate * rule.shares(of[rule.because_of])

    def missing_by_rule(
        self, raws: Mapping[str, RawColumn], columns: Sequence[Column]
    ) -> dict[str, AnyArray]:
        """Per column the rows in which its value is missing, and a rule says that it must be."""
        of = {column.name: column for column in columns}
        found: dict[str, AnyArray] = {}
        for rule in self.rules:
            if (
                not rule.is_structural
                or not {rule.column, rule.because_of} <= raws.keys() & of.keys()
            ):
                continue
            holds = rule.holds(raws[rule.because_of], of[rule.because_of])
            holds &= raws[rule.column].is_missing()
            if holds.any():
                found[rule.column] = found.get(rule.column, np.zeros_like(holds)) | holds
        return found

    def draw(
        self,
        raws: Mapping[str, RawColumn],
        columns: Sequence[Column],
        rng: np.random.Generator,
    ) -> dict[str, AnyArray]:
        """Per column the rows in which complete rows that were drawn have no value."""
        of = {column.name: column for column in columns if column.name in raws}
        drawn: dict[str, AnyArray] = {}
        for own in self.rates:
            if own.column not in of:
                continue
            n_rows = len(raws[own.column].values)
            chance = np.full(n_rows, own.rates[-1])
            if own.because_of is not None and own.because_of in of:
                cells = of[own.because_of].shown.cells_of(raws[own.because_of], "missing")
                if own.because_of in drawn:
                    cells = np.where(drawn[own.because_of], NONE, cells)
                chance = np.array(own.rates)[np.minimum(cells, len(own.rates) - 1)]
            for rule in self.rules:
                if rule.column == own.column and rule.is_structural and rule.because_of in of:
                    cause = raws[rule.because_of]
                    chance[rule.holds(cause, of[rule.because_of])] = rule.rate
            drawn[own.column] = rng.random(n_rows) < chance
        return drawn


def why_not_rates(one: MissingRule | MissingRates) -> str | None:
    """Why what is known about missing values cannot be, or None."""
    intervals: tuple[Any, ...] = ()
    if isinstance(one, MissingRule):
        rates: tuple[float, ...] = (one.rate, one.rate_elsewhere)
        intervals = one.intervals
    else:
        rates = one.rates
    if not rates or not all(isinstance(own, int | float) and 0.0 <= own <= 1.0 for own in rates):
        return "Rates of missing values must be between 0 and 1"
    if not all(len(ends) == 2 and all(map(_is_bound, ends)) for ends in intervals):
        return "The intervals of a rule for missing values must have two bounds"
    return None


def _is_bound(end: Any) -> bool:
    return end is None or (isinstance(end, int | float) and math.isfinite(end))


def _percent(share: float) -> str:
    percent = 100.0 * share
    return f"{percent:.0f} %" if percent >= 1.0 or percent == 0.0 else f"{percent:.1g} %"


@dataclass(frozen=True, eq=False)
class _Cause:
    """A column on which it may depend whether others are missing."""

    raw: RawColumn
    column: Column
    place: AnyArray  # (n_rows,) the cell of every row; the last cell is that of missing values
    is_missing: AnyArray  # (n_rows,)

    @property
    def n_cells(self) -> int:
        return self.column.n_values + 1

    def mask(self, condition: _Condition) -> AnyArray:
        """The rows in which a condition holds."""
        found = np.isin(self.place, condition.cells)
        if condition.interval is not None:
            low, high = condition.interval
            numbers = self.raw.values.astype(np.float64)
            with np.errstate(invalid="ignore"):
                inside = numbers >= (-np.inf if low is None else low)
                found |= inside & (numbers < (np.inf if high is None else high))
        return found


@dataclass(frozen=True)
class _Condition:
    """Some cells of a column, or an interval of its numbers."""

    cells: tuple[int, ...] = ()
    interval: tuple[float | None, float | None] | None = None


def learn_missingness(raws: Sequence[RawColumn], columns: Sequence[Column]) -> Missingness:
    """What the missing values of every column depend on."""
    step = max(1, -(-len(raws[0].values) // MOST_ROWS))
    causes = []
    for raw, column in zip(raws, columns, strict=True):
        some = replace(raw, values=raw.values[::step])
        place = column.cells_of(some, "missing")
        place = np.where(place == NONE, column.n_values, place)
        causes.append(_Cause(some, column, place, some.is_missing()))
    missing = np.array([cause.is_missing for cause in causes])
    counts, n_rows = missing.sum(axis=1), missing.shape[1]
    asked = [c for c in np.argsort(counts, kind="stable").tolist() if 0 < counts[c] < n_rows]
    # What a normal deviate exceeds with a chance of less than 1 % among all pairs.
    least = max(SURE, math.sqrt(2.0 * math.log(50.0 * len(asked) * len(causes) + 1.0)))
    rules: list[MissingRule] = []
    rates: list[MissingRates] = []
    for number, c in enumerate(asked):
        name, own, elsewhere = columns[c].name, missing[c], np.ones(n_rows, dtype=bool)
        others = [cause for other, cause in enumerate(causes) if other != c]
        for _ in range(MOST_RULES):
            related = _related(own, others, elsewhere, least)
            found = [way for cause in related if (way := _structural(own, cause, elsewhere))]
            if not found:
                break
            inside, cause, condition = max(found, key=lambda way: int(own[way[0]].sum()))
            rules.append(_rule(own, name, cause, condition, elsewhere, is_structural=True))
            elsewhere = elsewhere & ~inside
        if elsewhere.all() and related:  # a dependence, but no rule
            condition = _best_split(own, related[0])
            rules.append(_rule(own, name, related[0], condition, elsewhere, is_structural=False))
        drawn = {columns[other].name for other in asked[:number]}
        rates.append(_rates(own, name, others, elsewhere, drawn, least))
    return Missingness(tuple(rules), tuple(rates))


def _related(own: AnyArray, causes: Sequence[_Cause], some: AnyArray, least: float) -> list[_Cause]:
    """The columns on which it depends whether a value is missing, the strongest first."""
    if len(own) < FEWEST_ROWS or own[some].sum() < FEWEST:
        return []
    z = {
        cause.column.name: chi_square_z(_counts(own, cause, some).astype(np.float64))
        for cause in causes
    }
    found = [cause for cause in causes if z[cause.column.name] > least]
    return sorted(found, key=lambda cause: -z[cause.column.name])


def _counts(own: AnyArray, cause: _Cause, some: AnyArray) -> AnyArray:
    """Rows of every cell of a column, without and with a value that is missing."""
    both = cause.place[some] * 2 + own[some]
    return np.bincount(both, minlength=2 * cause.n_cells).reshape(-1, 2)


def _structural(
    own: AnyArray, cause: _Cause, some: AnyArray
) -> tuple[AnyArray, _Cause, _Condition] | None:
    """Known values of a column under which values are missing by rule, and the rows with them."""
    known = some & ~cause.is_missing
    counts = _counts(own, cause, known)
    n_rows = counts.sum(axis=1)
    always = np.flatnonzero((n_rows > 0) & (counts[:, 1] >= ALWAYS * n_rows))
    ways = [_Condition(tuple(always.tolist()))]
    if cause.column.is_numeric:  # a bound inside a cell
        ways.insert(0, _Condition(interval=_best_cut(own[known], cause.raw.values[known])))
    for condition in ways:
        inside = cause.mask(condition) & known
        outside = some & ~inside
        if min(inside.sum(), own[inside].sum(), outside.sum()) < FEWEST:
            continue
        if own[inside].mean() >= ALWAYS and own[outside].mean() < SELDOM:
            return inside, cause, condition
    return None


def _best_cut(own: AnyArray, values: AnyArray) -> tuple[float | None, float | None] | None:
    """The bound that parts rows with and without missing values best, and the side with more."""
    numbers = values.astype(np.float64)
    order = np.argsort(numbers, kind="stable")
    numbers, is_missing = numbers[order], own[order]
    gain = _gains(np.arange(1, len(own)), np.cumsum(is_missing)[:-1], len(own), is_missing.sum())
    gain[numbers[1:] == numbers[:-1]] = 0.0
    if not len(gain) or gain.max() <= 0.0:
        return None
    cut = int(gain.argmax()) + 1
    bound = float(numbers[cut])
    return (None, bound) if is_missing[:cut].mean() > is_missing[cut:].mean() else (bound, None)


def _gains(n_rows: AnyArray, n_missing: AnyArray, n: int, total: int) -> FloatArray:
    """Chi-square of two groups, up to a factor, for several first groups."""
    return np.asarray((n_missing - n_rows * total / n) ** 2 / (n_rows * (n - n_rows)))


def _best_split(own: AnyArray, cause: _Cause) -> _Condition:
    """The values of a column, or none, under which values are missing more often than elsewhere."""
    counts = _counts(own, cause, np.ones(len(own), dtype=bool))
    n_rows = counts.sum(axis=1)
    seen = np.flatnonzero(n_rows)
    # The best of all groups holds the cells with the highest rates.
    seen = seen[np.argsort(-counts[seen, 1] / n_rows[seen], kind="stable")]
    n_missing = np.cumsum(counts[seen, 1])[:-1]
    by_cells = _gains(np.cumsum(n_rows[seen])[:-1], n_missing, len(own), own.sum())
    cells = _Condition(tuple(sorted(seen[: int(by_cells.argmax()) + 1].tolist())))
    if not cause.column.is_numeric:
        return cells
    known, null = ~cause.is_missing, cause.n_cells - 1
    ways = [_Condition((null,))]
    interval = _best_cut(own[known], cause.raw.values[known])
    if interval is not None:
        ways = [_Condition((), interval), *ways, _Condition((null,), interval)]

    def gain(condition: _Condition) -> float:
        inside = cause.mask(condition)
        n_in = int(inside.sum())
        rate = own[inside].mean() if n_in else 0.0
        if n_in in (0, len(own)) or rate < own.mean():
            return 0.0
        found = float(_gains(np.array(n_in), own[inside].sum(), len(own), own.sum()))
        is_double = condition.interval is not None and condition.cells  # said only if it says more
        return 0.9 * found if is_double else found

    return max(ways, key=gain)


def _rule(
    own: AnyArray,
    name: str,
    cause: _Cause,
    condition: _Condition,
    some: AnyArray,
    *,
    is_structural: bool,
) -> MissingRule:
    """The rule with a condition, and its rates."""
    column, inside = cause.column, cause.mask(condition)
    cells = [cell for cell in condition.cells if cell < column.n_values]
    intervals = [] if condition.interval is None else [condition.interval]
    if column.is_numeric:
        ends = [None, *column.edges, None]
        for cell in cells:
            if intervals and intervals[-1][1] == ends[cell]:
                intervals[-1] = (intervals[-1][0], ends[cell + 1])
            else:
                intervals.append((ends[cell], ends[cell + 1]))
    values = () if column.is_numeric else tuple(column.values[cell] for cell in cells)
    rate, elsewhere = (float(own[part & some].mean()) for part in (inside, ~inside))
    made = MissingRule(
        column=name,
        because_of=column.name,
        values=values,
        intervals=tuple(intervals),
        or_missing=column.n_values in condition.cells,
        rate=rate,
        rate_elsewhere=elsewhere,
        is_structural=is_structural,
        text="",
    )
    return replace(made, text=_words(made, column))


def _words(rule: MissingRule, column: Column) -> str:
    """The condition of a rule, after "the rows"."""
    words = ""
    if rule.intervals:
        words = f"with {' or '.join(_interval_text(column, *ends) for ends in rule.intervals)}"
    elif len(rule.values) == 1:
        words = f"with {column.name} = {rule.values[0]}"
    elif rule.values:
        shown = ", ".join(map(str, rule.values[:5]))
        words = f"with {column.name} in [{shown}{', ...' if len(rule.values) > 5 else ''}]"
    if rule.or_missing:
        words += f"{' or ' if words else ''}without {column.name}"
    return words


def _interval_text(column: Column, low: float | None, high: float | None) -> str:
    if low is None or high is None:
        sign, bound = (">=", low) if high is None else ("<", high)
        return column.name if bound is None else f"{column.name} {sign} {bound_text(column, bound)}"
    return f"{bound_text(column, low)} <= {column.name} < {bound_text(column, high)}"


def _rates(
    own: AnyArray,
    name: str,
    causes: Sequence[_Cause],
    some: AnyArray,
    drawn: set[str],
    least: float,
) -> MissingRates:
    """How often a column is missing in the rows of no rule, by the column it depends on most.

    Of columns whose own missing values are drawn later, the value is known then: only rows with one
    say what follows from it.
    """
    overall = float(own[some].mean()) if some.any() else 0.0
    best, best_z, best_rows = None, least, some
    for cause in causes:
        rows = some if cause.column.name in drawn else some & ~cause.is_missing
        if len(own) < FEWEST_ROWS or own[rows].sum() < FEWEST:
            continue
        z = chi_square_z(_counts(own, cause, rows).astype(np.float64))
        if z > best_z:
            best, best_z, best_rows = cause, z, rows
    if best is None:
        return MissingRates(name, None, (overall,))
    counts = _counts(own, best, best_rows)
    rates = (counts[:, 1] + overall) / (counts.sum(axis=1) + 1.0)  # one row's worth of all
    share = float(own[best_rows].mean())
    rates = np.minimum(rates * overall / share, 1.0) if share > 0.0 else rates
    return MissingRates(name, best.column.name, tuple(rates.tolist()))
