"""Tables in files: csv and its relatives, parquet, npy and npz -> a 0/1 matrix.

In:  a path, ``-`` for csv on standard input, or the name of a dataset.
Out: `Table`, `uint8` if every cell is known, else `float64` with NaN where one is not.

Text of 0, 1 and separators alone is not tokenised; other text is cut into cells with NumPy, and
each distinct spelling of a cell is parsed once. Nothing is ever unpickled.
"""

from __future__ import annotations

import csv
import io
import os
import re
import sys
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np

from strudel._types import AnyArray, ByteArray, FloatArray
from strudel.data.argument_checks import check_choice
from strudel.data.datasets import (
    SPLITS,
    dataset_names,
    load_dataset,
    parse_zero_one_lines,
    unknown_dataset_message,
    unpack_splits,
)
from strudel.data.validation import check_binary, check_evidence
from strudel.errors import (
    FileFormatError,
    MissingDependencyError,
    NotBinaryError,
    NotBinaryFileError,
)
from strudel.io.table_bytes import check_bytes, read_bytes
from strudel.tables.columns import EXAMPLE, example_csv

_KINDS = (".csv", ".tsv", ".txt", ".data", ".parquet", ".npy", ".npz")
UNKNOWN = frozenset(("", "?", "na", "n/a", "nan", "<na>", "null", "none"))
SAVE_AGAIN = "Save it again as UTF-8, which editors and spreadsheets offer."
CELL = 8  # bytes of a cell, whatever it holds
ROWS_OF_NUMBERS, ROWS_OF_TEXT = 2**16, 2**10  # of a parquet file at a time
# What a damaged NumPy file raises besides; its header is read by Python's tokenizer, and a member
# that seems to be encrypted is a RuntimeError.
_DAMAGE = (zipfile.BadZipFile, zlib.error, TokenError, SyntaxError, RuntimeError)
_INDEX = re.compile(r"__index_level_\d+__")  # an index of pandas without a name
_ONE_LETTER = np.full(256, 3, dtype=np.uint8)  # what a cell of one byte means; 3 is nothing
_ONE_LETTER[list(b"01? ")] = (0, 1, 2, 2)


@dataclass(frozen=True, eq=False)
class Table:
    """Rows read from a file."""

    X: ByteArray | FloatArray  # (n_rows, n_vars) uint8 0/1, or float64 with NaN where unknown
    feature_names: tuple[str, ...] | None  # one per column, None when the file has none
    source: str  # what to call the table in messages


def read_table(source: str | os.PathLike[str], *, dataset_split: str | None = None) -> Table:
    """Read a 0/1 table from a file, from standard input (``-``) or from a named dataset.

    In text, the first line holds names unless all its cells are values, and a cell is unknown when
    it is empty, ``?``, ``NA`` or ``nan``. `dataset_split` says which part to take of a source that
    has "train", "valid" and "test". ``patients`` is the table that ships with the package.
    """
    if dataset_split is not None:
        check_choice("dataset_split", dataset_split, SPLITS)
    label = os.fspath(source)
    if label == "-":
        return _read_text(read_bytes(sys.stdin.buffer, "standard input"), "standard input")
    path = path_of(source)
    if not path.exists() or (path.is_dir() and label in dataset_names()):
        return _read_dataset(label, dataset_split)
    kind = kind_of(path)
    raw = read_bytes(path, label)
    if kind == ".parquet":
        return _read_parquet(raw, label)
    if kind in (".npy", ".npz"):
        return _read_numpy(raw, label, dataset_split)
    return _read_text(raw, label, "\t" if kind == ".tsv" else None)


def path_of(source: str | os.PathLike[str]) -> Path:
    """Where a table is read from; a file of that name hides the one that ships with the package."""
    path = Path(source)
    return example_csv() if source == EXAMPLE and not path.is_file() else path


def kind_of(path: Path) -> str:
    """The extension that says how to read a file; a pipe is read as csv."""
    if not path.is_file() and not path.is_dir():
        return ".csv"
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    kind = suffixes[-1] if suffixes else ""
    if path.is_dir() or kind not in _KINDS:
        found = "is a folder" if path.is_dir() else f"ends in {kind!r}" if kind else "has no ending"
        raise FileFormatError(f"{path} must be a file ending in {', '.join(_KINDS)}, but {found}.")
    return kind


