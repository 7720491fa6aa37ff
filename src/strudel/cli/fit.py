"""`strudel fit`: learn a model from a table, show progress, keep the model.

The common options have names of their own; `--set` sets any by its name in Python.
"""

from __future__ import annotations

import ast
import math
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import typer

from strudel._names import did_you_mean
from strudel.cli import files
from strudel.cli.console import (
    InputError,
    JsonOption,
    caught_warnings,
    compile_line,
    note,
    option,
    tell,
    warnings_as_notes,
)
from strudel.cli.info import sizes_of, steps_of

of_data, of_model, of_output = (
    partial(option, rich_help_panel=panel) for panel in ("Data", "Model", "Output")
)


def fit(
    typed: typer.Context,
    data: str = typer.Argument(
        metavar="DATA",
        help="A csv, tsv, npy, npz, parquet or feather file, a dataset, or - for stdin.",
        autocompletion=files.complete_data,
    ),
    drop: str | None = of_data("Leave out columns, as in name,address.", "COLUMNS"),
    valid: str | None = of_data("Validation rows; else a tenth is held out.", "TABLE"),
    test: str | None = of_data("Rows to score at the end.", "TABLE"),
    target: str | None = of_data("The class to predict: learn a classifier.", "COLUMN"),
    n_components: str | None = of_model(
        "Circuits that are averaged: as many as the rows support (auto), the paper's single "
        "circuit (1) or mixture (K), or the best of several sizes.",
        "auto|1|K|K,L",
        "--components",
    ),
    preset: str | None = of_model("paper (its search for one circuit), fast or accurate.", "NAME"),
    search: str | None = of_model(
        "How the structure grows: greedy (the paper's) or best_first; a single circuit also by "
        "learnpsdd or race.",
        "NAME",
    ),
    method: str | None = of_model(
        "How a mixture is trained: auto, em, bagged_em, boosting or continuous; with --target "
        "also per_class, joint or logistic.",
        "NAME",
    ),
    vtree: str | None = of_model(
        "How the circuit decomposes: chow_liu, bottom_up, top_down, clusters, balanced, "
        "linear, random, auto to try several, or a .vtree file.",
        "NAME|FILE",
    ),
    constraint: str | None = of_model(
        "What every row satisfies, such as 'a >> (b | c)', or a .cnf, .dnf, .nnf or .sdd file.",
        "FORMULA|FILE",
    ),
    settings: list[str] | None = of_model(
        "Any option: patience=50, search.copies=minimal, method.n_bags=5, "
        "columns.zip=category, ...; may be repeated.",
        "NAME=VALUE",
        "--set",
    ),
    random_state: int = of_model("For repeatable random choices.", "N", "--seed", min=0, default=0),
    max_splits: int | None = of_model("Stop after so many splits.", "N", min=0),
    max_seconds: float | None = of_model("Stop after so many seconds.", "SECONDS", min=0.0),
    output: Path | None = of_output("The model; DATA.strudel by default.", "FILE", *files.OUTPUT),
    as_json: JsonOption = False,
    quiet: bool = of_output("No progress, no tables.", None, "--quiet", "-q", default=False),
) -> None:
    """Learn a circuit, a mixture of circuits or a classifier, and write it to a file.

    A dataset brings its own validation and test rows; unknown values (empty, ?, NA) are summed out.
    The best model so far is written about every minute; Ctrl-C or SIGTERM ends the search and keeps
    it.
    """
    from strudel import Strudel, StrudelClassifier, save
    from strudel._compiling import compiled, now
    from strudel.queries.given import circuit_of

    model: Any = Strudel() if target is None else StrudelClassifier()
    known = model.get_params()  # which have the names of Python here, too
    options = {name: v for name, v in typed.params.items() if name in known and v is not None}
    read = {"n_components": _literal, "vtree": files.read_text, "constraint": files.read_text}
    options |= {name: read[name](text) for name, text in options.items() if name in read}
    model.set_params(**options, verbose=False if quiet else "auto")
    if target is not None and valid is not None:
        raise InputError("--valid is not for classifiers, which choose by cross-validation.")
    if target is None and method is not None and model.is_single:
        raise InputError("--method is for mixtures: leave it out, or give --components 20.")
    for setting in settings or ():
        _set(model, setting)
    path = output or default_output(data)
    files.check_output(path, "a model", (".strudel",), data, valid, test, vtree, constraint)
    tables = _tables(data, valid, test, drop, target)
    train, started, before = tables["train"], now(), compiled()
    with caught_warnings() as messages, compile_line(quiet or target is None):
        if target is None:
            model.fit(train, X_valid=tables.get("valid"), save_to=path)
            scores = _likelihoods(model, tables)
        else:
            model.fit(train.drop(columns=target), train[target])
            scores = _accuracies(model, tables, target)
    seconds = {"compiling": (compiled() - before).seconds, "learning": now() - started}
    facts: dict[str, Any] = {"source": Path(data).name, "target": target}
    save(model, path, provenance={**facts, **scores})
    history = getattr(model, "history_", None)
    if getattr(history, "stopped_because", "") == "interrupted":
        note("interrupted; wrote the best model so far")
        messages.clear()
    for message in messages:
        note(f"note: {message}")
    report = {"model": path, "data": data, "n_trials": len(model.trials_)}
    report |= sizes_of(circuit_of(model)) | steps_of(history)
    if target is not None:
        report |= {"target": target, "classes": model.classes_}
    more = {"chosen": model.chosen_, "seconds": seconds}
    n_rows = {part: len(table) for part, table in tables.items()}
    held_out = getattr(model, "held_out_rows_", None)
    if held_out is not None:
        n_rows |= {"train": len(train) - len(held_out), "valid": len(held_out)}
    measures: dict[str, dict[str, Any]] = {"n_rows": n_rows, **scores}
    if as_json:
        tell(report | measures | more, True)
    elif not quiet:
        lines = [
            {"": part, **{name: by_part[part] for name, by_part in measures.items()}}
            for part in n_rows
        ]
        tell(report | {"scores": lines} | more, False)


