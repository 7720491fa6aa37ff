"""`strudel impute`: a table with its gaps filled."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from strudel.cli.columns import encode_table, known_cells, write_columns
from strudel.cli.completion import complete_data
from strudel.cli.console import JsonOption, note, print_json
from strudel.cli.evidence import variable_names
from strudel.cli.impute_classes import fill_rows, input_rows, read_classifier, without_target
from strudel.cli.models import ModelArgument, read_model
from strudel.cli.outputs import check_output, write_text
from strudel.cli.sources import match_columns, read_frame_rows, read_rows

if TYPE_CHECKING:
    from strudel._types import FloatArray
    from strudel.data.coded_column import Column
    from strudel.data.table_code import TableCode
    from strudel.data.table_columns import RawTable
    from strudel.models.classifier import StrudelClassifier
    from strudel.queries.model import Model


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
            help="A table with gaps (empty, ?, NA), or - for stdin.",
            autocompletion=complete_data,
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write a csv file instead of stdout.")
    ] = None,
    strategy: Annotated[
        Strategy,
        typer.Option(
            help="The values that are most probable together, the mean of each, or a draw."
        ),
    ] = Strategy.map,
    seed: Annotated[int, typer.Option(help="Makes draws repeatable.", min=0)] = 0,
    as_json: JsonOption = False,
) -> None:
    """Fill the gaps of a table; known values stay as they are.

    The mean of a 0/1 column is the probability of 1, that of numbers and dates their mean; other
    columns get their most probable value. A classifier fills its inputs and its class.
    """
    if output is not None:
        check_output(output, "the rows", {str(model), data}, ".csv")
    held = read_model(model)
    classifier = read_classifier(model)
    if classifier is None:
        columns, rows, n_gaps = _by_model(held, data, strategy, seed)
    else:
        columns, rows, n_gaps = _by_classifier(classifier, data, strategy, seed)
    report: dict[str, Any] = {"n_rows": len(rows), "n_filled": n_gaps, "output": output}
    if as_json:
        print_json(report | ({} if output is not None else {"columns": columns}))
    if output is None and as_json:
        return
    file = io.StringIO()
    write_columns(columns, file)
    if output is None:
        sys.stdout.write(file.getvalue())
        return
    write_text(output, [file.getvalue()])
    if not as_json:
        note(f"filled {n_gaps:,} gaps of {len(rows):,} rows and wrote them to {output}")


def _by_model(
    model: Model, data: str, strategy: Strategy, seed: int
) -> tuple[dict[str, list[Any]], FloatArray, int]:
    """The columns, filled; the rows with gaps; the number of gaps."""
    code, plain = model.table_code, model.with_table_code(None)
    if code is None:
        table = match_columns(read_rows(data), model.n_vars, model.feature_names, "the model")
        rows = table.X.astype(np.float64)
        filled = _fill(plain, rows, strategy, seed)
        return _filled_variables(variable_names(model), rows, filled), rows, _n_unknown(rows)
    raw, source = read_frame_rows(data)
    rows = encode_table(code, raw, source)
    columns, n_gaps = _filled_columns(code, raw, _fill(plain, rows, strategy, seed), strategy)
    return columns, rows, n_gaps


def _by_classifier(
    model: StrudelClassifier, data: str, strategy: Strategy, seed: int
) -> tuple[dict[str, list[Any]], FloatArray, int]:
    """The same with the class as the last column."""
    raw, classes = without_target(model, *read_frame_rows(data))
    rows = input_rows(model, raw, data)
    filled, filled_classes = fill_rows(
        model,
        rows,
        classes,
        lambda mixture, part: _fill(mixture, part, strategy, seed),
        strategy.value,
        seed,
    )
    if hasattr(model, "encoder_"):
        columns, n_gaps = _filled_columns(model.encoder_.code_, raw, filled, strategy)
    else:
        names = getattr(model, "feature_names_in_", [f"x{v}" for v in range(rows.shape[1])])
        columns, n_gaps = _filled_variables(list(names), rows, filled), _n_unknown(rows)
    columns[model.target_name_] = filled_classes
    return columns, rows, n_gaps + classes.count(None)


def _filled_variables(
    names: Sequence[str], rows: FloatArray, filled: FloatArray
) -> dict[str, list[Any]]:
    """Columns of 0 and 1, with what is filled where a value is unknown."""
    values = np.where(np.isnan(rows), filled, rows)
    return {name: _plain(values[:, var]) for var, name in enumerate(names)}


def _n_unknown(rows: FloatArray) -> int:
    return int(np.isnan(rows).sum())


def _filled_columns(
    code: TableCode, raw: RawTable, filled: FloatArray, strategy: Strategy
) -> tuple[dict[str, list[Any]], int]:
    """The columns of a table with what is filled in their gaps, and the number of gaps."""
    columns, n_gaps, known = {}, 0, known_cells(code, raw)
    for column in code.columns:
        cells = known.get(column.name, [None] * len(filled))
        gaps = [row for row, cell in enumerate(cells) if cell is None]
        bits = filled[gaps, column.start : column.stop]
        for row, value in zip(gaps, _values(column, bits, strategy), strict=True):
            cells[row] = value
        columns[column.name] = cells
        n_gaps += len(gaps)
    return columns, n_gaps


def _fill(model: Model, rows: FloatArray, strategy: Strategy, seed: int) -> FloatArray:
    """All variables of every row: bits, or of means the probability of 1."""
    from strudel.queries.moments import marginal_probabilities
    from strudel.queries.most_probable import most_probable_state
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
        filled[with_gaps] = sample_conditional(model, part, 1, rng=seed)[:, 0]
    return filled


def _values(column: Column, bits: FloatArray, strategy: Strategy) -> list[Any]:
    """The values of a column, from its variables."""
    from strudel.data.table_frames import as_date
    from strudel.models.filled_table import value_shares

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
