"""The options of `strudel fit` as an estimator: common ones by their own names, the rest by --set.

In:  what was typed, such as ``--search learnpsdd --set search.copies=minimal``.
Out: an estimator that is not fitted; and, of a fitted one, all options by the names of --set.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

import typer

from strudel.cli.console import InputError

if TYPE_CHECKING:
    from strudel.models.classifier import StrudelClassifier
    from strudel.models.strudel import Strudel

# Options of estimators that have an option of the command: --set does not take them.
FLAGS = {
    "n_components": "--components",
    "preset": "--preset",
    "search": "--search",
    "method": "--method",
    "vtree": "--vtree",
    "max_splits": "--max-splits",
    "max_seconds": "--max-seconds",
    "constraint": "--constraint",
    "random_state": "--seed",
}
NOT_HERE = ("verbose",)  # means nothing to a command that shows progress itself
# The objects that an option may stand for by their names, and which one it is by default.
Choices: TypeAlias = Mapping[str, tuple[Mapping[str, Any], str]]
WORDS = {"true": True, "false": False, "none": None}
FOR_CLASSIFIERS = (
    "data",
    "output",
    "test",
    "edges",
    "drop",
    "target",
    "components",
    "max_splits",
    "method",
    "settings",
    "seed",
    "as_json",
    "quiet",
)


class Preset(StrEnum):
    """What options stand for that are not given."""

    paper = "paper"
    fast = "fast"
    accurate = "accurate"


class Search(StrEnum):
    """How the structure grows."""

    greedy = "greedy"
    best_first = "best_first"
    learnpsdd = "learnpsdd"
    race = "race"


class Method(StrEnum):
    """How a mixture is trained, or what a classifier is."""

    auto = "auto"
    em = "em"
    bagged_em = "bagged_em"
    boosting = "boosting"
    continuous = "continuous"
    per_class = "per_class"
    joint = "joint"
    logistic = "logistic"


def density_estimator(given: Mapping[str, Any], settings: list[str]) -> Strudel:
    """One circuit, or a mixture of them."""
    from strudel.learning.options import METHODS, PRESETS, SEARCHES, BestFirst, Greedy
    from strudel.models.strudel import Strudel

    preset, size = given.get("preset"), given.get("n_components", "auto")
    if size == 1 or (size == "auto" and preset == "paper"):
        if "method" in given:
            raise InputError("--method is for mixtures: leave it out, or give --components 20.")
        default = PRESETS[preset or "paper"]["search"]
        return _with_settings(Strudel(**given), settings, {"search": (SEARCHES, default)})
    if given.get("search", "greedy") not in ("greedy", "best_first"):
        raise InputError(
            f"--search {given['search']} is for single circuits: add --components 1, or let the "
            "structure of a mixture grow by greedy or best_first."
        )
    if given.get("method", "em") not in METHODS:
        raise InputError(
            f"--method {given['method']} is for classifiers: a mixture is trained by "
            f"{', '.join(METHODS)}."
        )
    # What "auto" means to a mixture, unless options of the greedy search are given.
    own = {text.partition("=")[0].strip().removeprefix("search.") for text in settings}
    is_greedy = bool(own & (Greedy().get_params().keys() - BestFirst().get_params().keys()))
    is_greedy |= "max_splits" in given
    choices: Choices = {
        "search": (SEARCHES, "greedy" if is_greedy or preset == "paper" else "best_first"),
        "method": (METHODS, given.get("method", "em")),
    }
    return _with_settings(Strudel(**given), settings, choices)


def classifier_estimator(given: Mapping[str, Any], settings: list[str]) -> StrudelClassifier:
    """A classifier."""
    from strudel.models.classifier import METHODS, StrudelClassifier

    if given.get("method", METHODS[0]) not in METHODS:
        raise InputError(
            f"--method {given['method']} is for mixtures: a classifier is "
            f"{', '.join(METHODS[:-1])} or {METHODS[-1]}."
        )
    options = {"n_components": "auto", **given}
    return _with_settings(StrudelClassifier(**options), settings, {})


def check_for_classifier(context: typer.Context) -> None:
    """Refuse options that would be ignored."""
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        is_given = source is not None and source.name not in ("DEFAULT", "DEFAULT_MAP")
        if is_given and name not in FOR_CLASSIFIERS:
            raise InputError(
                f"{parameter.opts[0]} is not for classifiers, which choose by cross-validation: "
                "leave it out, or leave out --target."
            )


def _with_settings(model: Any, settings: list[str], choices: Choices) -> Any:
    """The estimator with what --set says."""
    given: dict[str, Any] = {}
    for text in settings:
        name, value = _parse(text)
        if name in given:
            raise InputError(f"--set gives {name!r} twice.")
        if name in FLAGS:
            raise InputError(f"--set {name}: use {FLAGS[name]} instead.")
        if name == "columns.edges" and hasattr(model.columns, "edges"):
            raise InputError("--edges and --set columns.edges mean the same: leave out one.")
        given[name] = value
    for name in dict.fromkeys(name.partition(".")[0] for name in given if "." in name):
        held: Any = getattr(model, name, None)
        if name in choices and not hasattr(held, "get_params"):
            kinds, default = choices[name]
            setattr(model, name, kinds[default if is_open(held) else held]())
        elif name == "columns":
            model.columns = _encoder(model)
    for name in given:
        _, *inner, _ = f".{name}".split(".")  # such as search.learnpsdd.copies, of a race
        if len(inner) > 1 and getattr(getattr(model, inner[0]), inner[1], name) is None:
            kinds, _ = choices[inner[0]]
            setattr(getattr(model, inner[0]), inner[1], kinds[inner[1]]())
    known = dict(_options_of(model))
    for name, value in given.items():
        if name not in known or name in NOT_HERE:
            raise InputError(_unknown(name, model, choices))
        model.set_params(**{name.replace(".", "__"): value})
    for name in choices:
        if hasattr(getattr(model, name), "check"):
            getattr(model, name).check()  # before any table is read
    return model


def is_open(value: Any) -> bool:
    """Whether an option is left to its preset, or to be chosen."""
    return value is None or (isinstance(value, str) and value == "auto")


def _parse(text: str) -> tuple[str, Any]:
    name, sign, value = (part.strip() for part in text.partition("="))
    if not sign or not name:
        raise InputError(f"--set must be like search.copies=minimal, but is {text!r}.")
    return name, _literal(value)


def _literal(text: str) -> Any:
    """A Python literal, or the text itself."""
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _encoder(model: Any) -> Any:
    """The encoder, as an object whose options can be set."""
    from strudel.models.classifier import StrudelClassifier
    from strudel.tables.encoder import TableEncoder

    if isinstance(model.columns, TableEncoder):
        return model.columns
    return TableEncoder(unknown="missing" if isinstance(model, StrudelClassifier) else "warn")


def _unknown(name: str, model: Any, choices: Choices) -> str:
    """What to say of a name that no option has."""
    from strudel._names import did_you_mean

    first, _, rest = name.partition(".")
    if rest and first in choices:
        kinds, _ = choices[first]
        owners = [kind for kind, make in kinds.items() if rest in make().get_params()]
        if owners:
            names = " or ".join(filter(None, [", ".join(owners[:-1]), owners[-1]]))
            return (
                f"--set {name} goes with {FLAGS[first]} {names}, not with "
                f"{_name_of(getattr(model, first))}."
            )
    return f"--set: there is no option {name!r}. {did_you_mean(name, settable(model, choices))}"


def settable(model: Any, choices: Choices) -> list[str]:
    """All names that --set takes for an estimator."""
    names = [name for name, _ in _options_of(model)]
    for first, (kinds, default) in choices.items():
        held: Any = getattr(model, first)
        if not hasattr(held, "get_params"):
            made = kinds[default if is_open(held) else held]()
            names += [f"{first}.{option}" for option in made.get_params()]
    return [name for name in names if name not in FLAGS and name not in NOT_HERE]


def all_options(model: Any) -> dict[str, Any]:
    """All options of an estimator, by the names of --set; objects by their names."""
    return {
        name: _name_of(value) if hasattr(value, "get_params") else value
        for name, value in _options_of(model)
    }


def _options_of(model: Any) -> Iterator[tuple[str, Any]]:
    for name, value in model.get_params(deep=True).items():
        yield name.replace("__", "."), value


def _name_of(held: Any) -> str:
    """The name that stands for a search or a method; that of the class of anything else."""
    from strudel.learning.options import METHODS, SEARCHES

    kinds = {kind: name for name, kind in (SEARCHES | METHODS).items()}
    return kinds.get(type(held), type(held).__name__)


def read_size(text: str, option: str) -> int | str | list[int]:
    """A whole number of at least 1, several of them, or auto."""
    if text.strip().lower() == "auto":
        return "auto"
    sizes = [part.strip() for part in text.split(",")]
    if not all(size.isdecimal() and int(size) >= 1 for size in sizes):
        raise InputError(
            f"{option} must be auto, a whole number of at least 1, or several such as 5,10, but "
            f"is {text!r}."
        )
    return [int(size) for size in sizes] if len(sizes) > 1 else int(sizes[0])


def read_edges(texts: list[str]) -> dict[str, list[Any]]:
    """Bounds by column, from ``age=18,65``."""
    bounds: dict[str, list[Any]] = {}
    for text in texts:
        name, sign, values = text.partition("=")
        cells = [value.strip() for value in values.split(",") if value.strip()]
        if not sign or not cells or name.strip() in bounds:
            raise InputError(f"--edges must be like age=18,65, once per column, but is {text!r}.")
        bounds[name.strip()] = [_bound(cell) for cell in cells]
    return bounds


def _bound(text: str) -> Any:
    """A number, or a date as text."""
    try:
        return float(text)
    except ValueError:
        return text


def read_vtree(text: str) -> Any:
    """The name of a method, or the vtree of a file."""
    from strudel.io.read_write import read
    from strudel.trees.vtree import Vtree
    from strudel.trees.vtree_learning import VtreeMethod

    if text in (*get_args(VtreeMethod), "auto"):
        return text
    if not Path(text).is_file():
        names = ", ".join((*get_args(VtreeMethod), "auto"))
        raise InputError(f"--vtree must be one of {names}, or a .vtree file, but is {text!r}.")
    vtree = read(text)
    if not isinstance(vtree, Vtree):
        raise InputError(f"{text} holds a {type(vtree).__name__}, not a vtree.")
    return vtree
