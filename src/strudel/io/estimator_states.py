"""The states of fitted estimators: that of the circuit, mixture or predictor they hold, and more.

In:  a fitted estimator.
Out: its state; and from the state in an `Archive` the estimator, if its class, its options, its
     encoder and what else the file says of it are known and fit together.
"""

from __future__ import annotations

import json
from dataclasses import fields, replace
from importlib import import_module
from typing import Any

import numpy as np

from strudel._types import AnyArray
from strudel.circuits.mixture import Mixture
from strudel.errors import FileFormatError
from strudel.io.archive import Archive, as_json, expect
from strudel.io.model_states import (
    ESTIMATORS,
    READERS,
    WRITERS,
    State,
    circuit_from_state,
    circuit_state,
    estimator_of,
    history_from,
    mixture_from_state,
    mixture_state,
    names_from,
)
from strudel.learning.options import METHODS, SEARCHES, Options
from strudel.logic.events import Event, children_first
from strudel.queries.columns.pair_check import Check
from strudel.tables.table_code import TableCode

OPTION_CLASSES: dict[str, type[Options]] = {
    kind.__name__: kind for kind in (*SEARCHES.values(), *METHODS.values())
}
CLASS, RANGE = "__class__", "__range__"  # keys of what is no plain value
MAX_EVENT_SIZE = 10**5  # parts of an event that is saved; shared ones count each time


def estimator_state(model: Any) -> State:
    """What it holds, its options, and what else it learned."""
    from sklearn.utils.validation import check_is_fitted

    place = ESTIMATORS[type(model).__name__]
    check_is_fitted(model, place.attribute)
    meta, arrays = WRITERS[place.holds](getattr(model, place.attribute))
    params, not_saved = plain_options(model)
    if "estimator" in not_saved:
        learner = learner_state(model.estimator)
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
        meta["encoder"] = encoder_options(model.encoder_)
    if hasattr(model, "chosen_"):
        meta["chosen"] = model.chosen_
    if place.holds == "predictor":
        meta["predictor"], density = _fitted_predictor_state(model)
        arrays |= density
    if hasattr(model, "component_class_"):
        meta |= {"classes": _plain_classes(model.classes_), "target_name": model.target_name_}
        if model.component_class_ is not None:
            arrays["classifier.component_class"] = model.component_class_.astype("<i4")
    if getattr(model, "regressions_", None) is not None:
        arrays |= model.regressions_.arrays()
    if hasattr(model, "history_"):
        meta["history"], columns = _history_state(model.history_)
        arrays |= columns
    if getattr(model, "check_", None) is not None:
        meta["check"], tables = _check_state(model.check_)
        arrays |= tables
    return meta, arrays


def _fitted_predictor_state(model: Any) -> State:
    """What was chosen, and the density model on the same vtree."""
    is_mixture = isinstance(model.density_, Mixture)
    write = mixture_state if is_mixture else circuit_state
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
        raise TypeError("save keeps only classes that are plain numbers or text.")
    return json.loads(text)


def _restore_classifier(model: Any, archive: Archive) -> None:
    """The classes, and which components or variables stand for them."""
    model.classes_ = np.array(expect(archive.meta.get("classes"), list, "the classes"))
    n_classes = len(model.classes_)
    if model.classes_.ndim != 1 or n_classes == 0:
        raise FileFormatError("the classes are not plain values")
    model.target_name_ = expect(archive.meta.get("target_name"), str, "the name of the class")
    model.component_class_ = None
    model.trials_ = []
    if "classifier.component_class" not in archive:
        return
    own = archive.read_array("classifier.component_class", ("<i4",))
    if (
        len(own) != model.circuit_.n_components
        or not np.array_equal(np.unique(own), np.arange(n_classes))
        or np.any(np.diff(own) < 0)
    ):
        raise FileFormatError("classifier.component_class does not give every class components")
    model.component_class_ = own


def _restore_fitted_predictor(model: Any, archive: Archive) -> None:
    from strudel.learning.flow_predictors import StructureTrial

    facts = expect(archive.meta.get("predictor"), dict, "what was chosen")
    is_mixture = expect(facts.get("density"), str, "the kind of density model") == "mixture"
    read = mixture_from_state if is_mixture else circuit_from_state
    density = read(archive, "density")
    if density.vtree != model.predictor_.vtree:
        raise FileFormatError("the density model and the predictor are on different vtrees")
    model.density_ = density.with_names(names_from(facts.get("density_names")))
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