def _read_dataset(name: str, split: str | None) -> Table:
    """One part of a named dataset."""
    try:
        dataset = load_dataset(name)
    except ValueError as error:
        if isinstance(error, FileFormatError):
            raise
        has_suffix = Path(name).suffix in (*_KINDS, ".gz") or len(Path(name).parts) > 1
        hint = "" if has_suffix else " " + unknown_dataset_message(name)
        raise FileNotFoundError(f"There is no file {name!r}.{hint}") from None
    if split is None:
        raise ValueError(which_split(name))
    return Table(getattr(dataset, split), dataset.feature_names, f"{name} ({split})")


def which_split(label: str) -> str:
    """What to say when one of three tables must be chosen."""
    return f"{label} holds three tables. Choose one: dataset_split must be {' or '.join(SPLITS)}."


def one_line(error: BaseException) -> str:
    """A message without line breaks."""
    return " ".join(str(error).split())


def _read_parquet(raw: bytes, label: str) -> Table:
    frame = read_parquet_frame(raw, label)
    names = frame.column_names if hasattr(frame, "column_names") else frame.columns
    return table_of_cells(frame, tuple(names), label)


def read_parquet_frame(raw: bytes, label: str) -> Any:
    """A parquet file, through whichever of pyarrow and polars is installed."""
    try:
        from pyarrow import ArrowException

        read, failures = _read_with_pyarrow, (ArrowException, OSError)
    except ImportError:
        try:
            import polars
        except ImportError:
            raise MissingDependencyError(
                f"{label} is a parquet file, which needs pyarrow or polars: "
                "pip install 'strudel-pc[frames]'."
            ) from None
        read, failures = _read_with_polars, (polars.exceptions.PolarsError, OSError)
    try:
        return _without_index(read(raw, label))
    except FileFormatError:
        raise
    except (*failures, ValueError) as error:  # also of the JSON in which pandas keeps an index
        raise FileFormatError(f"{label} is a damaged parquet file: {one_line(error)}") from error


def _read_with_pyarrow(raw: bytes, label: str) -> Any:
    """Some rows at a time: a small file can say a long text, or nothing, a million times."""
    import pyarrow
    from pyarrow import parquet

    file = parquet.ParquetFile(io.BytesIO(raw))
    schema = file.schema_arrow
    check_bytes(file.metadata.num_rows * len(schema) * CELL, label, len(raw))
    is_fixed = all(pyarrow.types.is_primitive(field.type) for field in schema)
    batches, n_bytes = [], 0
    for batch in file.iter_batches(ROWS_OF_NUMBERS if is_fixed else ROWS_OF_TEXT):
        batch.validate(full=True)  # texts of damaged files may not be UTF-8, found only later
        batches.append(batch)
        n_bytes += batch.nbytes
        check_bytes(n_bytes, label, len(raw))
    return pyarrow.Table.from_batches(batches, schema)


def _read_with_polars(raw: bytes, label: str) -> Any:
    import polars

    lazy = polars.scan_parquet(io.BytesIO(raw))
    n_rows = lazy.select(polars.len()).collect().item()
    check_bytes(n_rows * len(lazy.collect_schema()) * CELL, label, len(raw))
    return lazy.collect()


def index_columns(schema: Any) -> list[str]:
    """The columns in which pandas keeps an index, which is not a column of the table."""
    stored = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in stored if isinstance(name, str) and name in schema.names]


def _without_index(frame: Any) -> Any:
    if hasattr(frame, "schema") and hasattr(frame.schema, "pandas_metadata"):
        return frame.drop_columns(index_columns(frame.schema))
    return frame.select([name for name in frame.columns if not _INDEX.fullmatch(name)])  # polars


def _read_numpy(raw: bytes, label: str, split: str | None) -> Table:
    """A `.npy` array, the only array of a `.npz`, or one part of a packed dataset."""
    arrays = read_arrays(raw, label)
    if {*SPLITS, "n_vars"} <= set(arrays):
        if split is None:
            raise FileFormatError(which_split(label))
        return Table(unpack_splits(raw, label)[split], None, f"{label} ({split})")
    if len(arrays) != 1:
        raise FileFormatError(
            f"{label} must hold one array, but holds {len(arrays)}: {', '.join([*arrays][:5])}."
        )
    (array,) = arrays.values()
    return table_of_cells(array, None, label)


