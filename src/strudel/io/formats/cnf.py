"""`.cnf` and `.dnf` files: the DIMACS format, one formula.

In:  clauses over one or several lines, each closed by 0; a line that starts with ``%`` ends them.
Out: `Cnf` or `Dnf`. The extension decides which: some programs write ``p cnf`` into `.dnf` files.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from strudel._types import IntArray
from strudel.io.formats.text import MAX_VARIABLE, TextFile
from strudel.logic.formula import Cnf, Dnf


def read_cnf(file: TextFile) -> Cnf:
    """The clauses in a file."""
    return Cnf(*_read_groups(file, (b"cnf",)))


def read_dnf(file: TextFile) -> Dnf:
    """The terms in a file."""
    return Dnf(*_read_groups(file, (b"dnf", b"cnf")))


def _read_groups(file: TextFile, words: tuple[bytes, ...]) -> tuple[int, IntArray, IntArray]:
    """The number of variables, where clauses start, and their literals."""
    n_vars, n_groups, n_closed, header = None, 0, 0, 0
    tokens: list[bytes] = []
    lines: list[int] = []
    for line, found in file.lines():
        if found[0].startswith(b"%"):
            break
        if n_vars is not None:
            tokens += found
            lines += [line] * len(found)
            n_closed += found.count(b"0")
            if n_closed > n_groups:
                file.refuse(f"{n_groups} clauses were announced, but there are more", line)
            continue
        if len(found) != 4 or found[0] != b"p" or found[1].lower() not in words:
            break
        n_vars = file.whole(found[2], line, "the number of variables")
        n_groups = file.whole(found[3], line, "the number of clauses")
        header = line
    word = words[0].decode()
    if n_vars is None:
        file.refuse(f"it does not start with a line 'p {word} variables clauses'")
    if not 0 <= n_vars <= MAX_VARIABLE:
        file.refuse(f"it cannot have {n_vars} variables", header)
    signed = file.wholes(tokens, lines, "a literal")
    for value, line in zip(signed, lines, strict=True):
        if not -n_vars <= value <= n_vars:
            file.refuse(f"literal {value} is not of the variables 1 to {n_vars}", line)
    if signed and signed[-1] != 0:
        file.refuse("the last clause is not closed by 0", lines[-1])
    values = np.array(signed, dtype=np.int64)
    ends = np.flatnonzero(values == 0)
    file.check_announced(n_groups, len(ends), header, "clauses")
    literals = values[values != 0]
    start = np.concatenate([[0], ends - np.arange(len(ends))]).astype(np.int32)
    return n_vars, start, (2 * (np.abs(literals) - 1) + (literals > 0)).astype(np.int32)


def formula_lines(formula: Cnf | Dnf) -> Iterator[str]:
    """The file, line by line."""
    word = "cnf" if isinstance(formula, Cnf) else "dnf"
    yield f"p {word} {formula.n_vars} {formula.n_groups}"
    for group in formula.to_literals():
        yield " ".join(map(str, [*group, 0]))
