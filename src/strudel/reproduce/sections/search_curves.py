"""figure:search-curves."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from strudel._types import FloatArray
from strudel.reproduce.content import Section
from strudel.reproduce.pictures import BLUE, RED, draw_grid, draw_row
from strudel.reproduce.store import Results

SEARCHES = {"greedy": ("Strudel", BLUE), "learnpsdd": ("LearnPSDD, ours", RED)}
N_SHOWN = 1000  # iterations of the mean curves


def search_curves(results: Results) -> Section:
    """Q3: likelihood and seconds per iteration, iteration by iteration."""
    found = results.by_dataset("single")
    text = (
        "Test bits per dimension and seconds per iteration, Strudel in blue and our LearnPSDD in "
        "red, until each stops. In the mean of the bits a search that has stopped stays where it "
        "is; the mean of the seconds goes as far as half of the searches do."
    )
    if not found:
        return Section(text)
    return Section(
        text,
        pictures=[
            draw_row(
                "search-curves",
                "Means over all datasets",
                [partial(_draw_mean, found=found, is_pace=is_pace) for is_pace in (False, True)],
            ),
            draw_grid("search-curves-bits", "Test bits per dimension", found, _draw),
            draw_grid(
                "search-curves-seconds",
                "Seconds per iteration",
                found,
                partial(_draw, is_pace=True),
            ),
        ],
        numbers=[
            {
                "dataset": dataset,
                "search": search,
                "iteration": iteration,
                "bits_per_dimension": result[search]["curve"]["bits"][place],
                "seconds": result[search]["curve"]["seconds"][place],
            }
            for dataset, result in found.items()
            for search in SEARCHES
            for place, iteration in enumerate(result[search]["curve"]["iterations"])
            if place % 4 == 0
        ],
    )


def _points(curve: dict[str, Any], is_pace: bool) -> tuple[FloatArray, FloatArray]:
    """Iterations, and test bits after each or seconds per iteration around each."""
    iterations, seconds = np.array(curve["iterations"], float), np.array(curve["seconds"])
    if not is_pace:
        return iterations, np.array(curve["bits"])
    if len(iterations) < 2:
        return iterations[:0], seconds[:0]
    middle = (iterations[1:] + iterations[:-1]) / 2
    return middle, np.diff(seconds) / np.diff(iterations)


def _draw_mean(ax: Any, found: dict[str, Any], is_pace: bool) -> None:
    longest = max(
        int(result[s]["curve"]["iterations"][-1]) for result in found.values() for s in SEARCHES
    )
    grid = np.arange(0, min(N_SHOWN, longest) + 1, 5)
    for search, (name, colour) in SEARCHES.items():
        curves = []
        for result in found.values():
            x, y = _points(result[search]["curve"], is_pace)
            if len(x):
                # The pace of a search that has stopped is unknown; its likelihood stays.
                curves.append(np.interp(grid, x, y, right=np.nan if is_pace else None))
        if curves:
            table = np.array(curves)
            known = np.isfinite(table).mean(axis=0) >= 0.5
            ax.plot(grid[known], np.nanmean(table[:, known], axis=0), color=colour, label=name)
    if is_pace:
        ax.set_yscale("log")
    label = "mean seconds per iteration" if is_pace else "mean test bits per dimension"
    ax.set(xlabel="iterations", ylabel=label)
    ax.legend(frameon=False, fontsize=9)


def _draw(ax: Any, result: Any, is_pace: bool = False) -> None:
    for search, (name, colour) in SEARCHES.items():
        x, y = _points(result[search]["curve"], is_pace)
        ax.plot(x, y, color=colour, label=name, linewidth=1.1)
    if is_pace:
        ax.set_yscale("log")
