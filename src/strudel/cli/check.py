"""`strudel check`: where a model and rows disagree."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from strudel.cli import files
from strudel.cli.console import InputError, JsonOption, say, tell, warnings_as_notes
from strudel.cli.plot import check_picture, draw


def check(
    model: files.ModelArgument,
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="[DATA]",
            help="A table, a dataset (its test rows), NAME:train or NAME:valid, or - for stdin; "
            "by default what the model file says of the rows that it was learned from.",
            autocompletion=files.complete_data,
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
    force: files.ForceOption = False,
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
        check_picture(picture, "a picture", "--picture")
        files.check_output(picture, "the picture", (model, data), picture.suffix)
    with warnings_as_notes(data or ""):
        if data is None:
            held = files.read_file(model, force)
            if not hasattr(held, "check"):
                raise InputError(
                    f"{str(model)!r} holds a {type(held).__name__}: give DATA as well."
                )
            found = held.check()
        else:
            found = queries.check(files.read_model(model, force), files.read_rows(data))
        if picture is not None:
            draw(lambda ax: found.plot(ax=ax), picture, (7.0, 6.0), model.name)
    sentences = found.sentences()
    lines = [
        {
            "a": pair.column_a,
            "b": pair.column_b,
            "z": pair.z,
            "in the rows": pair.mutual_information_rows,
            "in the model": pair.mutual_information_model,
            "worst share": pair.worst,
        }
        for pair in found.pairs()[:top]
    ]
    more = {"n_pairs_of_table": found.n_pairs_of_table, "lost_pairs": list(sentences)}
    report = {"rows": found.n_rows, "pairs of columns": len(found.pair_first)}
    report["lost"] = len(sentences)
    pictures = {} if picture is None else {"picture": picture}
    tell(report | pictures | {"pairs": lines}, as_json, more=more)
    for sentence in () if as_json else sentences[:top]:
        say(f"lost: {sentence}")
    if len(sentences) > top and not as_json:
        say(f"lost: {len(sentences) - top} more; --top shows more of them")
