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


def circuit_of(model: Any) -> Circuit:
    """The circuit of an estimator, or the circuit itself."""
    from strudel.circuits.circuit import Circuit

    circuit = getattr(model, "circuit_", model)
    if not isinstance(circuit, Circuit):
        raise InputError(f"the file holds a {type(model).__name__}, not a model of one circuit.")
    return circuit


def read_circuit(path: Path) -> Circuit:
    """The circuit in a file."""
    return circuit_of(read_model(path))
