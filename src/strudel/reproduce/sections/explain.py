"""Where our numbers differ from the paper's, and why; and rows of means."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from strudel.reproduce.facts import read_facts

FAR = 0.01  # share of the paper's likelihood beyond which a difference is to be explained


def explain(item: str, pairs: Iterable[tuple[str, float, float]]) -> list[str]:
    """A line for every dataset whose likelihood is more than 1 % from the paper's."""
    whys = {row["dataset"]: row["why"] for row in read_facts("differences") if row["item"] == item}
    lines = []
    for dataset, ours, theirs in pairs:
        share = (ours - theirs) / abs(theirs)
        if abs(share) > FAR:
            word = "better" if share > 0 else "worse"
            why = whys.get(
                dataset.split()[0], "better is not a fault" if share > 0 else "not explained"
            )
            lines.append(
                f"**{dataset}** is {100 * abs(share):.1f} % {word} than the paper's ({ours:.3f} "
                f"against {theirs:g}): {why}."
            )
    return lines


def total_row(found: dict[str, Any], columns: tuple[str, ...]) -> list[Any]:
    """A last row that says how many datasets there are."""
    return [f"{len(found)} datasets", *([""] * len(columns))]
