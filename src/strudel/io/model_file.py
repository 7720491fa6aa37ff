"""Model files: one `.strudel` file per circuit, tree, event, predictor or fitted estimator.

In:  a model and a path.
Out: one file (see `archive`); and the model back, bit for bit (see `states`).
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import numpy as np

from strudel._estimator import not_fitted
from strudel._version import __version__
from strudel.errors import ChangedFileError, FileFormatError
from strudel.io.archive import Archive, expect, write_archive
from strudel.io.states import (
    ESTIMATORS,
    MODELS,
    PREDICTORS,
    HeldModel,
    NotPlainError,
    State,
    held_model,
    object_of,
)

ADVICE = "verify=False reads it as it is."  # to a file that is not what was saved
T = TypeVar("T")


def save(
    model: Any, path: str | os.PathLike[str], *, provenance: dict[str, Any] | None = None
) -> None:
    """Write a model to one file.

    The file is moved to its place when it is complete, so a crash leaves the old file as it was.

    Parameters
    ----------
    model : Circuit, Vtree, ChowLiuTree, Event, Sdd, PredictorCircuit, or a fitted estimator
        What to keep. Options that are not plain values, such as a random generator, are saved as
        None and named in the provenance.
    path : path-like
        Usually ends in ``.strudel``.
    provenance : dict, optional
        What else `read_provenance` should return: plain values only.

    Examples
    --------
    >>> import tempfile
    >>> from strudel.circuits import figure_1_circuit
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(figure_1_circuit(), f"{folder}/figure_1.strudel")
    ...     load(f"{folder}/figure_1.strudel")
    Circuit(n_components=1, n_columns=4, ...)
    """
    kind = type(model).__name__
    if (ESTIMATORS | MODELS).get(kind) != type(model).__module__:
        raise TypeError(
            f"save takes a circuit, a tree, an event, a predictor or a fitted "
            f"{' or '.join(ESTIMATORS)}, but got {kind}."
        )
    state = State()
    facts: dict[str, Any] = {
        "strudel": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    if kind in ESTIMATORS:
        if not hasattr(model, "predictor_" if kind in PREDICTORS else "circuit_"):
            raise not_fitted(model)
        facts["data"] = getattr(model, "data_", None)
    try:
        root = state.plain(model)["$object"]
        if kind in ESTIMATORS:
            options = state.objects[root]["options"].items()
            facts["options"] = {  # objects as they are shown
                name: repr(getattr(model, name)) if isinstance(own, dict) else own
                for name, own in options
            }
            facts |= {"options_not_saved": state.not_saved} if state.not_saved else {}
    except NotPlainError as error:
        raise TypeError(f"save keeps plain values, but {error}.") from None
    facts |= provenance or {}
    try:
        facts = json.loads(json.dumps(facts, default=_plain))
    except (TypeError, ValueError):
        raise TypeError(
            "provenance must hold plain values only: text, numbers, lists and dicts."
        ) from None
    header = {"kind": kind, "provenance": facts, "root": root, "objects": state.objects}
    write_archive(path, header, state.arrays)


def _plain(value: Any) -> Any:
    """A value that JSON does not know as one that it does."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return os.fspath(value)


def load(path: str | os.PathLike[str], *, verify: bool = True) -> Any:
    """Read the model that `save` wrote to a file.

    Parameters
    ----------
    path : path-like
        A ``.strudel`` file.
    verify : bool, default=True
        Refuse a file that was changed after it was saved, which its checksum shows. False reads it
        as it is; even then every number is checked before it can do harm.

    Raises
    ------
    FileFormatError
        If the file is incomplete, changed, of another kind, or not a valid model.
    """
    return _read(path, object_of, verify)


def load_held_model(path: str | os.PathLike[str], *, verify: bool = True) -> HeldModel:
    """Read what the estimator of a file holds, without the estimator and without scikit-learn."""
    return _read(path, held_model, verify)


def read_provenance(path: str | os.PathLike[str], *, verify: bool = True) -> dict[str, Any]:
    """What a file says about where it comes from: kind, versions, time (UTC), options, data."""

    def provenance(archive: Archive) -> dict[str, Any]:
        kind = expect(archive.header.get("kind"), str, "the kind of model")
        return {"kind": kind} | expect(archive.header.get("provenance"), dict, "the provenance")

    return _read(path, provenance, verify)


def _read(path: str | os.PathLike[str], use: Callable[[Archive], T], verify: bool) -> T:
    """Open a file and pass its contents to `use`; every failure becomes a `FileFormatError`."""
    try:
        archive = Archive(path)
        if verify and not archive.is_as_saved():
            raise ChangedFileError("it was changed after it was saved.", ADVICE)
        return use(archive)
    except (ImportError, OSError):
        raise
    except ChangedFileError as error:
        raise error.within(f"Cannot read a Strudel model from {path}") from None
    except Exception as error:  # the rules of a model and of a file, and what nobody thought of
        reason = str(error) or type(error).__name__
        if not isinstance(error, ValueError):
            reason = f"it is incomplete or damaged ({reason})"
        reason = " ".join(reason.split()).rstrip(".")
        raise FileFormatError(f"Cannot read a Strudel model from {path}: {reason}.") from error
