"""Model files: one `.strudel` file per circuit or fitted estimator.

In:  a model and a path.
Out: a zip archive of `meta.json` and one `.npy` member per array; and the model back, bit for bit.

Nothing in a file is ever executed. Members are stored without compression, so that no file can ask
for more memory than its own size, and every number is checked before a model is made of it.
"""

from __future__ import annotations

import io
import json
import os
import platform
import re
import secrets
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from strudel._types import AnyArray
from strudel._version import __version__
from strudel.circuits.circuit import Circuit
from strudel.errors import FileFormatError
from strudel.trees.vtree import Vtree

FORMAT = "strudel"
VERSION = 1
ESTIMATORS = {"Strudel": "strudel.models.density"}  # class: module; nothing else is ever imported

MAX_MEMBERS = 100
MEMBER_NAME = re.compile(r"meta\.json|[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*\.npy")

T = TypeVar("T")


def save(
    model: Any, path: str | os.PathLike[str], *, provenance: dict[str, Any] | None = None
) -> None:
    """Write a model to one file.

    The file is written beside its final place and moved there when it is complete, so a crash
    leaves the old file as it was.

    Parameters
    ----------
    model : Circuit or fitted Strudel
        What to keep. Options that are not plain values, such as a random generator, are saved as
        None and named in the provenance.
    path : path-like
        Usually ends in ``.strudel``.
    provenance : dict, optional
        Whatever else `read_provenance` should tell: plain values only.

    Examples
    --------
    >>> import tempfile
    >>> from strudel import figure_1_circuit
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(figure_1_circuit(), f"{folder}/figure_1.strudel")
    ...     load(f"{folder}/figure_1.strudel")
    Circuit(n_vars=4, ...)
    """
    if isinstance(model, Circuit):
        meta, arrays = _circuit_state(model)
        meta |= {"kind": "circuit", "provenance": {}}
    elif ESTIMATORS.get(type(model).__name__) == type(model).__module__:
        meta, arrays = _estimator_state(model)
    else:
        raise TypeError(
            f"save takes a Circuit or a fitted {' or '.join(ESTIMATORS)}, "
            f"but got {type(model).__name__}."
        )
    facts = {
        "strudel": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    meta["provenance"] = facts | meta["provenance"] | (provenance or {})
    _write_archive(path, {"format": FORMAT, "version": VERSION} | meta, arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Read the model that `save` wrote to a file.

    Raises `FileFormatError` if the file is cut short, of another kind, or breaks a rule of a model.
    """

    def build(archive: _Archive) -> Any:
        is_estimator = archive.meta["kind"] == "estimator"
        try:
            return (_estimator_from_state if is_estimator else _circuit_from_state)(archive)
        except ValueError as error:  # the model's own rules, in their own words
            raise FileFormatError(str(error)) from error

    return _read_archive(path, build)


def read_provenance(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a file says about where it comes from: kind, versions, time (UTC), options, data."""

    def tell(archive: _Archive) -> dict[str, Any]:
        return {"kind": archive.meta["kind"], **archive.meta["provenance"]}

    return _read_archive(path, tell)


# Circuits and estimators as plain values and arrays

_CIRCUIT_ARRAYS = {
    "vtree_left": "<i4",
    "vtree_right": "<i4",
    "vtree_var": "<i4",
    "node_vtree": "<i4",
    "node_edges": "<i4",
    "edge_left": "<i4",
    "edge_right": "<i4",
    "edge_log_theta": "<f8",
}


def _circuit_state(circuit: Circuit) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    arrays: dict[str, AnyArray] = {
        "vtree_left": circuit.vtree.node_left,
        "vtree_right": circuit.vtree.node_right,
        "vtree_var": circuit.vtree.node_var,
        "node_vtree": circuit.node_vtree,
        "node_edges": circuit.node_edges,
        "edge_left": circuit.edge_left,
        "edge_right": circuit.edge_right,
        "edge_log_theta": circuit.edge_log_theta,
    }
    named = {
        f"circuit.{name}": arrays[name].astype(dtype) for name, dtype in _CIRCUIT_ARRAYS.items()
    }
    return {"feature_names": circuit.feature_names}, named


def _circuit_from_state(archive: _Archive) -> Circuit:
    arrays = {
        name: archive.read_array(f"circuit.{name}", (dtype,))
        for name, dtype in _CIRCUIT_ARRAYS.items()
    }
    names = archive.meta.get("feature_names")
    if names is not None:
        names = tuple(_expect(names, list, "the feature names"))
        if not all(isinstance(name, str) for name in names):
            raise FileFormatError("some feature names are not text")
    return Circuit(
        Vtree(arrays["vtree_left"], arrays["vtree_right"], arrays["vtree_var"]),
        arrays["node_vtree"],
        arrays["node_edges"],
        arrays["edge_left"],
        arrays["edge_right"],
        arrays["edge_log_theta"],
        names,
    )


def _estimator_state(model: Any) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model, "circuit_")
    meta, arrays = _circuit_state(model.circuit_)
    plain = {name: _as_json(value) for name, value in model.get_params(deep=False).items()}
    params = {name: None if text is None else json.loads(text) for name, text in plain.items()}
    meta |= {
        "kind": "estimator",
        "class": type(model).__name__,
        "params": params,
        "n_features_in": int(model.n_features_in_),
        "feature_names_in": None,
        "data": getattr(model, "data_", None),
        "provenance": {"options": params, "data": getattr(model, "data_", None)},
    }
    not_saved = [name for name, text in plain.items() if text is None]
    if not_saved:
        meta["provenance"]["options_not_saved"] = not_saved
    if hasattr(model, "feature_names_in_"):
        meta["feature_names_in"] = [str(name) for name in model.feature_names_in_]
    if hasattr(model, "history_"):
        columns = model.history_.columns()
        meta["history"] = {
            "columns": list(columns),
            "best": int(model.history_.best),
            "stopped_because": str(model.history_.stopped_because),
        }
        for name, column in columns.items():
            is_float = np.issubdtype(column.dtype, np.floating)
            arrays[f"history.{name}"] = column.astype("<f8" if is_float else "<i8")
    return meta, arrays


def _estimator_from_state(archive: _Archive) -> Any:
    meta = archive.meta
    class_name = _expect(meta.get("class"), str, "the class of the estimator")
    if class_name not in ESTIMATORS:
        raise FileFormatError(f"it holds an estimator of the unknown class {class_name!r}")
    estimator_class = getattr(import_module(ESTIMATORS[class_name]), class_name)
    params = _expect(meta.get("params"), dict, "the options")
    unknown = sorted(set(params) - set(estimator_class().get_params(deep=False)))
    if unknown:
        raise FileFormatError(f"it holds options that this version does not know: {unknown}")
    model = estimator_class(**params)
    model.circuit_ = _circuit_from_state(archive)
    model.n_features_in_ = _expect(meta.get("n_features_in"), int, "the number of features")
    if model.n_features_in_ != model.circuit_.n_vars:
        raise FileFormatError("the number of features is not that of the circuit's variables")
    names = meta.get("feature_names_in")
    if names is not None:
        if len(_expect(names, list, "the feature names")) != model.n_features_in_:
            raise FileFormatError("the number of feature names is not that of the features")
        model.feature_names_in_ = np.array(names, dtype=object)
    if meta.get("data") is not None:
        model.data_ = _expect(meta["data"], dict, "the facts about the data")
    if meta.get("history") is not None:
        model.history_ = _history_from_state(archive, _expect(meta["history"], dict, "the history"))
    return model


def _history_from_state(archive: _Archive, state: dict[str, Any]) -> Any:
    from strudel.learning.history import History

    names = _expect(state.get("columns"), list, "the columns of the history")
    columns = {name: archive.read_array(f"history.{name}", ("<f8", "<i8")) for name in names}
    best = _expect(state.get("best"), int, "the best row of the history")
    history = History.from_columns(columns, best, str(state.get("stopped_because", "")))
    history.columns()  # fails now, not later, if a count is not a whole number
    return history


def _expect(value: Any, kind: type[T], what: str) -> T:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise FileFormatError(f"{what} should be {kind.__name__}, but is {type(value).__name__}")
    return value


# The archive


def _write_archive(
    path: str | os.PathLike[str], meta: dict[str, Any], arrays: dict[str, AnyArray]
) -> None:
    """Write all members beside `path`, then move the file there."""
    final = Path(os.path.realpath(path))  # through a link, so that the link stays one
    if final.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the name of a file in it.")
    if not final.parent.is_dir():
        raise FileNotFoundError(f"The folder {final.parent} does not exist: make it first.")
    text = _as_json(meta)
    if text is None:
        raise TypeError("provenance must hold plain values only: text, numbers, lists and dicts.")
    unfinished = final.with_name(f".{final.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(unfinished, "xb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                archive.writestr(zipfile.ZipInfo("meta.json"), text)
                for name, array in arrays.items():
                    content = io.BytesIO()
                    np.lib.format.write_array(content, array, (1, 0), allow_pickle=False)
                    archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content.getvalue())
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, final)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _as_json(value: Any) -> str | None:
    """The value as JSON text, or None if it is not made of plain values."""

    def plain(item: Any) -> Any:
        if isinstance(item, np.generic | np.ndarray):
            return item.tolist()
        if isinstance(item, os.PathLike):
            return os.fspath(item)
        raise TypeError

    try:
        return json.dumps(value, default=plain, indent=1)
    except (TypeError, ValueError):
        return None


