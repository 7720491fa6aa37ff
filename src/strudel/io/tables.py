"""Tables in files: csv and its relatives, parquet, feather, npy and npz -> a pandas frame.

In:  a path, a stream or ``-`` with csv, or the name of a dataset.
Out: a frame, whose columns are numbered where the file has no names.

pandas and pyarrow read. What is here refuses what is too large for the memory or no table, finds
out whether there are names and what stands between cells, and says how text is read: see
`MISSING`. Text of 0, 1 and separators alone is not tokenised. Nothing is ever unpickled.
"""

from __future__ import annotations

import csv
import io
import os
import re
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from strudel._memory import total_memory
from strudel._types import AnyArray
from strudel.data.argument_checks import check_choice
from strudel.data.datasets import (
    ALIASES,
    SPLITS,
    dataset_names,
    load_dataset,
    parse_zero_one_lines,
    unknown_dataset_message,
    unpack_splits,
)
from strudel.data.validation import check_shape
from strudel.errors import FileFormatError, MissingDependencyError
from strudel.tables.columns import EXAMPLE, example_csv

if TYPE_CHECKING:
    import pandas as pd

TEXT = (".csv", ".tsv", ".txt", ".data")
ARROW = (".parquet", ".feather", ".arrow")
KINDS = (*TEXT, *ARROW, ".npy", ".npz")
SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods")
# Cells of text that stand for a missing value. The defaults of pandas but for "None", which is a
# category like any other, and for spellings that nobody uses; "?" is usual in older data sets.
MISSING = ("", "?", "NA", "N/A", "#N/A", "n/a", "na", "NaN", "nan", "<NA>", "null", "NULL", "Null")
SAVE_AGAIN = "Save it again as UTF-8, which editors and spreadsheets offer."
# What a damaged NumPy file raises besides; its header is read by Python's tokenizer, and a member
# that seems to be encrypted is a RuntimeError.
_DAMAGE = (zipfile.BadZipFile, zlib.error, TokenError, SyntaxError, RuntimeError)

# How large a table may be.
VARIABLE = "STRUDEL_MAX_TABLE_BYTES"
SHARE = 4  # of the memory: a table is held about twice while it is read
MOST_UNPACKED = 2**27  # bytes of what any packed file holds
MOST_RATIO = 100  # of unpacked to packed bytes beyond that: 0/1 tables of the benchmarks have 40
BLOCK = 2**20
CELL = 8  # bytes of a cell in memory, whatever it holds
CELL_OF_TEXT = 24  # of a cell of csv while it is read: where it starts, its length, its value
ROWS_OF_NUMBERS, ROWS_OF_TEXT = 2**16, 2**10  # of a parquet file at a time


def read_table(source: str | os.PathLike[str] | BinaryIO, *, split: str | None = None) -> Any:
    r"""Read a table from a file, a stream, standard input (``-``) or a named dataset.

    Parameters
    ----------
    source : path, stream or str
        A file of text (.csv, .tsv, .txt, .data), parquet, feather or NumPy, which may be gzipped; a
        stream of text in bytes; the name of a dataset, or of a part as in ``nltcs:train``; or
        ``patients``, the table that ships with the package. In text, the first line holds names
        unless all its cells are numbers.
    split : {"train", "valid", "test"}, optional
        The part of a dataset that has three.

    Returns
    -------
    pandas.DataFrame
        Numbers, booleans, dates (where all cells of a column are ISO dates) and text. Columns
        without names are numbered. Whole numbers with missing values are of type ``Int64``.

    Examples
    --------
    >>> import io
    >>> read_table(io.BytesIO(b"age,smoker,since\n31,no,?\n,yes,2001-05-01\n"))
        age smoker       since
    0    31     no         NaT
    1  <NA>    yes  2001-05-01
    """
    if split is not None:
        check_choice("split", split, SPLITS)
    if not isinstance(source, str | os.PathLike):
        return _read_text(read_bytes(source, "the stream"), "the stream")
    label = os.fspath(source)
    if label == "-":
        return _read_text(read_bytes(sys.stdin.buffer, "standard input"), "standard input")
    path = Path(source)
    name, _, part = label.rpartition(":")
    if part in SPLITS and not path.exists():
        return read_table(name, split=part)
    if source == EXAMPLE and not path.is_file():  # a file of that name hides the one of the package
        path = example_csv()
    if not path.exists() or (path.is_dir() and label in dataset_names()):
        return _read_dataset(label, split)
    kind = _kind_of(path)
    raw = read_bytes(path, label)
    if kind in ARROW:
        return _read_arrow(raw, kind, label)
    if kind in (".npy", ".npz"):
        return _read_numpy(raw, label, split)
    return _read_text(raw, label, "\t" if kind == ".tsv" else None)


