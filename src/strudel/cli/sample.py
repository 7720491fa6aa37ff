"""`strudel sample`: rows drawn from a model, as csv."""

from __future__ import annotations

from pathlib import Path

from strudel.cli import files
from strudel.cli.console import InputError, JsonOption, option, warnings_as_notes


def sample(
    model: files.ModelArgument,
    n: int = option("How many rows, for each row given.", None, "-n", "--number", min=0, default=1),
    given: str | None = files.GIVEN,
    missing: bool = option(
        "With missing values, as the table has them.", None, "--missing", default=False
    ),
    seed: int = option("Makes the draw repeatable.", min=0, default=0),
    output: Path | None = files.ROWS,
    as_json: JsonOption = False,
) -> None:
    """Draw rows from a model.

    Rows are independent and exactly distributed as the model says, given what is known. A table of
    several rows gets its completions in the order of its rows. The csv has a line of names.
    """
    from strudel import queries

    held = files.read_model(model)
    files.check_output(output, "a table", files.TABLES, model, given)
    columns = files.columns_of(held)
    if missing and columns.are_bits:
        raise InputError("--missing needs a model of a table of text, numbers or dates.")
    known = files.read_rows(given) if given is not None and files.is_table(given, held) else given
    with warnings_as_notes(given or ""):
        drawn = queries.sample(held, n, given=known, random_state=seed, missing=missing)
    rows = files.as_frame(drawn, columns.names)
    said = f"wrote {len(rows):,} rows"
    files.give_rows(rows, output, as_json, {"n_rows": len(rows), "seed": seed}, said)
