"""How many of some columns are 1, or in a region: generating polynomials up the vtree.

In:  a circuit over columns, evidence, and for each counted column what is inside and what outside.
Out: the probability of every number of columns that are inside.

Coefficient j of a node's polynomial is the probability that exactly j of the counted columns below
it are inside, given the evidence. Products multiply polynomials, sums average them. Each polynomial
is positive and adds up to 1, so no digits are lost, whatever the evidence costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.walks import edge_shares, leaf_rows, leaf_values_of, up
from strudel.data.validation import slices
from strudel.logic.column_classes import ONE, ZERO, Count
from strudel.queries.by_block import lazily
from strudel.queries.cells import distributions
from strudel.queries.given import (
    ask,
    component_posterior,
    find_columns,
    log_mean,
    raise_if_impossible,
)
from strudel.tables.density import Region
from strudel.tables.evidence import Evidence
from strudel.tables.schema import Columns

BLOCK_VALUES = 2**24  # coefficients in memory at a time, as long as that leaves one row


@lazily("given")
def count_distribution(model: Any, variables: Any = None, given: Any = None) -> FloatArray:
    """Probability that exactly j of some variables are 1, for every j.

    Parameters
    ----------
    model : Circuit or fitted estimator
    variables : names or numbers of variables, optional
        What is counted; all variables by default. Columns of two values count with the second.
    given : evidence in any form, as in `probability`, optional
        Nothing is known by default. Known variables count with their values.

    Returns
    -------
    ndarray of shape (n_rows, n_counted + 1)
        The probabilities of 0, 1, 2, ... ones. Without the first axis when `given` is a single row,
        a dict or nothing.

    Raises
    ------
    ValueError
        If a row of `given` has probability zero.

    Examples
    --------
    >>> from strudel.circuits import figure_1_circuit
    >>> count_distribution(figure_1_circuit(), ["X1", "X2"], given={"X3": 1}).round(4)
    array([0.06, 0.58, 0.36])
    """
    asked = ask(model, given)
    circuit = asked.circuit
    places = list(range(len(circuit.columns)))
    if variables is not None:
        places = find_columns(circuit, variables, "variables")
    _need_two_values(circuit.columns, places)
    sides = dict.fromkeys(places, ONE), dict.fromkeys(places, ZERO)
    logs, counts = counts_given(circuit, asked.evidence, *sides)
    raise_if_impossible(log_mean(circuit, logs))
    found = np.einsum("rk,rkj->rj", component_posterior(circuit, logs), counts)
    return found[0] if asked.is_single else found


def _need_two_values(columns: Columns, places: list[int]) -> None:
    for column in (columns[place] for place in places):
        if column.is_numeric or column.n_cells != 2:
            raise ValueError(
                "count_distribution counts variables of two values, but column "
                f"{column.name!r} is a {column.kind} with {column.n_cells}. "
                'Count events such as "age > 60" with at_least, at_most and exactly.'
            )


def log_counts(
    circuit: Circuit, evidence: Evidence, counted: Count, faint: float
) -> tuple[FloatArray, AnyArray]:
    """Log-probabilities `(n_rows, k)` of a count of facts together with every row.

    Also in which rows the count may hold, but is less probable than `faint`.
    """
    evidence = evidence.within(counted.facts)
    logs, counts = counts_given(circuit, evidence, counted.inside, counted.outside)
    with np.errstate(divide="ignore"):
        share = np.log(counts[:, :, counted.low : counted.high + 1].sum(axis=2))
    inside, outside = evidence.within(counted.inside), evidence.within(counted.outside)
    may = np.array([inside.is_possible(place) for place in counted.inside]).sum(axis=0)
    must = len(counted.inside) - np.sum(
        [outside.is_possible(place) for place in counted.inside], axis=0
    )
    may_hold = (must <= counted.high) & (may >= counted.low)
    is_faint = np.any((share < faint) & (logs > -np.inf), axis=1) & may_hold
    return np.where(logs > -np.inf, logs + share, -np.inf), is_faint


def counts_given(
    circuit: Circuit,
    evidence: Evidence,
    inside: Mapping[int, Region],
    outside: Mapping[int, Region],
) -> tuple[FloatArray, FloatArray]:
    """Log-probabilities `(n_rows, k)`, and that of every number of columns that are inside.

    That is `(n_rows, k, n_counted + 1)`, given each row and component.
    """
    k, n_rows = circuit.n_components, len(evidence)
    logs, counts = np.empty((n_rows, k)), np.empty((n_rows, k, len(inside) + 1))
    tables = [evidence, evidence.within(outside), evidence.within(inside)]
    looked_up = [(leaf_rows(circuit, own.weights), own.codes) for own in tables]
    width = circuit.n_nodes * (len(inside) + 1) + circuit.n_edges
    for part in slices(n_rows, max(1, BLOCK_VALUES // (width * k))):
        every, *both = (leaf_values_of(circuit, rows, codes[part]) for rows, codes in looked_up)
        values = up(circuit, every)
        logs[part] = values[circuit.vtree.root][-1]
        sides = {}
        for place in inside:
            with np.errstate(invalid="ignore"):
                shares = np.exp(np.stack([own[place] - every[place] for own in both], axis=-1))
            sides[place] = np.nan_to_num(shares).reshape(len(shares), -1, 2)
        found = distributions(circuit, partial(_shares_at, circuit, values), sides, "counts")
        counts[part] = found.reshape(part.stop - part.start, k, -1)
    return logs, counts


def _shares_at(circuit: Circuit, values: list[FloatArray], v: int) -> FloatArray:
    """How probable each edge at a vtree node is, `(n_edges, n_rows * k)`."""
    shares = edge_shares(circuit, v, values)
    return shares.reshape(len(shares), -1)
