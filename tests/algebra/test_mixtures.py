"""The algebra of mixtures against tables of all states."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from column_circuits import table_of
from joint import REL
from strategies import (
    examples,
    partition_circuit,
    random_mixture,
    seeds,
    split_circuit,
    sum_circuit,
    vtrees,
)
from strudel import (
    CircuitPropertyError,
    Strudel,
    condition,
    entropy,
    kl_divergence,
    multiply,
)
from strudel.algebra import (
    cauchy_schwarz_divergence,
    cross_entropy,
    divergences,
    inner_product,
    mean_squared_distance,
    renyi_divergence,
)
from strudel.circuits import compile_factorized, figure_1_circuit
from strudel.learning.bits.mixture import BitMixture

KINDS = [split_circuit, partition_circuit, sum_circuit]


@st.composite
def model_pairs(draw, max_vars=6, kinds=KINDS):
    """Two models on one vtree, at least one of them a mixture."""
    vtree, rng = draw(vtrees(max_vars)), random.Random(draw(seeds))
    numbers = np.random.default_rng(draw(seeds))

    def circuit():
        return draw(st.sampled_from(kinds))(vtree, rng, draw(st.integers(1, 3)))

    def make(k):
        return circuit() if k == 0 else random_mixture(circuit(), k, numbers)

    sizes = draw(st.sampled_from([(2, 0), (0, 3), (2, 3), (4, 4), (1, 2)]))
    p = make(sizes[0])
    if sizes == (4, 4):  # other parameters on the same structure
        return p, random_mixture(p.structure, 2, numbers)
    return p, make(sizes[1])


def table(model):
    return table_of(model).ravel()


@examples(100)
@given(model_pairs())
def test_inner_products_and_distances(pair):
    p, q = (table(model) for model in pair)
    assert inner_product(*pair) == pytest.approx(math.fsum(p * q), rel=REL, abs=1e-300)
    if math.fsum(p * q) > 0:
        assert inner_product(*pair, log=True) == pytest.approx(math.log(math.fsum(p * q)), abs=REL)
    else:
        assert inner_product(*pair, log=True) == -math.inf
    size = math.fsum(p * p + q * q) / len(p)
    expected = math.fsum((p - q) ** 2) / len(p)
    assert mean_squared_distance(*pair) == pytest.approx(expected, rel=REL, abs=1e-14 * size)
    cosine = math.fsum(p * q) / math.sqrt(math.fsum(p * p) * math.fsum(q * q))
    expected = math.inf if cosine == 0 else -math.log(cosine)
    assert cauchy_schwarz_divergence(*pair) == pytest.approx(expected, rel=REL, abs=1e-13)


def test_many_pairs_of_components_go_in_blocks(monkeypatch):
    p = random_mixture(figure_1_circuit(), 7, np.random.default_rng(0))
    q = random_mixture(figure_1_circuit(), 5, np.random.default_rng(1))
    expected = float(table(p) @ table(q))
    assert inner_product(p, q) == pytest.approx(expected, rel=REL)
    monkeypatch.setattr(divergences, "BLOCK_VALUES", 100)
    assert inner_product(p, q) == pytest.approx(expected, rel=REL)


@pytest.mark.compiled
def test_a_thousand_variables_do_not_underflow():
    from strudel.trees import balanced_vtree

    circuit = compile_factorized(balanced_vtree(2000))
    k = 3
    log_theta = np.repeat(np.array(circuit.edge_log_theta)[:, np.newaxis], k, axis=1)
    mixture = BitMixture(circuit, log_theta, np.log([0.2, 0.3, 0.5]))
    assert inner_product(mixture, circuit, log=True) == pytest.approx(-2000 * math.log(2))
    assert cauchy_schwarz_divergence(mixture, mixture) == pytest.approx(0.0, abs=1e-10)


@examples(60)
@given(model_pairs(max_vars=5, kinds=[split_circuit, partition_circuit]))
def test_cross_entropies_with_a_circuit_below(pair):
    model, other = pair
    q = other.component(0) if isinstance(other, BitMixture) else other
    p_table, q_table = table(model), table(q)
    if np.any((p_table > 0) & (q_table == 0)):
        assert cross_entropy(model, q) == math.inf
        return
    some = p_table > 0
    mean = -math.fsum(p_table[some] * np.log(q_table[some]))
    assert cross_entropy(model, q) == pytest.approx(mean, rel=REL, abs=1e-13)


def test_cross_entropy_weighs_components_that_do_not_add_up_to_one():
    circuit = figure_1_circuit()
    mixture = random_mixture(circuit, 3, np.random.default_rng(2))
    product = multiply(mixture, circuit)  # adds up to an inner product
    normal = multiply(mixture, circuit, normalize=True)
    assert cross_entropy(product, circuit) == pytest.approx(cross_entropy(normal, circuit))
    p, q = table(normal), table(circuit)
    assert cross_entropy(product, circuit) == pytest.approx(-float(p @ np.log(q)), rel=REL)


# What does not split into components


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m, c: kl_divergence(m, c), "takes the log of p"),
        (lambda m, c: kl_divergence(c, m), "takes the log of q"),
        (lambda m, c: cross_entropy(c, m), "takes the log of q"),
        (lambda m, c: renyi_divergence(m, c, 2), "takes a power of p"),
        (lambda m, c: renyi_divergence(c, m, 0.5), "takes a power of q"),
    ],
)
def test_logs_and_powers_of_a_mixture_are_refused_with_the_reason(call, words):
    circuit = figure_1_circuit()
    mixture = random_mixture(circuit, 3, np.random.default_rng(0))
    reason = rf"{words}, which is a mixture of 3 components, and .* does not split"
    with pytest.raises(CircuitPropertyError, match=reason):
        call(mixture, circuit)


def test_a_mixture_of_one_component_is_a_circuit():
    p = figure_1_circuit()
    column = np.array(p.edge_log_theta)[:, np.newaxis]
    one = BitMixture(p, column, np.zeros(1))
    q = compile_factorized(p.vtree)
    assert kl_divergence(one, q) == kl_divergence(p, q)
    other = random_mixture(p, 2, np.random.default_rng(0)).edge_log_theta
    idle = BitMixture(p, np.hstack([column, other]), np.array([0.0, -np.inf, -np.inf]))
    assert kl_divergence(idle, q) == kl_divergence(p, q)
    assert inner_product(idle, q) == inner_product(p, q)


def test_an_estimator_of_a_mixture():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (60, 1)).repeat(5, axis=1) ^ (rng.random((60, 5)) < 0.2)
    model = Strudel(n_components=2, max_splits=1, random_state=0).fit(X)
    p = table(model.circuit_)
    assert inner_product(model, model) == pytest.approx(float(p @ p), rel=REL)
    given_one = condition(model, {0: 1})
    assert table(given_one).sum() == pytest.approx(1.0)
    assert entropy(given_one) > 0
