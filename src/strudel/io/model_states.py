"""The states of circuits, mixtures and predictors: plain values and arrays, for a model file.

In:  a model.
Out: its state; and from the state in an `Archive` the model, every number checked. `HeldModel` is
     what a file holds without its estimator, and all that queries and pictures need: an estimator
     brings scikit-learn, which takes longer to load than most questions to answer.

A mixture's state is that of its structure and more.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from strudel._types import AnyArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.circuits.predictor import PredictorCircuit
from strudel.errors import FileFormatError
from strudel.io.archive import Archive, expect
from strudel.tables.table_code import CodedNames, TableCode
from strudel.trees.vtree import Vtree

State: TypeAlias = tuple[dict[str, Any], dict[str, AnyArray]]  # for meta.json, and the arrays

# Circuits

_CIRCUIT_ARRAYS = {  # the type of an array, and where a circuit has it
    "vtree_left": ("<i4", "vtree.node_left"),
    "vtree_right": ("<i4", "vtree.node_right"),
    "vtree_var": ("<i4", "vtree.node_var"),
    "node_vtree": ("<i4", "node_vtree"),
    "node_edges": ("<i4", "node_edges"),
    "edge_left": ("<i4", "edge_left"),
    "edge_right": ("<i4", "edge_right"),
    "edge_log_theta": ("<f8", "edge_log_theta"),
}


def circuit_state(circuit: Circuit, part: str = "circuit") -> State:
    """Vtree, nodes, edges and parameters, under the name of a part of the file."""
    arrays = {
        f"{part}.{name}": attrgetter(place)(circuit).astype(dtype)
        for name, (dtype, place) in _CIRCUIT_ARRAYS.items()
    }
    meta: dict[str, Any] = {"feature_names": circuit.feature_names}
    if circuit.table_code is not None:
        meta["table_code"] = circuit.table_code.to_dict()
    return meta, arrays


def circuit_from_state(archive: Archive, part: str = "circuit") -> Circuit:
    """The circuit of a part of the file."""
    arrays = {
        name: archive.read_array(f"{part}.{name}", (dtype,))
        for name, (dtype, _) in _CIRCUIT_ARRAYS.items()
    }
    vtree = Vtree(*(arrays.pop(f"vtree_{side}") for side in ("left", "right", "var")))
    return Circuit(vtree, **arrays, feature_names=_names(archive))


def _names(archive: Archive) -> tuple[str, ...] | None:
    return names_from(archive.meta.get("feature_names"), archive.meta.get("table_code"))


def names_from(names: Any, code: Any = None) -> tuple[str, ...] | None:
    """Feature names of a circuit, or None; with a table's code, if there is one."""
    if names is None:
        return None
    if not all(isinstance(name, str) for name in expect(names, list, "the feature names")):
        raise FileFormatError("some feature names are not text")
    if code is None:
        return tuple(names)
    return CodedNames(TableCode.from_dict(expect(code, dict, "the table's code")), tuple(names))


# Mixtures


def mixture_state(mixture: Mixture, part: str = "circuit") -> State:
    """The structure, a column of parameters per component, and the weights."""
    meta, arrays = circuit_state(mixture.structure, part)
    arrays["mixture.edge_log_theta"] = mixture.edge_log_theta.astype("<f8")
    arrays["mixture.log_weight"] = mixture.log_weight.astype("<f8")
    if mixture.known is not None:
        arrays["mixture.known"] = mixture.known.astype("<f8")
    return meta, arrays


def mixture_from_state(archive: Archive, part: str = "circuit") -> Mixture:
    """A mixture."""
    return Mixture(
        circuit_from_state(archive, part),
        archive.read_array("mixture.edge_log_theta", ("<f8",), n_axes=2),
        archive.read_array("mixture.log_weight", ("<f8",)),
        archive.read_array("mixture.known", ("<f8",), n_axes=2)
        if "mixture.known" in archive
        else None,
    )


# Either


def model_state(model: Circuit | Mixture) -> State:
    """A circuit or a mixture, and which of them it is."""
    if not isinstance(model, Mixture):
        return circuit_state(model)
    meta, arrays = mixture_state(model)
    return meta | {"is_mixture": True}, arrays


