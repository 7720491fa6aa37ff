"""How long decisions and explanations take: scikit-learn's breast cancer table, cut at medians.

    python benchmarks/decisions.py

needs no data but what scikit-learn holds. Times are those of one run, kernels compiled before.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import strudel


def timed(what: str, run):
    run()  # compiles
    start = time.perf_counter()
    found = run()
    seconds = time.perf_counter() - start
    print(f"{what:62} {seconds:7.3f} s  {found}", flush=True)


def main() -> None:
    warnings.simplefilter("ignore", strudel.errors.SearchLimitWarning)
    data = load_breast_cancer()
    order = np.random.default_rng(0).permutation(len(data.data))
    train, test = order[:400], order[400:]
    X = (data.data > np.median(data.data[train], axis=0)).astype(np.uint8)
    y = 1 - data.target
    table = np.column_stack([y, X]).astype(np.uint8)
    with_label = strudel.Strudel(n_components=1, random_state=0).fit(table[train]).circuit_
    nothing = np.full(31, np.nan)
    some = np.where(np.arange(31) > 25, table[test[0]], np.nan)
    print(with_label)
    for n_hidden in (6, 10, 14):
        for name, row in (("nothing", nothing), ("five values", some)):
            timed(
                f"same decision, {n_hidden} hidden, {name} known",
                lambda row=row, n=n_hidden: summary(
                    strudel.same_decision_probability(
                        with_label, 0, row, hidden=range(1, 1 + n), details=True
                    )
                ),
            )
    model = strudel.Strudel(n_components=1, random_state=0).fit(X[train]).circuit_
    print(model)
    forest = RandomForestClassifier(10, max_depth=4, random_state=0).fit(X[train], y[train])
    tree = DecisionTreeClassifier(max_depth=4, random_state=0).fit(X[train], y[train])
    half = X[test[:10]].astype(float)
    half[:, ::2] = np.nan
    timed(
        "same decision of a forest, ten half-known rows",
        lambda: summary(strudel.same_decision_probability(model, forest, half, details=True)),
    )
    for g, name in ((tree, "a tree"), ("at_least(3, x0, x2, x6, x22, x27)", "a rule")):
        timed(
            f"a forest agrees with {name}",
            lambda g=g: summary(
                strudel.predictions.classifier_agreement(model, forest, g, details=True)
            ),
        )
    row = X[test[0]]
    for delta in (0.9, 0.97):
        timed(
            f"why, tree, delta {delta}",
            lambda delta=delta: explained(strudel.sufficient_explanation(model, tree, row, delta)),
        )
    timed("why, forest", lambda: explained(strudel.sufficient_explanation(model, forest, row)))
    few = np.where(np.arange(30) < 12, row, np.nan)
    timed(
        "12 exact Shapley values, forest", lambda: strudel.shap_values(model, forest, few).is_exact
    )
    timed(
        "30 sampled Shapley values, forest",
        lambda: strudel.shap_values(model, forest, row).is_exact,
    )


def summary(found) -> str:
    low, high = np.mean(found.lower_bound), np.mean(found.upper_bound)
    return f"{low:.4f}..{high:.4f}, {np.sum(found.n_nodes)} splits"


def explained(found) -> str:
    return f"{len(found.features)} values, smallest: {found.is_smallest}, {found.n_sets} sets"


if __name__ == "__main__":
    main()
