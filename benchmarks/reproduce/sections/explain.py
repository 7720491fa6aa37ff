"""Notes: where our numbers differ from the paper's and why, and which searches hit a limit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reproduce.facts import why_of

FAR = 0.01  # share of the paper's likelihood; larger differences are explained


def explain(item: str, pairs: Iterable[tuple[str, float, float]]) -> list[str]:
    """Notes on the datasets whose likelihood is more than 1 % from the paper's.

    Those that are better without a reason of their own share one note.
    """
    whys = why_of(item)
    lines, better = [], []
    for dataset, ours, theirs in pairs:
        share = (ours - theirs) / abs(theirs)
        if abs(share) <= FAR:
            continue
        own = whys.get(dataset.split()[0])
        if share > 0 and own is None:
            better.append(f"{dataset} {100 * share:.1f} %")
            continue
        word = "better" if share > 0 else "worse"
        lines.append(
            f"**{dataset}** is {100 * abs(share):.1f} % {word} than the paper's ({ours:.3f} "
            f"against {theirs:g}): {own or 'not explained'}."
        )
    if better:
        why = f" {whys['*']}." if "*" in whys else ""
        lines.append(f"**Better than the paper's**: {', '.join(better)}.{why}")
    return lines


def cut_runs(found: Iterable[tuple[str, str, dict[str, Any]]]) -> list[str]:
    """A note on the searches that a time or size limit ended: dataset, search, run."""
    cut = [
        f"{search} on {dataset} ({run['stopped_because'].removeprefix('max_')})"
        for dataset, search, run in found
        if run["stopped_because"] in ("max_seconds", "max_edges")
    ]
    return [f"Stopped by a limit before they had converged: {', '.join(cut)}."] if cut else []
