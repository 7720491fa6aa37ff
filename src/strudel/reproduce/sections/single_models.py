"""table:single-models and table:wilcoxon."""

from __future__ import annotations

from strudel.reproduce.content import Row, Section, beside_paper, number, tables_of
from strudel.reproduce.facts import paper
from strudel.reproduce.sections.costs import PAIRS
from strudel.reproduce.sections.explain import cut_runs, explain
from strudel.reproduce.store import Results

SIGNIFICANT = 0.01  # the paper's level of confidence, 99 %


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
        "Greedy splits by eFLOW and vMI from the Chow-Liu start, and our LearnPSDD "
        '(`search="learnpsdd"`) with the operations, scores and start of the released program. '
        "Both stop after 100 operations without a better validation likelihood and return the "
        "best circuit.",
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
        "Wilcoxon signed-rank tests on the log-likelihoods of the test rows, Strudel against "
        "our LearnPSDD. With thousands of rows even small differences are significant.",
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
