"""table:ensembles."""

from __future__ import annotations

from reproduce.content import Section, beside_paper, likelihood, number, tables_of
from reproduce.facts import paper
from reproduce.sections.explain import explain
from reproduce.store import Results


def ensembles(results: Results) -> Section:
    """Q4: mixtures."""
    ours = results.by_dataset("mixture")
    rows, numbers, far = [], [], []
    for dataset, result in results.by_dataset("ensembles").items():
        known = paper(dataset)
        published = {name: known[name] for name in known if name.endswith("em_test")}
        single, em, bem = result["single"], result["em"], result["bem"]
        best = ours.get(dataset, {}).get("test")
        size = f"{em['components']} components."
        bags = f"{bem['bags']} bags of {bem['components']} components."
        rows.append(
            [
                ("dataset", dataset),
                ("single", number(single["test"])),
                *beside_paper("Strudel-EM", em, known.get("strudel_em_test"), size),
                *beside_paper("Strudel-BEM", bem, known.get("strudel_bem_test"), bags),
                ("LearnPSDD-EM, paper", number(known.get("learnpsdd_em_test"), 2)),
                ("LearnPSDD-BEM, paper", number(known.get("learnpsdd_bem_test"), 2)),
                ("best mixture, ours", likelihood(best, max(published.values(), default=None))),
            ]
        )
        numbers.append(
            {
                "dataset": dataset,
                "edges": single["edges"],
                "single_test": single["test"],
                **{f"em_{key}": em[key] for key in ("components", "valid", "test", "seconds")},
                "bem_bags": bem["bags"],
                **{f"bem_{key}": bem[key] for key in ("components", "valid", "test", "seconds")},
                "mixture_test": best,
                **{f"paper_{name}": value for name, value in published.items()},
            }
        )
        if known:
            far.append((f"{dataset} (EM)", em["test"], known["strudel_em_test"]))
            far.append((f"{dataset} (BEM)", bem["test"], known["strudel_bem_test"]))
    return Section(
        tables_of(
            rows,
            "Mean test log-likelihood in nats; EM and BEM coloured against the paper's column "
            "beside, our best mixture against the best of the paper's four columns.",
        ),
        notes=explain("table:ensembles", far),
        numbers=numbers,
    )
