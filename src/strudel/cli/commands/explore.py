"""`strudel explore`: a model as one HTML page to click on.

In:  a model file, or a file of another program.
Out: an HTML file; complete or not at all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from strudel.cli.console import InputError, JsonOption, print_json, say
from strudel.cli.model_files import ForceOption, read_any
from strudel.cli.outputs import check_output
from strudel.cli.shell_completion import complete_model

ENDING = ".html"


def explore(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="A .strudel file, or a circuit of another program: .psdd .spn ...",
            autocompletion=complete_model,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The HTML file; MODEL's name with .html by default."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The column that the page asks about first; of a classifier, the class.",
        ),
    ] = None,
    title: Annotated[
        str | None, typer.Option(help="The title of the page; MODEL's name by default.")
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write a page on which people set values and see every probability move, exactly.

    The page is one file with the model inside, and no rows of data. It opens in any browser,
    without a server or a network: click on a value, and every other column answers.
    """
    from strudel.explorer.page import explore as write_page

    stem = Path(model.name.removesuffix(".gz")).stem
    path = output or Path(f"{stem}{ENDING}")
    if path.suffix not in (ENDING, ".htm") and not (path.exists() and not path.is_file()):
        raise InputError(f"a page is a {ENDING} file, but -o says {str(path)!r}.")
    check_output(path, "the page", {str(model)}, path.suffix)
    held = read_any(model, force)
    page = write_page(held, path, target=target, title=title or stem)
    if as_json:
        report = {"model": model, "title": page.title, "output": path}
        print_json(report | {"bytes": len(page.html.encode())})
    else:
        say(f"wrote {path} ({len(page.html) / 1e6:.1f} MB); open it in a browser")
