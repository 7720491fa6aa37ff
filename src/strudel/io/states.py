"""What model files hold: any of our objects as plain values and arrays.

In:  a circuit, a tree, an event, a predictor, a fitted estimator.
Out: its state, a list of objects that hold values and each other; and from the state in an
     `Archive` the object back, bit for bit, if everything in it is what it should be.

Only classes that are named here are ever made. Every field must be of the type that its class says,
and what fields must be together is checked by the classes and by `RULES`. An estimator is its
options and what it learned (`LEARNED`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from types import UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np

from strudel._types import AnyArray
from strudel.errors import FileFormatError
from strudel.io.archive import TYPES, Archive, expect
from strudel.tables.column import why_not_a_column
from strudel.tables.density import why_not_a_density, why_not_pieces
from strudel.tables.missingness import why_not_rates
from strudel.tables.schema import why_not_columns

ESTIMATORS = {
    "Strudel": "strudel.models.strudel",
    "RegressionCircuit": "strudel.models.predictor_circuits",
    "LogisticCircuit": "strudel.models.predictor_circuits",
    "StrudelClassifier": "strudel.models.classifier",
    "StrudelImputer": "strudel.models.imputer",
    "StrudelRegressor": "strudel.models.regressor",
}
PREDICTORS = ("RegressionCircuit", "LogisticCircuit")
LEARNERS = (*ESTIMATORS, "TableEncoder")
MODELS = {
    "Circuit": "strudel.circuits.circuit",
    "PredictorCircuit": "strudel.circuits.predictor",
    "Vtree": "strudel.trees.vtree",
    "ChowLiuTree": "strudel.trees.chow_liu",
    "Event": "strudel.logic.events",
    "Sdd": "strudel.logic.sdd",
}
OPTIONS = "strudel.learning.options"
CODES = {  # of encoders
    "TableCode": "strudel.tables.table_code",
    "CodedColumn": "strudel.tables.coded_column",
}
CLASSES = (  # where they live; nothing else is ever imported
    ESTIMATORS
    | MODELS
    | CODES
    | dict.fromkeys(("Greedy", "BestFirst", "LearnPSDD", "Race", "EM", "BaggedEM"), OPTIONS)
    | dict.fromkeys(("Boosting", "Continuous", "LatentTree", "Auto"), OPTIONS)
    | dict.fromkeys(("History", "MixtureHistory"), "strudel.learning.progress")
    | dict.fromkeys(("ClassTrial", "Setting"), "strudel.learning.class_models")
    | dict.fromkeys(("FillRegressions", "TargetErrors"), "strudel.learning.fill_in")
    | dict.fromkeys(("Missingness", "MissingRule", "MissingRates"), "strudel.tables.missingness")
    | dict.fromkeys(("Density", "Pieces"), "strudel.tables.density")
    | {
        "Columns": "strudel.tables.schema",
        "Column": "strudel.tables.column",
        "TableEncoder": "strudel.tables.encoder",
        "Check": "strudel.queries.pair_check",
        "LogLikelihoods": "strudel.learning.prepared_rows",
        "Trial": "strudel.learning.mixtures.choose",
        "StructureTrial": "strudel.learning.flow_predictors",
    }
)
LEARNED: dict[str, tuple[str, ...]] = {  # by estimators, and the classes that it may have
    "circuit_": ("Circuit",),
    "density_": ("Circuit",),
    "predictor_": ("PredictorCircuit",),
    "code_": ("TableCode",),
    "n_features_in_": ("int",),
    "feature_names_in_": ("ndarray",),
    "data_": ("dict", "NoneType"),
    "log_likelihoods_": ("LogLikelihoods",),
    "held_out_rows_": ("ndarray", "NoneType"),
    "history_": ("History", "MixtureHistory"),
    "chosen_": ("dict",),
    "trials_": ("list",),
    "check_": ("Check", "NoneType"),
    "regressions_": ("FillRegressions", "NoneType"),
    "classes_": ("ndarray",),
    "target_name_": ("str",),
    "alpha_": ("float",),
    "n_splits_": ("int",),
    "n_target_splits_": ("int",),
}


def _why_not_regressions(found: Any) -> str | None:
    """Why arrays are no regressions of columns, or None."""
    n, n_rounds = len(found.middle), len(found.bias)
    shapes = [own.shape for own in (found.middle, found.scale, found.weight, found.bias)]
    is_finite = all(np.isfinite(own).all() for own in (found.middle, found.scale, found.weight))
    if shapes != [(n,), (n,), (n_rounds, n, n), (n_rounds, n)] or not is_finite:
        return "its arrays do not fit together, or hold what is no number"
    return None if np.isfinite(found.bias).all() else "its bias holds what is no number"


RULES: dict[str, Callable[[Any], str | None]] = {
    "Column": why_not_a_column,
    "CodedColumn": why_not_a_column,
    "Columns": why_not_columns,
    "Density": why_not_a_density,
    "Pieces": why_not_pieces,
    "MissingRule": why_not_rates,
    "MissingRates": why_not_rates,
    "FillRegressions": _why_not_regressions,
}
MANY = 8  # numbers that are kept as an array


class NotPlainError(TypeError):
    """A value that no file holds."""


# Writing


class State:
    """The growing lists of objects and arrays."""

    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = []
        self.arrays: list[AnyArray] = []
        self.not_saved: list[str] = []  # options of the first estimator
        self._place: dict[int, tuple[int, Any]] = {}  # by identity, with the object, which stays

    def plain(self, value: Any) -> Any:
        """A value as JSON holds it, with references to objects and arrays."""
        for kind in (bool, int, float, str):
            if isinstance(value, kind):
                return kind(value)
        if value is None:
            return None
        if isinstance(value, np.generic):
            return self.plain(value.item())
        if CLASSES.get(type(value).__name__) == type(value).__module__:
            return {"$object": self._object(value)}
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, list):
            return [self.plain(item) for item in value]
        if type(value) is tuple:
            kinds = set(map(type, value)) if len(value) >= MANY else set()
            if kinds == {float} or (kinds == {int} and max(map(abs, value)) < 2**63):
                return {"$numbers": self._array(np.array(value))["$array"]}
            return {"$tuple": [self.plain(item) for item in value]}
        if isinstance(value, dict):
            if all(isinstance(key, str) and not key.startswith("$") for key in value):
                return {key: self.plain(item) for key, item in value.items()}
            return {"$items": [[self.plain(key), self.plain(own)] for key, own in value.items()]}
        if isinstance(value, range):
            return {"$range": [value.start, value.stop, value.step]}
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        raise NotPlainError(f"a file cannot hold a {type(value).__name__}")

    def _array(self, array: AnyArray) -> dict[str, Any]:
        if array.dtype.kind in "OU":
            return {"$texts": self.plain(array.tolist()), "dtype": array.dtype.kind}
        if array.dtype.kind not in "fiub":
            raise NotPlainError(f"a file cannot hold an array of {array.dtype}")
        if id(array) not in self._place:
            kept = array.dtype.str if array.dtype.str in TYPES else "<f8"
            kept = "<i8" if kept == "<f8" and array.dtype.kind != "f" else kept
            self._place[id(array)] = len(self.arrays), array
            self.arrays.append(array.astype(kept, copy=False))
        return {"$array": self._place[id(array)][0]}

    def _object(self, value: Any) -> int:
        if id(value) not in self._place:
            made = {"$of": type(value).__name__}
            made |= {name: self.plain(part) for name, part in self._parts(value).items()}
            self._place[id(value)] = len(self.objects), value
            self.objects.append(made)
        return self._place[id(value)][0]

    def _parts(self, value: Any) -> dict[str, Any]:
        name = type(value).__name__
        if name in LEARNERS:
            learned = {key: getattr(value, key) for key in LEARNED if key in vars(value)}
            return {"options": self._options(value), "learned": learned}
        if name in ("History", "MixtureHistory"):
            rest = {key: getattr(value, key) for key in ("best", "stopped_because")}
            return {"columns": value.columns()} | rest
        kind: Any = type(value)
        return {key: getattr(value, key) for key in _names(kind)}

    def _options(self, model: Any) -> dict[str, Any]:
        """Options by name, None for those that no file holds, such as a random generator."""
        options = model.get_params(deep=False)
        if hasattr(options.get("edges"), "predict"):  # what a predictor gave, not the predictor
            columns = getattr(model, "code_", ())
            edges = {own.name: list(own.edges) for own in getattr(columns, "columns", ())}
            options["edges"] = {name: own for name, own in edges.items() if own}
        for name, value in options.items():
            try:
                State().plain(value)
            except (NotPlainError, RecursionError):
                options[name] = None
                self.not_saved += [name] if type(model).__name__ in ESTIMATORS else []
        return options


@cache
def _names(kind: Any) -> tuple[str, ...]:
    """The parts of an object."""
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind) if field.init)
    return tuple(kind._fields)


# Reading


def object_of(archive: Archive) -> Any:
    """What a file holds."""
    return Reader(archive).object(archive.header.get("root"))


class Reader:
    """Objects of a file, made when they are asked for, each once."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self.states = expect(archive.header.get("objects"), list, "the list of objects")
        self._made: dict[int, Any] = {}

    def state(self, place: Any) -> tuple[str, dict[str, Any]]:
        """The class and the parts of an object."""
        if type(place) is not int or not 0 <= place < len(self.states):
            raise FileFormatError("an object is missing")
        state = dict(expect(self.states[place], dict, "an object"))
        name = expect(state.pop("$of", None), str, "the class of an object")
        if name not in CLASSES:
            raise FileFormatError(f"it holds an object of the unknown class {name!r}")
        return name, state

    def object(self, place: Any, before: int | None = None) -> Any:
        """An object, whose parts come before it."""
        name, state = self.state(place)
        if before is not None and place >= before:
            raise FileFormatError("an object is a part of itself")
        if place not in self._made:
            parts = {key: self.value(part, place) for key, part in state.items()}
            self._made[place] = _made(name, parts)
        return self._made[place]

    def value(self, content: Any, before: int) -> Any:
        """What `State.plain` was given."""
        if isinstance(content, list):
            return [self.value(item, before) for item in content]
        if not isinstance(content, dict):
            return content
        key, *more = content or [""]
        if not key.startswith("$"):
            return {name: self.value(item, before) for name, item in content.items()}
        held = content[key]
        if key == "$object":
            return self.object(held, before)
        if key in ("$array", "$numbers"):
            array = self.archive.array(expect(held, int, "the number of an array"))
            return array if key == "$array" else tuple(array.tolist())
        items = expect(held, list, "a list of values")
        if key == "$range":
            if len(items) != 3 or not all(type(n) is int for n in items) or items[2] == 0:
                raise FileFormatError("it holds a range that is damaged")
            return range(*items)
        if key == "$items":
            return {self.value(name, before): self.value(own, before) for name, own in items}
        found = [self.value(item, before) for item in items]
        if key == "$tuple":
            return tuple(found)
        if key == "$texts" and more == ["dtype"]:
            return np.array(found, dtype=object if content["dtype"] == "O" else None)
        raise FileFormatError(f"it holds a value of the unknown kind {key!r}")


