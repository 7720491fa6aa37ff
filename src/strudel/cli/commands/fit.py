"""`strudel fit`: learn a model from a table, show progress, keep the model.

`fit_options` makes an estimator from the options, `fit_report` describes the fitted one.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strudel.cli.console import (
    JsonOption,
    caught_warnings,
    note,
    print_json,
    say,
    show_facts,
    show_table,
)
from strudel.cli.evidence import number_variables, read_constraint
from strudel.cli.fit_classifier import fit_classifier
from strudel.cli.fit_options import (
    Method,
    Preset,
    Search,
    check_for_classifier,
    classifier_estimator,
    density_estimator,
    read_edges,
    read_size,
    read_vtree,
)
from strudel.cli.fit_report import (
    facts_of,
    in_words,
    independent_log_likelihoods,
    options_of,
    report_of,
)
from strudel.cli.fit_tables import read_tables
from strudel.cli.input_tables import count_rows
from strudel.cli.outputs import check_is_model_file, check_output
from strudel.cli.progress import CircuitProgress, MixtureProgress
from strudel.cli.shell_completion import complete_data
from strudel.cli.table_columns import read_drop
from strudel.tables.columns import RawTable

if TYPE_CHECKING:
    from strudel.io.read_tables import Table

DATA, MODEL, LIMITS, OUTPUT = "Data", "Model", "Limits", "Output"  # panels of the help


def fit(
    context: typer.Context,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A csv, tsv, .data, npy, npz or parquet file, a dataset, or - for csv on stdin.",
            autocompletion=complete_data,
        ),
    ],
    edges: Annotated[
        list[str] | None,
        typer.Option(
            rich_help_panel=DATA,
            metavar="COLUMN=A,B",
            help="Cut a column of numbers or dates at these bounds; may be repeated.",
        ),
    ] = None,
    drop: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=DATA,
            metavar="COLUMNS",
            help="Leave out columns such as identifiers and free text, as in name,address.",
        ),
    ] = None,
    valid: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=DATA,
            metavar="TABLE",
            help="Rows that decide when to stop, like DATA; else a tenth of DATA is held out.",
            autocompletion=complete_data,
        ),
    ] = None,
    test: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=DATA,
            metavar="TABLE",
            help="Rows to score at the end, like DATA.",
            autocompletion=complete_data,
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=DATA,
            metavar="COLUMN",
            help="Learn a classifier that predicts this column, for strudel predict.",
        ),
    ] = None,
    components: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=MODEL,
            metavar="auto|1|K|K,L",
            help="Circuits that are averaged: auto (the default) takes as many as the rows "
            "support, 1 is the paper's single circuit, K its mixture; the best of several.",
        ),
    ] = None,
    preset: Annotated[
        Preset | None,
        typer.Option(
            rich_help_panel=MODEL,
            metavar="NAME",
            help="paper (one circuit by its search), fast (seconds), or accurate (what it needs).",
        ),
    ] = None,
    search: Annotated[
        Search | None,
        typer.Option(
            rich_help_panel=MODEL,
            metavar="NAME",
            help="How the structure grows: greedy (the paper's) or best_first (the best of all "
            "splits and clones); a single circuit also by learnpsdd, or race (several).",
        ),
    ] = None,
    method: Annotated[
        Method | None,
        typer.Option(
            rich_help_panel=MODEL,
            metavar="NAME",
            help="How a mixture is trained: auto (the default), em, bagged_em, boosting, "
            "or continuous (a network ties the components; needs PyTorch). With --target: "
            "per_class, joint or logistic.",
        ),
    ] = None,
    vtree: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=MODEL,
            metavar="NAME|FILE",
            help="How the circuit decomposes: chow_liu (the default), bottom_up, top_down, "
            "clusters, balanced, linear, random, auto to try several, or a .vtree file.",
        ),
    ] = None,
    constraint: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=MODEL,
            metavar="FORMULA|FILE",
            help="What every row satisfies, such as 'a >> (b | c)', or a .cnf, .dnf, .nnf or .sdd "
            "file; rows that violate it get probability zero.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            rich_help_panel=MODEL,
            metavar="NAME=VALUE",
            help="Any other option of the model, its search, its training method or its columns, "
            "as in patience=50, search.copies=minimal, method.n_bags=5 or "
            "columns.max_categories=100; may be repeated.",
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(rich_help_panel=MODEL, metavar="N", help="Makes random choices repeatable."),
    ] = 0,
    max_splits: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=LIMITS, metavar="N", min=0, help="Stop after this many splits."
        ),
    ] = None,
    max_seconds: Annotated[
        float | None,
        typer.Option(
            rich_help_panel=LIMITS, metavar="SECONDS", min=0.0, help="Stop after this many seconds."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            rich_help_panel=OUTPUT,
            metavar="FILE",
            help="Where to write the model; DATA's name with .strudel by default.",
        ),
    ] = None,
    as_json: JsonOption = False,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", rich_help_panel=OUTPUT, help="No progress, no tables."),
    ] = False,
) -> None:
    """Learn a circuit, a mixture of circuits or a classifier, and write it to a file.

    A dataset brings its own validation and test rows; unknown values (empty, ?, NA) are summed out.
    Ctrl-C or SIGTERM ends the search and keeps the best model so far.
    """
    if target is not None:
        check_for_classifier(context)
    options = {
        "n_components": None if components is None else read_size(components, "--components"),
        "preset": preset,
        "search": search,
        "method": method,
        "vtree": None if vtree is None else read_vtree(vtree),
        "max_splits": max_splits,
        "max_seconds": max_seconds,
        "columns": _encoder(read_edges(edges or []), target is not None),
        "random_state": seed,
    }
    given = {
        name: getattr(value, "value", value) for name, value in options.items() if value is not None
    }
    from strudel._compiling import compiled, now

    path = output or default_output(data)
    check_output(path, "the model", (data, valid, test, vtree, constraint), ".strudel")
    check_is_model_file(path)
    if target is not None:
        classifier = classifier_estimator(given, settings or [])
        tables = {"train": data} | ({} if test is None else {"test": test})
        fit_classifier(classifier, target, tables, path, read_drop(drop), as_json, quiet)
        return
    model = density_estimator(given, settings or [])
    formula = None if constraint is None else read_constraint(constraint)
    started = time.perf_counter()
    parts = read_tables(
        data,
        valid,
        test,
        has_columns=model.columns is not None,
        dropped=read_drop(drop),
    )
    train = parts["train"]
    if formula is not None:
        is_coded = model.columns is not None or isinstance(train.X, RawTable)
        model.constraint = formula if is_coded else number_variables(formula, train)
    reading = time.perf_counter() - started
    started, before = now(), compiled()
    X_valid = parts["valid"].X if "valid" in parts else None
    live: Any = MixtureProgress(quiet)
    if model.is_single:
        live = CircuitProgress(options_of(model)["patience"], quiet)
    with caught_warnings() as messages, live as progress:
        model.fit(train.X, X_valid=X_valid, callback=progress.update)
    learning, compiling = now() - started, (compiled() - before).seconds
    if isinstance(formula, str):  # which a file can hold
        model.constraint = formula
    likelihood = {
        part: value
        for part, value in model.log_likelihoods_._asdict().items()
        if not math.isnan(value)
    }
    _keep(model, train, path, likelihood)  # before partitioned rows are read once more
    try:
        if "test" in parts:
            likelihood["test"] = model.score(parts["test"].X)
            _keep(model, train, path, likelihood)
        n_rows = {part: count_rows(table) for part, table in parts.items()}
        independent = independent_log_likelihoods(model, parts)
    except (Exception, KeyboardInterrupt):  # partitioned test rows are only seen now
        note(f"wrote {path}, but could not score all rows")
        raise
    report = report_of(model) | {
        "log_likelihood": likelihood,
        "independent_columns": independent,
        "n_rows": n_rows,
        "model": path,
        "seconds": {"reading": reading, "compiling": compiling, "learning": learning},
        "data": data,
    }
    report["bits_per_dimension"] = {
        part: bits_per_dimension(value, report["n_vars"]) for part, value in likelihood.items()
    }
    if report["stopped_because"] == "interrupted":
        note("interrupted; wrote the best model so far")
        messages = []
    for message in messages:
        note(f"note: {message}")
    if as_json:
        print_json(report)
    elif not quiet:
        _show(model, report)


def _encoder(edges: dict[str, list[Any]], is_classifier: bool) -> Any:
    """The option `columns` of an estimator, None for its default."""
    if not edges:
        return None
    from strudel.tables.encoder import TableEncoder

    # Classifiers take values that they have not seen as missing, and say so.
    return TableEncoder(edges=edges, unknown="missing" if is_classifier else "error")


def bits_per_dimension(mean_log_likelihood: float, n_vars: int) -> float:
    """Mean code length per variable, in bits."""
    return -mean_log_likelihood / (math.log(2) * n_vars)


def default_output(data: str) -> Path:
    """DATA's name with the ending of a model, in the current folder."""
    if data == "-":
        return Path("model.strudel")
    name = Path(data).name.removesuffix(".gz")
    stem = Path(name).stem if Path(data).is_file() else name
    return Path(f"{stem}.strudel")