def read_arrays(raw: bytes, label: str) -> dict[str, AnyArray]:
    """The arrays of a `.npy` or `.npz` file by name; never those that hold Python objects."""
    try:
        if zipfile.is_zipfile(io.BytesIO(raw)):
            with zipfile.ZipFile(io.BytesIO(raw)) as archive:
                n_bytes = sum(info.file_size for info in archive.infolist())
            check_bytes(n_bytes, label, len(raw))
        content = np.load(io.BytesIO(raw), allow_pickle=False)
        return {"": content} if isinstance(content, np.ndarray) else dict(content)
    except FileFormatError:
        raise
    except (ValueError, TypeError, EOFError, OSError, MemoryError, *_DAMAGE) as error:
        raise FileFormatError(
            f"{label} is not a NumPy file of plain numbers, and others are never opened: "
            f"{one_line(error)}"
        ) from error


def table_of_cells(values: Any, names: tuple[str, ...] | None, label: str) -> Table:
    """A table from cells that may hold anything."""
    try:
        if isinstance(values, np.ndarray) and values.dtype.kind in "biu":
            return Table(check_binary(values)[0], None, label)
        evidence = check_evidence(values)
    except NotBinaryError as error:
        raise NotBinaryFileError(f"{label}: {error}") from None
    except ValueError as error:
        raise FileFormatError(f"{label}: {error}") from None
    return Table(_compact(evidence), names, label)


def _compact(evidence: FloatArray) -> ByteArray | FloatArray:
    """As `uint8` when no value is unknown."""
    return evidence if np.isnan(evidence).any() else evidence.astype(np.uint8)


def _read_text(raw: bytes, label: str, separator: str | None = None) -> Table:
    """Lines of cells, with or without a line of names."""
    raw = checked_text(raw, label)
    if b"\r" in raw:
        raw = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    first, _, rest = raw.partition(b"\n")
    separator = separator or separator_of(rest.partition(b"\n")[0] or first)
    try:
        cells = next(csv.reader([first.decode("utf-8")], delimiter=separator))
    except (UnicodeDecodeError, csv.Error) as error:
        advice = f". {SAVE_AGAIN}" if isinstance(error, UnicodeDecodeError) else ""
        raise FileFormatError(f"{label} is not csv in UTF-8: {one_line(error)}{advice}") from error
    has_names = _is_header(cells)
    body = rest if has_names else raw
    if not body.strip():
        raise FileFormatError(f"{label} has names but no rows.")
    table: ByteArray | FloatArray | None = parse_zero_one_lines(body, separator.encode())
    if table is None:
        table = _parse_cells(body, cells, 1 + has_names, separator, label)
    if not has_names:
        return Table(table, None, label)
    return Table(table, column_names(cells, table.shape[1], label), label)


def checked_text(raw: bytes, label: str) -> bytes:
    """Text without a byte order mark, if there is any."""
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    if b"\0" in raw:
        raise FileFormatError(f"{label} is not text in UTF-8. {SAVE_AGAIN}")
    if not raw.strip():
        raise FileFormatError(f"{label} is empty.")
    return raw


def separator_of(line: bytes) -> str:
    """What stands between the cells of a row, which unlike names hold no such marks themselves."""
    return next((mark for mark in "\t;, " if mark.encode() in line), ",")


def _is_header(cells: list[str]) -> bool:
    """Whether the first line holds names: some cell is not a value, nor the line a row of numbers.

    A line that counts its columns, 0, 1, 2, ... or 1, 2, 3, ..., also holds names; with two columns
    0 and 1 this cannot be decided.
    """
    if all(_value(cell) is not None for cell in cells):
        return False
    try:
        numbers = [float(cell or "nan") for cell in cells]
    except ValueError:
        return True
    return any(numbers == list(range(start, start + len(cells))) for start in (0, 1))


def _value(cell: str) -> float | None:
    """What a cell means: 0, 1, NaN where unknown, or None if it is none of these."""
    text = cell.strip().strip('"').strip().lower()
    if text in UNKNOWN:
        return np.nan
    if text in ("true", "false"):
        return float(text == "true")
    try:
        number = float(text)
    except ValueError:
        return None
    return number if number in (0.0, 1.0) else None


