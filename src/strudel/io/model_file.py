"""Model files: one `.strudel` file per circuit, mixture or fitted estimator.

In:  a model and a path.
Out: one file (see `archive`); and the model back, bit for bit.

A model becomes its state, plain values and arrays: a mixture's is that of its structure and more,
an estimator's that of its circuit or mixture and more. Every number is checked before a model is
made of it.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from strudel._types import AnyArray
from strudel._version import __version__
from strudel.circuits.circuit import Circuit
from strudel.circuits.circuit_mixture import CircuitMixture
from strudel.circuits.mixture import Mixture
from strudel.circuits.predictor import PredictorCircuit
from strudel.data.coded_rows import CodedNames
from strudel.data.table_code import TableCode
from strudel.errors import FileFormatError
from strudel.io.archive import Archive, as_json, expect, read_archive, write_archive
from strudel.logic.events import Event, children_first
from strudel.trees.vtree import Vtree

FORMAT = "strudel"
VERSION = 4  # the newest that is read; a model is written as the oldest that can hold it

MAX_EVENT_SIZE = 10**5  # parts of an event that is saved; shared ones count each time

State: TypeAlias = tuple[dict[str, Any], dict[str, AnyArray]]  # for meta.json, and the arrays


class Estimator(NamedTuple):
    """Where the class of an estimator lives, and what a fitted one holds."""

    module: str
    holds: str  # "circuit", "mixture", "predictor" or, of the first two either, "model"
    history_module: str = ""
    history_class: str = ""


ESTIMATORS = {  # nothing else is ever imported
    "Strudel": Estimator(
        "strudel.models.density", "circuit", "strudel.learning.history", "History"
    ),
    "StrudelMixture": Estimator(
        "strudel.models.mixture", "mixture", "strudel.learning.mixture_history", "MixtureHistory"
    ),
    "RegressionCircuit": Estimator("strudel.models.regression", "predictor"),
    "LogisticCircuit": Estimator("strudel.models.logistic", "predictor"),
    "StrudelClassifier": Estimator("strudel.models.classifier", "mixture"),
    "StrudelImputer": Estimator("strudel.models.imputer", "model"),
}


def save(
    model: Any, path: str | os.PathLike[str], *, provenance: dict[str, Any] | None = None
) -> None:
    """Write a model to one file.

    The file is written beside its final place and moved there when it is complete, so a crash
    leaves the old file as it was.

    Parameters
    ----------
    model : Circuit, Mixture, PredictorCircuit, or a fitted estimator
        What to keep. Options that are not plain values, such as a random generator, are saved as
        None and named in the provenance; a constraint is saved as text, and a vtree that was given
        is that of the model.
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
    kind = _kind_of(model)
    meta, arrays = WRITERS[kind](model)
    facts = {
        "strudel": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    if "table_code" in meta:
        meta["version"] = 4  # older versions would not know the columns
    meta["provenance"] = facts | meta.get("provenance", {}) | (provenance or {})
    write_archive(path, {"format": FORMAT, "kind": kind} | meta, arrays)


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


def load(path: str | os.PathLike[str]) -> Any:
    """Read the model that `save` wrote to a file.

    Raises `FileFormatError` if the file is cut short, of another kind, or breaks a rule of a model.
    """

    def build(archive: Archive) -> Any:
        _check_meta(archive.meta)
        try:
            return READERS[archive.meta["kind"]](archive)
        except ValueError as error:  # the model's own rules, in their own words
            raise FileFormatError(str(error)) from error

    return read_archive(path, build)


def read_provenance(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a file says about where it comes from: kind, versions, time (UTC), options, data."""

    def tell(archive: Archive) -> dict[str, Any]:
        _check_meta(archive.meta)
        return {"kind": archive.meta["kind"], **archive.meta["provenance"]}

    return read_archive(path, tell)


def _check_meta(meta: dict[str, Any]) -> None:
    if meta.get("format") != FORMAT:
        raise FileFormatError("its meta.json does not say that it is a Strudel model")
    version = expect(meta.get("version"), int, "the version")
    if version > VERSION:
        raise FileFormatError(
            f"it has format version {version}, and Strudel {__version__} reads up to version "
            f"{VERSION}; upgrade with pip install --upgrade strudel-pc"
        )
    if version < 1 or meta.get("kind") not in list(READERS):  # a list: the kind may be anything
        raise FileFormatError(f"it holds an unknown kind of model, {meta.get('kind')!r}")
    expect(meta.get("provenance"), dict, "the provenance")


# Circuits

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


def _circuit_state(circuit: Circuit, part: str = "circuit") -> State:
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
        f"{part}.{name}": arrays[name].astype(dtype) for name, dtype in _CIRCUIT_ARRAYS.items()
    }
    meta: dict[str, Any] = {"version": 1, "feature_names": circuit.feature_names}
    if circuit.table_code is not None:
        meta["table_code"] = circuit.table_code.to_dict()
    return meta, named


def _circuit_from_state(archive: Archive, part: str = "circuit") -> Circuit:
    arrays = {
        name: archive.read_array(f"{part}.{name}", (dtype,))
        for name, dtype in _CIRCUIT_ARRAYS.items()
    }
    return Circuit(
        Vtree(arrays["vtree_left"], arrays["vtree_right"], arrays["vtree_var"]),
        arrays["node_vtree"],
        arrays["node_edges"],
        arrays["edge_left"],
        arrays["edge_right"],
        arrays["edge_log_theta"],
        _names_from(archive.meta.get("feature_names"), archive.meta.get("table_code")),
    )


def _names_from(names: Any, code: Any = None) -> tuple[str, ...] | None:
    """Feature names of a circuit, or None; with a table's code, if there is one."""
    if names is None:
        return None
    if not all(isinstance(name, str) for name in expect(names, list, "the feature names")):
        raise FileFormatError("some feature names are not text")
    if code is None:
        return tuple(names)
    return CodedNames(TableCode.from_dict(expect(code, dict, "the table's code")), tuple(names))


# Mixtures

_VTREE = ("left", "right", "var")

_OWN = {name: dtype for name, dtype in _CIRCUIT_ARRAYS.items() if not name.startswith("vtree")}


def _mixture_state(mixture: Mixture, part: str = "circuit") -> State:
    if isinstance(mixture, CircuitMixture):
        return _own_structures_state(mixture)
    meta, arrays = _circuit_state(mixture.structure, part)
    arrays["mixture.edge_log_theta"] = mixture.edge_log_theta.astype("<f8")
    arrays["mixture.log_weight"] = mixture.log_weight.astype("<f8")
    return meta | {"version": 2}, arrays


def _own_structures_state(mixture: CircuitMixture) -> State:
    """The arrays of all components one after another, and where each begins."""
    parts = mixture.circuits
    meta, arrays = _circuit_state(parts[0])
    states = [_circuit_state(part)[1] for part in parts]
    for name in _OWN:
        arrays[f"components.{name}"] = np.concatenate([one[f"circuit.{name}"] for one in states])
        del arrays[f"circuit.{name}"]
    for name, sizes in (
        ("node_first", [part.n_nodes for part in parts]),
        ("edge_first", [part.n_edges for part in parts]),
    ):
        arrays[f"components.{name}"] = np.cumsum([0, *sizes]).astype("<i8")
    arrays["mixture.log_weight"] = mixture.log_weight.astype("<f8")
    return meta | {"version": 3, "structures": "per_component"}, arrays


def _own_structures_from_state(archive: Archive) -> CircuitMixture:
    vtree = Vtree(*(archive.read_array(f"circuit.vtree_{name}", ("<i4",)) for name in _VTREE))
    log_weight = archive.read_array("mixture.log_weight", ("<f8",))
    columns = {
        name: archive.read_array(f"components.{name}", (dtype,)) for name, dtype in _OWN.items()
    }
    first = {
        what: archive.read_array(f"components.{what}_first", ("<i8",)) for what in ("node", "edge")
    }
    n_rows = {"node": len(columns["node_vtree"]), "edge": len(columns["edge_left"])}
    for what, starts in first.items():
        if (
            len(starts) != len(log_weight) + 1
            or starts[0] != 0
            or starts[-1] != n_rows[what]
            or np.any(starts[1:] < starts[:-1])
        ):
            raise FileFormatError(f"components.{what}_first does not say where components begin")
    names = _names_from(archive.meta.get("feature_names"), archive.meta.get("table_code"))
    circuits = []
    for c in range(len(log_weight)):
        nodes = slice(first["node"][c], first["node"][c + 1])
        edges = slice(first["edge"][c], first["edge"][c + 1])
        # One entry more than nodes for every component.
        node_edges = columns["node_edges"][nodes.start + c : nodes.stop + c + 1].copy()
        circuits.append(
            Circuit(
                vtree,
                columns["node_vtree"][nodes].copy(),
                node_edges,
                columns["edge_left"][edges].copy(),
                columns["edge_right"][edges].copy(),
                columns["edge_log_theta"][edges].copy(),
                names,
            )
        )
    return CircuitMixture(circuits, log_weight)


def _mixture_from_state(archive: Archive, part: str = "circuit") -> Mixture:
    if archive.meta.get("structures") == "per_component":
        return _own_structures_from_state(archive)
    return Mixture(
        _circuit_from_state(archive, part),
        archive.read_array("mixture.edge_log_theta", ("<f8",), n_axes=2),
        archive.read_array("mixture.log_weight", ("<f8",)),
    )


# Either


def _model_state(model: Circuit | Mixture) -> State:
    if not isinstance(model, Mixture):
        return _circuit_state(model)
    meta, arrays = _mixture_state(model)
    return meta | {"is_mixture": True}, arrays


def _model_from_state(archive: Archive) -> Circuit | Mixture:
    if archive.meta.get("is_mixture") is True:
        return _mixture_from_state(archive)
    return _circuit_from_state(archive)


# Predictors


def _predictor_state(predictor: PredictorCircuit) -> State:
    meta, arrays = _circuit_state(predictor.structure)
    arrays["predictor.literal_weight"] = predictor.literal_weight.astype("<f8")
    arrays["predictor.edge_weight"] = predictor.edge_weight.astype("<f8")
    arrays["predictor.bias"] = predictor.bias.astype("<f8")
    return meta | {"version": 3, "predicts": predictor.kind}, arrays


def _predictor_from_state(archive: Archive) -> PredictorCircuit:
    return PredictorCircuit(
        structure=_circuit_from_state(archive),
        literal_weight=archive.read_array("predictor.literal_weight", ("<f8",), n_axes=2),
        edge_weight=archive.read_array("predictor.edge_weight", ("<f8",), n_axes=2),
        bias=archive.read_array("predictor.bias", ("<f8",)),
        kind=archive.meta.get("predicts"),  # type: ignore[arg-type]
    )


# Estimators


def _estimator_state(model: Any) -> State:
    from sklearn.utils.validation import check_is_fitted

    holds = ESTIMATORS[type(model).__name__].holds
    check_is_fitted(model, f"{holds}_")
    meta, arrays = WRITERS[holds](getattr(model, f"{holds}_"))
    params, not_saved = _plain_options(model)
    if "estimator" in not_saved:
        learner = _learner_state(model.estimator)
        if learner is not None:
            meta["learner"] = learner
            not_saved.remove("estimator")
    meta |= {
        "class": type(model).__name__,
        "params": params,
        "n_features_in": int(model.n_features_in_),
        "feature_names_in": None,
        "data": getattr(model, "data_", None),
        "provenance": {"options": params, "data": getattr(model, "data_", None)},
    }
    if not_saved:
        meta["provenance"]["options_not_saved"] = not_saved
    if hasattr(model, "feature_names_in_"):
        meta["feature_names_in"] = [str(name) for name in model.feature_names_in_]
    if hasattr(model, "encoder_"):
        meta["encoder"] = _encoder_options(model.encoder_)
    if hasattr(model, "chosen_"):
        meta["chosen"] = model.chosen_
    if holds == "predictor":
        meta["predictor"], density = _fitted_predictor_state(model)
        arrays |= density
    if hasattr(model, "component_class_"):
        meta |= {"version": 4, "classes": _plain_classes(model.classes_)}
        meta["target_name"] = model.target_name_
        if model.component_class_ is not None:
            arrays["classifier.component_class"] = model.component_class_.astype("<i4")
    if holds == "model":
        meta["version"] = 4
    if hasattr(model, "history_"):
        meta["history"], columns = _history_state(model.history_)
        arrays |= columns
    return meta, arrays


def _plain_options(model: Any) -> tuple[dict[str, Any], list[str]]:
    """The options of an estimator, and the names of those that are no plain values."""
    options = model.get_params(deep=False)
    if isinstance(options.get("constraint"), Event):
        options["constraint"] = _event_text(options["constraint"]) or options["constraint"]
    plain = {name: as_json(value) for name, value in options.items()}
    params = {name: None if text is None else json.loads(text) for name, text in plain.items()}
    return params, [name for name, text in plain.items() if text is None]


def _encoder_options(encoder: Any) -> dict[str, Any]:
    options = {name: as_json(value) for name, value in encoder.get_params().items()}
    return {name: json.loads(text) for name, text in options.items() if text is not None}


def _learner_state(estimator: Any) -> dict[str, Any] | None:
    """What an imputer learns with: a class and its options, or a model that is used as it is."""
    from strudel.models.imputer import is_fitted_model

    if is_fitted_model(estimator):
        return {"is_fitted": True}  # it is the imputer's model
    place = ESTIMATORS.get(type(estimator).__name__)
    if place is None or place.module != type(estimator).__module__:
        return None
    params, _ = _plain_options(estimator)
    state = {"class": type(estimator).__name__, "params": params}
    if hasattr(getattr(estimator, "encoder", None), "get_params"):
        state["encoder"] = _encoder_options(estimator.encoder)
    return state


def _learner_from(state: Any, model: Any, encoder: Any) -> Any:
    """What an imputer learned with; `encoder` is its own option."""
    from strudel.models.table_encoder import TableEncoder

    state = expect(state, dict, "what the imputer learned with")
    if state.get("is_fitted") is True:
        return model if encoder == "auto" else model.with_table_code(None)
    estimator_class = _estimator_class(state.get("class"))
    params = _known_options(estimator_class, state.get("params"))
    if "encoder" in state:
        params["encoder"] = TableEncoder(**_known_options(TableEncoder, state["encoder"]))
    return estimator_class(**params)


def _estimator_class(name: Any) -> Any:
    class_name = expect(name, str, "the class of the estimator")
    if class_name not in ESTIMATORS:
        raise FileFormatError(f"it holds an estimator of the unknown class {class_name!r}")
    return getattr(import_module(ESTIMATORS[class_name].module), class_name)


def _known_options(estimator_class: Any, params: Any) -> dict[str, Any]:
    known: dict[str, Any] = expect(params, dict, "the options")
    unknown = sorted(set(known) - set(estimator_class().get_params(deep=False)))
    if unknown:
        raise FileFormatError(f"it holds options that this version does not know: {unknown}")
    return known


def _fitted_predictor_state(model: Any) -> State:
    """What was chosen, and the density model on the same vtree."""
    is_mixture = isinstance(model.density_, Mixture)
    write = _mixture_state if is_mixture else _circuit_state
    meta, arrays = write(model.density_, "density")
    facts = {
        "alpha": float(model.alpha_),
        "n_splits": int(model.n_splits_),
        "n_target_splits": int(model.n_target_splits_),
        "trials": [list(trial) for trial in model.trials_],
        "density": "mixture" if is_mixture else "circuit",
        "density_names": meta["feature_names"],
    }
    if hasattr(model, "classes_"):
        facts["classes"] = _plain_classes(model.classes_)
    return facts, arrays


def _plain_classes(classes: AnyArray) -> Any:
    text = as_json(classes)
    if text is None:
        raise TypeError("save keeps classes that are plain numbers or text, and no others.")
    return json.loads(text)


def _restore_classifier(model: Any, archive: Archive) -> None:
    """The classes, and which components or variables stand for them."""
    model.classes_ = np.array(expect(archive.meta.get("classes"), list, "the classes"))
    n_classes = len(model.classes_)
    if model.classes_.ndim != 1 or n_classes == 0:
        raise FileFormatError("the classes are not plain values")
    told = archive.meta.get("provenance", {}).get("target", "class")  # all that older files know
    name = archive.meta.get("target_name", told)
    model.target_name_ = expect(name, str, "the name of the class")
    model.component_class_ = None
    model.trials_ = []
    if "classifier.component_class" not in archive:
        return
    own = archive.read_array("classifier.component_class", ("<i4",))
    if (
        len(own) != model.mixture_.n_components
        or not np.array_equal(np.unique(own), np.arange(n_classes))
        or np.any(np.diff(own) < 0)
    ):
        raise FileFormatError("classifier.component_class does not give every class components")
    model.component_class_ = own


def _restore_fitted_predictor(model: Any, archive: Archive) -> None:
    from strudel.models.flow_search import StructureTrial

    facts = expect(archive.meta.get("predictor"), dict, "what was chosen")
    is_mixture = expect(facts.get("density"), str, "the kind of density model") == "mixture"
    read = _mixture_from_state if is_mixture else _circuit_from_state
    density = read(archive, "density")
    if density.vtree != model.predictor_.vtree:
        raise FileFormatError("the density model and the predictor are on different vtrees")
    model.density_ = density.with_names(_names_from(facts.get("density_names")))
    model.alpha_ = expect(facts.get("alpha"), float, "the penalty")
    model.n_splits_ = expect(facts.get("n_splits"), int, "the number of splits")
    model.n_target_splits_ = expect(facts.get("n_target_splits"), int, "the number of splits")
    trials = expect(facts.get("trials"), list, "the trials")
    try:
        model.trials_ = [StructureTrial(*trial) for trial in trials]
    except TypeError:
        raise FileFormatError("a trial does not have four entries") from None
    if model.predictor_.kind == "logistic":
        model.classes_ = np.array(expect(facts.get("classes"), list, "the classes"))
        if model.classes_.ndim != 1:
            raise FileFormatError("the classes are not plain values")
        n_classes = len(model.classes_)
        if model.predictor_.n_outputs != (1 if n_classes == 2 else n_classes) or n_classes < 2:
            raise FileFormatError("the number of classes is not that of the predictor's outputs")


def _event_text(event: Event) -> str | None:
    """An event as text that `parse_event` reads.

    None if it is too long, holds an SDD, or knows a variable by its number: the name that would
    stand for it may be that of another one.
    """
    size: dict[int, int] = {}
    for part, _ in children_first(event, flat=False):
        size[id(part)] = 1 + sum(size[id(child)] for child in part.children)
        is_numbered = part.kind == "variable" and not isinstance(part.var, str)
        if part.kind == "sdd" or is_numbered or size[id(part)] > MAX_EVENT_SIZE:
            return None
    return str(event)


def _estimator_from_state(archive: Archive) -> Any:
    meta = archive.meta
    estimator_class = _estimator_class(meta.get("class"))
    class_name = estimator_class.__name__
    place = ESTIMATORS[class_name]
    params = _known_options(estimator_class, meta.get("params"))
    fitted = READERS[place.holds](archive)
    provenance = expect(meta.get("provenance", {}), dict, "the provenance")
    if "vtree" in provenance.get("options_not_saved", ()):  # one that was given is in the model
        params["vtree"] = fitted.vtree
    if "learner" in meta:
        params["estimator"] = _learner_from(meta["learner"], fitted, params.get("encoder"))
    code, n_vars = _inputs_of(fitted, archive)
    encoder = None if code is None else _encoder_from(meta.get("encoder"), code)
    if encoder is not None and params.get("encoder") is None:
        params["encoder"] = encoder
    model = estimator_class(**params)
    setattr(model, f"{place.holds}_", fitted)
    model.n_features_in_ = expect(meta.get("n_features_in"), int, "the number of features")
    if encoder is not None:
        model.encoder_ = encoder
    if model.n_features_in_ != (n_vars if code is None else len(code.columns)):
        raise FileFormatError("the number of features is not that of the model's variables")
    names = meta.get("feature_names_in")
    if names is not None:
        if len(expect(names, list, "the feature names")) != model.n_features_in_:
            raise FileFormatError("the number of feature names is not that of the features")
        model.feature_names_in_ = np.array(names, dtype=object)
    if meta.get("data") is not None:
        model.data_ = expect(meta["data"], dict, "the facts about the data")
    if meta.get("chosen") is not None:
        model.chosen_ = expect(meta["chosen"], dict, "what was chosen")
    if place.holds == "predictor":
        _restore_fitted_predictor(model, archive)
    if class_name == "StrudelClassifier":
        _restore_classifier(model, archive)
    if meta.get("history") is not None:
        state = expect(meta["history"], dict, "the history")
        model.history_ = _history_from_state(archive, state, place)
    return model


def _inputs_of(fitted: Any, archive: Archive) -> tuple[TableCode | None, int]:
    """The code of the columns, if they have one, and the number of variables.

    Of a joint model of inputs and class, those of the inputs only.
    """
    from strudel.models.class_code import class_codewords

    code, n_vars = getattr(fitted, "table_code", None), fitted.n_vars
    if "classes" not in archive.meta or "classifier.component_class" in archive:
        return code, n_vars
    n_classes = len(expect(archive.meta["classes"], list, "the classes"))
    codewords = class_codewords(n_classes)
    n_bits = codewords.shape[1]
    if n_bits >= n_vars or (code is not None and len(code.columns) < 2):
        raise FileFormatError("the model has no variables besides the class")
    if code is not None and not np.array_equal(code.columns[-1].codewords, codewords):
        raise FileFormatError("the last column of the model is not the class")
    return None if code is None else replace(code, columns=code.columns[:-1]), n_vars - n_bits


def _encoder_from(params: Any, code: TableCode) -> Any:
    """The encoder of an estimator; options of it that are not plain values have their defaults."""
    from strudel.models.encoding import fitted_encoder
    from strudel.models.table_encoder import TableEncoder

    options = expect(params, dict, "the encoder")
    unknown = sorted(set(options) - set(TableEncoder().get_params()))
    if unknown:
        raise FileFormatError(f"its encoder has options that this version does not know: {unknown}")
    return fitted_encoder(TableEncoder(**options), code)


def _history_state(history: Any) -> State:
    columns = history.columns()
    meta = {
        "columns": list(columns),
        "best": int(history.best),
        "stopped_because": str(history.stopped_because),
    }
    arrays = {
        f"history.{name}": column.astype("<f8" if column.dtype.kind == "f" else "<i8")
        for name, column in columns.items()
    }
    return meta, arrays


def _history_from_state(archive: Archive, state: dict[str, Any], place: Estimator) -> Any:
    history_class = getattr(import_module(place.history_module), place.history_class)
    names = expect(state.get("columns"), list, "the columns of the history")
    columns = {name: archive.read_array(f"history.{name}", ("<f8", "<i8")) for name in names}
    best = expect(state.get("best"), int, "the best row of the history")
    history = history_class.from_columns(columns, best, str(state.get("stopped_because", "")))
    history.columns()  # fails now, not later, if a count is not a whole number
    return history


WRITERS: dict[str, Callable[[Any], State]] = {
    "circuit": _circuit_state,
    "mixture": _mixture_state,
    "model": _model_state,
    "predictor": _predictor_state,
    "estimator": _estimator_state,
}
READERS: dict[str, Callable[[Archive], Any]] = {
    "circuit": _circuit_from_state,
    "mixture": _mixture_from_state,
    "model": _model_from_state,
    "predictor": _predictor_from_state,
    "estimator": _estimator_from_state,
}
