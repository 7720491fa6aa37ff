"""Where a command's rows come from: a file, a pipe, or a dataset by name.

In:  what was typed for DATA.
Out: a `Table`, or the three tables of a dataset.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from strudel.cli.console import InputError, note, warnings_as_notes
from strudel.cli.table_columns import drop_columns
from strudel.data.validation import check_shared_names

if TYPE_CHECKING:
    from strudel.io.read_tables import Table
    from strudel.tables.columns import RawTable

PARTS = ("train", "valid", "test")


def read_parts(source: str) -> dict[str, Table]:
    """Train, valid and test rows of a dataset; only train rows of any other table."""
    from strudel.data.datasets import load_dataset
    from strudel.io.read_tables import Table, read_table

    if is_dataset(source):
        dataset = load_dataset(source)
        names = dataset.feature_names
        return {part: Table(getattr(dataset, part), names, source) for part in PARTS}
    train = read_table(source, dataset_split="train")
    if not train.source.endswith(" (train)"):
        return {"train": train}
    rest = {part: read_table(source, dataset_split=part) for part in PARTS[1:]}
    return {"train": train, **rest}


def read_rows(source: str, part: str = "test") -> Table:
    """The rows of a table, or one part of a dataset: ``nltcs`` (its `part`), ``nltcs:train``."""
    from strudel.data.datasets import load_dataset
    from strudel.io.read_tables import Table, read_table

    name, _, named_part = source.rpartition(":")
    if named_part in PARTS and not Path(source).exists():
        source, part = name, named_part
    if is_dataset(source):
        dataset = load_dataset(source)
        return Table(getattr(dataset, part), dataset.feature_names, f"{source} ({part})")
    return read_table(source, dataset_split=part)


def read_frame_table(source: str, part: str, dropped: list[str]) -> Table:
    """A table of any types without some columns, its `X` a `RawTable`."""
    from strudel.io.read_tables import Table

    if is_dataset(source):
        raise InputError(f"{source} is of 0 and 1: leave out --edges, --drop and --set columns.")
    raw, label = read_frame_rows(source, part)
    return Table(cast(Any, drop_columns(raw, label, dropped)), None, label)


def count_rows(table: Table) -> int:
    """How many rows a table has, of whatever types."""
    return len(table.X)


def read_frame_rows(source: str, part: str = "test") -> tuple[RawTable, str]:
    """The rows of a table of any types, and what to call it."""
    from strudel.io.frames import read_frame

    table, label = read_frame(source, dataset_split=part)
    for column in table.columns:
        n_infinite = int(np.isinf(column.values).sum()) if column.dtype == "float" else 0
        if n_infinite:
            note(
                f"note: column {column.name!r} of {label} is infinite in {n_infinite:,} of "
                f"{table.n_rows:,} rows, which are counted in its first or last cell"
            )
    return table, label


def is_dataset(source: str) -> bool:
    """Whether a dataset has this name; a folder of that name does not hide it."""
    from strudel.data.datasets import ALIASES, dataset_names

    return (source in dataset_names() or source in ALIASES) and not Path(source).is_file()


def match_columns(
    table: Table,
    n_vars: int,
    feature_names: tuple[str, ...] | None,
    owner: str,
    *,
    keeps_others: bool = False,
) -> Table:
    """The table with the columns that `owner` has, by name where both have names.

    Those that the table lacks are unknown; other ones are left out with a note, unless the caller
    keeps them itself.
    """
    given = table.feature_names
    X: Any = table.X
    if feature_names is not None and given is not None and feature_names != given:
        with warnings_as_notes():
            check_shared_names(given, feature_names, table.source, keeps_others=keeps_others)
        place = {name: column for column, name in enumerate(given)}
        missing = [name for name in feature_names if name not in place]
        if missing and hasattr(X, "columns"):
            raise InputError(f"{table.source} lacks {missing[0]!r}, a column of {owner}.")
        if missing:
            X = np.column_stack([X, np.full(len(X), np.nan)])
        columns = [place.get(name, -1) for name in feature_names]
        X = X[list(feature_names)] if hasattr(X, "columns") else X[:, columns]
        table = replace(table, X=X, feature_names=feature_names)
    if X.shape[1] != n_vars:
        raise InputError(f"{table.source} has {X.shape[1]} columns, but {owner} has {n_vars}.")
    return table