def class_of(name: str) -> Any:
    """The class of a name, if it is one of ours."""
    return getattr(import_module(CLASSES[name]), name)


def _made(name: str, parts: dict[str, Any]) -> Any:
    kind = class_of(name)
    if name in LEARNERS:
        return _learner(name, kind, parts)
    if name in ("History", "MixtureHistory"):
        made = kind.from_columns(**parts)
        made.columns()  # fails now, not later, if a count is not a whole number
        return made
    wanted = _names(kind)
    if set(parts) != set(wanted):
        raise FileFormatError(f"it holds a {name} with other parts than {', '.join(wanted)}")
    if CLASSES[name] != OPTIONS:  # which a fit checks
        hints = _hints(kind)
        for key, part in parts.items():
            if not _fits(part, hints.get(key, Any)):
                raise FileFormatError(f"{key} of a {name} has another type than it should")
    made = kind(**parts)
    reason = RULES[name](made) if name in RULES else None
    if reason is not None:
        raise FileFormatError(f"it holds a {name} that is none: {reason[0].lower()}{reason[1:]}")
    return made


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a type."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is Literal:
        return value in inner
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if inner[-1] is ... and value and inner[0] in (float, int, str):  # many, usually of a kind
            kinds = set(map(type, value))
            return kinds <= ({float, int} if inner[0] is float else {inner[0]})
        if inner[-1] is ...:
            return all(_fits(item, inner[0]) for item in value)
        return len(value) == len(inner) and all(map(_fits, value, inner))
    is_alias = hasattr(origin, "__value__")  # as NumPy 2.5 has it for arrays of a type
    if origin is np.ndarray or is_alias:
        (scalar,) = inner if is_alias else get_args(inner[1]) or (Any,)
        return isinstance(value, np.ndarray) and (scalar is Any or value.dtype == scalar)
    if hint in (int, float):
        return type(value) is int or (hint is float and type(value) is float)
    return isinstance(value, hint)


