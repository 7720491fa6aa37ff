"""What commands read and write: models, tables, what is given; paths that destroy nothing.

In:  what was typed.
Out: models and frames of the library; files that are refused before the work, and complete or not
     there at all.
"""

from __future__ import annotations

import datetime
import os
import sys
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from strudel._files import complete_file
from strudel._names import did_you_mean
from strudel.cli.console import InputError, advice_of, note, option
from strudel.errors import EventSyntaxError

SPLITS = ("train", "valid", "test")
FORMULA_FILES = (".cnf", ".dnf", ".nnf", ".sdd")
WRITABLE = (".csv", ".tsv", ".parquet")


# Arguments. A shell completes files on its own where nothing else is offered


def complete_data(incomplete: str) -> list[str]:
    """Datasets by name."""
    from strudel.data import dataset_names
    from strudel.tables.columns import EXAMPLE

    return complete_from((*dataset_names(), EXAMPLE))(incomplete)


def complete_from(values: Iterable[str]) -> Callable[[str], list[str]]:
    """A function that offers a few values."""
    offered = list(values)
    return lambda incomplete: [value for value in offered if value.startswith(incomplete)]


ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A .strudel file, as `strudel fit` writes it.")
]
DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A table, a dataset (its test rows), NAME:train or NAME:valid, or - for stdin.",
        autocompletion=complete_data,
    ),
]
ForceOption = Annotated[
    bool, option("Read a model file that was changed after it was saved.", None, "--force")
]
OUTPUT = ("--output", "-o")
RowsOutput = Annotated[
    Path | None,
    option("Write a csv, tsv or parquet file instead of stdout.", None, *OUTPUT, panel="Output"),
]
GivenOption = Annotated[
    str | None,
    option(
        "What is known, as in 'sex=f, age>=30' or 'x1=1 or x2=0'; or a table with some columns.",
        "TEXT|TABLE",
        "--given",
    ),
]


# Models


def read_any(path: Path, force: bool = False, **options: Any) -> Any:
    """What is in a model file, or in a file of another program."""
    from strudel.io import read

    if is_of_others(path) and path.is_file():
        return read(path, **options)
    return read_file(path, force)


def read_file(path: Path, force: bool = False) -> Any:
    """The circuit or fitted estimator in a file."""
    from strudel.io import load

    return load(_checked(path), verify=not force)


def read_held(path: Path, force: bool = False) -> Any:
    """What a model file holds, without an estimator around it, which takes longer to load."""
    from strudel.io.model_file import load_held_model

    return load_held_model(_checked(path), verify=not force)


def read_model(path: Path, force: bool = False) -> Any:
    """The circuit in a model file, which the queries ask."""
    return read_held(path, force).model


def _checked(path: Path) -> Path:
    if not path.exists():
        raise InputError(f"there is no model file {str(path)!r}. `strudel fit` writes one.")
    if path.is_dir():
        raise InputError(f"{str(path)!r} is a folder, not a model file.")
    return path


def is_of_others(path: Path) -> bool:
    """Whether a file has the ending of another program's format."""
    from strudel.io.formats.text import bare_suffix
    from strudel.io.read_write import FORMATS

    return bare_suffix(path) in FORMATS


def columns_of(model: Any) -> Any:
    """The columns of a model."""
    from strudel.queries.given import circuit_of

    return circuit_of(model).columns


# Tables that are read


def read_rows(source: str, split: str = "test") -> Any:
    """A frame of a file, of stdin, or of one part of a dataset: ``nltcs`` or ``nltcs:train``."""
    from strudel.io import read_table

    name, _, named = source.rpartition(":")
    if named in SPLITS and not Path(source).exists():
        source, split = name, named
    frame = read_table(source, split=split)
    for name, column in frame.select_dtypes("floating").items():
        n_infinite = int(column.abs().eq(float("inf")).sum())
        if n_infinite:
            note(
                f"note: column {name!r} of {source} is infinite in {n_infinite:,} of "
                f"{len(frame):,} rows, which are counted in its first or last cell"
            )
    return frame