def _read_archive(path: str | os.PathLike[str], use: Callable[[_Archive], T]) -> T:
    """Open a file and hand its contents to `use`, turning every failure into one kind of error."""
    if Path(path).is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the name of a file in it.")
    with open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                return use(_Archive(archive, os.fstat(file.fileno()).st_size))
        except ImportError:
            raise
        except FileFormatError as error:
            reason, cause = str(error), error.__cause__
        except Exception as error:  # zipfile meets damage with a dozen kinds of exception
            detail = str(error) or type(error).__name__
            reason, cause = f"it is cut short, damaged or of another kind ({detail})", error
    reason = " ".join(reason.split()).rstrip(".")  # some libraries explain themselves at length
    raise FileFormatError(f"Cannot read a Strudel model from {path}: {reason}.") from cause


class _Archive:
    """An open file whose list of members is sound."""

    def __init__(self, archive: zipfile.ZipFile, n_bytes: int) -> None:
        self._archive = archive
        self._members = _sound_members(archive, n_bytes)
        self.meta = self._read_meta()

    def _read_meta(self) -> dict[str, Any]:
        meta = _expect(json.loads(self._read("meta.json")), dict, "meta.json")
        if meta.get("format") != FORMAT:
            raise FileFormatError("its meta.json does not say that it is a Strudel model")
        version = _expect(meta.get("version"), int, "the version")
        if version > VERSION:
            raise FileFormatError(
                f"it has format version {version}, and Strudel {__version__} reads up to version "
                f"{VERSION}; upgrade with pip install --upgrade strudel-pc"
            )
        if version < 1 or meta.get("kind") not in ("circuit", "estimator"):
            raise FileFormatError(f"it holds an unknown kind of model, {meta.get('kind')!r}")
        _expect(meta.get("provenance"), dict, "the provenance")
        return meta

    def read_array(self, name: str, dtypes: tuple[str, ...]) -> AnyArray:
        """One array with one axis, of one of the given types."""
        content = io.BytesIO(self._read(f"{name}.npy"))
        if np.lib.format.read_magic(content) != (1, 0):
            raise FileFormatError(f"array {name} is not in version 1.0 of the npy format")
        shape, _, dtype = np.lib.format.read_array_header_1_0(content)
        if dtype.str not in dtypes or len(shape) != 1:
            raise FileFormatError(
                f"array {name} should have one axis and type {' or '.join(dtypes)}, "
                f"but has shape {shape} and type {dtype}"
            )
        data = content.getbuffer()[content.tell() :]
        if shape[0] * dtype.itemsize != len(data):
            raise FileFormatError(f"array {name} is not as long as it says")
        return np.frombuffer(data, dtype).astype(dtype.newbyteorder("="))

    def _read(self, name: str) -> bytes:
        if name not in self._members:
            raise FileFormatError(f"it has no member {name}")
        with self._archive.open(self._members[name]) as member:
            return _read_exactly(member, self._members[name].file_size)


def _sound_members(archive: zipfile.ZipFile, n_bytes: int) -> dict[str, zipfile.ZipInfo]:
    """The members by name, if names and sizes are what `save` writes."""
    infos = archive.infolist()
    members = {info.filename: info for info in infos}
    if "meta.json" not in members:
        raise FileFormatError("it is a zip file, but not a Strudel model: it has no meta.json")
    if len(infos) > MAX_MEMBERS or len(members) < len(infos):
        raise FileFormatError("it has too many members, or two with one name")
    for info in infos:
        if not MEMBER_NAME.fullmatch(info.filename):
            raise FileFormatError(f"its member {info.filename!r} does not belong in a model")
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise FileFormatError(f"its member {info.filename} is compressed")
    if sum(info.file_size for info in infos) > n_bytes:
        raise FileFormatError("its members claim to be larger than the file")
    return members


def _read_exactly(member: IO[bytes], n_bytes: int) -> bytes:
    content = member.read(n_bytes + 1)  # one more, so that the checksum is compared
    if len(content) != n_bytes:
        raise FileFormatError("a member is not as long as it says")
    return content
