"""table:single-models and table:wilcoxon."""

from __future__ import annotations

from typing import Any

from strudel.reproduce.content import Section, beside_paper, number, tables_of
from strudel.reproduce.facts import paper
from strudel.reproduce.sections.explain import cut_runs, explain
from strudel.reproduce.store import Results

SIGNIFICANT = 0.01  # the paper's level of confidence, 99 %
COLUMNS = (
    "dataset",
    "Strudel",
    "paper",
    "LearnPSDD, ours",
    "paper",
    "selSPN, paper",
    "seaSPN, paper",
)
WILCOXON_COLUMNS = (
    "dataset",
    "p, LearnPSDD (ours)",
    "better on most rows",
    "mean difference",
    "median difference",
    "rows",
    "p, LearnPSDD (paper)",
    "p, selSPN (paper)",
)


def single_models(results: Results) -> Section:
    """Q3: test log-likelihoods of single circuits."""
    found = results.by_dataset("single")
    rows, numbers, far = [], [], []
    for dataset, result in found.items():
        known = paper(dataset)
        row: list[Any] = [dataset]
        for name, search in (("strudel", "greedy"), ("learnpsdd", "learnpsdd")):
            one, published = result[search], known.get(f"{name}_test")
            is_cut = one["stopped_because"] == "max_seconds"
            row += beside_paper(one, published, "Stopped by the time limit." if is_cut else "")
            plain = {key: value for key, value in one.items() if key != "curve"}
            numbers.append({"dataset": dataset, "search": name, **plain, "paper_test": published})
        rows.append(
            [*row, *(number(known.get(f"{name}_test"), 2) for name in ("selspn", "seaspn"))]
        )
        if known:
            far.append((dataset, result["greedy"]["test"], known["strudel_test"]))
    return Section(
        "Greedy splits by eFLOW and vMI from the Chow-Liu start, and our LearnPSDD "
        '(`search="learnpsdd"`) with the operations, scores and start of the released program. '
        "Both stop after 100 operations without a better validation likelihood and return the "
        "best circuit.",
        tables_of(
            COLUMNS,
            rows,
            "Mean test log-likelihood in nats; ours coloured against the paper's column beside.",
        ),
        notes=[
            *explain("table:single-models", far),
            *cut_runs(
                (dataset, name, result[search])
                for dataset, result in found.items()
                for name, search in (("Strudel", "greedy"), ("LearnPSDD", "learnpsdd"))
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
                dataset,
                _p(test["p"]),
                "equal" if test["p"] >= SIGNIFICANT else better,
                number(test["mean_difference"]),
                number(test["median_difference"], 4),
                number(test["n_rows"], 0),
                _p(known.get("learnpsdd_p")),
                _p(known.get("selspn_p")),
            ]
        )
        numbers.append({"dataset": dataset, **test, "paper_p": known.get("learnpsdd_p")})
    return Section(
        "Wilcoxon signed-rank tests on the log-likelihoods of the test rows, Strudel against "
        "our LearnPSDD. With thousands of rows even small differences are significant.",
        tables_of(
            WILCOXON_COLUMNS,
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
