"""Other densities on the same rows: simple baselines, and the packages that are installed.

In:  a table.
Out: per peer its likelihoods and seconds, or why there are none. What has to be chosen is chosen on
     the validation rows.

A package may be slow or crash, so each has its own process and a time limit.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np
from scipy.special import logsumexp

from reproduce.benchmark_tables import WARM, load_table
from reproduce.experiments.measures import mean_scores, stopwatch
from reproduce.processes import call_within
from reproduce.tasks import Settings
from strudel.circuits.compile import compile_chow_liu
from strudel.data.datasets import Dataset
from strudel.queries.likelihood import log_likelihood
from strudel.trees.chow_liu import learn_chow_liu_tree
from strudel.trees.vtree import vtree_from_chow_liu

N_CLUSTERS = (5, 20, 80)
SMOOTHING = (0.01, 0.1, 1.0)


def deeprob_random_circuit(data: Dataset, seed: int) -> dict[str, Any]:
    """deeprob-kit: one random deterministic circuit with Chow-Liu leaves (XPC)."""
    return _deeprob_xpc("learn_xpc", data, seed, det=True, sd=True)


def deeprob_ensemble(data: Dataset, seed: int) -> dict[str, Any]:
    """deeprob-kit: ten random circuits, not structured, averaged (EXPC)."""
    return _deeprob_xpc("learn_expc", data, seed, ensemble_dim=10, det=False, sd_level=0)


def _deeprob_xpc(name: str, data: Dataset, seed: int, **options: Any) -> dict[str, Any]:
    learn = getattr(import_module("deeprob.spn.learning.xpc"), name)
    options |= {"min_part_inst": _part_size(data), "conj_len": 2, "arity": 4}
    root, _ = learn(data.train.astype(np.float32), random_seed=seed, **options)
    return _deeprob_scores(root, data)


def deeprob_learn_spn(data: Dataset, seed: int) -> dict[str, Any]:
    """deeprob-kit: LearnSPN with Chow-Liu leaves."""
    learn = import_module("deeprob.spn.learning.wrappers").learn_estimator
    leaf = import_module("deeprob.spn.structure.leaf").Bernoulli
    root = learn(
        data.train.astype(np.float32),
        [leaf] * data.n_vars,
        domains=[[0, 1]] * data.n_vars,
        learn_leaf="binary-clt",
        split_rows="kmeans",
        split_cols="gvs",
        min_rows_slice=_part_size(data),
        random_state=seed,
        verbose=False,
    )
    return _deeprob_scores(root, data)


def spflow_cutset_network(data: Dataset, seed: int) -> dict[str, Any]:
    """SPFlow: a cutset network."""
    torch, learning = import_module("torch"), import_module("spflow.learn.cnet")
    torch.set_num_threads(1)
    model = learning.learn_cnet(
        torch.from_numpy(data.train.astype(np.int64)),
        cardinalities=2,
        min_instances_slice=_part_size(data),
        seed=seed,
    )

    def density(rows: Any) -> Any:
        with torch.no_grad():
            found = model.log_likelihood(torch.from_numpy(rows.astype(np.int64)))
        return found.reshape(len(rows), -1)[:, 0].numpy()

    return mean_scores(density, data)


def pyjuice_hidden_chow_liu_tree(data: Dataset, seed: int) -> dict[str, Any]:
    """pyjuice: a hidden Chow-Liu tree with 64 latent values, trained by EM on a GPU."""
    torch, juice = import_module("torch"), import_module("pyjuice")
    if not torch.cuda.is_available():
        raise RuntimeError("pyjuice needs a GPU, and there is none")
    torch.manual_seed(seed)
    device = torch.device("cuda")
    train, valid, test = (
        torch.from_numpy(rows.astype(np.int64)).to(device)
        for rows in (data.train, data.valid, data.test)
    )
    structure = juice.structures.HCLT(
        train.float(), num_latents=64, input_node_params={"num_cats": 2}
    )
    circuit = juice.compile(structure).to(device)
    best = {"valid": -np.inf, "test": -np.inf}
    since_best = 0
    while since_best < 5:
        order = torch.randperm(len(train), device=device)
        for batch in order.split(512):
            circuit(train[batch])
            circuit.backward(train[batch], flows_memory=1.0)
            circuit.mini_batch_em(step_size=0.1, pseudocount=0.1)
        with torch.no_grad():
            scores = {
                part: float(torch.cat([circuit(some) for some in rows.split(512)]).mean())
                for part, rows in (("valid", valid), ("test", test))
            }
        since_best = 0 if scores["valid"] > best["valid"] + 1e-4 else since_best + 1
        best = max(best, scores, key=lambda one: one["valid"])
    return best


def _deeprob_scores(root: Any, data: Dataset) -> dict[str, Any]:
    likelihood = import_module("deeprob.spn.algorithms.inference").log_likelihood
    return mean_scores(lambda rows: likelihood(root, rows.astype(np.float32)), data)


def _part_size(data: Dataset) -> int:
    """Rows below which a package divides no further."""
    return max(20, len(data.train) // 100)


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
    "deeprob-kit, random circuit": (deeprob_random_circuit, "deeprob"),
    "deeprob-kit, ten random circuits": (deeprob_ensemble, "deeprob"),
    "deeprob-kit, LearnSPN": (deeprob_learn_spn, "deeprob"),
    "SPFlow, cutset network": (spflow_cutset_network, "spflow"),
    "pyjuice, hidden Chow-Liu tree": (pyjuice_hidden_chow_liu_tree, "pyjuice"),
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
