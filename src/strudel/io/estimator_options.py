"""The classes and options of estimators, encoders and what imputers learn with, in a model file.

In:  an estimator, or what a file says of one.
Out: plain values; and the class, its options or its encoder, if all of them are known.
"""

from __future__ import annotations

import json
from dataclasses import fields
from importlib import import_module
from typing import Any

from strudel.errors import FileFormatError
from strudel.io.archive import as_json, expect
from strudel.io.held_models import ESTIMATORS, estimator_of
from strudel.learning.mixture_methods import METHODS
from strudel.learning.options import Options
from strudel.learning.search_options import SEARCHES
from strudel.logic.events import Event, children_first
from strudel.tables.table_code import TableCode

OPTION_CLASSES: dict[str, type[Options]] = {
    kind.__name__: kind for kind in (*SEARCHES.values(), *METHODS.values())
}
CLASS, RANGE = "__class__", "__range__"  # keys of what is no plain value
MAX_EVENT_SIZE = 10**5  # parts of an event that is saved; shared ones count each time


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
