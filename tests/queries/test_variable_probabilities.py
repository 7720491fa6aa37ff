from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given

from joint import (
    NAN,
    REL,
    Joint,
    large_circuits,
    models_with_rows,
    some_rows,
    special_circuits,
    steep_circuit,
    steep_row,
    swapped_circuit,
)
from strategies import examples
from strudel import (
    CircuitPropertyError,
    log_marginal,
    marginal_probabilities,
    pair_probabilities,
)
from strudel.circuits import compile_chow_liu, compile_factorized, figure_1_circuit
from strudel.circuits.builder import CircuitBuilder
from strudel.queries import covariance, variable_probabilities
from strudel.trees import learn_chow_liu_tree, vtree_from_chow_liu
from strudel.trees.vtree import Vtree, random_vtree


@examples(200)
@given(models_with_rows(7))
def test_marginals_are_sums_over_the_table(case):
    circuit, joint, rows = case
    found = marginal_probabilities(circuit, rows)
    expected = [np.diagonal(joint.pairs(row)) for row in rows]
    np.testing.assert_allclose(found, expected, rtol=REL)
    known = ~np.isnan(rows)
    np.testing.assert_array_equal(found[known], np.array(rows)[known])


@examples(200)
@given(models_with_rows(6))
def test_pairs_are_sums_over_the_table(case):
    circuit, joint, rows = case
    found = pair_probabilities(circuit, rows)
    np.testing.assert_allclose(found, [joint.pairs(row) for row in rows], rtol=REL)
    np.testing.assert_array_equal(found, found.transpose(0, 2, 1))
    diagonal = np.diagonal(found, axis1=1, axis2=2)
    np.testing.assert_array_equal(diagonal, marginal_probabilities(circuit, rows))


@given(models_with_rows(5))
def test_covariance_is_that_of_the_states(case):
    circuit, joint, rows = case
    expected = [np.cov(joint.states.T, aweights=joint.given(row), ddof=0) for row in rows]
    expected = np.reshape(expected, (len(rows), circuit.n_vars, circuit.n_vars))
    np.testing.assert_allclose(covariance(circuit, rows), expected, rtol=REL, atol=1e-14)


@pytest.mark.parametrize("name", special_circuits())
def test_special_circuits(name, rng):
    joint = Joint(special_circuits()[name])
    rows = some_rows(joint, rng)
    found = pair_probabilities(special_circuits()[name], rows)
    np.testing.assert_allclose(found, [joint.pairs(row) for row in rows], rtol=REL)


@pytest.mark.compiled
def test_twelve_variables(rng):
    for circuit in large_circuits(12):
        joint = Joint(circuit)
        rows = some_rows(joint, rng)
        found = pair_probabilities(circuit, rows)
        np.testing.assert_allclose(found, [joint.pairs(row) for row in rows], rtol=REL)


def test_independent_variables_do_not_vary_together(rng):
    p = rng.random(9)
    found = covariance(compile_factorized(random_vtree(9, rng), p))
    np.testing.assert_allclose(found, np.diag(p * (1 - p)), rtol=1e-13, atol=1e-15)


def test_what_is_known_does_not_vary():
    found = covariance(figure_1_circuit(), {"X1": 1, "X3": 0})
    assert np.all(found[[0, 2]] == 0.0)
    assert np.all(found[:, [0, 2]] == 0.0)


@pytest.mark.parametrize("query", [marginal_probabilities, pair_probabilities, covariance])
def test_impossible_evidence_is_refused(query):
    rows = [[0, NAN, NAN, NAN, NAN], [NAN, 0, NAN, NAN, NAN], [0, NAN, NAN, NAN, NAN]]
    with pytest.raises(ValueError, match="Row 1 of the evidence has probability zero"):
        query(special_circuits()["zeros"], rows)


