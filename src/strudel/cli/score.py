"""`strudel score`: how probable a model finds rows."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from strudel.cli import files
from strudel.cli.console import JsonOption, tell, warnings_as_notes


def score(
    model: files.ModelArgument,
    data: files.DataArgument,
    output: Path | None = files.ROWS,
    as_json: JsonOption = False,
) -> None:
    """Score rows by how probable they are under a model.

    Prints their mean log-likelihood (natural log), and the same as bits per dimension; with -o also
    one log-likelihood per row. Unknown values (empty, ?, NA) are summed out exactly. Columns are
    matched by name when both the model and the table have names.
    """
    from strudel.queries import observed_log_likelihood

    files.check_output(output, "a table", files.TABLES, model, data)
    held, rows = files.read_model(model), files.read_rows(data)
    with warnings_as_notes(data):
        values = observed_log_likelihood(held, rows)
    columns = files.columns_of(held)
    known = rows.reindex(columns=list(columns.names)) if files.has_names(rows) else rows
    mean = float(values.mean())
    report = {
        "mean_log_likelihood": mean,
        "bits_per_dimension": -mean / (math.log(2) * len(columns)),
        "rows": len(values),
        "rows_with_probability_zero": int(np.isneginf(values).sum()),
        "rows_with_unknown_values": int(known.isna().any(axis=1).sum()),
        **({} if output is None else {"values_per_row": output}),
    }
    if output is not None:
        table = {"row": np.arange(len(values)), "log_likelihood": values}
        files.write_rows(output, files.as_frame(table))
    tell(report, as_json, more={"model": model, "data": data})