def read_parts(source: str) -> dict[str, Any]:
    """Train, valid and test rows of a dataset, also of a packed one; of any other table, train."""
    parts = {"train": read_table(source, split="train")}
    is_named = source in (*dataset_names(), *ALIASES) and not Path(source).is_file()
    if is_named or (source.endswith(".npz") and "n_vars" in np.load(source)):
        parts |= {part: read_table(source, split=part) for part in SPLITS[1:]}
    return parts


def _kind_of(path: Path) -> str:
    """The extension that says how to read a file; a pipe is read as csv."""
    if not path.is_file() and not path.is_dir():
        return ".csv"
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    kind = suffixes[-1] if suffixes else ""
    if kind in SPREADSHEETS:
        raise FileFormatError(
            f"{path} is a spreadsheet: save it as csv, or read it with pandas.read_excel in Python."
        )
    if path.is_dir() or kind not in KINDS:
        found = "is a folder" if path.is_dir() else f"ends in {kind!r}" if kind else "has no ending"
        raise FileFormatError(
            f"{path} must be a file ending in {', '.join(KINDS)}, but {found}. Save it as csv."
        )
    return kind


def _read_dataset(name: str, split: str | None) -> pd.DataFrame:
    """One part of a named dataset."""
    try:
        dataset = load_dataset(name)
    except ValueError as error:
        if isinstance(error, FileFormatError):
            raise
        has_suffix = Path(name).suffix in (*KINDS, ".gz") or len(Path(name).parts) > 1
        hint = "" if has_suffix else " " + unknown_dataset_message(name)
        raise FileNotFoundError(f"There is no file {name!r}.{hint}") from None
    if split is None:
        raise ValueError(_which_split(name))
    return _frame(getattr(dataset, split), dataset.feature_names)


def _which_split(label: str) -> str:
    """What to say when one of three tables must be chosen."""
    return f"{label} holds three tables. Choose one: split must be {' or '.join(SPLITS)}."


def _frame(array: AnyArray, names: Any = None) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(array, columns=names, copy=False)


def one_line(error: BaseException) -> str:
    """A message without line breaks."""
    return " ".join(str(error).split())


def _read_text(raw: bytes, label: str, separator: str | None = None) -> pd.DataFrame:
    """Lines of cells, with or without a line of names."""
    raw = _checked_text(raw, label)
    first, _, rest = raw.partition(b"\n")
    separator = separator or _separator(first.decode(), rest.partition(b"\n")[0].decode())
    try:
        cells = [cell.strip() for cell in next(_reader(raw, separator))]
        has_names = not all(_is_value(cell, separator) for cell in cells)
        zero_one = parse_zero_one_lines(rest if has_names else raw, separator.encode())
        if zero_one is None and not has_names and _is_count(cells):
            below = parse_zero_one_lines(rest, separator.encode())
            has_names = below is not None and below.shape[1] == len(cells)
            zero_one = below if has_names else None
        if zero_one is not None:
            names = _column_names(cells, zero_one.shape[1], label) if has_names else None
            return _frame(zero_one, names)
        n_cells, width = _count_cells(raw, separator, has_names, label)
        check_bytes(len(raw) + CELL_OF_TEXT * n_cells, label)
        names = _column_names(cells, width, label) if has_names else None
        return _parse_cells(raw, separator, names, width)
    except (csv.Error, ValueError, OverflowError) as error:  # also errors of pandas' own
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{label} is not csv: {one_line(error)}.") from None


def _checked_text(raw: bytes, label: str) -> bytes:
    """Text in UTF-8 with plain ends of lines, without a byte order mark."""
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    if b"\0" in raw:
        raise FileFormatError(f"{label} is not text in UTF-8. {SAVE_AGAIN}")
    if not raw.strip():
        raise FileFormatError(f"{label} is empty.")
    try:
        if not raw.isascii():
            raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileFormatError(
            f"{label} is not text in UTF-8: {error.reason}. {SAVE_AGAIN}"
        ) from None
    if b"\r" in raw:
        raw = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return raw.strip(b"\n") + b"\n"


def _separator(*lines: str) -> str:
    """What stands between cells: what is in both lines outside quotes, a space only if in numbers.

    `csv.Sniffer` takes the commas of decimal numbers, or letters, for separators.
    """
    bare = [re.sub('"[^"]*"', "", line) for line in lines if line]
    for mark in "\t;,":
        if all(mark in line for line in bare):
            return mark
    are_numbers = all(cell and _is_value(cell, " ") for cell in bare[-1].split(" "))
    return " " if are_numbers and all(" " in line for line in bare) else ","


