from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from joint import REL, learned_circuit, special_circuits, swapped_circuit
from strategies import circuit_pairs, circuits, examples, sum_circuit
from strudel import (
    CircuitPropertyError,
    Strudel,
    condition,
    entropy,
    kl_divergence,
    load_dataset,
    log_likelihood,
    multiply,
)
from strudel.algebra import (
    cauchy_schwarz_divergence,
    cross_entropy,
    inner_product,
    mean_squared_distance,
    renyi_divergence,
)
from strudel.circuits import CircuitBuilder, compile_chow_liu, compile_factorized, figure_1_circuit
from strudel.trees import learn_chow_liu_tree, vtree_from_chow_liu
from strudel.trees.vtree import Vtree, balanced_vtree, linear_vtree

TINY = 1e-13  # logs of the size of 1 are subtracted, so rounding leaves this
ALPHAS = (0.0, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0)


class Tables:
    """Two tables of probabilities, and what they say, term by term."""

    def __init__(self, p, q):
        self.p, self.q = oracle.probabilities(p), oracle.probabilities(q)

    def both(self):
        return list(zip(self.p, self.q, strict=True))

    def inner(self):
        return math.fsum(p * q for p, q in self.both())

    def squared(self):
        return math.fsum((p - q) ** 2 for p, q in self.both()) / len(self.p)

    def cosine(self):
        norms = [math.fsum(x * x for x in table) for table in (self.p, self.q)]
        return self.inner() / math.sqrt(norms[0] * norms[1])

    def cross_entropy(self):
        if any(p > 0 and q == 0 for p, q in self.both()):
            return math.inf
        total = math.fsum(self.q)
        return -math.fsum(p * math.log(q / total) for p, q in self.both() if p > 0) / math.fsum(
            self.p
        )

    def kl(self):
        if any(p > 0 and q == 0 for p, q in self.both()):
            return math.inf
        ratio = math.fsum(self.p) / math.fsum(self.q)
        terms = (p * math.log(p / q / ratio) for p, q in self.both() if p > 0)
        return math.fsum(terms) / math.fsum(self.p)

    def renyi(self, alpha):
        if alpha == 1.0:
            return self.kl()
        if alpha > 1.0 and any(p > 0 and q == 0 for p, q in self.both()):
            return math.inf
        totals = math.fsum(self.p), math.fsum(self.q)
        rows = [(p / totals[0], q / totals[1]) for p, q in self.both() if p > 0 and q > 0]
        total = math.fsum(p**alpha * q ** (1 - alpha) for p, q in rows)
        return math.log(total) / (alpha - 1) if total > 0 else math.inf


def close(expected, tiny=TINY):
    return pytest.approx(expected, rel=REL, abs=tiny)


@examples(150)
@given(circuit_pairs(7))
def test_of_deterministic_circuits_all_are_those_of_the_tables(pair):
    p, q = pair
    tables = Tables(p, q)
    assert inner_product(p, q) == close(tables.inner(), 0.0)
    assert kl_divergence(p, q) == close(tables.kl())
    assert cross_entropy(p, q) == close(tables.cross_entropy())
    for alpha in ALPHAS:
        found = renyi_divergence(p, q, alpha)
        assert found == close(tables.renyi(alpha))
        assert found >= 0.0
    assert kl_divergence(p, q) >= 0.0
    assert cauchy_schwarz_divergence(p, q) >= 0.0


@examples(150)
@given(circuit_pairs(7, p_deterministic=False, q_deterministic=False))
def test_inner_products_need_no_determinism(pair):
    p, q = pair
    tables = Tables(p, q)
    assert inner_product(p, q) == close(tables.inner(), 0.0)
    assert math.exp(inner_product(p, q, log=True)) == close(tables.inner(), 0.0)
    norms = inner_product(p, p) + inner_product(q, q)
    squared = mean_squared_distance(p, q)
    assert squared == close(tables.squared(), 1e-15 * norms)
    log_squared = mean_squared_distance(p, q, log=True)
    assert math.exp(log_squared) == pytest.approx(squared, rel=1e-12)
    expected = -oracle.log(min(1.0, tables.cosine()))
    assert cauchy_schwarz_divergence(p, q) == close(expected)


@given(circuit_pairs(7, p_deterministic=False))
def test_cross_entropy_needs_only_q_to_be_deterministic(pair):
    assert cross_entropy(*pair) == close(Tables(*pair).cross_entropy())


