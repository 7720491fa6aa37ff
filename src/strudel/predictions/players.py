"""Whose values explain a prediction: the columns of a table, or 0/1 variables without one.

In:  a model, and what is known of rows.
Out: `Players`: which variables go together, and what their known values are called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from strudel._names import names_of
from strudel._types import AnyArray, ByteArray
from strudel.predictions.predictor_arguments import Asked
from strudel.queries.columns.column_posterior import as_value
from strudel.queries.model import Model
from strudel.queries.passes import UNKNOWN
from strudel.tables.coded_column import Column
from strudel.tables.coded_rows import known_values
from strudel.tables.column_conditions import either
from strudel.tables.table_code import TableCode


class Players(NamedTuple):
    """Variables that become known together."""

    names: tuple[str, ...]
    start: AnyArray  # (n_players + 1,) variables of player p: start[p]:start[p + 1]

    @property
    def size(self) -> AnyArray:
        """How many variables each has."""
        return np.diff(self.start)

    def known(self, codes: ByteArray) -> AnyArray:
        """Which of them each row knows something of, `(n_rows, n_players)`."""
        return np.logical_or.reduceat(codes != UNKNOWN, self.start[:-1], axis=1)

    def rows(self, codes: ByteArray, players: AnyArray, is_in: AnyArray) -> ByteArray:
        """Rows that know of `codes` only what the players in each set say."""
        chosen = np.zeros((len(is_in), len(self.names)), dtype=np.bool_)
        chosen[:, players] = is_in
        return np.where(np.repeat(chosen, self.size, axis=1), codes, UNKNOWN).astype(np.uint8)

    def holding(self, variables: AnyArray) -> AnyArray:
        """The players that hold some of these variables."""
        return np.unique(np.searchsorted(self.start, variables, side="right") - 1)

    def of_lines(self, asked: Asked) -> AnyArray:
        """The player of every line."""
        return np.array([self.names.index(line.column.name) for line in asked.lines], dtype=int)


def players_of(model: Model) -> Players:
    """The columns of a model's table, or its variables."""
    code = model.table_code
    if code is None:
        return Players(names_of(model.n_vars, model.feature_names), np.arange(model.n_vars + 1))
    start = np.array([0, *(column.stop for column in code.columns)])
    return Players(code.names, start)


def values_of_columns(code: TableCode, given: Any, codes: ByteArray) -> list[Any]:
    """What is known of every column of one row: the value that is given, or what its bits say."""
    said = known_values(given, code)
    return [
        _as_given(column, value)
        if (value := next(iter(said.get(column.name, ())), None)) is not None
        else _text(column.labels, column.codewords, codes[column.start : column.stop])
        for column in code.columns
    ]


def _as_given(column: Column, value: Any) -> Any:
    """A value as people have it; dates and durations of a table come as microseconds."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return as_value(column, value) if is_number else value


def _text(labels: Sequence[str], codewords: ByteArray, bits: ByteArray) -> str:
    is_possible = ((bits == UNKNOWN) | (codewords == bits)).all(axis=1)
    found = [labels[place] for place in np.flatnonzero(is_possible).tolist()]
    return either(found)
