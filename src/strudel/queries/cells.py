"""Probabilities of rows, and of every cell of columns given them.

In:  a circuit over columns, and evidence.
Out: log-probabilities; how probable each component and each cell is; the joint table of columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from strudel._names import quote
from strudel._types import AnyArray, FloatArray
from strudel.circuits.column_circuit import ColumnCircuit
from strudel.circuits.passes import distinct_rows
from strudel.circuits.walks import (
    LeafRows,
    component_logs,
    component_logs_of,
    leaf_flows,
    leaf_rows,
    rows_at_a_time,
)
from strudel.data.validation import slices
from strudel.errors import CircuitPropertyError
from strudel.queries.given import Asked, component_posterior, log_mean
from strudel.tables.evidence import Evidence

BLOCK_LOGS = 2**22  # of rows and components, made at a time


def log_probabilities(circuit: ColumnCircuit, evidence: Evidence) -> FloatArray:
    """Log-probability of every row of evidence, cells for numbers, unknown values summed out."""
    return log_mean(circuit, component_logs(circuit, evidence))


def posterior_of_components(circuit: ColumnCircuit, evidence: Evidence) -> FloatArray:
    """How probable every component is given each row; NaN where a row is impossible."""
    return component_posterior(circuit, component_logs(circuit, evidence))


def cell_probabilities(
    circuit: ColumnCircuit, evidence: Evidence, places: Sequence[int]
) -> tuple[FloatArray, list[FloatArray]]:
    """Log-probability of every row, and for each column the probability of its cells given it.

    NaN where a row is impossible.
    """
    codes, place_of = distinct_rows(evidence.codes)
    rows = leaf_rows(circuit, evidence.weights)
    log_p = np.empty(len(codes))
    found = [np.empty((len(codes), circuit.columns[place].n_cells)) for place in places]
    for part in slices(len(codes), rows_at_a_time(circuit)):
        logs, flows = leaf_flows(circuit, rows, codes[part])
        log_p[part] = log_mean(circuit, logs)
        shares = flows * component_posterior(circuit, logs)[:, :, np.newaxis]
        for own, place in zip(found, places, strict=True):
            own[part] = _cells_of(circuit, rows, codes[part], shares, place, evidence)
    return log_p[place_of], [own[place_of] for own in found]


def _cells_of(
    circuit: ColumnCircuit,
    rows: LeafRows,
    codes: AnyArray,
    shares: FloatArray,
    place: int,
    evidence: Evidence,
) -> FloatArray:
    """The probability of every cell of one column, from how probable it is to pass its leaves."""
    column, own = circuit.columns[place], codes[:, place]
    leaves = slice(*circuit.column_leaves[place : place + 2])
    chance = np.zeros((len(codes), column.n_cells))
    is_cell = own < column.n_cells
    chance[np.flatnonzero(is_cell), own[is_cell]] = 1.0
    log_p = circuit.leaf_table(place)  # (n_leaves, n_cells, k)
    for code in np.unique(own[~is_cell]).tolist():
        at = np.flatnonzero(own == code)
        log_total = rows.log_value[rows.first[leaves] + code]  # (n_leaves, k)
        with np.errstate(invalid="ignore", divide="ignore"):
            log_weight = np.log(evidence.weights[place][code - column.n_cells])
            given = np.exp(log_p + log_weight[:, np.newaxis] - log_total[:, np.newaxis])
        given = np.where(np.isnan(given), 0.0, given).transpose(2, 0, 1)  # (k, n_leaves, n_cells)
        flat = given.reshape(-1, column.n_cells)
        chance[at] = shares[at][:, :, leaves].reshape(len(at), -1) @ flat
    is_lost = np.isnan(shares[:, :, 0]).any(axis=1)
    total = chance.sum(axis=1, keepdims=True)
    chance /= np.where(total > 0.0, total, 1.0)
    chance[is_lost] = np.nan
    return chance


def rest_probabilities(circuit: ColumnCircuit, evidence: Evidence) -> tuple[FloatArray, FloatArray]:
    """Log-probability of every row `(n_rows,)`, and of what else it knows than each column.

    The latter is `(n_rows, n_columns)`: one question for each column that is left out, since what
    a leaf of zero would have let pass is in no walk down.
    """
    rows, n_columns = leaf_rows(circuit, evidence.weights), len(circuit.columns)
    without = np.repeat(evidence.codes[np.newaxis], 1 + n_columns, axis=0)
    for place, column in enumerate(circuit.columns):
        without[1 + place, :, place] = column.n_cells
    codes, place_of = distinct_rows(without.reshape(-1, n_columns))
    log_p = np.empty(len(codes))
    for part in slices(len(codes), max(1, BLOCK_LOGS // circuit.n_components)):
        log_p[part] = log_mean(circuit, component_logs_of(circuit, rows, codes[part]))
    found = log_p[place_of].reshape(1 + n_columns, -1)
    return found[0], found[1:].T


def joint_table(
    asked: Asked, places: Sequence[int], query: str, max_states: int
) -> tuple[FloatArray, float]:
    """The log-probability of all cells of the columns with what is given, and of that alone.

    One walk up and one down for all cells of the others gives all of the largest column.
    """
    circuit, evidence = asked.circuit, asked.evidence
    shape = tuple(circuit.columns[place].n_cells for place in places)
    if math.prod(shape) > max_states:
        names = [circuit.columns[place].name for place in places]
        raise CircuitPropertyError(
            f"{query} looks at all {math.prod(shape)} combinations of the values of "
            f"{quote(names)}, more than max_states = {max_states}. "
            "Ask about fewer columns, or allow more with max_states."
        )
    if len(evidence) != 1:
        raise ValueError(
            f"given must be one row, but has {len(evidence)}. Ask for one row at a time."
        )
    log_given = float(log_probabilities(circuit, evidence)[0])
    largest = int(np.argmax(shape))
    others = [place for place in places if place != places[largest]]
    rest = tuple(circuit.columns[place].n_cells for place in others)
    n_rows = math.prod(rest)
    cells = np.unravel_index(np.arange(n_rows), rest) if rest else ()
    states = evidence.with_states(dict(zip(others, cells, strict=True)), n_rows)
    log_p, [shares] = cell_probabilities(circuit, states, [places[largest]])
    with np.errstate(divide="ignore"):
        logs = np.log(np.nan_to_num(shares)) + np.where(
            np.isnan(shares[:, :1]), 0.0, log_p[:, np.newaxis]
        )
    return np.moveaxis(logs.reshape(*rest, -1), -1, largest), log_given