def _keep(model: Any, train: Table, path: Path, likelihood: dict[str, float]) -> None:
    """Write the model, with the names of the columns, where the rows came from, and its scores."""
    from strudel.io.model_file import save

    if train.feature_names is not None and model.circuit_.table_code is None:
        model.circuit_ = model.circuit_.with_names(train.feature_names)
    facts = {"source": Path(train.source).name, "log_likelihood": likelihood}
    save(model, path, provenance=facts)


def _show(model: Any, report: dict[str, Any]) -> None:
    """The report as tables."""
    likelihood, bits = report["log_likelihood"], report["bits_per_dimension"]
    n_rows = {part: f"{count:,}" for part, count in report["n_rows"].items()}
    if model.held_out_rows_ is not None:
        n_rows["valid"] = f"{len(model.held_out_rows_):,} of these"
    else:
        n_rows.setdefault("valid", f"{model.validation_fraction or 1:.0%} of these")
    columns: tuple[str, ...] = ("", "rows", "mean log-likelihood", "bits per dimension")
    rows: list[tuple[Any, ...]] = [
        (part, n_rows[part], likelihood[part], bits[part]) for part in likelihood
    ]
    independent = report["independent_columns"]
    if independent:
        columns = (*columns, "independent columns")
        rows = [(*row, independent[row[0]]) for row in rows]
    show_table(columns, rows)
    say()
    show_facts(
        "",
        facts_of(model, report)
        | {
            "seconds": in_words(report["seconds"]),
            "model": report["model"],
        },
    )
