"""How every command speaks: tables or JSON on stdout, notes and errors on stderr.

rich is imported on the first table, so that `--help` and errors stay quick.
"""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strudel.cli.advice_in_options import in_options

if TYPE_CHECKING:
    from rich.table import Table

JsonOption = Annotated[
    bool,
    typer.Option(
        "--json", rich_help_panel="Output", help="Print one JSON object instead of tables."
    ),
]


# What other packages say to those who call them.
FOR_PROGRAMMERS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)
_kept_notes: ContextVar[list[str] | None] = ContextVar("_kept_notes", default=None)
_caught: ContextVar[list[Warning | str] | None] = ContextVar("_caught", default=None)


class InputError(Exception):
    """What was asked for cannot be done with what was given: one line, exit code 2."""


def show_facts(title: str, facts: Mapping[str, Any]) -> None:
    """Print names and values in two columns."""
    from rich.table import Table

    table = Table(box=None, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, as_text(value))
    _print_table(table, title)


def show_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows under headers; numbers to the right."""
    from rich.table import Table

    table = Table(box=None)
    for place, name in enumerate(columns):
        is_number = all(isinstance(row[place], int | float) or row[place] is None for row in rows)
        table.add_column(name, justify="right" if is_number else "left", header_style="bold")
    for row in rows:
        table.add_row(*(as_text(value) for value in row))
    _print_table(table)


def as_text(value: Any) -> Any:
    """A value as people read it: thousands apart, four decimals, words for yes and no."""
    from rich.text import Text

    if value is None:
        text = "-"
    elif isinstance(value, bool):
        text = "yes" if value else "no"
    elif isinstance(value, int):
        text = f"{value:,}"
    elif isinstance(value, float):
        text = f"{value:.4f}"
    else:
        text = str(value)
    return Text(text)  # never markup: a path or a column may be called [red]


def _print_table(table: Table, title: str = "") -> None:
    """To a terminal in its width and style; to a pipe as plain lines, wide and without padding."""
    from rich.console import Console

    console = Console(file=sys.stdout, highlight=False)
    if console.is_terminal:
        if title:
            console.print(title, style="bold", markup=False, soft_wrap=True)
        console.print(table)
        return
    plain = Console(file=io.StringIO(), width=200)
    plain.print(table)
    lines = plain.file.getvalue().splitlines()  # type: ignore[attr-defined]
    print("\n".join([*([title] if title else []), *(line.rstrip() for line in lines)]))


def say(line: str = "") -> None:
    """Print one line of plain text."""
    print(line)


def note(line: str) -> None:
    """Print one line on stderr, where it does not mix with results."""
    kept = _kept_notes.get()
    if kept is None:
        print(one_line(line), file=sys.stderr)
    else:
        kept.append(one_line(line))


@contextmanager
def kept_notes() -> Iterator[list[str]]:
    """Keep what is noted inside the block, for another process to say, or once for many."""
    notes: list[str] = []
    before = _kept_notes.set(notes)
    try:
        yield notes
    finally:
        _kept_notes.reset(before)


def one_line(text: str) -> str:
    """The text without line breaks."""
    return " ".join(text.split())


def print_json(data: Mapping[str, Any]) -> None:
    """Print one JSON object; numbers that JSON does not know become null."""
    print(json.dumps(_plain(data), indent=2, allow_nan=False, ensure_ascii=False))


def _plain(value: Any) -> Any:
    """Numpy scalars, paths and tuples as JSON has them."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):  # numpy arrays and scalars
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Print the library's warnings as notes at the end, without file names and code."""
    with caught_warnings() as messages:
        yield
    for message in messages:
        note(f"note: {message}")


@contextmanager
def caught_warnings() -> Iterator[list[str]]:
    """The library's warnings in this thread, once the block has ended."""
    messages: list[str] = []
    caught: list[Warning | str] = []
    before = _caught.set(caught)
    try:
        with _listener:
            yield messages
    finally:
        _caught.reset(before)
    messages += dict.fromkeys(
        in_options(message) if isinstance(message, Warning) else message for message in caught
    )


class _Listener:
    """Hands every warning to the thread that it is from.

    `warnings.catch_warnings` is for the whole process: of two threads with partitions of their own,
    the last to leave would leave the list of the other behind.
    """

    def __init__(self) -> None:
        self._lock, self._depth, self._outer = Lock(), 0, ExitStack()

    def __enter__(self) -> None:
        import warnings

        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._outer.enter_context(warnings.catch_warnings())
                warnings.simplefilter("always")
                self._show: Any = warnings.showwarning
                warnings.showwarning = self._hear  # type: ignore[assignment]

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._outer.close()

    def _hear(self, message: Warning | str, category: type[Warning], *where: Any) -> None:
        caught = _caught.get()
        if caught is None:
            self._show(message, category, *where)
        elif not issubclass(category, FOR_PROGRAMMERS):
            caught.append(message)


_listener = _Listener()


def bits_per_dimension(mean_log_likelihood: float, n_vars: int) -> float:
    """Mean code length per variable, in bits."""
    return -mean_log_likelihood / (math.log(2) * n_vars)
