"""`strudel info`: what a model file holds, its properties certified."""

from __future__ import annotations

from typing import Any

from strudel.cli.console import JsonOption, tell
from strudel.cli.files import ModelArgument, as_model, is_of_others, read_held


def info(model: ModelArgument, as_json: JsonOption = False) -> None:
    """Show what a model is and how it was learned.

    Edges are counted as the paper does, where a leaf is a sum over its possible values. Whether
    the components are deterministic is checked on the circuit itself, not read from the file; if
    not, the reason is given.
    """
    from strudel.circuits.properties import why_no_deterministic_components
    from strudel.io.model_file import read_provenance
    from strudel.queries.given import circuit_of

    held = read_held(model)
    provenance = {} if is_of_others(model) else read_provenance(model)
    circuit = circuit_of(as_model(held.model))
    columns, k = circuit.columns, circuit.n_components
    why_not = why_no_deterministic_components(circuit)
    # A circuit over columns that follows its vtree has these, and no other can be made.
    properties = dict.fromkeys(("smooth", "decomposable", "structured_decomposable"), "yes")
    properties["deterministic"] = "yes" if why_not is None else f"no: {why_not}"
    if k > 1:
        why_not = f"a row can come from any of the {k} components"
        properties["deterministic_as_a_whole"] = f"no: {why_not}"
    report = {
        "model": model,
        "kind": held.kind,
        "size": sizes_of(circuit) | {"vtree_depth": circuit.vtree.depth},
        "columns": [
            {"name": one.name, "kind": one.kind, "values": ", ".join(one.shown.labels)}
            for one in columns
            if not columns.are_bits
        ],
        "mixture": _mixture(circuit) if k > 1 else {},
        "chosen": held.chosen,
        "properties": properties,
        "learning": _learning(held.history, provenance.get("log_likelihood") or {}),
        "provenance": {name: one for name, one in provenance.items() if one is not None},
    }
    tell(report, as_json)


def sizes_of(circuit: Any) -> dict[str, int]:
    """How large a circuit is."""
    return {
        "n_columns": len(circuit.columns),
        "n_components": circuit.n_components,
        "n_nodes": circuit.n_nodes,
        "n_edges": circuit.size,
        "n_parameters": circuit.n_parameters,
    }


def _mixture(circuit: Any) -> dict[str, float]:
    """How evenly the components share the rows."""
    import numpy as np

    log_weight = circuit.log_weight[circuit.log_weight > -np.inf]
    weights = np.exp(log_weight)
    return {
        "effective_components": float(np.exp(-weights @ log_weight)),  # all, if they weigh the same
        "largest_weight": float(weights.max()),
        "smallest_weight": float(np.exp(circuit.log_weight.min())),
    }


def steps_of(history: Any) -> dict[str, Any]:
    """How long the learning went on, and when it was best."""
    columns = {} if history is None else history.columns()
    step = "split" if "n_splits" in columns else "iteration"
    n_steps = columns.get(f"n_{step}s", ())
    if not len(n_steps):
        return {}
    steps = {f"n_{step}s": int(n_steps[-1]), f"best_{step}": int(n_steps[history.best])}
    return steps | {"stopped_because": history.stopped_because}


def _learning(history: Any, final: dict[str, float]) -> dict[str, Any]:
    """The end of the learning in a few numbers.

    `final` are the log-likelihoods that `strudel fit` reported. If the table had missing values,
    those of the history are of completed rows, and cannot be compared with them.
    """
    steps = steps_of(history)
    for part in ("train", "valid") if steps else ():
        last = float(history.columns()[part][history.best])
        steps[f"{part}_log_likelihood"] = final.get(part, last)
    return steps | ({"seconds": float(history.columns()["seconds"][-1])} if steps else {})
