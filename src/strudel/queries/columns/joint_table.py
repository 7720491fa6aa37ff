"""The probability of every combination of values of some columns.

In:  a model, columns of its table (or 0/1 variables), and what is given.
Out: an array with one axis per column.

Where a model leaves codes of no value some probability, the values share it in proportion.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from strudel._names import did_you_mean, names_of, quote
from strudel._types import FloatArray
from strudel.circuits.bit_likelihood import rows_log_likelihood
from strudel.circuits.mixture import Mixture
from strudel.circuits.walks import raise_if_impossible
from strudel.data.validation import slices
from strudel.errors import CircuitPropertyError
from strudel.queries.arguments import given_rows
from strudel.queries.columns.value_probabilities import respects, value_probabilities
from strudel.queries.model import Model
from strudel.queries.probabilities import log_probabilities
from strudel.tables.coded_column import CodedColumn
from strudel.tables.table_code import TableCode, code_of_bits

BLOCK_CELLS = 2**22  # cells of the rows made at a time
FEW_STATES = 64  # of unknown columns, to complete rows with all of them
WORTH_A_PASS = 4  # values of a column: fewer are asked for one by one as quickly


def code_of_model(model: Model) -> TableCode:
    """The code of a model's table; without one, every 0/1 variable is a column."""
    if model.table_code is not None:
        return model.table_code
    return code_of_bits(list(map(str, names_of(model.n_vars, model.feature_names))), "pandas")


def pandas_frame(content: Mapping[str, Any]) -> Any:
    """A frame of pandas with these columns."""
    import narwhals as nw

    return nw.from_dict(dict(content), backend="pandas").to_native()


def find_columns(model: Model, asked: Any, name: str) -> list[CodedColumn]:
    """One column or several by name, or without a table variables by name or number."""
    code = code_of_model(model)
    found: list[CodedColumn] = []
    items: list[Any] = [asked] if isinstance(asked, str | int | np.integer) else list(asked)
    for item in items:
        is_number = model.table_code is None and isinstance(item, int | np.integer)
        if is_number and 0 <= int(item) < len(code.columns):
            column = code.columns[int(item)]
        elif isinstance(item, str) and item in code.names:
            column = code.column(item)
        else:
            raise ValueError(
                f"{name} names {item!r}, which is not a column. "
                f"{did_you_mean(str(item), code.names)}"
            )
        if column in found:
            raise ValueError(f"{name} must name each column once, but has {item!r} twice.")
        found.append(column)
    if not found:
        raise ValueError(f"{name} must name at least one column, but is empty.")
    return found


