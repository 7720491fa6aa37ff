"""table:peers."""

from __future__ import annotations

from typing import Any

from strudel.reproduce.content import Cell, Section, tables_of
from strudel.reproduce.store import Results


def peers(results: Results) -> Section:
    """Other densities on the same rows."""
    found = results.by_dataset("peers")
    ours = {
        "Strudel": {name: one["greedy"] for name, one in results.by_dataset("single").items()},
        "Strudel, accurate": results.by_dataset("accurate"),
        "StrudelMixture": results.by_dataset("mixture"),
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
        cells = [(label, _cell(columns.get(label), best)) for label in (*ours, *installed)]
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
        "Mean test log-likelihood and, in brackets, seconds of one core to learn. Clusters are "
        "a mixture of independent variables: k-means, then naive Bayes, with the number of "
        "clusters and the smoothing chosen on the validation rows. Packages run with the "
        "settings of their examples, each in its own process with a time limit.",
        tables_of(rows, "The best of each row is coloured."),
        notes=_absent(found),
        numbers=numbers,
    )


def _cell(one: dict[str, Any] | None, best: float | None) -> Cell:
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
