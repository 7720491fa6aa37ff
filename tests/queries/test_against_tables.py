"""Every query against the table of all states: models of random shape, special and large ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joint import (
    REL,
    Joint,
    mixture_models,
    models_with_rows,
    some_rows,
    special_circuits,
    special_joint,
    special_mixtures,
)
from strategies import examples
from strudel import (
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
from strudel._numba import use_threads
from strudel.circuits import walks
from strudel.circuits.reweigh import side_by_side
from strudel.queries import cells, counting, covariance, event_probability, likelihood, sampling


def check_queries(model, joint, rows, order, cut):
    """All queries of possible rows; `cut` parts the variables, in some order, into two sets."""
    rows, n_vars = np.array(rows, dtype=float), model.vtree.n_vars
    found = log_likelihood(model, joint.states)
    np.testing.assert_allclose(np.exp(found), joint.p, rtol=REL)
    np.testing.assert_array_equal(np.isneginf(found), joint.p == 0.0)
    p = [joint.probability(row) for row in rows]
    np.testing.assert_allclose(np.exp(log_marginal(model, rows)), p, rtol=REL)
    asked = rows[::-1]
    p = [math.fsum(joint.given(row)[joint.agrees(x)]) for row, x in zip(rows, asked, strict=True)]
    np.testing.assert_allclose(np.exp(log_conditional(model, asked, rows)), p, rtol=REL, atol=1e-15)

    pairs = np.array([joint.pairs(row) for row in rows])
    ones = np.diagonal(pairs, axis1=1, axis2=2)
    found = marginal_probabilities(model, rows)
    np.testing.assert_allclose(found, ones, rtol=REL, atol=1e-15)
    is_known = ~np.isnan(rows)
    np.testing.assert_array_equal(found[is_known], rows[is_known])
    found = pair_probabilities(model, rows)
    np.testing.assert_allclose(found, pairs, rtol=REL, atol=1e-15)
    np.testing.assert_array_equal(found, found.transpose(0, 2, 1))
    expected = pairs - ones[:, :, np.newaxis] * ones[:, np.newaxis, :]
    np.testing.assert_allclose(covariance(model, rows), expected, atol=1e-12)

    expected = [joint.counts(row, order[:cut]) for row in rows]
    found = count_distribution(model, order[:cut], rows)
    np.testing.assert_allclose(found, expected, rtol=REL, atol=1e-15)
    expected = [joint.entropy(row, range(n_vars)) for row in rows]
    np.testing.assert_allclose(entropy(model, rows), expected, rtol=REL, atol=1e-12)
    a, b = order[:cut], order[cut : cut + 3]
    if b:
        expected = [joint.information(row, a, b) for row in rows]
        found = mutual_information(model, a, b, rows)
        np.testing.assert_allclose(found, expected, rtol=REL, atol=1e-12)
        assert np.all(found >= 0.0)
    if model.n_components > 1:
        expected = [joint.responsibilities(row) for row in rows]
        found = responsibilities(model, rows)
        np.testing.assert_allclose(found, expected, rtol=REL, atol=1e-15)


def orders(n_vars):
    """An order of the variables, and how many of them are the first set."""
    return st.tuples(st.permutations(range(n_vars)).map(list), st.integers(1, n_vars))


@examples(200)
@given(models_with_rows(7), st.data())
def test_circuits(case, data):
    check_queries(*case, *data.draw(orders(case[0].vtree.n_vars)))


mixtures_with_rows = models_with_rows(6, max_rows=4, model=mixture_models)


@examples(150)
@given(mixtures_with_rows, st.data())
def test_mixtures(case, data):
    check_queries(*case, *data.draw(orders(case[0].vtree.n_vars)))


@pytest.mark.parametrize("name", special_circuits())
def test_special_circuits(name, rng):
    circuit = special_circuits()[name]
    joint = Joint(circuit)
    order = rng.permutation(circuit.vtree.n_vars).tolist()
    check_queries(circuit, joint, some_rows(joint, rng), order, (circuit.vtree.n_vars + 1) // 2)


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("zeros", "no weight") else pytest.param(name, marks=pytest.mark.compiled)
        for name in special_mixtures()
    ],
)
def test_special_mixtures(name, rng):
    mixture, joint = special_mixtures()[name], special_joint(name)
    order = rng.permutation(mixture.vtree.n_vars).tolist()
    check_queries(mixture, joint, some_rows(joint, rng), order, (mixture.vtree.n_vars + 1) // 2)


# Laws that tie mixtures to circuits


@given(mixtures_with_rows)
def test_a_mixture_answers_as_the_one_circuit_does(case):
    mixture, _, rows = case
    circuit = side_by_side(mixture)
    for ask in (log_marginal, marginal_probabilities):
        np.testing.assert_allclose(ask(mixture, rows), ask(circuit, rows), rtol=1e-11, atol=1e-13)


# Blocks and threads

BLOCKS = [
    (cells, "PARALLEL_WORK", 0),
    (counting, "BLOCK_VALUES", 1),
    (likelihood, "BLOCK_LOGS", 1),
    (event_probability, "MAX_CASE_ROWS", 1),
    (walks, "BLOCK_VALUES", 1),
    (sampling, "BLOCK_VALUES", 1),
]


@pytest.mark.parametrize("kind", ["circuit", pytest.param("mixture", marks=pytest.mark.compiled)])
def test_blocks_and_threads_do_not_change_the_result(kind, monkeypatch, rng):
    is_circuit = kind == "circuit"
    model = special_circuits()["learned 0"] if is_circuit else special_mixtures()["learned"]
    complete = rng.integers(0, 2, (1200, 8))
    rows = some_rows(Joint(model), rng, n_rows=20)

    def answers():
        return [
            log_likelihood(model, complete),
            responsibilities(model, complete),
            log_marginal(model, rows),
            pair_probabilities(model, rows),
            responsibilities(model, rows),
            count_distribution(model, given=rows),
            most_probable_state(model, rows[:5], k=3)[0],
            sample(model, 300, random_state=1),
            sample(model, 17, rows, random_state=1),
        ]

    expected = answers()
    with use_threads(1):
        found = answers()
    for module, name, value in BLOCKS:
        monkeypatch.setattr(module, name, value)
    for first, second, third in zip(expected, found, answers(), strict=True):
        np.testing.assert_array_equal(first, second)
        np.testing.assert_allclose(third, first, rtol=1e-12)
