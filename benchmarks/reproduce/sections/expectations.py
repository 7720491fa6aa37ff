"""figure:expectations."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from reproduce.content import Cell, Section, Table, tables_of
from reproduce.experiments.expectations import METHODS, PROTOCOLS
from reproduce.facts import published_error
from reproduce.pictures import BLUE, GREEN, INK, ORANGE, RED, VIOLET, draw_grid
from reproduce.store import Results

SHOWN = (20, 40, 60, 80)  # per cent, in the tables
COLOURS = dict(zip(METHODS, (ORANGE, INK, GREEN, VIOLET, BLUE, RED), strict=True))
PROTOCOL_WORDS = {
    "bits": "other bits removed from every row",
    "set": "one set of bits removed from all rows",
}
WHOSE_WORDS = {"authors": "that of the authors", "ours": "our own"}


def expectations(results: Results) -> Section:
    """Q6: predictions from incomplete rows."""
    found = results.by_dataset("expectations")
    tables: list[Table] = []
    pictures = []
    predictors = sorted({whose for result in found.values() for whose in result["models"]})
    for whose in predictors:
        some = {name: result for name, result in found.items() if whose in result["models"]}
        for protocol in PROTOCOLS:
            words = f"{PROTOCOL_WORDS[protocol]}; the regression circuit is {WHOSE_WORDS[whose]}"
            tables += _table(some, whose, protocol, words)
            pictures.append(
                draw_grid(
                    f"expectations-{whose}-{protocol}",
                    f"Root mean square error against the share missing: {words}",
                    some,
                    partial(_draw, whose=whose, protocol=protocol),
                )
            )
    note = (
        "The paper removes one set of features for all rows, as far as its figure shows, in "
        "three runs whose errors differ by up to a factor of two; ours are means over other "
        "sets. So the order of the methods is comparable, single errors are not."
    )
    return Section(
        tables,
        pictures,
        notes=[note] if found else [],
        numbers=[
            {"dataset": dataset, **error}
            for dataset, result in found.items()
            for error in result["errors"]
        ],
    )


def mean_errors(result: dict[str, Any], whose: str, protocol: str, method: str) -> dict[int, float]:
    """The mean error by what is missing."""
    chosen: dict[int, list[float]] = {}
    wanted = whose, protocol, method
    for error in result["errors"]:
        if (error["predictor"], error["protocol"], error["method"]) == wanted:
            chosen.setdefault(int(error["missing"]), []).append(error["rmse"])
    return {missing: float(np.mean(errors)) for missing, errors in sorted(chosen.items())}


def _table(found: dict[str, Any], whose: str, protocol: str, words: str) -> list[Table]:
    rows = []
    for dataset, result in found.items():
        errors = {m: mean_errors(result, whose, protocol, m) for m in METHODS}
        for missing in SHOWN:
            here = {method: errors[method].get(missing) for method in METHODS}
            best = min((error for error in here.values() if error is not None), default=None)
            rows.append(
                [
                    ("set, missing", f"{dataset}, {missing} %"),
                    *((method, _error(here[method], best)) for method in METHODS),
                    *(
                        (f"{method}, paper", _error(published_error(dataset, method, missing)))
                        for method in ("median", "circuit", "mixture")
                    ),
                ]
            )
    return tables_of(rows, f"{words[0].upper()}{words[1:]}. The best of each row is coloured.")


def _error(error: float | None, best: float | None = None) -> Cell:
    if error is None:
        return Cell("-")
    text = f"{error:,.0f}" if error >= 1000 else f"{error:.4g}"
    return Cell(text, "better" if error == best else "")


def _draw(ax: Any, result: Any, whose: str, protocol: str) -> None:
    for method, colour in COLOURS.items():
        errors = mean_errors(result, whose, protocol, method)
        if errors:
            style = "-" if method in ("circuit", "mixture") else "--"
            x, y = list(errors), list(errors.values())
            ax.plot(x, y, style, color=colour, label=method, linewidth=1.2)
    ax.ticklabel_format(axis="y", scilimits=(-3, 4))
