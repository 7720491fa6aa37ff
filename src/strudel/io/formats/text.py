"""Text files with one record per line: what all readers and writers of formats share.

In:  a path, plain or gzipped.
Out: `TextFile`, its lines as tokens with their numbers; numbers checked in bulk, errors that name
     the file and the line. And `write_text`, complete or not at all.

Files are not trusted: sizes that they announce are checked, nothing recurses, nothing is evaluated.
Tokens stay bytes, which are faster than text and have ASCII digits only.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn, TypeAlias

import numpy as np

from strudel._files import complete_file
from strudel._types import FloatArray
from strudel.errors import FileFormatError

MAX_UNPACKED = 2**23  # bytes of text from any gzipped file
MAX_RATIO = 50  # of text to gzipped bytes beyond that; circuits have 6, a zip bomb 1000
MAX_SHOWN = 40  # characters of a token shown in an error
MAX_VARIABLE = 2**30 - 1  # literals, numbered 2 * variable + value, are int32

Lines: TypeAlias = Iterator[tuple[int, list[bytes]]]  # numbers of lines, and their words


class TextFile:
    """The content of a file, with checks that raise errors with the number of the line."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.content = _read_bytes(self.path)

    def lines(self, comments: bool = True) -> Lines:
        """Every line that is neither empty nor a comment: its number and its tokens."""
        for number, line in enumerate(io.BytesIO(self.content), start=1):
            tokens = line.split()
            if tokens and not (comments and tokens[0] in (b"c", b"cc")):
                yield number, tokens

    def refuse(self, reason: str, line: int | None = None) -> NoReturn:
        """Raise `FileFormatError` with the name of the file and the number of the line."""
        place = self.path if line is None else f"{self.path}, line {line}"
        raise FileFormatError(f"{place}: {reason}.")

    def refuse_line(self, forms: str, tokens: Sequence[bytes], line: int) -> NoReturn:
        """Refuse a line that has none of the forms that its format knows."""
        words = f"{len(tokens)} words start with {show(tokens[0])}"
        self.refuse(f"a line should be {forms}, but {words}", line)

    def check_announced(self, announced: int | None, n_found: int, header: int, what: str) -> None:
        """Refuse a file that does not hold the number of nodes or clauses it announces."""
        if announced != n_found:
            self.refuse(
                f"{announced} {what} were announced, but there are {n_found}: is it incomplete?",
                header,
            )

    def width(
        self, token: bytes, n_words: int, line: int, what: str = "children", each: int = 1
    ) -> int:
        """The number of children of a node, if the words that follow are as many as they need."""
        width = self.whole(token, line, f"the number of {what}")
        if n_words != each * width:
            self.refuse(
                f"{width} {what} should have {each * width} words, but there are {n_words}", line
            )
        return width

    def earlier_nodes(self, tokens: Sequence[bytes], line: int, n_nodes: int) -> list[int]:
        """Children by their places among the nodes so far."""
        children = [self.whole(token, line, "a child") for token in tokens]
        for child in children:
            if not 0 <= child < n_nodes:
                self.refuse(f"child {child} is not the number of an earlier node", line)
        return children

    def whole(self, token: bytes, line: int, what: str) -> int:
        """One whole number."""
        try:
            return int(token)
        except ValueError:
            self.refuse(f"{what} should be a whole number, but is {show(token)}", line)

    def real(self, token: bytes, line: int, what: str) -> float:
        """One number; infinite is allowed, NaN is not."""
        try:
            value = float(token)
        except ValueError:
            value = np.nan
        if value != value:
            self.refuse(f"{what} should be a number, but is {show(token)}", line)
        return value

    def wholes(self, tokens: Sequence[bytes], lines: Sequence[int], what: str) -> list[int]:
        """Many whole numbers at once; `lines` holds the line of each."""
        try:
            return list(map(int, tokens))
        except ValueError:
            return [
                self.whole(token, line, what) for token, line in zip(tokens, lines, strict=True)
            ]

    def reals(self, tokens: Sequence[bytes], lines: Sequence[int], what: str) -> FloatArray:
        """Many numbers at once; `lines` holds the line of each."""
        try:
            values = np.array(list(map(float, tokens)), dtype=np.float64)
        except ValueError:
            values = np.array([np.nan])
        if np.isnan(values).any():
            found = zip(tokens, lines, strict=True)
            values = np.array([self.real(token, line, what) for token, line in found])
        return values

    def variable(self, token: bytes, line: int) -> int:
        """A variable, counted from 1 in files and from 0 here."""
        var = self.whole(token, line, "a variable")
        if not 1 <= var <= MAX_VARIABLE:
            self.refuse(f"variables are numbered from 1, but one is {show(token)}", line)
        return var - 1

    def literal(self, token: bytes, line: int) -> int:
        """A literal, signed in files, `2 * variable + value` here."""
        signed = self.whole(token, line, "a literal")
        if signed == 0 or abs(signed) > MAX_VARIABLE:
            self.refuse(f"a literal is a variable from 1 up or its negative, not {signed}", line)
        return 2 * (abs(signed) - 1) + (signed > 0)


