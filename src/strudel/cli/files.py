"""What commands read and write: models, tables, what is given; paths that destroy nothing.

In:  what was typed.
Out: models and frames of the library; files that are refused before the work, and complete or not
     there at all.
"""

from __future__ import annotations

import datetime
import os
import re
import sys
from collections.abc import Collection, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from strudel._files import complete_file
from strudel._names import did_you_mean
from strudel.cli.console import InputError, note, option, print_json

TABLES = (".csv", ".tsv", ".parquet")  # that are written


def complete_data() -> list[str]:
    """Datasets by name, for a shell, which completes files on its own."""
    from strudel.data import dataset_names
    from strudel.tables.columns import EXAMPLE

    return [*dataset_names(), EXAMPLE]


ModelArgument = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="A .strudel file, as `strudel fit` writes it, or one of another program: .psdd ...",
    ),
]
DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A table, a dataset (its test rows), NAME:train or NAME:valid, or - for stdin.",
        autocompletion=complete_data,
    ),
]
OUTPUT = ("--output", "-o")
ROWS = option(
    "Write a csv, tsv or parquet file instead of stdout.", None, *OUTPUT, rich_help_panel="Output"
)
GIVEN = option(
    "What is known, as in 'sex=f, age>=30' or 'x1=1 or x2=0'; or a table with some columns.",
    "TEXT|TABLE",
    "--given",
)


def read_any(path: Path, force: bool = False, **options: Any) -> Any:
    """The circuit or fitted estimator in a model file, or what is in one of another program."""
    from strudel.io import load, read

    return read(path, **options) if is_of_others(path) else load(path, verify=not force)


def read_held(path: Path) -> Any:
    """What a file holds, without an estimator around it, which takes longer to load."""
    from strudel.io.model_file import load_held_model
    from strudel.io.states import HeldModel

    if not is_of_others(path):
        return load_held_model(path)
    model = read_any(path)
    return HeldModel(type(model).__name__, model, {}, None)


def read_model(path: Path) -> Any:
    """The circuit in a file, which the queries ask."""
    return as_model(read_held(path).model)


def as_model(held: Any) -> Any:
    """A circuit or fitted estimator as it is; a tree or formula as a circuit."""
    from strudel.circuits.circuit import Circuit
    from strudel.io.read_write import as_kind

    return as_kind(held, Circuit)[0]


def is_of_others(path: Path) -> bool:
    """Whether a file has the ending of another program's format."""
    from strudel.io.formats.text import bare_suffix
    from strudel.io.read_write import FORMATS

    return bare_suffix(path) in FORMATS


def columns_of(model: Any) -> Any:
    """The columns of a model."""
    from strudel.queries.given import circuit_of

    return circuit_of(model).columns


def read_rows(source: str, split: str = "test") -> Any:
    """A frame of a file, of stdin, or of one part of a dataset."""
    from strudel.io import read_table

    return read_table(source, split=split)


def has_names(table: Any) -> bool:
    """Whether the columns of a frame have names, and not numbers."""
    return all(isinstance(name, str) for name in table.columns)


def cells_of(table: Any) -> dict[Any, list[Any]]:
    """Cells by column, None where one is missing."""
    return {
        name: column.astype(object).where(column.notna(), None).tolist()
        for name, column in table.items()
    }


def rows_of(table: Any, names: Iterable[Any] | None = None) -> list[dict[Any, Any]]:
    """The rows of a frame, or of an array and the names of its columns, as dicts."""
    cells = cells_of(as_frame(table, names))
    return [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]


def as_plain(value: Any) -> Any:
    """A number, or a date or duration as text, to the second."""
    value = value.item() if hasattr(value, "dtype") else value
    value = value.to_pytimedelta() if hasattr(value, "to_pytimedelta") else value
    if isinstance(value, datetime.date | datetime.timedelta):
        return str(value).partition(".")[0].removesuffix(" 00:00:00")
    return value


def read_meant(text: str, known: Iterable[str]) -> str:
    """The question or the picture that is meant, in the singular or in the plural."""
    for name in known:
        if _singular(text) == _singular(name):
            return name
    raise InputError(f"WHAT is {text!r}, which is not known. {did_you_mean(text, known)}")


def _singular(word: str) -> str:
    return word.lower().replace("ies", "y").removesuffix("s")


