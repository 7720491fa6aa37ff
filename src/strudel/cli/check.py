"""`strudel check`: where a model and rows disagree."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from strudel.cli.console import (
    InputError,
    JsonOption,
    print_json,
    say,
    show_table,
    warnings_as_notes,
)
from strudel.cli.files import (
    ForceOption,
    ModelArgument,
    check_output,
    complete_data,
    read_file,
    read_model,
    read_rows,
)


def check(
    model: ModelArgument,
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="[DATA]",
            help="A table, a dataset (its test rows), NAME:train or NAME:valid, or - for stdin; "
            "by default what the model file says of the rows that it was learned from.",
            autocompletion=complete_data,
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Show at most this many pairs.")] = 15,
    picture: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel="Output",
            help="Also draw all pairs, model against rows, to a .png, .svg or .pdf file.",
        ),
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compare a model with rows, and say where they disagree.

    Looks at every pair of columns (of a wide table, the 2,000 that depend most on each other in the
    rows), and prints the worst: how surely the model's table of the pair differs from the counts of
    rows (z), their mutual information in both, and the share that differs most surely. Pairs whose
    dependence the rows show and the model has lost are told in a sentence each.
    """
    from strudel import queries

    if picture is not None:
        _check_picture(picture, model, data)
    with warnings_as_notes(data or ""):
        if data is None:
            held = read_file(model, force)
            if not hasattr(held, "check"):
                raise InputError(
                    f"{str(model)!r} holds a {type(held).__name__}: give DATA as well."
                )
            found = held.check()
        else:
            found = queries.check(read_model(model, force), read_rows(data))
        if picture is not None:
            _draw(found, picture, model.name)
    sentences = found.sentences()
    if as_json:
        print_json(
            {
                "model": model,
                "data": data,
                "n_rows": found.n_rows,
                "n_pairs": len(found.pair_first),
                "n_pairs_of_table": found.n_pairs_of_table,
                "n_lost": len(sentences),
                "lost": list(sentences),
                "pairs": [pair._asdict() for pair in found.pairs()[:top]],
                "picture": picture,
            }
        )
        return
    headers = ("column", "column", "z", "in the rows", "in the model", "worst share")
    show_table(headers, found.pairs()[:top])
    say()
    for sentence in sentences[:top]:
        say(f"lost: {sentence}")
    if len(sentences) > top:
        say(f"lost: {len(sentences) - top} more; --top shows more of them")
    n_pairs = f"{len(found.pair_first):,} pairs of columns"
    say(f"{len(sentences) or 'none'} of {n_pairs} lost, in {found.n_rows:,} rows")
    if picture is not None:
        say(f"wrote {picture}")


def _check_picture(path: Path, model: Path, data: str | None) -> None:
    from strudel.plotting.canvas import ENDINGS

    if path.suffix not in ENDINGS:
        raise InputError(
            f"a picture is a {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]} file, but --picture says "
            f"{str(path)!r}."
        )
    check_output(path, "the picture", {str(model), data}, path.suffix)


def _draw(found: Any, path: Path, title: str) -> None:
    from strudel.plotting.canvas import new_figure, save_figure

    figure = new_figure(7.0, 6.0)
    ax = found.plot(ax=figure.add_subplot())
    ax.set_title(title)
    save_figure(figure, path)