# Estimators


def _learner(name: str, kind: Any, parts: dict[str, Any]) -> Any:
    """An estimator, if its options are known and what it learned fits together."""
    options = expect(parts.get("options"), dict, "the options")
    unknown = sorted(set(options) - set(kind().get_params(deep=False)))
    if unknown:
        raise FileFormatError(f"it holds options that this version does not know: {unknown}")
    model = kind(**options)
    for key, value in expect(parts.get("learned"), dict, "what was learned").items():
        if type(value).__name__ not in LEARNED.get(key, ()):
            raise FileFormatError(f"{key} of {name} is of another type than it should be")
        setattr(model, key, value)
    reason = None if not vars(model).keys() & LEARNED.keys() else _why_not_fitted(name, model)
    if reason is not None:
        raise FileFormatError(reason)
    return model


def _why_not_fitted(name: str, model: Any) -> str | None:
    """Why the parts of an estimator do not fit together, or None."""
    names = getattr(model, "feature_names_in_", None)
    if names is not None and names.shape != (getattr(model, "n_features_in_", -1),):
        return "the number of feature names is not that of the features"
    if name == "TableEncoder":
        return None
    held = "predictor_" if name in PREDICTORS else "circuit_"
    if not hasattr(model, held) or not hasattr(model, "n_features_in_"):
        return f"the {held} of {name} is missing"
    if name in PREDICTORS:
        return _why_not_predictor(model)
    columns = model.circuit_.columns
    n_inputs = len(columns) - (name in ("StrudelRegressor", "StrudelClassifier"))
    if model.n_features_in_ not in (n_inputs, n_inputs + len(columns.left_out)):
        return "the number of features is not that of the model's columns"
    if name == "StrudelRegressor" and not getattr(columns[-1], "is_numeric", False):
        return "the last column of the model is not a number"
    return _why_not_classifier(model) if name == "StrudelClassifier" else None


