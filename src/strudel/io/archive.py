"""The container of a model file: a zip of `meta.json` and one `.npy` member per array.

In:  plain values and arrays, and a path.
Out: the file; and an `Archive` of its contents, with names, sizes, types and shapes checked.

Nothing in a file is ever executed. Members are not compressed, so that no file can use more memory
than its own size. `meta.json` has a checksum of all the rest, so that a file is what was saved.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from strudel._files import complete_file
from strudel._types import AnyArray
from strudel.errors import ChangedFileError, FileFormatError

MAX_MEMBERS = 100
MEMBER_NAME = re.compile(r"meta\.json|[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*\.npy")
AXES = {1: "one axis", 2: "two axes"}

T = TypeVar("T")


def write_archive(
    path: str | os.PathLike[str], meta: dict[str, Any], arrays: dict[str, AnyArray]
) -> None:
    """Write all members and their checksum, complete or not at all; all arrays in C order."""
    text = as_json(meta)
    if text is None:
        raise TypeError("provenance must hold plain values only: text, numbers, lists and dicts.")
    plain_meta = json.loads(text)
    checksum = Checksum(plain_meta)
    with (
        complete_file(path) as unfinished,
        zipfile.ZipFile(unfinished, "w", zipfile.ZIP_STORED) as archive,
    ):
        for name in sorted(arrays):
            content = io.BytesIO()
            np.lib.format.write_array(
                content, np.ascontiguousarray(arrays[name]), (1, 0), allow_pickle=False
            )
            checksum.add(f"{name}.npy", content.getvalue())
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content.getvalue())
        text = json.dumps(plain_meta | {"checksum": checksum.text()}, indent=1)
        archive.writestr(zipfile.ZipInfo("meta.json"), text)


class Checksum:
    """SHA-256 of the values of `meta.json` and of the bytes of all other members, by name."""

    def __init__(self, meta: dict[str, Any]) -> None:
        self._sum = hashlib.sha256()
        rest = {name: value for name, value in meta.items() if name != "checksum"}
        self.add("meta.json", json.dumps(rest, sort_keys=True).encode())

    def add(self, name: str, content: bytes) -> None:
        """One more member."""
        self._sum.update(f"{name} {len(content)} ".encode())
        self._sum.update(content)

    def text(self) -> str:
        """As it stands in the file."""
        return f"sha256:{self._sum.hexdigest()}"


def as_json(value: Any) -> str | None:
    """The value as JSON text, or None if it is not made of plain values."""

    def plain(item: Any) -> Any:
        if isinstance(item, np.generic | np.ndarray):
            return item.tolist()
        if isinstance(item, os.PathLike):
            return os.fspath(item)
        raise TypeError

    try:
        return json.dumps(value, default=plain, indent=1)
    except (TypeError, ValueError):
        return None


def read_archive(path: str | os.PathLike[str], use: Callable[[Archive], T]) -> T:
    """Open a file and pass its contents to `use`; every failure becomes a `FileFormatError`."""
    if Path(path).is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the name of a file in it.")
    with open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                return use(Archive(archive, os.fstat(file.fileno()).st_size))
        except ImportError:
            raise
        except ChangedFileError as error:
            raise error.within(f"Cannot read a Strudel model from {path}") from None
        except FileFormatError as error:
            reason, cause = str(error), error.__cause__
        except Exception as error:  # zipfile meets damage with a dozen kinds of exception
            detail = str(error) or type(error).__name__
            reason, cause = f"it is incomplete, damaged or another kind of file ({detail})", error
    reason = " ".join(reason.split()).rstrip(".")  # some libraries write several lines
    raise FileFormatError(f"Cannot read a Strudel model from {path}: {reason}.") from cause


class Archive:
    """An open file with a checked list of members."""

    def __init__(self, archive: zipfile.ZipFile, n_bytes: int) -> None:
        self._archive = archive
        self._members = _sound_members(archive, n_bytes)
        self.meta = expect(json.loads(self._read("meta.json")), dict, "meta.json")

    def is_as_saved(self) -> bool:
        """Whether the checksum is that of the content."""
        checksum = Checksum(self.meta)
        for name in sorted(self._members):
            if name != "meta.json":
                checksum.add(name, self._read(name))
        return bool(self.meta.get("checksum") == checksum.text())

    def __contains__(self, name: str) -> bool:
        """Whether there is an array of this name."""
        return f"{name}.npy" in self._members

    def read_array(self, name: str, dtypes: tuple[str, ...], n_axes: int = 1) -> AnyArray:
        """One array of one of the given types, its last axis contiguous."""
        data = self._read(f"{name}.npy")
        content = io.BytesIO(data)
        if np.lib.format.read_magic(content) != (1, 0):
            raise FileFormatError(f"array {name} is not in version 1.0 of the npy format")
        shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(content)
        if dtype.str not in dtypes or len(shape) != n_axes:
            raise FileFormatError(
                f"array {name} should have {AXES[n_axes]} and type {' or '.join(dtypes)}, "
                f"but has shape {shape} and type {dtype}"
            )
        start = content.tell()
        # Two negative lengths have a positive product.
        if min(shape) < 0 or math.prod(shape) * dtype.itemsize != len(data) - start:
            raise FileFormatError(f"array {name} does not have the length that its header says")
        array: AnyArray = np.ndarray(shape, dtype, data, start, order="F" if is_fortran else "C")
        return array.astype(dtype.newbyteorder("="), order="C")

    def _read(self, name: str) -> bytes:
        if name not in self._members:
            raise FileFormatError(f"the member {name} is missing")
        n_bytes = self._members[name].file_size
        with self._archive.open(self._members[name]) as member:
            content = member.read(n_bytes + 1)  # one more, so that the checksum is compared
        if len(content) != n_bytes:
            raise FileFormatError("a member does not have the length that the file says")
        return content


def _sound_members(archive: zipfile.ZipFile, n_bytes: int) -> dict[str, zipfile.ZipInfo]:
    """The members by name, if names and sizes are what `save` writes."""
    infos = archive.infolist()
    members = {info.filename: info for info in infos}
    if "meta.json" not in members:
        raise FileFormatError("it is a zip file, but not a Strudel model: meta.json is missing")
    if len(infos) > MAX_MEMBERS or len(members) < len(infos):
        raise FileFormatError("it has too many members, or two with the same name")
    for info in infos:
        if not MEMBER_NAME.fullmatch(info.filename):
            raise FileFormatError(f"its member {info.filename!r} does not belong in a model")
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise FileFormatError(f"its member {info.filename} is compressed")
    if sum(info.file_size for info in infos) > n_bytes:
        raise FileFormatError("its members are larger than the file")
    return members


def expect(value: Any, kind: type[T], what: str) -> T:
    """The value, if it is of this kind."""
    if not isinstance(value, kind) or isinstance(value, bool):
        raise FileFormatError(f"{what} should be {kind.__name__}, but is {type(value).__name__}")
    return value
