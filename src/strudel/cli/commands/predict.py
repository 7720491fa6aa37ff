"""`strudel predict`: the class of every row, and how probable each class is."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from strudel.cli.cluster import SchedulerOption, WorkersOption
from strudel.cli.console import (
    InputError,
    JsonOption,
    note,
    print_json,
    warnings_as_notes,
)
from strudel.cli.fit_classifier import scores_of
from strudel.cli.model_files import ForceOption, ModelArgument, read_file
from strudel.cli.outputs import RowsOutput, check_rows_output, write_columns
from strudel.cli.partitions import Columns, Partition, answer_rows, answers_by_partition, read_cells
from strudel.cli.shell_completion import complete_data
from strudel.cli.table_columns import model_columns, split_target
from strudel.data.validation import check_shared_names

if TYPE_CHECKING:
    from strudel.models.classifier import StrudelClassifier
    from strudel.tables.columns import RawTable


def predict(
    model: ModelArgument,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A table with the columns of the model, or - for stdin; gaps are allowed; "
            "partitioned: 'visits/*.parquet' in quotes, or a folder of parquet files.",
            autocompletion=complete_data,
        ),
    ],
    output: RowsOutput = None,
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Predict the class of every row, with a model of `strudel fit --target`.

    The csv has the predicted class and the probability of each class. Unknown values are summed out
    exactly. If DATA has the predicted column, the command also says how often the model is
    right.
    """
    from strudel.models.classifier import StrudelClassifier

    by_partition = answers_by_partition(data, workers, scheduler)
    check_rows_output(output, "the predictions", model, data, by_partition)
    held = read_file(model, force)
    if not isinstance(held, StrudelClassifier):
        raise InputError(
            f"{str(model)!r} holds a {type(held).__name__}, not a classifier: learn one with "
            "strudel fit DATA --target COLUMN."
        )
    columns, found = answer_rows(
        _predict,
        data,
        held,
        by_partition=by_partition,
        output=output,
        workers=workers,
        scheduler=scheduler,
        is_quiet=as_json,
    )
    if output is None and not as_json:
        write_columns(columns, sys.stdout)
    _tell(_report(held.target_name_, found, output), columns, as_json)


class _Predicted(NamedTuple):
    """What is said of the predictions for some rows."""

    n_rows: int
    n_scored: int  # whose class is known
    scores: dict[str, float]  # means over these


def _predict(data: str | Partition, model: StrudelClassifier) -> tuple[Columns, _Predicted]:
    """The columns of predictions, and how good they are where the class is known."""
    table, source = read_cells(data)
    target = model.target_name_
    truth: list[Any] | None = None
    if target in table.names and len(table.columns) > 1:
        table, truth = split_target(table, source, target)
    own = columns_of(model, table, source)
    with warnings_as_notes():
        chances = model.predict_proba(own)
    best = [model.classes_.tolist()[place] for place in chances.argmax(axis=1)]
    columns: Columns = {target: best}
    for place, value in enumerate(model.classes_.tolist()):
        columns[f"P({target}={value})"] = chances[:, place].tolist()
    known = [row for row, value in enumerate(truth or ()) if value is not None]
    scores: dict[str, float] = {}
    if truth is not None and known:
        scores = scores_of(model.classes_, chances[known], [truth[row] for row in known])
    return columns, _Predicted(len(best), len(known), scores)


def _report(target: str, found: Sequence[_Predicted], output: Path | None) -> dict[str, Any]:
    report = {"target": target, "n_rows": sum(one.n_rows for one in found), "output": output}
    scored = [one for one in found if one.scores]
    if scored:
        n_scored = sum(one.n_scored for one in scored)
        for name in scored[0].scores:
            report[name] = sum(one.n_scored * one.scores[name] for one in scored) / n_scored
        report["n_scored"] = n_scored
    return report


def _tell(report: dict[str, Any], columns: Columns, as_json: bool) -> None:
    """Say how good the predictions are, and where they are."""
    target, output, n_rows = report["target"], report["output"], report["n_rows"]
    if as_json:
        print_json(report | ({} if output is not None else {"predictions": columns}))
        return
    if "accuracy" in report:
        n_scored = report["n_scored"]
        some = "" if n_scored == n_rows else f" of the {n_scored:,} rows with {target!r}"
        note(f"accuracy {report['accuracy']:.4f}, log-loss {report['log_loss']:.4f}{some}")
    if output is not None:
        note(f"wrote {n_rows:,} predictions to {output}")


def columns_of(model: StrudelClassifier, table: RawTable, source: str) -> RawTable:
    """The columns that the model knows, in its order."""
    names = getattr(model, "feature_names_in_", None)
    if names is None or not table.has_names:
        return table
    if hasattr(model, "encoder_"):
        return model_columns(model.encoder_.code_, table, source)
    with warnings_as_notes():
        check_shared_names(table.names, names, source)
    return table.select(names)
