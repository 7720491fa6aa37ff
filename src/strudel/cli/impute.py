"""`strudel impute`: a table with its gaps filled."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from strudel.cli import files
from strudel.cli.console import JsonOption, note, print_json, warnings_as_notes


class Strategy(StrEnum):
    """What to fill in."""

    auto = "auto"
    map = "map"
    mean = "mean"
    sample = "sample"


def impute(
    model: files.ModelArgument,
    data: files.DataArgument,
    output: files.RowsOutput = None,
    strategy: Annotated[
        Strategy,
        typer.Option(
            help="The mean of numbers and the most probable value of all else; the values that are "
            "most probable together; the mean of each, of 0/1 columns also; or a draw."
        ),
    ] = Strategy.auto,
    fill_structural: Annotated[
        bool,
        typer.Option("--fill-structural", help="Also fill values that are missing by rule."),
    ] = False,
    seed: Annotated[int, typer.Option(help="Makes draws repeatable.", min=0)] = 0,
    force: files.ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Fill the gaps of a table; known values, and columns that the model does not know, stay.

    The mean of a 0/1 column is the probability of 1, that of numbers and dates their mean; other
    columns get their most probable value. A classifier fills its inputs and its class. Values that
    are missing by a rule of the table that was learned from, as pregnancies of men, stay empty.
    """
    from strudel import StrudelImputer

    files.check_table_output(output, "the rows", model, data)
    held, rows = files.read_file(model, force), files.read_rows(data)
    names, has_names = files.columns_of(held).names, files.has_names(rows)
    if not has_names and len(rows.columns) == len(names) - 1 and hasattr(held, "classes_"):
        rows[len(rows.columns)] = None  # the class, of which nothing is known
    imputer = StrudelImputer(
        held, strategy=strategy.value, fill_structural=fill_structural, random_state=seed
    )
    with warnings_as_notes(data):
        filled = files.as_frame(imputer.fit_transform(rows), rows.columns)
    known = rows.reindex(columns=filled.columns)
    n_filled = int(known.isna().to_numpy().sum() - filled.isna().to_numpy().sum())
    if output is None or output.suffix != ".parquet":  # where the cells of a column need no type
        for name, cells in known.items():
            filled[name] = cells.astype(object).where(cells.notna(), filled[name])
    if not has_names:
        filled.columns = list(names)
    report: dict[str, Any] = {"n_rows": len(rows), "n_filled": n_filled, "output": output}
    if output is not None or not as_json:
        files.write_rows(output, filled)
    if as_json:
        print_json(report | ({} if output is not None else {"columns": files.cells_of(filled)}))
    elif output is not None:
        note(f"filled {n_filled:,} gaps in {len(rows):,} rows and wrote them to {output}")
