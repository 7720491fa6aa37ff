"""Answers as JSON: what a question gave, with warnings, or its error; whether two are the same."""

import dataclasses
import datetime
import json
import math
import warnings
from collections.abc import Mapping

import numpy as np
import pandas as pd

from golden.neutral import FOLDER
from golden.questions import questions

TOLERANCE = 1e-12  # of a number, or of what it is beyond 1


def recorded(asked, model):
    """What a question gives: an answer or an error, and warnings."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            found = {"answer": plain(asked(model))}
        except Exception as error:  # any of them is an answer
            found = {"error": f"{type(error).__name__}: {error}"}
    said = [f"{type(one.message).__name__}: {one.message}" for one in told]
    return found | ({"warnings": said} if said else {})


def plain(value):
    """A value as what JSON holds; dates as text."""
    if isinstance(value, np.generic | np.ndarray) and value.dtype.kind in "mM":
        value = value.astype("M8[us]" if value.dtype.kind == "M" else "m8[us]").astype(str)
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or value is pd.NaT:
        return None
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, datetime.date | datetime.datetime):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return str(value)
    if isinstance(value, pd.DataFrame):
        frame = {str(name): plain(list(column)) for name, column in value.items()}
        return {"index": plain(list(value.index)), "columns": frame}
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: plain(getattr(value, name)) for name in names if not name.startswith("_")}
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    raise TypeError(f"A {type(value).__name__} is no answer: ask it something.")


def difference(found, expected):
    """Where two answers are not the same, in words; None if nowhere."""
    if isinstance(expected, dict) and isinstance(found, dict) and found.keys() == expected.keys():
        pairs = [(key, found[key], expected[key]) for key in expected]
    elif isinstance(expected, list) and isinstance(found, list) and len(found) == len(expected):
        pairs = list(zip(range(len(found)), found, expected, strict=True))
    elif is_number(found) and is_number(expected):
        is_same = found == expected or (math.isnan(found) and math.isnan(expected))
        is_same = is_same or abs(found - expected) <= TOLERANCE * max(1.0, abs(expected))
        return None if is_same else f"{found!r} instead of {expected!r}"
    else:
        is_same = found == expected or are_times(found, expected)
        return None if is_same else f"{found!r} instead of {expected!r}"
    for key, one, other in pairs:
        problem = difference(one, other)
        if problem is not None:
            return f"[{key!r}]{problem if problem.startswith('[') else ': ' + problem}"
    return None


def are_times(found, expected):
    """Whether they are points in time that rounding tells apart."""
    try:
        away = datetime.datetime.fromisoformat(found) - datetime.datetime.fromisoformat(expected)
    except (TypeError, ValueError):
        return False
    return abs(away) <= datetime.timedelta(microseconds=2)


def is_number(value):
    """Whether it is a number, but no yes or no."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def read(name):
    """The golden answers of one model."""
    return json.loads((FOLDER / "answers" / f"{name}.json").read_text(encoding="utf-8"))


def write(name, model):
    """Ask one model everything and keep what it says; what has changed, one line each."""
    path = FOLDER / "answers" / f"{name}.json"
    before = read(name) if path.exists() else {}
    asked = questions(name.partition("_")[0])
    found = {question: recorded(ask, model) for question, ask in asked.items()}
    lines = [f"{json.dumps(question)}: {json.dumps(said)}" for question, said in found.items()]
    path.parent.mkdir(exist_ok=True)
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    for question in before.keys() | found.keys():
        problem = difference(found.get(question), before.get(question))
        if problem is not None:
            yield f"{name}, {question}: {problem}"
