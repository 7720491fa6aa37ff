"""Predictors on complete rows."""

import random

import numpy as np
import pytest
from hypothesis import given

import oracle
from column_circuits import (
    column_circuits,
    deterministic_circuit,
    lines_taken_by,
    random_predictor,
    states_of,
)
from strategies import seeds
from strudel import read, write
from strudel.circuits import compile_factorized, figure_1_circuit
from strudel.circuits.predictor import PredictorCircuit
from strudel.trees import balanced_vtree


@given(column_circuits(), seeds)
def test_the_weights_of_edges_and_cells_that_a_row_takes_add_up(circuit, seed):
    circuit = deterministic_circuit(circuit.columns, circuit.vtree, random.Random(seed), 2)
    predictor = random_predictor(circuit, np.random.default_rng(seed), 3)
    rows = np.array(states_of(circuit.columns))
    for row, found in zip(rows, predictor.outputs(rows), strict=True):
        edges, cells = lines_taken_by(circuit, row)
        wanted = predictor.edge_weight[edges].sum(axis=0) + predictor.cell_weight[cells].sum(axis=0)
        assert found == pytest.approx(predictor.bias + wanted)


def test_shapes_and_kinds_are_checked():
    made = random_predictor(figure_1_circuit(), np.random.default_rng(0))
    weights = made.cell_weight, made.edge_weight, made.bias
    with pytest.raises(ValueError, match="kind must be"):
        PredictorCircuit(made.structure, *weights, "linear")
    with pytest.raises(ValueError, match="must have the shapes"):
        PredictorCircuit(made.structure, np.zeros((3, 1)), *weights[1:], "logistic")


def test_files_have_literals_alone_at_leaves(tmp_path):
    rng = np.random.default_rng(0)
    predictor = random_predictor(compile_factorized(balanced_vtree(3)), rng, 2, "logistic")
    write(predictor, tmp_path / "p.circuit")
    rows = oracle.all_rows(3)
    back = read(tmp_path / "p.circuit")
    np.testing.assert_allclose(back.evaluate(rows), predictor.evaluate(rows), atol=1e-12)
    predictor = random_predictor(compile_factorized(balanced_vtree(1)), rng)
    with pytest.raises(ValueError, match="over one variable has no decisions"):
        write(predictor, tmp_path / "p.circuit")
