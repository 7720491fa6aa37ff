"""What knowing the codes of columns is worth: the encoder's `respect_one_hot` on and off.

    python benchmarks/columns.py [n_bins] [n_folds]

Tables of scikit-learn, the class among the columns; mean log-likelihood per row of the test folds,
and seconds to fit. Both models have the same 0/1 variables, so their likelihoods may be compared.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import KFold

from strudel import Strudel
from strudel.tables import TableEncoder

TABLES = {"wine": load_wine, "breast cancer": load_breast_cancer, "digits": load_digits}
MODELS = {
    "first circuit": Strudel(n_components=1, max_splits=0, random_state=0),
    "greedy": Strudel(n_components=1, random_state=0),
    "learnpsdd from the tree": Strudel(
        n_components=1, search="learnpsdd", init="chow_liu", random_state=0
    ),
    "mixture of 10": Strudel(n_components=10, max_splits=0, random_state=0),
}


def main(n_bins: int = 8, n_folds: int = 5) -> None:
    """Print a table in Markdown."""
    print("| table | code | model | respected | not | seconds | seconds, not |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, load in TABLES.items():
        data = load(as_frame=True).frame.astype({"target": str})
        # A pixel may be 0 or 1 in all rows of a fold, and more in others.
        kinds = dict.fromkeys(data.columns.drop("target"), "number")
        folds = list(KFold(n_folds, shuffle=True, random_state=0).split(data))
        for code in ("thermometer", "one_hot"):
            encoder = TableEncoder(kinds=kinds, n_bins=n_bins, code=code)
            for words, model in MODELS.items():
                scores, seconds = [], []
                for is_respected in (True, False):
                    model.set_params(columns=encoder.set_params(respect_one_hot=is_respected))
                    started, of_fold = time.perf_counter(), []
                    for train, test in folds:
                        model.fit(data.iloc[train])
                        of_fold.append(model.score(data.iloc[test]))
                    seconds.append((time.perf_counter() - started) / n_folds)
                    scores.append(float(np.mean(of_fold)))
                print(
                    f"| {name} | {code} | {words} | {scores[0]:.2f} | {scores[1]:.2f} "
                    f"| {seconds[0]:.1f} | {seconds[1]:.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
