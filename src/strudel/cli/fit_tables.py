"""The tables of `strudel fit`: to learn from, to stop by, to score.

In:  what was typed for DATA, --valid and --test.
Out: a `Table` of each, all equally wide; `X` is lazy where it is partitioned.
"""

from __future__ import annotations

import io
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from strudel.cli.input_tables import match_columns, read_frame_table, read_parts, read_rows
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
) -> dict[str, Table]:
    """All that were given, and those of a dataset: 0/1 rows if all of them are, else columns."""
    parts: dict[str, Table] = {}
    sources = {"train": data, "valid": valid, "test": test}
    if "-" in sources.values():  # it may be read twice
        piped = io.BytesIO(read_bytes(sys.stdin.buffer, "standard input"))
        sys.stdin = io.TextIOWrapper(piped)
    if not has_columns and not dropped:
        with suppress(NotBinaryFileError):
            parts = _read_zero_one(data, valid, test)
    if not parts and "-" in sources.values():
        piped.seek(0)
    if not parts:
        parts = {
            part: read_frame_table(source, part, dropped)
            for part, source in sources.items()
            if source is not None
        }
    return parts


def _read_zero_one(data: str, valid: str | None, test: str | None) -> dict[str, Table]:
    parts = read_parts(data)
    for part, source in (("valid", valid), ("test", test)):
        if source is not None:
            parts[part] = read_rows(source, part)
    train = parts["train"]
    return {
        part: match_columns(table, train.X.shape[1], train.feature_names, train.source)
        for part, table in parts.items()
    }
