"""What `strudel fit` does to learn one circuit."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from strudel.cli.commands.score import mean_log_likelihood
from strudel.cli.progress import FitProgress

if TYPE_CHECKING:
    from strudel.io.tables import Table
    from strudel.models.strudel import Strudel

NAME = "circuit"
STOPPED = {
    "patience": "validation did not improve for {patience} splits",
    "max_splits": "--max-splits was reached",
    "max_edges": "--max-edges was reached",
    "max_seconds": "--max-seconds were over",
    "interrupted": "stopped early by you",
}


def learn(
    options: dict[str, Any], parts: dict[str, Table], is_quiet: bool, checkpoint: Any = None
) -> Strudel:
    """A fitted estimator, with a live line meanwhile."""
    from strudel.models.strudel import Strudel

    model = Strudel(**options)
    valid = parts.get("valid")
    with FitProgress(model._options()[0].patience, is_quiet) as progress:
        model.fit(
            parts["train"].X,
            X_valid=None if valid is None else valid.X,
            checkpoint=checkpoint,
            callback=progress.update,
        )
    return model


def log_likelihoods(model: Strudel, parts: dict[str, Table]) -> dict[str, float]:
    """Mean log-likelihood of the training, validation and, if there are any, test rows."""
    likelihood = dict(model.log_likelihoods_._asdict())
    if "test" in parts:
        likelihood["test"] = mean_log_likelihood(model, parts["test"])
    return likelihood


def options(model: Strudel) -> dict[str, Any]:
    """The options of a model as its preset completes them."""
    search, sampled_rows = model._options()
    chosen = {field.name: getattr(search, field.name) for field in fields(search)}
    given = model.get_params(deep=False)
    return (
        given
        | {name: chosen[name] for name in given if name in chosen}
        | {"sampled_rows": sampled_rows}
    )


def report(model: Strudel) -> dict[str, Any]:
    """Size and search of a fitted model."""
    circuit, history = model.circuit_, model.history_
    return {
        "n_vars": circuit.n_vars,
        "n_nodes": circuit.n_nodes,
        "n_edges": circuit.n_edges,
        "n_parameters": circuit.n_parameters,
        "n_splits": int(history.n_splits[-1]),
        "best_split": int(history.n_splits[history.best]),
        "stopped_because": history.stopped_because,
    }


def facts(report: dict[str, Any]) -> dict[str, Any]:
    """The same in words."""
    because = report["stopped_because"]
    return {
        "variables": report["n_vars"],
        "nodes": report["n_nodes"],
        "edges": report["n_edges"],
        "parameters": report["n_parameters"],
        "splits": f"{report['n_splits']:,}, the best after {report['best_split']:,}",
        "stopped": STOPPED.get(because, because).format(patience=report["options"]["patience"]),
    }
