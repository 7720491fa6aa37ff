"""`strudel sample`: rows drawn from a model, as csv."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strudel.cli.console import InputError, JsonOption, note, print_json, warnings_as_notes
from strudel.cli.evidence import GivenOption, is_condition, read_given, variable_names
from strudel.cli.input_tables import read_frame_rows
from strudel.cli.model_files import ForceOption, ModelArgument, read_model
from strudel.cli.outputs import (
    check_table_output,
    separator,
    write_columns,
    write_table,
    write_text,
)
from strudel.cli.table_columns import cells_of

if TYPE_CHECKING:
    from numpy.random import Generator

    from strudel._types import ByteArray
    from strudel.tables.table_code import TableCode

BLOCK_ROWS = 2**14  # rows made text at a time


def sample(
    model: ModelArgument,
    n: Annotated[
        int, typer.Option("-n", "--number", min=0, help="How many rows, for each row given.")
    ] = 1,
    given: GivenOption = None,
    missing: Annotated[
        bool,
        typer.Option("--missing", help="With missing values, as the table has them."),
    ] = False,
    seed: Annotated[int, typer.Option(help="Makes the draw repeatable.", min=0)] = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            rich_help_panel="Output",
            help="Write a csv, tsv or parquet file instead of stdout.",
        ),
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Draw rows from a model.

    Rows are independent and exactly distributed as the model says, given what is known. A table of
    several rows gets its completions in the order of its rows. The csv has a line of names.
    """
    from strudel.data.argument_checks import generator_from
    from strudel.queries.sampling import sample as draw

    held = read_model(model, force)
    if missing and held.table_code is None:
        raise InputError("--missing needs a model of a table of text, numbers or dates.")
    names = variable_names(held)
    with warnings_as_notes():
        held, known, *_ = read_given(held, given)
    if output is not None:
        check_table_output(output, "the rows", {str(model), given})
    plain, rng = held.with_table_code(None), generator_from(seed)
    rows = draw(plain, n, given=known, random_state=rng).reshape(-1, held.n_vars)
    content: Any = rows
    columns: dict[str, Any] | None = None
    if held.table_code is not None:
        columns = _decoded(held.table_code, rows, given, n, rng, missing)
        names = held.table_code.names
        content = list(map(list, zip(*columns.values(), strict=True)))
    elif output is not None and output.suffix == ".parquet":
        columns = dict(zip(names, rows.T.tolist(), strict=True))
    if output is not None:
        if columns is None:
            write_text(output, _csv(names, rows, separator(output)))
        else:
            write_table(output, columns)
    report = {"n_rows": len(rows), "seed": seed, "output": output}
    if as_json:
        print_json(report | ({"names": names, "rows": content} if output is None else {}))
    elif output is not None:
        note(f"wrote {len(rows):,} rows to {output}")
    elif columns is None:
        sys.stdout.writelines(_csv(names, rows))
    else:
        write_columns(columns, sys.stdout)


def _decoded(
    code: TableCode, rows: ByteArray, given: str | None, n: int, rng: Generator, missing: bool
) -> dict[str, list[Any]]:
    """Rows in the columns of the table; what a table gives stays as it is."""
    from strudel.tables.columns import as_date

    known: dict[str, list[Any]] = {}
    if given is not None and given != "-" and not is_condition(given):
        table, _ = read_frame_rows(given)
        names = table.names if table.has_names else code.names
        known = {name: cells_of(own) for name, own in zip(names, table.columns, strict=True)}
    drawn = {
        column.name: column.drawn(rows[:, column.start : column.stop].astype(float), rng)
        for column in code.columns
    }
    if missing:
        code.leave_out(drawn, rng)
    decoded: dict[str, list[Any]] = {}
    for column in code.columns:
        cells = drawn[column.name]
        if column.kind == "date":
            cells = [as_date(cell, column) for cell in cells]
        for place, value in enumerate(known.get(column.name, ())):
            if value is not None:
                cells[place * n : (place + 1) * n] = [value] * n
        decoded[column.name] = cells
    return decoded


def _csv(names: tuple[str, ...], rows: ByteArray, separator: str = ",") -> Iterator[str]:
    """Text in pieces, so that a million rows need little memory."""
    head = io.StringIO()
    csv.writer(head, delimiter=separator, lineterminator="\n").writerow(names)
    yield head.getvalue()
    for start in range(0, len(rows), BLOCK_ROWS):
        block = rows[start : start + BLOCK_ROWS]
        text = bytearray(f"0{separator}".encode()) * block.size
        text[::2] = (block + ord("0")).tobytes()
        text[2 * block.shape[1] - 1 :: 2 * block.shape[1]] = b"\n" * len(block)
        yield text.decode("ascii")