@pytest.mark.compiled
def test_two_prefixes_of_one_search():
    for seed in range(2):
        p, q = learned_circuit(seed, n_splits=15), learned_circuit(seed, n_splits=5)
        assert q.n_edges < p.n_edges
        tables = Tables(p, q)
        assert kl_divergence(p, q) == close(tables.kl())
        assert kl_divergence(q, p) == close(Tables(q, p).kl())
        assert 0.0 < kl_divergence(p, q) < math.inf


@pytest.mark.compiled
def test_all_states_of_nltcs(data_folder):
    data = load_dataset("nltcs")
    p, q = (
        Strudel(n_components=1, random_state=0, **limit)
        .fit(data.train, X_valid=data.valid)
        .circuit_
        for limit in ({}, {"max_splits": 200})
    )
    states = np.array(oracle.all_rows(16), dtype=np.uint8)
    log_p, log_q = log_likelihood(p, states), log_likelihood(q, states)
    expected = np.sum(np.exp(log_p) * (log_p - log_q))
    assert kl_divergence(p, q) == pytest.approx(expected, rel=REL)
    assert inner_product(p, q) == pytest.approx(np.exp(log_p + log_q).sum(), rel=REL)
    product = multiply(p, q)
    np.testing.assert_allclose(log_likelihood(product, states), log_p + log_q, rtol=REL)
    assert product.n_edges < 1.1 * p.n_edges


def test_laws(rng):
    p, q = learned_circuit(1, n_splits=25), learned_circuit(1, n_splits=5)
    assert kl_divergence(p, p) == 0.0
    assert cauchy_schwarz_divergence(p, p) == 0.0
    assert mean_squared_distance(p, p) == 0.0
    assert renyi_divergence(p, p, 2.0) == pytest.approx(0.0, abs=TINY)
    assert inner_product(p, q) == pytest.approx(inner_product(q, p), rel=1e-14)
    assert kl_divergence(p, q) == pytest.approx(cross_entropy(p, q) - entropy(p), rel=1e-12)
    grid = [renyi_divergence(p, q, alpha) for alpha in (0.2, 0.6, 1.0, 1.4, 2.0)]
    assert grid == sorted(grid)  # Renyi divergences grow with alpha
    for step in (1e-4, -1e-4):
        near = renyi_divergence(p, q, 1.0 + step)
        assert near == pytest.approx(kl_divergence(p, q), rel=1e-3)


@given(circuits(6))
def test_circuits_that_do_not_add_up_to_one_are_normalised(circuit):
    is_top = circuit.edge_parent == circuit.root
    scaled = circuit.with_parameters(circuit.edge_log_theta + 0.5 * is_top)
    assert kl_divergence(scaled, circuit) == pytest.approx(0.0, abs=TINY)
    other = circuit.with_parameters(circuit.edge_log_theta + 0.5)
    coins = compile_factorized(circuit.vtree)
    for a, b in ((other, coins), (coins, other)):
        tables = Tables(a, b)
        assert kl_divergence(a, b) == close(tables.kl())
        assert cross_entropy(a, b) == close(tables.cross_entropy())
        assert renyi_divergence(a, b, 0.5) == close(tables.renyi(0.5))
        assert inner_product(a, b) == close(tables.inner(), 0.0)


def test_one_variable():
    vtree = Vtree.from_nested(0)
    p, q = compile_factorized(vtree, [0.3]), compile_factorized(vtree, [0.6])
    one = special_circuits()["a literal"]
    assert inner_product(p, q) == pytest.approx(0.3 * 0.6 + 0.7 * 0.4)
    assert kl_divergence(p, q) == pytest.approx(0.3 * math.log(0.5) + 0.7 * math.log(0.7 / 0.4))
    assert inner_product(one, q) == pytest.approx(0.6)
    assert inner_product(one, one) == 1.0
    assert kl_divergence(one, q) == pytest.approx(-math.log(0.6))
    assert kl_divergence(q, one) == math.inf


def chow_liu_circuits(n_vars, rng):
    """Two Chow-Liu circuits with one tree and other parameters."""
    hidden = rng.random((300, 1)) < 0.5
    rows = (rng.random((300, n_vars)) < np.where(hidden, 0.7, 0.2)).astype(np.uint8)
    tree = learn_chow_liu_tree(rows)
    other = type(tree)(tree.var_parent, 0.8 * tree.var_theta + 0.1)
    vtree = vtree_from_chow_liu(tree)
    return compile_chow_liu(tree, vtree), compile_chow_liu(other, vtree), tree, other


