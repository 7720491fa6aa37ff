"""table:records."""

from __future__ import annotations

from typing import Any

from strudel.reproduce.content import Cell, Section, likelihood, tables_of
from strudel.reproduce.facts import CLASSES, record
from strudel.reproduce.store import Results

SINGLE, MIXTURE = CLASSES[:2]
COLUMNS = (
    "dataset",
    "our circuit",
    "best deterministic structured",
    "our mixture",
    "best structured",
    "better, but not looked up",
    "best tractable",
    "best of any kind",
)


def records(results: Results) -> Section:
    """Our best circuit and mixture against the best that was published."""
    circuits, mixtures = results.by_dataset("accurate"), results.by_dataset("mixture")
    rows, numbers, sources = [], [], set()
    for dataset in dict.fromkeys([*circuits, *mixtures]):
        best = {name: record(dataset, name) for name in CLASSES}
        anywhere = record(dataset, MIXTURE, is_checked=False)
        circuit, mixture = circuits.get(dataset, {}), mixtures.get(dataset, {})
        unchecked = None if anywhere == best[MIXTURE] else anywhere
        rows.append(
            [
                dataset,
                likelihood(circuit.get("test"), _test(best[SINGLE]), hint=_cost(circuit)),
                _cell(best[SINGLE]),
                likelihood(mixture.get("test"), _test(best[MIXTURE]), hint=_cost(mixture)),
                _cell(best[MIXTURE]),
                _cell(unchecked),
                _cell(best["tractable"]),
                _cell(best["any"]),
            ]
        )
        row: dict[str, Any] = {"dataset": dataset}
        common = ("valid", "test", "edges", "seconds")
        row |= {f"circuit_{key}": circuit.get(key) for key in common}
        for key in (*common, "n_splits", "n_components", "n_runs"):
            row[f"mixture_{key}"] = mixture.get(key)
        for name, fact in best.items():
            row |= {name: _test(fact), f"{name}, of": fact["method"] if fact else None}
        numbers.append(row)
        sources |= {fact["source"] for fact in (*best.values(), unchecked) if fact}
    return Section(
        '`Strudel(preset="accurate")` and `StrudelMixture("auto")`, each within its time '
        "limit on one core. Our circuit is deterministic and structured-decomposable, our "
        "mixture structured-decomposable. Tractable models answer marginals exactly; the rest "
        "(VAEs, autoregressive networks, Bayesian networks) need not. Numbers that were "
        "not looked up in their source stand in a column of their own.",
        tables_of(
            COLUMNS,
            rows,
            "Mean test log-likelihood in nats. Our circuit is coloured against the best published "
            "deterministic structured-decomposable circuit, our mixture against the best published "
            "structured-decomposable model.",
        ),
        notes=[f"Sources: {'; '.join(sorted(sources))}."] if sources else [],
        numbers=numbers,
    )


def _test(fact: dict[str, str] | None) -> float | None:
    return None if fact is None else float(fact["test"])


def _cell(fact: dict[str, str] | None) -> Cell:
    if fact is None:
        return Cell("-")
    return Cell(f"{float(fact['test']):.2f}", "", f"{fact['method']}; {fact['source']}")


def _cost(one: dict[str, Any]) -> str:
    if not one:
        return ""
    parts = f"{one['n_components'] * one['n_runs']:,} x " if "n_runs" in one else ""
    return f"{parts}{one['edges']:,} edges, {one['seconds']:.0f} s."