def rows_with_few_unknown(model: Model, rows: FloatArray, query: str) -> FloatArray:
    """The log-probability of rows in which mostly all columns but a few are known.

    A complete row passes a mixture hundreds of times as fast as one with unknown values: where
    the unknown columns have few values together, all of them are completed and added up.
    """
    if not isinstance(model, Mixture) or not model.has_deterministic_components:
        return log_probabilities(model, rows, query)
    columns = code_of_model(model).columns
    is_open = np.column_stack([np.isnan(rows[:, c.start : c.stop]).any(axis=1) for c in columns])
    is_part = np.isnan(rows).sum(axis=1) != is_open @ [len(c.variables) for c in columns]
    log_p = np.empty(len(rows))
    patterns, place = np.unique(is_open, axis=0, return_inverse=True)
    for p, pattern in enumerate(patterns):
        own = np.flatnonzero(place.ravel() == p)
        unknown = [column for column, is_asked in zip(columns, pattern, strict=True) if is_asked]
        shape = tuple(len(column.cell_words) for column in unknown)
        n_states = math.prod(shape)
        if (
            n_states > FEW_STATES
            or is_part[own].any()
            or not all(respects(model, column, query) for column in unknown)
        ):
            log_p[own] = log_probabilities(model, rows[own], query)
            continue
        for part in slices(len(own), max(1, BLOCK_CELLS // (n_states * model.n_vars))):
            asked = np.repeat(rows[own[part]], n_states, axis=0)
            state = np.tile(np.arange(n_states), len(asked) // n_states)
            states = np.unravel_index(state, shape) if unknown else ()
            for column, place_of_value in zip(unknown, states, strict=True):
                asked[:, column.start : column.stop] = column.cell_words[place_of_value]
            logs = rows_log_likelihood(model, asked.astype(np.uint8)).reshape(-1, n_states)
            log_p[own[part]] = np.logaddexp.reduce(logs, axis=1)
    return log_p


def joint_table(
    model: Model, columns: Sequence[CodedColumn], given: Any, query: str, max_states: int
) -> FloatArray:
    """The probability of all values of the columns together, given one row of what is known."""
    row, log_given = _one_row(model, columns, given, query, max_states)
    return joint_table_of_row(model, columns, row, log_given, query)


def joint_table_of_row(
    model: Model, columns: Sequence[CodedColumn], row: FloatArray, log_given: float, query: str
) -> FloatArray:
    """The same given a row `(1, n_vars)` of the 0/1 variables and its log-probability.

    One pass up and one down for all values of the others gives all of the largest column.
    """
    largest = max(range(len(columns)), key=lambda c: columns[c].n_values)
    column, others = columns[largest], [*columns[:largest], *columns[largest + 1 :]]
    if column.n_values < WORTH_A_PASS or not respects(model, column, query):
        chance = np.exp(_log_states(model, columns, row, query) - log_given)
        return np.asarray(chance / chance.sum())
    shape = tuple(other.n_values for other in others)
    chance = np.empty((math.prod(shape), column.n_values))
    for part in slices(len(chance), max(1, BLOCK_CELLS // model.n_vars)):
        states, log_share = _states(others, row, part, shape)
        log_p, [shares] = value_probabilities(model, [column], states, query)
        log_p = log_p + log_share
        is_possible = log_p > -np.inf
        own = np.exp(log_p - log_given)[:, np.newaxis] * shares
        chance[part] = np.where(is_possible[:, np.newaxis], own, 0.0)
    return np.moveaxis((chance / chance.sum()).reshape(*shape, -1), -1, largest)


def log_joint_table(
    model: Model, columns: Sequence[CodedColumn], given: Any, query: str, max_states: int
) -> tuple[FloatArray, float]:
    """The log-probability of all values of the columns with what is given, and of that alone.

    Codes of no value keep the probability that the model leaves them.
    """
    row, log_given = _one_row(model, columns, given, query, max_states)
    return _log_states(model, columns, row, query), log_given


def _one_row(
    model: Model, columns: Sequence[CodedColumn], given: Any, query: str, max_states: int
) -> tuple[FloatArray, float]:
    """What is given as a row, with its log-probability; refuses too many states."""
    n_states = math.prod(column.n_values for column in columns)
    if n_states > max_states:
        raise CircuitPropertyError(
            f"{query} looks at all {n_states} combinations of the values of "
            f"{quote([column.name for column in columns])}, more than max_states = {max_states}. "
            "Ask about fewer columns, or allow more with max_states."
        )
    rows, _ = given_rows(model, given)
    if len(rows) != 1:
        raise ValueError(f"given must be one row, but has {len(rows)}. Ask for one row at a time.")
    log_given = log_probabilities(model, rows, query)
    raise_if_impossible(log_given)
    return rows, float(log_given[0])


def _log_states(
    model: Model, columns: Sequence[CodedColumn], row: FloatArray, query: str
) -> FloatArray:
    """The log-probability of every combination of values together with a row."""
    shape = tuple(column.n_values for column in columns)
    log_joint = np.empty(math.prod(shape))
    for part in slices(len(log_joint), max(1, BLOCK_CELLS // model.n_vars)):
        states, log_share = _states(columns, row, part, shape)
        log_joint[part] = log_probabilities(model, states, query) + log_share
    return log_joint.reshape(shape)


def _states(
    columns: Sequence[CodedColumn], row: FloatArray, part: slice, shape: tuple[int, ...]
) -> tuple[FloatArray, FloatArray]:
    """A row with some combinations of values of columns, and the log of their share of cells.

    That of values that the row contradicts is -inf.
    """
    places = np.unravel_index(np.arange(part.start, part.stop), shape)
    states = np.repeat(row, part.stop - part.start, axis=0)
    log_share = np.zeros(len(states))
    for column, place in zip(columns, places, strict=True):
        words = column.codewords[place].astype(np.float64)
        against = np.any(row[:, column.start : column.stop] == 1.0 - words, axis=1)
        with np.errstate(divide="ignore"):
            own = np.log(column.value_share[place])
        log_share += np.where(against, -np.inf, own)
        states[:, column.start : column.stop] = words
    return states, log_share
