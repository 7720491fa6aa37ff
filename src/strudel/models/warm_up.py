"""Compile ahead of time what is otherwise compiled on first use.

In:  nothing.
Out: compiled code on disk, for every later process of this installation.

Everything runs once on a table of a few rows, which compiles it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier

from strudel import algebra, predictions, queries
from strudel._compiling import Compiled, compiled, on_compile
from strudel._numba import nothing_plain
from strudel._types import AnyArray
from strudel.learning.options import EM, BaggedEM, Boosting
from strudel.models.classifier import StrudelClassifier
from strudel.models.imputer import StrudelImputer
from strudel.models.strudel import Strudel

Step = Callable[[], Any]


def warmup(callback: Callable[[str, Compiled], None] | None = None) -> Compiled:
    """Compile everything that fits, mixtures and queries use, for container images and classrooms.

    Without it, every function is compiled when it is used for the first time, once per
    installation.

    Parameters
    ----------
    callback : callable, optional
        Called after every compiled function, with the current step ("3 of 14: mixtures by EM"), and
        with the number of functions and seconds so far.

    Returns
    -------
    Compiled
        How many functions were compiled, and the seconds it took; zero if all were on disk.

    Examples
    --------
    >>> from strudel import warmup
    >>> done = warmup()
    >>> done.seconds >= 0.0
    True
    """
    before = compiled()
    steps = _steps(_rows(300))
    with warnings.catch_warnings(), nothing_plain():
        warnings.simplefilter("ignore")  # of tables too small to be learned from
        for number, (name, step) in enumerate(steps.items(), start=1):
            if callback is None:
                step()
                continue

            def tell(_: Compiled, work: str = f"{number} of {len(steps)}: {name}") -> None:
                callback(work, compiled() - before)

            with on_compile(tell):
                step()
    return compiled() - before


def _rows(n_rows: int) -> AnyArray:
    """Rows of eight variables that depend on each other, so that copies also pay."""
    rng = np.random.default_rng(0)
    kind = np.repeat(rng.integers(0, 2, (n_rows, 4)), 2, axis=1)
    return (rng.random((n_rows, 8)) < 0.1 + 0.8 * kind * kind[:, ::-1]).astype(np.uint8)


def _steps(rows: AnyArray) -> dict[str, Step]:
    gaps = np.where(np.random.default_rng(1).random(rows.shape) < 0.2, np.nan, rows)
    weight = np.random.default_rng(2).random(len(rows))
    of_mixture: dict[str, Any] = {"max_components": 4, "max_splits": 3, "random_state": 0}
    one = Strudel(n_components=1, max_splits=4, random_state=0)
    mixture = Strudel(3, method=EM(max_iter=2), **of_mixture)

    def circuit(**options: Any) -> Strudel:
        return Strudel(n_components=1, max_splits=40, random_state=0, **options).fit(rows)

    def mixed(n_components: Any = 3, **options: Any) -> Strudel:
        return Strudel(n_components, **(of_mixture | options)).fit(rows)

    return {
        "the paper's search": lambda: one.fit(rows),
        "best-first search": lambda: circuit(search="best_first", smoothing="hierarchical"),
        "the preset fast": lambda: circuit(preset="fast"),
        "the preset accurate": lambda: circuit(preset="accurate", max_seconds=2.0),
        "LearnPSDD": lambda: circuit(search="learnpsdd"),
        "mixtures by EM": lambda: mixture.fit(rows),
        "the choice of a mixture": lambda: mixed("auto", max_components=30, max_seconds=2.0),
        "bagged EM": lambda: mixed(method=BaggedEM(n_bags=2, max_iter=2)),
        "boosting": lambda: mixed(method=Boosting()),
        "columns of tables": lambda: _learn_table(rows),
        "weighted rows": lambda: Strudel(n_components=1, max_splits=3, random_state=0).fit(
            rows, sample_weight=weight
        ),
        "unknown values": lambda: StrudelImputer(random_state=0).fit(gaps).transform(gaps),
        "classifiers": lambda: (
            StrudelClassifier(random_state=0)
            .fit(rows[:, 1:], rows[:, 0])
            .predict_proba(gaps[:, 1:])
        ),
        "queries of circuits": lambda: _ask(one.circuit_, rows, gaps),
        "queries of mixtures": lambda: _ask(mixture.circuit_, rows, gaps),
        "components of rows": lambda: mixture.responsibilities(rows),
        "algebra": lambda: _compare(one.circuit_, gaps[0]),
        "predictions": lambda: _predict(one.circuit_, rows, gaps),
    }


def _learn_table(rows: AnyArray) -> None:
    import pandas as pd

    numbers, codes = rows @ np.arange(rows.shape[1]), rows[:, 0] + 2 * rows[:, 1]
    table = pd.DataFrame({"number": numbers, "kind": np.array(["a", "b", "c", "d"])[codes]})
    Strudel(n_components=1, max_splits=3, random_state=0).fit(table).score(table)


def _ask(model: Any, rows: AnyArray, gaps: AnyArray) -> None:
    queries.log_likelihood(model, rows)
    queries.log_marginal(model, gaps)
    queries.log_conditional(model, gaps, np.full(rows.shape, np.nan))
    queries.marginal_probabilities(model, gaps)
    queries.pair_probabilities(model, gaps[0])
    queries.most_probable_state(model, gaps)
    queries.most_probable_state(model, gaps[0], k=2)
    queries.marginal_map(model, list(range(7)))
    queries.sample(model, 3, random_state=0)
    queries.sample(model, 3, gaps[0], random_state=0)
    queries.count_distribution(model, [0, 1, 2])
    queries.mutual_information(model, [0], [1])
    queries.entropy(model, gaps[0])
    queries.probability(model, "x0 & ~x1")


def _compare(circuit: Any, given: AnyArray) -> None:
    queries.entropy(circuit)
    algebra.kl_divergence(circuit, circuit)
    algebra.kl_divergence(algebra.condition(circuit, given), algebra.condition(circuit, given))
    algebra.multiply(circuit, circuit)


def _predict(circuit: Any, rows: AnyArray, gaps: AnyArray) -> None:
    linear = LinearRegression().fit(rows, rows.sum(axis=1))
    tree = DecisionTreeClassifier(max_depth=3, random_state=0).fit(rows, rows[:, 0] & rows[:, 1])
    for predictor in (linear, tree):
        predictions.expected_prediction(circuit, predictor, gaps)
    predictions.same_decision_probability(circuit, tree, gaps[0])
    predictions.sufficient_explanation(circuit, tree, rows[0])
    predictions.shap_values(circuit, linear, rows[:1])
