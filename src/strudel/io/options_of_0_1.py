"""Options of estimators in files of version 0.1, where searches and methods were not objects.

In:  the options of an estimator by their old names.
Out: the same options as this version has them.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from strudel.learning.mixture_methods import EM, METHODS, PerComponent
from strudel.learning.options import Options
from strudel.learning.search_options import SEARCHES, BestFirst, Greedy, LearnPSDD, Race, Search

RENAMED = {
    "beam_width": "width",
    "beam_selection": "selection",
    "beam_kl_threshold": "kl_threshold",
    "n_restarts": "n_init",
    "start": "init_params",
    "max_iterations": "max_iter",
}
# Which a preset took for "not given".
DEFAULTS = {"smoothing": "uniform", "pseudocount": 1.0, "patience": 100}


def options_of_0_1(class_name: str, params: dict[str, Any]) -> dict[str, Any]:
    """The options of `Strudel` and `StrudelMixture`; those of other classes are the same."""
    if class_name not in ("Strudel", "StrudelMixture") or "edge_score" not in params:
        return params
    old = {RENAMED.get(name, name): value for name, value in params.items()}
    if old.pop("respect_one_hot", True) is False and old.get("encoder") == "auto":
        from strudel.tables.encoder import TableEncoder

        old["encoder"] = TableEncoder(respect_one_hot=False)
    return _of_circuit(old) if class_name == "Strudel" else _of_mixture(old)


def encoder_options_of_0_1(options: dict[str, Any], params: Any) -> dict[str, Any]:
    """The options of an encoder, of which one was an option of the estimator."""
    if isinstance(params, dict) and params.get("respect_one_hot") is False:
        return options | {"respect_one_hot": False}
    return options


def _of_circuit(old: dict[str, Any]) -> dict[str, Any]:
    name, own = str(old.pop("search", "greedy")), _taken(old, SEARCHES.values())
    if own.get("operation_score") == "heuristic":  # which had the scores of the greedy search
        scores = ("edge_score", "variable_score", "tie_rule")
        greedy = Greedy(**{score: own[score] for score in scores if score in own})
        own["operation_score"] = "heuristic" if greedy == Greedy() else greedy
    if name == "greedy" and old.get("preset") == "accurate":  # for which "greedy" was "not given"
        name = "auto"
    search = _race(own) if name == "auto" else _made(SEARCHES.get(name, Greedy), own)
    for option, value in DEFAULTS.items():
        if old.get(option) == value:
            del old[option]
    is_open = search == (Race() if old.get("preset") == "accurate" else Greedy())
    return old if is_open else old | {"search": search}


def _race(own: dict[str, Any]) -> Race:
    """A race whose searches have the options that are not their defaults."""
    shared = {field.name: own.get(field.name) for field in fields(Search)}
    others = {name: value for name, value in own.items() if name not in shared}
    best_first, learnpsdd = _made(BestFirst, others), _made(LearnPSDD, others)
    return Race(
        best_first=None if best_first == BestFirst() else best_first,
        learnpsdd=None if learnpsdd == LearnPSDD() else learnpsdd,
        **shared,
    )


def _of_mixture(old: dict[str, Any]) -> dict[str, Any]:
    name, of_search = str(old.pop("search", "auto")), _taken(old, (Greedy, BestFirst))
    method, of_method = str(old.pop("method", "em")), _taken(old, METHODS.values())
    structure = old.pop("structure", "shared")
    is_shared, is_chosen = structure != "per_component", old.get("n_splits", "auto") == "auto"
    max_splits, most = old.pop("max_splits", None), old.get("max_components")
    if isinstance(max_splits, int) and is_chosen:
        old["n_splits"] = range(max_splits + 1)
    n_components = old.get("n_components")
    if isinstance(n_components, int) and isinstance(most, int) and n_components > most:
        del old["max_components"]  # which had no effect
    return old | {
        "method": _method(method, is_shared, of_method),
        "search": _search_of_mixture(name, of_search, is_shared and is_chosen),
    }


def _search_of_mixture(name: str, own: dict[str, Any], is_best_first: bool) -> str | Search:
    """The search; `is_best_first` says what "auto" stood for, unless greedy scores were given."""
    greedy, rows = _made(Greedy, own), own.get("structure_rows")
    is_plain = greedy == Greedy(structure_rows=rows)
    if name == "auto" and is_plain and rows is None:
        return "auto"
    if name == "best_first" or (name == "auto" and is_plain and is_best_first):
        return BestFirst(structure_rows=rows)
    return greedy


def _method(name: str, is_shared: bool, own: dict[str, Any]) -> Options:
    if own.get("init_params") == "k-means":
        own["init_params"] = "kmeans"
    if is_shared:
        return _made(METHODS.get(name, EM), own)
    is_bagged = name == "bagged_em"
    own["n_bags"] = own.get("n_bags") if is_bagged else None
    own["n_runs"] = 1 if is_bagged else own.get("n_runs") or 1
    return _made(PerComponent, own)


def _taken(old: dict[str, Any], kinds: Any) -> dict[str, Any]:
    """Take out the options that belong to objects of some classes."""
    names = {field.name for kind in kinds for field in fields(kind)}
    return {name: old.pop(name) for name in names if name in old}


def _made(kind: Any, own: dict[str, Any]) -> Any:
    known = {field.name for field in fields(kind)}
    return kind(**{name: value for name, value in own.items() if name in known})
