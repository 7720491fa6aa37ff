"""`strudel demo`: the whole tour on built-in data, offline, in one folder.

In:  the table that ships with the package, visits to a clinic.
Out: answers beside counts of the rows, a page to click on, pictures, and the model.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strudel.cli.console import InputError, JsonOption, print_json, say, show_table

if TYPE_CHECKING:
    import pandas as pd

    from strudel.models.strudel import Strudel

# What is asked for, and what is given: a text for the model, and for pandas.
QUESTIONS = (
    ("diagnosis = influenza", "temperature >= 38"),
    ("diagnosis = bronchitis", "smoker = yes & cough = yes"),
    ("diagnosis = diabetes", "glucose >= 8 | age >= 80"),
    ("chest_pain = yes", "diagnosis = angina"),
    ("cough = yes", "diagnosis = influenza & age >= 70"),
)
KNOWN = {"smoker": "yes", "cough": "yes"}  # in the picture


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the pictures and the model.")] = Path(
        "strudel-demo"
    ),
    as_json: JsonOption = False,
) -> None:
    """Tour on built-in data: learn, ask, compare with the rows, draw.

    Learns from a table of patients, answers questions exactly and counts the rows beside, fills
    missing values, and writes a page to click on, pictures and a model into one folder. Needs no
    network and no data of yours; takes some seconds, and a minute or two the first time, while the
    inner loops are compiled.
    """
    started = time.perf_counter()
    if out.exists() and not out.is_dir():
        raise InputError(f"{str(out)!r} is a file; --out names a folder.")
    out.mkdir(parents=True, exist_ok=True)
    tell: Any = (lambda line="": None) if as_json else say

    import pandas as pd

    from strudel.io.model_file import save
    from strudel.models.strudel import Strudel
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
    tell()
    answers = [_answer(model, patients, *question) for question in QUESTIONS]
    tell("2. Questions, answered exactly by the model, and counted in the rows:")
    if not as_json:
        show_table(answers)
    tell()
    filled = _fill(model, patients)
    tell(f"3. Missing values: {n_missing} before, {filled} after they were filled.")
    files = {"page to click on": model.explore(title="Patients").save(out / "patients.html")}
    files |= _draw(model, out)
    save(model, out / "patients.strudel", provenance={"source": "patients"})
    files["model"] = out / "patients.strudel"
    seconds = time.perf_counter() - started
    if as_json:
        paths = {name: str(path) for name, path in files.items()}
        report = {"answers": answers, "missing": {"before": n_missing, "after": filled}}
        print_json(report | {"files": paths, "seconds": seconds})
        return
    for name, path in files.items():
        say(f"   {name:<22}{path}")
    say()
    say(f"Everything is in {out}/ ({seconds:.0f} seconds). Next, try:")
    say(f"   open {files['page to click on']}")
    say(f'   strudel query {files["model"]} probability "cough = yes" --given "age > 60"')
    say("   strudel fit your-table.csv")
    say("   strudel explore your-table.strudel")


def _answer(model: Strudel, rows: pd.DataFrame, event: str, given: str) -> dict[str, Any]:
    """What the model says, and what is counted in rows that know the columns of the question."""
    is_given, is_asked = _count(rows, given), _count(rows, event)
    known = rows[event.split()[0]].notna()
    counted = float(is_asked[is_given & known].mean())
    answer = float(model.probability(event, given=given))
    return {
        "event": event,
        "given": given,
        "model": round(answer, 3),
        "rows": round(counted, 3),
        "n_rows": int((is_given & known).sum()),
    }


def _count(rows: pd.DataFrame, text: str) -> Any:
    """Which rows fulfil a text of comparisons, counted by pandas and not by the library."""
    python = text.replace(" = ", " == ")
    for value in ("yes", "bronchitis", "influenza", "diabetes", "angina"):
        python = python.replace(f"== {value}", f"== '{value}'")
    return rows.eval(python)


def _fill(model: Strudel, rows: pd.DataFrame) -> int:
    """How many values are still missing after the model has filled them."""
    from strudel.models.imputer import StrudelImputer

    return int(StrudelImputer(model).fit_transform(rows).isna().sum().sum())


def _draw(model: Strudel, out: Path) -> dict[str, Path]:
    """Pictures of the model, by what they show."""
    from strudel.plotting.canvas import save_figure
    from strudel.plotting.heat_maps import plot_dependencies
    from strudel.plotting.marginals import plot_marginals

    answer: Any = plot_marginals(model, given=KNOWN).figure
    dependencies: Any = plot_dependencies(model).figure
    return {
        "smoke and cough": save_figure(answer, out / "smoke_and_cough.png"),
        "dependencies": save_figure(dependencies, out / "dependencies.png"),
    }
