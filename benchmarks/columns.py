"""Every family of questions to the default model of a table: seconds to fit, and to answer.

    python benchmarks/columns.py [--rows N]

The table is adult (32,561 rows, 15 columns) of `$STRUDEL_DATA/tables`, with text, numbers and
missing values. Each question is asked twice with other facts: the first answer may compile, the
second is what counts. The bar is a second. CPU seconds; with `OMP_NUM_THREADS=1` of one thread.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

import strudel
from strudel import Strudel
from strudel.queries import check, compare, correlations, surprise

BAR = 1.0


def questions(model: Any, rows: pd.DataFrame) -> dict[str, Callable[[Any], Any]]:
    """A question of every family, about the facts that it is given."""
    names = list(rows.columns)
    gaps = rows.head(100).drop(columns=names[::3])  # unknown columns
    numbers, other = names[0], names[4]
    return {
        "score of 1,000 rows": lambda given: model.score(rows.head(1000)),
        "log_marginal of 100 rows": lambda given: model.log_marginal(gaps),
        "log_conditional of 100 rows": lambda given: model.log_conditional(gaps, given),
        "probability": lambda given: model.probability(f"{numbers} >= 40", given),
        "probability of an or": lambda given: model.probability(
            f"{numbers} >= 60 | '{other}' < 6", given
        ),
        "expectation": lambda given: model.expectation(numbers, given),
        "quantile": lambda given: model.quantile(numbers, 0.9, given),
        "marginal_probabilities": lambda given: model.marginal_probabilities(given),
        "most_probable_state": lambda given: model.most_probable_state(given),
        "marginal_map": lambda given: model.marginal_map([names[1], names[3]], given),
        "sample of 1,000 rows": lambda given: model.sample(1000, given, random_state=0),
        "mutual_information": lambda given: model.mutual_information(numbers, other, given),
        "compare": lambda given: compare(model, given, {}),
        "surprise of 10 rows": lambda given: surprise(model, rows.head(10)),
        "correlations": lambda given: correlations(model),
        "responsibilities of 100 rows": lambda given: model.responsibilities(gaps),
        "condition": lambda given: strudel.condition(model, given),
        "check of 10,000 rows": lambda given: check(model, rows.head(10_000)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=None, help="learn from the first of them")
    args = parser.parse_args()
    path = Path(os.environ["STRUDEL_DATA"]) / "tables" / "adult-train.csv.gz"
    rows = pd.read_csv(path, skipinitialspace=True, na_values="?").head(args.rows or 10**9)
    warnings.simplefilter("ignore")
    started = time.process_time()
    model = Strudel(random_state=0, verbose=False).fit(rows)
    print(f"fit {time.process_time() - started:.1f} s: {model.circuit_}, {model.chosen_}")
    text = next(name for name in rows if rows[name].dtype == object or rows[name].dtype == "str")
    values = rows[text].value_counts().index[:2]
    slow = []
    for name, ask in questions(model, rows).items():
        seconds = []
        for value in values:
            started = time.process_time()
            ask({text: value})
            seconds.append(time.process_time() - started)
        print(f"| {name} | {seconds[0]:.3f} | {seconds[1]:.3f} |", flush=True)
        slow += [name] if seconds[1] > BAR else []
    print("within a second: all" if not slow else f"slower than a second: {', '.join(slow)}")


if __name__ == "__main__":
    main()