def estimator_from_state(archive: Archive) -> Any:
    """A fitted estimator, if all that the file says of it fits together."""
    meta = archive.meta
    estimator_class = class_of(meta.get("class"))
    class_name = estimator_class.__name__
    place = ESTIMATORS[class_name]
    params = known_options(estimator_class, meta.get("params"))
    fitted = READERS[place.holds](archive)
    provenance = expect(meta.get("provenance", {}), dict, "the provenance")
    if "vtree" in provenance.get("options_not_saved", ()):  # one that was given is in the model
        params["vtree"] = fitted.vtree
    if "learner" in meta:
        params["estimator"] = learner_from(meta["learner"], fitted)
    code, n_vars = _inputs_of(fitted, archive)
    encoder = None if code is None else encoder_from(meta, code)
    if encoder is not None and "columns" in provenance.get("options_not_saved", ()):
        params["columns"] = encoder
    model = estimator_class(**params)
    setattr(model, place.attribute, fitted)
    model.n_features_in_ = expect(meta.get("n_features_in"), int, "the number of features")
    if encoder is not None:
        model.encoder_ = encoder
        model.missing_ = list(encoder.code_.missingness.rules)
    n_inputs = n_vars if code is None else code.n_columns_in
    if class_name == "StrudelRegressor":  # whose last column is the target
        if code is None or not code.columns[-1].is_numeric:
            raise FileFormatError("the last column of the model is not a number")
        model.target_name_, n_inputs = code.columns[-1].name, n_inputs - 1
    left_out = 0 if code is None else len(code.left_out)  # which an imputer may never have seen
    if model.n_features_in_ not in (n_inputs, n_inputs - left_out):
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
    if class_name in ("StrudelImputer", "StrudelRegressor"):
        _restore_regressions(model, archive)
    history = history_from(archive, fitted)
    if history is not None:
        model.history_ = history
    if meta.get("check") is not None:
        model.check_ = _check_from(archive)
    return model


def _restore_regressions(model: Any, archive: Archive) -> None:
    """What corrects the model of an imputer or regressor."""
    from strudel.learning.fill_in import FillRegressions

    model.regressions_ = None
    if "regressions.middle" not in archive:
        return
    n_axes = {"middle": 1, "scale": 1, "weight": 2, "bias": 2}
    if "regressions.errors" in archive:
        n_axes["errors"] = 1
    arrays = {
        name: archive.read_array(f"regressions.{name}", ("<f8",), n) for name, n in n_axes.items()
    }
    code = model.circuit_.table_code
    if code is None:
        raise FileFormatError("it holds regressions of columns, but no columns")
    try:
        model.regressions_ = FillRegressions.from_arrays(code.columns, **arrays)
    except ValueError as error:
        raise FileFormatError(str(error)) from None


def _inputs_of(fitted: Any, archive: Archive) -> tuple[TableCode | None, int]:
    """The code of the columns, if they have one, and the number of variables.

    Of a joint model of inputs and class, those of the inputs only.
    """
    from strudel.learning.class_models import class_codewords

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


def _check_state(check: Check) -> State:
    """The check of the training rows: names and labels, and the tables of all pairs as rows."""
    meta = {
        "names": list(check.names),
        "labels": [list(labels) for labels in check.labels],
        "n_rows": int(check.n_rows),
        "n_pairs_of_table": int(check.n_pairs_of_table),
    }
    n_pairs = len(check.pair_first)
    pairs = np.stack([check.pair_first, check.pair_second], axis=1).astype("<i4")
    arrays = {"check.pairs": pairs}
    for name, tables in (("rows", check.pair_rows), ("model", check.pair_model)):
        arrays[f"check.{name}"] = tables.reshape(n_pairs, tables.shape[1] ** 2).astype("<f8")
    return meta, arrays


def _check_from(archive: Archive) -> Check:
    state = expect(archive.meta["check"], dict, "the check")
    names = expect(state.get("names"), list, "the names of the check")
    labels = expect(state.get("labels"), list, "the labels of the check")
    pairs = archive.read_array("check.pairs", ("<i4",), 2)
    if pairs.shape[1] != 2:
        raise FileFormatError("a pair of the check is not of two columns")
    k = max((len(expect(own, list, "the labels of the check")) for own in labels), default=0)
    tables = [archive.read_array(f"check.{name}", ("<f8",), 2) for name in ("rows", "model")]
    if any(table.shape != (len(pairs), k * k) for table in tables):
        raise FileFormatError("the tables of the check do not fit its pairs and labels")
    return Check(
        tuple(names),
        tuple(map(tuple, labels)),
        np.ascontiguousarray(pairs[:, 0]),
        np.ascontiguousarray(pairs[:, 1]),
        tables[0].reshape(len(pairs), k, k),
        tables[1].reshape(len(pairs), k, k),
        expect(state.get("n_rows"), int, "the rows of the check"),
        expect(state.get("n_pairs_of_table"), int, "the pairs of the check"),
    )


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


