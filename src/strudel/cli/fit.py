"""`strudel fit`: learn a circuit from a table, show how it goes, keep the model."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strudel.cli.console import (
    JsonOption,
    bits_per_dimension,
    note,
    print_json,
    say,
    show_facts,
    show_table,
    warnings_as_notes,
)
from strudel.cli.outputs import check_output
from strudel.cli.progress import FitProgress
from strudel.cli.sources import check_known, match_columns, read_parts, read_rows

if TYPE_CHECKING:
    from strudel.io.tables import Table
    from strudel.models.density import Strudel

STOPPED = {
    "patience": "validation did not improve for {patience} splits",
    "max_splits": "--max-splits was reached",
    "max_edges": "--max-edges was reached",
    "max_seconds": "--max-seconds were over",
    "interrupted": "stopped early by you",
}


class EdgeScore(StrEnum):
    """Which edge to split."""

    flow = "flow"
    random = "random"


class VariableScore(StrEnum):
    """On which variable to split it."""

    mutual_information = "mutual_information"
    random = "random"


class Init(StrEnum):
    """The circuit before the first split."""

    chow_liu = "chow_liu"
    independent = "independent"


def fit(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A csv, tsv, .data, npy, npz or parquet file, a dataset, or - for csv on stdin.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Where to write the model; DATA's name with .strudel by default."
        ),
    ] = None,
    valid: Annotated[
        str | None, typer.Option(help="Rows that decide when to stop; like DATA.")
    ] = None,
    test: Annotated[str | None, typer.Option(help="Rows to score at the end; like DATA.")] = None,
    patience: Annotated[
        int, typer.Option(help="Stop after so many splits without a better validation score.")
    ] = 100,
    max_splits: Annotated[int | None, typer.Option(help="Stop after so many splits.")] = None,
    max_edges: Annotated[int | None, typer.Option(help="Stop at so many edges.")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Stop after so many seconds.")] = None,
    edge_score: Annotated[
        EdgeScore, typer.Option(help="Split the edge with most rows, or any.")
    ] = EdgeScore.flow,
    variable_score: Annotated[
        VariableScore, typer.Option(help="Split on the variable that tells most, or any.")
    ] = VariableScore.mutual_information,
    init: Annotated[Init, typer.Option(help="The first circuit.")] = Init.chow_liu,
    pseudocount: Annotated[
        float, typer.Option(help="Virtual rows per sum node, shared by its edges.")
    ] = 1.0,
    copy_depth: Annotated[int, typer.Option(help="How far a split copies below its edge.")] = 1,
    validation_fraction: Annotated[
        float, typer.Option(help="Share of DATA held out when there is no --valid.")
    ] = 0.1,
    seed: Annotated[int, typer.Option(help="Makes random choices repeatable.")] = 0,
    as_json: JsonOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no tables.")] = False,
) -> None:
    """Learn a circuit from 0/1 rows and write it to a file.

    A dataset brings its own validation and test rows. Ctrl-C stops the search and keeps the best
    circuit so far.
    """
    path = output or default_output(data)
    check_output(path, "the model", (data, valid, test), ".strudel")
    started = time.perf_counter()
    parts = _read_all(data, valid, test)
    reading = time.perf_counter() - started

    from strudel.models.density import Strudel

    model = Strudel(
        edge_score=edge_score.value,
        variable_score=variable_score.value,
        init=init.value,
        max_splits=max_splits,
        patience=patience,
        max_edges=max_edges,
        max_seconds=max_seconds,
        pseudocount=pseudocount,
        copy_depth=copy_depth,
        validation_fraction=validation_fraction,
        random_state=seed,
    )
    started = time.perf_counter()
    with warnings_as_notes() as messages, FitProgress(patience, quiet) as progress:
        _learn(model, parts, progress)
    learning = time.perf_counter() - started
    report = _report(model, parts)
    _keep(model, parts["train"], path)
    report |= {
        "model": path,
        "seconds": {"reading": reading, "learning": learning},
        "options": model.get_params(deep=False),
        "data": data,
    }
    for message in messages:
        if report["stopped_because"] != "interrupted":
            note(f"note: {message}")
    if report["stopped_because"] == "interrupted":
        note("stopped early by you; wrote the best circuit so far")
    if as_json:
        print_json(report)
    elif not quiet:
        _show(report)


def default_output(data: str) -> Path:
    """DATA's name with the ending of a model, in the current folder."""
    if data == "-":
        return Path("model.strudel")
    name = Path(data).name.removesuffix(".gz")
    stem = Path(name).stem if Path(data).is_file() else name
    return Path(f"{stem}.strudel")


