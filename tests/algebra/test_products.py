from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from joint import REL, learned_circuit, special_circuits
from strategies import circuit_pairs, circuits, examples, sum_circuit
from strudel import CircuitPropertyError, condition, log_likelihood, log_marginal, multiply
from strudel.algebra import divide, inner_product, power
from strudel.circuits import compile_factorized, figure_1_circuit
from strudel.trees.vtree import balanced_vtree, linear_vtree

EXPONENTS = (-2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 3.7)


def assert_table(circuit, expected, *, total=None):
    """The circuit has these values, is in normal form, and its sums below the root add up to 1."""
    np.testing.assert_allclose(oracle.probabilities(circuit), expected, rtol=REL, atol=0.0)
    assert circuit.is_in_normal_form
    assert circuit.is_smooth
    assert circuit.is_structured_decomposable
    sums = np.zeros(circuit.n_nodes)
    np.add.at(sums, circuit.edge_parent, circuit.theta)
    np.testing.assert_allclose(sums[2 * circuit.n_vars : circuit.root], 1.0, rtol=1e-12)
    if total is not None and circuit.root >= 2 * circuit.n_vars:
        assert sums[circuit.root] == pytest.approx(total, rel=1e-12)


def scaled(table):
    return np.array(table) / math.fsum(table)


@examples(150)
@given(st.booleans(), st.booleans(), st.data())
def test_a_product_is_that_of_the_tables(p_deterministic, q_deterministic, data):
    p, q = data.draw(circuit_pairs(6, p_deterministic, q_deterministic))
    expected = [a * b for a, b in zip(*map(oracle.probabilities, (p, q)), strict=True)]
    product = multiply(p, q)
    assert_table(product, expected, total=math.fsum(expected))
    if p_deterministic and q_deterministic:
        assert product.is_deterministic
        assert oracle.is_deterministic(product)
    if any(expected):
        nothing = [[math.nan] * p.n_vars]
        log_total = inner_product(p, q, log=True)
        assert log_marginal(product, nothing)[0] == pytest.approx(log_total, rel=REL, abs=1e-13)
        assert_table(multiply(p, q, normalize=True), scaled(expected), total=1.0)


@examples(100)
@given(circuits(6), st.sampled_from(EXPONENTS))
def test_a_power_is_that_of_the_table(circuit, a):
    expected = [x**a if x > 0 else 0.0 for x in oracle.probabilities(circuit)]
    found = power(circuit, a)
    assert_table(found, expected, total=math.fsum(expected))
    assert found.is_deterministic
    assert_table(power(circuit, a, normalize=True), scaled(expected), total=1.0)


@examples(150)
@given(st.booleans(), st.data())
def test_a_quotient_is_that_of_the_tables(p_deterministic, data):
    p, q = data.draw(circuit_pairs(6, p_deterministic))
    tables = list(zip(*map(oracle.probabilities, (p, q)), strict=True))
    if any(a > 0 and b == 0 for a, b in tables):
        with pytest.raises(ValueError, match="q is zero on a row where p is not"):
            divide(p, q)
        return
    expected = [a / b if b > 0 else 0.0 for a, b in tables]
    quotient = divide(p, q)
    assert_table(quotient, expected, total=math.fsum(expected))
    assert_table(divide(p, q, normalize=True), scaled(expected), total=1.0)
    if p_deterministic:
        assert oracle.is_deterministic(quotient)


@given(st.booleans(), st.data())
def test_a_product_divided_by_one_factor_is_the_other(p_deterministic, data):
    p, q = data.draw(circuit_pairs(6, p_deterministic))
    tables = zip(*map(oracle.probabilities, (p, q)), strict=True)
    expected = [a if b > 0 else 0.0 for a, b in tables]
    assert_table(divide(multiply(p, q), q), expected)


@given(circuits(6))
def test_powers_and_products_agree(circuit):
    p = oracle.probabilities(circuit)
    assert_table(power(circuit, 1), p)
    np.testing.assert_allclose(
        oracle.probabilities(multiply(circuit, circuit)),
        oracle.probabilities(power(circuit, 2)),
        rtol=1e-12,
    )
    assert_table(multiply(circuit, power(circuit, -1)), [float(x > 0) for x in p])


