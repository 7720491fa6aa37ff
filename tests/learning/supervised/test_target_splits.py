"""Splits that help to predict a target."""

import numpy as np
import pytest

from strudel.circuits.compile import compile_factorized
from strudel.data.bits import pack_columns
from strudel.learning.growing.growing_circuit import GrowingCircuit
from strudel.learning.growing.growth import ALIVE, N_EDGES
from strudel.learning.supervised import target_splits
from strudel.trees.vtree import random_vtree


def growing_circuit(rng, n_rows=60, n_vars=5):
    X = rng.integers(0, 2, size=(n_rows, n_vars)).astype(np.uint8)
    vtree = random_vtree(n_vars, rng)
    return X, GrowingCircuit(compile_factorized(vtree), pack_columns(X), pack_columns(X[:0]))


def plain_gains(growing, X, gradient, hessian, alpha):
    """The best gain and place of every edge, from the definition."""
    g = growing.growth
    best = {}
    for v in range(growing.vtree.n_nodes):
        first, last = (ends[v] for ends in growing.vtree.node_span)
        if last - first < 2:
            continue
        for edge in np.unique(g.train_active[v]):
            through = g.train_active[v] == edge
            if edge < 0 or through.sum() < target_splits.FEWEST_ROWS:
                continue
            for place in range(first, last):
                one = X[:, growing.vtree.order[place]] == 1
                if (through & one).any() and (through & ~one).any():

                    def fall(rows):
                        return (gradient[rows].sum(0) ** 2 / (hessian[rows].sum(0) + alpha)).sum()

                    gain = fall(through & one) + fall(through & ~one) - fall(through)
                    if gain > best.get(edge, (1e-12, 0))[0]:
                        best[int(edge)] = (gain, int(place))
    return best


@pytest.mark.parametrize("seed", range(4))
def test_gains_are_those_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    X, growing = growing_circuit(rng)
    for _ in range(3):
        gradient, hessian = rng.normal(size=(len(X), 2)), rng.random((len(X), 2))
        edges, places = target_splits._candidates(growing, gradient, hessian, 1.5)
        wanted = plain_gains(growing, X, gradient, hessian, 1.5)
        assert dict(zip(edges.tolist(), places.tolist(), strict=True)) == {
            edge: place for edge, (_, place) in wanted.items()
        }
        by_gain = [wanted[edge][0] for edge in edges.tolist()]
        assert by_gain == sorted(by_gain, reverse=True)
        target_splits.split_for_target(growing, gradient, hessian, alpha=1.5, n_splits=2)


def test_splits_of_one_batch_are_on_different_variables():
    rng = np.random.default_rng(0)
    X, growing = growing_circuit(rng, n_vars=6)
    residual = (X[:, 0] ^ X[:, 3]).astype(float)[:, None] - 0.5
    made = target_splits.split_for_target(
        growing, residual, np.ones_like(residual), alpha=1.0, n_splits=4
    )
    assert growing.n_splits == made <= 4
    circuit = growing.snapshot()
    assert circuit.is_deterministic
    assert circuit.is_structured_decomposable


def test_nothing_is_split_without_a_residual():
    _, growing = growing_circuit(np.random.default_rng(0))
    nothing = np.zeros((60, 1))
    assert (
        target_splits.split_for_target(growing, nothing, nothing + 1.0, alpha=1.0, n_splits=9) == 0
    )


def test_few_rows_are_not_split():
    rng = np.random.default_rng(0)
    _, growing = growing_circuit(rng, n_rows=9)
    gradient = rng.normal(size=(9, 1))
    made = target_splits.split_for_target(growing, gradient, np.ones((9, 1)), alpha=0.1, n_splits=3)
    assert made == 0
    alive = growing.growth.edge["death"][: growing.growth.size[N_EDGES]] == ALIVE
    assert alive.all()
