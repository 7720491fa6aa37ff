"""`strudel info`: what a model file holds, its structural properties certified."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strudel.cli.console import JsonOption, print_json, say, show_facts
from strudel.cli.models import ModelArgument, read_model

if TYPE_CHECKING:
    from strudel.circuits.circuit import Circuit
    from strudel.learning.history import History


def info(model: ModelArgument, as_json: JsonOption = False) -> None:
    """Show what a model is and how it was learned.

    The four properties are checked on the circuit itself, not read from the file; where one does
    not hold, the reason is given.
    """
    from strudel.io.model_file import read_provenance
    from strudel.queries.model import circuit_of

    held = read_model(model)
    circuit = circuit_of(held)
    report: dict[str, Any] = {
        "model": model,
        "kind": type(held).__name__,
        "size": _size(circuit),
        "properties": _properties(circuit),
        "learning": _learning(getattr(held, "history_", None)),
        "provenance": read_provenance(model),
    }
    if as_json:
        print_json(report)
        return
    show_facts(str(model), report["size"])
    say()
    show_facts(
        "Structural properties, certified",
        {
            name: "yes" if reason is None else f"no: {reason}"
            for name, reason in report["properties"].items()
        },
    )
    if report["learning"]:
        say()
        show_facts("Learning", report["learning"])
    say()
    show_facts("Provenance", _flat(report["provenance"]))


def _size(circuit: Circuit) -> dict[str, int]:
    return {
        "variables": circuit.n_vars,
        "nodes": circuit.n_nodes,
        "edges": circuit.n_edges,
        "parameters": circuit.n_parameters,
        "depth": circuit.depth,
        "vtree depth": circuit.vtree.depth,
    }


def _properties(circuit: Circuit) -> dict[str, str | None]:
    """For each property the reason why it does not hold, or None."""
    from strudel.circuits import properties

    return {
        "smooth": properties.why_not_smooth(circuit),
        "decomposable": properties.why_not_decomposable(circuit),
        "structured decomposable": properties.why_not_structured_decomposable(circuit),
        "deterministic": properties.why_not_deterministic(circuit),
    }


def _learning(history: History | None) -> dict[str, Any]:
    """The end of the search in a few numbers."""
    if history is None or len(history) == 0:
        return {}
    best = history.best
    return {
        "splits": int(history.n_splits[-1]),
        "best after splits": int(history.n_splits[best]),
        "train log-likelihood": float(history.train[best]),
        "valid log-likelihood": float(history.valid[best]),
        "valid before the first split": float(history.valid[0]),
        "stopped because": history.stopped_because,
        "seconds": float(history.seconds[-1]),
    }


def _flat(facts: dict[str, Any]) -> dict[str, Any]:
    """Nested facts as one level: groups of options in one line, everything as it was written."""
    flat: dict[str, Any] = {}
    for name, value in facts.items():
        if isinstance(value, dict):
            pairs = [f"{key}={item}" for key, item in value.items() if item is not None]
            flat[name.replace("_", " ")] = ", ".join(pairs)
        else:
            flat[name.replace("_", " ")] = value if value is None else str(value)
    return flat
