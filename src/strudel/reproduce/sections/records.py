"""table:records."""

from __future__ import annotations

from typing import Any

from strudel.reproduce.content import Cell, Section, likelihood, tables_of
from strudel.reproduce.facts import CLASSES, record
from strudel.reproduce.store import Results

SINGLE, MIXTURE = CLASSES[:2]


def records(results: Results) -> Section:
    """Our best circuit and mixture against the best that was published."""
    circuits, mixtures = results.by_dataset("accurate"), results.by_dataset("mixture")
    rows, numbers, sources = [], [], set()
    for dataset in dict.fromkeys([*circuits, *mixtures]):
        best = {name: record(dataset, name) for name in CLASSES}
        anywhere = record(dataset, MIXTURE, is_checked=False)
        circuit, mixture = circuits.get(dataset, {}), mixtures.get(dataset, {})
        unchecked = None if anywhere == best[MIXTURE] else anywhere
        ours = [
            likelihood(model.get("test"), _test(best[name]), hint=_cost(model))
            for name, model in ((SINGLE, circuit), (MIXTURE, mixture))
        ]
        rows.append(
            [
                ("dataset", dataset),
                ("our circuit", ours[0]),
                ("best deterministic structured", _cell(best[SINGLE])),
                ("our mixture", ours[1]),
                ("best structured", _cell(best[MIXTURE])),
                ("better, but not looked up", _cell(unchecked)),
                ("best tractable", _cell(best["tractable"])),
                ("best of any kind", _cell(best["any"])),
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
