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
from strudel.data.containers import slices
from strudel.errors import CircuitPropertyError
from strudel.queries.arguments import given_rows
from strudel.queries.marginal import raise_if_impossible
from strudel.queries.model import Model
from strudel.queries.probabilities import log_probabilities
from strudel.tables.coded_column import Column
from strudel.tables.table_code import TableCode, code_of_bits

BLOCK_CELLS = 2**22  # cells of the rows made at a time


def code_of_model(model: Model) -> TableCode:
    """The code of a model's table; without one, every 0/1 variable is a column."""
    if model.table_code is not None:
        return model.table_code
    return code_of_bits(list(map(str, names_of(model.n_vars, model.feature_names))), "pandas")


def pandas_frame(content: Mapping[str, Any]) -> Any:
    """A frame of pandas with these columns."""
    import narwhals as nw

    return nw.from_dict(dict(content), backend="pandas").to_native()


def find_columns(model: Model, asked: Any, name: str) -> list[Column]:
    """One column or several by name, or without a table variables by name or number."""
    code = code_of_model(model)
    found: list[Column] = []
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


def joint_table(
    model: Model, columns: Sequence[Column], given: Any, query: str, max_states: int
) -> FloatArray:
    """The probability of all values of the columns together, given one row of what is known."""
    log_joint, log_given = log_joint_table(model, columns, given, query, max_states)
    chance = np.exp(log_joint - log_given)
    return np.asarray(chance / chance.sum())


def log_joint_table(
    model: Model, columns: Sequence[Column], given: Any, query: str, max_states: int
) -> tuple[FloatArray, float]:
    """The log-probability of all values of the columns with what is given, and of that alone.

    Codes of no value keep the probability that the model leaves them.
    """
    shape = tuple(column.n_values for column in columns)
    n_states = math.prod(shape)
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
    log_joint = np.empty(n_states)
    for part in slices(n_states, max(1, BLOCK_CELLS // model.n_vars)):
        places = np.unravel_index(np.arange(part.start, part.stop), shape)
        states = np.repeat(rows, part.stop - part.start, axis=0)
        against = np.zeros(len(states), dtype=bool)
        for column, place in zip(columns, places, strict=True):
            words = column.codewords[place].astype(np.float64)
            known = rows[:, column.start : column.stop]
            against |= np.any(known == 1.0 - words, axis=1)
            states[:, column.start : column.stop] = words
        log_p = log_probabilities(model, states, query)
        for column, place in zip(columns, places, strict=True):
            with np.errstate(divide="ignore"):
                log_p = log_p + np.log(column.value_share[place])
        log_joint[part] = np.where(against, -np.inf, log_p)
    return log_joint.reshape(shape), float(log_given[0])
