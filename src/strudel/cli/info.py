"""`strudel info`: what a model file holds, its properties certified."""

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

    Edges are counted as the paper does, where a leaf is a sum over its possible values. Whether
    the components are deterministic is checked on the circuit itself, not read from the file; if
    not, the reason is given.
    """
    from strudel.circuits.properties import why_no_deterministic_components
    from strudel.io.model_file import read_provenance
    from strudel.queries.given import circuit_of

    held = read_held(model, force)
    provenance = read_provenance(model, verify=not force)
    circuit = circuit_of(held.model)
    columns, k = circuit.columns, circuit.n_components
    # A circuit over columns that follows its vtree has these, and no other can be made.
    reasons = dict.fromkeys(("smooth", "decomposable", "structured decomposable"))
    reasons["deterministic"] = why_no_deterministic_components(circuit)
    if k > 1:
        reasons["deterministic as a whole"] = f"a row can come from any of the {k} components"
    tell(
        {
            "model": model,
            "kind": held.kind,
            "size": {
                "variables" if columns.are_bits else "columns": len(columns),
                "nodes": circuit.n_nodes,
                "edges": circuit.size,
                "parameters": circuit.n_parameters,
                "vtree depth": circuit.vtree.depth,
            },
            "columns": [
                {"name": one.name, "kind": one.kind, "values": ", ".join(one.shown.labels)}
                for one in columns
                if not columns.are_bits
            ],
            "mixture": _mixture(circuit, held.chosen) if k > 1 else {},
            "properties": {
                name: "yes" if why is None else f"no: {why}" for name, why in reasons.items()
            },
            "learning": _learning(held.history, provenance.get("log_likelihood") or {}),
            "provenance": {name: _said(one) for name, one in provenance.items() if one is not None},
        },
        as_json,
        more={"chosen": held.chosen},
    )


def _mixture(circuit: Any, chosen: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    log_weight = circuit.log_weight[circuit.log_weight > -np.inf]
    weights = np.exp(log_weight)
    facts = {
        "components": circuit.n_components,
        # All, if they weigh the same.
        "effective components": float(np.exp(-weights @ log_weight)),
        "largest weight": float(weights.max()),
        "smallest weight": float(np.exp(circuit.log_weight.min())),
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