def read_parts(source: str) -> dict[str, Any]:
    """Train, valid and test rows of a dataset, also of a packed one; of any other table, train."""
    import numpy as np

    from strudel.data import dataset_names
    from strudel.data.datasets import ALIASES

    train = read_rows(source, "train")
    is_dataset = source in (*dataset_names(), *ALIASES) and not Path(source).is_file()
    if not is_dataset and not (source.endswith(".npz") and "n_vars" in np.load(source)):
        return {"train": train}
    return {"train": train} | {part: read_rows(source, part) for part in SPLITS[1:]}


def has_names(table: Any) -> bool:
    """Whether the columns of a frame have names, and not numbers."""
    return all(isinstance(name, str) for name in table.columns)


def cells_of(table: Any) -> dict[Any, list[Any]]:
    """Cells by column, None where one is missing."""
    return {
        name: column.astype(object).where(column.notna(), None).tolist()
        for name, column in table.items()
    }


def as_plain(value: Any) -> Any:
    """A number, or a date or duration as text, to the second."""
    value = value.item() if hasattr(value, "dtype") else value
    value = value.to_pytimedelta() if hasattr(value, "to_pytimedelta") else value
    if isinstance(value, datetime.date | datetime.timedelta):
        return str(value).partition(".")[0].removesuffix(" 00:00:00")
    return value


# What is asked and what is given


def read_meant(text: str, known: Iterable[str]) -> str:
    """The question or the picture that is meant, in the singular or in the plural."""
    known = list(known)
    for name in known:
        if _singular(text) == _singular(name):
            return name
    raise InputError(f"WHAT is {text!r}, which is not known. {did_you_mean(text, known)}")


def _singular(word: str) -> str:
    word = word.lower()
    return f"{word[:-3]}y" if word.endswith("ies") else word.removesuffix("s")


def read_names(model: Any, text: str | None, asked: str) -> list[str] | None:
    """Names from ``x1,x2``, each once and known to the model; None if the option was not used."""
    if text is None:
        return None
    known = columns_of(model).names
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InputError(f"{asked} must name at least one variable.")
    for name in names:
        if name not in known:
            close = did_you_mean(name, known)
            raise InputError(f"{asked} names {name!r}, which the model does not have. {close}")
        if names.count(name) > 1:
            raise InputError(f"{asked} names {name!r} twice.")
    return names


def read_said(model: Any, text: str, asked: str) -> str:
    """A text that says something about columns, if it can be read."""
    from strudel.logic.terms import said_event

    try:
        said_event(text, columns_of(model))
    except EventSyntaxError as error:
        raise InputError(
            f"{asked} cannot be read at character {error.position + 1}, {error.reason} "
            f"{advice_of(error)}".rstrip()
        ) from None
    return text


def read_formula(text: str) -> Any:
    """An event as text, or that of a file."""
    from strudel.io import read

    if Path(text.removesuffix(".gz")).suffix not in FORMULA_FILES:
        return text
    if not Path(text).is_file():
        raise InputError(f"there is no file {text!r}.")
    return read(text)


def read_given(model: Any, text: str | None, asked: str = "--given") -> list[Any]:
    """What is given: nothing, a text, or the known values of every row of a table."""
    from strudel.data.validation import check_shared_names

    if text is None:
        return [None]
    names = columns_of(model).names
    if not is_table(text, model):
        return [read_said(model, text, asked)]
    table = read_rows(text)
    if has_names(table):
        check_shared_names(table.columns, names, text, may_be_few=True)
    elif len(table.columns) != len(names):
        raise InputError(
            f"{text} has {len(table.columns)} columns without names, but the model has "
            f"{len(names)}."
        )
    else:
        table.columns = list(names)
    cells = cells_of(table[[name for name in table if name in names]])
    return [
        {name: cell for name, cell in zip(cells, row, strict=True) if cell is not None}
        for row in zip(*cells.values(), strict=True)
    ]


