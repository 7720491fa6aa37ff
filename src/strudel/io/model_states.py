"""The states of circuits, mixtures and predictors: plain values and arrays, for a model file.

In:  a model.
Out: its state; and from the state in an `Archive` the model, every number checked.

A mixture's state is that of its structure and more.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeAlias

from strudel._types import AnyArray, FloatArray
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.circuits.normalization import why_not_a_distribution
from strudel.circuits.predictor import PredictorCircuit
from strudel.errors import ChangedFileError, FileFormatError
from strudel.io.archive import Archive, expect
from strudel.tables.coded_rows import CodedNames
from strudel.tables.table_code import TableCode
from strudel.trees.vtree import Vtree

State: TypeAlias = tuple[dict[str, Any], dict[str, AnyArray]]  # for meta.json, and the arrays

ADVICE = "verify=False reads it as it is."  # to a file that is not what was saved

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
    meta: dict[str, Any] = {"version": 1, "feature_names": circuit.feature_names}
    if circuit.table_code is not None:
        meta["table_code"] = circuit.table_code.to_dict()
    return meta, arrays


def circuit_from_state(archive: Archive, part: str = "circuit") -> Circuit:
    """The circuit of a part of the file."""
    circuit = _structure_from_state(archive, part)
    _check_parameters(archive, circuit, circuit.edge_log_theta)
    return circuit


def _check_parameters(archive: Archive, circuit: Circuit, edge_log_theta: FloatArray) -> None:
    """Refuse what is no distribution, unless a checksum says that it was saved like this."""
    if not archive.is_trusted:
        problem = why_not_a_distribution(circuit.edges, edge_log_theta, circuit.n_vars)
        if not (circuit.is_smooth and circuit.is_decomposable):
            problem = "it is not smooth and decomposable"
        if problem is not None:
            raise ChangedFileError(f"its parameters are no distribution: {problem}.", ADVICE)


def _structure_from_state(archive: Archive, part: str = "circuit") -> Circuit:
    """A circuit whose parameters may not matter."""
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
    return meta | {"version": 2}, arrays


def mixture_from_state(archive: Archive, part: str = "circuit") -> Mixture:
    """A mixture."""
    mixture = Mixture(
        _structure_from_state(archive, part),
        archive.read_array("mixture.edge_log_theta", ("<f8",), n_axes=2),
        archive.read_array("mixture.log_weight", ("<f8",)),
        archive.read_array("mixture.known", ("<f8",), n_axes=2)
        if "mixture.known" in archive
        else None,
    )
    _check_parameters(archive, mixture.structure, mixture.edge_log_theta)
    return mixture


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
    return meta | {"version": 3, "predicts": predictor.kind}, arrays


def predictor_from_state(archive: Archive) -> PredictorCircuit:
    """A regression or logistic circuit."""
    return PredictorCircuit(
        structure=_structure_from_state(archive),
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
