"""`strudel score`: how probable a model finds rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import typer

from strudel.cli.cluster import SchedulerOption, WorkersOption
from strudel.cli.console import (
    JsonOption,
    bits_per_dimension,
    print_json,
    show_facts,
)
from strudel.cli.input_tables import match_columns
from strudel.cli.model_files import ForceOption, ModelArgument, read_model
from strudel.cli.outputs import check_rows_output
from strudel.cli.partitions import (
    Columns,
    Partition,
    answer_rows,
    answers_by_partition,
    read_bits,
    read_cells,
)
from strudel.cli.shell_completion import complete_data
from strudel.cli.table_columns import model_columns
from strudel.data.lazy import by_block, is_lazy

if TYPE_CHECKING:
    from strudel._types import FloatArray
    from strudel.io.read_tables import Table
    from strudel.queries.model import Model
    from strudel.tables.table_code import TableCode


def score(
    model: ModelArgument,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A table, a dataset (its test rows), NAME:train or NAME:valid, or - for stdin; "
            "partitioned: 'visits/*.parquet' in quotes, a folder of parquet files, or a zarr "
            "folder.",
            autocompletion=complete_data,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            rich_help_panel="Output",
            help="Also write one log-likelihood per row, as a csv, tsv or parquet file; "
            "partitioned: as a new folder of parquet files.",
        ),
    ] = None,
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Score rows by how probable they are under a model.

    Prints their mean log-likelihood (natural log), and the same as bits per dimension.
    Unknown values (empty, ?, NA) are summed out exactly. Columns are matched by name when both the
    model and the table have names.
    """
    by_partition = answers_by_partition(data, workers, scheduler)
    if output is not None:  # else there is nothing to write
        check_rows_output(output, "the values", model, data, by_partition)
    held = read_model(model, force)
    code, plain = held.table_code, held.with_table_code(None)
    _, found = answer_rows(
        _score_rows,
        data,
        plain,
        code,
        by_partition=by_partition,
        output=output,
        workers=workers,
        scheduler=scheduler,
        is_quiet=as_json,
    )
    report = _report(_Score(*np.sum(found, axis=0)), plain.n_vars)
    if as_json:
        print_json(report | {"model": model, "data": data, "output": output})
        return
    facts: dict[str, Any] = {
        "mean log-likelihood": report["log_likelihood"],
        "bits per dimension": report["bits_per_dimension"],
        "rows": report["n_rows"],
        "rows with probability zero": report["n_impossible"],
        "rows with unknown values": report["n_incomplete"],
    }
    show_facts("", facts if output is None else facts | {"values per row": output})


class _Score(NamedTuple):
    """What adds up over rows."""

    n_rows: float
    log_likelihood: float
    n_impossible: float
    n_incomplete: float


def _score_rows(
    data: str | Partition, model: Model, code: TableCode | None
) -> tuple[Columns, _Score]:
    """The values of all rows, with all digits: reading gives the same floats; and their sums."""
    from strudel.queries.likelihood import rows_log_likelihood

    table, log_density = _read(data, model, code)
    values = rows_log_likelihood(model, table.X) + log_density
    first = 0 if isinstance(data, str) else data.first
    rows = list(range(first, first + len(values)))
    n_incomplete = int(_is_incomplete(table).sum())
    score = _Score(len(values), float(values.sum()), int(np.isneginf(values).sum()), n_incomplete)
    return {"row": rows, "log_likelihood": values.tolist()}, score


def _read(
    data: str | Partition, model: Model, code: TableCode | None
) -> tuple[Table, FloatArray | float]:
    """The rows as 0, 1 and NaN, in the columns of the model; the log-density of their numbers."""
    from strudel.io.read_tables import Table
    from strudel.tables.coded_rows import table_log_density

    if code is not None:
        raw, source = read_cells(data)
        cells = model_columns(code, raw, source)
        return Table(code.encode(cells, source), None, source), table_log_density(cells, code)
    return match_columns(read_bits(data), model.n_vars, model.feature_names, "the model"), 0.0


def mean_log_likelihood(model: Any, X: Any) -> float:
    """Of the rows of a table; unknown values are summed out. Lazy rows go block by block."""
    from strudel.learning.partitioned.engines import lazy_mean

    log_p = _log_likelihoods(model, X)
    return lazy_mean(log_p) if is_lazy(log_p) else float(log_p.mean())


@by_block("X")
def _log_likelihoods(model: Any, X: Any) -> FloatArray:
    from strudel.data.validation import check_evidence
    from strudel.queries.arguments import log_density_in
    from strudel.queries.likelihood import rows_log_likelihood
    from strudel.queries.model import model_of

    held = model_of(model)
    rows = check_evidence(X, n_vars=held.n_vars, feature_names=held.feature_names)
    return rows_log_likelihood(held, rows) + log_density_in(held, X)


def _is_incomplete(table: Table) -> np.ndarray:
    if table.X.dtype.kind != "f":
        return np.zeros(len(table.X), dtype=bool)
    return np.asarray(np.isnan(table.X).any(axis=1))


def _report(score: _Score, n_vars: int) -> dict[str, Any]:
    mean = float(score.log_likelihood / score.n_rows)
    return {
        "log_likelihood": mean,
        "bits_per_dimension": bits_per_dimension(mean, n_vars),
        "n_rows": int(score.n_rows),
        "n_impossible": int(score.n_impossible),
        "n_incomplete": int(score.n_incomplete),
    }
