"""Commands that answer row by row, for a table or for a partitioned one, partition by partition.

In:  what was typed for DATA, and a function of a table or of a partition.
Out: the columns that it gives, in a file; of a partitioned table, in a folder of parquet files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from strudel._files import remove_abandoned, unfinished_beside
from strudel.cli.advice_in_options import in_options
from strudel.cli.cluster import use_workers
from strudel.cli.console import InputError, kept_notes, note
from strudel.cli.input_tables import read_frame_rows, read_rows
from strudel.cli.outputs import write_table
from strudel.cli.partitioned_files import (
    ROWS_OF_A_PARTITION,
    check_same_columns,
    folder_columns,
    is_partitioned,
    is_zarr,
    open_zarr,
    parquet_files,
)
from strudel.cli.progress import LiveLine
from strudel.errors import FileFormatError, StrudelError

if TYPE_CHECKING:
    from strudel.io.read_tables import Table
    from strudel.tables.columns import RawTable

CELLS_OF_A_PARTITION = 2**24  # at most, of a zarr folder with smaller blocks
MOST_NOTES = 8

Columns: TypeAlias = dict[str, list[Any]]


class Partition(NamedTuple):
    """Some rows of a table: a parquet file, or blocks of a zarr folder."""

    source: str
    is_zarr: bool
    number: int
    first: int  # number of its first row in the whole table
    n_rows: int

    @property
    def output_name(self) -> str:
        """The file for its answers; in the order of the alphabet, as files are read."""
        return f"part.{self.number:05d}.parquet"


def answers_by_partition(data: str, workers: int | None, scheduler: str | None) -> bool:
    """Whether to answer by partition; on workers a single parquet file is a partition also."""
    if is_partitioned(data):
        return True
    if workers is None and scheduler is None:
        return False
    path = Path(data).expanduser()
    if not path.is_file():
        raise InputError(f"there is no file, folder or pattern {data!r}.")
    if path.suffix != ".parquet":
        raise InputError(
            f"--workers and --scheduler go with a partitioned table, but {data!r} is not: give "
            "parquet files or a zarr folder."
        )
    return True


def answer_rows(
    answer: Callable[..., tuple[Columns, Any]],
    data: str,
    *args: Any,
    by_partition: bool,
    output: Path | None,
    workers: int | None,
    scheduler: str | None,
    is_quiet: bool = False,
    has_draws: bool = False,
) -> tuple[Columns, list[Any]]:
    """The columns of `answer(data, *args)`, and a list of what else it gives.

    Columns are written to the output, if there is one. A partitioned table gets an answer for every
    partition that has rows, and no columns come back. Answers with draws get the same partitions
    for any number of workers.
    """
    if not by_partition:
        columns, facts = answer(data, *args)
        if output is not None:
            write_table(output, columns)
        return columns, [facts]
    from strudel.learning.partitioned.engines import find_engine

    # The workers end first, so that nobody writes to a folder that is taken away.
    with _new_folder(output) as folder, use_workers(workers, scheduler, is_quiet) as n_workers:
        parts = list_partitions(data, 0 if has_draws else n_workers)
        with _PartitionProgress(len(parts), is_quiet) as progress:
            found = _all_answers(find_engine(), parts, (folder, answer, *args), progress)
    _tell([line.replace(part.source, data) for part, (_, notes) in found for line in notes])
    return {}, [facts for _, (facts, _) in found]


def _all_answers(
    engine: Any, parts: Sequence[Partition], args: Sequence[Any], progress: _PartitionProgress
) -> list[tuple[Partition, Any]]:
    """Every partition with its answer and notes: here one after the other, or on the workers."""
    if not hasattr(engine, "client"):
        found = []
        for part in parts:
            found.append((part, _answer(part, *args)))
            progress.update(len(found))
        return found
    from distributed import as_completed

    futures = engine.place(_answer, parts, *args)
    try:
        for n_done, future in enumerate(as_completed(futures), 1):
            future.result()  # raises what was raised there
            progress.update(n_done)
        return [(part, future.result()) for part, future in zip(parts, futures, strict=True)]
    except BaseException:
        engine.client.cancel(futures)
        raise


def _answer(
    part: Partition, folder: Path | None, answer: Callable[..., tuple[Columns, Any]], *args: Any
) -> tuple[Any, list[str]]:
    """What is said of one partition beside its columns, and what there is to note."""
    with kept_notes() as notes:
        try:
            columns, facts = answer(part, *args)
            if folder is not None:
                write_table(folder / part.output_name, columns)
            return facts, notes
        except (InputError, FileFormatError):  # which name the file
            raise
        except (StrudelError, ValueError) as error:
            where = f"{part.source}, rows from {part.first} on" if part.is_zarr else part.source
            raise InputError(f"{where}: {in_options(error)}") from None


def _tell(notes: list[str]) -> None:
    """What was noted of several partitions, once."""
    different = list(dict.fromkeys(notes))
    for line in different[:MOST_NOTES]:
        note(line)
    if len(different) > MOST_NOTES:
        note(
            f"note: {len(different) - MOST_NOTES} more such lines of other partitions are left out"
        )


def list_partitions(data: str, n_workers: int = 0) -> list[Partition]:
    """The partitions of a table that have rows, with absolute paths; only sizes and names are read.

    Those of a zarr folder are whole blocks, about a share for every worker.
    """
    path = Path(data).expanduser()
    in_zarr = is_zarr(path)
    if in_zarr:
        array, source = open_zarr(path), os.path.abspath(path)
        n_rows, block = array.shape[0], array.chunks[0]
        most = min(ROWS_OF_A_PARTITION, CELLS_OF_A_PARTITION // max(1, array.shape[1]))
        share = min(most, -(-n_rows // max(1, n_workers)))
        step = block * max(1, -(-share // block))
        sizes = [(source, min(step, n_rows - first)) for first in range(0, n_rows, step)]
    else:
        files = parquet_files(path, data)
        check_same_columns(files, data)
        in_names = folder_columns(files[0])
        if in_names:
            raise InputError(
                f"{data}: the column {min(in_names)!r} is only in the names of folders. Write it "
                "into the files, or ask in Python, where every query takes a Dask frame."
            )
        from pyarrow.parquet import read_metadata

        sizes = [(file, read_metadata(file).num_rows) for file in files]
    parts: list[Partition] = []
    first = 0
    for source, n_rows in sizes:
        if n_rows:
            parts.append(Partition(source, in_zarr, len(parts), first, n_rows))
        first += n_rows
    if not parts:
        raise FileFormatError(f"{data} has no rows.")
    return parts


def read_bits(data: str | Partition) -> Table:
    """The rows of one partition, or of a whole table, as 0, 1 and NaN."""
    from strudel.io.read_tables import table_of_cells

    if isinstance(data, str):
        return read_rows(data)
    if data.is_zarr:
        return table_of_cells(_zarr_rows(data), None, data.source)
    return read_rows(data.source)


def read_cells(data: str | Partition) -> tuple[RawTable, str]:
    """The rows of one partition, or of a whole table, of any types; and what to call it."""
    from strudel.io.frames import as_raw_table

    if isinstance(data, str):
        return read_frame_rows(data)
    if data.is_zarr:
        return as_raw_table(_zarr_rows(data), data.source), data.source
    return read_frame_rows(data.source)


def _zarr_rows(part: Partition) -> Any:
    return open_zarr(Path(part.source))[part.first : part.first + part.n_rows]


@contextmanager
def _new_folder(path: Path | None) -> Iterator[Path | None]:
    """A folder that gets its name when all is written, so that no half table is left."""
    if path is None:
        yield None
        return
    final = Path(os.path.abspath(path))
    remove_abandoned(final)
    with unfinished_beside(final, is_folder=True) as unfinished:
        yield unfinished
        for left in unfinished.glob(".*.tmp"):  # by a worker that died
            left.unlink()
        if os.path.lexists(final):
            raise InputError(f"{str(path)!r} was created meanwhile: give -o another name.")
        unfinished.rename(final)


class _PartitionProgress(LiveLine):
    """A bar of partitions, and the time that is left."""

    def __init__(self, n_partitions: int, is_quiet: bool) -> None:
        super().__init__(is_quiet)
        self.n_partitions = n_partitions

    def _look(self) -> tuple[list[Any], dict[str, Any]]:
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeRemainingColumn

        counts = TextColumn("{task.completed:.0f}/{task.total:.0f} partitions")
        columns = [SpinnerColumn(), BarColumn(bar_width=24), counts, TimeRemainingColumn()]
        return columns, {"description": "", "total": self.n_partitions}

    def update(self, n_done: int) -> None:
        """Show how many partitions are done."""
        if self._is_due():
            self._show(completed=n_done)