def default_output(data: str) -> Path:
    """DATA's name with the ending of a model, in the current folder."""
    if data == "-":
        return Path("model.strudel")
    name = Path(data).name.removesuffix(".gz")
    return Path(f"{Path(name).stem if Path(data).is_file() else name}.strudel")


def _set(model: Any, text: str) -> None:
    """What one --set says: an option, one of the search or the method, or what a column is."""
    name, sign, value = (part.strip() for part in text.partition("="))
    if not name or not sign:
        raise InputError(f"--set must be like search.copies=minimal, but is {text!r}.")
    outer = name.partition(".")[0]
    # A column may have dots in its name.
    key = name.replace(".", "__", 1 if outer == "columns" else -1)
    try:
        model.set_params(**{key: _literal(value)})
        if hasattr(getattr(model, outer), "check"):
            getattr(model, outer).check()  # before any table is read
    except ValueError as error:
        raise InputError(f"--set {text}: {error}") from None


def _literal(text: str) -> Any:
    """A Python literal, or the text itself."""
    with suppress(ValueError, SyntaxError):
        words = {"true": "True", "false": "False", "none": "None"}
        return ast.literal_eval(words.get(text.lower(), text))
    return text


def _tables(
    data: str, valid: str | None, test: str | None, drop: str | None, target: str | None
) -> dict[str, Any]:
    """Rows to learn from, to stop by and to score, with the same columns."""
    from strudel.io.tables import read_parts

    tables = read_parts(data) if target is None else {"train": files.read_rows(data, "train")}
    sources = dict.fromkeys(tables, data)
    for part, source in (("valid", valid), ("test", test)):
        if source is not None:
            tables[part], sources[part] = files.read_rows(source, part), source
    dropped = [] if drop is None else [name.strip() for name in drop.split(",")]
    for part, source in sources.items():
        tables[part] = _without(tables[part], source, dropped, target)
        if part != "train":
            tables[part] = _like(tables[part], tables["train"], source, data)
    return tables


def _without(table: Any, source: str, dropped: list[str], target: str | None) -> Any:
    """The table without some columns, and the rows whose target is known."""
    for said, names in (("--drop", dropped), ("--target", [] if target is None else [target])):
        for name in names:
            if name not in table:
                close = did_you_mean(name, [*map(str, table)])
                raise InputError(f"{said}: {source} has no column {name!r}. {close}")
    if target in dropped:
        raise InputError(f"--drop names {target!r}, which is to be predicted.")
    table = table.drop(columns=dropped)
    known = table if target is None else table.dropna(subset=[target])
    if target is not None and known.empty:
        raise InputError(f"column {target!r} of {source} is unknown in all {len(table):,} rows.")
    if len(known) < len(table):
        note(
            f"note: {target!r} is unknown in {len(table) - len(known):,} of the {len(table):,} "
            f"rows of {source}, which were left out"
        )
    return known


def _like(table: Any, train: Any, source: str, data: str) -> Any:
    """A table with the columns of another one, by name where both have names."""
    from strudel.data.validation import check_shared_names

    if files.has_names(train) and files.has_names(table):
        with warnings_as_notes():
            check_shared_names(table.columns, train.columns, source)
        return table.reindex(columns=train.columns)
    if table.shape[1] != train.shape[1]:
        n_columns = train.shape[1]
        raise InputError(f"{source} has {table.shape[1]} columns, but {data} has {n_columns}.")
    return table


def _likelihoods(model: Any, tables: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Mean log-likelihoods of all rows there are, and the same as bits per dimension."""
    means = {k: v for k, v in model.log_likelihoods_._asdict().items() if not math.isnan(v)}
    if "test" in tables:
        means["test"] = model.score(tables["test"])
    nats = -math.log(2) * len(model.circuit_.columns)
    bits = {part: mean / nats for part, mean in means.items()}
    return {"log_likelihood": means, "bits_per_dimension": bits}


def _accuracies(model: Any, tables: dict[str, Any], target: str) -> dict[str, dict[str, float]]:
    """How often a classifier is right, and its log-loss."""
    from strudel.models.classifier import class_scores

    scores: dict[str, dict[str, float]] = {"accuracy": {}, "log_loss": {}}
    for part, table in tables.items():
        chances = model.predict_proba(table.drop(columns=target))
        for measure, value in class_scores(model.classes_, chances, table[target]).items():
            scores[measure][part] = value
    return scores
