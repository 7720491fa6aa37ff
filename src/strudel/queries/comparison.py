"""How two groups of rows differ over all other columns.

In:  a model, and what is known of the rows of each group.
Out: `Comparison`: a divergence of the groups as wholes, and one for every column.

The Jensen-Shannon divergence is finite for any two distributions: at most log 2. Given its cell, a
number has one density in both groups; so cells are enough for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.other_columns import with_edges
from strudel.data.argument_checks import RandomState, check_count, generator_from
from strudel.data.bits import x_log_x_of
from strudel.queries.cells import cell_probabilities, joint_table, log_probabilities
from strudel.queries.column_posterior import as_value
from strudel.queries.given import (
    Asked,
    as_shown,
    ask,
    pandas_frame,
    raise_if_impossible,
    where_known,
)
from strudel.queries.likelihood import log_probabilities_of_rows
from strudel.queries.sampling import draw_cells

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
    model: Any,
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
    model : Circuit or fitted estimator
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
    check_count("max_states", max_states)
    check_count("n_samples", n_samples, 2)
    groups = [_group(model, given) for given in (a, b)]
    fine = {
        place: {end for group in groups for end in group.circuit.columns[place].edges}
        for place, column in enumerate(groups[0].circuit.columns)
        if column.is_numeric
    }
    groups = [group.with_edges(fine) for group in groups]
    columns = groups[0].circuit.columns
    named = set().union(*(group.named for group in groups))
    places = [place for place in range(len(columns)) if place not in named]
    if not places:
        raise ValueError("a and b name all columns: there is nothing left to compare.")
    shares = [group.shares(places) for group in groups]
    divergences = np.array([_divergence(p, q) for p, q in zip(*shares, strict=True)])
    joint, error = _joint_divergence(groups, places, max_states, n_samples, random_state)
    order = np.argsort(-divergences, kind="stable")
    means = np.full((len(places), 2), np.nan, dtype=object)
    for c, place in enumerate(places):
        column = columns[place]
        if column.is_numeric:
            found = [float(column.cell_means @ share[c]) for share in shares]
            means[c] = [as_value(column, number) for number in found]
    probabilities = {}
    for c in order:
        both = zip(shares[0][c].tolist(), shares[1][c].tolist(), strict=True)
        column = columns[places[c]]
        probabilities[column.name] = dict(zip(column.keys, both, strict=True))
    names = tuple(columns[places[c]].name for c in order)
    return Comparison(joint, error, names, divergences[order], means[order], probabilities)


@dataclass(frozen=True, eq=False)
class _Group:
    """A question of one row, which says what a group is, and the columns that it names."""

    asked: Asked
    log_p: float
    named: frozenset[int]

    @property
    def circuit(self) -> Circuit:
        return self.asked.circuit

    def with_edges(self, edges: Mapping[int, set[float]]) -> _Group:
        """The same group, whose columns that are not named have more cells."""
        open_ = {place: own for place, own in edges.items() if place not in self.named}
        finer = with_edges(self.circuit, open_)
        evidence = self.asked.evidence
        if finer is self.circuit:
            return self
        return replace(self, asked=Asked(finer, evidence.refined(finer.columns)))

    def shares(self, places: list[int]) -> list[FloatArray]:
        """The probability of every cell of the columns, in rows that have a value of them."""
        found = []
        for place in places:
            circuit = where_known(self.circuit, [self.circuit.columns.names[place]])
            evidence = self.asked.evidence.over(circuit.columns)
            found.append(cell_probabilities(circuit, evidence, [place])[1][0][0])
        return found

    def log_probabilities(self, cells: Mapping[int, AnyArray], n_rows: int) -> FloatArray:
        """The log-probability of cells of the other columns, given the group."""
        states = self.asked.evidence.with_states(cells, n_rows)
        return log_probabilities_of_rows(self.circuit, states) - self.log_p


def _group(model: Any, given: Any) -> _Group:
    asked = as_shown(ask(model, given).one_row())
    log_p = log_probabilities(asked.circuit, asked.evidence)
    raise_if_impossible(log_p)
    return _Group(asked, float(log_p[0]), frozenset(asked.named))


def _divergence(p: FloatArray, q: FloatArray) -> float:
    """Jensen and Shannon's, of two arrays of probabilities."""
    middle = x_log_x_of(0.5 * (p + q)).sum()
    return max(0.0, float(0.5 * (x_log_x_of(p) + x_log_x_of(q)).sum() - middle))


def _joint_divergence(
    groups: list[_Group],
    places: list[int],
    max_states: int,
    n_samples: int,
    random_state: RandomState,
) -> tuple[float, float]:
    """Of all columns together, and its standard error."""
    columns = groups[0].circuit.columns
    if math.prod(columns[place].n_cells for place in places) <= max_states:
        tables = []
        for group in groups:
            logs, log_given = joint_table(group.asked, places, QUERY, max_states)
            table = np.exp(logs - log_given)
            tables.append(table / table.sum())
        return _divergence(*tables), 0.0
    rng, means, variances = generator_from(random_state), [], []
    for g, group in enumerate(groups):
        drawn = draw_cells(group.circuit, group.asked.evidence, n_samples, rng)[0]
        cells = {place: drawn[:, place] for place in places}
        own = [one.log_probabilities(cells, n_samples) for one in groups]
        terms = own[g] - (np.logaddexp(*own) - math.log(2.0))
        means.append(terms.mean())
        variances.append(terms.var(ddof=1) / n_samples)
    value = min(max(0.0, float(np.mean(means))), math.log(2.0))
    return value, 0.5 * math.sqrt(sum(variances))
