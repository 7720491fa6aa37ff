"""The flow features of rows."""

import numpy as np
from hypothesis import given

import oracle
from strategies import circuits
from strudel.circuits import compute_flows, figure_1_circuit
from strudel.learning.supervised.predictor_search import (
    chosen_edges,
    first_good,
    flow_features,
    has_choice,
    predictor_from_weights,
)


@given(circuits(max_vars=5))
def test_a_row_has_its_active_edges_with_a_choice_and_its_ones(circuit):
    rows = oracle.all_rows(circuit.n_vars)
    rows = np.array([row for row in rows if oracle.active_edges(circuit, row)], dtype=np.uint8)
    active = compute_flows(circuit, rows).active_edge
    edges = chosen_edges(active, has_choice(circuit))
    dense = flow_features(active, edges, circuit.n_edges, rows).toarray()
    n_siblings = np.diff(circuit.node_edges)[circuit.edge_parent]
    for row, found in zip(rows, dense, strict=True):
        wanted = {e for e in oracle.active_edges(circuit, row) if n_siblings[e] > 1}
        assert set(edges[found[: len(edges)] == 1].tolist()) == wanted
        assert found[len(edges) :].tolist() == row.tolist()


@given(circuits(max_vars=5))
def test_a_linear_model_of_features_is_a_predictor_circuit(circuit):
    rows = oracle.all_rows(circuit.n_vars)
    rows = np.array([row for row in rows if oracle.active_edges(circuit, row)], dtype=np.uint8)
    active = compute_flows(circuit, rows).active_edge
    edges = chosen_edges(active, has_choice(circuit))
    features = flow_features(active, edges, circuit.n_edges, rows)
    rng = np.random.default_rng(0)
    coefficients, bias = rng.normal(size=(features.shape[1], 2)), rng.normal(size=2)
    predictor = predictor_from_weights(circuit, edges, coefficients, bias, "logistic")
    np.testing.assert_allclose(predictor.evaluate(rows), features @ coefficients + bias)


def test_edges_without_training_rows_have_no_column():
    active = np.array([[0, 0], [2, -1]], dtype=np.int32)
    assert chosen_edges(active, np.array([True, True, True])).tolist() == [0, 2]
    assert chosen_edges(active, np.array([False, True, True])).tolist() == [2]


def test_an_example_of_flow_features():
    circuit = figure_1_circuit()
    X = np.array([[1, 0, 1, 0], [0, 0, 1, 1]], dtype=np.uint8)
    active = compute_flows(circuit, X).active_edge
    edges = chosen_edges(active, has_choice(circuit))
    assert flow_features(active, edges, circuit.n_edges, X).sum(axis=1).ravel().tolist() == [
        [6.0, 6.0]
    ]


def test_an_example_of_first_good():
    sure, noisy, best = np.full(4, 1.1), np.array([3.0, 0.0, 0.0, 1.4]), np.ones(4)
    assert first_good([sure, noisy, best], np.ones(4)) == 1
