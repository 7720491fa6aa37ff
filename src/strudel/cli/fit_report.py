"""What `strudel fit` says of a fitted circuit or mixture: its size, its choices, why it stopped.

In:  a fitted estimator, and the rows it was fitted on.
Out: plain values for JSON, and the same in words; what independent columns would have reached.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from strudel._types import NONE, FloatArray, IntArray
from strudel.circuits.mixture import Mixture
from strudel.cli.fit_options import all_options, is_open
from strudel.data.lazy import is_lazy

if TYPE_CHECKING:
    from strudel.io.read_tables import Table
    from strudel.learning.options import Method
    from strudel.models.strudel import Strudel

STOPPED = {
    "patience": "validation did not improve for {patience} {steps}",
    "max_splits": "--max-splits was reached",
    "max_seconds": "time limit reached",
    "max_iter": "the limit of {max_iter} {steps} was reached",
    "n_components": "the mixture has all components it was asked for",
    "interrupted": "interrupted",
}


def options_of(model: Any) -> dict[str, Any]:
    """All options by the names of --set; those left to a preset as it completes them."""
    from strudel.learning.options import PRESETS

    options = all_options(model)
    if isinstance(getattr(model, "circuit_", None), Mixture):
        return options
    open_ones = {name for name, value in options.items() if is_open(value)}
    preset = PRESETS[options["preset"] or "paper"]
    return options | {name: value for name, value in preset.items() if name in open_ones}


def report_of(model: Any) -> dict[str, Any]:
    """Size and search of a circuit; size, choice and last EM steps of a mixture."""
    history = model.history_
    held = model.circuit_
    report: dict[str, Any] = {
        "n_vars": held.n_vars,
        "n_nodes": held.n_nodes,
        "n_edges": held.n_edges,
        "n_parameters": held.n_parameters,
        "stopped_because": history.stopped_because,
        "options": options_of(model),
    }
    if not isinstance(held, Mixture):
        return report | {
            "n_splits": int(history.n_splits[-1]),
            "best_split": int(history.n_splits[history.best]),
        }
    return report | {
        "n_components": held.n_components,
        "chosen": model.chosen_,
        "n_trials": len(model.trials_),
        "choice": explain(model),
        "n_iterations": int(history.n_iterations[-1]),
        "best_iteration": int(history.n_iterations[history.best]),
    }


def facts_of(model: Any, report: dict[str, Any]) -> dict[str, Any]:
    """The same in words."""
    stopped = STOPPED.get(report["stopped_because"], report["stopped_because"])
    if not isinstance(model.circuit_, Mixture):
        return {
            "variables": report["n_vars"],
            "nodes": report["n_nodes"],
            "edges": report["n_edges"],
            "parameters": report["n_parameters"],
            "splits": _splits_in_words(report["n_splits"], report["best_split"]),
            "stopped": stopped.format(patience=report["options"]["patience"], steps="splits"),
        }
    from strudel.learning.options import Boosting, Continuous

    method = method_of(model)
    names: dict[type[Method], str] = {Boosting: "components", Continuous: "steps"}
    steps = names.get(type(method), "EM steps")
    return {
        "variables": report["n_vars"],
        "components": report["n_components"],
        "nodes": f"{report['n_nodes']:,}, shared by all components",
        "edges": f"{report['n_edges']:,}, shared by all components",
        "parameters": report["n_parameters"],
        "choice": report["choice"],
        "stopped": stopped.format(steps=steps, **method.get_params()),
    }


def _splits_in_words(n_splits: int, best: int) -> str:
    if n_splits and not best:
        return f"{n_splits:,}, and none of them helped: more components may"
    return f"{n_splits:,}, the best after {best:,}"


def method_of(model: Strudel) -> Method:
    """How a mixture was trained; the last of several ways, if they were chosen."""
    from strudel.learning.options import EM, METHODS, Auto, Continuous, named_options

    method = named_options("method", model.method, METHODS)
    if not isinstance(method, Auto):
        return method
    has_networks = "continuous" in model.chosen_.get("shares", {})
    return Continuous() if has_networks else EM()


def explain(model: Strudel) -> str:
    """Why the mixture is as large as it is, in a sentence."""
    from strudel.learning.options import EM, Boosting, Continuous

    chosen, method = model.chosen_, method_of(model)
    if "explanation" in chosen:
        return str(chosen["explanation"])
    n_splits, size, n_runs = chosen["n_splits"], chosen["n_components"], chosen["n_runs"]
    if isinstance(method, Boosting):
        size = model.circuit_.n_components  # it may have stopped before
    runs = "bag" if getattr(method, "n_bags", None) else "run"
    words = _setting(n_splits, size, n_runs, runs)
    has_sizes = not isinstance(method, Continuous)  # which have as many components as it takes

    def setting(n_splits: int, n_components: int) -> tuple[int, int]:
        return n_splits, n_components if has_sizes else 0

    # Other kinds than the winner were tried to be averaged with it, not instead of it.
    alike = [one for one in model.trials_ if one.n_splits >= 0 and one.method != "tilted"]
    last = {setting(trial.n_splits, trial.n_components): trial for trial in alike}
    winner = last.pop(setting(n_splits, chosen["n_components"]), None)
    if winner is None or not last:
        is_as_asked = size == model.n_components and n_splits == model.max_splits
        return f"{words}, as asked" if is_as_asked else f"{words}; there was nothing to choose"
    second = max(last.values(), key=lambda trial: trial.valid)
    if winner.n_runs != n_runs or not isinstance(method, EM):  # trials only chose the setting
        tried = _setting(winner.n_splits, winner.n_components, winner.n_runs)
        words = f"{words}, learned again after {tried}"
    gap = winner.valid - second.valid
    tail = "behind" if gap >= 0.0 else "ahead, which is not sure, but larger"
    return (
        f"{words} won on validation, among {len(last) + 1} settings; next came "
        f"{_setting(second.n_splits, second.n_components, second.n_runs)}, "
        f"{abs(gap):.4f} nats per row {tail}"
    )


def _setting(n_splits: int, n_components: int, n_runs: int, runs: str = "run") -> str:
    averaged = "" if n_runs == 1 else f" x {n_runs} {runs}s"
    plural = "" if n_components == 1 else "s"
    return f"{n_components} component{plural}{averaged} on a {n_splits}-split structure"


def independent_log_likelihoods(model: Any, parts: Mapping[str, Table]) -> dict[str, float]:
    """Mean log-likelihoods of the rows of a fit if all columns were independent.

    Their values have the shares of the training rows, with one virtual row per column, and numbers
    their density within their cell. Unknown values are summed out. Partitioned tables have none, as
    they would be read once more.
    """
    from strudel.tables.column_codes import as_column_codes, column_values, complete_columns
    from strudel.tables.table_code import table_log_density

    if any(is_lazy(table.X) for table in parts.values()):
        return {}
    encoder = getattr(model, "encoder_", None)
    rows = {
        part: np.asarray(table.X if encoder is None else encoder.transform(table.X), dtype=float)
        for part, table in parts.items()
    }
    n_vars = rows["train"].shape[1]
    coded = () if encoder is None or not encoder.respect_one_hot else encoder.code_.columns
    columns = complete_columns(as_column_codes(coded), n_vars)
    values = {part: column_values(table, columns, part) for part, table in rows.items()}
    log_density: dict[str, FloatArray] = {
        part: np.zeros(len(rows[part]))
        + (0.0 if encoder is None else table_log_density(table.X, encoder.code_))
        for part, table in parts.items()
    }
    if model.held_out_rows_ is not None:
        is_held_out = np.zeros(len(rows["train"]), dtype=bool)
        is_held_out[model.held_out_rows_] = True
        for part, own_rows in (("valid", is_held_out), ("train", ~is_held_out)):
            values[part] = values["train"][:, own_rows]
            log_density[part] = log_density["train"][own_rows]
    elif not math.isnan(model.log_likelihoods_.valid):
        values.setdefault("valid", values["train"])  # too few rows to hold any out
        log_density.setdefault("valid", log_density["train"])
    log_shares = [
        _log_shares(values["train"][number], column.n_values)
        for number, column in enumerate(columns)
    ]
    found = {}
    for part, numbers in values.items():
        total = log_density[part].copy()
        for own, log_share in zip(numbers, log_shares, strict=True):
            total += np.where(own == NONE, 0.0, log_share[own])
        found[part] = float(total.mean())
    return found


def _log_shares(values: IntArray, n_values: int) -> FloatArray:
    counts = np.bincount(values[values != NONE], minlength=n_values) + 1.0 / n_values
    logs: FloatArray = np.log(counts / counts.sum())
    return logs


def in_words(seconds: dict[str, float]) -> str:
    """Seconds by what they were spent on; what took none is left out."""
    return ", ".join(f"{value:.2f} {work}" for work, value in seconds.items() if value)
