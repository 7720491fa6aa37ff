"""`strudel impute`: a table with its gaps filled."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from strudel.cli.cluster import SchedulerOption, WorkersOption
from strudel.cli.console import JsonOption, note, print_json, warnings_as_notes
from strudel.cli.evidence import variable_names
from strudel.cli.input_tables import match_columns
from strudel.cli.model_files import ForceOption, ModelArgument, read_file
from strudel.cli.outputs import RowsOutput, check_rows_output, write_columns
from strudel.cli.partitions import (
    Columns,
    Partition,
    answer_rows,
    answers_by_partition,
    read_bits,
    read_cells,
)
from strudel.cli.shell_completion import complete_data
from strudel.cli.table_columns import cells_of, model_columns, of_one_type
from strudel.data.validation import check_shared_names
from strudel.errors import NotBinaryFileError

if TYPE_CHECKING:
    from strudel._types import FloatArray
    from strudel.io.read_tables import Table
    from strudel.queries.model import Model
    from strudel.tables.columns import RawTable


class Strategy(StrEnum):
    """What to fill in."""

    auto = "auto"
    map = "map"
    mean = "mean"
    sample = "sample"


def impute(
    model: ModelArgument,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A table with gaps (empty, ?, NA), or - for stdin; partitioned: "
            "'visits/*.parquet' in quotes, a folder of parquet files, or a zarr folder.",
            autocompletion=complete_data,
        ),
    ],
    output: RowsOutput = None,
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
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Fill the gaps of a table; known values, and columns that the model does not know, stay.

    The mean of a 0/1 column is the probability of 1, that of numbers and dates their mean; other
    columns get their most probable value. A classifier fills its inputs and its class. Values that
    are missing by a rule of the table that was learned from, as pregnancies of men, stay empty.
    """
    from strudel.models.classifier import StrudelClassifier
    from strudel.queries.model import model_of

    by_partition = answers_by_partition(data, workers, scheduler)
    check_rows_output(output, "the rows", model, data, by_partition)
    held = read_file(model, force)
    has_class = isinstance(held, StrudelClassifier)
    columns, found = answer_rows(
        _impute,
        data,
        held.joint_mixture() if has_class else model_of(held),
        has_class,
        strategy,
        fill_structural,
        seed,
        by_partition=by_partition,
        output=output,
        workers=workers,
        scheduler=scheduler,
        is_quiet=as_json,
        has_draws=strategy is Strategy.sample,
    )
    if output is None and not as_json:
        write_columns(columns, sys.stdout)
    n_rows, n_gaps = (sum(count) for count in zip(*found, strict=True))
    report: dict[str, Any] = {"n_rows": n_rows, "n_filled": n_gaps, "output": output}
    if as_json:
        print_json(report | ({} if output is not None else {"columns": columns}))
    elif output is not None:
        note(f"filled {n_gaps:,} gaps in {n_rows:,} rows and wrote them to {output}")


def _impute(
    data: str | Partition,
    model: Model,
    has_class: bool,
    strategy: Strategy,
    fill_structural: bool,
    seed: int,
) -> tuple[Columns, tuple[int, int]]:
    """The table without gaps, and the numbers of its rows and gaps.

    All partitions have the same types, whatever their own gaps are.
    """
    from strudel.models.imputer import StrudelImputer

    random_state = np.random.RandomState([seed] if isinstance(data, str) else [seed, data.first])
    imputer = StrudelImputer(
        model,
        strategy=strategy.value,
        fill_structural=fill_structural,
        random_state=random_state,
    )
    is_part, has_means = not isinstance(data, str), strategy is Strategy.mean
    code = model.table_code
    if code is None:
        table, own = _read_zero_one(data, model)
        values = imputer.fit_transform(table.X.astype(np.float64)).T
        is_float = is_part and has_means
        lists = (row.tolist() if is_float else _whole_if_all_are(row) for row in values)
        columns = dict(zip(variable_names(model), lists, strict=True))
        return _in_places(columns, own), (len(table.X), int(np.isnan(table.X).sum()))
    read, source = read_cells(data)
    raw = model_columns(code, read, source, keeps_others=True)
    if has_class and not raw.has_names and len(raw.columns) == len(code.columns) - 1:
        raw = raw.select([*raw.names, code.names[-1]])  # the class, of which nothing is known
    with warnings_as_notes():
        filled = imputer.fit_transform(raw)
    columns = {
        column.name: of_one_type(column, cells_of(own), has_means) if is_part else cells_of(own)
        for column, own in zip(code.columns, filled.columns, strict=True)
    }
    n_gaps = sum(
        int(column.is_missing().sum() - own.is_missing().sum())
        for column, own in zip(raw.columns, filled.columns, strict=True)
    )
    own = _cells_beside(read, code.names) if read.has_names else {}
    return _in_places(columns, own), (raw.n_rows, n_gaps)


def _read_zero_one(data: str | Partition, model: Model) -> tuple[Table, Columns]:
    """The columns of a model of 0/1 variables, and the table's own, which may be of any type."""
    from strudel.io.read_tables import Table
    from strudel.tables.table_code import code_of_bits

    names = model.feature_names
    try:
        table = read_bits(data)
    except NotBinaryFileError:
        if names is None or data == "-":  # which can be read only once
            raise
        raw, source = read_cells(data)
        check_shared_names(raw.names, names, source, keeps_others=True)
        if set(raw.names) <= set(names):
            raise
        bits = code_of_bits(names, "numpy").encode_columns(raw.select(names).columns, source)
        return Table(bits, names, source), _cells_beside(raw, names)
    given = table.feature_names
    if names is None or given is None:
        return match_columns(table, model.n_vars, names, "the model"), {}
    own: Columns = {name: [] for name in given}
    for place, name in enumerate(given):
        if name not in names:
            cells = table.X[:, place].tolist()
            own[name] = [None if math.isnan(cell) else int(cell) for cell in cells]
    return match_columns(table, model.n_vars, names, "the model", keeps_others=True), own


def _cells_beside(table: RawTable, names: Sequence[str]) -> Columns:
    """The names of a table, with the cells of columns that have none of these names."""
    known = set(names)
    return {
        column.name: [] if column.name in known else cells_of(column) for column in table.columns
    }


def _in_places(columns: Columns, own: Columns) -> Columns:
    """Filled columns where the table has them, beside its own; those that it lacks come last."""
    return {name: columns.get(name, cells) for name, cells in own.items()} | columns


def _whole_if_all_are(values: FloatArray) -> list[Any]:
    return values.astype(int).tolist() if np.all(values == np.round(values)) else values.tolist()
