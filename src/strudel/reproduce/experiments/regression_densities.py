"""Circuits and mixtures on the vtree of a regression circuit, for its expectations.

In:  a `RegressionSet` and a vtree.
Out: the best circuit and the best mixture on it that are small enough, by validation.

The vtrees are random, so the bits of one feature are scattered. The search knows that they are
one-hot: it starts from the tree that fits the vtree best, times "at most one bit" for as many
features as the size allows.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from strudel.algebra.products import multiply
from strudel.circuits.circuit import Circuit
from strudel.circuits.mixture import Mixture
from strudel.data.bits import pack_columns
from strudel.learning.mixture_methods import MixtureOptions
from strudel.learning.mixtures.em import fit_mixture
from strudel.learning.parameters import fit_parameters
from strudel.learning.search.learn_structure import first_circuit, grow
from strudel.learning.search_options import SearchOptions
from strudel.logic.event_circuit import event_circuit
from strudel.logic.event_compiler import compile_event
from strudel.queries.likelihood import log_likelihood
from strudel.reproduce.experiments.regression_sets import RegressionSet
from strudel.trees.vtree import Vtree

COMPONENTS = (5, 10, 20)


def density_models(
    data: RegressionSet, vtree: Vtree, most_edges: int, seed: int
) -> tuple[Circuit, Mixture]:
    """Learn a circuit of about `most_edges` edges at most, and a mixture."""
    train, valid = pack_columns(data.train), pack_columns(data.valid)
    search = SearchOptions(vtree=vtree)
    start = one_hot(first_circuit(train, search), data, most_edges)
    grown = grow(train, valid, search=search, start=start, rng=seed)
    growing, columns = grown.growing, grown.history.columns()
    is_small = columns["n_edges"] <= max(most_edges, start.n_edges)
    best = int(np.argmax(np.where(is_small, columns["valid"], -np.inf)))
    circuit = fit_parameters(growing.snapshot(best), train)
    options = MixtureOptions(smoothing="single", pseudocount="auto")
    mixtures = []
    for n_splits in sorted({0, best // 4, best}):
        structure = growing.snapshot(n_splits)
        for k in COMPONENTS:
            if k > COMPONENTS[0] and k * structure.n_edges > COMPONENTS[0] * most_edges:
                break
            mixture = fit_mixture(structure, train, k, X_valid=valid, options=options, rng=seed)
            mixtures.append((float(log_likelihood(mixture, data.valid).mean()), mixture))
    return circuit, max(mixtures, key=lambda pair: pair[0])[1]


def one_hot(circuit: Circuit, data: RegressionSet, most_edges: int) -> Circuit:
    """The circuit times "at most one bit" of every feature, the widest first, while it is small."""
    share = data.train.mean(axis=0)
    entropies = [
        -(share[bits] * np.log(np.maximum(share[bits], 1e-9))).sum() for bits in data.features
    ]
    for place in np.argsort(entropies)[::-1]:
        bits = data.features[place]
        if len(bits) < 2:
            continue
        event = f"at_most(1, {', '.join(f'x{var}' for var in bits)})"
        allowed = event_circuit(compile_event(event, circuit.vtree))
        assert allowed is not None  # some rows have at most one bit
        uniform = circuit.with_parameters(np.zeros(circuit.n_edges))
        both = cast(Circuit, multiply(uniform, allowed, normalize=True))
        if both.n_edges <= most_edges:
            circuit = both
    return circuit