@pytest.mark.compiled
def test_a_thousand_variables(rng):
    p, q, tree, other = chow_liu_circuits(1000, rng)
    # By hand: the divergence of two trees is that of each table, under the marginals of p.
    one = np.empty(1000)
    expected, todo = 0.0, [int(tree.roots[0])]
    children = tree.children()
    while todo:
        var = todo.pop()
        parent = tree.var_parent[var]
        weights = (1.0, 0.0) if parent < 0 else (1.0 - one[parent], one[parent])
        one[var] = weights[0] * tree.var_theta[var, 0] + weights[1] * tree.var_theta[var, 1]
        for weight, a, b in zip(weights, tree.var_theta[var], other.var_theta[var], strict=True):
            expected += weight * (a * math.log(a / b) + (1 - a) * math.log((1 - a) / (1 - b)))
        todo += children[var]
    assert kl_divergence(p, q) == pytest.approx(expected, rel=1e-10)
    assert cross_entropy(p, q) == pytest.approx(entropy(p) + expected, rel=1e-10)
    log_cosine = inner_product(p, q, log=True)
    assert -1500 < log_cosine < -100
    assert renyi_divergence(p, q, 0.999999) == pytest.approx(expected, rel=1e-3)
    assert mean_squared_distance(p, q) == 0.0  # too small for a number
    assert -3000 < mean_squared_distance(p, q, log=True) < -500


@pytest.mark.compiled
def test_a_deep_vtree_needs_no_deep_stack(rng):
    vtree = linear_vtree(3000)
    theta = rng.uniform(0.2, 0.8, (2, 3000))
    p, q = compile_factorized(vtree, theta[0]), compile_factorized(vtree, theta[1])
    expected = np.log(theta[0] * theta[1] + (1 - theta[0]) * (1 - theta[1])).sum()
    assert inner_product(p, q, log=True) == pytest.approx(expected, rel=1e-12)


# Zeros


def faint_circuits(theta):
    """p gives `theta` to X0 = 1, q gives it nothing."""
    vtree = balanced_vtree(4)
    p = compile_factorized(vtree, [theta, 0.5, 0.5, 0.5])
    q = compile_factorized(vtree, [0.0, 0.3, 0.6, 0.5])
    return p, q


@pytest.mark.parametrize("theta", [0.5, 1e-8, 1e-17, 1e-300])
def test_divergences_are_infinite_however_faint_the_row_that_q_lacks(theta):
    p, q = faint_circuits(theta)
    assert kl_divergence(p, q) == math.inf
    assert cross_entropy(p, q) == math.inf
    assert renyi_divergence(p, q, 1.5) == math.inf
    assert renyi_divergence(p, q, 0.5) < math.inf
    assert kl_divergence(q, p) < math.inf


def test_no_row_in_common():
    vtree = balanced_vtree(3)
    p = compile_factorized(vtree, [1.0, 0.5, 0.5])
    q = compile_factorized(vtree, [0.0, 0.5, 0.5])
    assert inner_product(p, q) == 0.0
    assert inner_product(p, q, log=True) == -math.inf
    assert cauchy_schwarz_divergence(p, q) == math.inf
    assert mean_squared_distance(p, q) == pytest.approx((4 / 16 + 4 / 16) / 8)
    for alpha in ALPHAS:
        assert renyi_divergence(p, q, alpha) == math.inf


def test_nothing_at_all_is_no_distribution():
    p, q = faint_circuits(0.5)
    none = condition(q, {0: 1}, normalize=False)
    assert inner_product(p, none) == 0.0
    assert mean_squared_distance(none, none) == 0.0
    for divergence in (kl_divergence, cross_entropy, cauchy_schwarz_divergence):
        with pytest.raises(ValueError, match="zero on every row"):
            divergence(p, none)


# Refusals


def blurred():
    """Two edges of the root are satisfied by the same rows."""
    builder = CircuitBuilder(Vtree.from_nested((0, 1)))
    first = [builder.add_leaf_sum(0, 0.2), builder.add_leaf_sum(0, 0.9)]
    second = builder.add_leaf_sum(1, 0.5)
    return builder.build(builder.add_sum([(left, second, 0.5) for left in first]))


