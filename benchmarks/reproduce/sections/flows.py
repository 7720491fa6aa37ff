"""figure:flows."""

from __future__ import annotations

from typing import Any

from reproduce.content import Section, number, tables_of
from reproduce.experiments.classical import FORMS
from reproduce.pictures import BLUE, GREEN, ORANGE, RED, draw_grid
from reproduce.store import Results

COLOURS = dict(zip(FORMS, (RED, ORANGE, GREEN), strict=True))


def flows(results: Results) -> Section:
    """Q5: shared flows against the classical evaluation."""
    found = results.by_dataset("flows")
    rows = []
    for dataset, result in found.items():
        most = result["times"][-1]
        rows.append(
            [
                ("dataset", dataset),
                ("edges", number(result["edges"], 0)),
                ("rows", number(result["rows"], 0)),
                ("ms, shared flows", number(1e3 * most["shared_seconds"], 1)),
                *(
                    (f"times faster than {form}", number(most[f"{form}_ratio"], 0))
                    for form in FORMS
                ),
            ]
        )
    if not found:
        return Section()
    return Section(
        tables_of(rows, "With the most components."),
        [draw_grid("flows", "Seconds for all test rows against components", found, _draw)],
        numbers=[
            {"dataset": dataset, "edges": result["edges"], "rows": result["rows"], **one}
            for dataset, result in found.items()
            for one in result["times"]
        ],
    )


def _draw(ax: Any, result: Any) -> None:
    components = [one["components"] for one in result["times"]]
    for form, colour in COLOURS.items():
        seconds = [one[f"{form}_seconds"] for one in result["times"]]
        ax.loglog(components, seconds, color=colour, label=form, linewidth=1.1)
    seconds = [one["shared_seconds"] for one in result["times"]]
    ax.loglog(components, seconds, color=BLUE, label="shared flows", linewidth=1.4)
