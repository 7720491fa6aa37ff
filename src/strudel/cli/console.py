"""How every command speaks: tables or JSON on stdout, notes and errors on stderr.

In:  facts, rows, frames, warnings and errors of the library.
Out: lines. Advice of the library, which is about Python, is given in options.

rich is imported on the first table, so that `--help` and errors stay quick.
"""

from __future__ import annotations

import io
import json
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strudel import errors

if TYPE_CHECKING:
    from rich.table import Table


def option(
    text: str, metavar: str | None = None, *names: str, panel: str | None = None, **more: Any
) -> Any:
    """An option with its help; its name is that of the argument, unless it has others."""
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=panel, **more)


JsonOption = Annotated[
    bool, option("Print one JSON object instead of tables.", None, "--json", panel="Output")
]
# What other packages say to those who call them.
FOR_PROGRAMMERS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)


class InputError(Exception):
    """What was asked for cannot be done with what was given: one line, exit code 2."""


# What is printed


def tell(
    report: Mapping[str, Any], as_json: bool, title: str = "", more: Mapping[str, Any] | None = None
) -> None:
    """Print facts, and parts that are facts or lines under the same headers.

    As JSON all of it, and `more`, under names that need no quotes.
    """
    if as_json:
        print_json(keyed(dict(report) | dict(more or {})))
        return
    parts = {name: part for name, part in report.items() if isinstance(part, dict | list) and part}
    facts = {name: one for name, one in report.items() if not isinstance(one, dict | list)}
    if facts:
        show_facts(title, facts)
    for place, (name, part) in enumerate(parts.items()):
        if facts or place > 0:
            say()
        if isinstance(part, dict):
            show_facts(name, part)
        else:
            show_table(part)


def keyed(report: Any, depth: int = 2) -> Any:
    """A report whose names have no blanks; names of columns and values stay as they are."""
    if isinstance(report, list) and report and isinstance(report[0], dict):
        return [keyed(one, depth) for one in report]
    if not isinstance(report, dict) or depth == 0:
        return report
    names = {name: re.sub(r"[^\w.]+", "_", name).strip("_") for name in report}
    return {names[name]: keyed(one, depth - 1) for name, one in report.items()}


def show_facts(title: str, facts: Mapping[str, Any]) -> None:
    """Print names and values in two columns."""
    from rich.table import Table

    table = Table(box=None, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, as_text(value))
    _print_table(table, title)


def show_table(lines: Sequence[Mapping[str, Any]]) -> None:
    """Print lines under headers; numbers to the right."""
    from rich.table import Table

    table = Table(box=None)
    for name in lines[0] if lines else ():
        is_number = all(isinstance(line[name], int | float | None) for line in lines)
        table.add_column(name, justify="right" if is_number else "left", header_style="bold")
    for line in lines:
        table.add_row(*map(as_text, line.values()))
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
    elif isinstance(value, float):  # small ones keep four digits
        text = f"{value:.4f}" if value == 0.0 or not 0.0 < abs(value) < 1e-3 else f"{value:.4g}"
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
    print(" ".join(line.split()), file=sys.stderr)


def print_json(data: Mapping[str, Any]) -> None:
    """Print one JSON object; numbers that JSON does not know become null."""
    print(json.dumps(_plain(data), indent=2, allow_nan=False, ensure_ascii=False))


def _plain(value: Any) -> Any:
    """Numpy scalars, paths and tuples as JSON has them."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # numpy arrays and scalars
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)


# What the library says


@contextmanager
def warnings_as_notes(source: str = "") -> Iterator[None]:
    """Print the library's warnings as notes at the end, without file names and code.

    What it calls X or given is a table from `source`, also in errors.
    """
    try:
        with caught_warnings() as messages:
            yield
    except ValueError as error:
        raise InputError(_named(in_options(error), source)) from error
    for message in messages:
        note(f"note: {_named(message, source)}")


@contextmanager
def caught_warnings() -> Iterator[list[str]]:
    """The library's warnings, each once, when the block has ended."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield messages
    said = (one.message for one in caught if not issubclass(one.category, FOR_PROGRAMMERS))
    messages += dict.fromkeys(map(in_options, said))


def _named(text: str, source: str) -> str:
    """What is said of an argument, said of the table that was typed."""
    return re.sub(r"^(X|given|rows)(?= )", lambda _: source, text) if source else text


def in_options(message: BaseException | str) -> str:
    """What is wrong, with advice in options instead of Python."""
    if not isinstance(message, errors.Explained):
        return str(message)
    return f"{message.problem} {advice_of(message)}".rstrip()


def advice_of(message: errors.Explained) -> str:
    """What to do, in options where there are some."""
    cause: Any = getattr(message, "cause", None)  # of an event that cannot be read
    about = cause if isinstance(cause, errors.Explained) else message
    return _ADVICE[type(about)](about) if type(about) in _ADVICE else message.advice


def _of_reasons(warning: errors.MissingForAReasonWarning) -> str:
    is_rule = any(rule.is_structural for rule in warning.rules)
    impute = "strudel impute leaves those empty that are missing by rule; " if is_rule else ""
    return f"{impute}strudel sample --missing draws missing values as the table has them."


_ADVICE: dict[type[BaseException], Callable[[Any], str]] = {
    errors.ManyCategoriesWarning: lambda error: (
        f"Drop the column (--drop {error.column!r}) if it is an identifier."
    ),
    errors.IdentifierWarning: lambda error: (
        f"--drop {error.column!r} leaves it out without a note."
    ),
    errors.LeftEmptyWarning: lambda _: "--fill-structural fills them.",
    errors.MissingForAReasonWarning: _of_reasons,
    errors.MisfitWarning: lambda _: "`strudel check MODEL` shows all.",
    errors.UnseenValueError: lambda _: (
        "Correct it, leave the cell empty, or fit on rows that have it."
    ),
    errors.UnseenValueWarning: lambda _: "Correct them if they are misspelt.",
    errors.UnorderedColumnError: lambda _: "Use =, != or in [a, b].",
    errors.ChangedFileError: lambda _: "--force reads it as it is.",
}


@contextmanager
def compile_line(is_quiet: bool = False) -> Iterator[None]:
    """Say on a terminal that something is compiled, for as long as it takes."""
    from strudel._compiling import Compiled, is_compiling, on_compile

    def show(done: Compiled) -> None:
        words = str(done) if is_compiling() else ""
        print(f"\r\033[K{words}", end="", file=sys.stderr, flush=True)

    with on_compile(show) if sys.stderr.isatty() and not is_quiet else nullcontext():
        yield
