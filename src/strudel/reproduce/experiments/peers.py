"""Other densities on the same rows: simple baselines, and the packages that are installed.

In:  a table.
Out: per peer its likelihoods and seconds, or why there are none. What has to be chosen is chosen on
     the validation rows.

A package may be slow or crash, so each has its own process and a time limit.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np
from scipy.special import logsumexp

from strudel.circuits.compile import compile_chow_liu
from strudel.data.datasets import Dataset
from strudel.queries.likelihood import log_likelihood
from strudel.reproduce.benchmark_tables import WARM, load_table
from strudel.reproduce.experiments import packages
from strudel.reproduce.experiments.measures import mean_scores, stopwatch
from strudel.reproduce.processes import call_within
from strudel.reproduce.tasks import Settings
from strudel.trees.chow_liu import learn_chow_liu_tree
from strudel.trees.vtree import vtree_from_chow_liu

N_CLUSTERS = (5, 20, 80)
SMOOTHING = (0.01, 0.1, 1.0)


def independent(data: Dataset, seed: int) -> dict[str, Any]:
    """All variables independent: scikit-learn's naive Bayes with a single class."""
    from sklearn.naive_bayes import BernoulliNB

    model = BernoulliNB().fit(data.train, np.zeros(len(data.train)))
    return mean_scores(lambda rows: model.predict_joint_log_proba(rows)[:, 0], data)


def chow_liu(data: Dataset, seed: int) -> dict[str, Any]:
    """The best tree-shaped network, as the circuit that the search starts from."""
    tree = learn_chow_liu_tree(data.train)
    circuit = compile_chow_liu(tree, vtree_from_chow_liu(tree))
    return mean_scores(lambda rows: log_likelihood(circuit, rows), data)


def clusters(data: Dataset, seed: int) -> dict[str, Any]:
    """A mixture of independent variables: clusters of k-means as classes of naive Bayes.

    The joint probability of class and row, summed over the classes, is a density of rows.
    """
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.naive_bayes import BernoulliNB

    tried = []
    for k in N_CLUSTERS:
        label = MiniBatchKMeans(k, n_init=1, random_state=seed).fit_predict(data.train)
        for alpha in SMOOTHING:
            model = BernoulliNB(alpha=alpha).fit(data.train, label)
            scores = mean_scores(
                lambda rows, model=model: logsumexp(model.predict_joint_log_proba(rows), axis=1),
                data,
            )
            tried.append(scores | {"clusters": k, "smoothing": alpha})
    return max(tried, key=lambda one: float(one["valid"]))


Density: TypeAlias = Callable[[Dataset, int], dict[str, Any]]
BASELINES: dict[str, Density] = {
    "independent variables (scikit-learn)": independent,
    "clusters of independent variables (scikit-learn)": clusters,
    "Chow-Liu tree": chow_liu,
}
PACKAGES: dict[str, tuple[Density, str]] = {  # and the module that it needs
    "deeprob-kit, random circuit": (packages.deeprob_random_circuit, "deeprob"),
    "deeprob-kit, ten random circuits": (packages.deeprob_ensemble, "deeprob"),
    "deeprob-kit, LearnSPN": (packages.deeprob_learn_spn, "deeprob"),
    "SPFlow, cutset network": (packages.spflow_cutset_network, "spflow"),
    "pyjuice, hidden Chow-Liu tree": (packages.pyjuice_hidden_chow_liu_tree, "pyjuice"),
}


def warm_up() -> None:
    """Load scikit-learn and the kernels of the Chow-Liu tree."""
    for density in BASELINES.values():
        fit(density, WARM[0], 0)


def run(name: str, settings: Settings) -> dict[str, Any]:
    """Fit every peer on one table."""
    found = {label: fit(density, name, settings.seed) for label, density in BASELINES.items()}
    for label, (density, module) in PACKAGES.items():
        if find_spec(module) is None:
            found[label] = {"absent": f"{module} is not installed"}
            continue
        try:
            found[label] = call_within(settings.seconds, fit, density, name, settings.seed)
        except (TimeoutError, RuntimeError) as error:
            found[label] = {"absent": str(error)}
    return {"peers": found}


def fit(density: Density, name: str, seed: int) -> dict[str, Any]:
    """Fit one peer and measure the time, without that of reading the rows."""
    data = load_table(name)
    with stopwatch() as watch:
        scores = density(data, seed)
    return scores | {"seconds": watch.seconds}
