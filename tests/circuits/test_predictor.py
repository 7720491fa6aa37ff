"""Predictors on complete rows."""

import numpy as np
import pytest
from hypothesis import given

import oracle
from strategies import circuits, seeds
from strudel import read, write
from strudel.circuits import compile_factorized, figure_1_circuit
from strudel.circuits.predictor import PredictorCircuit, without_leaf_sums
from strudel.trees import balanced_vtree


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


# Without sums over one variable


@given(circuits(max_vars=5, min_vars=2), seeds)
def test_without_leaf_sums_the_function_stays_the_same(circuit, seed):
    predictor = random_predictor(circuit, seed)
    found = without_leaf_sums(predictor)
    rows = oracle.all_rows(circuit.n_vars)
    np.testing.assert_allclose(found.evaluate(rows), predictor.evaluate(rows), atol=1e-12)
    at_leaves = found.vtree.node_var[found.structure.node_vtree[2 * circuit.n_vars :]] != -1
    assert not at_leaves.any()
    assert found.structure.is_deterministic
    assert found.vtree == predictor.vtree


def test_what_has_leaf_sums_is_refused_with_the_way_out(tmp_path):
    predictor = random_predictor(compile_factorized(balanced_vtree(3)), 0)
    with pytest.raises(ValueError, match=r"has 3 of them. Write without_leaf_sums\(predictor\)"):
        write(predictor, tmp_path / "p.circuit")
    write(without_leaf_sums(predictor), tmp_path / "p.circuit")
    rows = oracle.all_rows(3)
    back = read(tmp_path / "p.circuit")
    np.testing.assert_allclose(back.evaluate(rows), predictor.evaluate(rows), atol=1e-12)


def test_one_variable_has_no_products():
    with pytest.raises(ValueError, match="over one variable has no products"):
        without_leaf_sums(random_predictor(compile_factorized(balanced_vtree(1)), 0))
