"""`strudel impute`: a table with its gaps filled."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from strudel.cli.cluster import SchedulerOption, WorkersOption
from strudel.cli.columns import encode_table, known_cells, write_columns
from strudel.cli.completion import complete_data
from strudel.cli.console import JsonOption, note, print_json
from strudel.cli.evidence import variable_names
from strudel.cli.impute_classes import fill_rows, input_rows, read_classifier, without_target
from strudel.cli.models import ModelArgument, read_model
from strudel.cli.outputs import check_rows_output, write_table
from strudel.cli.row_parts import RowPart, answer_parts, comes_in_parts, read_bits, read_cells
from strudel.cli.sources import match_columns

if TYPE_CHECKING:
    from strudel._types import FloatArray
    from strudel.models.classifier import StrudelClassifier
    from strudel.queries.model import Model
    from strudel.tables.coded_column import Column
    from strudel.tables.columns import RawTable
    from strudel.tables.table_code import TableCode

Seed = int | list[int]  # of a part: the seed, and where the part begins


class Strategy(StrEnum):
    """What to fill in."""

    map = "map"
    mean = "mean"
    sample = "sample"


def impute(
    model: ModelArgument,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A table with gaps (empty, ?, NA), or - for stdin; in parts: 'visits/*.parquet' "
            "in quotes, a folder of parquet files, or a zarr folder.",
            autocompletion=complete_data,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Write a csv, tsv or parquet file instead of stdout; in parts: a new folder of "
            "parquet files.",
        ),
    ] = None,
    strategy: Annotated[
        Strategy,
        typer.Option(
            help="The values that are most probable together, the mean of each, or a draw."
        ),
    ] = Strategy.map,
    seed: Annotated[int, typer.Option(help="Makes draws repeatable.", min=0)] = 0,
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fill the gaps of a table; known values stay as they are.

    The mean of a 0/1 column is the probability of 1, that of numbers and dates their mean; other
    columns get their most probable value. A classifier fills its inputs and its class.
    """
    in_parts = comes_in_parts(data, workers, scheduler)
    check_rows_output(output, "the rows", model, data, in_parts)
    classifier = read_classifier(model)
    held = read_model(model) if classifier is None else classifier
    columns: dict[str, list[Any]] = {}
    if in_parts:
        found = answer_parts(
            _impute_part,
            data,
            held,
            strategy,
            seed,
            output=output,
            workers=workers,
            scheduler=scheduler,
            is_quiet=as_json,
            has_draws=strategy is Strategy.sample,
        )
    else:
        columns, *counts = _impute(held, data, strategy, seed)
        found = [counts]
        if output is not None:
            write_table(output, columns)
        elif not as_json:
            write_columns(columns, sys.stdout)
    n_rows, n_gaps = (sum(count) for count in zip(*found, strict=True))
    report: dict[str, Any] = {"n_rows": n_rows, "n_filled": n_gaps, "output": output}
    if as_json:
        print_json(report | ({} if output is not None else {"columns": columns}))
    elif output is not None:
        note(f"filled {n_gaps:,} gaps of {n_rows:,} rows and wrote them to {output}")


def _impute_part(
    part: RowPart, folder: Path, held: Model | StrudelClassifier, strategy: Strategy, seed: int
) -> tuple[int, int]:
    """Fill the gaps of a part and write it; returns the numbers of rows and gaps."""
    columns, n_rows, n_gaps = _impute(held, part, strategy, [seed, part.first])
    write_table(folder / part.output_name, columns)
    return n_rows, n_gaps


def _impute(
    held: Model | StrudelClassifier, data: str | RowPart, strategy: Strategy, seed: Seed
) -> tuple[dict[str, list[Any]], int, int]:
    """The columns, filled, and the numbers of rows and gaps."""
    from strudel.models.classifier import StrudelClassifier

    if isinstance(held, StrudelClassifier):
        return _by_classifier(held, data, strategy, seed)
    return _by_model(held, data, strategy, seed)


def _by_model(
    model: Model, data: str | RowPart, strategy: Strategy, seed: Seed
) -> tuple[dict[str, list[Any]], int, int]:
    code, plain = model.table_code, model.with_table_code(None)
    in_parts = not isinstance(data, str)
    if code is None:
        table = match_columns(read_bits(data), model.n_vars, model.feature_names, "the model")
        rows = table.X.astype(np.float64)
        filled = _fill(plain, rows, strategy, seed)
        columns = _filled_variables(variable_names(model), rows, filled, strategy, in_parts)
        return columns, len(rows), _n_unknown(rows)
    raw, source = read_cells(data)
    rows = encode_table(code, raw, source)
    filled = _fill(plain, rows, strategy, seed)
    columns, n_gaps = _filled_columns(code, raw, filled, strategy, in_parts)
    return columns, len(rows), n_gaps


