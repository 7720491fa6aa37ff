"""figure:heuristics."""

from __future__ import annotations

from typing import Any

import numpy as np

from strudel.reproduce.content import Row, Section, Table, Tone, number, seconds_cell, tables_of
from strudel.reproduce.pictures import BLUE, INK, RED, draw_row
from strudel.reproduce.sections.explain import cut_runs
from strudel.reproduce.sections.starts import STOPPING, curve_rows, grid_picture, mean_picture
from strudel.reproduce.store import Results

LABELS = {name: name for name in ("eFLOW-vMI", "eFLOW-vRAND", "eRAND-vMI", "eRAND-vRAND")}
BUBBLES = {"eFLOW-vMI": BLUE, "eFLOW-vRAND": RED}


def heuristics(results: Results) -> Section:
    """Q2: four ways to choose the split."""
    found = results.by_dataset("growth")
    text = (
        "The edge with the most rows (eFLOW) or a random one (eRAND); the variable with the most "
        "information about the others (vMI) or a random one (vRAND). Up to 1,000 splits "
        "from the Chow-Liu start, one random seed. " + STOPPING
    )
    if not found:
        return Section(text)
    return Section(
        text,
        tables=_table(found),
        pictures=[
            mean_picture("heuristics", found, LABELS),
            draw_row(
                "heuristics-cost",
                "Bits per dimension, learning time and size after the last split, a bubble per "
                "dataset, whose area grows as the root of the number of edges",
                [lambda ax: _bubbles(ax, found)],
            ),
            grid_picture("heuristics-datasets", found, LABELS),
        ],
        notes=[
            "The paper calls the circuits of eFLOW-vRAND one or two orders of magnitude larger "
            "than those of eFLOW-vMI. Ours are on some datasets: a split here copies only what its "
            "literal changes and shares the rest.",
            *cut_runs(
                (dataset, label, result["runs"][label])
                for dataset, result in found.items()
                for label in LABELS
            ),
        ],
        numbers=curve_rows(found, tuple(LABELS)),
    )


def _table(found: dict[str, Any]) -> list[Table]:
    rows = []
    for dataset, result in found.items():
        runs = result["runs"]
        best = min(runs[label]["kept_bits"][-1] for label in LABELS)
        row: Row = [("dataset", dataset)]
        for label in LABELS:
            run = runs[label]
            bits = run["kept_bits"][-1]
            hint = f"{run['bits'][-1]:.4f} without early stopping"
            tone: Tone = "better" if bits == best else ""
            row.append((label, number(bits, 4, tone=tone, hint=hint)))
        row += [(f"{label}: edges", number(runs[label]["edges"][-1], 0)) for label in BUBBLES]
        row += [
            (f"{label}: seconds", seconds_cell(runs[label]["seconds"][-1])) for label in BUBBLES
        ]
        rows.append(row)
    return tables_of(
        rows,
        "Test bits per dimension with early stopping, the best of each row coloured; edges and "
        "seconds after the last split.",
    )


def _bubbles(ax: Any, found: dict[str, Any]) -> None:
    for label, colour in BUBBLES.items():
        runs = [result["runs"][label] for result in found.values()]
        ax.scatter(
            [run["seconds"][-1] for run in runs],
            [run["bits"][-1] for run in runs],
            s=[run["edges"][-1] ** 0.5 for run in runs],
            color=colour,
            alpha=0.45,
            edgecolors=INK,
            linewidths=0.5,
            label=label,
        )
    ax.set(xscale="log", xlabel="seconds", ylabel="test bits per dimension")
    ax.margins(0.15)
    ax.minorticks_off()
    legend = ax.legend(frameon=False, fontsize=9)
    for handle in legend.legend_handles:
        handle.set_sizes(np.array([40.0]))
