"""`strudel fit`: learn a model from a table, show progress, keep the model.

The common options have names of their own; `--set` sets any other by its name in Python.
"""

from __future__ import annotations

import ast
import math
from functools import partial
from pathlib import Path
from typing import Annotated, Any

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
from strudel.cli.predict import scores_of

of_data, of_model, of_output = (
    partial(option, panel=panel) for panel in ("Data", "Model", "Output")
)
FLAGS = {  # options of estimators that have an option of the command: --set does not take them
    "n_components": "--components",
    "preset": "--preset",
    "search": "--search",
    "method": "--method",
    "vtree": "--vtree",
    "max_splits": "--max-splits",
    "max_seconds": "--max-seconds",
    "constraint": "--constraint",
    "random_state": "--seed",
    "verbose": "--quiet",
}
WORDS = {"true": True, "false": False, "none": None}
STOPPED = {
    "patience": "validation did not improve any more",
    "max_splits": "--max-splits was reached",
    "max_seconds": "time limit reached",
    "max_iter": "the limit of steps was reached",
    "n_components": "the mixture has all components it was asked for",
}


def fit(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A csv, tsv, npy, npz, parquet or feather file, a dataset, or - for stdin.",
            autocompletion=files.complete_data,
        ),
    ],
    drop: Annotated[
        str | None, of_data("Leave out columns, as in name,address.", "COLUMNS")
    ] = None,
    valid: Annotated[
        str | None, of_data("Rows that decide when to stop; else a tenth is held out.", "TABLE")
    ] = None,
    test: Annotated[str | None, of_data("Rows to score at the end.", "TABLE")] = None,
    target: Annotated[
        str | None, of_data("Learn a classifier of this column, for strudel predict.", "COLUMN")
    ] = None,
    components: Annotated[
        str | None,
        of_model(
            "Circuits that are averaged: as many as the rows support (auto), the paper's single "
            "circuit (1) or mixture (K), or the best of several sizes.",
            "auto|1|K|K,L",
        ),
    ] = None,
    preset: Annotated[
        str | None, of_model("paper (its search for one circuit), fast or accurate.", "NAME")
    ] = None,
    search: Annotated[
        str | None,
        of_model(
            "How the structure grows: greedy (the paper's) or best_first; a single circuit also by "
            "learnpsdd or race.",
            "NAME",
        ),
    ] = None,
    method: Annotated[
        str | None,
        of_model(
            "How a mixture is trained: auto, em, bagged_em, boosting or continuous; with --target "
            "also per_class, joint or logistic.",
            "NAME",
        ),
    ] = None,
    vtree: Annotated[
        str | None,
        of_model(
            "How the circuit decomposes: chow_liu, bottom_up, top_down, clusters, balanced, "
            "linear, random, auto to try several, or a .vtree file.",
            "NAME|FILE",
        ),
    ] = None,
    constraint: Annotated[
        str | None,
        of_model(
            "What every row satisfies, such as 'a >> (b | c)', or a .cnf, .dnf, .nnf or .sdd file.",
            "FORMULA|FILE",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        of_model(
            "Any other option: patience=50, search.copies=minimal, method.n_bags=5, "
            "columns.zip=category, ...; may be repeated.",
            "NAME=VALUE",
            "--set",
        ),
    ] = None,
    seed: Annotated[int, of_model("Makes random choices repeatable.", "N")] = 0,
    max_splits: Annotated[int | None, of_model("Stop after so many splits.", "N", min=0)] = None,
    max_seconds: Annotated[
        float | None, of_model("Stop after so many seconds.", "SECONDS", min=0.0)
    ] = None,
    output: Annotated[
        Path | None,
        of_output("The model; DATA's name with .strudel by default.", "FILE", "--output", "-o"),
    ] = None,
    as_json: JsonOption = False,
    quiet: Annotated[bool, of_output("No progress, no tables.", None, "--quiet", "-q")] = False,
) -> None:
    """Learn a circuit, a mixture of circuits or a classifier, and write it to a file.

    A dataset brings its own validation and test rows; unknown values (empty, ?, NA) are summed out.
    The best model so far is written about every minute; Ctrl-C or SIGTERM ends the search and keeps
    it.
    """
    from strudel import Strudel, StrudelClassifier, save
    from strudel._compiling import compiled, now

    options = {
        "n_components": None if components is None else _size(components),
        "preset": preset,
        "search": search,
        "method": method,
        "vtree": None if vtree is None else _vtree(vtree),
        "max_splits": max_splits,
        "max_seconds": max_seconds,
        "constraint": None if constraint is None else files.read_formula(constraint),
        "random_state": seed,
        "verbose": False if quiet else "auto",
    }
    model: Any = Strudel() if target is None else StrudelClassifier()
    if target is not None and valid is not None:
        raise InputError(
            "--valid is not for classifiers, which choose by cross-validation: leave it out, or "
            "leave out --target."
        )
    model.set_params(**{name: value for name, value in options.items() if value is not None})
    if target is None and method is not None and model.is_single:
        raise InputError("--method is for mixtures: leave it out, or give --components 20.")
    _set_options(model, settings or [])
    path = output or default_output(data)
    files.check_model_output(path, (data, valid, test, vtree, constraint))
    tables = _tables(data, valid, test, drop, target)
    train, started, before = tables["train"], now(), compiled()
    with caught_warnings() as messages, compile_line(quiet or target is None):
        if target is None:
            model.fit(train, X_valid=tables.get("valid"), save_to=path)
            scores = _likelihoods(model, tables)
        else:
            model.fit(train.drop(columns=target), train[target])
            scores = {part: _accuracy(model, table, target) for part, table in tables.items()}
    seconds = {"compiling": (compiled() - before).seconds, "learning": now() - started}
    facts: dict[str, Any] = {"source": Path(data).name}
    facts |= {"log_likelihood": scores} if target is None else {"target": target, **scores["train"]}
    save(model, path, provenance=facts)
    if getattr(getattr(model, "history_", None), "stopped_because", "") == "interrupted":
        note("interrupted; wrote the best model so far")
        messages.clear()
    for message in messages:
        note(f"note: {message}")
    report = _report(model, scores, {part: len(table) for part, table in tables.items()})
    report |= {"data": data, "model": path, "seconds": seconds}
    if as_json:
        tell(report | {"options": _options(model)}, True)
    elif not quiet:
        tell(_for_people(model, report), False)


