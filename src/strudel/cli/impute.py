"""`strudel impute`: a table with its missing values filled."""

from __future__ import annotations

from pathlib import Path

from strudel.cli import files
from strudel.cli.console import JsonOption, option, warnings_as_notes


def impute(
    model: files.ModelArgument,
    data: files.DataArgument,
    output: Path | None = files.ROWS,
    strategy: str = option(
        "auto, the mean of numbers and the most probable value of all else; map, the values that "
        "are most probable together; mean, also of 0/1 columns; or sample, a draw.",
        "NAME",
        default="auto",
    ),
    fill_structural: bool = option(
        "Also fill values that are missing by rule.", None, "--fill-structural", default=False
    ),
    seed: int = option("Makes draws repeatable.", min=0, default=0),
    as_json: JsonOption = False,
) -> None:
    """Fill the gaps of a table; known values, and columns that the model does not know, stay.

    The mean of a 0/1 column is the probability of 1, that of numbers and dates their mean; other
    columns get their most probable value. A classifier fills its inputs and its class. Values that
    are missing by a rule of the table that was learned from, as pregnancies of men, stay empty.
    """
    from strudel import StrudelImputer

    files.check_output(output, "a table", files.TABLES, model, data)
    held, rows = files.as_model(files.read_any(model)), files.read_rows(data)
    names, has_names = files.columns_of(held).names, files.has_names(rows)
    if not has_names and len(rows.columns) == len(names) - 1 and hasattr(held, "classes_"):
        rows[len(rows.columns)] = None  # the class, of which nothing is known
    imputer = StrudelImputer(
        held, strategy=strategy, fill_structural=fill_structural, random_state=seed
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
    said = f"filled {n_filled:,} gaps in {len(rows):,} rows and wrote them"
    files.give_rows(filled, output, as_json, {"n_rows": len(rows), "n_filled": n_filled}, said)
