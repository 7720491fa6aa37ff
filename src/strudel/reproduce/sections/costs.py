"""table:sizes and table:seconds."""

from __future__ import annotations

from typing import Any

from strudel.reproduce.content import Section, Table, number, seconds_cell, tables_of
from strudel.reproduce.facts import paper, read_facts
from strudel.reproduce.store import Results

PAIRS = (("strudel", "greedy"), ("learnpsdd", "learnpsdd"))
COLUMNS = ("Strudel", "paper", "LearnPSDD, ours", "paper")


def sizes(results: Results) -> Section:
    """Q3: edges of the circuits."""
    rows, numbers = [], []
    for dataset, result in results.by_dataset("single").items():
        row: list[Any] = [dataset]
        for name, search in PAIRS:
            published = paper(dataset).get(f"{name}_edges")
            edges = result[search]["edges"]
            hint = "" if published is None else f"{edges / published:.2f} times the paper's"
            row += [number(edges, 0, hint=hint), number(published, 0)]
            numbers.append(
                {"dataset": dataset, "search": name, "edges": edges, "paper_edges": published}
            )
        rows.append([*row, number(result["greedy"]["edges"] / result["learnpsdd"]["edges"], 1)])
    note = (
        "A size follows from where the search stops, so it jumps with the rule for ties: where "
        "ties are few, sizes agree with the paper to some edges (kdd, netflix)."
    )
    return Section(
        "Edges of the circuits of the table above; the paper calls the number of edges the size.",
        tables_of(("dataset", *COLUMNS, "Strudel / LearnPSDD"), rows, "Edges."),
        notes=[note] if rows else [],
        numbers=numbers,
    )


def seconds(results: Results) -> Section:
    """Q3: what learning costs."""
    found = results.by_dataset("single")
    rows, numbers = [], []
    totals = [0.0] * len(COLUMNS)
    for dataset, result in found.items():
        known = paper(dataset)
        per_iteration: list[Any] = []
        in_all: list[Any] = []
        for place, (name, search) in enumerate(PAIRS):
            one = result[search]
            each, whole = f"{name}_seconds_per_iteration", f"{name}_seconds"
            per_iteration += [
                seconds_cell(one["seconds_per_iteration"]),
                seconds_cell(known.get(each)),
            ]
            in_all += [
                seconds_cell(one["seconds"], hint=f"{one['iterations']:,} iterations"),
                seconds_cell(known.get(whole)),
            ]
            totals[2 * place] += one["seconds"]
            totals[2 * place + 1] += known.get(whole, 0.0)
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
        rows.append([dataset, *per_iteration, *in_all])
    text = (
        "Seconds on the clock of one core, from the rows to the finished circuit, patience "
        "included. The paper does not say what machine its seconds are from."
    )
    if not found:
        return Section(text)
    rows.append(["together", *([""] * 4), *(seconds_cell(total) for total in totals)])
    columns = (
        "dataset",
        *(f"per iteration: {name}" for name in COLUMNS),
        *(f"in all: {name}" for name in COLUMNS),
    )
    tables = tables_of(columns, rows, "Seconds, ours on one core.") + _published(list(found))
    return Section(text, tables, numbers=numbers)


def _published(datasets: list[str]) -> list[Table]:
    """Learning times that others have published, summed over the datasets that we ran."""
    sums: dict[tuple[str, str, str], float] = {}
    for row in read_facts("seconds"):
        if row["dataset"] in datasets:
            key = row["method"], row["source"], row["hardware"]
            sums[key] = sums.get(key, 0.0) + float(row["seconds"])
    return tables_of(
        ("method", "seconds together", "machine", "source"),
        [
            [method, seconds_cell(total), hardware, source]
            for (method, source, hardware), total in sorted(sums.items(), key=lambda pair: -pair[1])
        ],
        "Published learning times, the same datasets together.",
        is_words=True,
    )
