"""Numbers at the edge: the smallest floats, extreme weights, infinite cells, many variables."""

import math
from dataclasses import replace

import numpy as np
import pytest

import oracle
from joint import REL, steep_circuit, steep_mixture, steep_row
from strategies import random_mixture
from strudel import (
    Strudel,
    count_distribution,
    entropy,
    log_conditional,
    log_likelihood,
    log_marginal,
    marginal_probabilities,
    most_probable_state,
    mutual_information,
    pair_probabilities,
    responsibilities,
    sample,
)
from strudel.circuits import CircuitBuilder, compile_chow_liu, compile_factorized
from strudel.circuits.passes import are_moderate
from strudel.trees import learn_chow_liu_tree, vtree_from_chow_liu
from strudel.trees.vtree import Vtree, balanced_vtree

approx = pytest.approx

ROWS = np.array(list(np.ndindex(2, 2, 2, 2)))


def coins(p):
    """Four independent variables that are 1 with probability p."""
    cells = np.tile([[np.log1p(-p)], [np.log(p)]], (4, 1))
    return replace(compile_factorized(balanced_vtree(4)), leaf_log_p=cells)


@pytest.mark.parametrize("p", [1e-10, 1e-160, 1e-300, 1e-308, 5e-324])
def test_information_and_marginals_at_the_smallest_floats(p):
    circuit = coins(p)
    assert mutual_information(circuit, [0], [1]) == approx(0.0, abs=1e-12)
    assert mutual_information(circuit, [0, 1], [2], given={3: 1}) == approx(0.0, abs=1e-12)
    assert entropy(circuit) == approx(4 * p * (1 - np.log(p)), rel=0.1)
    wanted = ROWS @ np.full(4, np.log(p)) + (1 - ROWS) @ np.full(4, np.log1p(-p))
    np.testing.assert_allclose(log_likelihood(circuit, ROWS), wanted, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(log_marginal(circuit, ROWS), wanted, rtol=1e-9, atol=1e-15)
    found = marginal_probabilities(circuit, given=[1, 1, 1, np.nan])
    np.testing.assert_allclose(found, [1, 1, 1, p])
    assert most_probable_state(circuit, given=[1, 1, 1, np.nan])[0].tolist() == [1, 1, 1, 0]


@pytest.mark.parametrize("weight", [1e-300, 1e300, 5e-324, 1.0])
@pytest.mark.parametrize(
    "model",
    [Strudel(n_components=1, max_splits=2), Strudel(n_components=2, max_splits=1)],
    ids=["circuit", "mixture"],
)
def test_weights_of_any_size_give_a_distribution(model, weight):
    X = np.random.default_rng(0).integers(0, 2, size=(40, 4))
    model.set_params(random_state=0).fit(X, sample_weight=np.full(40, weight))
    assert log_marginal(model, [[np.nan] * 4])[0] == approx(0.0, abs=1e-9)
    assert np.isfinite(model.score(X))


# Nodes far apart: two nodes over the same variables, of which the lesser one counts

STEEP = [(45, 1e-3), (150, 1e-3), (9, 1e-70), (9, 1e-300)]  # with 150 the lesser node underflows


@pytest.mark.parametrize(("n_steep", "theta"), STEEP)
@pytest.mark.parametrize("kind", ["circuit", pytest.param("mixture", marks=pytest.mark.compiled)])
def test_nodes_far_apart_lose_nothing(kind, n_steep, theta):
    row = steep_row(n_steep)
    if kind == "circuit":
        model = steep_circuit(n_steep, theta)
        assert are_moderate(model.leaf_log_p) == (theta == 1e-3)
        log_p = math.log(0.25) + n_steep * math.log(theta)
        assert entropy(model, row) == approx(sum(map(binary_entropy, (0.3, 0.9, 0.2))), rel=REL)
    else:
        model = steep_mixture(n_steep, theta)
        parts = [math.log(0.25) + n_steep * math.log(x) for x in (10 * theta, theta, 10 * theta)]
        log_p = np.logaddexp.reduce(parts + model.log_weight)
    free = [n_steep, n_steep + 1, n_steep + 3]
    assert log_marginal(model, row)[0] == approx(log_p, rel=1e-13)
    assert marginal_probabilities(model, row)[free] == approx([0.3, 0.9, 0.2], rel=REL)
    pairs = pair_probabilities(model, row)
    assert pairs[-4, -4:] == approx([0.3, 0.27, 0.3, 0.06], rel=REL)
    assert count_distribution(model, free[:2], row) == approx([0.07, 0.66, 0.27], rel=REL)
    counts = count_distribution(model, given=row)
    expected = np.convolve(np.convolve([0.7, 0.3], [0.1, 0.9]), [0.8, 0.2])
    assert counts[n_steep + 1 :] == approx(expected, rel=REL)
    assert np.all(counts[: n_steep + 1] == 0.0)
    state, best = most_probable_state(model, row)
    assert state[n_steep:].tolist() == [0, 1, 1, 0]
    assert best == approx(log_p + math.log(0.7 * 0.9 * 0.8), rel=1e-12)
    rows = sample(model, 500, [row, row], random_state=0).reshape(1000, -1)
    assert np.all(rows[:, :n_steep] == 1)
    assert rows[:, free].mean(axis=0) == approx([0.3, 0.9, 0.2], abs=0.05)
    if kind == "circuit" and theta == 1e-3:
        row[-2] = np.nan  # now the switch is almost surely off
        found = marginal_probabilities(model, row)
        log_off = math.log(0.75) + n_steep * math.log(0.5)
        assert found[-2] == approx(math.exp(log_p - log_off), rel=REL, abs=1e-290)
        assert found[-1] == approx(0.6)


def binary_entropy(p):
    return -p * math.log(p) - (1 - p) * math.log(1 - p)


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
    row = [1.0, 1.0, np.nan, 1.0] * 2
    found = marginal_probabilities(circuit, row)
    assert found[2] == approx(0.25, rel=REL)  # either side is as likely to be the tiny one
    assert found[6] == approx(0.25, rel=REL)


# Large models


def tree_of_a_thousand(rng):
    data = (rng.random((300, 1000)) < rng.random(1000)) ^ (rng.random((300, 1)) < 0.5)
    tree = learn_chow_liu_tree(data.astype(np.uint8), alpha=1.0)
    return data.astype(np.uint8), compile_chow_liu(tree, vtree_from_chow_liu(tree))


@pytest.mark.compiled
@pytest.mark.parametrize("kind", ["circuit", "mixture"])
def test_a_thousand_variables(kind, rng):
    data, model = tree_of_a_thousand(rng)
    parts, log_weight = [model], np.zeros(1)
    if kind == "mixture":
        made = random_mixture(model, 11, rng)
        limited = np.maximum(made.edge_log_theta, -5.0), np.maximum(made.leaf_log_p, -5.0)
        model = replace(made, edge_log_theta=limited[0], leaf_log_p=limited[1])
        parts, log_weight = [model.components([c]) for c in range(11)], model.log_weight

    def of_parts(ask, rows):
        log_p = np.array([ask(part, rows) for part in parts])
        return np.logaddexp.reduce(log_p + log_weight[:, np.newaxis])

    states = data[:20].astype(float)
    rows = np.where(rng.random(states.shape) < np.linspace(0, 1, 20)[:, None], states, np.nan)
    found = log_marginal(model, rows)
    np.testing.assert_allclose(found, of_parts(oracle.evaluate_log, rows), rtol=1e-12, atol=1e-9)
    found = log_likelihood(model, data)
    assert found.min() < -500  # nearly the smallest float
    np.testing.assert_allclose(found[:20], of_parts(oracle.evaluate_log, states), rtol=1e-12)
    row = rows[10]
    ones = marginal_probabilities(model, row)
    for var in np.flatnonzero(np.isnan(row))[:5]:
        log_one = log_conditional(model, {int(var): 1}, row)[0]
        assert np.log(ones[var]) == approx(log_one, abs=1e-9)
    counts = count_distribution(model, given=row)
    assert counts.sum() == approx(1.0, rel=1e-12)
    assert counts @ np.arange(1001) == approx(ones.sum(), rel=1e-10)
    np.testing.assert_allclose(responsibilities(model, rows).sum(axis=1), 1.0, rtol=1e-12)
