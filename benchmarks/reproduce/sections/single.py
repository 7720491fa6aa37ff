"""table:single-models, :sizes, :seconds and :wilcoxon, and figure:search-curves."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from reproduce.content import (
    Row,
    Section,
    Table,
    beside_paper,
    number,
    seconds_cell,
    tables_of,
)
from reproduce.facts import paper, read_facts
from reproduce.pictures import BLUE, RED, draw_grid, draw_row
from reproduce.sections.explain import cut_runs, explain
from reproduce.store import Results
from strudel._types import FloatArray

PAIRS = (("strudel", "greedy", "Strudel"), ("learnpsdd", "learnpsdd", "LearnPSDD, ours"))
SIGNIFICANT = 0.01  # the paper's level of confidence, 99 %
SEARCHES = {"greedy": ("Strudel", BLUE), "learnpsdd": ("LearnPSDD, ours", RED)}
N_SHOWN = 1000  # iterations of the mean curves


def sizes(results: Results) -> Section:
    """Q3: edges of the circuits."""
    rows, numbers = [], []
    for dataset, result in results.by_dataset("single").items():
        row: Row = [("dataset", dataset)]
        for name, search, header in PAIRS:
            published = paper(dataset).get(f"{name}_edges")
            edges = result[search]["edges"]
            hint = "" if published is None else f"{edges / published:.2f} times the paper's"
            row += [(header, number(edges, 0, hint=hint)), ("paper", number(published, 0))]
            numbers.append(
                {"dataset": dataset, "search": name, "edges": edges, "paper_edges": published}
            )
        ratio = result["greedy"]["edges"] / result["learnpsdd"]["edges"]
        rows.append([*row, ("Strudel / LearnPSDD", number(ratio, 1))])
    note = (
        "A size follows from where the search stops, so it jumps with the rule for ties: where "
        "ties are few, sizes agree with the paper to some edges (kdd, netflix)."
    )
    return Section(
        tables_of(rows, "Edges."),
        notes=[note] if rows else [],
        numbers=numbers,
    )


def seconds(results: Results) -> Section:
    """Q3: what learning costs."""
    found = results.by_dataset("single")
    rows, numbers = [], []
    totals: dict[str, float] = {}
    for dataset, result in found.items():
        known = paper(dataset)
        per_iteration: Row = []
        in_all: Row = []
        for name, search, header in PAIRS:
            one = result[search]
            each, whole = f"{name}_seconds_per_iteration", f"{name}_seconds"
            per_iteration += [
                (f"per iteration: {header}", seconds_cell(one["seconds_per_iteration"])),
                ("per iteration: paper", seconds_cell(known.get(each))),
            ]
            hint = f"{one['iterations']:,} iterations"
            in_all += [
                (f"in all: {header}", seconds_cell(one["seconds"], hint=hint)),
                ("in all: paper", seconds_cell(known.get(whole))),
            ]
            totals[search] = totals.get(search, 0.0) + one["seconds"]
            totals[whole] = totals.get(whole, 0.0) + known.get(whole, 0.0)
            numbers.append(
                {
                    "dataset": dataset,
                    "search": name,
                    "iterations": one["iterations"],
                    "seconds_per_iteration": one["seconds_per_iteration"],
                    "paper_seconds_per_iteration": known.get(each),
                    "seconds": one["seconds"],
                    "cpu_seconds": one["cpu_seconds"],
                    "paper_seconds": known.get(whole),
                }
            )
        rows.append([("dataset", dataset), *per_iteration, *in_all])
    if not found:
        return Section()
    sums = [("", seconds_cell(total)) for total in totals.values()]
    rows.append([("", "together"), *[("", "")] * 4, *sums])
    tables = tables_of(rows, "Seconds, ours on one core.") + _published(list(found))
    return Section(tables, numbers=numbers)


def _published(datasets: list[str]) -> list[Table]:
    """Learning times that others have published, summed over the datasets that we ran."""
    sums: dict[tuple[str, str, str], float] = {}
    for row in read_facts("seconds"):
        if row["dataset"] in datasets:
            key = row["method"], row["source"], row["hardware"]
            sums[key] = sums.get(key, 0.0) + float(row["seconds"])
    rows: list[Row] = [
        [
            ("method", method),
            ("seconds together", seconds_cell(total)),
            ("machine", hardware),
            ("source", source),
        ]
        for (method, source, hardware), total in sorted(sums.items(), key=lambda pair: -pair[1])
    ]
    caption = "Published learning times, the same datasets together."
    return tables_of(rows, caption, is_words=True)


def single_models(results: Results) -> Section:
    """Q3: test log-likelihoods of single circuits."""
    found = results.by_dataset("single")
    rows, numbers, far = [], [], []
    for dataset, result in found.items():
        known = paper(dataset)
        row: Row = [("dataset", dataset)]
        for name, search, header in PAIRS:
            one, published = result[search], known.get(f"{name}_test")
            is_cut = one["stopped_because"] == "max_seconds"
            hint = "Stopped by the time limit." if is_cut else ""
            row += beside_paper(header, one, published, hint)
            plain = {key: value for key, value in one.items() if key != "curve"}
            numbers.append({"dataset": dataset, "search": name, **plain, "paper_test": published})
        for name in ("selSPN", "seaSPN"):
            row.append((f"{name}, paper", number(known.get(f"{name.lower()}_test"), 2)))
        rows.append(row)
        if known:
            far.append((dataset, result["greedy"]["test"], known["strudel_test"]))
    return Section(
        tables_of(
            rows,
            "Mean test log-likelihood in nats; ours coloured against the paper's column beside.",
        ),
        notes=[
            *explain("table:single-models", far),
            *cut_runs(
                (dataset, header.removesuffix(", ours"), result[search])
                for dataset, result in found.items()
                for _, search, header in PAIRS
            ),
        ],
        numbers=numbers,
    )


def wilcoxon(results: Results) -> Section:
    """Paired tests on the likelihoods of the test rows."""
    rows, numbers = [], []
    for dataset, result in results.by_dataset("single").items():
        test, known = result["wilcoxon"], paper(dataset)
        better = "Strudel" if test["median_difference"] > 0 else "LearnPSDD"
        rows.append(
            [
                ("dataset", dataset),
                ("p, LearnPSDD (ours)", _p(test["p"])),
                ("better on most rows", "equal" if test["p"] >= SIGNIFICANT else better),
                ("mean difference", number(test["mean_difference"])),
                ("median difference", number(test["median_difference"], 4)),
                ("rows", number(test["n_rows"], 0)),
                ("p, LearnPSDD (paper)", _p(known.get("learnpsdd_p"))),
                ("p, selSPN (paper)", _p(known.get("selspn_p"))),
            ]
        )
        numbers.append({"dataset": dataset, **test, "paper_p": known.get("learnpsdd_p")})
    return Section(
        tables_of(
            rows,
            "Strudel minus LearnPSDD, in nats per test row. With p below 0.01 the two differ; "
            '"equal" otherwise.',
        ),
        numbers=numbers,
    )


def _p(p: float | None) -> str:
    if p is None:
        return "-"
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1e}"


def search_curves(results: Results) -> Section:
    """Q3: likelihood and seconds per iteration, iteration by iteration."""
    found = results.by_dataset("single")
    if not found:
        return Section()
    return Section(
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
