"""Options of estimators in files of version 0.1, where searches and methods were no objects.

In:  the options of an estimator by their old names.
Out: the same options as this version has them.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from strudel.learning.methods import EM, METHODS, BaggedEM, PerComponent
from strudel.learning.searches import SEARCHES, Beam, Greedy, Race

RENAMED = {
    "beam_width": "width",
    "beam_selection": "selection",
    "beam_kl_threshold": "kl_threshold",
    "n_restarts": "n_init",
    "start": "init_params",
    "max_iterations": "max_iter",
}
DEFAULTS = {"smoothing": ("uniform",), "pseudocount": (1.0,), "patience": (100,)}  # of `Strudel`


def options_of_0_1(class_name: str, params: dict[str, Any]) -> dict[str, Any]:
    """The options of `Strudel` and `StrudelMixture`; those of other classes are the same."""
    old = {RENAMED.get(name, name): value for name, value in params.items()}
    old.pop("respect_one_hot", None)  # belongs to the encoder now
    if class_name == "Strudel" and "edge_score" in params:
        return _of_circuit(old)
    if class_name == "StrudelMixture" and "edge_score" in params:
        return _of_mixture(old)
    return params


def _of_circuit(old: dict[str, Any]) -> dict[str, Any]:
    name = str(old.pop("search", "greedy"))
    own = _taken(old, SEARCHES.values())
    if name == "auto":
        entrants = {key: _made(SEARCHES[key], own) for key in ("best_first", "learnpsdd")}
        for entrant in entrants.values():
            entrant.set_params(sampled_rows=None, structure_rows=None)
        search: Any = Race(
            sampled_rows=own.get("sampled_rows"),
            structure_rows=own.get("structure_rows"),
            **entrants,
        )
    else:
        search = _made(SEARCHES.get(name, Greedy), own)
    for option, (value,) in DEFAULTS.items():
        if old.get(option) == value:  # which a preset took for "not given"
            del old[option]
    is_open = search == Greedy() and old.get("preset", "paper") == "accurate"
    return old | ({} if is_open else {"search": search})


def _of_mixture(old: dict[str, Any]) -> dict[str, Any]:
    name, search = str(old.pop("search", "auto")), _taken(old, (Greedy, Beam))
    structure, method = old.pop("structure", "shared"), str(old.pop("method", "em"))
    own = _taken(old, METHODS.values())
    if own.get("init_params") == "k-means":
        own["init_params"] = "kmeans"
    if structure == "per_component":
        is_bagged = method == "bagged_em"
        own["n_bags"] = own.get("n_bags") if is_bagged else None
        own["n_runs"] = 1 if is_bagged else own.get("n_runs") or 1
        made: Any = _made(PerComponent, own)
    else:
        made = _made(METHODS.get(method, EM), own)
        if isinstance(made, BaggedEM):
            made.n_bags = own.get("n_bags", 10)
    max_splits = old.pop("max_splits", None)
    if max_splits is not None and old.get("n_splits", "auto") == "auto":
        old["n_splits"] = range(int(max_splits) + 1)
    greedy = _made(Greedy, search)
    given: Any = "auto" if name == "auto" and greedy == Greedy() else greedy
    return old | {"method": made, "search": "best_first" if name == "best_first" else given}


def _taken(old: dict[str, Any], kinds: Any) -> dict[str, Any]:
    """Take out the options that belong to objects of some classes."""
    names = {field.name for kind in kinds for field in fields(kind)}
    return {name: old.pop(name) for name in names if name in old}


def _made(kind: Any, own: dict[str, Any]) -> Any:
    known = {field.name for field in fields(kind)}
    return kind(**{name: value for name, value in own.items() if name in known})
