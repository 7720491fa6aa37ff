"""Predictor circuits: features of rows, and splits that help to predict a target."""

import numpy as np
import pytest
from hypothesis import given
from sklearn.linear_model import Ridge

import oracle
from strategies import circuits
from strudel.circuits import compile_factorized
from strudel.data.bits import pack_columns
from strudel.learning import flow_predictors
from strudel.learning.flow_predictors import (
    Rows,
    SquaredLoss,
    chosen_edges,
    features_of,
    first_good,
    fit_circuit,
    split_for_target,
)
from strudel.learning.growing.growing_circuit import GrowingCircuit
from strudel.learning.growing.growth import ALIVE, N_EDGES
from strudel.trees import random_vtree


@given(circuits(max_vars=5))
def test_a_row_has_its_active_edges_with_a_choice_and_its_ones(circuit):
    rows = oracle.all_rows(circuit.n_vars)
    rows = np.array([row for row in rows if oracle.active_edges(circuit, row)], dtype=np.uint8)
    edges, features = features_of(circuit, Rows(rows, rows, rows), len(rows))
    dense = features.toarray()
    n_siblings = np.diff(circuit.node_edges)[circuit.edge_parent]
    for row, found in zip(rows, dense, strict=True):
        wanted = {e for e in oracle.active_edges(circuit, row) if n_siblings[e] > 1}
        assert set(edges[found[: len(edges)] == 1].tolist()) == wanted
        assert found[len(edges) :].tolist() == row.tolist()


@given(circuits(max_vars=5))
def test_a_predictor_circuit_is_ridge_regression_on_the_features(circuit):
    table = oracle.all_rows(circuit.n_vars)
    table = np.array([row for row in table if oracle.active_edges(circuit, row)], dtype=np.uint8)
    target = np.random.default_rng(0).normal(size=(len(table), 1))
    rows = Rows(table, target, np.ones(len(table)))
    features = features_of(circuit, rows, len(table))[1].toarray()
    wanted = Ridge(0.5).fit(features, target[:, 0]).predict(features)
    predictor = fit_circuit(circuit, rows, SquaredLoss(), 0.5)
    np.testing.assert_allclose(predictor.evaluate(table)[:, 0], wanted, atol=1e-6)


def test_edges_without_training_rows_have_no_column():
    active = np.array([[0, 0], [2, -1]], dtype=np.int32)
    assert chosen_edges(active, np.array([True, True, True])).tolist() == [0, 2]
    assert chosen_edges(active, np.array([False, True, True])).tolist() == [2]


def test_the_first_within_an_error_of_the_best_is_taken():
    sure, noisy, best = np.full(4, 1.1), np.array([3.0, 0.0, 0.0, 1.4]), np.ones(4)
    assert first_good([sure, noisy, best], np.ones(4)) == 1


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
            if edge < 0 or through.sum() < flow_predictors.FEWEST_ROWS:
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
        edges, places = flow_predictors._candidates(growing, gradient, hessian, 1.5)
        wanted = plain_gains(growing, X, gradient, hessian, 1.5)
        assert dict(zip(edges.tolist(), places.tolist(), strict=True)) == {
            edge: place for edge, (_, place) in wanted.items()
        }
        by_gain = [wanted[edge][0] for edge in edges.tolist()]
        assert by_gain == sorted(by_gain, reverse=True)
        split_for_target(growing, gradient, hessian, alpha=1.5, n_splits=2)


def test_splits_of_one_batch_are_on_different_variables():
    rng = np.random.default_rng(0)
    X, growing = growing_circuit(rng, n_vars=6)
    residual = (X[:, 0] ^ X[:, 3]).astype(float)[:, None] - 0.5
    made = split_for_target(growing, residual, np.ones_like(residual), alpha=1.0, n_splits=4)
    assert growing.n_splits == made <= 4
    circuit = growing.snapshot()
    assert circuit.is_deterministic
    assert circuit.is_structured_decomposable


def test_nothing_is_split_without_a_residual():
    _, growing = growing_circuit(np.random.default_rng(0))
    nothing = np.zeros((60, 1))
    assert split_for_target(growing, nothing, nothing + 1.0, alpha=1.0, n_splits=9) == 0


def test_few_rows_are_not_split():
    rng = np.random.default_rng(0)
    _, growing = growing_circuit(rng, n_rows=9)
    gradient = rng.normal(size=(9, 1))
    made = split_for_target(growing, gradient, np.ones((9, 1)), alpha=0.1, n_splits=3)
    assert made == 0
    alive = growing.growth.edge["death"][: growing.growth.size[N_EDGES]] == ALIVE
    assert alive.all()
