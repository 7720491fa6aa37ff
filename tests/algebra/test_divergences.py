"""Inner products, distances and divergences against tables of all states."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import oracle
from column_circuits import (
    category_column,
    column_circuits,
    deterministic_circuit,
    random_circuit,
    table_of,
)
from joint import learned_circuit, special_circuits
from strategies import examples, mixed, random_mixture, seeds, sum_circuit
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
    divergences,
    inner_product,
    mean_squared_distance,
    renyi_divergence,
)
from strudel.circuits import CircuitBuilder, compile_chow_liu, compile_factorized, figure_1_circuit
from strudel.circuits.other_columns import with_edges
from strudel.circuits.reweigh import given_row
from strudel.tables.column import bit_column
from strudel.tables.evidence import evidence_of_regions
from strudel.tables.schema import Columns
from strudel.trees import learn_chow_liu_tree, vtree_from_chow_liu
from strudel.trees.vtree import Vtree, balanced_vtree, linear_vtree

REL = 1e-9
ALPHAS = (0.0, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0)


def close(expected, tiny=1e-12):
    return pytest.approx(expected, rel=REL, abs=tiny)


def table(model):
    return table_of(model).ravel()


@st.composite
def pairs_of(draw, k_p=1, k_q=1):
    """Two circuits over the same columns; one of a single component is deterministic."""
    base = draw(column_circuits(max_columns=3, n_components=1))
    rng = random.Random(draw(seeds))
    return tuple(
        (deterministic_circuit if k == 1 else random_circuit)(base.columns, base.vtree, rng, k)
        for k in (k_p, k_q)
    )


def mean_log(p, q):
    """The mean of the log of q under p."""
    some = p > 0.0
    return -math.inf if np.any(some & (q == 0.0)) else math.fsum(p[some] * np.log(q[some]))


@examples(150)
@given(pairs_of())
def test_divergences_of_deterministic_circuits(pair):
    p, q = map(table, pair)
    kl = mean_log(p, p) - mean_log(p, q)
    assert kl_divergence(*pair) == close(kl)
    assert cross_entropy(*pair) == close(-mean_log(p, q))
    both = (p > 0.0) & (q > 0.0)
    for alpha in ALPHAS:
        total = math.fsum(p[both] ** alpha * q[both] ** (1.0 - alpha))
        is_finite = total > 0.0 and (alpha < 1.0 or both.sum() == (p > 0.0).sum())
        expected = kl
        if alpha != 1.0:
            expected = math.log(total) / (alpha - 1.0) if is_finite else math.inf
        found = renyi_divergence(*pair, alpha)
        assert found == close(expected)
        assert found >= 0.0


@examples(100)
@given(pairs_of(k_p=3), pairs_of(k_p=2, k_q=5))
def test_mixtures_take_part_in_products_and_expectations(first, second):
    p, q = map(table, first)
    assert cross_entropy(*first) == close(-mean_log(p, q))
    p, q = map(table, second)
    assert inner_product(*second) == close(p @ q)
    assert math.exp(inner_product(*second, log=True)) == close(p @ q)
    squared = mean_squared_distance(*second)
    assert squared == close(np.mean((p - q) ** 2))
    assert math.exp(mean_squared_distance(*second, log=True)) == pytest.approx(squared, rel=1e-12)
    cosine = p @ q / math.sqrt((p @ p) * (q @ q))
    expected = -math.log(min(cosine, 1.0)) if cosine > 0.0 else math.inf
    assert cauchy_schwarz_divergence(*second) == close(expected, 1e-9)


@examples(60)
@given(pairs_of(), st.floats(0.5, 9.5))
def test_cells_meet_where_those_of_either_circuit_do(pair, bound):
    p, q = pair
    numbers = [place for place, column in enumerate(p.columns) if column.is_numeric]
    assume(numbers)
    finer = with_edges(q, {numbers[0]: [bound]})
    assert kl_divergence(p, finer) == close(kl_divergence(p, q))
    assert kl_divergence(finer, p) == close(kl_divergence(q, p))
    # What is known of a column within a cell counts, too.
    below = [{numbers[0]: ((-np.inf, bound),)}]
    known, log_p = given_row(p, evidence_of_regions(p.columns, below))
    assume(known is not None)
    assert kl_divergence(known, p) == close(-log_p)
    assert inner_product(known, with_edges(p, {numbers[0]: [bound]})) > 0.0


@examples(60)
@given(pairs_of())
def test_entropy_of_a_product(pair):
    both = np.multiply(*map(table, pair))
    assume(both.any())
    expected = -mean_log(both / both.sum(), both / both.sum())
    assert entropy(multiply(*pair)) == close(expected)
    assert entropy(multiply(*pair, normalize=True)) == close(expected)


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


def test_laws():
    p, q = learned_circuit(1, n_splits=25), learned_circuit(1, n_splits=5)
    for distance in (kl_divergence, cauchy_schwarz_divergence, mean_squared_distance):
        assert distance(p, p) == 0.0
    assert renyi_divergence(p, p, 2.0) == close(0.0)
    assert inner_product(p, q) == pytest.approx(inner_product(q, p), rel=1e-14)
    assert kl_divergence(p, q) == pytest.approx(cross_entropy(p, q) - entropy(p), rel=1e-12)
    grid = [renyi_divergence(p, q, alpha) for alpha in (0.2, 0.6, 1.0, 1.4, 2.0)]
    assert grid == sorted(grid)  # Renyi divergences grow with alpha
    for step in (1e-4, -1e-4):
        near = renyi_divergence(p, q, 1.0 + step)
        assert near == pytest.approx(kl_divergence(p, q), rel=1e-3)


def test_circuits_that_do_not_add_up_to_one_are_normalised():
    circuit = figure_1_circuit()
    mixture = random_mixture(circuit, 3, np.random.default_rng(2))
    product = multiply(mixture, circuit)  # adds up to an inner product
    normal = multiply(mixture, circuit, normalize=True)
    assert cross_entropy(product, circuit) == pytest.approx(cross_entropy(normal, circuit))
    other = replace(circuit, log_total=0.5)
    coins = compile_factorized(circuit.vtree)
    for divergence in (kl_divergence, cross_entropy, lambda p, q: renyi_divergence(p, q, 0.5)):
        assert divergence(other, coins) == close(divergence(circuit, coins))
        assert divergence(coins, other) == close(divergence(coins, circuit))
    assert inner_product(other, coins) == close(table(other) @ table(coins), 0.0)


def test_one_variable():
    vtree = Vtree.from_nested(0)
    p, q = compile_factorized(vtree, [0.3]), compile_factorized(vtree, [0.6])
    one = special_circuits()["a literal"]
    assert inner_product(p, q) == pytest.approx(0.3 * 0.6 + 0.7 * 0.4)
    assert kl_divergence(p, q) == pytest.approx(0.3 * math.log(0.5) + 0.7 * math.log(0.7 / 0.4))
    assert inner_product(one, q) == pytest.approx(0.6)
    assert kl_divergence(one, q) == pytest.approx(-math.log(0.6))
    assert kl_divergence(q, one) == math.inf


@pytest.mark.compiled
def test_a_thousand_variables(rng):
    hidden = rng.random((300, 1)) < 0.5
    rows = (rng.random((300, 1000)) < np.where(hidden, 0.7, 0.2)).astype(np.uint8)
    tree = learn_chow_liu_tree(rows)
    other = type(tree)(tree.var_parent, 0.8 * tree.var_theta + 0.1)
    vtree = vtree_from_chow_liu(tree)
    p, q = compile_chow_liu(tree, vtree), compile_chow_liu(other, vtree)
    # By hand: the divergence of two trees is that of each table, under the marginals of p.
    one, expected = np.empty(1000), 0.0
    for var in tree.parents_first():
        parent = tree.var_parent[var]
        weights = (1.0, 0.0) if parent < 0 else (1.0 - one[parent], one[parent])
        one[var] = np.dot(weights, tree.var_theta[var])
        for weight, a, b in zip(weights, tree.var_theta[var], other.var_theta[var], strict=True):
            expected += weight * (a * math.log(a / b) + (1 - a) * math.log((1 - a) / (1 - b)))
    assert kl_divergence(p, q) == pytest.approx(expected, rel=1e-10)
    assert cross_entropy(p, q) == pytest.approx(entropy(p) + expected, rel=1e-10)
    assert -1500 < inner_product(p, q, log=True) < -100
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


def test_many_pairs_of_components_go_in_blocks(monkeypatch):
    p = random_mixture(figure_1_circuit(), 7, np.random.default_rng(0))
    q = random_mixture(figure_1_circuit(), 5, np.random.default_rng(1))
    monkeypatch.setattr(divergences, "BLOCK_VALUES", 100)
    assert inner_product(p, q) == pytest.approx(float(table(p) @ table(q)), rel=REL)


def test_components_without_weight_and_fitted_models():
    p = figure_1_circuit()
    q = compile_factorized(p.vtree)
    idle = mixed([p, random_mixture(p, 2, np.random.default_rng(0))], [1.0, 0.0, 0.0])
    assert kl_divergence(idle, q) == kl_divergence(p, q)
    assert inner_product(idle, q) == inner_product(p, q)
    rows = (np.random.default_rng(0).random((200, 5)) < 0.4).astype(np.uint8)
    model = Strudel(n_components=2, max_splits=1, random_state=0).fit(rows)
    found = table(model.circuit_)
    assert inner_product(model, model) == pytest.approx(float(found @ found), rel=REL)


# Zeros


def faint_circuits(theta):
    """p gives `theta` to X0 = 1, q gives it nothing."""
    vtree = balanced_vtree(4)
    p = compile_factorized(vtree, [theta, 0.5, 0.5, 0.5])
    return p, compile_factorized(vtree, [0.0, 0.3, 0.6, 0.5])


@pytest.mark.parametrize("theta", [0.5, 1e-8, 1e-17, 1e-300])
def test_divergences_are_infinite_however_faint_the_row_that_q_lacks(theta):
    p, q = faint_circuits(theta)
    assert kl_divergence(p, q) == cross_entropy(p, q) == renyi_divergence(p, q, 1.5) == math.inf
    assert renyi_divergence(p, q, 0.5) < math.inf
    assert kl_divergence(q, p) < math.inf


def test_no_row_in_common():
    p, q = (compile_factorized(balanced_vtree(3), [one, 0.5, 0.5]) for one in (1.0, 0.0))
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


LOGS = [
    (lambda m, c: kl_divergence(m, c), "takes the log of p"),
    (lambda m, c: kl_divergence(c, m), "takes the log of q"),
    (lambda m, c: cross_entropy(c, m), "takes the log of q"),
    (lambda m, c: renyi_divergence(m, c, 2), "takes a power of p"),
    (lambda m, c: renyi_divergence(c, m, 0.5), "takes a power of q"),
]


@pytest.mark.parametrize(("call", "words"), LOGS)
def test_logs_and_powers_of_what_is_not_deterministic_are_refused_with_the_reason(call, words):
    mixture = random_mixture(figure_1_circuit(), 3, np.random.default_rng(0))
    reason = rf"{words}, which is a mixture of 3 components, and .* does not split"
    with pytest.raises(CircuitPropertyError, match=reason):
        call(mixture, figure_1_circuit())
    p = blurred()
    with pytest.raises(CircuitPropertyError, match=rf"{words}.*some row satisfies two"):
        call(p, compile_factorized(p.vtree))


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
    with pytest.raises(TypeError, match="A model is a Circuit"):
        function(p, "q")
    three, four = (
        deterministic_circuit(
            Columns((category_column("a", n), bit_column("b")), "pandas"),
            balanced_vtree(2),
            random.Random(0),
        )
        for n in (3, 4)
    )
    with pytest.raises(ValueError, match="columns, but 'a' has other values in p than in q"):
        function(three, four)


def test_the_numbering_of_the_vtree_does_not_matter():
    swapped = Vtree(  # the same tree, right side first
        np.array([-1, -1, 0, -1, -1, 3, 5], dtype=np.int32),
        np.array([-1, -1, 1, -1, -1, 4, 2], dtype=np.int32),
        np.array([2, 3, -1, 0, 1, -1, -1], dtype=np.int32),
    )
    p = sum_circuit(balanced_vtree(4), random.Random(0))
    q = sum_circuit(swapped, random.Random(1))
    assert inner_product(p, q) == inner_product(q, p) == close(table(p) @ table(q), 0.0)


@pytest.mark.parametrize("alpha", [-0.1, math.inf, math.nan])
def test_alpha_is_checked(alpha):
    with pytest.raises(ValueError, match="alpha must be"):
        renyi_divergence(figure_1_circuit(), figure_1_circuit(), alpha)


@pytest.mark.compiled
def test_many_pairs_need_more_room_than_there_is_at_first():
    vtree = balanced_vtree(4)
    p, q = (sum_circuit(vtree, random.Random(seed), size=60) for seed in range(2))
    assert multiply(p, q).n_edges > 2**13
    assert inner_product(p, q) == close(table(p) @ table(q), 0.0)
    with pytest.raises(ValueError, match="more than max_pairs = 20 pairs"):
        inner_product(p, q, max_pairs=20)
