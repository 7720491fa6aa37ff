"""Evidence that takes parts of cells: ``30 <= age < 40`` where the cells meet elsewhere.

In:  a model that was learned from a table, and regions of its columns.
Out: the model given the regions, and how probable they are.

Given its cell, a number or rare category is independent of everything else. So an interval weighs
each cell with the share that lies inside, and such weights are weights of the 0/1 variables: one
pass up makes them parameters of the same structure. The column of the new model holds only values
of the interval.
Every query asks that model; nothing else in them knows about parts of cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from strudel._types import AnyArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.circuits.normalization import normalized_columns, normalized_parameters
from strudel.queries.model import Model
from strudel.tables.coded_column import CodedColumn
from strudel.tables.density import Region
from strudel.tables.table_code import CodedNames, TableCode

N_RECENT = 4  # models given parts of cells that a model remembers
_RECENT: WeakKeyDictionary[Model, dict[Any, tuple[Model | None, float, AnyArray]]] = (
    WeakKeyDictionary()
)


def given_parts(
    model: Model, parts: list[tuple[CodedColumn, FloatArray, Region]]
) -> tuple[Model | None, float, AnyArray]:
    """The model given regions of columns, of which each cell has these shares; and its log-mass.

    None if that is zero. Also which components are left. The last few are kept, for people ask
    several questions about one group.
    """
    recent = _RECENT.setdefault(model, {})
    key = tuple((column.name, shares.tobytes(), region) for column, shares, region in parts)
    if key not in recent:
        recent[key] = _given_parts(model, parts)
    found = recent[key] = recent.pop(key)  # the last is the newest
    while len(recent) > N_RECENT:
        del recent[next(iter(recent))]
    return found


def _given_parts(
    model: Model, parts: list[tuple[CodedColumn, FloatArray, Region]]
) -> tuple[Model | None, float, AnyArray]:
    code = model.table_code
    assert code is not None
    literal, log_first = np.zeros(2 * model.n_vars), 0.0
    for column, shares, _ in parts:
        logs = bit_logs(column, shares)
        assert logs is not None
        literal[2 * column.start : 2 * column.stop] += logs[0].ravel()
        log_first += logs[1]
    found, log_p, kept = weigh_literals(model, literal)
    if found is None:
        return None, -np.inf, kept
    changed = {column.name: column.within(region) for column, _, region in parts}
    columns = tuple(changed.get(column.name, column) for column in code.columns)
    return with_code(found, replace(code, columns=columns)), log_p + log_first, kept


def with_commonest(
    model: Model, columns: Sequence[CodedColumn] | None = None
) -> tuple[Model, float]:
    """The model in which a cell of rare categories weighs as much as the commonest of them.

    Of all columns, or of some; with the log of what it adds up to before it is normalised. So its
    most probable cells are those of the most probable values.
    """
    code = model.table_code
    every = columns if columns is not None else () if code is None else code.columns
    literal, log_first = np.zeros(2 * model.n_vars), 0.0
    for column in (column for column in every if column.is_shared):
        logs = bit_logs(column, column.value_share[column.commonest])
        if logs is not None:
            literal[2 * column.start : 2 * column.stop] += logs[0].ravel()
            log_first += logs[1]
    if not literal.any():
        return model, log_first
    found, log_p, _ = weigh_literals(model, literal)
    return (model, 0.0) if found is None else (found, log_p + log_first)


def with_code(model: Model, code: TableCode) -> Model:
    """The model with another code of the same variables."""
    names = CodedNames(code, tuple(model.feature_names or ()))
    return model.with_names(names)


def bit_logs(column: CodedColumn, shares: FloatArray) -> tuple[FloatArray, float] | None:
    """Log-weights of the bits of a column, `(n_bits, 2)`, and a log that belongs to all of them.

    Cell k has the product of the weights of its bits. None if no weights of bits say that.
    """
    words = column.cell_words
    n_cells, n_bits = words.shape
    logs = np.zeros((n_bits, 2))
    with np.errstate(divide="ignore"):
        log_share = np.log(shares)
    if n_cells > 1 and np.array_equal(words, np.eye(n_cells, dtype=np.uint8)):
        logs[:, 1] = log_share
        return logs, 0.0
    if n_cells > 1 and not np.array_equal(words, np.tri(n_cells, n_bits, -1, dtype=np.uint8)):
        return None
    support = np.flatnonzero(shares)
    first, last = int(support[0]), int(support[-1])
    if len(support) != last - first + 1:
        return None
    if n_cells > 1:  # bit j says that the value is j + 1 or more
        logs[:first, 0] = -np.inf
        logs[first:last, 1] = np.diff(log_share[first : last + 1])
        logs[last:, 1] = -np.inf
    return logs, float(log_share[first])


def weigh_literals(
    model: Model, literal_log_weight: FloatArray
) -> tuple[Model | None, float, AnyArray]:
    """The model in which a row counts as much as the product of its literals' weights.

    With the log of what it adds up to before it is normalised, and which components are left; None
    where that is none.
    """
    if not isinstance(model, Mixture):
        circuit, log_p = _weigh(model, literal_log_weight)
        return (None if log_p == -np.inf else circuit), log_p, np.array([log_p > -np.inf])
    log_theta, totals = normalized_columns(
        model.structure.edges, model.edge_log_theta, model.n_vars, None, literal_log_weight
    )
    logs = totals + model.log_weight
    log_p, kept = float(np.logaddexp.reduce(logs)), logs > -np.inf
    if log_p == -np.inf:
        return None, log_p, kept
    log_theta = log_theta if kept.all() else log_theta[:, kept]
    made = Mixture(model.structure, log_theta, logs[kept] - log_p, model.known_by(kept))
    return made, log_p, kept


def _weigh(circuit: Circuit, literal_log_weight: FloatArray) -> tuple[Circuit, float]:
    log_theta, log_p = normalized_parameters(
        circuit.edges, circuit.edge_log_theta, circuit.n_vars, None, literal_log_weight
    )
    return circuit.with_parameters(log_theta), log_p