@pytest.mark.parametrize("divergence", [kl_divergence, lambda p, q: renyi_divergence(p, q, 0.5)])
def test_divergences_say_which_circuit_is_not_deterministic(divergence):
    p = blurred()
    coins = compile_factorized(p.vtree)
    with pytest.raises(CircuitPropertyError, match=r"of p.* deterministic.*some row satisfies two"):
        divergence(p, coins)
    with pytest.raises(CircuitPropertyError, match=r"of q.* deterministic.*some row satisfies two"):
        divergence(coins, p)
    with pytest.raises(CircuitPropertyError, match=r"of q.* deterministic.*some row satisfies two"):
        cross_entropy(coins, p)
    assert cross_entropy(p, coins) == pytest.approx(2 * math.log(2))


FUNCTIONS = [
    multiply,
    inner_product,
    kl_divergence,
    cross_entropy,
    cauchy_schwarz_divergence,
    mean_squared_distance,
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_circuits_that_do_not_fit_are_refused(function):
    p = compile_factorized(balanced_vtree(4))
    name = function.__name__
    with pytest.raises(ValueError, match=f"{name} needs .*p has 4 and q has 5"):
        function(p, compile_factorized(balanced_vtree(5)))
    with pytest.raises(ValueError, match=f"{name} needs two circuits on one vtree"):
        function(p, compile_factorized(linear_vtree(4)))
    with pytest.raises(ValueError, match="variable 1 is 'b' in p and 'x' in q"):
        function(p.with_names(tuple("abcd")), p.with_names(tuple("axcd")))
    with pytest.raises(CircuitPropertyError, match="needs a circuit in normal form"):
        function(figure_1_circuit(), swapped_circuit())
    with pytest.raises(TypeError, match="A model is a Circuit"):
        function(p, "q")


def test_the_numbering_of_the_vtree_does_not_matter():
    one, two = Vtree.from_nested(((0, 1), (2, 3))), balanced_vtree(4)
    swapped = Vtree(  # the same tree, right side first
        np.array([-1, -1, 0, -1, -1, 3, 5], dtype=np.int32),
        np.array([-1, -1, 1, -1, -1, 4, 2], dtype=np.int32),
        np.array([2, 3, -1, 0, 1, -1, -1], dtype=np.int32),
    )
    assert one == two == swapped
    p = sum_circuit(one, random.Random(0))
    q = sum_circuit(swapped, random.Random(1))
    assert inner_product(p, q) == close(Tables(p, q).inner(), 0.0)
    assert inner_product(q, p) == close(Tables(p, q).inner(), 0.0)


@pytest.mark.parametrize("alpha", [-0.1, math.inf, math.nan])
def test_alpha_is_checked(alpha):
    p = figure_1_circuit()
    with pytest.raises(ValueError, match="alpha must be"):
        renyi_divergence(p, p, alpha)


def test_too_many_pairs_are_refused_in_time():
    vtree = balanced_vtree(8)
    p, q = (sum_circuit(vtree, random.Random(seed), size=6) for seed in range(2))
    with pytest.raises(ValueError, match="more than max_pairs = 20 pairs"):
        inner_product(p, q, max_pairs=20)


@pytest.mark.compiled
def test_many_pairs_need_more_room_than_there_is_at_first():
    vtree = balanced_vtree(4)
    p, q = (sum_circuit(vtree, random.Random(seed), size=60) for seed in range(2))
    assert multiply(p, q).n_edges > 2**13
    assert inner_product(p, q) == close(Tables(p, q).inner(), 0.0)


def test_fitted_models_are_taken_as_they_are(rng):
    rows = (rng.random((200, 5)) < 0.4).astype(np.uint8)
    p = Strudel(n_components=1, max_splits=4, random_state=0).fit(rows)
    q = Strudel(n_components=1, max_splits=0, random_state=0).fit(rows)
    assert kl_divergence(p, q) == kl_divergence(p.circuit_, q.circuit_) >= 0.0


@given(st.data())
def test_entropy_of_a_product(data):
    p, q = data.draw(circuit_pairs(6))
    if inner_product(p, q) == 0.0:
        return
    both = [a * b for a, b in Tables(p, q).both()]
    total = math.fsum(both)
    expected = -math.fsum(x / total * math.log(x / total) for x in both if x > 0)
    assert entropy(multiply(p, q)) == close(expected)
    assert entropy(multiply(p, q, normalize=True)) == close(expected)
