"""Where commands write: checked before the work, complete or not at all.

In:  a path that a person gave, and the inputs it must not overwrite.
Out: the file.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from strudel._files import complete_file
from strudel.cli.console import InputError

TABLES = (".csv", ".tsv", ".parquet")
OTHER_FILES = (".csv", ".tsv", ".txt", ".gz", ".json", ".npy", ".npz", ".strudel", ".zarr")
RowsOutput = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        rich_help_panel="Output",
        help="Write a csv, tsv or parquet file instead of stdout; partitioned: a new folder of "
        "parquet files.",
    ),
]


def check_output(path: Path, what: str, inputs: Iterable[str | None], ending: str) -> Path:
    """The path, if writing there destroys nothing but an older file of the same ending."""
    if path.is_dir():
        raise InputError(f"cannot write {what} to {str(path)!r}: it is a folder.")
    if not path.parent.is_dir():
        raise InputError(f"cannot write {what} to {str(path)!r}: its folder does not exist.")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"cannot write {what} to {str(path)!r}: its folder is read-only.")
    if any(source and _is_same_file(Path(source), path) for source in inputs):
        raise InputError(f"{what} would overwrite an input, {str(path)!r}.")
    if path.is_file() and path.suffix != ending:
        raise InputError(
            f"{str(path)!r} exists and is not a {ending} file. "
            "Give -o another name, or remove it first."
        )
    return path


def check_is_model_file(path: Path) -> None:
    """Refuse another ending, under which a model file would lie."""
    from strudel.io.read_write import FORMATS

    if path.suffix in FORMATS:
        raise InputError(
            f"a model is written to a .strudel file, not to {str(path)!r}. `strudel convert` then "
            f"makes a {path.suffix} file from it."
        )
    if path.suffix != ".strudel" and not _is_device(path):
        raise InputError(f"a model is a .strudel file, but -o says {str(path)!r}.")


def check_table_output(path: Path, what: str, inputs: Iterable[str | None]) -> Path:
    """The path, if a table can be written there."""
    if path.suffix not in TABLES and not path.is_dir() and not _is_device(path):
        raise InputError(
            f"a table is a {', '.join(TABLES[:-1])} or {TABLES[-1]} file, "
            f"but -o says {str(path)!r}."
        )
    if path.suffix == ".parquet" and not (find_spec("pyarrow") or find_spec("polars")):
        raise InputError(
            f"{str(path)!r} needs pyarrow or polars: pip install 'strudel-pc[frames]', or give -o "
            "a .csv file."
        )
    return check_output(path, what, inputs, path.suffix)


def check_rows_output(
    path: Path | None, what: str, model: Path, data: str, by_partition: bool
) -> None:
    """Refuse a place for answers row by row: a table or stdout; of a partitioned one, a folder."""
    if path is None and by_partition:
        raise InputError(f"{what} of a partitioned table go to a folder: give -o FOLDER.")
    if path is not None and by_partition:
        _check_folder_output(path, what, data)
    elif path is not None:
        check_table_output(path, what, {str(model), data})


def _check_folder_output(path: Path, what: str, data: str) -> Path:
    """The path, if a folder of parquet files can be made there; none is written over."""
    if os.path.lexists(path):
        raise InputError(
            f"{what} of a partitioned table go to a new folder, but {str(path)!r} exists: give -o "
            "another name, or remove it first."
        )
    if path.suffix in OTHER_FILES:
        raise InputError(
            f"{what} of a partitioned table go to a folder of parquet files, but -o says "
            f"{str(path)!r}: leave out the ending."
        )
    if Path(data).is_dir() and Path(data).resolve() in path.resolve().parents:
        raise InputError(f"{what} would be written into the folder of the input, {data!r}.")
    return check_output(path, what, (), path.suffix)


def _is_device(path: Path) -> bool:
    """Whether this is a device or a pipe, which has no ending."""
    return path.exists() and not path.is_file()


def _is_same_file(source: Path, path: Path) -> bool:
    """Whether two paths lead to one file, however they are written and through whatever links."""
    return os.path.realpath(source) == os.path.realpath(path) or (
        source.exists() and path.exists() and source.samefile(path)
    )


def write_table(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Columns as parquet, tsv or csv, by the ending of the path."""
    if path.suffix == ".parquet":
        content = _parquet(columns)
        with complete_file(path) as unfinished:
            unfinished.write_bytes(content)
        return
    text = io.StringIO()
    write_columns(columns, text, separator(path))
    write_text(path, [text.getvalue()])


def write_columns(columns: Mapping[str, Sequence[Any]], file: Any, separator: str = ",") -> None:
    """Columns as csv, with nothing where a value is missing."""
    writer = csv.writer(file, delimiter=separator, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(map(_cell, cells) for cells in columns.values()), strict=True))


def _cell(value: Any) -> Any:
    """A value as csv has it; whole numbers without a point, as `read_frame` reads them."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value


def separator(path: Path) -> str:
    """What stands between the cells of a text file."""
    return "\t" if path.suffix == ".tsv" else ","


def _parquet(columns: Mapping[str, Sequence[Any]]) -> bytes:
    """A parquet file, through whichever of pyarrow and polars is installed."""
    cells = {name: _of_one_type(values) for name, values in columns.items()}
    file = io.BytesIO()
    if find_spec("pyarrow"):
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.table(cells), file)
    else:
        import polars

        polars.DataFrame(cells).write_parquet(file)
    return file.getvalue()


def _of_one_type(values: Sequence[Any]) -> list[Any]:
    """Numbers as floats where some are, other mixed values as text: a column has one type."""
    types = {type(value) for value in values if value is not None}
    if len(types) < 2 and not (types == {int} and any(abs(v or 0) >= 2**63 for v in values)):
        return list(values)
    make: Callable[[Any], Any] = float if types <= {int, float} else str
    return [None if value is None else make(value) for value in values]


def write_text(path: Path, pieces: Iterable[str]) -> None:
    """Write text, complete or not at all."""
    with (
        complete_file(path) as unfinished,
        unfinished.open("w", encoding="utf-8", newline="") as file,
    ):
        file.writelines(pieces)
