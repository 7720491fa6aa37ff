"""Predictor circuits: features of rows, and splits that help to predict a target."""

import random

import numpy as np
import pytest
from hypothesis import given
from sklearn.linear_model import Ridge

from column_circuits import column_circuits, deterministic_circuit, lines_taken_by, states_of
from strategies import seeds
from strudel.circuits import why_not_deterministic
from strudel.circuits.predictor import even_structure
from strudel.data.bits import pack_columns
from strudel.learning import flow_predictors
from strudel.learning.bits.compile import independent_bits
from strudel.learning.bits.fold import folded
from strudel.learning.flow_predictors import (
    Rows,
    SquaredLoss,
    chosen_lines,
    features_of,
    first_good,
    fit_circuit,
    split_for_target,
)
from strudel.learning.growing.growing_circuit import GrowingCircuit
from strudel.learning.growing.growth import ALIVE, N_EDGES
from strudel.trees import random_vtree


@given(column_circuits(), seeds)
def test_features_are_choices_that_a_row_takes_and_its_cells(circuit, seed):
    rng = random.Random(seed)
    structure = even_structure(deterministic_circuit(circuit.columns, circuit.vtree, rng))
    rows = np.array([r for r in states_of(circuit.columns) if lines_taken_by(structure, r)[1]])
    lines, features = features_of(structure, rows, len(rows))
    is_choice = np.concatenate([structure.edge_log_theta, structure.leaf_log_p])[:, 0] < 0.0
    for row, found in zip(rows, features.toarray(), strict=True):
        edges, cells = lines_taken_by(structure, row)
        wanted = [*edges, *(structure.n_edges + cell for cell in cells)]
        assert set(lines[found[: len(lines)] == 1].tolist()) == {n for n in wanted if is_choice[n]}
        own = [
            np.arange(1, n) == cell for n, cell in zip(circuit.columns.n_cells, row, strict=True)
        ]
        assert found[len(lines) :].tolist() == np.concatenate(own).tolist()


@given(column_circuits(), seeds)
def test_a_predictor_circuit_is_ridge_regression_on_the_features(circuit, seed):
    rng = random.Random(seed)
    structure = even_structure(deterministic_circuit(circuit.columns, circuit.vtree, rng))
    table = np.array([r for r in states_of(circuit.columns) if lines_taken_by(structure, r)[1]])
    target = np.random.default_rng(0).normal(size=(len(table), 1))
    features = features_of(structure, table, len(table))[1].toarray()
    wanted = Ridge(0.5).fit(features, target[:, 0]).predict(features)
    rows = Rows(table, target, np.ones(len(table)))
    predictor = fit_circuit(structure, rows, SquaredLoss(), 0.5)
    np.testing.assert_allclose(predictor.outputs(table)[:, 0], wanted, atol=1e-6)


def test_lines_without_training_rows_have_no_column():
    taken = np.array([[0, 2], [0, -1]], dtype=np.int32)
    assert chosen_lines(taken, np.array([True, True, True])).tolist() == [0, 2]
    assert chosen_lines(taken, np.array([False, True, True])).tolist() == [2]


def test_the_first_within_an_error_of_the_best_is_taken():
    sure, noisy, best = np.full(4, 1.1), np.array([3.0, 0.0, 0.0, 1.4]), np.ones(4)
    assert first_good([sure, noisy, best], np.ones(4)) == 1


def growing_circuit(rng, n_rows=60, n_vars=5):
    X = rng.integers(0, 2, size=(n_rows, n_vars)).astype(np.uint8)
    vtree = random_vtree(n_vars, rng)
    return X, GrowingCircuit(independent_bits(vtree), pack_columns(X), pack_columns(X[:0]))


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
    assert why_not_deterministic(folded(circuit)) is None


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
