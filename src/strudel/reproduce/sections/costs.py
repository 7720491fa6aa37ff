"""table:sizes and table:seconds."""

from __future__ import annotations

from typing import Any

from strudel.reproduce.content import Section, Table, number, plain_rows, seconds_cell
from strudel.reproduce.facts import paper, read_facts
from strudel.reproduce.results import Results

PAIRS = (("strudel", "greedy"), ("learnpsdd", "learnpsdd"))


def sizes(results: Results) -> Section:
    """Q3: edges of the circuits."""
    found = results.by_dataset("single")
    rows, numbers = [], []
    for dataset, result in found.items():
        known = paper(dataset)
        row: list[Any] = [dataset]
        for name, search in PAIRS:
            published = known.get(f"{name}_edges")
            edges = result[search]["edges"]
            hint = "" if published is None else f"{edges / published:.2f} times the paper's"
            row += [number(edges, 0, hint=hint), number(published, 0)]
            numbers.append(
                {"dataset": dataset, "search": name, "edges": edges, "paper_edges": published}
            )
        row.append(number(result["greedy"]["edges"] / result["learnpsdd"]["edges"], 1))
        rows.append(row)
    columns = ("Strudel", "paper", "LearnPSDD, ours", "paper", "Strudel / LearnPSDD")
    return Section(
        "table:sizes",
        "Q3: sizes of single circuits",
        ["Edges of the circuits of the table above; the paper calls the number of edges the size."],
        [Table(("dataset", *columns), plain_rows(rows), "Edges.")] if rows else [],
        notes=[
            "A size follows from where the search stops, so it jumps with the rule for ties: where "
            "ties are few, sizes agree with the paper to some edges (kdd, netflix)."
        ]
        if rows
        else [],
        numbers=numbers,
    )


def seconds(results: Results) -> Section:
    """Q3: what learning costs."""
    found = results.by_dataset("single")
    rows, numbers = [], []
    totals = dict.fromkeys(("greedy", "learnpsdd", "strudel_seconds", "learnpsdd_seconds"), 0.0)
    for dataset, result in found.items():
        known = paper(dataset)
        per_iteration: list[Any] = []
        total: list[Any] = []
        for name, search in PAIRS:
            one = result[search]
            each, whole = f"{name}_seconds_per_iteration", f"{name}_seconds"
            per_iteration += [
                seconds_cell(one["seconds_per_iteration"]),
                seconds_cell(known.get(each)),
            ]
            total += [
                seconds_cell(one["seconds"], hint=f"{one['iterations']:,} iterations"),
                seconds_cell(known.get(whole)),
            ]
            totals[search] += one["seconds"]
            totals[whole] += known.get(whole, 0.0)
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
        rows.append([dataset, *per_iteration, *total])
    columns = ("Strudel", "paper", "LearnPSDD, ours", "paper")
    tables = []
    if rows:
        sums = [
            totals["greedy"],
            totals["strudel_seconds"],
            totals["learnpsdd"],
            totals["learnpsdd_seconds"],
        ]
        rows.append(["together", *([""] * 4), *(seconds_cell(value) for value in sums)])
        tables = [
            Table(
                (
                    "dataset",
                    *(f"per iteration: {name}" for name in columns),
                    *(f"in all: {name}" for name in columns),
                ),
                plain_rows(rows),
                "Seconds, ours on one core.",
            ),
            _others(list(found)),
        ]
    return Section(
        "table:seconds",
        "Q3: learning times of single circuits",
        [
            "Seconds on the clock of one core, from the rows to the finished circuit, patience "
            "included. The paper does not say what machine its seconds are from.",
        ],
        tables,
        numbers=numbers,
    )


def _others(datasets: list[str]) -> Table:
    """Learning times that others have published, summed over the datasets that we ran."""
    sums: dict[tuple[str, str, str], float] = {}
    for row in read_facts("seconds"):
        if row["dataset"] in datasets:
            key = row["method"], row["source"], row["hardware"]
            sums[key] = sums.get(key, 0.0) + float(row["seconds"])
    rows = [
        [method, seconds_cell(total), hardware, source]
        for (method, source, hardware), total in sorted(sums.items(), key=lambda pair: -pair[1])
    ]
    return Table(
        ("method", "seconds together", "machine", "source"),
        plain_rows(rows),
        "Published learning times, the same datasets together.",
        is_words=True,
    )
