"""Partitioned tables: several parquet files, or a zarr folder of rows and columns.

In:  what was typed for DATA.
Out: a `Table` whose `X` is a Dask frame or array; only names and sizes are read.

Paths are made absolute, since workers may run in another folder.
"""

from __future__ import annotations

import os
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strudel.cli.cluster import import_dask
from strudel.cli.console import InputError
from strudel.cli.input_tables import is_dataset
from strudel.cli.table_columns import check_drop
from strudel.errors import FileFormatError

if TYPE_CHECKING:
    from strudel.io.read_tables import Table

ZARR_FILES = ("zarr.json", ".zarray", ".zgroup")  # one of which a zarr folder holds
ROWS_OF_A_PARTITION = 2**18  # at most, of a table that is not partitioned itself


def is_glob(source: str) -> bool:
    """Whether this stands for files by a pattern, and is not itself the name of one."""
    return any(mark in source for mark in "*?[") and not Path(source).exists()


def is_partitioned(source: str) -> bool:
    """Whether this is a pattern or a folder, and not the name of a dataset."""
    return not is_dataset(source) and (is_glob(source) or Path(source).expanduser().is_dir())


def read_lazily(source: str, dropped: list[str]) -> Table:
    """Parquet files by a pattern, a folder of them, one of them, or a zarr folder."""
    from strudel.io.read_tables import Table

    path = Path(source).expanduser()
    if is_zarr(path):
        if dropped:
            raise InputError(f"--drop: the columns of {source} have no names.")
        array = import_dask("dask.array", f"the folder {path}")
        open_zarr(path)
        return Table(array.from_zarr(os.path.abspath(path)), None, source)
    frames = import_dask("dask.dataframe", f"{source}, a partitioned table,")
    files = parquet_files(path, source)
    check_same_columns(files, source)
    frame = frames.read_parquet(files)
    check_drop(list(frame.columns), source, dropped)
    if dropped:
        frame = frame.drop(columns=dropped)
    return Table(frame, tuple(frame.columns), source)


def partition_table(table: Table, n_workers: int) -> Table:
    """A table in memory as a lazy one, of which every worker gets a share."""
    from strudel.io.read_tables import Table

    if not hasattr(table.X, "shape"):
        raise InputError(
            "Partitioned rows with text, numbers or dates must be parquet files, but "
            f"{table.source} is not one: save it as parquet, or give all rows as csv."
        )
    array = import_dask("dask.array", "a partitioned table")
    share = -(-len(table.X) // max(1, n_workers))
    X = array.from_array(table.X, chunks=(min(share, ROWS_OF_A_PARTITION), -1))
    return Table(X, table.feature_names, table.source)


def is_zarr(path: Path) -> bool:
    """Whether this is a zarr folder, or should be."""
    return path.suffix == ".zarr" or any((path / name).is_file() for name in ZARR_FILES)


def open_zarr(path: Path) -> Any:
    """The array in a zarr folder, if it has rows and columns."""
    zarr = import_dask("zarr", f"the folder {path}")
    try:
        found = zarr.open(os.path.abspath(path), mode="r")
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{path} is not a zarr folder: {error}") from None
    if not hasattr(found, "ndim"):
        names = ", ".join(sorted(found.array_keys())) or "none"
        raise FileFormatError(
            f"{path} is a group of zarr arrays ({names}): give the folder of one array."
        )
    if found.ndim != 2:
        raise FileFormatError(
            f"{path} must hold rows x columns, but its array has shape {found.shape}."
        )
    return found


def parquet_files(path: Path, source: str) -> list[str]:
    """The files of a table, in the order of their numbers."""
    natural_sort_key = import_dask("dask.utils", f"{source}, a partitioned table,").natural_sort_key
    if path.is_dir():
        nested = min(path.glob("[!.]*/**/*.parquet"), default=None)
        if nested is not None:
            raise InputError(
                f"the folder {source!r} has parquet files in subfolders, such as "
                f"{nested.relative_to(path).as_posix()!r}: name those to read, as in "
                f"'{source}/*.parquet' for the top folder or '{source}/**/*.parquet' for all."
            )
        found = [str(file) for file in path.glob("*.parquet") if not file.name.startswith(".")]
        if not found:
            raise InputError(
                f"the folder {source!r} holds no .parquet files, and is not a zarr folder."
            )
    else:
        found = [str(path)] if path.is_file() else glob(str(path), recursive=True)
        if not found:
            raise InputError(f"no file matches {source!r}.")
        others = sorted(file for file in found if not file.endswith(".parquet"))
        if others:
            raise InputError(
                f"partitioned tables are .parquet files, but {source!r} also matches {others[0]!r}."
            )
    return sorted(map(os.path.abspath, found), key=natural_sort_key)


def check_same_columns(files: list[str], source: str) -> None:
    """Refuse files of which one has a column that another lacks."""
    first = _columns(files[0])
    for file in files[1:]:
        other = _columns(file)
        different = sorted(first ^ other)
        if different:
            has, lacks = (files[0], file) if different[0] in first else (file, files[0])
            raise FileFormatError(
                f"the files of {source!r} must have the same columns, but {os.path.basename(has)} "
                f"has {different[0]!r} and {os.path.basename(lacks)} does not."
            )


def _columns(file: str) -> set[str]:
    """The names in one file, in its last bytes, and those of folders such as year=2024."""
    from pyarrow import ArrowException, parquet

    from strudel.io.read_tables import index_columns

    try:
        schema = parquet.read_schema(file)
    except (ArrowException, OSError) as error:
        raise FileFormatError(f"{file} is a damaged parquet file: {error}") from None
    return (set(schema.names) - set(index_columns(schema))) | folder_columns(file)


def folder_columns(file: str) -> set[str]:
    """The columns that the folders of a file stand for, as year=2024 does for year."""
    return {name.partition("=")[0] for name in Path(file).parts[:-1] if "=" in name}