def _reader(raw: bytes, separator: str) -> Any:
    """Lines of csv cut into cells."""
    lines = io.TextIOWrapper(io.BytesIO(raw), "utf-8", newline="")
    return csv.reader(lines, delimiter=separator, strict=True)


def _is_value(cell: str, separator: str) -> bool:
    """Whether a cell is a number, true, false or missing, and so no name."""
    cell = cell.strip()
    with suppress(ValueError):
        float(cell.replace(",", ".") if separator == ";" else cell)
        return True
    return cell in MISSING or cell.lower() in ("true", "false")


def _is_count(cells: list[str]) -> bool:
    """Whether these are 0, 1, 2, ... or 1, 2, 3, ..., as pandas numbers columns without names."""
    return any(cells == [str(start + place) for place in range(len(cells))] for start in (0, 1))


def _column_names(cells: list[str], width: int, label: str) -> list[str]:
    """The names of the first line, checked against the rows below it."""
    if len(cells) != width:
        raise FileFormatError(
            f"{label} has {len(cells)} names in line 1, but {width} cells in line 2."
        )
    _check_names(cells, label)
    if "" in cells:
        raise FileFormatError(
            f"{label} has no name for column {cells.index('')}. Give it one, or leave out the "
            "row numbers."
        )
    return cells


def _check_names(names: list[str], label: str) -> None:
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise FileFormatError(f"{label} names the column {twice!r} more than once. Rename one.")


def _count_cells(raw: bytes, separator: str, has_names: bool, label: str) -> tuple[int, int]:
    """How many cells there are, and how many in a line: as many in each, as pandas would fill up.

    Blank lines do not count, unless there is only one column.
    """
    lengths: Iterator[tuple[int, int]]
    if b'"' in raw:
        reader = _reader(raw, separator)
        lengths = ((reader.line_num, len(cells)) for cells in reader if cells)
    else:
        mark, lines = separator.encode(), enumerate(io.BytesIO(raw), 1)
        lengths = ((number, line.count(mark) + 1) for number, line in lines if line != b"\n")
    if has_names:
        next(lengths)
    first, width = next(lengths, (0, 0))
    if not width:
        raise FileFormatError(f"{label} has names but no rows.")
    n_rows = 1
    for number, length in lengths:
        n_rows += 1
        if length != width:
            raise FileFormatError(
                f"{label} must have lines of equal length, but line {first} has {width} "
                f"cells and line {number} has {length}."
            )
    return n_rows * width, width


def _parse_cells(raw: bytes, separator: str, names: list[str] | None, width: int) -> pd.DataFrame:
    """The columns of any other text, each of the type that pandas finds."""
    import pandas as pd

    between = separator.encode()
    number = rb"(?:^|;)\s*[+-]?\d*,\d+\s*(?:;|$)"
    has_commas = separator == ";" and re.search(number, raw, re.MULTILINE) is not None
    options: dict[str, Any] = {
        "sep": separator,
        "header": None if names is None else 0,
        "names": list(range(width)) if names is None else names,
        "decimal": "," if has_commas else ".",
        "index_col": False,
        "na_values": list(MISSING),
        "keep_default_na": False,
        "skipinitialspace": True,
        "skip_blank_lines": width > 1,
        "low_memory": False,  # one type for all rows of a column
    }
    if pd.__version__ < "3.1":  # later ones always read exactly what was written
        options["float_precision"] = "round_trip"
    frame = pd.read_csv(io.BytesIO(raw), dtype_backend="numpy_nullable", **options)
    if re.search(rb'(?:^|[%s])[ "]*0\d' % between, raw, re.MULTILINE):  # as postal codes have
        columns = [name for name in frame if pd.api.types.is_numeric_dtype(frame[name])]
        text = pd.read_csv(io.BytesIO(raw), dtype="string", usecols=columns, **options)
        for name, column in text.items():
            if column.str.match(r"0\d").any():
                frame[name] = column
    return pd.DataFrame({name: _plain(column) for name, column in frame.items()})


def _plain(column: Any) -> Any:
    """A column of a type that does not know missing values, if it may be; text without blanks."""
    import pandas as pd

    if column.isna().all() or isinstance(column.dtype, pd.Float64Dtype):
        return column.astype("float64")
    if not pd.api.types.is_string_dtype(column.dtype):
        return column if column.hasnans else column.astype(column.dtype.numpy_dtype)
    column = column.str.strip()
    column = column.mask(column.isin(MISSING))
    known = column.dropna()
    text = column.astype(object).where(column.notna(), None).infer_objects()
    if not known.str.match(r"\d{4}-\d\d-\d\d").all():
        return text
    try:
        moments = pd.to_datetime(known, format="ISO8601", utc=True).dt.tz_localize(None)
    except ValueError:
        return text
    moments = moments.reindex(column.index)
    return moments.dt.date if known.str.len().eq(10).all() else moments


