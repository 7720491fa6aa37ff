"""figure:expectations."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from strudel.reproduce.content import Cell, Section, Table, plain_rows
from strudel.reproduce.experiments.expectations import METHODS, PROTOCOLS
from strudel.reproduce.facts import published_error
from strudel.reproduce.pictures import BLUE, GREEN, INK, ORANGE, RED, VIOLET, draw_grid
from strudel.reproduce.results import Results

SHOWN = (20, 40, 60, 80)  # per cent, in the tables
COLOURS = dict(zip(METHODS, (ORANGE, INK, GREEN, VIOLET, BLUE, RED), strict=True))


def expectations(results: Results) -> Section:
    """Q6: predictions from incomplete rows."""
    found = results.by_dataset("expectations")
    tables, pictures = [], []
    predictors = sorted({whose for result in found.values() for whose in result["models"]})
    for whose in predictors:
        some = {name: result for name, result in found.items() if whose in result["models"]}
        for protocol in PROTOCOLS:
            words = f"{_words(protocol)}; the regression circuit is {_whose(whose)}"
            tables.append(_table(some, whose, protocol, words))
            pictures.append(
                draw_grid(
                    f"expectations-{whose}-{protocol}",
                    f"Root mean square error against the share missing: {words}",
                    some,
                    partial(_draw, whose=whose, protocol=protocol),
                )
            )
    return Section(
        "figure:expectations",
        "Q6: predictions from incomplete rows",
        [
            "Four regression sets of Khosravi et al. (2019). Bits of the test rows are removed, "
            "and the target is predicted by a regression circuit: after imputation, or by its "
            "exact expectation under a circuit or a mixture on its vtree, learned here. Root mean "
            "square errors, means over repeats; MICE sees one repeat.",
        ],
        tables,
        pictures,
        notes=[
            "The paper removes one set of features for all rows, as far as its figure tells, in "
            "three runs whose errors differ by up to a factor of two; ours are means over other "
            "sets. So the order of the methods is comparable, single errors are not."
        ]
        if found
        else [],
        numbers=[
            {"dataset": dataset, **error}
            for dataset, result in found.items()
            for error in result["errors"]
        ],
    )


def mean_errors(
    result: dict[str, Any], whose: str, protocol: str, method: str, repeat: int | None = None
) -> dict[int, float]:
    """The mean error by what is missing."""
    chosen: dict[int, list[float]] = {}
    for error in result["errors"]:
        is_wanted = (error["predictor"], error["protocol"], error["method"]) == (
            whose,
            protocol,
            method,
        )
        if is_wanted and repeat in (None, error["repeat"]):
            chosen.setdefault(int(error["missing"]), []).append(error["rmse"])
    return {missing: float(np.mean(errors)) for missing, errors in sorted(chosen.items())}


def _table(found: dict[str, Any], whose: str, protocol: str, words: str) -> Table:
    rows = []
    for dataset, result in found.items():
        errors = {m: mean_errors(result, whose, protocol, m) for m in METHODS}
        for missing in SHOWN:
            here = {method: errors[method].get(missing) for method in METHODS}
            known = [error for error in here.values() if error is not None]
            best = min(known, default=None)
            rows.append(
                [
                    f"{dataset}, {missing} %",
                    *(_error(here[method], best) for method in METHODS),
                    *(
                        _error(published_error(dataset, method, missing), None)
                        for method in ("median", "circuit", "mixture")
                    ),
                ]
            )
    columns = (*METHODS, "median, paper", "circuit, paper", "mixture, paper")
    return Table(
        ("set, missing", *columns),
        plain_rows(rows),
        f"{words[0].upper()}{words[1:]}. The best of each row is coloured.",
    )


def _error(error: float | None, best: float | None) -> Cell:
    if error is None:
        return Cell("-")
    text = f"{error:,.0f}" if error >= 1000 else f"{error:.4g}"
    return Cell(text, "better" if error == best else "")


def _draw(ax: Any, result: Any, whose: str, protocol: str) -> None:
    for method, colour in COLOURS.items():
        errors = mean_errors(result, whose, protocol, method)
        if errors:
            style = "-" if method in ("circuit", "mixture") else "--"
            ax.plot(
                list(errors),
                list(errors.values()),
                style,
                color=colour,
                label=method,
                linewidth=1.2,
            )
    ax.ticklabel_format(axis="y", scilimits=(-3, 4))


def _words(protocol: str) -> str:
    return (
        "other bits removed from every row"
        if protocol == "bits"
        else "one set of bits removed from all rows"
    )


def _whose(whose: str) -> str:
    return "that of the authors" if whose == "authors" else "our own"
