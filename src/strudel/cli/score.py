"""`strudel score`: how probable a model finds rows."""

from __future__ import annotations

import math

import numpy as np

from strudel.cli import files
from strudel.cli.console import JsonOption, tell, warnings_as_notes


def score(
    model: files.ModelArgument,
    data: files.DataArgument,
    output: files.RowsOutput = None,
    force: files.ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Score rows by how probable they are under a model.

    Prints their mean log-likelihood (natural log), and the same as bits per dimension; with -o also
    one log-likelihood per row. Unknown values (empty, ?, NA) are summed out exactly. Columns are
    matched by name when both the model and the table have names.
    """
    from strudel.queries import observed_log_likelihood

    files.check_table_output(output, "the values", model, data)
    held, rows = files.read_model(model, force), files.read_rows(data)
    with warnings_as_notes(data):
        values = observed_log_likelihood(held, rows)
    columns = files.columns_of(held)
    known = rows.reindex(columns=list(columns.names)) if files.has_names(rows) else rows
    mean = float(values.mean())
    if output is not None:
        files.write_rows(output, {"row": range(len(values)), "log_likelihood": values})
    report = {
        "mean log-likelihood": mean,
        "bits per dimension": -mean / (math.log(2) * len(columns)),
        "rows": len(values),
        "rows with probability zero": int(np.isneginf(values).sum()),
        "rows with unknown values": int(known.isna().any(axis=1).sum()),
    } | ({} if output is None else {"values per row": output})
    tell(report, as_json, more={"model": model, "data": data})
