"""Model files as the commands take them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strudel.cli.console import InputError

if TYPE_CHECKING:
    from strudel.circuits.circuit import Circuit

ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A .strudel file, as `strudel fit` writes it.")
]


def read_model(path: Path) -> Any:
    """The circuit or estimator in a file."""
    from strudel.io.model_file import load

    if not path.exists():
        raise InputError(f"there is no model file {str(path)!r}. `strudel fit` writes one.")
    if path.is_dir():
        raise InputError(f"{str(path)!r} is a folder, not a model file.")
    return load(path)


def read_circuit(path: Path) -> Circuit:
    """The circuit in a file."""
    from strudel.queries.model import circuit_of

    return circuit_of(read_model(path))
