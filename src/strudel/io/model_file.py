"""Model files: one `.strudel` file per circuit, mixture or fitted estimator.

In:  a model and a path.
Out: one file (see `archive`); and the model back, bit for bit.

The state of a model is plain values and arrays (`model_states`, `estimator_states`). Every number
is checked before a model is made from it.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np

from strudel._version import __version__
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.circuits.predictor import PredictorCircuit
from strudel.errors import ChangedFileError, FileFormatError
from strudel.io import model_states
from strudel.io.archive import Archive, expect, read_archive, write_archive
from strudel.io.model_states import ESTIMATORS, HeldModel, held_model

FORMAT = "strudel"
ADVICE = "verify=False reads it as it is."  # to a file that is not what was saved
VERSION = 5  # the only one that is read


def _estimator_state(model: Any) -> model_states.State:
    from strudel.io.estimator_states import estimator_state  # late: needs scikit-learn

    return estimator_state(model)


def _estimator_from_state(archive: Archive) -> Any:
    from strudel.io.estimator_states import estimator_from_state

    return estimator_from_state(archive)


WRITERS: dict[str, Callable[[Any], model_states.State]] = {
    **model_states.WRITERS,
    "estimator": _estimator_state,
}
READERS: dict[str, Callable[[Archive], Any]] = {
    **model_states.READERS,
    "estimator": _estimator_from_state,
}


def save(
    model: Any, path: str | os.PathLike[str], *, provenance: dict[str, Any] | None = None
) -> None:
    """Write a model to one file.

    The file is moved to its place when it is complete, so a crash leaves the old file as it was.

    Parameters
    ----------
    model : Circuit, Mixture, PredictorCircuit, or a fitted estimator
        What to keep. Options that are not plain values, such as a random generator, are saved as
        None and named in the provenance; a constraint is saved as text, and a vtree that was given
        is that of the model.
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
    Circuit(n_vars=4, ...)
    """
    kind = _kind_of(model)
    meta, arrays = WRITERS[kind](model)
    facts = {
        "strudel": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    meta["provenance"] = facts | meta.get("provenance", {}) | (provenance or {})
    write_archive(path, {"format": FORMAT, "version": VERSION, "kind": kind} | meta, arrays)


def _kind_of(model: Any) -> str:
    if isinstance(model, Circuit):
        return "circuit"
    if isinstance(model, Mixture):
        return "mixture"
    if isinstance(model, PredictorCircuit):
        return "predictor"
    place = ESTIMATORS.get(type(model).__name__)
    if place is not None and place.module == type(model).__module__:
        return "estimator"
    raise TypeError(
        f"save takes a Circuit, a Mixture, a PredictorCircuit or a fitted "
        f"{' or '.join(ESTIMATORS)}, "
        f"but got {type(model).__name__}."
    )


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
    return _read(path, lambda archive: READERS[archive.meta["kind"]](archive), verify)


def load_held_model(path: str | os.PathLike[str], *, verify: bool = True) -> HeldModel:
    """Read what the estimator of a file holds, without the estimator and without scikit-learn."""
    held: HeldModel = _read(path, held_model, verify)
    return held


def _read(path: str | os.PathLike[str], build: Callable[[Archive], Any], verify: bool) -> Any:
    def checked(archive: Archive) -> Any:
        _check_meta(archive, verify)
        try:
            return build(archive)
        except FileFormatError:
            raise
        except ValueError as error:  # the rules of a model
            raise FileFormatError(str(error)) from error

    return read_archive(path, checked)


def read_provenance(path: str | os.PathLike[str], *, verify: bool = True) -> dict[str, Any]:
    """What a file says about where it comes from: kind, versions, time (UTC), options, data."""

    def provenance(archive: Archive) -> dict[str, Any]:
        _check_meta(archive, verify)
        return {"kind": archive.meta["kind"], **archive.meta["provenance"]}

    return read_archive(path, provenance)


def _check_meta(archive: Archive, verify: bool) -> None:
    meta = archive.meta
    if meta.get("format") != FORMAT:
        raise FileFormatError("its meta.json does not say that it is a Strudel model")
    version = expect(meta.get("version"), int, "the version")
    if version != VERSION:
        way_out = "learn and save the model again"
        if version > VERSION:
            way_out = "upgrade with pip install --upgrade strudel-pc"
        raise FileFormatError(
            f"it has format version {version}, and Strudel {__version__} reads version {VERSION}; "
            f"{way_out}"
        )
    if meta.get("kind") not in list(READERS):  # a list: the kind may be anything
        raise FileFormatError(f"it holds an unknown kind of model, {meta.get('kind')!r}")
    if verify and not archive.is_as_saved():
        raise ChangedFileError("it was changed after it was saved.", ADVICE)
    expect(meta.get("provenance"), dict, "the provenance")