def _read_arrow(raw: bytes, kind: str, label: str) -> pd.DataFrame:
    """A parquet or feather file, through pyarrow."""
    name = "parquet" if kind == ".parquet" else "feather"
    try:
        from pyarrow import ArrowException
    except ImportError:
        raise MissingDependencyError(
            f"{label} is a {name} file, which needs pyarrow: pip install 'strudel-pc[frames]'."
        ) from None
    try:
        return _frame_of_arrow(_bounded(raw, kind, label), label)
    except FileFormatError:
        raise
    except (ArrowException, OSError, EOFError, ValueError, struct.error) as error:
        raise FileFormatError(f"{label} is a damaged {name} file: {one_line(error)}") from error


def _bounded(raw: bytes, kind: str, label: str) -> Any:
    """Some rows at a time: a small file can say a long text, or nothing, a million times."""
    import pyarrow
    from pyarrow import ipc, parquet

    if kind == ".parquet":
        file = parquet.ParquetFile(io.BytesIO(raw))
        schema = file.schema_arrow
        check_bytes(file.metadata.num_rows * len(schema) * CELL, label, len(raw))
        is_fixed = all(pyarrow.types.is_primitive(field.type) for field in schema)
        some = file.iter_batches(ROWS_OF_NUMBERS if is_fixed else ROWS_OF_TEXT)
    else:
        check_bytes(_unpacked_size(raw), label, len(raw))
        reader = ipc.open_file(io.BytesIO(raw))
        schema = reader.schema
        some = (reader.get_batch(place) for place in range(reader.num_record_batches))
    batches, n_bytes = [], 0
    for batch in some:
        batch.validate(full=True)  # texts of damaged files may not be UTF-8, found only later
        batches.append(batch)
        n_bytes += max(batch.nbytes, batch.num_rows * len(schema) * CELL)
        check_bytes(n_bytes, label, len(raw))
    table = pyarrow.Table.from_batches(batches, schema)
    return table.drop_columns(index_columns(schema))


def _unpacked_size(raw: bytes) -> int:
    """How many bytes the buffers of a feather file say that they unpack to.

    pyarrow unpacks all of a batch at once, and a small one may say a terabyte. The file ends in a
    flatbuffer, of which the fields 2 and 3 list dictionaries and batches by place and length. Each
    is a flatbuffer, too: its field 2 (and of that 1, in a dictionary) is a batch, of which field 2
    lists buffers, and 3 is there if they are packed, each behind the size that it unpacks to.
    """
    from pyarrow import ipc

    end = _Flat(raw[: len(raw) - 10][-int.from_bytes(raw[-10:-6], "little") :])
    size = 0
    for kind in (2, 3):
        for place, n_head, n_body in end.structs(end.child(end.root, kind), "qi4xq"):
            message = ipc.read_message(raw[place : place + n_head + n_body])
            flat, body = _Flat(message.metadata.to_pybytes()), message.body
            batch = flat.child(flat.root, 2)
            batch = flat.child(batch, 1) if kind == 2 else batch
            if not flat.child(batch, 3):
                continue
            for start, length in flat.structs(flat.child(batch, 2), "qq"):
                unpacked = struct.unpack_from("<q", body, start)[0] if length >= 8 else 0
                size += max(unpacked, 0)  # -1 where packing did not pay
    return size


class _Flat:
    """A flatbuffer: tables of numbered fields, each of which is where something else begins."""

    def __init__(self, words: bytes) -> None:
        self._words = words
        self.root = self._number("I", 0)

    def _number(self, kind: str, place: int) -> int:
        return int(struct.unpack_from(f"<{kind}", self._words, place)[0])

    def child(self, table: int, k: int) -> int:
        """Where the table or list in a field of a table begins; 0 if it has none."""
        entries = table - self._number("i", table)
        is_there = 4 + 2 * k < self._number("H", entries)
        start = self._number("H", entries + 4 + 2 * k) if is_there else 0
        return table + start + self._number("I", table + start) if start else 0

    def structs(self, start: int, form: str) -> Iterator[tuple[int, ...]]:
        """The numbers in a list."""
        size = struct.calcsize("<" + form)
        for k in range(self._number("I", start) if start else 0):
            yield struct.unpack_from("<" + form, self._words, start + 4 + size * k)


