"""`strudel fit`: learn a model from a table, show how it goes, keep the model.

What is particular to a circuit stands in `fit_circuit`, to a mixture in `fit_mixture`; both have
`learn`, `report` and `facts`.
"""

from __future__ import annotations

import time
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strudel.cli import fit_circuit, fit_mixture
from strudel.cli.cluster import SchedulerOption, WorkersOption, use_workers
from strudel.cli.columns import read_encoder
from strudel.cli.completion import complete_data
from strudel.cli.console import (
    InputError,
    JsonOption,
    bits_per_dimension,
    note,
    print_json,
    say,
    show_facts,
    show_table,
    warnings_as_notes,
)
from strudel.cli.evidence import number_variables, read_constraint
from strudel.cli.fit_choices import (
    BeamSelection,
    Copies,
    EdgeScore,
    Encode,
    Init,
    OperationScore,
    Preset,
    Search,
    Smoothing,
    VariableScore,
    read_search,
    read_vtree,
)
from strudel.cli.fit_classifier import check_options, fit_classifier
from strudel.cli.fit_mixture import Method, Structure, read_size, read_wishes
from strudel.cli.fit_tables import read_tables
from strudel.cli.frames import read_drop
from strudel.cli.lazy_tables import is_glob, is_in_parts
from strudel.cli.outputs import check_is_model_file, check_output
from strudel.cli.resume import ResumeOption, SecondsOption, open_checkpoint
from strudel.cli.sources import count_rows

if TYPE_CHECKING:
    from strudel.io.tables import Table