# Options


def plain_options(model: Any) -> tuple[dict[str, Any], list[str]]:
    """The options of an estimator, and the names of those that are not plain values."""
    options = model.get_params(deep=False)
    if isinstance(options.get("constraint"), Event):
        options["constraint"] = _event_text(options["constraint"]) or options["constraint"]
    plain = {name: as_json(_to_plain(value)) for name, value in options.items()}
    params = {name: None if text is None else json.loads(text) for name, text in plain.items()}
    return params, [name for name, text in plain.items() if text is None]


def _to_plain(value: Any) -> Any:
    """A search, a training method or a range as plain values; anything else as it is."""
    if isinstance(value, Options):
        own = {name: _to_plain(one) for name, one in value.get_params(deep=False).items()}
        return {CLASS: type(value).__name__, "params": own}
    return {RANGE: [value.start, value.stop, value.step]} if isinstance(value, range) else value


def _from_plain(value: Any) -> Any:
    """What `_to_plain` was given."""
    if not isinstance(value, dict):
        return value
    if RANGE in value:
        numbers = expect(value[RANGE], list, "a range")
        if len(numbers) != 3 or not all(isinstance(n, int) for n in numbers) or not numbers[2]:
            raise FileFormatError("it holds a range that is damaged")
        return range(*numbers)
    if CLASS not in value:
        return value
    kind = OPTION_CLASSES.get(str(value[CLASS]))
    if kind is None:
        raise FileFormatError(f"it holds options of the unknown class {value[CLASS]!r}")
    own = expect(value.get("params"), dict, "the options")
    known = {field.name for field in fields(kind)}
    if not set(own) <= known:
        raise FileFormatError(f"it holds options that {kind.__name__} does not have")
    return kind(**{name: _from_plain(one) for name, one in own.items()})


def encoder_options(encoder: Any) -> dict[str, Any]:
    """Those options of an encoder that are plain values."""
    params = encoder.get_params(deep=False)
    if hasattr(params["edges"], "predict") and hasattr(encoder, "code_"):
        # The edges that a predictor gave, not the predictor.
        columns = [column for column in encoder.code_.columns if column.edges]
        params["edges"] = {column.name: list(column.edges) for column in columns}
    options = {name: as_json(value) for name, value in params.items()}
    return {name: json.loads(text) for name, text in options.items() if text is not None}


def learner_state(estimator: Any) -> dict[str, Any] | None:
    """What an imputer learns with: a class and its options, or a model that is used as it is."""
    from strudel.models.imputer import is_fitted_model

    if is_fitted_model(estimator):
        return {"is_fitted": True}  # it is the imputer's model
    place = ESTIMATORS.get(type(estimator).__name__)
    if place is None or place.module != type(estimator).__module__:
        return None
    params, _ = plain_options(estimator)
    state = {"class": type(estimator).__name__, "params": params}
    if hasattr(getattr(estimator, "columns", None), "get_params"):
        state["encoder"] = encoder_options(estimator.columns)
    return state


def learner_from(state: Any, model: Any) -> Any:
    """What an imputer learned with."""
    from strudel.tables.encoder import TableEncoder

    state = expect(state, dict, "what the imputer learned with")
    if state.get("is_fitted") is True:
        return model
    estimator_class = class_of(state.get("class"))
    params = known_options(estimator_class, state.get("params"))
    if "encoder" in state:
        params["columns"] = TableEncoder(**known_options(TableEncoder, state["encoder"]))
    return estimator_class(**params)


def class_of(name: Any) -> Any:
    """The class of an estimator by its name, if it is one of ours."""
    return getattr(import_module(estimator_of(name).module), name)


def known_options(estimator_class: Any, params: Any) -> dict[str, Any]:
    """Options from a file, if the class has all of them."""
    known: dict[str, Any] = expect(params, dict, "the options")
    known = {name: _from_plain(value) for name, value in known.items()}
    unknown = sorted(set(known) - set(estimator_class().get_params(deep=False)))
    if unknown:
        raise FileFormatError(f"it holds options that this version does not know: {unknown}")
    return known


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


def encoder_from(meta: dict[str, Any], code: TableCode) -> Any:
    """The encoder of an estimator; options of it that are not plain values have their defaults."""
    from strudel.tables.encoder import TableEncoder, fitted_encoder

    options = expect(meta.get("encoder"), dict, "the encoder")
    unknown = sorted(set(options) - set(TableEncoder().get_params()))
    if unknown:
        raise FileFormatError(f"its encoder has options that this version does not know: {unknown}")
    return fitted_encoder(TableEncoder(**options), code)
