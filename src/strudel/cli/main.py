"""The `strudel` command.

In:  arguments.
Out: an exit code: 0 when it worked, 2 and one line on stderr for bad input, 1 for an internal
     error.

Commands import what they need when they run, so that `strudel --help` stays quick.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from inspect import cleandoc

import typer

from strudel._signals import exit_if_terminated, terminate_like_interrupt
from strudel.cli.console import InputError, compile_line, in_options, note, option
from strudel.errors import StrudelError

INTERRUPTED = 130  # what shells expect after Ctrl-C

app = typer.Typer(
    name="strudel",
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        from strudel._version import __version__

        print(f"strudel {__version__}")
        raise typer.Exit


@app.callback(epilog="Start with:  strudel demo")
def strudel(
    version: bool = option(
        "Show the version.", None, "--version", default=False, is_eager=True, callback=_show_version
    ),
) -> None:
    """Learn probabilistic circuits from tables and ask them exact questions."""


EXAMPLES = {  # of each command, which is a module of its name
    "demo": ("strudel demo --out strudel-demo",),
    "datasets": ("strudel datasets --json",),
    "fit": (
        "strudel fit my.csv",
        "strudel fit nltcs -o nltcs.strudel",
        "strudel fit survey.csv --target smoker",
        "strudel fit nltcs --search learnpsdd --set search.copies=minimal",
    ),
    "check": ("strudel check survey.strudel new.csv --picture check.png",),
    "score": ("strudel score nltcs.strudel test.csv -o rows.csv",),
    "info": ("strudel info nltcs.strudel",),
    "query": (
        'strudel query nltcs.strudel marginal --given "x3=1,x7=0"',
        'strudel query survey.strudel probability "smoker = yes & age > 60"',
        'strudel query survey.strudel posterior --variables income --given "age > 60"',
        "strudel query survey.strudel surprise new.csv -o unusual.csv",
        "strudel query survey.strudel compare sex=f sex=m",
    ),
    "sample": ('strudel sample nltcs.strudel -n 1000 --given "x3=1" -o rows.csv',),
    "plot": ('strudel plot nltcs.strudel marginals --given "x3=1" -o nltcs.png',),
    "explore": ("strudel explore survey.strudel -o survey.html --target smoker",),
    "predict": ("strudel predict survey.strudel new.csv -o predicted.csv",),
    "impute": ("strudel impute survey.strudel gaps.csv -o filled.csv",),
    "warmup": ("strudel warmup",),
    "convert": ("strudel convert nltcs.strudel nltcs.psdd",),
}


for _name, _examples in EXAMPLES.items():
    _command = getattr(import_module(f"strudel.cli.{_name}"), _name)
    _first, _, _rest = cleandoc(_command.__doc__ or "").partition("\n\n")
    _lines = "\n".join(f"  {example}" for example in _examples)
    app.command(help=f"{_first}\n\n\b\nExamples:\n{_lines}\n\n{_rest}")(_command)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Examples
    --------
    >>> main(["--version"])
    strudel ...
    0
    """
    code = run(app, "strudel", list(sys.argv[1:] if argv is None else argv))
    exit_if_terminated(code)
    return code


def run(app: typer.Typer, name: str, arguments: list[str]) -> int:
    """Run a command line of some name; whatever goes wrong is one line on stderr."""
    if hasattr(sys.stdout, "reconfigure"):  # a name that the terminal cannot show ends no command
        sys.stdout.reconfigure(errors="backslashreplace")
    command = typer.main.get_command(app)
    try:
        is_quiet = arguments[:1] in (["fit"], ["demo"])  # which have a progress line of their own
        with terminate_like_interrupt(), compile_line(is_quiet):
            code = command.main(args=arguments or ["--help"], prog_name=name, standalone_mode=False)
    except SystemExit as stop:  # the reader of our pipe has gone
        return stop.code if isinstance(stop.code, int) else 1
    except Exception as error:
        if os.environ.get("STRUDEL_DEBUG") == "1":
            raise
        return _explain(error)
    if code == INTERRUPTED:
        note("strudel: interrupted")
    return code if isinstance(code, int) else 0


def _explain(error: Exception) -> int:
    """Say in one line what went wrong; returns the exit code."""
    code = 2
    if isinstance(error, typer.Abort):
        said, code = "interrupted", INTERRUPTED
    elif hasattr(error, "format_message"):  # typer's own errors, whatever base they have
        said = error.format_message()
    elif isinstance(error, OSError) and error.strerror and error.filename:
        said = f"{error.filename}: {error.strerror}"
    elif isinstance(error, InputError | StrudelError | ValueError | OSError):
        said = in_options(error)
    elif isinstance(error, MemoryError):
        said = "there is not enough memory. Give fewer rows or columns, or a smaller model."
    else:
        more = "(an internal error; STRUDEL_DEBUG=1 shows where)"
        said, code = f"unexpected {type(error).__name__}: {error} {more}", 1
    note(f"strudel: {said}")
    return code