def fit(
    context: typer.Context,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A csv, tsv, .data, npy, npz or parquet file, a dataset, or - for csv on stdin; "
            "in parts: 'visits/*.parquet' in quotes, a folder of parquet files, or a zarr folder.",
            autocompletion=complete_data,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Where to write the model; DATA's name with .strudel by default."
        ),
    ] = None,
    valid: Annotated[
        str | None,
        typer.Option(
            help="Rows that decide when to stop; like DATA.", autocompletion=complete_data
        ),
    ] = None,
    test: Annotated[
        str | None,
        typer.Option(help="Rows to score at the end; like DATA.", autocompletion=complete_data),
    ] = None,
    encode: Annotated[
        Encode | None,
        typer.Option(
            help="auto: turn text, numbers and dates into 0/1 variables; queries then speak of the "
            "table's own columns."
        ),
    ] = None,
    edges: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=A,B",
            help="Encode a column of numbers or dates by these bounds; may be repeated.",
        ),
    ] = None,
    drop: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="Leave out columns such as identifiers and free text, as in name,address; goes "
            "with --encode or --target.",
        ),
    ] = None,
    max_categories: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="The most values that a column of text may have (default 32); goes with --encode "
            "or --target.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Learn a classifier that predicts this column, for strudel predict; goes with "
            "--test, --mixture and --splits.",
        ),
    ] = None,
    mixture: Annotated[
        str | None,
        typer.Option(
            metavar="K|auto",
            help="Learn a mixture of K circuits; auto chooses K.",
        ),
    ] = None,
    method: Annotated[
        Method | None, typer.Option(help="Mixtures: how to learn them; em by default.")
    ] = None,
    structure: Annotated[
        Structure | None,
        typer.Option(help="Mixtures: whether components share theirs; shared by default."),
    ] = None,
    splits: Annotated[
        str | None,
        typer.Option(metavar="N|auto", help="Mixtures: splits of the structure; auto by default."),
    ] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, help="Mixtures, em: average so many runs of K components.")
    ] = None,
    bags: Annotated[
        int | None, typer.Option(min=1, help="Mixtures, bagged_em: bootstrap samples; default 10.")
    ] = None,
    preset: Annotated[
        Preset,
        typer.Option(
            help="The paper's search, the same within two seconds, or the most accurate one within "
            "four minutes; options that differ from their defaults come first."
        ),
    ] = Preset.paper,
    patience: Annotated[
        int | None,
        typer.Option(
            help="Stop after so many splits without a better validation score (default 100); "
            "mixtures: so many EM steps (default 10)."
        ),
    ] = None,
    max_splits: Annotated[int | None, typer.Option(help="Stop after so many splits.")] = None,
    max_edges: Annotated[int | None, typer.Option(help="Stop at so many edges.")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Stop after so many seconds.")] = None,
    edge_score: Annotated[
        EdgeScore, typer.Option(help="Split the edge with most rows, or any.")
    ] = EdgeScore.flow,
    variable_score: Annotated[
        VariableScore,
        typer.Option(help="Split on the variable that tells most, any, or the one with most gain."),
    ] = VariableScore.mutual_information,
    search: Annotated[
        Search | None,
        typer.Option(
            help="The next split by its score (greedy, the default), the best of all splits and "
            "clones, a beam of the best circuits, LearnPSDD, or auto for the best of several. "
            "Mixtures: greedy or best_first; auto, their default, is best_first if --splits is "
            "auto, too, and no option of the greedy search is given."
        ),
    ] = None,
    smoothing: Annotated[
        Smoothing, typer.Option(help="Draw copies to equal parameters, or to their originals.")
    ] = Smoothing.uniform,
    beam_width: Annotated[
        int | None, typer.Option(min=1, help="Beam: circuits that are kept; default 5.")
    ] = None,
    beam_selection: Annotated[
        BeamSelection | None,
        typer.Option(help="Beam: the rows by which circuits are kept; train by default."),
    ] = None,
    beam_kl_threshold: Annotated[
        float | None,
        typer.Option(help="Beam: leave out circuits closer than this to a better one, in nats."),
    ] = None,
    copies: Annotated[
        Copies | None,
        typer.Option(help="LearnPSDD: how far an operation copies; depth by default."),
    ] = None,
    copy_levels: Annotated[
        int | None, typer.Option(min=0, help="LearnPSDD: levels of --copies depth; default 3.")
    ] = None,
    operation_score: Annotated[
        OperationScore | None,
        typer.Option(help="LearnPSDD: gain per new edge, or gain; per_edge by default."),
    ] = None,
    init: Annotated[
        Init | None,
        typer.Option(help="The first circuit; chow_liu, or independent for LearnPSDD."),
    ] = None,
    vtree: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="How the circuit decomposes: chow_liu (default), bottom_up (default for "
            "LearnPSDD), top_down, clusters, balanced, linear, random, auto to try several, or a "
            ".vtree file.",
        ),
    ] = None,
    constraint: Annotated[
        str | None,
        typer.Option(
            metavar="FORMULA|FILE",
            help="What every row satisfies, such as 'a >> (b | c)', or a .cnf, .dnf, .nnf or .sdd "
            "file; rows that violate it get probability zero.",
        ),
    ] = None,
    pseudocount: Annotated[
        float | None,
        typer.Option(
            help="Virtual rows per sum node, shared by its edges (default 1); "
            "mixtures choose it on validation."
        ),
    ] = None,
    copy_depth: Annotated[int, typer.Option(help="How far a split copies below its edge.")] = 1,
    validation_fraction: Annotated[
        float, typer.Option(help="Share of DATA held out when there is no --valid.")
    ] = 0.1,
    structure_rows: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Search on a sample of so many rows, and find the parameters on all; mixtures in "
            "parts: choose their size on it.",
        ),
    ] = None,
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
    seed: Annotated[int, typer.Option(help="Makes random choices repeatable.")] = 0,
    resume: ResumeOption = None,
    checkpoint_seconds: SecondsOption = 60.0,
    as_json: JsonOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no tables.")] = False,
) -> None:
    """Learn a circuit, a mixture of circuits or a classifier, and write it to a file.

    A dataset brings its own validation and test rows; unknown values (empty, ?, NA) are summed out.
    Ctrl-C stops the search and keeps the best model so far. A checkpoint, MODEL.part, lets a fit
    that was killed go on with --resume, to the same model; beam search, boosting and components
    with their own structure begin anew.

    Tables in parts are never in memory as a whole: rows stay on the workers (--workers,
    --scheduler), or come one part after the other.
    """
    if target is not None:
        check_options(context)
        if is_in_parts(data):
            raise InputError(f"--target needs all rows in one file, but {data!r} is in parts.")
        path = output or default_output(data)
        check_output(path, "the model", (data, test), ".strudel")
        check_is_model_file(path)
        sizes = {
            "n_components": read_size(mixture or "auto", "--mixture", 1),
            "n_splits": read_size(splits or "auto", "--splits", 0),
            "random_state": seed,
        }
        fit_classifier(
            data,
            target,
            test,
            path,
            sizes,
            dropped=read_drop(drop),
            max_categories=max_categories,
            as_json=as_json,
            quiet=quiet,
        )
        return
    if drop is not None and encode is None:
        raise InputError("--drop goes with --encode auto or --target.")
    wishes = read_wishes(mixture, method, structure, splits, runs, bags, max_splits)
    options = wishes | {
        "edge_score": edge_score.value,
        "variable_score": variable_score.value,
        "max_splits": max_splits,
        "max_edges": max_edges,
        "max_seconds": max_seconds,
        "copy_depth": copy_depth,
        "validation_fraction": validation_fraction,
        "random_state": seed,
    }
    beam = {"width": beam_width, "selection": beam_selection, "kl_threshold": beam_kl_threshold}
    learnpsdd = {"copies": copies, "copy_levels": copy_levels, "operation_score": operation_score}
    options |= read_search(search, preset, smoothing, beam, learnpsdd, mixture is not None)
    options |= {} if init is None else {"init": init.value}
    options |= read_encoder(encode is not None, edges or [], max_categories)
    options |= {} if vtree is None else {"vtree": read_vtree(vtree)}
    formula = None if constraint is None else read_constraint(constraint)
    options |= {} if patience is None else {"patience": patience}
    options |= {} if pseudocount is None else {"pseudocount": pseudocount}
    options |= {} if structure_rows is None else {"structure_rows": structure_rows}
    path = output or default_output(data)
    check_output(path, "the model", (data, valid, test, vtree, constraint), ".strudel")
    check_is_model_file(path)
    kind = fit_circuit if mixture is None else fit_mixture
    with use_workers(workers, scheduler, quiet) as n_workers:
        checkpoint = open_checkpoint(path, resume, checkpoint_seconds)
        started = time.perf_counter()
        parts = read_tables(
            data,
            valid,
            test,
            is_encoded=encode is not None,
            dropped=read_drop(drop),
            n_workers=n_workers,
        )
        if formula is not None:
            train = parts["train"]
            options["constraint"] = number_variables(formula, train) if encode is None else formula
        reading = time.perf_counter() - started
        started = time.perf_counter()
        from strudel.io.options_of_0_1 import options_of_0_1

        name = "Strudel" if mixture is None else "StrudelMixture"
        options = options_of_0_1(name, options)
        with warnings_as_notes() as messages:
            model = kind.learn(options, parts, quiet, checkpoint)
        learning = time.perf_counter() - started
        used = kind.options(model)
        if isinstance(formula, str):  # which a file can hold
            model.constraint = formula
        _keep(model, parts["train"], path, {})  # before rows in parts are read once more
        checkpoint.remove()
        try:
            likelihood = kind.log_likelihoods(model, parts)
            n_rows = {part: count_rows(table) for part, table in parts.items()}
            _keep(model, parts["train"], path, likelihood)
        except (Exception, KeyboardInterrupt):  # in parts, test rows are only seen now
            note(f"wrote {path}, but could not score all rows")
            raise
    facts = kind.report(model)
    report = _likelihoods(likelihood, facts["n_vars"])
    report |= facts | {
        "n_rows": n_rows,
        "model": path,
        "seconds": {"reading": reading, "learning": learning},
        "options": used,
        "data": data,
    }
    if report["stopped_because"] == "interrupted":
        note(f"stopped early by you; wrote the best {kind.NAME} so far")
        messages = []
    for message in messages:
        note(f"note: {message}")
    if as_json:
        print_json(report)
    elif not quiet:
        _show(report, kind.facts(report))


