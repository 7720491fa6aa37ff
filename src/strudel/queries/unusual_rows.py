"""How unusual rows are, and because of which column.

In:  a model and rows, some values of which may be unknown.
Out: `Surprise`: percentiles among rows that the model itself draws, of the whole row and of every
     column given the rest of the row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from strudel._types import FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.reweigh import given_row
from strudel.data.argument_checks import RandomState, check_count, generator_from
from strudel.errors import NoValueError
from strudel.queries.cells import rest_probabilities
from strudel.queries.given import IMPOSSIBLE, ask, circuit_of, pandas_frame
from strudel.queries.sampling import draw_cells
from strudel.tables.evidence import Evidence, evidence_of, nothing_known


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
    model: Any, X: Any, given: Any = None, *, n_samples: int = 1000, random_state: RandomState = 0
) -> Surprise:
    """How unusual each row is under the model, and because of which column.

    A row is compared with rows that the model draws: its percentile is the share of them that are
    less probable. A column is looked at given the rest of its row, by log p(column | rest), and
    compared with the same of the drawn rows, so that numbers of any unit can be compared.

    Parameters
    ----------
    model : Circuit or fitted estimator
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
    array([0.7, 0. ])
    >>> found.column_log_probability[0].round(2)  # log p(X1 | X2, X3, X4) and so on
    array([-0.92, -0.11, -0.22, -0.22])
    """
    check_count("n_samples", n_samples)
    circuit = circuit_of(model)
    if given is not None:
        asked = ask(model, given).one_row()
        found, _ = given_row(asked.circuit, asked.evidence)
        if found is None:
            raise NoValueError(f"What is given {IMPOSSIBLE}", column="")
        circuit = found
    columns = circuit.columns
    log_p, given_rest = _log_probabilities(circuit, evidence_of(columns, X, "X"))
    rng = generator_from(random_state)
    drawn = draw_cells(circuit, nothing_known(columns), n_samples, rng)[0]
    rows = nothing_known(columns, n_samples)
    rows = rows.with_cells({place: drawn[:, place] for place in range(len(columns))})
    numbers = {
        place: np.array(column.drawn(drawn[:, place], rng, beyond_seen=True), dtype=np.float64)
        for place, column in enumerate(columns)
        if column.is_numeric
    }
    rows = replace(rows, numbers=numbers)
    is_known = ~np.isnan(given_rest)
    percentile = np.empty(len(log_p))
    column_percentile = np.full(given_rest.shape, np.nan)
    # Drawn rows know what a row knows: one batch for every pattern of unknown columns.
    patterns, place = np.unique(is_known, axis=0, return_inverse=True)
    for p, pattern in enumerate(patterns):
        mine = np.flatnonzero(place.ravel() == p)
        hidden = rows.without(np.flatnonzero(~pattern).tolist())
        log_drawn, rest_drawn = _log_probabilities(circuit, hidden)
        percentile[mine] = _shares_below(log_drawn, log_p[mine])
        for c in np.flatnonzero(pattern):
            column_percentile[mine, c] = _shares_below(rest_drawn[:, c], given_rest[mine, c])
    names = columns.names
    because = []
    for shares, logs in zip(column_percentile, given_rest, strict=True):
        known = np.flatnonzero(~np.isnan(shares))
        best = min(known, key=lambda c: (shares[c], logs[c]), default=None)
        because.append(None if best is None else names[best])
    return Surprise(names, log_p, percentile, given_rest, column_percentile, tuple(because))


def _log_probabilities(circuit: Circuit, rows: Evidence) -> tuple[FloatArray, FloatArray]:
    """The log-probability of every row, and of every known column given the rest of it."""
    log_p, rest = rest_probabilities(circuit, rows)
    with np.errstate(invalid="ignore"):  # where the rest is impossible on its own
        given_rest = log_p[:, np.newaxis] - rest
    given_rest[np.isnan(given_rest)] = -np.inf
    total = log_p.copy()
    for place in rows.numbers:
        own = rows.log_density([place])
        total += own
        given_rest[:, place] += own
    return total, np.where(rows.is_known(), given_rest, np.nan)


def _shares_below(drawn: FloatArray, values: FloatArray) -> FloatArray:
    """The share of drawn values that are smaller, equal ones counted half."""
    order = np.sort(drawn)
    tiny = 1e-9 * (1.0 + np.abs(np.where(np.isfinite(values), values, 0.0)))
    low = np.searchsorted(order, values - tiny, side="left")
    high = np.searchsorted(order, values + tiny, side="right")
    return np.asarray((low + high) / (2.0 * len(order)))
