"""Queries on Dask arrays and frames, block by block: the row that shows what answers look like.

In:  a model and a lazy table.
Out: one possible row, in memory, with the columns and types of that table.

All of it is known, so that no query has to search.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np

from strudel._names import names_of
from strudel._types import AnyArray
from strudel.algebra.evidence import takes_evidence
from strudel.data.lazy import by_block as by_block_like
from strudel.errors import CircuitPropertyError
from strudel.queries.model import Model, model_of

F = TypeVar("F", bound=Callable[..., Any])


def possible_row(model: Any, table: Any) -> Any:
    """One row that the model does not exclude, like those of a lazy table."""
    model = model_of(model)
    row = _some_row(model)
    names = names_of(model.n_vars, model.feature_names)
    values = dict(zip(names, row[0].tolist(), strict=True))
    code = model.table_code
    own = names if code is None else code.names
    if code is not None:
        decoded = code.with_container("numpy").decode(row)[0].tolist()
        values |= dict(zip(own, decoded, strict=True))
    if hasattr(table, "chunks"):
        if code is None or table.shape[1] == code.n_vars != code.n_columns_in:
            return row
        cells = np.full((1, code.n_columns_in), None, dtype=object)
        cells[0, code.places_in] = [values[name] for name in own]
        return cells
    meta = table._meta
    if model.feature_names is None or not any(isinstance(name, str) for name in meta.columns):
        values = dict(zip(meta.columns, (values[name] for name in own), strict=False))
    return _typed(type(meta)({name: [values.get(name)] for name in meta.columns}), meta)


lazily = partial(by_block_like, example=possible_row)


def by_block(*rows: str, **options: Any) -> Callable[[F], F]:
    """Let a query take lazy tables and evidence in any form as its arguments `rows`.

    The options are those of `takes_evidence`.
    """
    outer, inner = lazily(*rows), takes_evidence(*rows, **options)
    return lambda query: outer(inner(query))


def _some_row(model: Model) -> AnyArray:
    """A row of the 0/1 variables of positive probability."""
    from strudel.queries.probabilities import log_probabilities
    from strudel.queries.sampling import drawn_bits

    row = np.full((1, model.n_vars), np.nan)
    try:
        return drawn_bits(model, row, 1, np.random.default_rng(0))
    except CircuitPropertyError:  # not in normal form: one value after the other
        for var in range(model.n_vars):
            row[0, var] = 1.0
            if log_probabilities(model, row, "log_marginal")[0] == -np.inf:
                row[0, var] = 0.0
        return row.astype(np.uint8)


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
