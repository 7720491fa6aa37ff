"""`strudel score`: how probable a model finds rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from strudel.cli.columns import encode_table
from strudel.cli.completion import complete_data
from strudel.cli.console import (
    JsonOption,
    bits_per_dimension,
    print_json,
    show_facts,
)
from strudel.cli.models import ModelArgument, read_model
from strudel.cli.outputs import check_table_output, write_table
from strudel.cli.sources import match_columns, read_frame_rows, read_rows
from strudel.data.lazy import by_block, is_lazy

if TYPE_CHECKING:
    from strudel._types import FloatArray
    from strudel.io.tables import Table
    from strudel.queries.model import Model


def score(
    model: ModelArgument,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A table, a dataset (its test rows), NAME:train or NAME:valid, or - for stdin.",
            autocompletion=complete_data,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Also write one log-likelihood per row, as a csv, tsv or parquet file.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print how probable a model finds rows.

    That is their mean log-likelihood (natural log), and the same as bits per dimension.
    Unknown values (empty, ?, NA) are summed out exactly. Columns are matched by name when both the
    model and the table have names.
    """
    from strudel.io.tables import Table

    if output is not None:
        check_table_output(output, "the values", {str(model), data})
    held = read_model(model)
    code, held = held.table_code, held.with_table_code(None)
    if code is None:
        table = match_columns(read_rows(data), held.n_vars, held.feature_names, "the model")
    else:
        raw, source = read_frame_rows(data)
        table = Table(encode_table(code, raw, source), None, source)
    values = log_probabilities(held, table)
    if output is not None:
        # All digits: a float is written so that reading gives the same.
        write_table(output, {"row": list(range(len(values))), "log_likelihood": values.tolist()})
    report = _report(held, table, values)
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


def log_probabilities(model: Model, table: Table) -> FloatArray:
    """Complete rows through flows, the others with their unknown values summed out."""
    from strudel.queries.likelihood import log_likelihood
    from strudel.queries.marginal import log_marginal

    is_incomplete = _is_incomplete(table)
    if not is_incomplete.any():
        return log_likelihood(model, table.X)
    values = np.empty(len(table.X))
    values[is_incomplete] = log_marginal(model, table.X[is_incomplete])
    if not is_incomplete.all():
        values[~is_incomplete] = log_likelihood(model, table.X[~is_incomplete].astype(np.uint8))
    return values


def mean_log_likelihood(model: Any, table: Table) -> float:
    """Of the rows of a table, under a fitted estimator; unknown values are summed out."""
    from strudel.io.tables import Table
    from strudel.queries.model import model_of

    if is_lazy(table.X):
        return _lazy_mean(model, table.X)
    held = model_of(model)
    if held.table_code is not None:
        table = Table(held.table_code.encode(table.X, table.source), None, table.source)
    return float(log_probabilities(held.with_table_code(None), table).mean())


def _lazy_mean(model: Any, X: Any) -> float:
    """Block by block, where the rows are: on the workers, or here one after the other."""
    from strudel.scale.engines import find_engine

    engine = find_engine()
    (mean,) = engine.each(float, engine.keep([_block_log_probabilities(model, X).mean()]))
    return float(mean)


@by_block("X")
def _block_log_probabilities(model: Any, X: Any) -> FloatArray:
    from strudel.data.validation import check_evidence
    from strudel.io.tables import Table
    from strudel.queries.model import model_of

    held = model_of(model)
    code = held.table_code
    rows = check_evidence(X) if code is None else code.encode(X)
    return log_probabilities(held.with_table_code(None), Table(rows, None, "X"))


def has_gaps(table: Table) -> bool:
    """Whether some value of a table, of whatever types, is unknown; in parts none may be."""
    if is_lazy(table.X):
        return False
    if hasattr(table.X, "columns"):
        return any(column.is_missing().any() for column in table.X.columns)
    return bool(_is_incomplete(table).any())


def _is_incomplete(table: Table) -> np.ndarray:
    if table.X.dtype.kind != "f":
        return np.zeros(len(table.X), dtype=bool)
    return np.asarray(np.isnan(table.X).any(axis=1))


def _report(model: Model, table: Table, values: FloatArray) -> dict[str, Any]:
    mean = float(values.mean())
    return {
        "log_likelihood": mean,
        "bits_per_dimension": bits_per_dimension(mean, model.n_vars),
        "n_rows": len(values),
        "n_impossible": int(np.isneginf(values).sum()),
        "n_incomplete": int(_is_incomplete(table).sum()),
    }
