"""`strudel check`: where a model and rows disagree."""

from __future__ import annotations

from pathlib import Path

import typer

from strudel.cli import files
from strudel.cli.console import InputError, JsonOption, option, say, tell, warnings_as_notes
from strudel.cli.plot import draw


def check(
    model: files.ModelArgument,
    data: str | None = typer.Argument(
        None,
        metavar="[DATA]",
        help="A table, a dataset (its test rows), NAME:train or NAME:valid, or - for stdin; by "
        "default what the model file says of the rows that it was learned from.",
        autocompletion=files.complete_data,
    ),
    top: int = option("Show at most this many pairs.", min=1, default=15),
    picture: Path | None = option(
        "Also draw all pairs, model against rows, to a .png, .svg or .pdf file.",
        rich_help_panel="Output",
    ),
    as_json: JsonOption = False,
) -> None:
    """Compare a model with rows, and say where they disagree.

    Looks at every pair of columns (of a wide table, the 2,000 that depend most on each other in the
    rows), and prints the worst: how surely the model's table of the pair differs from the counts of
    rows (z), their mutual information in both, and the share that differs most surely. Pairs whose
    dependence the rows show and the model has lost are told in a sentence each.
    """
    from strudel import queries
    from strudel.plotting.canvas import ENDINGS

    files.check_output(picture, "a picture", ENDINGS, model, data, said="--picture")
    with warnings_as_notes(data or ""):
        if data is not None:
            checked = queries.check(files.read_model(model), files.read_rows(data))
        else:
            held = files.read_any(model)
            if not hasattr(held, "check"):
                raise InputError(
                    f"{str(model)!r} holds a {type(held).__name__}: give DATA as well."
                )
            checked = held.check()
        if picture is not None:
            draw(lambda ax: checked.plot(ax=ax), picture, (7.0, 6.0), model.name)
    lost = list(checked.sentences())
    report = {"rows": checked.n_rows, "pairs_of_columns": len(checked.pair_first)}
    pictures = {} if picture is None else {"picture": picture}
    lines = [pair._asdict() for pair in checked.pairs()[:top]]
    more = {"n_pairs_of_table": checked.n_pairs_of_table, "lost_pairs": lost}
    tell({**report, "lost": len(lost), **pictures, "pairs": lines}, as_json, more)
    for sentence in () if as_json else lost[:top]:
        say(f"lost: {sentence}")
    if len(lost) > top and not as_json:
        say(f"lost: {len(lost) - top} more; --top shows more of them")
