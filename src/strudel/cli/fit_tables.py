"""The tables of `strudel fit`: to learn from, to stop by, to score.

In:  what was typed for DATA, --valid and --test.
Out: a `Table` of each, all equally wide; `X` is lazy where it comes in parts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from strudel.cli.advice import ENCODE
from strudel.cli.console import InputError
from strudel.cli.lazy_tables import is_in_parts, put_in_parts, read_lazily
from strudel.cli.sources import match_columns, read_frame_table, read_parts, read_rows
from strudel.data.lazy import is_lazy
from strudel.errors import NotBinaryFileError

if TYPE_CHECKING:
    from strudel.io.tables import Table


def read_tables(
    data: str,
    valid: str | None,
    test: str | None,
    *,
    is_encoded: bool,
    dropped: list[str],
    n_workers: int,
) -> dict[str, Table]:
    """All that were given; those of a dataset, too.

    Training rows are in parts where there are workers, or where rows to stop by are in parts.
    """
    is_spread = n_workers > 0 or is_in_parts(data) or (valid is not None and is_in_parts(valid))
    if is_encoded:
        sources = {"train": data, "valid": valid, "test": test}
        parts = {
            part: _read_any(source, part, dropped, is_spread)
            for part, source in sources.items()
            if source is not None
        }
    else:
        parts = _read_zero_one(data, valid, test, is_spread)
    train = parts["train"]
    if is_spread and not is_lazy(train.X):
        parts["train"] = put_in_parts(train, n_workers)
    return parts


def _read_any(source: str, part: str, dropped: list[str], is_spread: bool) -> Table:
    """Columns of any types; their names are the encoder's to keep."""
    if _is_lazy_source(source, is_spread):
        return replace(read_lazily(source, dropped), feature_names=None)
    return read_frame_table(source, part, dropped)


def _read_zero_one(
    data: str, valid: str | None, test: str | None, is_spread: bool
) -> dict[str, Table]:
    try:
        return _read_binary(data, valid, test, is_spread)
    except NotBinaryFileError as error:
        raise InputError(f"{error} {ENCODE}") from None


def _read_binary(
    data: str, valid: str | None, test: str | None, is_spread: bool
) -> dict[str, Table]:
    is_lazy_data = _is_lazy_source(data, is_spread)
    parts = {"train": read_lazily(data, [])} if is_lazy_data else read_parts(data)
    for part, source in (("valid", valid), ("test", test)):
        if source is not None:
            is_lazy_part = _is_lazy_source(source, is_spread)
            parts[part] = read_lazily(source, []) if is_lazy_part else read_rows(source, part)
    train = parts["train"]
    return {
        part: match_columns(table, train.X.shape[1], train.feature_names, train.source)
        for part, table in parts.items()
    }


def _is_lazy_source(source: str, is_spread: bool) -> bool:
    """A single parquet file, too, where tables are in parts, so that workers read it themselves."""
    return is_in_parts(source) or (is_spread and source.endswith(".parquet"))
