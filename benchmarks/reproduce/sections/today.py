"""table:records and table:peers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reproduce.content import Cell, Section, likelihood, tables_of
from reproduce.facts import CLASSES, record
from reproduce.store import Results

SINGLE, MIXTURE = CLASSES[:2]
SPREAD = ("n_seeds", "spread")


def records(results: Results) -> Section:
    """Our best circuit and mixture against the best that was published."""
    circuits, mixtures = results.means("accurate"), results.means("mixture")
    rows, numbers, sources = [], [], set()
    for dataset in dict.fromkeys([*circuits, *mixtures]):
        best = {name: record(dataset, name) for name in CLASSES}
        anywhere = record(dataset, MIXTURE, is_checked=False)
        circuit, mixture = circuits.get(dataset, {}), mixtures.get(dataset, {})
        unchecked = None if anywhere == best[MIXTURE] else anywhere
        ours = [
            _with_spread(likelihood(model.get("test"), _test(best[name]), hint=_cost(model)), model)
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
        row |= {f"circuit_{key}": circuit.get(key) for key in (*common, *SPREAD)}
        for key in (*common, "n_splits", "n_components", "n_runs", "network_share", *SPREAD):
            row[f"mixture_{key}"] = mixture.get(key)
        for name, fact in best.items():
            row |= {name: _test(fact), f"{name}, of": fact["method"] if fact else None}
        numbers.append(row)
        sources |= {fact["source"] for fact in (*best.values(), unchecked) if fact}
    return Section(
        tables_of(
            rows,
            "Mean test log-likelihood in nats. Our circuit is coloured against the best published "
            "deterministic structured-decomposable circuit, our mixture against the best published "
            "structured-decomposable model. Of several seeds: mean and standard deviation.",
        ),
        notes=[f"Sources: {'; '.join(sorted(sources))}."] if sources else [],
        numbers=numbers,
    )


def _with_spread(cell: Cell, model: dict[str, Any]) -> Cell:
    spread = model.get("spread")
    return cell if spread is None else replace(cell, text=f"{cell.text} ± {spread:.3f}")


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


def peers(results: Results) -> Section:
    """Other densities on the same rows."""
    found = results.by_dataset("peers")
    ours = {
        "Strudel": {name: one["greedy"] for name, one in results.by_dataset("single").items()},
        "Strudel, accurate": results.by_dataset("accurate"),
        "Strudel, mixture": results.by_dataset("mixture"),
    }
    labels = list(dict.fromkeys(label for one in found.values() for label in one["peers"]))
    installed = [
        label for label in labels if any("test" in one["peers"][label] for one in found.values())
    ]
    rows, numbers = [], []
    for dataset, result in found.items():
        columns = {label: by_name[dataset] for label, by_name in ours.items() if dataset in by_name}
        columns |= {label: result["peers"][label] for label in installed}
        best = max((one["test"] for one in columns.values() if "test" in one), default=None)
        cells = [(label, _peer(columns.get(label), best)) for label in (*ours, *installed)]
        rows.append([("dataset", dataset), *cells])
        numbers += [
            {
                "dataset": dataset,
                "model": label,
                "test": one.get("test"),
                "seconds": one.get("seconds"),
                "absent": one.get("absent"),
            }
            for label, one in (columns | result["peers"]).items()
        ]
    return Section(
        tables_of(rows, "The best of each row is coloured."),
        notes=_absent(found),
        numbers=numbers,
    )


def _peer(one: dict[str, Any] | None, best: float | None) -> Cell:
    if one is None or "test" not in one:
        return Cell("-", "", "" if one is None else one.get("absent", ""))
    seconds = one["seconds"]
    time = f"{seconds:.0f}" if seconds >= 10 else f"{seconds:.2g}"
    return Cell(f"{one['test']:.3f} ({time} s)", "better" if one["test"] == best else "")


def _absent(found: dict[str, Any]) -> list[str]:
    """Which packages gave nothing, and why."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for dataset, result in found.items():
        for label, one in result["peers"].items():
            if "absent" in one:
                reasons.setdefault((label, one["absent"]), []).append(dataset)
    return [
        f"**{label}**: {reason}" + ("." if len(names) == len(found) else f" ({', '.join(names)}).")
        for (label, reason), names in reasons.items()
    ]