def column_names(cells: list[str], n_vars: int, label: str) -> tuple[str, ...]:
    """The names of the first line, checked against the rows below it."""
    names = tuple(cell.strip() for cell in cells)
    if len(names) != n_vars:
        raise FileFormatError(
            f"{label} has {len(names)} names in line 1, but {n_vars} cells in line 2."
        )
    if len(set(names)) != n_vars:
        twice = next(name for name in names if names.count(name) > 1)
        raise FileFormatError(f"{label} names the column {twice!r} more than once. Rename one.")
    return names


def _parse_cells(
    body: bytes, names: list[str], first_line: int, separator: str, label: str
) -> ByteArray | FloatArray:
    """Cut text into cells and look up what they mean."""
    n_vars = body.split(b"\n", 1)[0].count(separator.encode()) + 1
    parts: list[ByteArray] = []
    line = first_line
    for block in _line_blocks(body.rstrip(b"\n") + b"\n"):
        text = np.frombuffer(block, dtype=np.uint8)
        is_end = text == ord("\n")
        end = np.flatnonzero(is_end | (text == ord(separator)))
        start = np.concatenate([[0], end[:-1] + 1])
        n_cells = np.diff(np.flatnonzero(is_end[end]), prepend=-1)
        if np.any(n_cells != n_vars):
            row = int(np.argmax(n_cells != n_vars))
            # A comma within quotes makes a line longer than the others.
            raise NotBinaryFileError(
                f"{label} must have lines of equal length, but line {first_line} has {n_vars} "
                f"cells and line {line + row} has {n_cells[row]}."
            )
        meaning, bad = _look_up(text, start, end)
        if bad is not None:
            row, var = divmod(bad, n_vars)
            cell = text[start[bad] : end[bad]].tobytes().decode("utf-8", "replace")
            column = names[var].strip() if first_line == 2 and var < len(names) else var
            advice = "Leave out the row numbers." if column == "" else "Binarise the data first."
            raise NotBinaryFileError(
                f"{label} must hold only 0, 1 and unknown values, but column {column!r} holds "
                f"{cell!r} in line {line + row}. {advice}"
            )
        parts.append(meaning.reshape(-1, n_vars))
        line += len(n_cells)
    table = np.concatenate(parts)
    is_unknown = table == 2
    if is_unknown.any():
        check_bytes(CELL * table.size, label)
    return np.where(is_unknown, np.nan, table) if is_unknown.any() else table


def _line_blocks(text: bytes, size: int = 2**19) -> Iterator[bytes]:
    """Whole lines, about `size` bytes at a time, so that what is made of them stays in cache."""
    start = 0
    while start < len(text):
        stop = text.rfind(b"\n", start, start + size) + 1 or text.index(b"\n", start) + 1
        yield text[start:stop]
        start = stop


def _look_up(text: ByteArray, start: AnyArray, end: AnyArray) -> tuple[ByteArray, int | None]:
    """The meaning of every cell (2 is unknown), and the first cell that has none.

    Cells of equal length are compared as a whole: the first of them is read, all that are spelled
    the same get its meaning, and so on, so that Python reads each spelling once.
    """
    length = end - start
    meaning = np.where(length == 0, np.uint8(2), _ONE_LETTER[text[start]])
    bad = np.flatnonzero((length == 1) & (meaning == 3))[:1].tolist()
    for size in np.flatnonzero(np.bincount(length)).tolist():
        waiting = np.flatnonzero(length == size) if size > 1 else length[:0]
        spelling = _spellings(text, start[waiting], size)
        while len(waiting):
            first = int(waiting[0])
            value = _value(text[start[first] : end[first]].tobytes().decode("utf-8", "replace"))
            if value is None:
                bad.append(first)
                break
            is_same = spelling == spelling[0]
            meaning[waiting[is_same]] = 2 if np.isnan(value) else int(value)
            waiting, spelling = waiting[~is_same], spelling[~is_same]
    return meaning, min(bad, default=None)


def _spellings(text: ByteArray, start: AnyArray, size: int) -> AnyArray:
    """One number per cell of `size` bytes, equal for equal cells; past eight bytes, one text."""
    if size > 8:
        return np.lib.stride_tricks.sliding_window_view(text, size)[start].view(f"S{size}")[:, 0]
    spelling = np.zeros(len(start), dtype=np.uint64)
    for place in range(size):
        spelling = (spelling << np.uint64(8)) | text[start + place]
    return spelling
