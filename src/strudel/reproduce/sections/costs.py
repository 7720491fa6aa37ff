"""table:sizes and table:seconds."""

from __future__ import annotations

from strudel.reproduce.content import Row, Section, Table, number, seconds_cell, tables_of
from strudel.reproduce.facts import paper, read_facts
from strudel.reproduce.store import Results

PAIRS = (("strudel", "greedy", "Strudel"), ("learnpsdd", "learnpsdd", "LearnPSDD, ours"))


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
        "Edges of the circuits of the table above; the paper calls the number of edges the size.",
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
    text = (
        "Seconds on the clock of one core, from the rows to the finished circuit, patience "
        "included. The paper does not say what machine its seconds are from."
    )
    if not found:
        return Section(text)
    sums = [("", seconds_cell(total)) for total in totals.values()]
    rows.append([("", "together"), *[("", "")] * 4, *sums])
    tables = tables_of(rows, "Seconds, ours on one core.") + _published(list(found))
    return Section(text, tables, numbers=numbers)


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