# Options


def _size(text: str) -> Any:
    """A whole number of at least 1, several of them, or auto."""
    if text.strip().lower() == "auto":
        return "auto"
    sizes = [part.strip() for part in text.split(",")]
    if not all(size.isdecimal() and int(size) >= 1 for size in sizes):
        raise InputError(
            "--components must be auto, a whole number of at least 1, or several such as 5,10, but "
            f"is {text!r}."
        )
    return [int(size) for size in sizes] if len(sizes) > 1 else int(sizes[0])


def _vtree(text: str) -> Any:
    """The name of a method, or the vtree of a file."""
    from strudel import Vtree, read

    if not Path(text).is_file():
        return text
    vtree = read(text)
    if not isinstance(vtree, Vtree):
        raise InputError(f"{text} holds a {type(vtree).__name__}, not a vtree.")
    return vtree


def _set_options(model: Any, settings: list[str]) -> None:
    """What --set says: an option, one of the search or the method, or what a column is."""
    given: dict[str, Any] = {}
    for text in settings:
        name, sign, value = (part.strip() for part in text.partition("="))
        if not sign or not name:
            raise InputError(f"--set must be like search.copies=minimal, but is {text!r}.")
        if name in given:
            raise InputError(f"--set gives {name!r} twice.")
        if name in FLAGS:
            raise InputError(f"--set {name}: use {FLAGS[name]} instead.")
        given[name] = _literal(value)
    for name, value in given.items():
        outer, _, inner = name.partition(".")
        if inner and outer == "columns":
            _set_column(model, inner, value)
            continue
        if inner and outer in ("search", "method"):
            _make_object(model, outer, *inner.split("."))
        try:
            model.set_params(**{name.replace(".", "__"): value})
        except (ValueError, AttributeError):
            known = [other for other in _options(model) if other not in FLAGS]
            raise InputError(
                f"--set: there is no option {name!r}. {did_you_mean(name, known)}"
            ) from None
    for outer in ("search", "method"):
        if hasattr(getattr(model, outer), "check"):
            getattr(model, outer).check()  # before any table is read


