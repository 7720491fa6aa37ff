"""`strudel sample`: rows drawn from a model, as csv."""

from __future__ import annotations

from typing import Annotated

import typer

from strudel.cli import files
from strudel.cli.console import InputError, JsonOption, note, print_json, warnings_as_notes


def sample(
    model: files.ModelArgument,
    n: Annotated[
        int, typer.Option("-n", "--number", min=0, help="How many rows, for each row given.")
    ] = 1,
    given: files.GivenOption = None,
    missing: Annotated[
        bool,
        typer.Option("--missing", help="With missing values, as the table has them."),
    ] = False,
    seed: Annotated[int, typer.Option(help="Makes the draw repeatable.", min=0)] = 0,
    output: files.RowsOutput = None,
    force: files.ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Draw rows from a model.

    Rows are independent and exactly distributed as the model says, given what is known. A table of
    several rows gets its completions in the order of its rows. The csv has a line of names.
    """
    from strudel import queries

    held = files.read_model(model, force)
    files.check_table_output(output, "the rows", model, given)
    if missing and files.columns_of(held).are_bits:
        raise InputError("--missing needs a model of a table of text, numbers or dates.")
    known = files.read_rows(given) if given is not None and files.is_table(given, held) else given
    with warnings_as_notes(given or ""):
        rows = queries.sample(held, n, given=known, random_state=seed, missing=missing)
    names = files.columns_of(held).names
    rows = files.as_frame(rows.reshape(-1, len(names)) if hasattr(rows, "reshape") else rows, names)
    report = {"n_rows": len(rows), "seed": seed, "output": output}
    if as_json and output is None:
        cells = files.cells_of(rows).values()
        print_json(report | {"names": names, "rows": [*zip(*cells, strict=True)]})
        return
    files.write_rows(output, rows)
    if as_json:
        print_json(report)
    elif output is not None:
        note(f"wrote {len(rows):,} rows to {output}")
