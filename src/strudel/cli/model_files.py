"""Model files as the commands take them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strudel.cli.console import InputError
from strudel.cli.shell_completion import complete_model

if TYPE_CHECKING:
    from strudel.io.model_states import HeldModel
    from strudel.queries.model import Model

ModelArgument = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="A .strudel file, as `strudel fit` writes it.",
        autocompletion=complete_model,
    ),
]

ForceOption = Annotated[
    bool,
    typer.Option("--force", help="Read a model file that was changed after it was saved."),
]


def read_file(path: Path, force: bool = False) -> Any:
    """The circuit, mixture or fitted estimator in a file."""
    from strudel.io.model_file import load

    return load(_checked(path), verify=not force)


def read_held(path: Path, force: bool = False) -> HeldModel:
    """What a file holds, without the estimator around it, which takes longer to load."""
    from strudel.io.model_file import load_held_model

    return load_held_model(_checked(path), verify=not force)


def read_any(path: Path, force: bool = False) -> Any:
    """What is in a model file, or in a file of another program."""
    from strudel.io.formats.text import bare_suffix
    from strudel.io.read_write import FORMATS, read

    if bare_suffix(path) in FORMATS and path.is_file():
        return read(path)
    return read_file(path, force)


def read_model(path: Path, force: bool = False) -> Model:
    """The circuit or mixture in a file."""
    from strudel.queries.model import model_of

    return model_of(read_held(path, force).model)


def _checked(path: Path) -> Path:
    if not path.exists():
        raise InputError(f"there is no model file {str(path)!r}. `strudel fit` writes one.")
    if path.is_dir():
        raise InputError(f"{str(path)!r} is a folder, not a model file.")
    return path
