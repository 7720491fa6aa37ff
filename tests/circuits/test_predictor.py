"""Predictors on complete rows."""

import numpy as np
import pytest
from hypothesis import given

import oracle
from strategies import circuits, seeds
from strudel.circuits.examples import figure_1_circuit
from strudel.circuits.predictor import PredictorCircuit


def random_predictor(circuit, seed, n_outputs=2, kind="logistic"):
    rng = np.random.default_rng(seed)
    return PredictorCircuit(
        structure=circuit,
        literal_weight=rng.normal(size=(2 * circuit.n_vars, n_outputs)),
        edge_weight=rng.normal(size=(circuit.n_edges, n_outputs)),
        bias=rng.normal(size=n_outputs),
        kind=kind,
    )


@given(circuits(max_vars=5), seeds)
def test_the_weights_of_active_edges_and_literals_add_up(circuit, seed):
    predictor = random_predictor(circuit, seed)
    rows = oracle.all_rows(circuit.n_vars)
    for row, found in zip(rows, predictor.evaluate(rows), strict=True):
        active = oracle.active_edges(circuit, row)
        wanted = predictor.bias + predictor.edge_weight[active].sum(axis=0)
        if active:
            wanted = wanted + sum(predictor.literal_weight[2 * v + x] for v, x in enumerate(row))
        assert found == pytest.approx(wanted)


def test_shapes_and_kinds_are_checked():
    circuit = figure_1_circuit()
    with pytest.raises(ValueError, match="kind must be"):
        random_predictor(circuit, 0, kind="linear")
    with pytest.raises(ValueError, match="must have the shapes"):
        PredictorCircuit(circuit, np.zeros((3, 1)), np.zeros((16, 1)), np.zeros(1), "logistic")