def _by_classifier(
    model: StrudelClassifier, data: str | RowPart, strategy: Strategy, seed: Seed
) -> tuple[dict[str, list[Any]], int, int]:
    """The same with the class as the last column."""
    table, source = read_cells(data)
    raw, classes = without_target(model, table, source)
    rows = input_rows(model, raw, source)
    in_parts = not isinstance(data, str)
    filled, filled_classes = fill_rows(
        model,
        rows,
        classes,
        lambda mixture, part: _fill(mixture, part, strategy, seed),
        strategy.value,
        seed,
    )
    if hasattr(model, "encoder_"):
        columns, n_gaps = _filled_columns(model.encoder_.code_, raw, filled, strategy, in_parts)
    else:
        names = getattr(model, "feature_names_in_", [f"x{v}" for v in range(rows.shape[1])])
        columns = _filled_variables(list(names), rows, filled, strategy, in_parts)
        n_gaps = _n_unknown(rows)
    columns[model.target_name_] = filled_classes
    return columns, len(rows), n_gaps + classes.count(None)


def _filled_variables(
    names: Sequence[str],
    rows: FloatArray,
    filled: FloatArray,
    strategy: Strategy,
    in_parts: bool,
) -> dict[str, list[Any]]:
    """Columns of 0 and 1, with what is filled where a value is unknown."""
    values = np.where(np.isnan(rows), filled, rows)
    if in_parts and strategy is Strategy.mean:  # of one type in all parts
        return {name: values[:, var].tolist() for var, name in enumerate(names)}
    return {name: _plain(values[:, var]) for var, name in enumerate(names)}


def _n_unknown(rows: FloatArray) -> int:
    return int(np.isnan(rows).sum())


def _filled_columns(
    code: TableCode, raw: RawTable, filled: FloatArray, strategy: Strategy, in_parts: bool
) -> tuple[dict[str, list[Any]], int]:
    """The columns of a table with what is filled in their gaps, and the number of gaps."""
    columns, n_gaps, known = {}, 0, known_cells(code, raw)
    for column in code.columns:
        cells = known.get(column.name, [None] * len(filled))
        gaps = [row for row, cell in enumerate(cells) if cell is None]
        bits = filled[gaps, column.start : column.stop]
        for row, value in zip(gaps, _values(column, bits, strategy), strict=True):
            cells[row] = value
        columns[column.name] = _own_values(column, cells) if in_parts else cells
        n_gaps += len(gaps)
    return columns, n_gaps


def _own_values(column: Column, cells: list[Any]) -> list[Any]:
    """Known cells as the model has them, so that all parts have the type of what is filled in."""
    if column.kind == "date":
        return cells
    if column.kind == "number":
        return [None if cell is None else float(cell) for cell in cells]
    own = {}
    for cell in set(cells):
        place = column.place_of(cell)
        own[cell] = cell if place is None else column.values[place]
    return [own[cell] for cell in cells]


def _fill(model: Model, rows: FloatArray, strategy: Strategy, seed: Seed) -> FloatArray:
    """All variables of every row: bits, or of means the probability of 1."""
    from strudel.queries.maximum.most_probable import most_probable_state
    from strudel.queries.moments import marginal_probabilities
    from strudel.queries.sampling import sample_conditional

    filled = rows.copy()
    with_gaps = np.flatnonzero(np.isnan(rows).any(axis=1))
    if len(with_gaps) == 0:
        return filled
    part = rows[with_gaps]
    if strategy is Strategy.map:
        filled[with_gaps] = most_probable_state(model, part)[0]
    elif strategy is Strategy.mean:
        filled[with_gaps] = marginal_probabilities(model, part)
    else:
        rng = np.random.default_rng(seed)
        filled[with_gaps] = sample_conditional(model, part, 1, rng=rng)[:, 0]
    return filled


def _values(column: Column, bits: FloatArray, strategy: Strategy) -> list[Any]:
    """The values of a column, from its variables."""
    from strudel.tables.filled_table import value_shares
    from strudel.tables.frames import as_date

    values: list[Any]
    if strategy is not Strategy.mean:
        values = column.decoded(bits)
    elif column.kind in ("number", "date") and None not in column.values:
        values = (value_shares(bits, column) @ np.array(column.values, dtype=np.float64)).tolist()
    else:
        values = [column.values[place] for place in value_shares(bits, column).argmax(axis=1)]
    return [as_date(value, column) for value in values] if column.kind == "date" else values


def _plain(column: FloatArray) -> list[Any]:
    """Whole numbers where all are."""
    return column.astype(int).tolist() if np.all(column == np.round(column)) else column.tolist()