def _why_not_classifier(model: Any) -> str | None:
    if model.classes_.ndim != 1 or len(model.classes_) == 0:
        return "the classes are not plain values"
    of_class = model.circuit_.columns[-1]
    if sorted(map(str, of_class.values)) != sorted(map(str, model.classes_.tolist())):
        return "the last column of the model is not the class"
    return None


def _why_not_predictor(model: Any) -> str | None:
    if model.density_.vtree != model.predictor_.vtree:
        return "the density model and the predictor are on different vtrees"
    if model.predictor_.kind == "logistic":
        n_classes = len(model.classes_)
        if n_classes < 2 or model.predictor_.n_outputs != (1 if n_classes == 2 else n_classes):
            return "the number of classes is not that of the predictor's outputs"
    return None


# What is held


class HeldModel(NamedTuple):
    """A circuit or predictor, and what its estimator remembers.

    It is all that queries and pictures need: an estimator brings all that learns, which takes
    longer to load than most questions to answer.
    """

    kind: str  # the class that `load` would return
    model: Any
    chosen: dict[str, Any]
    history: Any  # None if there is none


def held_model(archive: Archive) -> HeldModel:
    """What is held, checked as in `load`; what only estimators have is not looked at."""
    reader = Reader(archive)
    root = archive.header.get("root")
    name, state = reader.state(root)
    if name not in ESTIMATORS or root is None:
        return HeldModel(name, reader.object(root), {}, None)
    learned = expect(state.get("learned"), dict, "what was learned")

    def held(key: str) -> Any:
        value = reader.value(learned.get(key), root)
        if value is not None and type(value).__name__ not in LEARNED[key]:
            raise FileFormatError(f"{key} of {name} is of another type than it should be")
        return value

    model = held("predictor_" if name in PREDICTORS else "circuit_")
    if model is None:
        raise FileFormatError(f"the model of {name} is missing")
    return HeldModel(name, model, held("chosen_") or {}, held("history_"))