def model_from_state(archive: Archive) -> Circuit | Mixture:
    """Whichever it was."""
    if archive.meta.get("is_mixture") is True:
        return mixture_from_state(archive)
    return circuit_from_state(archive)


# Predictors


def predictor_state(predictor: PredictorCircuit) -> State:
    """The structure, and the weights of literals and edges."""
    meta, arrays = circuit_state(predictor.structure)
    arrays["predictor.literal_weight"] = predictor.literal_weight.astype("<f8")
    arrays["predictor.edge_weight"] = predictor.edge_weight.astype("<f8")
    arrays["predictor.bias"] = predictor.bias.astype("<f8")
    return meta | {"predicts": predictor.kind}, arrays


def predictor_from_state(archive: Archive) -> PredictorCircuit:
    """A regression or logistic circuit."""
    return PredictorCircuit(
        structure=circuit_from_state(archive),
        literal_weight=archive.read_array("predictor.literal_weight", ("<f8",), n_axes=2),
        edge_weight=archive.read_array("predictor.edge_weight", ("<f8",), n_axes=2),
        bias=archive.read_array("predictor.bias", ("<f8",)),
        kind=archive.meta.get("predicts"),  # type: ignore[arg-type]
    )


WRITERS: dict[str, Callable[[Any], State]] = {
    "circuit": circuit_state,
    "mixture": mixture_state,
    "model": model_state,
    "predictor": predictor_state,
}
READERS: dict[str, Callable[[Archive], Any]] = {
    "circuit": circuit_from_state,
    "mixture": mixture_from_state,
    "model": model_from_state,
    "predictor": predictor_from_state,
}


# What an estimator holds


class Estimator(NamedTuple):
    """Where the class of an estimator lives, and what a fitted one holds."""

    module: str
    holds: str = "model"  # a circuit or a mixture; or "predictor"

    @property
    def attribute(self) -> str:
        """Where the estimator keeps it."""
        return "predictor_" if self.holds == "predictor" else "circuit_"


ESTIMATORS = {  # nothing else is ever imported
    "Strudel": Estimator("strudel.models.strudel"),
    "RegressionCircuit": Estimator("strudel.models.predictor_circuits", "predictor"),
    "LogisticCircuit": Estimator("strudel.models.predictor_circuits", "predictor"),
    "StrudelClassifier": Estimator("strudel.models.classifier"),
    "StrudelImputer": Estimator("strudel.models.imputer"),
    "StrudelRegressor": Estimator("strudel.models.regressor"),
}


def estimator_of(name: Any) -> Estimator:
    """What is known of an estimator by the name of its class, if it is one of ours."""
    class_name = expect(name, str, "the class of the estimator")
    if class_name not in ESTIMATORS:
        raise FileFormatError(f"it holds an estimator of the unknown class {class_name!r}")
    return ESTIMATORS[class_name]


class HeldModel(NamedTuple):
    """A circuit, mixture or predictor, and what its estimator remembers."""

    kind: str  # the class that `load` would return
    model: Any
    chosen: dict[str, Any]
    history: Any  # None if there is none


def held_model(archive: Archive) -> HeldModel:
    """What is held, checked as in `load`; what only estimators have is not looked at."""
    meta = archive.meta
    if meta["kind"] != "estimator":
        model = READERS[meta["kind"]](archive)
        return HeldModel(type(model).__name__, model, {}, None)
    place = estimator_of(meta.get("class"))
    chosen = {} if meta.get("chosen") is None else expect(meta["chosen"], dict, "what was chosen")
    model = READERS[place.holds](archive)
    return HeldModel(meta["class"], model, chosen, history_from(archive, model))


def history_from(archive: Archive, model: Any) -> Any:
    """The history of a fit, None if there is none."""
    if archive.meta.get("history") is None:
        return None
    state = expect(archive.meta["history"], dict, "the history")
    from strudel.learning.progress import History, MixtureHistory

    history_class = MixtureHistory if isinstance(model, Mixture) else History
    names = expect(state.get("columns"), list, "the columns of the history")
    columns = {name: archive.read_array(f"history.{name}", ("<f8", "<i8")) for name in names}
    best = expect(state.get("best"), int, "the best row of the history")
    history = history_class.from_columns(columns, best, str(state.get("stopped_because", "")))
    history.columns()  # fails now, not later, if a count is not a whole number
    return history
