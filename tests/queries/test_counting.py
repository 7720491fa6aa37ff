from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

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
    count_distribution,
    log_marginal,
    marginal_probabilities,
)
from strudel.circuits import compile_chow_liu, compile_factorized, figure_1_circuit
from strudel.queries import node_distributions
from strudel.trees import learn_chow_liu_tree, vtree_from_chow_liu
from strudel.trees.vtree import balanced_vtree, linear_vtree, random_vtree


@examples(300)
@given(models_with_rows(7), st.data())
def test_it_counts_the_ones_of_the_table(case, data):
    circuit, joint, rows = case
    some = st.lists(st.integers(0, circuit.n_vars - 1), min_size=1, unique=True)
    variables = data.draw(some)
    found = count_distribution(circuit, variables, rows)
    expected = [joint.counts(row, variables) for row in rows]
    np.testing.assert_allclose(found, expected, rtol=REL)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-13)


@pytest.mark.parametrize("name", special_circuits())
def test_special_circuits(name, rng):
    circuit = special_circuits()[name]
    joint = Joint(circuit)
    rows = some_rows(joint, rng)
    expected = [joint.counts(row, range(circuit.n_vars)) for row in rows]
    np.testing.assert_allclose(count_distribution(circuit, given=rows), expected, rtol=REL)


@pytest.mark.compiled
def test_twelve_variables(rng):
    for circuit in large_circuits(12):
        joint = Joint(circuit)
        rows = some_rows(joint, rng)
        expected = [joint.counts(row, range(12)) for row in rows]
        np.testing.assert_allclose(count_distribution(circuit, given=rows), expected, rtol=REL)


def test_names_and_numbers_mean_the_same():
    found = count_distribution(figure_1_circuit(), ["X4", "X2"], {"X3": 1})
    p = np.convolve([0.8, 0.2], [0.1, 0.9])
    np.testing.assert_allclose(found, p, rtol=1e-14)
    np.testing.assert_array_equal(count_distribution(figure_1_circuit(), (1, 3), {2: 1}), found)
    np.testing.assert_array_equal(
        count_distribution(figure_1_circuit(), pd.Index(["X2", "X4"]), {2: 1}), found
    )


def test_one_variable_is_counted_by_its_probability():
    assert count_distribution(figure_1_circuit(), "X4") == pytest.approx([0.6, 0.4])
    assert count_distribution(figure_1_circuit(), 3) == pytest.approx([0.6, 0.4])


def test_what_is_known_counts_as_it_is():
    found = count_distribution(figure_1_circuit(), given=[1, 1, 0, NAN])
    assert found[:2].tolist() == [0.0, 0.0]
    assert found[4] == 0.0
    assert found.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("make", [balanced_vtree, linear_vtree, lambda n: random_vtree(n, 0)])
@pytest.mark.parametrize("n_vars", [30, pytest.param(1000, marks=pytest.mark.compiled)])
def test_independent_variables_are_poisson_binomial(make, n_vars, rng):
    p = rng.random(n_vars)
    expected = np.ones(1)
    for x in p:
        expected = np.convolve(expected, [1 - x, x])
    found = count_distribution(compile_factorized(make(n_vars), p))
    is_large = expected > 1e-290
    np.testing.assert_allclose(found[is_large], expected[is_large], rtol=1e-12)
    assert np.all(found[~is_large] < 1e-289)


@pytest.mark.compiled
def test_two_thousand_fair_coins_are_binomial():
    found = count_distribution(compile_factorized(balanced_vtree(2000)))
    log_p = stats.binom.logpmf(np.arange(2001), 2000, 0.5)
    is_large = log_p > -650
    np.testing.assert_allclose(np.log(found[is_large]), log_p[is_large], rtol=1e-10)


@pytest.mark.compiled
def test_a_tree_of_a_thousand_variables_with_evidence_that_costs_much(rng):
    data = (rng.random((300, 1000)) < rng.random(1000)) ^ (rng.random((300, 1)) < 0.5)
    tree = learn_chow_liu_tree(data.astype(np.uint8), alpha=1.0)
    circuit = compile_chow_liu(tree, vtree_from_chow_liu(tree))
    row = rng.integers(0, 2, 1000).astype(float)
    row[rng.permutation(1000)[:60]] = NAN
    assert log_marginal(circuit, row)[0] < -750
    found = count_distribution(circuit, given=row)
    mean = found @ np.arange(1001)
    assert found.sum() == pytest.approx(1.0, rel=1e-12)
    assert mean == pytest.approx(marginal_probabilities(circuit, row).sum(), rel=1e-12)
    free = np.flatnonzero(np.isnan(row))
    none = row.copy()
    none[free] = 0.0
    log_none = log_marginal(circuit, none)[0] - log_marginal(circuit, row)[0]
    assert count_distribution(circuit, free, row)[0] == pytest.approx(math.exp(log_none), rel=1e-9)


@pytest.mark.parametrize("n_steep", [45, 60, 150])
def test_nodes_far_apart_lose_nothing(n_steep):
    found = count_distribution(steep_circuit(n_steep), given=steep_row(n_steep))
    expected = np.convolve(np.convolve([0.7, 0.3], [0.1, 0.9]), [0.8, 0.2])
    np.testing.assert_allclose(found[n_steep + 1 :], expected, rtol=REL)
    assert np.all(found[: n_steep + 1] == 0.0)


def test_very_small_parameters_lose_nothing():
    found = count_distribution(steep_circuit(9, 1e-200), [9, 10], steep_row(9))
    np.testing.assert_allclose(found, np.convolve([0.7, 0.3], [0.1, 0.9]), rtol=REL)


@given(models_with_rows(6))
def test_the_mean_is_the_sum_of_the_marginals(case):
    circuit, _, rows = case
    mean = count_distribution(circuit, given=rows) @ np.arange(circuit.n_vars + 1)
    np.testing.assert_allclose(mean, marginal_probabilities(circuit, rows).sum(axis=1), rtol=REL)


def test_blocks_and_threads_do_not_change_the_result(monkeypatch, rng):
    circuit = special_circuits()["learned 0"]
    rows = some_rows(Joint(circuit), rng, n_rows=20)
    expected = count_distribution(circuit, given=rows)
    monkeypatch.setattr(node_distributions, "PARALLEL_WORK", 0)
    np.testing.assert_array_equal(count_distribution(circuit, given=rows), expected)
    monkeypatch.setattr(node_distributions, "BLOCK_BYTES", 1)
    np.testing.assert_array_equal(count_distribution(circuit, given=rows), expected)


def test_impossible_evidence_is_refused():
    with pytest.raises(ValueError, match="Row 0 of the evidence has probability zero"):
        count_distribution(special_circuits()["zeros"], given={0: 1})


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ([], "variables must name at least one variable, but is empty"),
        (["X1", "X9"], "variables names 'X9', which is not a variable. Choose from 'X1', 'X2'"),
        (["X1", 0], "variables must name each variable once, but 'X1' and 0 are the same"),
        ([4], "number them from 0 to 3, but has 4"),
        ([-1], "number them from 0 to 3, but has -1"),
        ([0.5], "number them from 0 to 3, but has 0.5"),
        ([True], "number them from 0 to 3, but has True"),
    ],
)
def test_bad_variables_are_refused(variables, message):
    with pytest.raises(ValueError, match=message):
        count_distribution(figure_1_circuit(), variables)


def test_a_circuit_in_no_normal_form_is_refused():
    with pytest.raises(
        CircuitPropertyError, match="count_distribution needs a circuit in normal form"
    ):
        count_distribution(swapped_circuit())
