"""Dask collections: which tables are lazy, and queries on them block by block.

In:  a query that answers row by row, and a Dask array or frame instead of a table.
Out: a lazy answer with one block per block of rows; nothing is computed yet.

Nothing here imports Dask unless the caller's own table comes from it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])


def is_lazy(X: Any) -> bool:
    """Whether this is a Dask array or frame."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(
        X, "__dask_graph__"
    )


def by_block(rows: str, *, is_complete: bool = False) -> Callable[[F], F]:
    """Let a query take a lazy table as its argument `rows`, and answer lazily, block by block.

    The answer has the rows of the table along its first axis. What it looks like is seen from a row
    of which nothing is known; or, where rows must be complete, one of zeros.
    """
    value = 0.0 if is_complete else np.nan

    def decorate(query: F) -> F:
        signature = inspect.signature(query)

        @functools.wraps(query)
        def ask(*args: Any, **options: Any) -> Any:
            place = list(signature.parameters).index(rows)
            table = options[rows] if rows in options else args[place] if place < len(args) else None
            if not is_lazy(table):
                return query(*args, **options)
            bound = signature.bind(*args, **options)
            others = {k: v for k, v in bound.arguments.items() if k != rows}
            lazy = [name for name, value in others.items() if is_lazy(value)]
            if lazy:
                raise ValueError(f"{rows} and {lazy[0]} are both lazy: compute one of them first.")
            return _map_blocks(functools.partial(_answer, query, rows, others, value), table, value)

        return ask  # type: ignore[return-value]

    return decorate


def _answer(
    query: Callable[..., Any], rows: str, others: dict[str, Any], value: float, block: Any
) -> Any:
    if len(block):
        return query(**{**others, rows: block})
    # A partition of a frame may be empty: its answer has the shape that one row's has.
    return query(**{**others, rows: np.full((1, block.shape[1]), value)})[:0]


def _map_blocks(answer: Callable[[Any], Any], table: Any, value: float) -> Any:
    """A Dask array of the answers."""
    da: Any = import_module("dask.array")
    width = table.shape[1] if hasattr(table, "chunks") else len(table.columns)
    one_row = np.asarray(answer(np.full((1, width), value)))
    if not hasattr(table, "chunks"):  # a frame: the lengths of its partitions are not known
        blocks = table.to_delayed()
        parts = [
            da.from_delayed(_delayed(answer)(block), (np.nan, *one_row.shape[1:]), one_row.dtype)
            for block in blocks
        ]
        return da.concatenate(parts)
    table = table.rechunk({1: -1})
    if one_row.ndim == 1:
        return table.map_blocks(answer, dtype=one_row.dtype, drop_axis=1)
    return table.map_blocks(
        answer,
        dtype=one_row.dtype,
        chunks=(table.chunks[0], *((size,) for size in one_row.shape[1:])),
        new_axis=list(range(2, one_row.ndim)) or None,
    )


def _delayed(function: Callable[[Any], Any]) -> Any:
    return import_module("dask").delayed(function, pure=True)
