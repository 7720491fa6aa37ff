"""table:single-models and table:wilcoxon."""

from __future__ import annotations

from typing import Any

from strudel.reproduce.content import Section, Table, likelihood, number, plain_rows
from strudel.reproduce.facts import paper
from strudel.reproduce.results import Results
from strudel.reproduce.sections.explain import cut_runs, explain

SIGNIFICANT = 0.01  # the paper's level of confidence, 99 %


def single_models(results: Results) -> Section:
    """Q3: test log-likelihoods of single circuits."""
    found = results.by_dataset("single")
    rows, numbers, far = [], [], []
    for dataset, result in found.items():
        known = paper(dataset)
        ours, theirs = result["greedy"], result["learnpsdd"]
        rows.append(
            [
                dataset,
                likelihood(ours["test"], known.get("strudel_test"), hint=_stop(ours)),
                number(known.get("strudel_test"), 2),
                likelihood(theirs["test"], known.get("learnpsdd_test"), hint=_stop(theirs)),
                number(known.get("learnpsdd_test"), 2),
                number(known.get("selspn_test"), 2),
                number(known.get("seaspn_test"), 2),
            ]
        )
        for name, one in (("strudel", ours), ("learnpsdd", theirs)):
            published = known.get(f"{name}_test")
            numbers.append(
                {
                    "dataset": dataset,
                    "search": name,
                    **{key: value for key, value in one.items() if key != "curve"},
                    "paper_test": published,
                }
            )
        if known:
            far.append((dataset, ours["test"], known["strudel_test"]))
    columns = ("Strudel", "paper", "LearnPSDD, ours", "paper", "selSPN, paper", "seaSPN, paper")
    tables = []
    if rows:
        caption = (
            "Mean test log-likelihood in nats; ours coloured against the paper's column beside."
        )
        tables = [Table(("dataset", *columns), plain_rows(rows), caption)]
    return Section(
        "table:single-models",
        "Q3: single circuits",
        [
            "Greedy splits by eFLOW and vMI from the Chow-Liu start, and our LearnPSDD "
            '(`search="learnpsdd"`) with the operations, scores and start of the released program. '
            "Both stop after 100 operations without a better validation likelihood and return the "
            "best circuit.",
        ],
        tables,
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


def _stop(one: dict[str, Any]) -> str:
    """A word where the limit of time ended a search."""
    return "Stopped by the limit of time." if one["stopped_because"] == "max_seconds" else ""


def wilcoxon(results: Results) -> Section:
    """Paired tests on the likelihoods of the test rows."""
    found = results.by_dataset("single")
    rows, numbers = [], []
    for dataset, result in found.items():
        test, known = result["wilcoxon"], paper(dataset)
        published = known.get("learnpsdd_p")
        is_equal = test["p"] >= SIGNIFICANT
        rows.append(
            [
                dataset,
                _p(test["p"]),
                "equal"
                if is_equal
                else "Strudel"
                if test["median_difference"] > 0
                else "LearnPSDD",
                number(test["mean_difference"]),
                number(test["median_difference"], 4),
                number(test["n_rows"], 0),
                "-" if published is None else _p(published),
                "-" if not known else _p(known["selspn_p"]),
            ]
        )
        numbers.append({"dataset": dataset, **test, "paper_p": published})
    columns = (
        "p, LearnPSDD (ours)",
        "better on most rows",
        "mean difference",
        "median difference",
        "rows",
        "p, LearnPSDD (paper)",
        "p, selSPN (paper)",
    )
    caption = (
        "Strudel minus LearnPSDD, in nats per test row. With p below 0.01 the two differ; "
        '"equal" otherwise.'
    )
    return Section(
        "table:wilcoxon",
        "Q3: are the differences significant?",
        [
            "Wilcoxon signed-rank tests on the log-likelihoods of the test rows, Strudel against "
            "our LearnPSDD. With thousands of rows even small differences are significant.",
        ],
        [Table(("dataset", *columns), plain_rows(rows), caption)] if rows else [],
        numbers=numbers,
    )


def _p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1e}"
