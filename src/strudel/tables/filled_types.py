"""Lazy tables with room for what is filled in: a block alone does not show which types that takes.

In:  a Dask frame, one possible row of it, and how its gaps are filled.
Out: the frame, of wider types where its own cannot hold all that may come into their gaps.
"""

from __future__ import annotations

from itertools import cycle, islice
from typing import Any

import numpy as np

from strudel._types import AnyArray
from strudel.tables.coded_column import Column
from strudel.tables.filled_table import fill_columns, fill_variables, has_mean
from strudel.tables.table_code import TableCode


def with_room(X: Any, row: Any, code: TableCode | None, strategy: str) -> Any:
    """A Dask frame whose columns can hold whatever fills their gaps."""
    n_gaps = 1 if code is None else max(column.n_values for column in code.columns)
    gaps = row.reindex(range(1 + n_gaps))
    can_miss = [name for name in row if gaps[name].dtype == row[name].dtype == X.dtypes[name]]
    example = row.loc[[0] * len(gaps)].reset_index(drop=True)
    for name in can_miss:
        example[name] = gaps[name]
    if code is None:
        unknown = np.where(example.isna(), np.nan, 0.0)
        filled = fill_variables(example, unknown, np.full(example.shape, 0.5))
    else:
        filled = fill_columns(example, code, _all_values(strategy))
    wider = {
        name: filled[name].dtype
        for name in can_miss
        if filled[name].dtype != row[name].dtype and row[name].dtype != object
    }
    return X.astype(wider) if wider else X


def _all_values(strategy: str) -> Any:
    """Every value that may fill a gap of a column, or for its means, some that are not whole."""

    def values(column: Column, gaps: AnyArray) -> list[Any]:
        own = [value for value in column.values if value is not None]
        if strategy == "mean" and has_mean(column):
            own = [value + 0.5 for value in own]
        return list(islice(cycle(own), int(gaps.sum())))

    return values
