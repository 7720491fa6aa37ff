"""How two groups of rows differ over all other columns.

In:  a model, and what is known of the rows of each group.
Out: `Comparison`: a divergence of the groups as wholes, and one for every column.

The Jensen-Shannon divergence is finite for any two distributions: at most log 2. Given its cell, a
number has one density in both groups; so cells are enough for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.algebra.evidence import absorb, columns_in, with_cells_of
from strudel.data.argument_checks import RandomState, check_count, generator_from
from strudel.data.bits import x_log_x_of
from strudel.logic.event_forms import is_formula
from strudel.queries.arguments import given_rows
from strudel.queries.columns.column_posterior import as_value
from strudel.queries.columns.joint_table import (
    code_of_model,
    joint_table,
    pandas_frame,
    rows_with_few_unknown,
)
from strudel.queries.columns.known_columns import shares_where_known
from strudel.queries.columns.value_probabilities import value_probabilities
from strudel.queries.marginal import raise_if_impossible
from strudel.queries.model import Model, model_of
from strudel.queries.probabilities import log_probabilities
from strudel.queries.sampling import draw_rows
from strudel.tables.coded_column import CodedColumn

QUERY = "compare"
MAX_STATES = 2**14  # combinations of values of which the divergence is exact


class Comparison(NamedTuple):
    """How two groups differ; divergences in nats, from 0 (alike) to log 2 (nothing in common)."""

    divergence: float  # of all other columns together
    standard_error: float  # 0 where it is exact
    names: tuple[str, ...]  # of the other columns, those that differ most first
    column_divergence: FloatArray  # (n_columns,) exact
    means: AnyArray  # (n_columns, 2) of numbers and dates in each group; NaN for all else
    probabilities: dict[str, dict[Any, tuple[float, float]]]  # column -> value -> in each group

    def to_frame(self) -> Any:
        """A pandas frame with one row per column, those that differ most first."""
        content = {
            "column": list(self.names),
            "divergence": self.column_divergence,
            "mean of a": self.means[:, 0].tolist(),
            "mean of b": self.means[:, 1].tolist(),
        }
        return pandas_frame(content)


def compare(
    model: Model,
    a: Any,
    b: Any = None,
    *,
    max_states: int = MAX_STATES,
    n_samples: int = 2000,
    random_state: RandomState = 0,
) -> Comparison:
    """How two groups differ over all columns that do not define them.

    Parameters
    ----------
    model : Circuit, Mixture or fitted estimator
        Smooth and structured-decomposable.
    a, b : evidence in any form, of one row
        What all rows of a group have in common, such as ``{"sex": "F", "age": (60, None)}`` or
        ``"sex = F & age > 60"``. `b` is everybody by default.
    max_states : int
        The divergence of all columns together is exact up to this many combinations of their
        values. Beyond, it is an average over rows that the model draws of each group.
    n_samples : int
        How many, of each group.
    random_state : int, numpy Generator, RandomState or None
        For these rows.

    Returns
    -------
    Comparison
        `divergence`, Jensen and Shannon's, of the two groups over all columns that neither `a` nor
        `b` names, with its `standard_error`; `column_divergence` of each column on its own, which
        is exact; `means` of numbers and `probabilities` of values in each group; `to_frame()`.

    Raises
    ------
    ValueError
        If a group is impossible, or if the two name all columns.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> from strudel.queries import compare
    >>> found = compare(figure_1_circuit(), {"X3": 1}, {"X3": 0})
    >>> found.names, found.column_divergence.round(4)
    (('X4', 'X2', 'X1'), array([0.1325, 0.1017, 0.0462]))
    >>> round(found.divergence, 4)
    0.2393
    """
    model = model_of(model)
    check_count("max_states", max_states)
    check_count("n_samples", n_samples, 2)
    groups = [_Group.of(model, given) for given in (a, b)]
    if any(group.model.n_vars != model.n_vars for group in groups):
        model = with_cells_of(model, (a, b), QUERY)
        groups = [_Group.of(model, given) for given in (a, b)]
    code = code_of_model(model)
    named = set().union(*(group.named for group in groups))
    columns = [column for column in code.columns if column.name not in named]
    if not columns:
        raise ValueError("a and b name all columns: there is nothing left to compare.")
    shares = [group.shares(columns) for group in groups]
    divergences = np.array([_divergence(p, q) for p, q in zip(*shares, strict=True)])
    joint, error = _joint_divergence(groups, columns, max_states, n_samples, random_state)
    order = np.argsort(-divergences, kind="stable")
    means = np.full((len(columns), 2), np.nan, dtype=object)
    for c, column in enumerate(columns):
        if column.is_numeric:
            found = [float(column.cell_means @ share[c]) for share in shares]
            means[c] = [as_value(column, number) for number in found]
    probabilities = {
        columns[c].name: dict(
            zip(
                columns[c].keys,
                zip(shares[0][c].tolist(), shares[1][c].tolist(), strict=True),
                strict=True,
            )
        )
        for c in order
    }
    names = tuple(columns[c].name for c in order)
    return Comparison(joint, error, names, divergences[order], means[order], probabilities)


class _Group(NamedTuple):
    """A model and a row of what is known, which together say what a group is."""

    model: Model
    row: FloatArray  # (1, n_vars)
    log_p: float
    named: frozenset[str]

    @classmethod
    def of(cls, model: Model, given: Any) -> _Group:
        found, rest = model, given
        if isinstance(given, Mapping) or is_formula(given):
            found, rest, *_ = absorb(model, given)
        row, _ = given_rows(found, rest)
        if len(row) != 1:
            raise ValueError(f"A group is one row or dict, but has {len(row)} rows.")
        log_p = log_probabilities(found, row, QUERY)
        raise_if_impossible(log_p)
        own = columns_in(model, given) | {
            column.name
            for column in code_of_model(found).columns
            if not np.isnan(row[0, column.start : column.stop]).all()
        }
        return cls(found, row, float(log_p[0]), frozenset(own))

    def shares(self, columns: list[CodedColumn]) -> list[FloatArray]:
        """The probability of every value of the columns, in rows that have one."""
        _, found = value_probabilities(self.model, columns, self.row, QUERY)
        known = shares_where_known(self.model, columns, self.row, QUERY)
        return [known.get(c.name, p)[0] for c, p in zip(columns, found, strict=True)]

    def log_probabilities(self, rows: FloatArray) -> FloatArray:
        """The log-probability of rows of the other columns, given the group."""
        both = np.where(np.isnan(self.row), rows, self.row)
        return rows_with_few_unknown(self.model, both, QUERY) - self.log_p


def _divergence(p: FloatArray, q: FloatArray) -> float:
    """Jensen and Shannon's, of two arrays of probabilities."""
    middle = x_log_x_of(0.5 * (p + q)).sum()
    return max(0.0, float(0.5 * (x_log_x_of(p) + x_log_x_of(q)).sum() - middle))


def _joint_divergence(
    groups: list[_Group],
    columns: list[CodedColumn],
    max_states: int,
    n_samples: int,
    random_state: RandomState,
) -> tuple[float, float]:
    """Of all columns together, and its standard error."""
    if math.prod(column.n_values for column in columns) <= max_states:
        p, q = (joint_table(one.model, columns, one.row, QUERY, max_states) for one in groups)
        return _divergence(p.ravel(), q.ravel()), 0.0
    rng, means, variances = generator_from(random_state), [], []
    for g, group in enumerate(groups):
        drawn = draw_rows(group.model, group.row, n_samples, rng, QUERY)[0].astype(np.float64)
        kept = np.full(drawn.shape, np.nan)
        for column in columns:
            kept[:, column.start : column.stop] = drawn[:, column.start : column.stop]
        logs = [one.log_probabilities(kept) for one in groups]
        terms = logs[g] - (np.logaddexp(*logs) - math.log(2.0))
        means.append(terms.mean())
        variances.append(terms.var(ddof=1) / n_samples)
    value = min(max(0.0, float(np.mean(means))), math.log(2.0))
    return value, 0.5 * math.sqrt(sum(variances))
