"""Predictors on complete rows."""

import numpy as np
import pytest
from hypothesis import given

import oracle
from strategies import circuits, seeds
from strudel import read, write
from strudel.circuits import compile_factorized, figure_1_circuit
from strudel.circuits.predictor import PredictorCircuit, predictor_of_bits
from strudel.trees import balanced_vtree


def random_weights(circuit, seed, n_outputs=2):
    rng = np.random.default_rng(seed)
    return {
        "literal_weight": rng.normal(size=(2 * circuit.n_vars, n_outputs)),
        "edge_weight": rng.normal(size=(circuit.n_edges, n_outputs)),
        "bias": rng.normal(size=n_outputs),
    }


@given(circuits(max_vars=5), seeds)
def test_the_weights_of_active_edges_and_literals_add_up(circuit, seed):
    weights = random_weights(circuit, seed)
    predictor = predictor_of_bits(circuit, **weights, kind="logistic")
    rows = oracle.all_rows(circuit.n_vars)
    for row, found in zip(rows, predictor.evaluate(rows), strict=True):
        active = oracle.active_edges(circuit, row)
        wanted = weights["bias"] + weights["edge_weight"][active].sum(axis=0)
        if active:
            literals = (weights["literal_weight"][2 * v + x] for v, x in enumerate(row))
            wanted = wanted + sum(literals)
        assert found == pytest.approx(wanted)


def test_shapes_and_kinds_are_checked():
    circuit = figure_1_circuit()
    weights = random_weights(circuit, 0)
    with pytest.raises(ValueError, match="kind must be"):
        predictor_of_bits(circuit, **weights, kind="linear")
    made = predictor_of_bits(circuit, **weights, kind="logistic")
    with pytest.raises(ValueError, match="must have the shapes"):
        PredictorCircuit(
            made.structure, np.zeros((3, 1)), np.zeros((16, 1)), np.zeros(1), "logistic"
        )


def test_files_have_literals_alone_at_leaves(tmp_path):
    circuit = compile_factorized(balanced_vtree(3))
    predictor = predictor_of_bits(circuit, **random_weights(circuit, 0), kind="logistic")
    write(predictor, tmp_path / "p.circuit")
    rows = oracle.all_rows(3)
    back = read(tmp_path / "p.circuit")
    np.testing.assert_allclose(back.evaluate(rows), predictor.evaluate(rows), atol=1e-12)
    single = compile_factorized(balanced_vtree(1))
    predictor = predictor_of_bits(single, **random_weights(single, 0), kind="logistic")
    with pytest.raises(ValueError, match="over one variable has no decisions"):
        write(predictor, tmp_path / "p.circuit")
