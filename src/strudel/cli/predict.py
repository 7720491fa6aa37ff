"""`strudel predict`: the class of every row, and how probable each class is."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strudel.cli.columns import write_columns
from strudel.cli.completion import complete_data
from strudel.cli.console import InputError, JsonOption, note, print_json, warnings_as_notes
from strudel.cli.fit_classifier import scores_of
from strudel.cli.frames import split_target, to_frame
from strudel.cli.models import ModelArgument, read_file
from strudel.cli.outputs import check_output, write_text
from strudel.cli.sources import read_frame_rows

if TYPE_CHECKING:
    from strudel.data.table_columns import RawTable
    from strudel.models.classifier import StrudelClassifier


def predict(
    model: ModelArgument,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A table with the columns of the model, or - for stdin; gaps are allowed.",
            autocompletion=complete_data,
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write a csv file instead of stdout.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Predict the class of every row, with a model of `strudel fit --target`.

    The csv has the predicted class and the probability of each. Unknown values are summed out
    exactly. If DATA has the column that is predicted, you are told how often the model is right.
    """
    from strudel.models.classifier import StrudelClassifier

    if output is not None:
        check_output(output, "the predictions", {str(model), data}, ".csv")
    held = read_file(model)
    if not isinstance(held, StrudelClassifier):
        raise InputError(
            f"{str(model)!r} holds a {type(held).__name__}, not a classifier: learn one with "
            "strudel fit DATA --target COLUMN."
        )
    target = held.target_name_
    table, source = read_frame_rows(data)
    truth: list[Any] | None = None
    if target in [column.name for column in table.columns] and len(table.columns) > 1:
        table, truth = split_target(table, source, target)
    with warnings_as_notes() as messages:
        chances = held.predict_proba(to_frame(columns_of(held, table, source)))
    for message in messages:
        note(f"note: {message}")
    best = [held.classes_.tolist()[place] for place in chances.argmax(axis=1)]
    columns: dict[str, list[Any]] = {target: best}
    for place, value in enumerate(held.classes_.tolist()):
        columns[f"P({target}={value})"] = chances[:, place].tolist()
    report: dict[str, Any] = {"target": target, "n_rows": len(best), "output": output}
    if truth is not None and None not in truth:
        report |= scores_of(held.classes_, chances, truth)
    if output is not None or not as_json:
        file = io.StringIO()
        write_columns(columns, file)
        if output is None:
            sys.stdout.write(file.getvalue())
        else:
            write_text(output, [file.getvalue()])
    if as_json:
        print_json(report | ({} if output is not None else {"predictions": columns}))
        return
    if "accuracy" in report:
        note(f"accuracy {report['accuracy']:.4f}, log-loss {report['log_loss']:.4f}")
    if output is not None:
        note(f"wrote {len(best):,} predictions to {output}")


def columns_of(model: StrudelClassifier, table: RawTable, source: str) -> RawTable:
    """The columns that the model knows, in its order."""
    names = getattr(model, "feature_names_in_", None)
    if names is None or not table.has_names:
        return table
    found = {column.name: column for column in table.columns}
    missing = [name for name in names if name not in found]
    if missing:
        raise InputError(
            f"{source} lacks {len(missing)} of the {len(names)} columns of the model, among them "
            f"{missing[0]!r}. Add it, with nothing in it where it is unknown."
        )
    if len(found) > len(names):
        note(f"note: {len(found) - len(names)} columns of {source} are not in the model")
    return replace(table, columns=tuple(found[name] for name in names))
