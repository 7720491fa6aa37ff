"""figure:flows."""

from __future__ import annotations

from typing import Any

from strudel.reproduce.content import Section, number, tables_of
from strudel.reproduce.experiments.classical import FORMS
from strudel.reproduce.pictures import BLUE, GREEN, ORANGE, RED, draw_grid
from strudel.reproduce.store import Results

COLOURS = dict(zip(FORMS, (RED, ORANGE, GREEN), strict=True))


def flows(results: Results) -> Section:
    """Q5: shared flows against the classical evaluation."""
    found = results.by_dataset("flows")
    text = (
        "All test rows under a mixture of 1 to 100 components on the structure of the greedy "
        "search, on one core: one call of `log_likelihood`, with checking and packing the rows and "
        "finding their flows, against the value of every node for every row and component. "
        "*Logs* is the usual, safe form of the classical evaluation; *scaled* replaces logs by one "
        "power of two per vtree node; *bare* only multiplies and adds, 64 rows side by side, and "
        "underflows on some rows. All agree to 1e-9."
    )
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
        return Section(text)
    return Section(
        text,
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
