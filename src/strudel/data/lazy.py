"""Dask collections: which tables are lazy, and queries on them block by block.

In:  a query that answers row by row, and a Dask array or frame instead of a table.
Out: a lazy answer with one block per block of rows; nothing is computed yet.

One example row shows what an answer looks like. Arrays become Dask arrays, frames Dask frames,
tuples and lists tuples and lists of them. Nothing here imports Dask unless the caller's own table
comes from it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from strudel.data.argument_checks import generator_from

F = TypeVar("F", bound=Callable[..., Any])


def is_lazy(X: Any) -> bool:
    """Whether this is a Dask array or frame."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(
        X, "__dask_graph__"
    )


def way_to_load(X: Any) -> str:
    """The method that loads a lazy frame."""
    return "compute()" if is_lazy(X) else "collect()"


def row_blocks(X: Any, name: str) -> tuple[list[Any], list[float]]:
    """The blocks of rows of a lazy table, delayed, and their lengths, NaN where not known."""
    if getattr(X, "ndim", 2) != 2 or not (hasattr(X, "chunks") or hasattr(X, "columns")):
        raise ValueError(
            f"{name} must be a Dask array or frame with rows and columns, but is of type "
            f"{type(X).__name__} with {getattr(X, 'ndim', 0)} dimensions."
        )
    if hasattr(X, "chunks"):
        return X.rechunk({1: -1}).to_delayed().ravel().tolist(), list(X.chunks[0])
    blocks = list(X.to_delayed())
    return blocks, [np.nan] * len(blocks)


def unknown_row(_: Any, table: Any) -> Any:
    """One row like those of a lazy table, of which nothing is known."""
    if hasattr(table, "chunks"):
        return np.full((1, table.shape[1]), np.nan)
    return table._meta.reset_index(drop=True).reindex([0])


def by_block(*rows: str, example: Callable[[Any, Any], Any] = unknown_row) -> Callable[[F], F]:
    """Let a query take lazy tables as its arguments `rows`, and answer lazily, block by block.

    Several tables must have the same blocks. `example` makes one row that the query can answer,
    from the query's first argument and a table. An argument `random_state` is a seed for
    all blocks: block b draws its numbers from ``default_rng([seed, b])``.
    """

    def decorate(query: F) -> F:
        signature = inspect.signature(query)

        @functools.wraps(query)
        def ask(*args: Any, **options: Any) -> Any:
            if not any(is_lazy(value) for value in (*args, *options.values())):
                return query(*args, **options)
            given = signature.bind(*args, **options).arguments
            tables = {name: value for name, value in given.items() if is_lazy(value)}
            for name in tables:
                if name not in rows:
                    raise ValueError(
                        f"{name} must be in memory, but is lazy: call its compute() first."
                    )
            others = {name: value for name, value in given.items() if name not in tables}
            for name in rows:
                value = others.get(name)
                if value is not None and np.ndim(value) == 2 and len(value) > 1:
                    raise ValueError(
                        f"{name} must also be lazy, with the blocks of {next(iter(tables))}, or a "
                        f"single row, but has {len(value)} rows in memory."
                    )
            if "random_state" in signature.parameters:
                generator = generator_from(others.get("random_state"))
                others["random_state"] = int(generator.integers(2**63))
            model = next(iter(given.values()))
            examples = {name: example(model, table) for name, table in tables.items()}
            return _ask_blocks(ask, others, tables, examples)

        return ask  # type: ignore[return-value]

    return decorate


def _ask_blocks(
    query: Callable[..., Any],
    others: dict[str, Any],
    tables: dict[str, Any],
    examples: dict[str, Any],
) -> Any:
    """The lazy answer."""
    blocks, lengths = zip(*(row_blocks(X, name) for name, X in tables.items()), strict=True)
    if not all(_are_equal(lengths[0], own) for own in lengths):
        raise ValueError(f"{' and '.join(tables)} are both lazy, so they need the same blocks.")
    question = (query, others, examples)
    one = _answer(question, 0, *examples.values())
    first = next(iter(tables.values()))
    divisions = getattr(first, "divisions", None)
    is_known = divisions is not None and None not in divisions
    from dask import delayed

    # A node of its own: a model goes to every worker once, and not with every block.
    asked, ask = delayed(question, pure=True, traverse=False), delayed(_answer, pure=True)
    answers = [ask(asked, number, *group) for number, group in enumerate(zip(*blocks, strict=True))]
    return _collected(answers, one, list(lengths[0]), first, divisions if is_known else None)


def _are_equal(lengths: list[float], others: list[float]) -> bool:
    """Whether blocks may be equally long; where that is not known, the query itself will see."""
    return len(lengths) == len(others) and not any(
        a == a and b == b and a != b for a, b in zip(lengths, others, strict=True)
    )


def _answer(
    question: tuple[Callable[..., Any], dict[str, Any], dict[str, Any]], number: int, *blocks: Any
) -> Any:
    """The answer to one block of every table."""
    from strudel._numba import use_threads  # late: recognising lazy tables is quick

    query, others, examples = question
    is_empty = len(blocks[0]) == 0  # as a partition of a frame may be
    tables = examples if is_empty else dict(zip(examples, blocks, strict=True))
    if "random_state" in others:
        seed = others["random_state"]
        others = others | {"random_state": np.random.default_rng([seed, number])}
    with use_threads(1):  # Dask may ask for several blocks at once
        found = query(**others, **tables)
    if isinstance(found, Mapping):  # `ColumnMarginals`
        block = next(iter(tables.values()))
        if not hasattr(block, "index"):
            found = np.asarray(found)
        else:
            found = found.to_frame().set_index(block.index)  # type: ignore[attr-defined]
    return _without_rows(found) if is_empty else found


def _without_rows(found: Any) -> Any:
    if isinstance(found, tuple | list):
        return [_without_rows(one) for one in found]
    return found.iloc[:0] if hasattr(found, "iloc") else np.asarray(found)[:0]


def _collected(
    answers: Sequence[Any], one: Any, lengths: list[float], table: Any, divisions: Any
) -> Any:
    """Delayed answers as one Dask collection, like the answer `one` to an example row."""
    if isinstance(one, tuple | list):
        items = [
            _collected([answer[i] for answer in answers], item, lengths, table, divisions)
            for i, item in enumerate(one)
        ]
        return one._make(items) if hasattr(one, "_make") else type(one)(items)
    if hasattr(one, "iloc"):
        types = _types(one, table)
        from dask import delayed
        from dask.dataframe import from_delayed

        typed = delayed(_with_types, pure=True)
        return from_delayed(
            [typed(answer, types) for answer in answers],
            meta=_with_types(one, types).iloc[:0],
            divisions=divisions,
            verify_meta=False,
        )
    if np.ndim(one) == 0:  # is the same for all rows
        return one
    import dask.array as da

    shape, dtype = np.shape(one)[1:], np.asarray(one).dtype
    return da.concatenate(
        [
            da.from_delayed(answer, (n, *shape), dtype)
            for answer, n in zip(answers, lengths, strict=True)
        ]
    )


def _types(one: Any, table: Any) -> dict[Any, Any]:
    """The type of every column of all blocks; floats where a block may have floats."""
    floats = {name for name, dtype in getattr(table, "dtypes", {}).items() if dtype.kind in "fO"}
    return {
        name: "float64" if name in floats and dtype.kind in "iu" else dtype
        for name, dtype in one.dtypes.items()
    }


def _with_types(frame: Any, types: dict[Any, Any]) -> Any:
    return frame.astype(types)
