"""The `strudel` command.

In:  arguments.
Out: an exit code: 0 when it worked, 2 and one line on stderr for bad input, 1 for an internal
     error.

Commands import what they need when they run, so that `strudel --help` stays quick.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Annotated

import typer

from strudel._signals import exit_if_terminated, terminate_like_interrupt
from strudel.cli.check import check
from strudel.cli.console import InputError, compile_line, in_options, note
from strudel.cli.convert import convert
from strudel.cli.datasets import datasets
from strudel.cli.demo import demo
from strudel.cli.explore import explore
from strudel.cli.fit import fit
from strudel.cli.impute import impute
from strudel.cli.info import info
from strudel.cli.plot import plot
from strudel.cli.predict import predict
from strudel.cli.query import query
from strudel.cli.sample import sample
from strudel.cli.score import score
from strudel.cli.warmup import warmup
from strudel.errors import StrudelError

# What may compile without a progress line of its own; all others start without the compiler.
COMPILE = {"check", "score", "query", "sample", "plot", "predict", "impute", "explore"}
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
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Learn probabilistic circuits from tables and ask them exact questions."""


EXAMPLES: dict[Callable[..., None], tuple[str, ...]] = {
    demo: ("strudel demo --out strudel-demo",),
    datasets: ("strudel datasets --json",),
    fit: (
        "strudel fit my.csv",
        "strudel fit nltcs -o nltcs.strudel",
        "strudel fit survey.csv --target smoker",
        "strudel fit nltcs --search learnpsdd --set search.copies=minimal",
    ),
    check: ("strudel check survey.strudel new.csv --picture check.png",),
    score: ("strudel score nltcs.strudel test.csv -o rows.csv",),
    info: ("strudel info nltcs.strudel",),
    query: (
        'strudel query nltcs.strudel marginal --given "x3=1,x7=0"',
        'strudel query survey.strudel probability "smoker = yes & age > 60"',
        'strudel query survey.strudel posterior --variables income --given "age > 60"',
        "strudel query survey.strudel surprise new.csv -o unusual.csv",
        "strudel query survey.strudel compare sex=f sex=m",
    ),
    sample: ('strudel sample nltcs.strudel -n 1000 --given "x3=1" -o rows.csv',),
    plot: ('strudel plot nltcs.strudel marginals --given "x3=1" -o nltcs.png',),
    explore: ("strudel explore survey.strudel -o survey.html --target smoker",),
    predict: ("strudel predict survey.strudel new.csv -o predicted.csv",),
    impute: ("strudel impute survey.strudel gaps.csv -o filled.csv",),
    warmup: ("strudel warmup",),
    convert: ("strudel convert nltcs.strudel nltcs.psdd",),
}


def _help(command: Callable[..., None], examples: Sequence[str]) -> str:
    """The description of a command, with examples before the details."""
    first, _, rest = inspect.cleandoc(command.__doc__ or "").partition("\n\n")
    lines = "\n".join(f"  {example}" for example in examples)
    return f"{first}\n\n\b\nExamples:\n{lines}\n\n{rest}"


for _command, _examples in EXAMPLES.items():
    app.command(help=_help(_command, _examples))(_command)


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
        with (
            terminate_like_interrupt(),
            compile_line() if set(arguments[:1]) & COMPILE else nullcontext(),
        ):
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
    if isinstance(error, typer.Abort):
        note("strudel: interrupted")
        return INTERRUPTED
    if hasattr(error, "format_message"):  # typer's own errors, whatever base they have
        note(f"strudel: {error.format_message()}")
        return 2
    if isinstance(error, OSError) and error.strerror and error.filename:
        note(f"strudel: {error.filename}: {error.strerror}")
        return 2
    if isinstance(error, InputError | StrudelError | ValueError | OSError):
        note(f"strudel: {in_options(error)}")
        return 2
    if isinstance(error, MemoryError):
        note("strudel: there is not enough memory. Give fewer rows or columns, or a smaller model.")
        return 2
    note(
        f"strudel: unexpected {type(error).__name__}: {error} "
        "(an internal error; STRUDEL_DEBUG=1 shows where)"
    )
    return 1
