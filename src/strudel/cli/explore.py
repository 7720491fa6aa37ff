"""`strudel explore`: a model as one HTML page to click on."""

from __future__ import annotations

from pathlib import Path

from strudel.cli import files
from strudel.cli.console import JsonOption, option, print_json, say


def explore(
    model: files.ModelArgument,
    output: Path | None = option(
        "The HTML file; MODEL's name with .html by default.", None, *files.OUTPUT
    ),
    target: str | None = option(
        "The column that the page asks about first; of a classifier, the class.", "COLUMN"
    ),
    title: str | None = option("The title of the page; MODEL's name by default."),
    as_json: JsonOption = False,
) -> None:
    """Write a page on which people set values and see every probability move, exactly.

    The page is one file with the model inside, and no rows of data. It opens in any browser,
    without a server or a network: click on a value, and every other column answers.
    """
    from strudel import explore as write_page

    stem = Path(model.name.removesuffix(".gz")).stem
    path = output or Path(f"{stem}.html")
    files.check_output(path, "a page", (".html", ".htm"), model)
    page = write_page(
        files.as_model(files.read_any(model)), path, target=target, title=title or stem
    )
    if as_json:
        report = {"model": model, "title": page.title, "output": path}
        print_json(report | {"bytes": len(page.html.encode())})
    else:
        say(f"wrote {path} ({len(page.html) / 1e6:.1f} MB); open it in a browser")
