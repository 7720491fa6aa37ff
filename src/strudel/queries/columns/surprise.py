"""How unusual rows are, and because of which column.

In:  a model and rows, some values of which may be unknown.
Out: `Surprise`: percentiles among rows that the model itself draws, of the whole row and of every
     column given the rest of the row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from strudel._types import FloatArray
from strudel.algebra.conditioning import condition
from strudel.data.argument_checks import RandomState, check_count, generator_from
from strudel.queries.arguments import given_rows
from strudel.queries.columns.joint_table import code_of_model, pandas_frame, rows_with_few_unknown
from strudel.queries.model import Model, model_of
from strudel.queries.sampling import draw_rows
from strudel.tables.table_code import TableCode, known_numbers

QUERY = "surprise"


class Surprise(NamedTuple):
    """How unusual rows are; a small percentile is unusual."""

    names: tuple[str, ...]  # of the columns
    log_probability: FloatArray  # (n_rows,) of all that is known
    percentile: FloatArray  # (n_rows,) share of drawn rows that are less probable
    column_log_probability: FloatArray  # (n_rows, n_columns) given the rest; NaN where unknown
    column_percentile: FloatArray  # (n_rows, n_columns) the same share for each column
    because: tuple[str | None, ...]  # (n_rows,) the most unusual column

    def to_frame(self) -> Any:
        """A pandas frame with one row per row: percentile, reason, percentile of every column."""
        content = {"percentile": self.percentile, "because": list(self.because)}
        shares = zip(self.names, self.column_percentile.T, strict=True)
        return pandas_frame(content | {f"{name}: percentile": share for name, share in shares})


def surprise(
    model: Model,
    X: Any,
    given: Any = None,
    *,
    n_samples: int = 1000,
    random_state: RandomState = 0,
) -> Surprise:
    """How unusual each row is under the model, and because of which column.

    A row is compared with rows that the model draws: its percentile is the share of them that are
    less probable. A column is looked at given the rest of its row, by log p(column | rest), and
    compared with the same of the drawn rows, so that numbers of any unit can be compared.

    Parameters
    ----------
    model : Circuit, Mixture or fitted estimator
        Smooth and structured-decomposable.
    X : array-like of shape (n_rows, n_vars), one row, frame, or dict by column
        NaN or None where a value is unknown: it takes no part, in the drawn rows either.
    given : evidence in any form, as in `probability`, of one row, optional
        Which rows they are compared with; all by default.
    n_samples : int
        Rows to draw. Percentiles have a standard error of at most ``0.5 / sqrt(n_samples)``;
        log-probabilities are exact.
    random_state : int, numpy Generator, RandomState or None
        For the drawn rows.

    Returns
    -------
    Surprise
        `log_probability`, `percentile`, `column_log_probability`, `column_percentile` and
        `because`, the column with the smallest percentile; and `to_frame()`.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> from strudel.queries import surprise
    >>> found = surprise(figure_1_circuit(), [[1, 1, 1, 0], [0, 1, 0, 0]])
    >>> found.percentile.round(1)
    array([0.6, 0. ])
    >>> found.column_log_probability[0].round(2)  # log p(X1 | X2, X3, X4) and so on
    array([-0.92, -0.11, -0.22, -0.22])
    """
    model = model_of(model) if given is None else condition(model, given)
    check_count("n_samples", n_samples)
    code = code_of_model(model)
    rows, _ = given_rows(model, X, "X")
    numbers = {} if model.table_code is None else known_numbers(X, model.table_code)
    log_p, given_rest = _log_probabilities(model, code, rows, numbers)
    rng = generator_from(random_state)
    nothing = np.full((1, model.n_vars), np.nan)
    drawn = draw_rows(model, nothing, n_samples, rng, QUERY)[0].astype(np.float64)
    own = {}
    for column in (column for column in code.columns if column.has_parts):
        values = column.drawn_bits(drawn[:, column.start : column.stop], rng, beyond_seen=True)
        if column.is_shared:
            place_of = {value: place for place, value in enumerate(column.values)}
            values = [place_of[value] for value in values]
        own[column.name] = np.array(values, dtype=np.float64)
    is_known = ~np.isnan(given_rest)
    percentile = np.empty(len(rows))
    column_percentile = np.full(given_rest.shape, np.nan)
    # Drawn rows know what a row knows: one batch for every pattern of unknown columns.
    patterns, place = np.unique(is_known, axis=0, return_inverse=True)
    for p, pattern in enumerate(patterns):
        mine = np.flatnonzero(place.ravel() == p)
        hidden, kept = drawn.copy(), dict(own)
        for c in np.flatnonzero(~pattern):
            hidden[:, code.columns[c].start : code.columns[c].stop] = np.nan
            kept.pop(code.columns[c].name, None)
        log_drawn, rest_drawn = _log_probabilities(model, code, hidden, kept)
        percentile[mine] = _shares_below(log_drawn, log_p[mine])
        for c in np.flatnonzero(pattern):
            column_percentile[mine, c] = _shares_below(rest_drawn[:, c], given_rest[mine, c])
    names = code.names
    because = []
    for shares, logs in zip(column_percentile, given_rest, strict=True):
        known = np.flatnonzero(~np.isnan(shares))
        best = min(known, key=lambda c: (shares[c], logs[c]), default=None)
        because.append(None if best is None else names[best])
    return Surprise(names, log_p, percentile, given_rest, column_percentile, tuple(because))


def _log_probabilities(
    model: Model, code: TableCode, rows: FloatArray, numbers: dict[str, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """The log-probability of every row, and of every known column given the rest of it.

    One batch of rows with a column left out, equal ones once.
    """
    n_rows, n_columns = len(rows), len(code.columns)
    without = np.repeat(rows[np.newaxis], 1 + n_columns, axis=0)
    is_known = np.empty((n_rows, n_columns), dtype=bool)
    for c, column in enumerate(code.columns):
        is_known[:, c] = ~np.isnan(rows[:, column.start : column.stop]).any(axis=1)
        without[1 + c, :, column.start : column.stop] = np.nan
    log_p = rows_with_few_unknown(model, without.reshape(-1, rows.shape[1]), QUERY)
    log_p = log_p.reshape(1 + n_columns, n_rows)
    with np.errstate(invalid="ignore"):  # where the rest is impossible on its own
        given_rest = (log_p[0] - log_p[1:]).T
    given_rest[np.isnan(given_rest)] = -np.inf
    total = log_p[0].copy()
    for c, column in enumerate(code.columns):
        values = numbers.get(column.name)
        if values is None or not (column.is_shared or column.density):
            continue
        known = ~np.isnan(values)
        own = np.zeros(n_rows)
        own[known] = column.cells.log_density(values[known])
        total += own
        given_rest[:, c] += own
    return total, np.where(is_known, given_rest, np.nan)


def _shares_below(drawn: FloatArray, values: FloatArray) -> FloatArray:
    """The share of drawn values that are smaller, equal ones counted half."""
    order = np.sort(drawn)
    tiny = 1e-9 * (1.0 + np.abs(np.where(np.isfinite(values), values, 0.0)))
    low = np.searchsorted(order, values - tiny, side="left")
    high = np.searchsorted(order, values + tiny, side="right")
    return np.asarray((low + high) / (2.0 * len(order)))
