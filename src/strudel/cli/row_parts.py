"""Tables in parts for commands that answer row by row: every part is a table of its own.

In:  what was typed for DATA, and a function of one part.
Out: what it gives for every part, and a folder with one parquet file per part.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from strudel.cli.cluster import use_workers
from strudel.cli.console import InputError, without_notes
from strudel.cli.lazy_tables import (
    ROWS_OF_A_PART,
    check_same_columns,
    is_in_parts,
    is_zarr,
    open_zarr,
    parquet_files,
)
from strudel.cli.outputs import check_folder_output
from strudel.cli.progress import LiveLine, line_of
from strudel.cli.sources import read_frame_rows, read_rows
from strudel.errors import FileFormatError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from strudel.data.table_columns import RawTable
    from strudel.io.tables import Table


class RowPart(NamedTuple):
    """Some rows of a table, in a parquet file of their own or in a zarr folder."""

    source: str
    number: int
    first: int  # number of its first row in the whole table
    n_rows: int

    @property
    def output_name(self) -> str:
        """The file in which its answers lie."""
        return f"part.{self.number}.parquet"


def comes_in_parts(data: str, workers: int | None, scheduler: str | None) -> bool:
    """Whether to answer part by part; on workers a single parquet file is a part, too."""
    if is_in_parts(data):
        return True
    if workers is None and scheduler is None:
        return False
    if not data.endswith(".parquet"):
        raise InputError(
            f"--workers and --scheduler go with a table in parts, but {data!r} is not: give "
            "parquet files or a zarr folder."
        )
    return True


def answer_parts(
    answer: Callable[..., Any],
    data: str,
    *args: Any,
    output: Path | None,
    workers: int | None,
    scheduler: str | None,
    is_quiet: bool = False,
) -> list[Any]:
    """What `answer(part, folder, *args)` gives for every part that has rows.

    It writes to the folder what it has to write, if one is wanted.
    """
    from strudel.scale.engines import Here, find_engine

    with use_workers(workers, scheduler, is_quiet) as n_workers, _new_folder(output) as folder:
        parts = list_parts(data, n_workers)
        engine = find_engine()
        if not isinstance(engine, Here):
            return engine.each(_answer, parts, answer, folder, *args)
        answers = []
        with _PartProgress(len(parts), is_quiet) as progress:
            for part in parts:
                answers.append(_answer(part, answer, folder, *args))
                progress.update(len(answers))
        return answers


def _answer(part: RowPart, answer: Callable[..., Any], *args: Any) -> Any:
    """What is noted of the columns holds for all parts, and is said of the first."""
    with without_notes(part.number > 0):
        return answer(part, *args)


def list_parts(data: str, n_workers: int = 0) -> list[RowPart]:
    """The parts of a table that have rows, with absolute paths; only sizes and names are read.

    Those of a zarr folder are whole blocks, about a share for every worker.
    """
    path = Path(data).expanduser()
    if is_zarr(path):
        array, source = open_zarr(path), os.path.abspath(path)
        n_rows, block = array.shape[0], array.chunks[0]
        share = min(ROWS_OF_A_PART, -(-n_rows // max(1, n_workers)))
        step = block * max(1, -(-share // block))
        sizes = [(source, min(step, n_rows - first)) for first in range(0, n_rows, step)]
    else:
        from pyarrow import parquet

        files = parquet_files(path, data)
        check_same_columns(files, data)
        sizes = [(file, parquet.read_metadata(file).num_rows) for file in files]
    parts: list[RowPart] = []
    first = 0
    for source, n_rows in sizes:
        if n_rows:
            parts.append(RowPart(source, len(parts), first, n_rows))
        first += n_rows
    if not parts:
        raise FileFormatError(f"{data} has no rows.")
    return parts


def read_part(part: RowPart) -> Table:
    """The rows of one part, as 0, 1 and NaN."""
    from strudel.io.tables import as_table

    if part.source.endswith(".parquet"):
        return read_rows(part.source)
    rows = open_zarr(Path(part.source))[part.first : part.first + part.n_rows]
    return as_table(rows, None, f"{part.source} from row {part.first} on")


def read_frame_part(part: RowPart) -> tuple[RawTable, str]:
    """The rows of one part, of any types, and what to call it."""
    if not part.source.endswith(".parquet"):
        raise InputError(
            f"the model has columns with names, and {part.source} has none: give parquet files."
        )
    return read_frame_rows(part.source)


@contextmanager
def _new_folder(path: Path | None) -> Iterator[Path | None]:
    """A folder that gets its name when all is written, so that no half table is left."""
    if path is None:
        yield None
        return
    final = Path(os.path.abspath(path))
    unfinished = final.with_name(f".{final.name}.{secrets.token_hex(4)}.tmp")
    unfinished.mkdir()
    try:
        yield unfinished
        check_folder_output(path, "the values")  # nobody made it meanwhile
        unfinished.rename(final)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


class _PartProgress(LiveLine):
    """A bar of parts, and the time that is left."""

    def __init__(self, n_parts: int, is_quiet: bool) -> None:
        super().__init__(is_quiet)
        self.n_parts = n_parts

    def _make(self) -> Progress:
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeRemainingColumn

        return line_of(
            SpinnerColumn(),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:.0f}/{task.total:.0f} parts"),
            TimeRemainingColumn(),
        )

    def _first_task(self, progress: Progress) -> TaskID:
        return progress.add_task("", total=self.n_parts)

    def update(self, n_done: int) -> None:
        """Show how many parts are done."""
        if self._is_due():
            self._show(completed=n_done)