def index_columns(schema: Any) -> list[str]:
    """The columns in which pandas keeps an index, which is not a column of the table."""
    stored = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in stored if isinstance(name, str) and name in schema.names]


def _frame_of_arrow(table: Any, label: str) -> pd.DataFrame:
    """The columns of a pyarrow table; whole numbers stay whole beside missing values."""
    import pandas as pd
    import pyarrow as pa

    _check_names(table.column_names, label)
    check_shape(table.shape, label)
    kinds = ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
    nullable = {getattr(pa, kind.lower())(): getattr(pd, f"{kind}Dtype")() for kind in kinds}
    nullable[pa.bool_()] = pd.BooleanDtype()

    def plain(column: Any) -> Any:
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        return column.to_pandas(types_mapper=nullable.get if column.null_count else None)

    return pd.DataFrame(
        {
            name: plain(column)
            for name, column in zip(table.column_names, table.columns, strict=True)
        }
    )


def _read_numpy(raw: bytes, label: str, split: str | None) -> pd.DataFrame:
    """A `.npy` array, the only array of a `.npz`, or one part of a packed dataset."""
    arrays = _read_arrays(raw, label)
    if {*SPLITS, "n_vars"} <= set(arrays):
        if split is None:
            raise FileFormatError(_which_split(label))
        return _frame(unpack_splits(raw, label)[split])
    if len(arrays) != 1:
        raise FileFormatError(
            f"{label} must hold one array, but holds {len(arrays)}: {', '.join([*arrays][:5])}."
        )
    (array,) = arrays.values()
    try:
        check_shape(array.shape, label)
        return _frame(array)
    except (ValueError, TypeError) as error:
        raise FileFormatError(one_line(error)) from None


def _read_arrays(raw: bytes, label: str) -> dict[str, AnyArray]:
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


def most_bytes(packed: int | None = None) -> int:
    """How large a table may be in memory; less if it is unpacked from so many bytes.

    `STRUDEL_MAX_TABLE_BYTES` overrides both.
    """
    with suppress(KeyError, ValueError):
        return int(float(os.environ[VARIABLE]))
    most = total_memory() // SHARE
    return most if packed is None else min(most, max(MOST_UNPACKED, MOST_RATIO * packed))


def check_bytes(n_bytes: int, label: str, packed: int | None = None) -> None:
    """Refuse a table that takes so many bytes."""
    most = most_bytes(packed)
    if n_bytes > most:
        raise FileFormatError(
            f"{label} takes more than {_words(most)} of memory.",
            "Give fewer rows or columns, or several parquet files, which are read one by one, or "
            f"allow more with {VARIABLE}.",
        )


def _words(n_bytes: int) -> str:
    """A number of bytes as people say it."""
    if n_bytes < 2**20:
        return f"{n_bytes} bytes"
    return f"{n_bytes / 2**30:.1f} GiB" if n_bytes >= 2**30 else f"{n_bytes / 2**20:.0f} MiB"


def read_bytes(source: Path | BinaryIO, label: str) -> bytes:
    """All bytes of a file, pipe or stream, never more than a bound, and unpacked."""
    if not isinstance(source, Path):
        return unzip(_joined(iter(lambda: source.read(BLOCK), b""), label), label)
    with source.open("rb") as file:
        if source.is_file():
            check_bytes(source.stat().st_size, label)
        return read_bytes(file, label)


def _joined(blocks: Iterator[bytes], label: str, packed: int | None = None) -> bytes:
    parts, n_bytes = [], 0
    for block in blocks:
        parts.append(block)
        n_bytes += len(block)
        check_bytes(n_bytes, label, packed)
    return b"".join(parts)


def unzip(raw: bytes, label: str) -> bytes:
    """Undo gzip, known by its first bytes whatever the file is called."""
    if not raw.startswith(b"\x1f\x8b"):
        return raw
    try:
        return _joined(_unpacked(raw), label, len(raw))
    except zlib.error as error:
        raise FileFormatError(f"{label} is a damaged gzip file: {error}.") from error


def _unpacked(raw: bytes) -> Iterator[bytes]:
    """The content of one or several gzip files in a row, block by block."""
    rest = raw
    while rest.rstrip(b"\0"):  # padding may follow
        unpacker = zlib.decompressobj(wbits=31)
        while not unpacker.eof:
            block = unpacker.decompress(rest, BLOCK)
            rest = unpacker.unconsumed_tail
            if not block and not rest and not unpacker.eof:
                raise zlib.error("it ends too early")
            yield block
        rest = unpacker.unused_data
