"""Densities of other packages, where they are installed.

In:  training, validation and test rows.
Out: mean log-likelihoods, with the settings of the packages' own examples.

Every function imports what it needs when it is called, in its own process.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from strudel.data.datasets import Dataset
from strudel.reproduce.experiments.measures import mean_scores


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
