"""The bytes of a table, never more of them than a bound.

In:  a file or standard input, plain or gzipped.
Out: its bytes, unpacked; `FileFormatError` where they, or what they unpack to, are too many.

A small file can unpack to a table that fills the memory. The bound is a quarter of the memory, and
for what unpacks also a hundred times the size of the file: 0/1 tables of the benchmarks unpack to
at most forty times their size.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from strudel._memory import total_memory
from strudel.errors import FileFormatError

VARIABLE = "STRUDEL_MAX_TABLE_BYTES"
SHARE = 4  # of the memory: a table is held about twice while it is read
MOST_UNPACKED = 2**27  # bytes of what any packed file holds
MOST_RATIO = 100  # of unpacked to packed bytes beyond that
BLOCK = 2**20


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


def read_bytes(source: Path | BinaryIO, label: str) -> bytes:
    """All bytes of a file or stream, read block by block and unpacked."""
    if not isinstance(source, Path):
        return unzip(_joined(iter(lambda: source.read(BLOCK), b""), label), label)
    if source.is_file():
        check_bytes(source.stat().st_size, label)
        return unzip(source.read_bytes(), label)
    with source.open("rb") as pipe:
        return read_bytes(pipe, label)


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


def _words(n_bytes: int) -> str:
    """A number of bytes as people say it."""
    if n_bytes < 2**20:
        return f"{n_bytes} bytes"
    return f"{n_bytes / 2**30:.1f} GiB" if n_bytes >= 2**30 else f"{n_bytes / 2**20:.0f} MiB"
