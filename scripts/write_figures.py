"""Write the figures of README.md and of pages in docs/ from the result files of the reproduction.

    python scripts/write_figures.py             after docs/reproduction/*.csv have changed

A figure stands on a page between two comments, as a value or as a whole table:

    nltcs takes <!-- figure: seconds of nltcs -->0.14<!-- /figure --> s

`FIGURES` says what each is. The test of this script fails when a page differs from the files.
"""

import csv
import re
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "reproduction"
FIGURE = re.compile(r"(<!-- figure: ([^>]+) -->)(.*?)(<!-- /figure -->)", re.DOTALL)

Row = dict[str, str]


def read(name: str, **conditions: str) -> dict[str, Row]:
    """The rows of a result file that fulfil conditions, by dataset."""
    with (RESULTS / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    chosen = [row for row in rows if all(row[key] == value for key, value in conditions.items())]
    return {row["dataset"]: row for row in chosen}


GREEDY = read("table-single-models", search="strudel")
LEARNPSDD = read("table-single-models", search="learnpsdd")
PUBLISHED = read("table-seconds", search="strudel")
RECORDS = read("table-records")
AUTOMATIC = read("automatic-mixtures")
ACCURATE = read("accurate-circuits")
ENSEMBLES = read("table-ensembles")
PAPER = read("../../benchmarks/reproduce/facts/paper")


def seconds_of(dataset: str) -> str:
    return brief(float(GREEDY[dataset]["seconds"]))


def mixture_seconds_of(dataset: str) -> str:
    return brief(float(RECORDS[dataset]["mixture_seconds"]))


def brief(seconds: float) -> str:
    """Two digits, or all digits before the point."""
    return f"{seconds:#.2g}" if seconds < 9.95 else f"{seconds:,.0f}"


def learning() -> str:
    """What `Strudel`'s defaults reach on the twenty datasets, and in how many seconds."""
    lines = [
        [
            name,
            f"{int(one['iterations']):,}",
            brief(float(one["seconds"])),
            nats(one["test"]),
            nats(one["paper_test"]),
            f"{int(one['edges']):,}",
            f"{float(PUBLISHED[name]['paper_seconds']):,.0f}",
        ]
        for name, one in GREEDY.items()
    ]
    total = sum(float(one["seconds"]) for one in GREEDY.values())
    published = sum(float(one["paper_seconds"]) for one in PUBLISHED.values())
    lines.append(["together", "", brief(total), "", "", "", f"{published:,.0f}"])
    heads = ("dataset", "splits", "seconds", "test", "paper", "edges", "paper's seconds")
    return table(heads, lines)


def accurate() -> str:
    """The accurate preset beside our LearnPSDD, the paper's searches and the best published."""
    lines = [
        [
            name,
            f"{float(one['test']):.3f}",
            f"{int(one['edges']):,}",
            brief(float(one["seconds"])),
            nats(RECORDS[name]["circuit_test"]),
            nats(LEARNPSDD[name]["test"]),
            nats(PAPER[name]["strudel_test"]),
            nats(PAPER[name]["learnpsdd_test"]),
            nats(record(name)),
            nats(PAPER[name]["selspn_test"]),
        ]
        for name, one in ACCURATE.items()
    ]
    heads = ("dataset", "accurate: test", "edges", "seconds", "in 0.1", "`learnpsdd`: test")
    return table((*heads, "Strudel", "LearnPSDD", "record", "selSPN"), lines)


def mixtures() -> str:
    """The automatic mixture beside the paper's four ensembles."""
    lines = [
        [
            name,
            f"{int(one['mixture_n_splits']):,}",
            f"{one['mixture_n_components']} x {one['mixture_n_runs']}",
            brief(float(one["mixture_seconds"])),
            nats(one["mixture_test"]),
            *(nats(ENSEMBLES[name][f"paper_{kind}_test"]) for kind in PAPERS_ENSEMBLES),
        ]
        for name, one in RECORDS.items()
    ]
    heads = ("dataset", "splits", "components x runs", "seconds", "test")
    return table((*heads, "LearnPSDD EM", "Strudel EM", "LearnPSDD BEM", "Strudel BEM"), lines)


def automatic() -> str:
    """The automatic mixture of both kinds beside EM alone, and the best that was published."""
    lines = [
        [
            name,
            f"{float(one['test']):.3f}",
            f"{float(one['spread']):.3f}",
            one["n_seeds"],
            f"{float(RECORDS[name]['mixture_test']):.3f}",
            nats(RECORDS[name]["structured"]),
            nats(RECORDS[name]["tractable"]),
            f"{int(one['n_splits']):,}",
            f"{int(one['n_components']):,}",
            f"{100 * float(one['network_share']):.0f} %",
            brief(float(one["seconds"])),
        ]
        for name, one in AUTOMATIC.items()
    ]
    heads = ("dataset", "test", "spread", "seeds", "EM alone", "best structured")
    more = ("best tractable", "splits", "components", "networks", "seconds")
    return table((*heads, *more), lines)


REAL_TABLES = {
    "density": ("density", "log_density", ("strudel", "independent", "copula"), max),
    "numbers": ("numbers", "of_numbers", ("strudel", "gaussian_mixture"), max),
    "complete rows": ("classes", "log_loss", ("strudel", "logistic", "forest", "boosting"), min),
    "rows with gaps": (
        "classes",
        "log_loss_hidden",
        ("strudel", "logistic", "forest", "boosting"),
        min,
    ),
    "seconds of classes": ("classes", "cpu", ("strudel", "logistic", "forest", "boosting"), None),
    "filled numbers": ("imputation", "number_error", ("strudel", "iterative"), min),
    "filled categories": ("imputation", "accuracy", ("strudel", "iterative"), max),
    "seconds of filling": ("imputation", "cpu", ("strudel", "iterative"), None),
    "synthetic rows": ("synthetic", "accuracy", ("real", "strudel", "sdv", "copula"), None),
    "distinct values": ("synthetic", "distinct", ("strudel", "sdv", "copula"), None),
    "answers": ("questions", "within", ("strudel",), None),
}


def real_tables(name: str) -> str:
    """A measure of every method on the real tables; the best in bold, where there is one."""
    task, measure, methods, best = REAL_TABLES[name]
    by_method = {
        method: read("tables", task=task, measure=measure, method=method) for method in methods
    }
    methods = tuple(method for method in methods if by_method[method])
    lines = []
    for dataset, own in by_method[methods[0]].items():
        found = [by_method[method].get(dataset) for method in methods]
        values = [float(one["mean"]) for one in found if one is not None]
        cells = []
        for one in found:
            text = "" if one is None else shortest(float(one["mean"]))
            is_best = best is not None and one is not None and float(one["mean"]) == best(values)
            cells.append(f"**{text}**" if is_best else text)
        lines.append([dataset, *cells, own["folds"]])
    return table(("table", *methods, "folds"), lines)


def shortest(value: float) -> str:
    return f"{value:.2f}" if abs(value) >= 2.0 else f"{value:.3f}"


def real_bars() -> str:
    """On how many of the real tables each bar is reached."""
    lines = []
    for what, one in read("tables-bars").items():
        share, n_tables = float(one["bar"]), int(one["tables"])
        verdict = "reached" if int(one["reached"]) >= share * n_tables else "**missed**"
        lines.append([what, f"{one['reached']} of {n_tables}", f"{share:.0%}", verdict])
    return table(("bar", "reached on", "asked for", ""), lines)


PAPERS_ENSEMBLES = ("learnpsdd_em", "strudel_em", "learnpsdd_bem", "strudel_bem")


def more_accurate(than: Callable[[str], str]) -> str:
    """On how many datasets the accurate preset is better, in the third digit at least."""
    return str(
        sum(
            round(float(one["test"]) - float(than(name)), 3) > 0.0 for name, one in ACCURATE.items()
        )
    )


def count(ours: str, of: dict[str, Row], *others: Callable[[str], str], equal: bool = False) -> str:
    """On how many datasets we are better than all others, or equal, to the published digits."""
    n = 0
    for name, one in of.items():
        best = max(round(float(other(name)), 2) for other in others)
        rounded = round(float(one[ours]), 2)
        n += rounded == best if equal else rounded > best
    return str(n)


def record(name: str, model_class: str = "deterministic structured") -> str:
    return RECORDS[name][model_class]


def ahead(model_class: str) -> str:
    """On how many datasets the automatic mixture is better than the best of a class."""
    n = sum(
        float(one["test"]) > float(record(name, model_class)) for name, one in AUTOMATIC.items()
    )
    return str(n)


def paper(column: str) -> Callable[[str], str]:
    return lambda name: PAPER[name][column]


def published_ensemble(kind: str) -> Callable[[str], str]:
    return lambda name: ENSEMBLES[name][f"paper_{kind}_test"]


def learnpsdd_speedup() -> str:
    """The least over all datasets of published over our own seconds of LearnPSDD."""
    ratios = [
        float(PAPER[name]["learnpsdd_seconds"]) / float(one["seconds"])
        for name, one in LEARNPSDD.items()
    ]
    return f"{min(ratios):,.0f}"


def nats(value: str) -> str:
    """With as many digits as are published."""
    return f"{float(value):.2f}"


def table(heads: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    """A table of Markdown, numbers on the right."""
    heads = list(heads)
    rows = [heads, ["---", *["---:"] * (len(heads) - 1)], *lines]
    return "\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n\n"


FIGURES: dict[str, Callable[[], str]] = {
    "learning": learning,
    "accurate": accurate,
    "mixtures": mixtures,
    "automatic": automatic,
    "automatic mixtures": lambda: str(len(AUTOMATIC)),
    "ahead of structured": lambda: ahead("structured"),
    "ahead of tractable": lambda: ahead("tractable"),
    "better than the record": lambda: more_accurate(record),
    "better than selSPN": lambda: more_accurate(paper("selspn_test")),
    "better than Strudel's ensembles": lambda: count(
        "mixture_test", RECORDS, *map(published_ensemble, ("strudel_em", "strudel_bem"))
    ),
    "better than all ensembles": lambda: count(
        "mixture_test", RECORDS, *map(published_ensemble, PAPERS_ENSEMBLES)
    ),
    "times faster than LearnPSDD": learnpsdd_speedup,
    "bars of real tables": real_bars,
    **{f"real tables: {name}": lambda name=name: real_tables(name) for name in REAL_TABLES},
    **{f"seconds of {name}": lambda name=name: seconds_of(name) for name in GREEDY},
    **{
        f"mixture seconds of {name}": lambda name=name: mixture_seconds_of(name) for name in RECORDS
    },
}


def written(text: str) -> str:
    """A page with the figures of the result files."""
    return FIGURE.sub(lambda found: found[1] + FIGURES[found[2]]() + found[4], text)


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


if __name__ == "__main__":
    for page in pages():
        before = page.read_text(encoding="utf-8")
        after = written(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(f"{page.relative_to(ROOT)} changed")
