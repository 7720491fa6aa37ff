"""table:ensembles."""

from __future__ import annotations

from strudel.reproduce.content import Section, Table, likelihood, number, plain_rows
from strudel.reproduce.facts import paper
from strudel.reproduce.results import Results
from strudel.reproduce.sections.explain import explain


def ensembles(results: Results) -> Section:
    """Q4: mixtures."""
    found, ours = results.by_dataset("ensembles"), results.by_dataset("mixture")
    rows, numbers, far = [], [], []
    for dataset, result in found.items():
        known = paper(dataset)
        em, bem, best = result["em"], result["bem"], ours.get(dataset, {})
        rows.append(
            [
                dataset,
                number(result["single"]["test"]),
                likelihood(
                    em["test"], known.get("strudel_em_test"), hint=f"{em['components']} components."
                ),
                number(known.get("strudel_em_test"), 2),
                likelihood(
                    bem["test"],
                    known.get("strudel_bem_test"),
                    hint=f"{bem['bags']} bags of {bem['components']} components.",
                ),
                number(known.get("strudel_bem_test"), 2),
                number(known.get("learnpsdd_em_test"), 2),
                number(known.get("learnpsdd_bem_test"), 2),
                likelihood(
                    best.get("test"),
                    max((known[name] for name in known if name.endswith("em_test")), default=None),
                ),
            ]
        )
        numbers.append(
            {
                "dataset": dataset,
                "edges": result["single"]["edges"],
                "single_test": result["single"]["test"],
                **{f"em_{name}": em[name] for name in ("components", "valid", "test", "seconds")},
                **{
                    f"bem_{name}": bem[name]
                    for name in ("bags", "components", "valid", "test", "seconds")
                },
                "mixture_test": best.get("test"),
                **{f"paper_{name}": known[name] for name in known if name.endswith("em_test")},
            }
        )
        if known:
            far.append((f"{dataset} (EM)", em["test"], known["strudel_em_test"]))
            far.append((f"{dataset} (BEM)", bem["test"], known["strudel_bem_test"]))
    columns = (
        "single",
        "Strudel-EM",
        "paper",
        "Strudel-BEM",
        "paper",
        "LearnPSDD-EM, paper",
        "LearnPSDD-BEM, paper",
        "best mixture, ours",
    )
    tables = []
    if rows:
        caption = (
            "Mean test log-likelihood in nats; EM and BEM coloured against the paper's column "
            "beside, our best mixture against the best of the paper's four columns."
        )
        tables = [Table(("dataset", *columns), plain_rows(rows), caption)]
    return Section(
        "table:ensembles",
        "Q4: mixtures of circuits",
        [
            "The paper's protocol: the structure is the one that the search keeps within 1,000 "
            "splits, early stopping included; EM with 2, 5, 10, 15, 20, 25 or 30 components, "
            "chosen on the validation rows; BEM averages EM on ten bootstrap samples. *Single* is "
            'that structure by itself. The last column is `StrudelMixture("auto")`, which also '
            "chooses how far a best-first search of the structure goes, averages many runs and "
            "draws components to the single circuit.",
        ],
        tables,
        notes=explain("table:ensembles", far),
        numbers=numbers,
    )
