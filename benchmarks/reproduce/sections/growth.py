"""figure:initialisation and figure:heuristics."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from reproduce.content import (
    Picture,
    Row,
    Section,
    Table,
    Tone,
    number,
    seconds_cell,
    tables_of,
)
from reproduce.pictures import BLUE, COLOURS, INK, RED, draw_grid, draw_row
from reproduce.sections.explain import cut_runs
from reproduce.store import Results
from strudel._types import FloatArray

CHOW_LIU, INDEPENDENT = "eFLOW-vMI", "independent start"
LABELS = {CHOW_LIU: "Chow-Liu start", INDEPENDENT: "independent start"}
CHOICES = {name: name for name in ("eFLOW-vMI", "eFLOW-vRAND", "eRAND-vMI", "eRAND-vRAND")}
BUBBLES = {"eFLOW-vMI": BLUE, "eFLOW-vRAND": RED}


def initialisation(results: Results) -> Section:
    """Q1: the Chow-Liu tree against independent variables as the start."""
    found = results.by_dataset("growth")
    if not found:
        return Section()
    return Section(
        tables=_starts_table(found),
        pictures=[
            mean_picture("initialisation", found, LABELS),
            grid_picture("initialisation-datasets", found, LABELS),
        ],
        numbers=curve_rows(found, tuple(LABELS)),
    )


def _starts_table(found: dict[str, Any]) -> list[Table]:
    last = last_split(found)
    rows = []
    for dataset, result in found.items():
        row: Row = [("dataset", dataset)]
        for label, words in LABELS.items():
            run = result["runs"][label]
            hint = f"stops early after {run['stopped_after']:,}"
            row += [
                (f"{words}: first", number(run["bits"][0], 4)),
                (f"{words}: early stopping", number(run["kept_bits"][-1], 4)),
                (f"{words}: {last:,} splits", number(run["bits"][-1], 4, hint=hint)),
            ]
        rows.append(row)
    return tables_of(rows, "Test bits per dimension; lower is better.")


def last_split(found: dict[str, Any]) -> int:
    """The last split that all curves have."""
    return min(int(result["splits"][-1]) for result in found.values())


def mean_curve(found: dict[str, Any], label: str, column: str = "kept_bits") -> FloatArray:
    """The mean over all datasets, split by split as far as all go."""
    n_shown = min(len(result["splits"]) for result in found.values())
    return np.mean([result["runs"][label][column][:n_shown] for result in found.values()], axis=0)


def mean_picture(name: str, found: dict[str, Any], labels: dict[str, str]) -> Picture:
    """Mean curves of some choices, with and without early stopping."""

    def draw(ax: Any, column: str, title: str) -> None:
        for label, colour in zip(labels, COLOURS, strict=False):
            curve = mean_curve(found, label, column)
            ax.plot(np.arange(len(curve)) * 10, curve, color=colour, label=labels[label])
        ax.set(xlabel="splits", ylabel="mean test bits per dimension", title=title)
        ax.legend(frameon=False, fontsize=9)

    return draw_row(
        name,
        "Mean test bits per dimension over all datasets",
        [
            partial(draw, column="kept_bits", title="with early stopping"),
            partial(draw, column="bits", title="without"),
        ],
    )


def grid_picture(name: str, found: dict[str, Any], labels: dict[str, str]) -> Picture:
    """The curves of every dataset, without early stopping."""

    def draw(ax: Any, result: Any) -> None:
        for label, colour in zip(labels, COLOURS, strict=False):
            bits = result["runs"][label]["bits"]
            ax.plot(result["splits"], bits, color=colour, label=labels[label], linewidth=1.1)

    caption = "Test bits per dimension of each dataset, without early stopping"
    return draw_grid(name, caption, found, draw)


def curve_rows(found: dict[str, Any], labels: tuple[str, ...]) -> list[dict[str, Any]]:
    """One row per dataset, choice and shown split, for the csv."""
    return [
        {
            "dataset": dataset,
            "choice": label,
            "splits": split,
            "bits_per_dimension": result["runs"][label]["bits"][place],
            "with_early_stopping": result["runs"][label]["kept_bits"][place],
            "edges": result["runs"][label]["edges"][place],
            "seconds": result["runs"][label]["seconds"][place],
        }
        for dataset, result in found.items()
        for label in labels
        for place, split in enumerate(result["splits"])
        if place % 5 == 0 or place <= 5
    ]


def heuristics(results: Results) -> Section:
    """Q2: four ways to choose the split."""
    found = results.by_dataset("growth")
    if not found:
        return Section()
    return Section(
        tables=_choices_table(found),
        pictures=[
            mean_picture("heuristics", found, CHOICES),
            draw_row(
                "heuristics-cost",
                "Bits per dimension, learning time and size after the last split, a bubble per "
                "dataset, whose area grows as the root of the number of edges",
                [lambda ax: _bubbles(ax, found)],
            ),
            grid_picture("heuristics-datasets", found, CHOICES),
        ],
        notes=[
            "The paper calls the circuits of eFLOW-vRAND one or two orders of magnitude larger "
            "than those of eFLOW-vMI. Ours are on some datasets: a split here copies only what its "
            "literal changes and shares the rest.",
            *cut_runs(
                (dataset, label, result["runs"][label])
                for dataset, result in found.items()
                for label in CHOICES
            ),
        ],
        numbers=curve_rows(found, tuple(CHOICES)),
    )


def _choices_table(found: dict[str, Any]) -> list[Table]:
    rows = []
    for dataset, result in found.items():
        runs = result["runs"]
        best = min(runs[label]["kept_bits"][-1] for label in CHOICES)
        row: Row = [("dataset", dataset)]
        for label in CHOICES:
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
