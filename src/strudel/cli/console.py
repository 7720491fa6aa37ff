"""How every command speaks: tables or JSON on stdout, notes and errors on stderr.

In:  reports, warnings and errors. A report is a dict of facts, of dicts of facts, and of lists of
     lines under the same headers, under names as in Python.
Out: lines. Advice of the library, which is about Python, is given in options.

rich is imported on the first table, so that `--help` and errors stay quick.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Annotated, Any, TypeAlias

import typer

from strudel import errors

Line: TypeAlias = Mapping[str, Any]


def option(
    text: str, metavar: str | None = None, *names: str, default: Any = None, **more: Any
) -> Any:
    """An option with its help; its name is that of the argument, unless it has others."""
    return typer.Option(default, *names, metavar=metavar, help=text, **more)


JsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON instead of tables.", rich_help_panel="Output")
]
# What other packages say to those who call them.
FOR_PROGRAMMERS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)


class InputError(Exception):
    """What was asked for cannot be done with what was given: one line, exit code 2."""


def tell(report: Line, as_json: bool, more: Line | None = None) -> None:
    """Print a report as tables; or all of it, and `more`, as JSON."""
    if as_json:
        print_json({**report, **(more or {})})
        return
    facts = {name: one for name, one in report.items() if not isinstance(one, dict | list)}
    parts = {name: one for name, one in report.items() if isinstance(one, dict | list) and one}
    if facts:
        show_table(facts)
    for place, (name, part) in enumerate(parts.items()):
        if facts or place > 0:
            say()
        show_table(part, in_words(name) if isinstance(part, dict) else "")


def show_table(part: Line | Sequence[Line], title: str = "") -> None:
    """Print facts in two columns, or lines under headers, with numbers to the right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, show_header=not isinstance(part, Mapping), header_style="bold")
    if isinstance(part, Mapping):
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        rows: Any = [(in_words(name), value) for name, value in part.items()]
    else:
        for name in part[0] if part else ():
            is_number = all(isinstance(line[name], int | float | None) for line in part)
            table.add_column(in_words(name), justify="right" if is_number else "left")
        rows = [line.values() for line in part]
    for row in rows:
        table.add_row(*map(_as_text, row))
    # A pipe gets wide lines.
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    if title:
        console.print(title, style="bold", markup=False, soft_wrap=True)
    with console.capture() as captured:
        console.print(table)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def in_words(name: str) -> str:
    """A name of a report as people read it: `n_rows` are rows."""
    return name.removeprefix("n_").replace("_", " ")


def _as_text(value: Any) -> Any:
    """A value as people read it: thousands apart, four decimals, words for yes and no."""
    from rich.text import Text

    if value is None or isinstance(value, bool):
        value = {None: "-", True: "yes", False: "no"}[value]
    elif isinstance(value, dict):
        value = ", ".join(f"{name}={one}" for name, one in value.items() if one is not None)
    elif isinstance(value, int):
        value = f"{value:,}"
    elif isinstance(value, float):  # small ones keep four digits
        value = f"{value:.4f}" if value == 0.0 or not 0.0 < abs(value) < 1e-3 else f"{value:.4g}"
    return Text(str(value))  # never markup: a path or a column may be called [red]


def say(line: str = "") -> None:
    """Print one line of plain text."""
    print(line)


def note(line: str) -> None:
    """Print one line on stderr, where it does not mix with results."""
    print(" ".join(line.split()), file=sys.stderr)


def print_json(data: Line) -> None:
    """Print one JSON object; numbers that JSON does not know become null."""
    text = json.dumps(data, default=lambda x: x.tolist() if hasattr(x, "tolist") else str(x))
    data = json.loads(text, parse_constant=lambda _: None)
    print(json.dumps(data, indent=2, ensure_ascii=False))


@contextmanager
def warnings_as_notes(source: str = "") -> Iterator[None]:
    """Print the library's warnings as notes at the end, without file names and code.

    What it calls X, given or rows is a table from `source`, also in errors.
    """

    def named(text: str) -> str:
        return re.sub(r"^(X|given|rows)(?= )", lambda _: source, text) if source else text

    try:
        with caught_warnings() as messages:
            yield
    except ValueError as error:
        raise InputError(named(in_options(error))) from error
    for message in messages:
        note(f"note: {named(message)}")


@contextmanager
def caught_warnings() -> Iterator[list[str]]:
    """The library's warnings, each once, when the block has ended."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield messages
    said = (one.message for one in caught if not issubclass(one.category, FOR_PROGRAMMERS))
    messages += dict.fromkeys(map(in_options, said))


def in_options(message: BaseException | str) -> str:
    """What is wrong, with advice in options instead of Python."""
    if not isinstance(message, errors.Explained):
        return str(message)
    cause: Any = getattr(message, "cause", None)  # of an event that cannot be read
    about = cause if isinstance(cause, errors.Explained) else message
    advice = ADVICE[type(about)].format(**vars(about)) if type(about) in ADVICE else message.advice
    return f"{message.problem} {advice}".rstrip()


ADVICE: dict[type[BaseException], str] = {
    errors.ManyCategoriesWarning: "Drop the column (--drop {column!r}) if it is an identifier.",
    errors.IdentifierWarning: "--drop {column!r} leaves it out without a note.",
    errors.LeftEmptyWarning: "--fill-structural fills them.",
    errors.MissingForAReasonWarning: (
        "strudel impute leaves those empty that are missing by rule; strudel sample --missing "
        "draws missing values as the table has them."
    ),
    errors.MisfitWarning: "`strudel check MODEL` shows all.",
    errors.UnseenValueError: "Correct it, leave the cell empty, or fit on rows that have it.",
    errors.UnseenValueWarning: "Correct them if they are misspelt.",
    errors.UnorderedColumnError: "Use =, != or in [a, b].",
    errors.ChangedFileError: "`strudel convert --force` reads it as it is.",
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
