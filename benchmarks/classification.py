"""Accuracy of StrudelClassifier and of a random forest, with complete and with missing inputs.

python benchmarks/classification.py [wine breast_cancer digits] [--seed 0] [--out results.json]

Five stratified folds, the same for both; default options. Then half of the inputs of the test rows
are hidden at random: the forest gets medians of the training rows, the classifier the gaps.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import machine
import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold

from strudel import StrudelClassifier

LOADERS = {"wine": load_wine, "breast_cancer": load_breast_cancer, "digits": load_digits}
HIDDEN = 0.5
HEADER = (
    "| dataset | Strudel | forest | hidden: Strudel | hidden: forest | log-loss: Strudel | forest "
    "| CPU seconds of a fit |\n| --- | --- | --- | --- | --- | --- | --- | --- |"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(LOADERS))
    parser.add_argument("--seed", type=int, default=0, help="of the folds and of what is hidden")
    parser.add_argument("--out", help="write json here, after every dataset")
    args = parser.parse_args()
    print(HEADER)
    results = []
    for name in args.names:
        results.append(compare(name, args.seed))
        machine.write(args.out, results)


def compare(name: str, seed: int) -> dict[str, Any]:
    X, y = LOADERS[name](return_X_y=True)
    is_hidden = np.random.default_rng(seed).random(X.shape) < HIDDEN
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    rows = []
    for train, test in folds.split(X, y):
        started = time.process_time()
        model = StrudelClassifier(random_state=seed).fit(X[train], y[train])
        seconds = time.process_time() - started
        forest = RandomForestClassifier(random_state=seed).fit(X[train], y[train])
        medians = SimpleImputer(strategy="median").fit(X[train])
        gaps = np.where(is_hidden[test], np.nan, X[test])
        rows.append(
            [
                model.score(X[test], y[test]),
                forest.score(X[test], y[test]),
                model.score(gaps, y[test]),
                forest.score(medians.transform(gaps), y[test]),
                log_loss(y[test], model.predict_proba(X[test])),
                log_loss(y[test], forest.predict_proba(X[test])),
                seconds,
            ]
        )
    mean = np.mean(rows, axis=0)
    cells = [f"{100 * value:.1f} %" for value in mean[:4]] + [f"{value:.3f}" for value in mean[4:6]]
    print(f"| {name} | {' | '.join(cells)} | {mean[6]:.1f} |", flush=True)
    columns = ("strudel", "forest", "hidden_strudel", "hidden_forest")
    columns += ("log_loss_strudel", "log_loss_forest", "seconds")
    return {"dataset": name, "folds": rows, **dict(zip(columns, mean.tolist(), strict=True))}


if __name__ == "__main__":
    main()
