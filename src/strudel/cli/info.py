"""`strudel info`: what a model file holds, its structural properties certified."""

from __future__ import annotations

from typing import Any

from strudel.cli.console import JsonOption, tell
from strudel.cli.files import ForceOption, ModelArgument, read_held

CHOSEN = {
    "n_splits": "splits of the structure",
    "n_components": "components of one run",
    "n_runs": "runs averaged",
}


def info(model: ModelArgument, force: ForceOption = False, as_json: JsonOption = False) -> None:
    """Show what a model is and how it was learned.

    The four properties are checked on the circuit itself, not read from the file; if one does
    not hold, the reason is given. For a mixture they are those of the structure that its components
    share.
    """
    from strudel.circuits import properties
    from strudel.io.model_file import read_provenance
    from strudel.queries.model import model_of, structure_of

    held = read_held(model, force)
    provenance = read_provenance(model, verify=not force)
    found = model_of(held.model)
    circuit, n_components = structure_of(found), getattr(found, "n_components", 1)
    checks = {
        "smooth": properties.why_not_smooth,
        "decomposable": properties.why_not_decomposable,
        "structured decomposable": properties.why_not_structured_decomposable,
        "deterministic": properties.why_not_deterministic,
    }
    reasons = {name: why_not(circuit) for name, why_not in checks.items()}
    if n_components > 1:
        reason = f"a row can come from any of the {n_components} components"
        reasons["deterministic as a whole"] = reason
    columns = () if found.table_code is None else found.table_code.columns
    is_mixture = hasattr(found, "weights")
    tell(
        {
            "model": model,
            "kind": held.kind,
            "size": {
                "variables": circuit.n_vars,
                "nodes": circuit.n_nodes,
                "edges": circuit.n_edges,
                "parameters": circuit.n_parameters,
                "depth": circuit.depth,
                "vtree depth": circuit.vtree.depth,
            },
            "columns": [
                {"name": one.name, "kind": one.kind, "values": ", ".join(one.labels)}
                for one in columns
            ],
            "mixture": _mixture(found, held.chosen) if is_mixture else {},
            "properties": {
                name: "yes" if why is None else f"no: {why}" for name, why in reasons.items()
            },
            "learning": _learning(held.history, provenance.get("log_likelihood") or {}),
            "provenance": {name: _said(one) for name, one in provenance.items() if one is not None},
        },
        as_json,
        more={"chosen": held.chosen},
    )


def _mixture(mixture: Any, chosen: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    weights = mixture.weights[mixture.weights > 0.0]
    facts = {
        "components": mixture.n_components,
        # All, if they weigh the same.
        "effective components": float(np.exp(-weights @ np.log(weights))),
        "largest weight": float(weights.max()),
        "smallest weight": float(mixture.weights.min()),
        "parameters of all": mixture.n_parameters,
    }
    return facts | {words: chosen[name] for name, words in CHOSEN.items() if name in chosen}


def _learning(history: Any, final: dict[str, float]) -> dict[str, Any]:
    """The end of the learning in a few numbers.

    `final` are the log-likelihoods that `strudel fit` reported. If the table had gaps, those of the
    history are of completed rows, and cannot be compared with them.
    """
    columns = {} if history is None else history.columns()
    step = "split" if "n_splits" in columns else "iteration"
    n_steps = columns.get(f"n_{step}s", ())
    if not len(n_steps):
        return {}
    best, first = history.best, float(columns["valid"][0])
    facts = {
        f"{step}s": int(n_steps[-1]),
        f"best after {step}s": int(n_steps[best]),
        "train log-likelihood": final.get("train", float(columns["train"][best])),
        "valid log-likelihood": final.get("valid", float(columns["valid"][best])),
        "stopped because": history.stopped_because,
        "seconds": float(columns["seconds"][-1]),
    }
    if n_steps[0] == 0 and facts["valid log-likelihood"] == columns["valid"][best]:
        facts[f"valid before the first {step}"] = first
    return facts


def _said(fact: Any) -> Any:
    """Groups of options in one line, everything as it was written."""
    if isinstance(fact, dict):
        return ", ".join(f"{key}={item}" for key, item in fact.items() if item is not None)
    return fact if fact is None else str(fact)