@pytest.mark.parametrize("n_steep", [45, 60, 150])
def test_nodes_far_apart_lose_nothing(n_steep):
    circuit, row = steep_circuit(n_steep), steep_row(n_steep)
    found = marginal_probabilities(circuit, row)
    np.testing.assert_allclose(found[-4:], [0.3, 0.9, 1.0, 0.2], rtol=REL)
    pairs = pair_probabilities(circuit, row)
    np.testing.assert_allclose(pairs[-4, -4:], [0.3, 0.27, 0.3, 0.06], rtol=REL)
    row[-2] = NAN  # now the switch is almost surely off
    found = marginal_probabilities(circuit, row)
    log_on = math.log(0.25) + n_steep * math.log(1e-3)
    log_off = math.log(0.75) + n_steep * math.log(0.5)
    assert found[-2] == pytest.approx(math.exp(log_on - log_off), rel=REL, abs=1e-290)
    assert found[-1] == pytest.approx(0.6)


def test_products_of_a_large_and_a_tiny_node_lose_nothing():
    # Each side has one large and one tiny node, and products join a large one with a tiny one.
    builder = CircuitBuilder(Vtree.from_nested((((0, 1), (2, 3)), ((4, 5), (6, 7)))))
    sides = []
    for start in (0, 4):
        leaf = [[builder.add_leaf_sum(start + i, t) for t in (0.5, 1e-50)] for i in range(4)]
        halves = [
            [builder.add_sum([(leaf[i][k], leaf[i + 1][k], 1.0)]) for k in (0, 1)] for i in (0, 2)
        ]
        sides.append([builder.add_sum([(halves[0][k], halves[1][k], 1.0)]) for k in (0, 1)])
    products = [(sides[0][0], sides[1][1], 0.5), (sides[0][1], sides[1][0], 0.5)]
    circuit = builder.build(builder.add_sum(products))
    row = [1.0, 1.0, NAN, 1.0] * 2
    found = marginal_probabilities(circuit, row)
    assert found[2] == pytest.approx(0.25, rel=REL)  # either side is as likely to be the tiny one
    assert found[6] == pytest.approx(0.25, rel=REL)


def test_very_small_parameters_lose_nothing():
    found = marginal_probabilities(steep_circuit(9, 1e-200), steep_row(9))
    np.testing.assert_allclose(found[-4:], [0.3, 0.9, 1.0, 0.2], rtol=REL)


def test_a_circuit_in_no_normal_form_is_evaluated():
    for known in (None, {"X3": 1}, {"X1": 0, "X4": 1}):
        found = pair_probabilities(swapped_circuit(), known)
        np.testing.assert_allclose(found, pair_probabilities(figure_1_circuit(), known), rtol=REL)


def test_a_circuit_that_is_not_smooth_is_refused():
    builder = CircuitBuilder(Vtree.from_nested((0, 1)))
    circuit = builder.build(builder._add(2, [(1, 3, 0.5), (0, -1, 0.5)]))
    with pytest.raises(CircuitPropertyError, match="marginal_probabilities needs a smooth"):
        marginal_probabilities(circuit)


@pytest.mark.compiled
def test_a_thousand_variables(rng):
    data = (rng.random((300, 1000)) < rng.random(1000)) ^ (rng.random((300, 1)) < 0.5)
    tree = learn_chow_liu_tree(data.astype(np.uint8), alpha=1.0)
    circuit = compile_chow_liu(tree, vtree_from_chow_liu(tree))
    row = np.where(rng.random(1000) < 0.5, NAN, rng.integers(0, 2, 1000))
    found = marginal_probabilities(circuit, row)
    for var in np.flatnonzero(np.isnan(row))[:20]:
        rows = np.repeat(row[np.newaxis], 2, axis=0)
        rows[1, var] = 1.0
        log_given, log_both = log_marginal(circuit, rows)
        assert found[var] == pytest.approx(math.exp(log_both - log_given), rel=1e-9)


def test_blocks_do_not_change_the_result(monkeypatch, rng):
    circuit = special_circuits()["learned 0"]
    rows = some_rows(Joint(circuit), rng, n_rows=20)
    expected = pair_probabilities(circuit, rows)
    monkeypatch.setattr(variable_probabilities, "BLOCK_CELLS", 1)
    np.testing.assert_array_equal(pair_probabilities(circuit, rows), expected)
