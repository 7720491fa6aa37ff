"""`strudel explore`: a model as one HTML page to click on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from strudel.cli import files
from strudel.cli.console import InputError, JsonOption, print_json, say


def explore(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="A .strudel file, or a circuit of another program: .psdd .spn ...",
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
    force: files.ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write a page on which people set values and see every probability move, exactly.

    The page is one file with the model inside, and no rows of data. It opens in any browser,
    without a server or a network: click on a value, and every other column answers.
    """
    from strudel import explore as write_page

    stem = Path(model.name.removesuffix(".gz")).stem
    path = output or Path(f"{stem}.html")
    if path.suffix not in (".html", ".htm") and not files.is_device(path):
        raise InputError(f"a page is a .html file, but -o says {str(path)!r}.")
    files.check_output(path, "the page", {model}, path.suffix)
    page = write_page(files.read_any(model, force), path, target=target, title=title or stem)
    if as_json:
        report = {"model": model, "title": page.title, "output": path}
        print_json(report | {"bytes": len(page.html.encode())})
    else:
        say(f"wrote {path} ({len(page.html) / 1e6:.1f} MB); open it in a browser")
