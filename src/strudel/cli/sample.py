"""`strudel sample`: rows drawn from a model, as csv."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from strudel.cli.console import JsonOption, note, print_json
from strudel.cli.evidence import GivenOption, read_given, variable_names
from strudel.cli.models import ModelArgument, read_model
from strudel.cli.outputs import check_output, write_text

if TYPE_CHECKING:
    from strudel._types import ByteArray

BLOCK_ROWS = 2**14  # rows made text at a time


def sample(
    model: ModelArgument,
    n: Annotated[
        int, typer.Option("-n", "--number", min=0, help="How many rows, for each row given.")
    ] = 1,
    given: GivenOption = None,
    seed: Annotated[int, typer.Option(help="Makes the draw repeatable.", min=0)] = 0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write a csv file instead of stdout.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Draw rows from a model.

    Rows are independent and exactly distributed as the model says, given what is known. A table of
    several rows gets its completions in the order of its rows. The csv has a line of names.
    """
    from strudel.queries.sampling import sample_conditional

    held = read_model(model)
    names = variable_names(held)
    known = read_given(held, given)
    if output is not None:
        check_output(output, "the rows", {str(model), given}, ".csv")
    rows = sample_conditional(held, known, n, rng=seed).reshape(-1, held.n_vars)
    if output is not None:
        write_text(output, _csv(names, rows))
    report = {"n_rows": len(rows), "seed": seed, "output": output}
    if as_json:
        print_json(report | ({"names": names, "rows": rows} if output is None else {}))
    elif output is None:
        sys.stdout.writelines(_csv(names, rows))
    else:
        note(f"wrote {len(rows):,} rows to {output}")


def _csv(names: tuple[str, ...], rows: ByteArray) -> Iterator[str]:
    """Text in pieces, so that a million rows need little memory."""
    head = io.StringIO()
    csv.writer(head, lineterminator="\n").writerow(names)
    yield head.getvalue()
    for start in range(0, len(rows), BLOCK_ROWS):
        block = rows[start : start + BLOCK_ROWS]
        text = bytearray(b"0,") * block.size
        text[::2] = (block + ord("0")).tobytes()
        text[2 * block.shape[1] - 1 :: 2 * block.shape[1]] = b"\n" * len(block)
        yield text.decode("ascii")