def default_output(data: str) -> Path:
    """DATA's name with the ending of a model, in the current folder."""
    if data == "-":
        return Path("model.strudel")
    if is_glob(data):  # the folder's name, of a folder without a pattern
        plain = takewhile(lambda name: not is_glob(name), Path(data).parts[:-1])
        return Path(f"{Path(*plain).name or 'model'}.strudel")
    name = Path(data).name.removesuffix(".gz").removesuffix(".zarr")
    stem = Path(name).stem if Path(data).is_file() else name
    return Path(f"{stem}.strudel")


def _likelihoods(likelihood: dict[str, float], n_vars: int) -> dict[str, Any]:
    """Log-likelihoods, and the same as code lengths."""
    bits = {part: bits_per_dimension(value, n_vars) for part, value in likelihood.items()}
    return {"log_likelihood": likelihood, "bits_per_dimension": bits}


def _keep(model: Any, train: Table, path: Path, likelihood: dict[str, float]) -> None:
    """Write the model, with the names of the columns, where the rows came from, and its scores."""
    from strudel.io.model_file import save

    if train.feature_names is not None:
        held = "circuit_" if hasattr(model, "circuit_") else "mixture_"
        setattr(model, held, getattr(model, held).with_names(train.feature_names))
    source = Path(train.source)
    source_name = "/".join(source.parts[-2:]) if is_glob(train.source) else source.name
    facts = {"source": source_name, "log_likelihood": likelihood}
    save(model, path, provenance=facts)


def _show(report: dict[str, Any], facts: dict[str, Any]) -> None:
    """The report as tables."""
    likelihood, bits = report["log_likelihood"], report["bits_per_dimension"]
    n_rows = {part: f"{count:,}" for part, count in report["n_rows"].items()}
    held_out = f"{report['options']['validation_fraction']:.0%} of these"
    rows = [(part, n_rows.get(part, held_out), likelihood[part], bits[part]) for part in likelihood]
    show_table(("", "rows", "mean log-likelihood", "bits per dimension"), rows)
    say()
    seconds = report["seconds"]
    facts |= {
        "seconds": f"{seconds['reading']:.2f} reading, {seconds['learning']:.2f} learning",
        "model": report["model"],
    }
    show_facts("", facts)