class Ids:
    """Ids of nodes: labels in any order, each defined once and before it is used."""

    def __init__(self, file: TextFile) -> None:
        self.file = file
        self.number: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.number)

    def define(self, token: bytes, line: int, number: int | None = None) -> int:
        """Give a new id a number, the next one by default."""
        name = self.file.whole(token, line, "an id")
        if name in self.number:
            self.file.refuse(f"id {name} is used for two nodes", line)
        self.number[name] = len(self.number) if number is None else number
        return self.number[name]

    def find(self, tokens: Iterable[bytes], line: int) -> list[int]:
        """The numbers of ids that were defined before."""
        numbers = []
        for token in tokens:
            found = self.number.get(self.file.whole(token, line, "a child"))
            if found is None:
                self.file.refuse(f"child {show(token)} is not the id of an earlier node", line)
            numbers.append(found)
        return numbers


def read_header(file: TextFile, lines: Lines, word: bytes) -> tuple[int, int | None]:
    """Take the line ``word [count]``: its number, and the count, which is often wrong."""
    for line, tokens in lines:
        if tokens[0].lower() != word or len(tokens) > 2:
            break
        if len(tokens) == 1:
            return line, None
        return line, file.whole(tokens[1], line, "the number of nodes")
    file.refuse(f"it does not start with a line '{word.decode()} number-of-nodes'")


def show(token: bytes) -> str:
    """A token as it may stand in an error."""
    text = token.decode("utf-8", "replace")
    return repr(text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "...")


def signed(literal: int) -> int:
    """A literal `2 * variable + value` as files write it."""
    var = literal // 2 + 1
    return var if literal % 2 else -var


def number(value: float) -> str:
    """A float that reads back the same bit for bit, in the spelling most programs take."""
    if value == -np.inf:
        return "-Infinity"
    return repr(float(value))


def bare_suffix(path: str | os.PathLike[str]) -> str:
    """The extension without ``.gz``, in lower case."""
    name = Path(path).name.lower().removesuffix(".gz")
    return Path(name).suffix


def _read_bytes(path: str) -> bytes:
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a folder: give the name of a file in it.")
    if not path.lower().endswith(".gz"):
        with open(path, "rb") as file:
            content = file.read()
    else:
        with open(path, "rb") as packed:
            most = max(MAX_UNPACKED, MAX_RATIO * os.fstat(packed.fileno()).st_size)
            try:
                with gzip.GzipFile(fileobj=packed) as file:
                    content = file.read(most + 1)
            except (OSError, EOFError, zlib.error) as error:
                raise FileFormatError(f"{path}: it is not a valid gzip file ({error}).") from error
        if len(content) > most:
            raise FileFormatError(
                f"{path}: it holds more than {most >> 20} MB of text, too much for its size. "
                "Unpack it first if that is right."
            )
    return content.removeprefix(b"\xef\xbb\xbf")


def write_text(path: str | os.PathLike[str], lines: Iterable[str]) -> None:
    """Write lines, gzipped if the path says so, complete or not at all."""
    content = "".join(f"{line}\n" for line in lines).encode()
    if Path(path).name.lower().endswith(".gz"):
        content = gzip.compress(content, mtime=0)  # the same model gives the same file
    with complete_file(path) as unfinished:
        unfinished.write_bytes(content)