def _literal(text: str) -> Any:
    """A Python literal, or the text itself."""
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _set_column(model: Any, name: str, value: Any) -> None:
    """An option of all columns, or what one of them is, as in ``columns.zip=category``."""
    from strudel.tables.encoder import new_encoder

    model.columns = new_encoder(model.columns)
    if name not in model.columns.get_params():
        name, value = "kinds", (model.columns.kinds or {}) | {name: value}
    model.columns.set_params(**{name: value})


def _make_object(model: Any, outer: str, inner: str, inmost: str = "") -> None:
    """The search or method as an object that has an option; where it is open, the default one."""
    from strudel.learning.options import METHODS, PRESETS, SEARCHES

    kinds: Any = SEARCHES if outer == "search" else METHODS
    held = getattr(model, outer)
    if not hasattr(held, "get_params"):
        names = [held]
        if held == "auto" and outer == "search":
            names = ["best_first", "greedy"] if model.max_splits is None else ["greedy"]
            if getattr(model, "is_single", False):
                names = [PRESETS[model.preset or "paper"]["search"]]
        elif held == "auto" and model.n_components != "auto":
            names = ["em"]
        owners = [name for name, kind in kinds.items() if inner in kind().get_params()]
        chosen = next((name for name in names if name in owners), None)
        if owners and chosen is None:
            raise InputError(
                f"--set {outer}.{inner} goes with --{outer} {' or '.join(owners)}, "
                f"not with {names[0]}."
            )
        held = held if chosen is None else kinds[chosen]()
        setattr(model, outer, held)
    if inmost and inner in kinds and getattr(held, inner, 0) is None:  # one search of a race
        setattr(held, inner, kinds[inner]())


def _options(model: Any) -> dict[str, Any]:
    """All options by the names of --set; objects by their names."""
    from strudel.learning.options import METHODS, SEARCHES

    names = {kind: name for name, kind in (SEARCHES | METHODS).items()}
    return {
        name.replace("__", "."): names.get(type(value), value)
        for name, value in model.get_params(deep=True).items()
    }


# Tables and what is said of them


def default_output(data: str) -> Path:
    """DATA's name with the ending of a model, in the current folder."""
    if data == "-":
        return Path("model.strudel")
    name = Path(data).name.removesuffix(".gz")
    return Path(f"{Path(name).stem if Path(data).is_file() else name}.strudel")


def _tables(
    data: str, valid: str | None, test: str | None, drop: str | None, target: str | None
) -> dict[str, Any]:
    """Rows to learn from, to stop by and to score, with the same columns."""
    tables = files.read_parts(data) if target is None else {"train": files.read_rows(data, "train")}
    sources = dict.fromkeys(tables, data)
    for part, source in (("valid", valid), ("test", test)):
        if source is not None:
            tables[part], sources[part] = files.read_rows(source, part), source
    tables = {part: _without(table, sources[part], drop, target) for part, table in tables.items()}
    train = tables.pop("train")
    others = {part: _like(table, train, sources[part], data) for part, table in tables.items()}
    return {"train": train} | others


def _without(table: Any, source: str, drop: str | None, target: str | None) -> Any:
    """The table without some columns, and the rows whose target is known."""
    dropped = [name.strip() for name in (drop or "").split(",") if name.strip()]
    if drop is not None and not dropped:
        raise InputError("--drop must name at least one column, as in --drop name,address.")
    for said, names in (("--drop", dropped), ("--target", [] if target is None else [target])):
        for name in names:
            if name not in table:
                close = did_you_mean(name, [str(column) for column in table])
                raise InputError(f"{said}: {source} has no column {name!r}. {close}")
    if target in dropped:
        raise InputError(f"--drop names {target!r}, which is to be predicted.")
    table = table.drop(columns=dropped)
    if table.shape[1] <= (target is not None):
        raise InputError(f"--drop leaves no column of {source}.")
    if target is None:
        return table
    known = table[target].notna()
    if not known.any():
        raise InputError(f"column {target!r} of {source} is unknown in all {len(table):,} rows.")
    if not known.all():
        note(
            f"note: {target!r} is unknown in {int((~known).sum()):,} of the {len(table):,} rows of "
            f"{source}, which were left out"
        )
    return table[known]


