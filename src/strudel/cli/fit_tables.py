"""The tables of `strudel fit`: to learn from, to stop by, to score.

In:  what was typed for DATA, --valid and --test.
Out: a `Table` of each, all equally wide; `X` is lazy where it is partitioned.
"""

from __future__ import annotations

import io
import sys
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from strudel.cli.input_tables import match_columns, read_frame_table, read_parts, read_rows
from strudel.cli.partitioned_files import is_partitioned, partition_table, read_lazily
from strudel.data.lazy import is_lazy
from strudel.errors import NotBinaryFileError
from strudel.io.table_bytes import read_bytes

if TYPE_CHECKING:
    from strudel.io.read_tables import Table


def read_tables(
    data: str,
    valid: str | None,
    test: str | None,
    *,
    has_columns: bool,
    dropped: list[str],
    n_workers: int,
) -> dict[str, Table]:
    """All that were given, and those of a dataset: 0/1 rows if all of them are, else columns.

    Training rows are partitioned where there are workers, or where validation rows are.
    """
    by_partition = (
        n_workers > 0 or is_partitioned(data) or (valid is not None and is_partitioned(valid))
    )
    parts: dict[str, Table] = {}
    sources = {"train": data, "valid": valid, "test": test}
    if "-" in sources.values():  # it may be read twice
        piped = io.BytesIO(read_bytes(sys.stdin.buffer, "standard input"))
        sys.stdin = io.TextIOWrapper(piped)
    if not has_columns and not dropped:
        with suppress(NotBinaryFileError):
            parts = _read_zero_one(data, valid, test, by_partition)
    if not parts and "-" in sources.values():
        piped.seek(0)
    if not parts:
        parts = {
            part: _read_any(source, part, dropped, by_partition)
            for part, source in sources.items()
            if source is not None
        }
    train = parts["train"]
    if by_partition and not is_lazy(train.X):
        parts["train"] = partition_table(train, n_workers)
    return parts


def _read_any(source: str, part: str, dropped: list[str], by_partition: bool) -> Table:
    """Columns of any types, whose names the model keeps."""
    if _is_lazy_source(source, by_partition):
        return replace(read_lazily(source, dropped), feature_names=None)
    return read_frame_table(source, part, dropped)


def _read_zero_one(
    data: str, valid: str | None, test: str | None, by_partition: bool
) -> dict[str, Table]:
    if _is_lazy_source(data, by_partition):
        parts = {"train": read_lazily(data, [])}
    else:
        parts = read_parts(data)
    for part, source in (("valid", valid), ("test", test)):
        if source is not None:
            is_lazy_part = _is_lazy_source(source, by_partition)
            parts[part] = read_lazily(source, []) if is_lazy_part else read_rows(source, part)
    train = parts["train"]
    return {
        part: match_columns(table, train.X.shape[1], train.feature_names, train.source)
        for part, table in parts.items()
    }


def _is_lazy_source(source: str, by_partition: bool) -> bool:
    """Also a single parquet file, where tables are partitioned, so that workers read it."""
    return is_partitioned(source) or (by_partition and source.endswith(".parquet"))