@pytest.mark.compiled
def test_special_circuits_times_themselves():
    for circuit in special_circuits().values():
        p = np.array(oracle.probabilities(circuit))
        assert_table(multiply(circuit, circuit), p * p)
        assert_table(power(circuit, 0.5), np.sqrt(p))
        assert_table(divide(circuit, circuit), 1.0 * (p > 0))
        assert multiply(circuit, circuit).feature_names == circuit.feature_names


def test_a_circuit_times_itself_is_no_larger():
    circuit = learned_circuit(0)
    square = multiply(circuit, circuit)
    assert square.n_edges == circuit.n_edges
    assert square.n_nodes == circuit.n_nodes


def test_conditioned_circuits_multiply():
    p = learned_circuit(2)
    first, second = condition(p, {0: 1}), condition(p, {3: 0})
    both = multiply(first, second, normalize=True)
    p_table = np.array(oracle.probabilities(p))
    rows = np.array(oracle.all_rows(p.n_vars))
    expected = p_table**2 * (rows[:, 0] == 1) * (rows[:, 3] == 0)
    assert_table(both, scaled(expected))
    # Smaller than a product without evidence: what excludes it was never met.
    assert both.n_edges < multiply(p, p).n_edges


def test_a_product_without_a_row_is_zero_everywhere():
    vtree = balanced_vtree(3)
    p = compile_factorized(vtree, [1.0, 0.5, 0.5])
    q = compile_factorized(vtree, [0.0, 0.5, 0.5])
    product = multiply(p, q)
    assert oracle.probabilities(product) == [0.0] * 8
    assert np.all(log_likelihood(product, oracle.all_rows(3)) == -np.inf)
    assert product.is_in_normal_form
    with pytest.raises(ValueError, match="zero everywhere"):
        multiply(p, q, normalize=True)
    # And a factor of zero stays one.
    assert oracle.probabilities(multiply(product, p)) == [0.0] * 8
    assert oracle.probabilities(divide(product, p)) == [0.0] * 8
    assert oracle.probabilities(power(product, 2)) == [0.0] * 8
    with pytest.raises(ValueError, match="zero everywhere"):
        power(product, 2, normalize=True)


def test_names_come_from_either():
    p = figure_1_circuit()
    coins = compile_factorized(p.vtree)
    assert multiply(p, coins).feature_names == p.feature_names
    assert multiply(coins, p).feature_names == p.feature_names


def test_powers_and_divisors_must_be_deterministic():
    circuit = sum_circuit(balanced_vtree(5), random.Random(0), size=4)
    assert not circuit.is_deterministic
    with pytest.raises(CircuitPropertyError, match=r"power.*deterministic.*both satisfied by"):
        power(circuit, 2)
    with pytest.raises(CircuitPropertyError, match=r"divide.*deterministic.*both satisfied by"):
        divide(compile_factorized(circuit.vtree), circuit)


@pytest.mark.parametrize("a", [math.inf, math.nan])
def test_exponents_are_finite(a):
    with pytest.raises(ValueError, match="finite"):
        power(figure_1_circuit(), a)


@pytest.mark.compiled
def test_a_thousand_variables_whose_total_is_no_number(rng):
    theta = rng.uniform(0.2, 0.8, 1000)
    p = compile_factorized(linear_vtree(1000), theta)
    row = rng.integers(0, 2, (1, 1000))
    log_p = np.log(np.where(row == 1, theta, 1.0 - theta)).sum()
    for a in (-2.0, 3.0):
        found = power(p, a)
        assert log_likelihood(found, row)[0] == pytest.approx(a * log_p, rel=1e-12)
        log_total = np.log(theta**a + (1.0 - theta) ** a).sum()
        assert abs(log_total) > 745 or a > 0
        nothing = np.full((1, 1000), np.nan)
        assert log_marginal(found, nothing)[0] == pytest.approx(log_total, rel=1e-12)
        one = power(p, a, normalize=True)
        assert log_likelihood(one, row)[0] == pytest.approx(a * log_p - log_total, rel=1e-11)