def _read_all(data: str, valid: str | None, test: str | None) -> dict[str, Table]:
    """The tables to learn from, to stop by and to score; all values known, all equally wide."""
    parts = read_parts(data)
    if valid is not None:
        parts["valid"] = read_rows(valid, "valid")
    if test is not None:
        parts["test"] = read_rows(test, "test")
    train = parts["train"]
    n_vars, names = train.X.shape[1], train.feature_names
    return {
        part: match_columns(check_known(table), n_vars, names, train.source)
        for part, table in parts.items()
    }


def _learn(model: Strudel, parts: dict[str, Table], progress: FitProgress) -> None:
    valid = parts.get("valid")
    model._fit(
        parts["train"].X,
        None if valid is None else valid.X,
        None,
        on_split=progress.update,
    )


def _report(model: Strudel, parts: dict[str, Table]) -> dict[str, Any]:
    """What there is to know of a fitted model."""
    circuit, history = model.circuit_, model.history_
    likelihood = {
        "train": float(history.train[history.best]),
        "valid": float(history.valid[history.best]),
    }
    if "test" in parts:
        likelihood["test"] = float(model.score(parts["test"].X))
    return {
        "log_likelihood": likelihood,
        "bits_per_dimension": {
            part: bits_per_dimension(value, circuit.n_vars) for part, value in likelihood.items()
        },
        "n_rows": {part: len(table.X) for part, table in parts.items()},
        "n_vars": circuit.n_vars,
        "n_nodes": circuit.n_nodes,
        "n_edges": circuit.n_edges,
        "n_parameters": circuit.n_parameters,
        "n_splits": int(history.n_splits[-1]),
        "best_split": int(history.n_splits[history.best]),
        "stopped_because": history.stopped_because,
    }


def _keep(model: Strudel, train: Table, path: Path) -> None:
    """Write the model, with the names of the columns and where the rows came from."""
    from strudel.io.model_file import save

    if train.feature_names is not None:
        model.circuit_ = model.circuit_.with_names(train.feature_names)
    save(model, path, provenance={"source": Path(train.source).name})


def _show(report: dict[str, Any]) -> None:
    """The report as tables."""
    likelihood, bits = report["log_likelihood"], report["bits_per_dimension"]
    n_rows = {part: f"{count:,}" for part, count in report["n_rows"].items()}
    held_out = f"{report['options']['validation_fraction']:.0%} of these"
    rows = [(part, n_rows.get(part, held_out), likelihood[part], bits[part]) for part in likelihood]
    show_table(("", "rows", "mean log-likelihood", "bits per dimension"), rows)
    say()
    show_facts("", _facts(report))


def _facts(report: dict[str, Any]) -> dict[str, Any]:
    seconds = report["seconds"]
    because = report["stopped_because"]
    reason = STOPPED.get(because, because).format(patience=report["options"]["patience"])
    return {
        "variables": report["n_vars"],
        "nodes": report["n_nodes"],
        "edges": report["n_edges"],
        "parameters": report["n_parameters"],
        "splits": f"{report['n_splits']:,}, the best after {report['best_split']:,}",
        "stopped": reason,
        "seconds": f"{seconds['reading']:.2f} reading, {seconds['learning']:.2f} learning",
        "model": report["model"],
    }
