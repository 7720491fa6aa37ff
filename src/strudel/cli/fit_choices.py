"""What the options of `strudel fit` choose from, and what they mean to an estimator."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any, get_args

from strudel.cli.console import InputError


class EdgeScore(StrEnum):
    """Which edge to split."""

    flow = "flow"
    random = "random"


class VariableScore(StrEnum):
    """On which variable to split it."""

    mutual_information = "mutual_information"
    random = "random"
    gain = "gain"


class Search(StrEnum):
    """How to search."""

    greedy = "greedy"
    best_first = "best_first"
    beam = "beam"
    learnpsdd = "learnpsdd"
    auto = "auto"


class Copies(StrEnum):
    """How far an operation of LearnPSDD copies."""

    minimal = "minimal"
    depth = "depth"
    complete = "complete"


class OperationScore(StrEnum):
    """What LearnPSDD calls best."""

    per_edge = "per_edge"
    gain = "gain"


class Preset(StrEnum):
    """What options stand for that are not given."""

    paper = "paper"
    fast = "fast"
    accurate = "accurate"


class Smoothing(StrEnum):
    """What parameters are drawn to."""

    uniform = "uniform"
    hierarchical = "hierarchical"


class BeamSelection(StrEnum):
    """The likelihood by which circuits stay in the beam."""

    train = "train"
    valid = "valid"


class Encode(StrEnum):
    """How columns that are not 0/1 become variables."""

    auto = "auto"


class Init(StrEnum):
    """The circuit before the first split."""

    chow_liu = "chow_liu"
    independent = "independent"


def read_search(
    search: Search | None,
    preset: Preset,
    smoothing: Smoothing,
    beam: dict[str, Any],
    learnpsdd: dict[str, Any],
    is_mixture: bool,
) -> dict[str, Any]:
    """Options of the estimator that say how to search, from those of the command."""
    given: dict[str, Any] = {}
    for kind, prefix, options in ((Search.beam, "beam_", beam), (Search.learnpsdd, "", learnpsdd)):
        mine = {prefix + name: value for name, value in options.items() if value is not None}
        if mine and search is not kind:
            option = next(iter(mine)).replace("_", "-")
            raise InputError(f"--{option} goes with --search {kind}.")
        given |= {name: getattr(value, "value", value) for name, value in mine.items()}
    if is_mixture:
        for name, value, allowed in (
            ("search", search, (None, Search.greedy, Search.best_first, Search.auto)),
            ("preset", preset, (Preset.paper,)),
            ("smoothing", smoothing, (Smoothing.uniform,)),
        ):
            if value not in allowed:
                raise InputError(f"--{name} {value} is for single circuits, not for mixtures.")
        return {} if search is None else {"search": search.value}
    search = search or Search.greedy
    chosen = {"search": search.value, "preset": preset.value, "smoothing": smoothing.value}
    return chosen | given


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