def is_table(text: str, model: Any) -> bool:
    """Whether this names a table, and does not say something about columns."""
    if Path(text).exists() or text == "-":
        return True
    is_said = any(sign in text for sign in ("=", "<", ">", "&", "|", "~", "!", "(", " in "))
    return not is_said and text not in columns_of(model).names


# Files that are written


def check_output(path: Path, what: str, inputs: Iterable[Any], ending: str) -> Path:
    """The path, if writing there destroys nothing but an older file of the same ending."""
    problem = ""
    if path.is_dir():
        problem = "it is a folder"
    elif not path.parent.is_dir():
        problem = "its folder does not exist"
    elif not os.access(path.parent, os.W_OK):
        problem = "its folder is read-only"
    if problem:
        raise InputError(f"cannot write {what} to {str(path)!r}: {problem}.")
    # However they are written, and through whatever links.
    if any(source and os.path.realpath(source) == os.path.realpath(path) for source in inputs):
        raise InputError(f"{what} would overwrite an input, {str(path)!r}.")
    if any(path.exists() and Path(one).exists() and path.samefile(one) for one in inputs if one):
        raise InputError(f"{what} would overwrite an input, {str(path)!r}.")
    if path.is_file() and path.suffix != ending:
        raise InputError(
            f"{str(path)!r} exists and is not a {ending} file. "
            "Give -o another name, or remove it first."
        )
    return path


def check_model_output(path: Path, inputs: Iterable[Any]) -> None:
    """Refuse a path where no model can be written, or another ending."""
    check_output(path, "the model", inputs, ".strudel")
    if is_of_others(path):
        raise InputError(
            f"a model is written to a .strudel file, not to {str(path)!r}. `strudel convert` then "
            f"makes a {path.suffix} file from it."
        )
    if path.suffix != ".strudel" and not is_device(path):
        raise InputError(f"a model is a .strudel file, but -o says {str(path)!r}.")


def check_table_output(path: Path | None, what: str, *inputs: Any) -> None:
    """Refuse a path where no table can be written; none is stdout."""
    if path is None:
        return
    if path.suffix not in WRITABLE and not path.is_dir() and not is_device(path):
        raise InputError(
            f"a table is a {', '.join(WRITABLE[:-1])} or {WRITABLE[-1]} file, "
            f"but -o says {str(path)!r}."
        )
    if path.suffix == ".parquet" and not find_spec("pyarrow"):
        raise InputError(
            f"{str(path)!r} needs pyarrow: pip install 'strudel-pc[frames]', or give -o a .csv "
            "file."
        )
    check_output(path, what, inputs, path.suffix)


def is_device(path: Path) -> bool:
    """Whether this is a device or a pipe, which has no ending."""
    return path.exists() and not path.is_file()


def as_frame(table: Any, names: Iterable[Any] = ()) -> Any:
    """A frame of pandas, from one of any kind, or from an array and the names of its columns."""
    import pandas as pd

    if hasattr(table, "columns"):
        import narwhals as nw

        return nw.from_native(table, eager_only=True).to_pandas()
    return pd.DataFrame(table, columns=list(names) if hasattr(table, "shape") else None)


def write_text(path: Path, text: str) -> None:
    """Write text, complete or not at all."""
    with complete_file(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def write_rows(path: Path | None, table: Any, names: Iterable[Any] = ()) -> None:
    """A table as parquet, tsv or csv, by the ending of the path; as csv to stdout."""
    frame = as_frame(table, names)
    if path is None:
        frame.to_csv(sys.stdout, index=False, lineterminator="\n")
        return
    with complete_file(path) as unfinished:
        if path.suffix == ".parquet":
            frame.to_parquet(unfinished, index=False)
        else:
            separator = "\t" if path.suffix == ".tsv" else ","
            frame.to_csv(unfinished, index=False, sep=separator, lineterminator="\n")