def options_of(what: str, takes: Mapping[str, Collection[str]], typed: Mapping[str, Any]) -> Any:
    """The options of a question or a picture, out of all that were typed; no others may be."""
    options = {}
    for name, value in typed.items():
        owners = [other for other, names in takes.items() if name in names]
        if owners and value not in (None, [], ()):
            if what not in owners:
                raise InputError(f"{flag(name)} goes with {', '.join(owners)}, not with {what}.")
            options[name] = value
    return options


def flag(name: str) -> str:
    """An option as it is typed; a word behind the question as the help calls it."""
    short = {"k": "-k", "text": "TEXT", "other": "OTHER"}
    return short.get(name, f"--{name.replace('_', '-')}")


def read_names(model: Any, text: str, asked: str) -> list[str]:
    """Names from ``x1,x2``, each once and known to the model."""
    from strudel.queries.given import find_columns

    names = [name.strip() for name in text.split(",") if name.strip()]
    find_columns(model, names, asked)
    return names


def read_text(text: str) -> Any:
    """A text as it is, or what is in the file of another program that it names."""
    return read_any(Path(text)) if is_of_others(Path(text)) else text


def read_given(model: Any, text: str | None) -> list[Any]:
    """What is given: nothing, a text, or the known values of every row of a table."""
    from strudel.tables.evidence import evidence_of

    if text is None or not is_table(text, model):
        return [text]
    table, columns = read_rows(text), columns_of(model)
    evidence_of(columns, table, text, may_be_impossible=True)  # says what the table lacks
    if not has_names(table):
        table.columns = list(columns.names)
    rows = rows_of(table[[name for name in table if name in columns.names]])
    return [{name: cell for name, cell in row.items() if cell is not None} for row in rows]


def is_table(text: str, model: Any) -> bool:
    """Whether this names a table, and does not say something about columns."""
    is_said = re.search("[=<>&|~!(]| in ", text) or text in columns_of(model).names
    return os.path.exists(text) or not is_said


def check_output(
    path: Path | None, what: str, endings: tuple[str, ...], *inputs: Any, said: str = "-o"
) -> None:
    """Refuse a path where this cannot be written, or where something else would be lost."""
    if path is None:
        return
    problems = {
        "it is a folder": path.is_dir(),
        "its folder does not exist": not path.parent.is_dir(),
        "its folder is read-only": not os.access(path.parent, os.W_OK),
    }
    for problem in (problem for problem, is_there in problems.items() if is_there):
        raise InputError(f"cannot write {what} to {str(path)!r}: {problem}.")
    for source in filter(None, inputs):  # however it is written, and through whatever links
        if path.exists() and os.path.exists(source) and path.samefile(source):
            raise InputError(f"{what} would overwrite an input, {str(path)!r}.")
    is_device = path.exists() and not path.is_file()  # or a pipe, which has no ending
    if path.suffix not in endings and not is_device:
        words = " or ".join(filter(None, (", ".join(endings[:-1]), endings[-1])))
        raise InputError(f"{what} is a {words} file, but {said} says {str(path)!r}.")
    if path.suffix == ".parquet" and not find_spec("pyarrow"):
        raise InputError(f"{str(path)!r} needs pyarrow: pip install 'strudel-pc[frames]'.")


def as_frame(table: Any, names: Iterable[Any] | None = None) -> Any:
    """A frame as it is; columns by name, or an array and its names, as one."""
    import pandas as pd

    if names is None or hasattr(table, "columns"):
        return pd.DataFrame(table)
    columns = list(names)
    return pd.DataFrame(table.reshape(-1, len(columns)), columns=columns)


def give_rows(
    rows: Any, output: Path | None, as_json: bool, report: dict[str, Any], said: str
) -> None:
    """Write rows where -o says, and say so; or print them, as csv or with a report as JSON."""
    if output is not None:
        write_rows(output, rows)
    elif not as_json:
        rows.to_csv(sys.stdout, index=False, lineterminator="\n")
    if as_json:
        columns = {} if output is not None else {"columns": cells_of(rows)}
        print_json(report | {"output": output} | columns)
    elif output is not None:
        note(f"{said} to {output}")


def write_rows(path: Path, rows: Any) -> None:
    """A frame as parquet, tsv or csv, by the ending of the path."""
    with complete_file(path) as unfinished:
        if path.suffix == ".parquet":
            rows.to_parquet(unfinished, index=False)
        else:
            separator = "\t" if path.suffix == ".tsv" else ","
            rows.to_csv(unfinished, index=False, sep=separator, lineterminator="\n")
