"""Where commands write: checked before the work, complete or not at all.

In:  a path that a person gave, and the inputs it must not overwrite.
Out: the file, written beside its place and moved there when complete.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from strudel.cli.console import InputError


def check_output(path: Path, what: str, inputs: Iterable[str | None], ending: str) -> Path:
    """The path, if writing there destroys nothing but an older file of the same ending."""
    if path.is_dir():
        raise InputError(f"cannot write {what} to {str(path)!r}: it is a folder.")
    if not path.parent.is_dir():
        raise InputError(f"cannot write {what} to {str(path)!r}: its folder does not exist.")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"cannot write {what} to {str(path)!r}: its folder is read-only.")
    if any(source and _is_same_file(Path(source), path) for source in inputs):
        raise InputError(f"{what} would overwrite an input, {str(path)!r}.")
    if path.is_file() and path.suffix != ending:
        raise InputError(
            f"{str(path)!r} exists and is not a {ending} file. "
            "Give -o another name, or remove it first."
        )
    return path


def check_is_model_file(path: Path) -> None:
    """Refuse the ending of another program's format: a model file would lie under its name."""
    from strudel.io.formats import FORMATS

    if path.suffix in FORMATS:
        raise InputError(
            f"a model is written to a .strudel file, not to {str(path)!r}. `strudel convert` then "
            f"makes a {path.suffix} file of it."
        )


def _is_same_file(source: Path, path: Path) -> bool:
    """Whether two paths lead to one file, however they are written and through whatever links."""
    return os.path.realpath(source) == os.path.realpath(path) or (
        source.exists() and path.exists() and source.samefile(path)
    )


def write_text(path: Path, pieces: Iterable[str]) -> None:
    """Write beside the path and move there when complete, so that no half file is left."""
    final = Path(os.path.realpath(path))
    if final.exists() and not final.is_file():  # a device or a pipe: nothing to move
        with final.open("w", encoding="utf-8", newline="") as file:
            file.writelines(pieces)
        return
    unfinished = final.with_name(f".{final.name}.{secrets.token_hex(4)}.tmp")
    try:
        with unfinished.open("x", encoding="utf-8", newline="") as file:
            file.writelines(pieces)
        unfinished.replace(final)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
