"""Products, powers and quotients against tables of all states."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from column_circuits import column_circuits, deterministic_circuit, random_circuit, table_of
from joint import learned_circuit
from strategies import examples, random_mixture, seeds, sum_circuit
from strudel import CircuitPropertyError, condition, multiply
from strudel.algebra import divide, inner_product, power
from strudel.circuits import compile_factorized, figure_1_circuit, products
from strudel.circuits.circuit import why_not_well_formed
from strudel.circuits.properties import why_not_deterministic
from strudel.errors import SizeLimitError
from strudel.queries.given import circuit_of
from strudel.trees.vtree import balanced_vtree

REL = 1e-9
EXPONENTS = (-2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 3.7)


def assert_table(circuit, expected):
    """The circuit has these values, and its leaves and sums add up to 1."""
    np.testing.assert_allclose(table_of(circuit), expected, rtol=REL, atol=0.0)
    assert why_not_well_formed(circuit) is None
    if np.any(expected):
        total = float(np.sum(expected))
        assert math.exp(circuit.log_total) == pytest.approx(total, rel=REL)
        for logs, first in (
            (circuit.leaf_log_p, circuit.leaf_first[:-1]),
            (circuit.edge_log_theta, circuit.sum_edges[:-1]),
        ):
            sums = np.add.reduceat(np.exp(logs), first) if len(first) else np.ones(1)
            assert np.all(np.isclose(sums, 1.0, rtol=1e-12) | (sums == 0.0))


@st.composite
def pairs_of(draw, q_is_deterministic=False):
    """Two circuits over the same columns on one vtree."""
    base = draw(column_circuits(max_columns=4, n_components=1))
    made = []
    for place in range(2):
        is_deterministic = draw(st.booleans()) or (q_is_deterministic and place == 1)
        make = deterministic_circuit if is_deterministic else random_circuit
        k = 1 if is_deterministic else draw(st.sampled_from([1, 2, 4]))
        made.append(make(base.columns, base.vtree, random.Random(draw(seeds)), k))
    return made


@examples(150)
@given(pairs_of())
def test_a_product_is_that_of_the_tables(pair):
    p, q = pair
    expected = table_of(p) * table_of(q)
    product = multiply(p, q)
    assert_table(product, expected)
    if all(why_not_deterministic(circuit) is None for circuit in pair):
        assert why_not_deterministic(replace(product)) is None  # found again
    if expected.any():
        assert product.log_total == pytest.approx(inner_product(p, q, log=True), rel=REL, abs=1e-12)
        assert_table(multiply(p, q, normalize=True), expected / expected.sum())


@examples(100)
@given(column_circuits(max_columns=4), seeds, st.sampled_from(EXPONENTS))
def test_a_power_is_that_of_the_table(base, seed, a):
    circuit = deterministic_circuit(base.columns, base.vtree, random.Random(seed))
    p = table_of(circuit)
    expected = np.where(p > 0.0, np.where(p > 0.0, p, 1.0) ** a, 0.0)
    found = power(circuit, a)
    assert_table(found, expected)
    assert why_not_deterministic(replace(found)) is None
    assert_table(power(circuit, a, normalize=True), expected / expected.sum())


@examples(150)
@given(pairs_of(q_is_deterministic=True))
def test_a_quotient_is_that_of_the_tables(pair):
    p, q = map(table_of, pair)
    if np.any((p > 0) & (q == 0)):
        with pytest.raises(ValueError, match="q is zero on a row where p is not"):
            divide(*pair)
    else:
        expected = np.divide(p, q, out=np.zeros_like(p), where=q > 0)
        assert_table(divide(*pair), expected)
        assert_table(divide(*pair, normalize=True), expected / expected.sum())
    assert_table(divide(multiply(*pair), pair[1]), np.where(q > 0, p, 0.0))


def test_a_circuit_times_itself_is_no_larger():
    circuit = circuit_of(learned_circuit(0))
    square = multiply(circuit, circuit)
    assert square.n_edges == circuit.n_edges
    assert square.n_nodes == circuit.n_nodes
    # Given evidence it is smaller: what excludes it was never met.
    first, second = condition(circuit, {0: 1}), condition(circuit, {3: 0})
    assert multiply(first, second).n_edges < square.n_edges


def test_a_product_without_a_row_is_zero_everywhere():
    vtree = balanced_vtree(3)
    p = compile_factorized(vtree, [1.0, 0.5, 0.5])
    q = compile_factorized(vtree, [0.0, 0.5, 0.5])
    product = multiply(p, q)
    nothing = np.zeros((2, 2, 2))
    assert_table(product, nothing)
    with pytest.raises(ValueError, match="zero everywhere"):
        multiply(p, q, normalize=True)
    # And a factor of zero stays one.
    for found in (multiply(product, p), divide(product, p), power(product, 2)):
        assert_table(found, nothing)
    with pytest.raises(ValueError, match="zero everywhere"):
        power(product, 2, normalize=True)


def test_names_come_from_either():
    p = figure_1_circuit()
    coins = compile_factorized(p.vtree)
    assert multiply(p, coins).columns.names == p.columns.names
    assert multiply(coins, p).columns.names == p.columns.names


def test_powers_and_divisors_must_be_deterministic():
    circuit = sum_circuit(balanced_vtree(5), random.Random(0), size=4)
    with pytest.raises(CircuitPropertyError, match=r"power.*deterministic.*satisfies two edges"):
        power(circuit, 2)
    with pytest.raises(CircuitPropertyError, match=r"divide.*deterministic.*satisfies two edges"):
        divide(compile_factorized(circuit.vtree), circuit)
    mixture = random_mixture(figure_1_circuit(), 3, np.random.default_rng(0))
    reason = "which is a mixture of 3 components, and .* does not split"
    with pytest.raises(CircuitPropertyError, match=f"takes a power of p, {reason}"):
        power(mixture, 2)
    with pytest.raises(CircuitPropertyError, match=f"inverts q, {reason}"):
        divide(figure_1_circuit(), mixture)


@pytest.mark.parametrize("a", [math.inf, math.nan])
def test_exponents_are_finite(a):
    with pytest.raises(ValueError, match="finite"):
        power(figure_1_circuit(), a)


# Limits


@pytest.mark.parametrize("limit", ["size", "time"])
def test_a_limit_names_the_variables_whose_sums_grew(limit, monkeypatch):
    p = sum_circuit(balanced_vtree(8), random.Random(0), size=6)
    most = {"max_pairs": 40} if limit == "size" else {}
    monkeypatch.setattr(products, "STEPS_PER_SECOND", 1 if limit == "time" else 2**27)
    words = {"size": "more than max_pairs = 40 pairs", "time": "longer than 60 s"}[limit]
    with pytest.raises(SizeLimitError, match=f"{words}.* their sums over x") as caught:
        multiply(p, p, **most)
    assert caught.value.part
    monkeypatch.setenv("STRUDEL_COMPILE_SECONDS", "100000")
    assert inner_product(p, p) > 0.0


def test_a_product_that_would_be_too_large(monkeypatch):
    p = random_mixture(figure_1_circuit(), 3, np.random.default_rng(0))
    monkeypatch.setattr(products, "MAX_PARAMETERS", 100)
    with pytest.raises(ValueError, match="3 and 3 components has 9 of them"):
        multiply(p, p)
