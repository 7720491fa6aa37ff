"""The distribution of one column of numbers or dates, given what is known.

In:  a model that was learned from a table, a column, and what is known.
Out: its mean, variance, quantiles, cumulative probabilities and densities; or all of it as a
     `ColumnPosterior`.

How probable every cell is comes from one pass; within a cell the column has its own density. So all
answers are sums over cells, in closed form.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from strudel._display import plotting
from strudel._types import FloatArray
from strudel.queries.by_block import lazily
from strudel.queries.cells import cell_probabilities
from strudel.queries.given import ask, circuit_of, raise_if_impossible
from strudel.tables.column import BIT, Column, compared_region
from strudel.tables.columns import as_date, as_timedelta
from strudel.tables.density import LARGEST
from strudel.tables.schema import Columns

DAY = 86_400e6  # microseconds


@dataclass(frozen=True, eq=False, repr=False)
class ColumnPosterior:
    """The distribution of a column of numbers or dates, given what is known.

    Made by `posterior`.

    Examples
    --------
    >>> from strudel import Strudel
    >>> from strudel.queries import posterior
    >>> rows = [["red", 20], ["red", 40], ["blue", 60], ["green", 60]] * 50
    >>> model = Strudel(n_components=1, random_state=0, max_splits=0).fit(rows)
    >>> ages = posterior(model, "x1", given={"x0": "red"})
    >>> bool(25 < ages.mean < 35), ages.quantile(0.9)
    (True, 40)
    """

    column: Column
    cell_chance: FloatArray  # (n_cells,) how probable each cell is

    @property
    def mean(self) -> Any:
        """The mean."""
        return as_value(self.column, float(self.cell_chance @ self.column.cell_means))

    @property
    def variance(self) -> float:
        """The variance; of dates and durations in squared days."""
        return float(_variances(self.column, self.cell_chance[np.newaxis])[0])

    def quantile(self, q: Any) -> Any:
        """The smallest value that is not exceeded with probability `q`; a list for several."""
        if np.ndim(q):
            return [self.quantile(one) for one in q]
        [share] = check_shares(q)
        number = self.column.cells.quantile(self.cell_chance, float(share))
        is_whole = self.column.dtype == "integer" and number.is_integer()
        return int(number) if is_whole else as_value(self.column, number)

    def interval(self, share: float = 0.9) -> tuple[Any, Any]:
        """Two quantiles between which the column lies with this probability or more."""
        rest = (1.0 - share) / 2.0
        return self.quantile(rest), self.quantile(1.0 - rest)

    def cdf(self, x: Any) -> float:
        """The probability of `x` or less."""
        return float(_cumulative(self.column, self.cell_chance[np.newaxis], x)[0])

    def pdf(self, x: Any) -> float:
        """The density at `x`: its probability if it has one, else per unit of the column."""
        return float(_densities(self.column, self.cell_chance[np.newaxis], x)[0])

    def plot(self, ax: Any = None) -> Any:
        """Draw the density, and point masses as lines.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; pyplot's current axes by default.
        """
        return plotting("marginals").plot_column_density(self, ax)

    def __repr__(self) -> str:
        low, middle, high = self.quantile([0.05, 0.5, 0.95])
        return (
            f"ColumnPosterior({self.column.name!r}: mean {self.mean}, median {middle}, "
            f"90 % from {low} to {high})"
        )


def as_value(column: Column, number: float) -> Any:
    """A number as people have it: a date or duration, or the number itself."""
    if column.kind == "date":
        return as_date(round(number), column)
    return as_timedelta(round(number)) if column.dtype == "duration" else number


def _values(column: Column, numbers: FloatArray) -> Any:
    """The same for several: an array."""
    if column.kind == "date":
        return np.round(numbers).astype(np.int64).astype("datetime64[us]")
    if column.dtype == "duration":
        return np.round(numbers).astype(np.int64).astype("timedelta64[us]")
    return numbers


def _variances(column: Column, chances: FloatArray) -> FloatArray:
    within = np.nan_to_num(column.cells.moments()[1])
    means = chances @ column.cell_means
    away = column.cell_means - means[:, np.newaxis]
    unit = DAY**2 if column.kind == "date" or column.dtype == "duration" else 1.0
    return np.asarray((chances * (within + away**2)).sum(axis=1) / unit)


def _cumulative(column: Column, chances: FloatArray, x: Any) -> FloatArray:
    [(_, high)] = compared_region(column, "<=", x)
    return np.asarray(np.minimum(chances @ column.cells.shares(((-np.inf, high),)), 1.0))


def _densities(column: Column, chances: FloatArray, x: Any) -> FloatArray:
    [(number, _)] = compared_region(column, "==", x)
    cell = int(np.searchsorted(np.array(column.edges), number, side="right"))
    return np.asarray(chances[:, cell] * np.exp(column.cells.log_density(np.array([number]))))


def posterior(model: Any, column: str, given: Any = None) -> ColumnPosterior:
    """The distribution of a column of numbers or dates, given what is known.

    Parameters
    ----------
    model : Circuit or fitted estimator
        Learned from a table.
    column : str
        Of numbers, dates or durations.
    given : evidence in any form, as in `probability`, of one row, optional
        Nothing is known by default.

    Returns
    -------
    ColumnPosterior
        With `mean`, `variance`, `quantile`, `interval`, `cdf`, `pdf` and `plot`.

    Examples
    --------
    >>> from strudel import Strudel
    >>> rows = [["red", 20], ["red", 40], ["blue", 60], ["green", 60]] * 50
    >>> model = Strudel(n_components=1, random_state=0, max_splits=0).fit(rows)
    >>> posterior(model, "x1", given={"x0": "blue"}).quantile([0.25, 0.75])
    [60, 60]
    """
    found: ColumnPosterior = _posterior(model, column, given)
    return found


@lazily("given")
def _posterior(model: Any, column: str, given: Any) -> Any:
    asked = _asked(model, column, given, "posterior", one_row=True)
    [number], own = asked.numbers, asked.columns[0]
    if not np.isnan(number):
        if not abs(number) <= LARGEST:
            raise ValueError(
                f"given must have numbers up to {LARGEST:g}, but {column!r} is {number:g}."
            )
        own = own.at(float(number))
    return ColumnPosterior(own, asked.chances[0])


@lazily("given")
def expectation(model: Any, column: str, given: Any = None) -> Any:
    """The mean of a column, given what is known.

    Parameters
    ----------
    model : Circuit or fitted estimator
        Learned from a table.
    column : str
        Of numbers, dates or durations; or of 0 and 1, whose mean is the probability of 1.
    given : evidence in any form, as in `probability`, optional
        Nothing is known by default.

    Returns
    -------
    float, or ndarray of shape (n_rows,) if `given` is a table
        Of dates a datetime, of durations a timedelta, or an array of them. A row that gives the
        column has its value.

    Examples
    --------
    >>> from strudel import Strudel
    >>> rows = [["red", 20], ["red", 40], ["blue", 60], ["green", 60]] * 50
    >>> model = Strudel(n_components=1, random_state=0, max_splits=0).fit(rows)
    >>> round(expectation(model, "x1"), 1)
    44.8
    """
    asked = _asked(model, column, given, "expectation")
    found = asked.answers(lambda own, p: p @ own.cell_means, lambda known: known)
    own = asked.columns[0]
    return as_value(own, float(found[0])) if asked.is_single else _values(own, found)


@lazily("given")
def variance(model: Any, column: str, given: Any = None) -> float | FloatArray:
    """The variance of a column, given what is known; its square root is the standard deviation.

    Parameters
    ----------
    model : Circuit or fitted estimator
        Learned from a table.
    column : str
        Of numbers, dates or durations; or of 0 and 1.
    given : evidence in any form, as in `probability`, optional
        Nothing is known by default.

    Returns
    -------
    float, or ndarray of shape (n_rows,) if `given` is a table
        Of dates and durations in squared days. Zero where a row gives the column.

    Examples
    --------
    >>> from strudel import Strudel
    >>> rows = [["red", 20], ["red", 40], ["blue", 60], ["green", 60]] * 50
    >>> model = Strudel(n_components=1, random_state=0, max_splits=0).fit(rows)
    >>> round(variance(model, "x1"))
    279
    """

    def of_row(own: Column, chances: FloatArray) -> FloatArray:
        if not own.is_numeric:
            means = chances @ own.cell_means
            return means * (1.0 - means)
        return _variances(own, chances)

    return _asked(model, column, given, "variance").numbers_of(of_row, np.zeros_like)


@lazily("given")
def quantile(model: Any, column: str, q: Any, given: Any = None) -> Any:
    """The value of a column that is not exceeded with probability `q`, given what is known.

    Parameters
    ----------
    model : Circuit or fitted estimator
        Learned from a table.
    column : str
        Of numbers, dates or durations.
    q : float or list of float
        Between 0 and 1; 0.5 is the median.
    given : evidence in any form, as in `probability`, optional
        Nothing is known by default.

    Returns
    -------
    float, or ndarray of shape (n_rows,) if `given` is a table
        With a last axis for several `q`. Of dates and durations an array of them, or one.

    Examples
    --------
    >>> from strudel import Strudel
    >>> rows = [["red", 20], ["red", 40], ["blue", 60], ["green", 60]] * 50
    >>> model = Strudel(n_components=1, random_state=0, max_splits=0).fit(rows)
    >>> quantile(model, "x1", [0.1, 0.5, 0.9])
    array([20., 40., 60.])
    """
    shares = check_shares(q)

    asked = _asked(model, column, given, "quantile")
    _need_numbers(asked.columns[0], "quantile")

    def of_rows(own: Column, chances: FloatArray) -> FloatArray:
        return own.cells.quantiles(chances, shares)

    found = asked.answers(of_rows, lambda known: np.repeat(known[:, np.newaxis], len(shares), 1))
    found = _values(asked.columns[0], found)
    found = found[0] if asked.is_single else found
    return found if np.ndim(q) else found[..., 0]


@lazily("given")
def cdf(model: Any, column: str, x: Any, given: Any = None) -> float | FloatArray:
    """The probability that a column is `x` or less, given what is known.

    Parameters
    ----------
    model : Circuit or fitted estimator
        Learned from a table.
    column : str
        Of numbers, dates or durations.
    x : number, date or duration
    given : evidence in any form, as in `probability`, optional
        Nothing is known by default.

    Returns
    -------
    float, or ndarray of shape (n_rows,) if `given` is a table

    Examples
    --------
    >>> from strudel import Strudel
    >>> rows = [["red", 20], ["red", 40], ["blue", 60], ["green", 60]] * 50
    >>> model = Strudel(n_components=1, random_state=0, max_splits=0).fit(rows)
    >>> round(cdf(model, "x1", 45), 4)
    0.5045
    """
    number = _number_of(model, column, x, "cdf")
    return _asked(model, column, given, "cdf").numbers_of(
        lambda own, p: _cumulative(own, p, x), lambda known: np.where(known <= number, 1.0, 0.0)
    )


@lazily("given")
def pdf(model: Any, column: str, x: Any, given: Any = None) -> float | FloatArray:
    """The density of a column at `x`, given what is known.

    Parameters
    ----------
    model : Circuit or fitted estimator
        Learned from a table.
    column : str
        Of numbers, dates or durations.
    x : number, date or duration
    given : evidence in any form, as in `probability`, optional
        Nothing is known by default.

    Returns
    -------
    float, or ndarray of shape (n_rows,) if `given` is a table
        The probability of `x` if it has one, as whole numbers have; else per unit of the column.

    Examples
    --------
    >>> from strudel import Strudel
    >>> rows = [["red", 20], ["red", 40], ["blue", 60], ["green", 60]] * 50
    >>> model = Strudel(n_components=1, random_state=0, max_splits=0).fit(rows)
    >>> round(pdf(model, "x1", 40), 4)
    0.2468
    """
    number = _number_of(model, column, x, "pdf")
    return _asked(model, column, given, "pdf").numbers_of(
        lambda own, p: _densities(own, p, x), lambda known: np.where(known == number, 1.0, 0.0)
    )


def check_shares(q: Any) -> FloatArray:
    """One or several numbers between 0 and 1."""
    with contextlib.suppress(ValueError, TypeError):
        shares = np.atleast_1d(np.asarray(q, dtype=np.float64))
        if shares.ndim == 1 and len(shares) and np.all((shares > 0.0) & (shares < 1.0)):
            return shares
    raise ValueError(f"q must be above 0 and below 1, but is {q!r}.")


def _number_of(model: Any, column: str, x: Any, query: str) -> float:
    own = _column(circuit_of(model).columns, column, query)
    _need_numbers(own, query)
    return compared_region(own, "==", x)[0][0]


@dataclass(frozen=True, eq=False)
class _Asked:
    """A column, how probable its cells are given each row, and the numbers that are given."""

    columns: list[Column]  # one per row if they differ in what is known of them, else one
    chances: FloatArray  # (n_rows, n_cells)
    numbers: FloatArray  # (n_rows,) NaN where no number is given
    is_single: bool

    def answers(
        self,
        answer: Callable[[Column, FloatArray], FloatArray],
        if_known: Callable[[FloatArray], FloatArray],
    ) -> FloatArray:
        """`answer` from the chances of the cells of every row; `if_known` where it has a number."""
        if len(self.columns) == 1:
            found = answer(self.columns[0], self.chances)
        else:
            rows = zip(self.columns, self.chances, strict=True)
            found = np.concatenate([answer(own, row[np.newaxis]) for own, row in rows])
        is_known = ~np.isnan(self.numbers)
        found[is_known] = if_known(self.numbers[is_known])
        return found

    def numbers_of(self, *answer: Callable[..., FloatArray]) -> float | FloatArray:
        """The same, as a float where one row is asked about."""
        found = self.answers(*answer)
        return float(found[0]) if self.is_single else found


def _asked(model: Any, name: str, given: Any, query: str, *, one_row: bool = False) -> _Asked:
    _column(circuit_of(model).columns, name, query)
    asked = ask(model, given, [name])
    asked = asked.one_row() if one_row else asked
    evidence, place = asked.evidence, asked.circuit.columns.place(name)
    log_p, [chances] = cell_probabilities(asked.circuit, evidence, [place])
    raise_if_impossible(log_p)
    numbers = evidence.numbers.get(place, np.full(len(evidence), np.nan))
    columns = [asked.circuit.columns[place]]
    if any(at == place for _, at in evidence.regions):
        regions = [evidence.regions.get((row, place)) for row in range(len(evidence))]
        columns = [columns[0] if own is None else columns[0].within(own) for own in regions]
    return _Asked(columns, chances, numbers, asked.is_single)


def _column(columns: Columns, name: str, query: str) -> Column:
    if columns.are_bits:
        raise ValueError(
            f"{query} is about a column of a table, but the model was learned from 0 and 1. "
            "marginal_probabilities gives the probability of 1."
        )
    column = columns[columns.place(name)]
    has_mean = column.kind in ("boolean", BIT) and query in ("expectation", "variance")
    if not has_mean:
        _need_numbers(column, query)
    return column


def _need_numbers(column: Column, query: str) -> None:
    if not column.is_numeric or column.values == (None,):
        raise ValueError(
            f"{query} needs a column of numbers or dates, but {column.name!r} is a "
            f"{column.kind}. marginal_probabilities gives the probability of each of its values."
        )


def density_curve(found: ColumnPosterior) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Bounds of even pieces and their densities; point masses and theirs. For pictures."""
    cells = found.column.cells
    low, high = cells.density.seen
    ends = np.array(cells.region).ravel()
    bounds = np.unique(np.concatenate([[low, high], cells.high, ends, cells.density.bounds()]))
    bounds = bounds[(bounds >= low) & (bounds <= high)]
    shares = [cells.shares(((a, b),)) for a, b in pairwise(bounds)]
    mass = np.array(shares).reshape(-1, cells.n_cells) @ found.cell_chance
    points = cells.density.point
    heights = np.array([found.pdf(float(point)) for point in points])
    place = np.searchsorted(bounds, points, side="right") - 1  # of the piece that holds a point
    is_inside = place < len(mass)
    mass -= np.bincount(place[is_inside], heights[is_inside], len(mass))
    return bounds, np.maximum(mass, 0.0) / np.diff(bounds), points, heights
