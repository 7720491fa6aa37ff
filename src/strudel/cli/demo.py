"""`strudel demo`: the whole tour on built-in data, offline, in one folder.

In:  the table that ships with the package, visits to a clinic.
Out: answers beside counts of the rows, a page to click on, pictures, and the model.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from strudel.cli.console import JsonOption, option, print_json, say, show_table

# What is asked for, and what is given: texts that the library and pandas read.
QUESTIONS = (
    ("diagnosis == 'influenza'", "temperature >= 38"),
    ("diagnosis == 'bronchitis'", "smoker == 'yes' & cough == 'yes'"),
    ("diagnosis == 'diabetes'", "glucose >= 8 | age >= 80"),
    ("chest_pain == 'yes'", "diagnosis == 'angina'"),
    ("cough == 'yes'", "diagnosis == 'influenza' & age >= 70"),
)


def demo(
    out: Path = option("Folder for pictures and the model.", default=Path("strudel-demo")),
    as_json: JsonOption = False,
) -> None:
    """Tour on built-in data: learn, ask, compare with the rows, draw.

    Learns from a table of patients, answers questions exactly and counts the rows beside, fills
    missing values, and writes a page to click on, pictures and a model into one folder. Needs no
    network and no data of yours; takes some seconds, and a minute or two the first time, while the
    inner loops are compiled.
    """
    started = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    tell: Any = (lambda line="": None) if as_json else say

    import pandas as pd

    from strudel import Strudel, StrudelImputer, save
    from strudel.plotting import plot_dependencies, plot_marginals
    from strudel.plotting.canvas import save_figure
    from strudel.tables.columns import example_csv

    patients = pd.read_csv(example_csv(), parse_dates=["visit"])
    n_missing = int(patients.isna().sum().sum())
    tell(
        f"1. Data: {len(patients):,} visits to a clinic, made up: numbers, categories, dates, and "
        f"{n_missing} missing values."
    )
    tell("   Learning (the first run also compiles, which takes a while) ...")
    model = Strudel(random_state=0, verbose=False if as_json else "auto").fit(patients)
    tell(f"   {model.chosen_.get('explanation', model.circuit_)}.")
    tell("\n2. Questions, answered exactly by the model, and counted in the rows:")
    answers = [_answer(model, patients, *question) for question in QUESTIONS]
    if not as_json:
        show_table(answers)
    n_left = int(StrudelImputer(model).fit_transform(patients).isna().sum().sum())
    tell(f"\n3. Missing values: {n_missing} before, {n_left} after they were filled.")
    marginals: Any = plot_marginals(model, given="smoker = yes & cough = yes")
    dependencies: Any = plot_dependencies(model)
    files = {
        "page to click on": model.explore(title="Patients").save(out / "patients.html"),
        "smoke and cough": save_figure(marginals.figure, out / "smoke_and_cough.png"),
        "dependencies": save_figure(dependencies.figure, out / "dependencies.png"),
        "model": out / "patients.strudel",
    }
    save(model, files["model"], provenance={"source": "patients"})
    seconds = time.perf_counter() - started
    if as_json:
        report = {"answers": answers, "missing": {"before": n_missing, "after": n_left}}
        print_json(report | {"files": files, "seconds": seconds})
        return
    show_table(files)
    say(f"\nEverything is in {out}/ ({seconds:.0f} seconds). Next, try:")
    say(f"   open {files['page to click on']}")
    say(f'   strudel query {files["model"]} probability "cough = yes" --given "age > 60"')
    say("   strudel fit your-table.csv")
    say("   strudel explore your-table.strudel")


def _answer(model: Any, rows: Any, event: str, given: str) -> dict[str, Any]:
    """What the model says, and what is counted in rows that know the columns of the question."""
    is_counted = rows.eval(given) & rows[event.split()[0]].notna()
    return {
        "event": event,
        "given": given,
        "model": round(float(model.probability(event, given=given)), 3),
        "counted": round(float(rows.eval(event)[is_counted].mean()), 3),
        "n_rows": int(is_counted.sum()),
    }
