"""`strudel info`: what a model file holds, its structural properties certified."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strudel.cli.console import JsonOption, print_json, say, show_facts, show_table
from strudel.cli.model_files import ForceOption, ModelArgument, read_held

if TYPE_CHECKING:
    from strudel.circuits.circuit import Circuit
    from strudel.circuits.mixture import Mixture
    from strudel.tables.table_code import TableCode


def info(model: ModelArgument, force: ForceOption = False, as_json: JsonOption = False) -> None:
    """Show what a model is and how it was learned.

    The four properties are checked on the circuit itself, not read from the file; if one does
    not hold, the reason is given. For a mixture they are those of the structure that its components
    share.
    """
    from strudel.circuits.mixture import Mixture
    from strudel.io.model_file import read_provenance
    from strudel.queries.model import model_of, structure_of

    held = read_held(model, force)
    provenance = read_provenance(model, verify=not force)
    found = model_of(held.model)
    circuit = structure_of(found)
    report: dict[str, Any] = {
        "model": model,
        "kind": held.kind,
        "size": _size(circuit),
        "columns": _columns(found.table_code),
        "mixture": _mixture(found) if isinstance(found, Mixture) else {},
        "chosen": held.chosen,
        "properties": _properties(circuit),
        "learning": _learning(held.history, provenance.get("log_likelihood") or {}),
        "provenance": provenance,
    }
    if isinstance(found, Mixture) and found.n_components > 1:
        reason = f"a row can come from any of the {found.n_components} components"
        report["properties"]["deterministic as a whole"] = reason
    if as_json:
        print_json(report)
        return
    show_facts(str(model), report["size"])
    if report["columns"]:
        say()
        lines = [(c["name"], c["kind"], ", ".join(c["values"])) for c in report["columns"]]
        show_table(("column", "kind", "values"), lines)
    if report["mixture"]:
        say()
        facts = report["mixture"] | _chosen(report["chosen"])
        show_facts("Mixture, all components on this structure", facts)
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
        show_facts(
            "Learning, the last runs" if report["mixture"] else "Learning", report["learning"]
        )
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


def _columns(code: TableCode | None) -> list[dict[str, Any]]:
    """The columns of the table that a model was learned from, if they were encoded."""
    columns = () if code is None else code.columns
    return [{"name": one.name, "kind": one.kind, "values": list(one.labels)} for one in columns]


def _mixture(mixture: Mixture) -> dict[str, Any]:
    import numpy as np
    from scipy.special import entr

    weights = mixture.weights
    return {
        "components": mixture.n_components,
        "effective components": float(np.exp(entr(weights).sum())),  # all, if they weigh the same
        "largest weight": float(weights.max()),
        "smallest weight": float(weights.min()),
        "parameters of all": mixture.n_parameters,
    }


def _chosen(chosen: dict[str, Any]) -> dict[str, Any]:
    """What an estimator chose, or was asked for."""
    names = {
        "n_splits": "splits of the structure",
        "n_components": "components of one run",
        "n_runs": "runs averaged",
    }
    return {words: chosen[name] for name, words in names.items() if name in chosen}


def _properties(circuit: Circuit) -> dict[str, str | None]:
    """For each property the reason why it does not hold, or None."""
    from strudel.circuits import properties

    checks = {
        "smooth": properties.why_not_smooth,
        "decomposable": properties.why_not_decomposable,
        "structured decomposable": properties.why_not_structured_decomposable,
        "deterministic": properties.why_not_deterministic,
    }
    return {name: why_not(circuit) for name, why_not in checks.items()}


def _learning(history: Any, final: dict[str, float]) -> dict[str, Any]:
    """The end of the learning in a few numbers.

    `final` are the log-likelihoods that `strudel fit` reported. If the table had gaps, those of the
    history are of completed rows, and cannot be compared with them.
    """
    if history is None:
        return {}
    columns = history.columns()
    step = "split" if "n_splits" in columns else "iteration"
    n_steps, best = columns[f"n_{step}s"], history.best
    if len(n_steps) == 0:
        return {}
    facts = {
        f"{step}s": int(n_steps[-1]),
        f"best after {step}s": int(n_steps[best]),
        "train log-likelihood": final.get("train", float(columns["train"][best])),
        "valid log-likelihood": final.get("valid", float(columns["valid"][best])),
        "stopped because": history.stopped_because,
        "seconds": float(columns["seconds"][-1]),
    }
    if n_steps[0] == 0 and facts["valid log-likelihood"] == columns["valid"][best]:
        facts[f"valid before the first {step}"] = float(columns["valid"][0])
    return facts


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
