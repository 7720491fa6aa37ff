"""Evidence that takes parts of cells: ``30 <= age < 40`` where the cells meet elsewhere.

In:  a model that was learned from a table, and dicts of what is known.
Out: the model given the parts of cells, what else is known, and how probable the parts are.

Given its cell, a number is independent of everything else. So an interval weighs each cell with the
share that lies inside, and such weights are weights of the 0/1 variables: one pass up makes them
parameters of the same structure. The column of the new model holds only values of the interval.
Every query asks that model; nothing else in them knows about parts of cells.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from strudel._types import FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.circuits.normalization import normalized_parameters
from strudel.data.containers import read_named_rows
from strudel.errors import NoValueError
from strudel.queries.model import Model, model_of
from strudel.tables.cell_distribution import Region
from strudel.tables.coded_column import Column
from strudel.tables.coded_rows import CodedNames
from strudel.tables.column_conditions import (
    check_possible,
    evidence_shares,
    gaps_of,
    said_region,
)
from strudel.tables.table_code import TableCode

F = TypeVar("F", bound=Callable[..., Any])
SEVERAL = (tuple, list, set, frozenset, range, np.ndarray)


class Absorbed(NamedTuple):
    """A model given parts of cells, what else is known, and the log-probability of the parts."""

    model: Model
    rest: dict[Any, Any]
    log_probability: float


def absorb(model: Model, row: Mapping[Any, Any]) -> Absorbed:
    """The model given those values of a dict that take parts of cells."""
    code = model.table_code
    parts: dict[Any, tuple[Column, FloatArray, Region]] = {}
    for name, value in row.items():
        if code is None or not isinstance(value, SEVERAL) or name not in code.names:
            continue
        column = code.column(name)
        if not column.is_numeric:
            continue
        shares = evidence_shares(column, value)
        check_possible(column, value, shares)
        if not np.isin(shares, (0.0, 1.0)).all():
            parts[name] = column, shares, said_region(column, value)
            if _bit_logs(column, shares) is None:
                raise ValueError(gaps_of(column, value, shares))
    if not parts:
        return Absorbed(model, dict(row), 0.0)
    found, log_p = given_parts(model, list(parts.values()))
    if found is None:
        raise NoValueError(
            f"What is given of {' and '.join(map(repr, parts))} has probability zero under the "
            "model, so it cannot be conditioned on.",
            column=next(iter(parts)),
        )
    return Absorbed(found, {name: row[name] for name in row if name not in parts}, log_p)


def absorbed_rows(model: Model, X: Any) -> list[Absorbed] | None:
    """The same for every dict of a list, if one of them takes parts of cells."""
    rows = None if model.table_code is None else _dicts_with_parts(X)
    found = [absorb(model, row) for row in rows or ()]
    return found if any(part.model is not model for part in found) else None


def given_parts(
    model: Model, parts: list[tuple[Column, FloatArray, Region]]
) -> tuple[Model | None, float]:
    """The model given regions of columns, of which each cell has these shares; and its log-mass.

    None if that is zero.
    """
    code = model.table_code
    assert code is not None
    literal, log_first = np.zeros(2 * model.n_vars), 0.0
    for column, shares, _ in parts:
        logs = _bit_logs(column, shares)
        assert logs is not None
        literal[2 * column.start : 2 * column.stop] += logs[0].ravel()
        log_first += logs[1]
    found, log_p = weigh_literals(model, literal)
    if found is None:
        return None, -np.inf
    changed = {column.name: column.within(region) for column, _, region in parts}
    columns = tuple(changed.get(column.name, column) for column in code.columns)
    return with_code(found, replace(code, columns=columns)), log_p + log_first


def with_code(model: Model, code: TableCode) -> Model:
    """The model with another code of the same variables."""
    names = CodedNames(code, tuple(model.feature_names or ()))
    return model.with_names(names)


def _bit_logs(column: Column, shares: FloatArray) -> tuple[FloatArray, float] | None:
    """Log-weights of the bits of a column, `(n_bits, 2)`, and a log that belongs to all of them.

    Value k has the product of the weights of its bits. None if no weights of bits say that.
    """
    words = column.codewords
    n_values, n_bits = words.shape
    logs = np.zeros((n_bits, 2))
    with np.errstate(divide="ignore"):
        log_share = np.log(shares)
    if n_values > 1 and np.array_equal(words, np.eye(n_values, dtype=np.uint8)):
        logs[:, 1] = log_share
        return logs, 0.0
    if n_values > 1 and not np.array_equal(words, np.tri(n_values, n_bits, -1, dtype=np.uint8)):
        return None
    support = np.flatnonzero(shares)
    first, last = int(support[0]), int(support[-1])
    if len(support) != last - first + 1:
        return None
    if n_values > 1:  # bit j says that the value is j + 1 or more
        logs[:first, 0] = -np.inf
        logs[first:last, 1] = np.diff(log_share[first : last + 1])
        logs[last:, 1] = -np.inf
    return logs, float(log_share[first])


def weigh_literals(model: Model, literal_log_weight: FloatArray) -> tuple[Model | None, float]:
    """The model in which a row counts as much as the product of its literals' weights.

    With the log of what it adds up to before it is normalised; None where that is zero.
    """
    if isinstance(model, Mixture):
        columns = [
            normalized_parameters(
                model.structure.edges, column, model.n_vars, None, literal_log_weight
            )
            for column in model.edge_log_theta.T
        ]
        logs = np.array([log_p for _, log_p in columns]) + model.log_weight
        log_p = float(np.logaddexp.reduce(logs))
        if log_p == -np.inf:
            return None, log_p
        kept = np.flatnonzero(logs > -np.inf)
        log_theta = np.stack([columns[c][0] for c in kept], axis=1)
        return Mixture(model.structure, log_theta, logs[kept] - log_p), log_p
    circuit, log_p = _weigh(model, literal_log_weight)
    return (None if log_p == -np.inf else circuit), log_p


def _weigh(circuit: Circuit, literal_log_weight: FloatArray) -> tuple[Circuit, float]:
    log_theta, log_p = normalized_parameters(
        circuit.edges, circuit.edge_log_theta, circuit.n_vars, None, literal_log_weight
    )
    return circuit.with_parameters(log_theta), log_p


def takes_parts_of_cells(
    *names: str, with_log: Callable[[Any, float], Any] | None = None
) -> Callable[[F], F]:
    """Let a query of a model, its first argument, be given parts of cells in these arguments.

    A list of dicts is asked one by one if some dict takes parts of cells, and the answers are
    joined. `with_log` changes an answer that includes the probability of what is given: it gets the
    log-probability of the parts of cells.
    """

    def decorate(query: F) -> F:
        signature = inspect.signature(query)

        @functools.wraps(query)
        def ask(*args: Any, **options: Any) -> Any:
            bound = signature.bind(*args, **options).arguments
            for name in names:
                rows = _dicts_with_parts(bound.get(name))
                if rows is None:
                    continue
                first = next(iter(bound))
                if first == "self" or model_of(bound[first]).table_code is None:
                    continue
                is_single = isinstance(bound[name], Mapping)
                answers = []
                for row in rows:
                    model, rest, log_p = absorb(model_of(bound[first]), row)
                    asked = dict(bound) | {first: model, name: rest if is_single else [rest]}
                    answer = query(**asked)
                    answers.append(answer if with_log is None else with_log(answer, log_p))
                return answers[0] if is_single else _joined(answers)
            return query(*args, **options)

        return ask  # type: ignore[return-value]

    return decorate


def _dicts_with_parts(given: Any) -> list[Mapping[Any, Any]] | None:
    """The dicts of evidence, if one of them may take parts of cells."""
    rows = read_named_rows(given) if isinstance(given, Mapping | list | tuple) else None
    if rows is None or not all(isinstance(row, Mapping) for row in rows):
        return None
    several = any(isinstance(value, SEVERAL) for row in rows for value in row.values())
    return rows if several else None


def _joined(answers: list[Any]) -> Any:
    """Answers to single rows as one answer to all of them."""
    first = answers[0]
    if len(answers) == 1:
        return first
    if isinstance(first, tuple) and not hasattr(first, "_fields"):
        return tuple(_joined(list(parts)) for parts in zip(*answers, strict=True))
    if isinstance(first, np.ndarray):
        return np.concatenate(answers)
    if hasattr(first, "joined"):  # `ColumnMarginals`
        return first.joined(answers)
    import narwhals as nw

    frame = nw.concat([nw.from_native(answer, eager_only=True) for answer in answers]).to_native()
    return frame.reset_index(drop=True) if hasattr(frame, "reset_index") else frame