def _like(table: Any, train: Any, source: str, data: str) -> Any:
    """A table with the columns of another one, by name where both have names."""
    from strudel.data.validation import check_shared_names

    names = list(train.columns)
    if files.has_names(train) and files.has_names(table):
        with warnings_as_notes():
            check_shared_names(table.columns, names, source)
        return table if names == list(table.columns) else table.reindex(columns=names)
    if len(names) != table.shape[1]:
        raise InputError(f"{source} has {table.shape[1]} columns, but {data} has {len(names)}.")
    return table


def _likelihoods(model: Any, tables: dict[str, Any]) -> dict[str, Any]:
    """Mean log-likelihoods of all rows there are."""
    known = {k: v for k, v in model.log_likelihoods_._asdict().items() if not math.isnan(v)}
    return known | ({"test": model.score(tables["test"])} if "test" in tables else {})


def _accuracy(model: Any, table: Any, target: str) -> dict[str, float]:
    chances = model.predict_proba(table.drop(columns=target))
    return scores_of(model.classes_, chances, table[target])


def _report(model: Any, scores: dict[str, Any], n_rows: dict[str, int]) -> dict[str, Any]:
    """What was learned, in plain values."""
    from strudel.queries.given import circuit_of

    circuit = circuit_of(model)
    n_columns = len(circuit.columns)
    report: dict[str, Any] = {
        "n_columns": n_columns,
        "n_components": circuit.n_components,
        "n_nodes": circuit.n_nodes,
        "n_edges": circuit.size,
        "n_parameters": circuit.n_parameters,
        "n_rows": n_rows,
        "chosen": model.chosen_,
    }
    if hasattr(model, "classes_"):
        target = {"target": model.target_name_, "classes": model.classes_}
        return report | target | {"scores": scores}
    history, columns = model.history_, model.history_.columns()
    step = "split" if "n_splits" in columns else "iteration"
    bits = {part: -value / (math.log(2) * n_columns) for part, value in scores.items()}
    return report | {
        f"n_{step}s": int(columns[f"n_{step}s"][-1]),
        f"best_{step}": int(columns[f"n_{step}s"][history.best]),
        "stopped_because": history.stopped_because,
        "n_trials": len(model.trials_),
        "log_likelihood": scores,
        "bits_per_dimension": bits,
    }


def _for_people(model: Any, report: dict[str, Any]) -> dict[str, Any]:
    """The report as a table of scores and a list of facts."""
    n_rows = {part: f"{count:,}" for part, count in report["n_rows"].items()}
    held_out = getattr(model, "held_out_rows_", None)
    n_rows.setdefault("valid", "all" if held_out is None else f"{len(held_out):,} of these")
    if "scores" in report:
        lines = [{"": part, "rows": n_rows[part]} | of for part, of in report["scores"].items()]
    else:
        bits = report["bits_per_dimension"]
        lines = [
            {
                "": part,
                "rows": n_rows[part],
                "mean log-likelihood": v,
                "bits per dimension": bits[part],
            }
            for part, v in report["log_likelihood"].items()
        ]
    chosen = dict(report["chosen"])
    choice = chosen.pop("explanation", None) or ", ".join(
        f"{name}={value:.4f}" if isinstance(value, float) else f"{name}={value}"
        for name, value in chosen.items()
    )
    facts = {
        "target": report.get("target"),
        "classes": ", ".join(map(str, report.get("classes", ()))),
        "columns": report["n_columns"],
        "components": report["n_components"],
        "nodes": report["n_nodes"],
        "edges": report["n_edges"],
        "parameters": report["n_parameters"],
        "splits": _splits(report.get("n_splits"), report.get("best_split")),
        "choice": choice,
        "stopped": STOPPED.get(report.get("stopped_because", "")),
        "seconds": ", ".join(f"{v:.2f} {work}" for work, v in report["seconds"].items() if v),
        "model": report["model"],
    }
    return {"scores": lines, "": {k: v for k, v in facts.items() if v not in (None, "")}}


def _splits(n_splits: int | None, best: int | None) -> str | None:
    if n_splits is None:
        return None
    if n_splits and not best:
        return f"{n_splits:,}, and none of them helped: more components may"
    return f"{n_splits:,}, the best after {best:,}"
