"""Queries on Dask arrays and frames, block by block: the row that shows what answers look like.

In:  a model and a lazy table.
Out: one possible row, in memory, with the columns and types of that table.

All of it is known, so that no query has to search.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from strudel.data.lazy import by_block as by_block_like
from strudel.tables.evidence import nothing_known


def possible_row(model: Any, table: Any) -> Any:
    """One row that the model does not exclude, like those of a lazy table."""
    from strudel.queries.given import Asked, circuit_of  # late: they are questions themselves
    from strudel.queries.sampling import as_table, draw_cells

    circuit = circuit_of(model)
    columns, nothing = circuit.columns, nothing_known(circuit.columns)
    cells = draw_cells(circuit, nothing, 1, np.random.default_rng(0))
    if columns.are_bits:
        values = dict(zip(columns.names, cells[0, 0].tolist(), strict=True))
    else:
        drawn = as_table(
            Asked(circuit.with_columns(replace(columns, container="pandas")), nothing), cells, None
        )
        values = {name: drawn.at[0, name] for name in columns.names}
    if hasattr(table, "chunks"):
        if columns.are_bits:
            return cells[0].astype(np.uint8)
        row = np.full((1, table.shape[1]), None, dtype=object)
        row[0, columns.places_in_array] = list(values.values())
        return row
    meta = table._meta
    if not any(isinstance(name, str) for name in meta.columns):
        values = dict(zip(meta.columns, values.values(), strict=False))
    return _typed(type(meta)({name: [values.get(name)] for name in meta.columns}), meta)


lazily = partial(by_block_like, example=possible_row)


def _typed(row: Any, meta: Any) -> Any:
    """A frame with the types of another, where these can hold its values."""
    for name in meta.columns:
        value, dtype = row.at[0, name], meta[name].dtype
        if value not in getattr(dtype, "categories", [value]):
            continue
        try:
            column = row[name].astype(dtype)
        except (TypeError, ValueError):
            continue
        if not column.isna().any():
            row[name] = column
    return row
