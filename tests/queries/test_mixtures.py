"""Every query on mixtures: answers by enumeration, and laws that tie mixtures to circuits."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from joint import (
    NAN,
    REL,
    Joint,
    mixture_models,
    models_with_rows,
    some_rows,
    special_joint,
    special_mixtures,
    steep_mixture,
    steep_row,
    swapped_circuit,
    with_components,
)
from strategies import circuits, examples, random_mixture
from strudel import (
    CircuitPropertyError,
    Mixture,
    Strudel,
    count_distribution,
    entropy,
    log_conditional,
    log_likelihood,
    log_marginal,
    marginal_map,
    marginal_probabilities,
    most_probable_state,
    mutual_information,
    pair_probabilities,
    responsibilities,
    sample,
)
from strudel._numba import use_threads
from strudel.circuits import compile_chow_liu, figure_1_circuit
from strudel.circuits.evaluate import evaluate_log
from strudel.queries import covariance, mixture_likelihood, probabilities, sampling
from strudel.queries.model import model_of
from strudel.trees import learn_chow_liu_tree, vtree_from_chow_liu

mixtures_with_rows = models_with_rows(6, max_rows=4, model=mixture_models)


def check_rows(mixture, joint, rows):
    """Everything that is asked of one row at a time."""
    rows = np.array(rows, dtype=float)
    n_vars = mixture.n_vars
    p = [joint.probability(row) for row in rows]
    np.testing.assert_allclose(np.exp(log_marginal(mixture, rows)), p, rtol=REL)
    pairs = np.array([joint.pairs(row) for row in rows])
    ones = np.diagonal(pairs, axis1=1, axis2=2)
    np.testing.assert_allclose(marginal_probabilities(mixture, rows), ones, rtol=REL, atol=1e-15)
    np.testing.assert_allclose(pair_probabilities(mixture, rows), pairs, rtol=REL, atol=1e-15)
    expected = pairs - ones[:, :, np.newaxis] * ones[:, np.newaxis, :]
    np.testing.assert_allclose(covariance(mixture, rows), expected, atol=1e-12)
    shares = [joint.responsibilities(row) for row in rows]
    np.testing.assert_allclose(responsibilities(mixture, rows), shares, rtol=REL, atol=1e-15)
    counted = list(range(0, n_vars, 2))
    counts = [joint.counts(row, counted) for row in rows]
    found = count_distribution(mixture, counted, rows)
    np.testing.assert_allclose(found, counts, rtol=REL, atol=1e-15)
    entropies = [joint.entropy(row, range(n_vars)) for row in rows]
    np.testing.assert_allclose(entropy(mixture, rows), entropies, rtol=REL, atol=1e-12)


@examples(100)
@given(mixtures_with_rows)
def test_rows_agree_with_the_table(case):
    check_rows(*case)


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("learned", "no weight") else pytest.param(name, marks=pytest.mark.compiled)
        for name in special_mixtures()
    ],
)
def test_special_mixtures_agree_with_the_table(name, rng):
    mixture = special_mixtures()[name]
    joint = special_joint(name)
    check_rows(mixture, joint, some_rows(joint, rng))


@given(mixture_models(6))
def test_the_likelihood_of_every_state_is_that_of_the_table(mixture):
    joint = Joint(mixture)
    np.testing.assert_allclose(np.exp(log_likelihood(mixture, joint.states)), joint.p, rtol=REL)
    np.testing.assert_allclose(
        log_likelihood(mixture, joint.states),
        log_marginal(mixture, joint.states),
        rtol=1e-12,
        atol=1e-14,
    )


@pytest.mark.parametrize("n_components", [1, 3])
def test_what_most_rows_take_is_added_once_and_zeros_stay_zeros(n_components, rng):
    circuit = figure_1_circuit()
    log_theta = np.log(rng.random((circuit.n_edges, n_components)))
    log_theta[rng.random(log_theta.shape) < 0.1] = -np.inf
    mixture = Mixture(circuit, log_theta, np.full(n_components, -np.log(n_components)))
    states = np.array(list(np.ndindex(2, 2, 2, 2)))
    rows = np.concatenate([states, np.repeat(states[[3, 9]], [60, 10], axis=0)])  # 3 is usual
    expected = np.column_stack([evaluate_log(part, rows) for part in mixture.components()])
    found = mixture_likelihood.component_flow_logs(mixture, rows.astype(np.uint8))
    assert np.any(expected == -np.inf)
    assert np.any(expected > -np.inf)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@given(mixtures_with_rows, st.data())
def test_conditionals_agree_with_the_table(case, data):
    mixture, joint, rows = case
    known = np.array(rows)
    cells = st.sampled_from([0.0, 1.0, NAN])
    asked = [data.draw(st.lists(cells, min_size=len(row), max_size=len(row))) for row in rows]
    expected = [
        math.fsum(joint.given(row)[joint.agrees(other)])
        for row, other in zip(rows, asked, strict=True)
    ]
    found = np.exp(log_conditional(mixture, asked, known))
    np.testing.assert_allclose(found, expected, rtol=REL, atol=1e-15)


@given(mixtures_with_rows, st.data())
def test_mutual_information_agrees_with_the_table(case, data):
    mixture, joint, rows = case
    if mixture.n_vars < 2:
        return
    order = data.draw(st.permutations(range(mixture.n_vars)))
    cut = data.draw(st.integers(1, mixture.n_vars - 1))
    a, b = order[:cut], order[cut : cut + 3]
    expected = [joint.information(row, a, b) for row in rows]
    found = mutual_information(mixture, a, b, rows)
    np.testing.assert_allclose(found, expected, rtol=REL, atol=1e-12)


# Impossible and known rows


def test_impossible_rows_are_minus_infinity_without_a_warning():
    mixture = special_mixtures()["zeros"]
    joint = special_joint("zeros")
    states = joint.states[joint.p == 0.0]
    assert len(states) > 0
    assert np.all(np.isneginf(log_likelihood(mixture, states)))
    assert np.all(np.isneginf(log_marginal(mixture, states)))


@pytest.mark.parametrize(
    "ask",
    [
        marginal_probabilities,
        pair_probabilities,
        responsibilities,
        lambda mixture, rows: sample(mixture, given=rows),
        entropy,
        most_probable_state,
        lambda mixture, rows: count_distribution(mixture, given=rows),
        lambda mixture, rows: log_conditional(mixture, np.full(np.shape(rows), NAN), rows),
    ],
)
def test_nothing_is_said_given_what_is_impossible(ask):
    mixture = special_mixtures()["a literal"]
    with pytest.raises(ValueError, match="Row 1 of the evidence has probability zero"):
        ask(mixture, [[1.0], [0.0], [NAN]])


def test_a_row_that_few_components_allow():
    circuit = figure_1_circuit()
    with np.errstate(divide="ignore"):
        never = np.log(np.array([[1.0, 0.0]] * 8).ravel())
    log_theta = np.column_stack([circuit.edge_log_theta, never])
    mixture = Mixture(circuit, log_theta, np.log([0.01, 0.99]))
    joint = Joint(mixture)
    rows = [row for row in joint.states.astype(float) if joint.probability(row) > 0]
    check_rows(mixture, joint, [*rows, [NAN] * 4])


# Laws


def all_answers(model, rows):
    """One array of everything that does not depend on the order of the components."""
    answers = [
        log_likelihood(model, np.nan_to_num(rows).astype(np.uint8)),
        log_marginal(model, rows),
        marginal_probabilities(model, rows),
        pair_probabilities(model, rows),
        count_distribution(model, given=rows),
        entropy(model, rows),
        most_probable_state(model, rows, k=4)[1],
        [marginal_map(model, [0, 1], row).log_probability for row in rows],
    ]
    return np.concatenate([np.ravel(answer) for answer in answers])


@pytest.mark.compiled
def test_permuting_components_changes_nothing(rng):
    mixture = special_mixtures()["learned"]
    rows = some_rows(special_joint("learned"), rng)
    order = rng.permutation(20)
    permuted = with_components(mixture, order)
    expected, found = all_answers(mixture, rows), all_answers(permuted, rows)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
    shares = responsibilities(mixture, rows)
    np.testing.assert_allclose(responsibilities(permuted, rows), shares[:, order], rtol=1e-12)


@examples(20)
@given(circuits(6, min_vars=2), st.integers(0, 10**6))
def test_one_component_is_its_circuit(circuit, seed):
    mixture = Mixture(circuit, np.array(circuit.edge_log_theta)[:, np.newaxis], np.zeros(1))
    joint = Joint(circuit)
    rows = some_rows(joint, np.random.default_rng(seed), n_rows=3)
    expected, found = all_answers(circuit, rows), all_answers(mixture, rows)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
    assert np.all(responsibilities(mixture, rows) == 1.0)
    assert np.all(responsibilities(circuit, rows) == 1.0)


@pytest.mark.compiled
def test_components_without_weight_do_not_count(rng):
    mixture = special_mixtures()["no weight"]
    kept = np.flatnonzero(mixture.weights > 0.0)
    rows = some_rows(special_joint("no weight"), rng)
    expected = all_answers(with_components(mixture, kept), rows)
    np.testing.assert_allclose(all_answers(mixture, rows), expected, rtol=1e-12, atol=1e-13)
    shares = responsibilities(mixture, rows)
    assert np.all(shares[:, mixture.weights == 0.0] == 0.0)
    assert not np.isin(
        sample_components(mixture, rng), np.flatnonzero(mixture.weights == 0.0)
    ).any()


def sample_components(mixture, rng):
    weight = probabilities.posterior(mixture, np.zeros((1, mixture.n_components)))
    return sampling._choose(weight, np.zeros(5000, dtype=int), rng.random(5000))


@given(mixtures_with_rows)
def test_it_answers_as_the_one_circuit_does(case):
    mixture, _, rows = case
    circuit = mixture.to_circuit()
    np.testing.assert_allclose(
        log_marginal(mixture, rows), log_marginal(circuit, rows), rtol=1e-11, atol=1e-13
    )
    np.testing.assert_allclose(
        marginal_probabilities(mixture, rows),
        marginal_probabilities(circuit, rows),
        rtol=1e-11,
        atol=1e-15,
    )


# Lanes and logs


@pytest.mark.compiled
@pytest.mark.parametrize(("n_steep", "theta"), [(60, 1e-3), (150, 1e-3), (9, 1e-200)])
def test_nodes_far_apart_lose_nothing(n_steep, theta):
    mixture, row = steep_mixture(n_steep, theta), steep_row(n_steep)
    parts = [math.log(0.25) + n_steep * math.log(x) for x in (10 * theta, theta, 10 * theta)]
    expected = np.logaddexp.reduce(parts + mixture.log_weight)
    assert log_marginal(mixture, row) == pytest.approx(expected, rel=1e-13)
    ones = marginal_probabilities(mixture, row)[[n_steep, n_steep + 1, n_steep + 3]]
    assert ones == pytest.approx([0.3, 0.9, 0.2], rel=1e-11)
    rows = sample(mixture, 3000, row, random_state=0)
    assert np.all(rows[:, :n_steep] == 1)
    assert rows[:, [n_steep, n_steep + 1, n_steep + 3]].mean(axis=0) == pytest.approx(
        [0.3, 0.9, 0.2], abs=0.04
    )
    counts = count_distribution(mixture, [n_steep, n_steep + 1], row)
    assert counts == pytest.approx([0.07, 0.66, 0.27], rel=1e-10)
    state, log_p = most_probable_state(mixture, row)
    assert state[n_steep:].tolist() == [0, 1, 1, 0]
    assert log_p == pytest.approx(expected + math.log(0.7 * 0.9 * 0.8), rel=1e-12)


@pytest.mark.parametrize("k", [1, 3, 5, 8, 13])
def test_lanes_hold_the_parameters_of_the_components(k, rng):
    mixture = random_mixture(figure_1_circuit(), k, rng)
    lanes = mixture.theta_lanes
    assert lanes.shape == (1 if k <= 8 else 2, 16, 8)
    n_copies = max(1, 8 // k)
    flat = np.concatenate(list(lanes), axis=1)
    theta = np.exp(mixture.edge_log_theta)
    np.testing.assert_array_equal(flat[:, : n_copies * k], np.tile(theta, n_copies))
    assert np.all(flat[:, n_copies * k :] == 0.0)


@pytest.mark.parametrize("k", [1, 2, 3, 8, 9])
def test_lanes_agree_with_logs(k, monkeypatch, rng):
    mixture = random_mixture(special_mixtures()["learned"].structure, k, rng)
    rows = some_rows(Joint(mixture), rng, n_rows=11)
    expected = [log_marginal(mixture, rows), marginal_probabilities(mixture, rows)]
    monkeypatch.setitem(mixture.__dict__, "is_moderate", np.zeros(k, dtype=bool))
    found = [log_marginal(mixture, rows), marginal_probabilities(mixture, rows)]
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-11, atol=1e-15)


def test_a_structure_in_no_normal_form():
    swapped = swapped_circuit()
    circuit = figure_1_circuit()
    log_theta = np.column_stack([circuit.edge_log_theta, np.log(np.full(16, 0.5))])
    log_theta[circuit.edge_log_theta == 0.0] = 0.0
    usual = Mixture(circuit, log_theta, np.log([0.4, 0.6]))
    odd = Mixture(swapped, log_theta, np.log([0.4, 0.6]))
    row = [1, NAN, NAN, 0]
    assert log_marginal(odd, row) == pytest.approx(log_marginal(usual, row), rel=1e-12)
    np.testing.assert_allclose(
        marginal_probabilities(odd, row), marginal_probabilities(usual, row), rtol=1e-12
    )
    states = Joint(circuit).states
    np.testing.assert_allclose(
        log_likelihood(odd, states), log_likelihood(usual, states), rtol=1e-12
    )
    assert mutual_information(odd, "X1", ["X3", "X4"]) == pytest.approx(
        mutual_information(usual, "X1", ["X3", "X4"]), rel=1e-10
    )
    for ask in (sample, most_probable_state, count_distribution):
        with pytest.raises(CircuitPropertyError, match="needs a circuit in normal form"):
            ask(odd)


# Samples


def chi_square(rows, p):
    """The chance of rows as unlikely as these, if `p` were right; rare states are put together."""
    number = rows @ (1 << np.arange(rows.shape[1])[::-1])
    found, expected = np.bincount(number, minlength=len(p)), p * len(rows)
    assert np.all(found[p == 0.0] == 0)
    is_rare = expected < 5
    found = np.append(found[~is_rare], found[is_rare].sum())
    expected = np.append(expected[~is_rare], expected[is_rare].sum())
    keep = expected > 0
    return stats.chisquare(found[keep], expected[keep] * found.sum() / expected.sum()).pvalue


SAMPLED = ["figure 1", "zeros", "fair coins", "learned", "not deterministic", "no weight"]


@pytest.mark.parametrize("name", SAMPLED)
def test_samples_have_the_right_distribution(name, rng):
    mixture = special_mixtures()[name]
    joint = special_joint(name)
    assert chi_square(sample(mixture, 4000, random_state=1), joint.p) > 1e-3
    row = some_rows(joint, rng, n_rows=1, known=0.3)[0]
    assert chi_square(sample(mixture, 4000, row, random_state=2), joint.given(row)) > 1e-3


def test_completions_agree_with_the_evidence(rng):
    mixture = special_mixtures()["learned"]
    rows = some_rows(special_joint("learned"), rng)
    found = sample(mixture, 5, rows, random_state=0)
    assert found.shape == (len(rows), 5, 8)
    known = ~np.isnan(rows)
    for i in range(5):
        np.testing.assert_array_equal(found[:, i][known], rows[known])
    assert sample(mixture, 0).shape == (0, 8)
    assert sample(mixture, 0, given=rows).shape == (len(rows), 0, 8)


@pytest.mark.compiled
def test_threads_and_blocks_do_not_change_the_result(monkeypatch, rng):
    mixture = special_mixtures()["learned"]
    rows = some_rows(special_joint("learned"), rng, n_rows=50)

    def answers():
        return [
            sample(mixture, 3000, random_state=1),
            sample(mixture, 77, rows, random_state=1),
            log_marginal(mixture, rows),
            marginal_probabilities(mixture, rows),
            responsibilities(mixture, rows),
            most_probable_state(mixture, rows[:5], k=3)[0],
        ]

    expected = answers()
    with use_threads(1):
        found = answers()
    monkeypatch.setattr(sampling, "PIECE", 10)
    monkeypatch.setattr(sampling, "BLOCK_NUMBERS", 1)
    monkeypatch.setattr(probabilities, "BLOCK_CELLS", 50)
    for first, second, third in zip(expected, found, answers(), strict=True):
        np.testing.assert_array_equal(first, second)
        np.testing.assert_array_equal(first, third)


def test_blocks_of_complete_rows_do_not_change_the_result(monkeypatch, rng):
    mixture = special_mixtures()["learned"]
    rows = rng.integers(0, 2, (1200, 8))
    expected = log_likelihood(mixture, rows), responsibilities(mixture, rows)
    monkeypatch.setattr(mixture_likelihood, "BLOCK_CELLS", 1)
    np.testing.assert_array_equal(log_likelihood(mixture, rows), expected[0])
    np.testing.assert_array_equal(responsibilities(mixture, rows), expected[1])


# Large ones


@pytest.mark.compiled
def test_a_thousand_variables(rng):
    data = (rng.random((300, 1000)) < rng.random(1000)) ^ (rng.random((300, 1)) < 0.5)
    tree = learn_chow_liu_tree(data.astype(np.uint8), alpha=1.0)
    structure = compile_chow_liu(tree, vtree_from_chow_liu(tree))
    mixture = random_mixture(structure, 11, rng)
    mixture = Mixture(structure, np.maximum(mixture.edge_log_theta, -5.0), mixture.log_weight)
    states = data[:20].astype(float)
    rows = np.where(rng.random(states.shape) < 0.5, states, NAN)
    parts = [evaluate_log(part, rows) for part in mixture.components()]
    expected = np.logaddexp.reduce(np.array(parts) + mixture.log_weight[:, np.newaxis])
    np.testing.assert_allclose(log_marginal(mixture, rows), expected, rtol=1e-12)
    parts = [log_likelihood(part, states) for part in mixture.components()]
    expected = np.logaddexp.reduce(np.array(parts) + mixture.log_weight[:, np.newaxis])
    np.testing.assert_allclose(log_likelihood(mixture, states), expected, rtol=1e-12)
    ones = marginal_probabilities(mixture, rows[0])
    var = int(np.flatnonzero(np.isnan(rows[0]))[0])
    assert np.log(ones[var]) == pytest.approx(
        log_conditional(mixture, {var: 1}, rows[0])[0], abs=1e-10
    )
    mean = count_distribution(mixture, given=rows[0]) @ np.arange(1001)
    assert mean == pytest.approx(ones.sum(), rel=1e-10)
    shares = responsibilities(mixture, rows)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-12)


# What is refused


def test_entropy_of_many_variables_is_refused(rng):
    mixture = special_mixtures()["learned"]
    message = "cannot be split. Ask about fewer variables"
    with pytest.raises(CircuitPropertyError, match=message):
        entropy(mixture, max_states=100)
    with pytest.raises(CircuitPropertyError, match=message):
        mutual_information(mixture, range(4), range(4, 8), max_states=100)
    assert entropy(mixture, {0: 1, 1: 0}, max_states=64) > 0.0
    # With one component left nothing is hidden, and one pass is enough.
    expected = special_joint("one left").entropy([NAN] * 8, range(8))
    assert entropy(special_mixtures()["one left"], max_states=1) == pytest.approx(expected, rel=REL)


def test_what_a_model_is(rng):
    mixture = special_mixtures()["figure 1"]
    fitted = SimpleNamespace(circuit_=mixture)
    assert model_of(mixture) is model_of(fitted) is mixture
    assert log_marginal(fitted, {"X1": 1}) == log_marginal(mixture, {"X1": 1})
    circuit = figure_1_circuit()
    assert model_of(circuit) is circuit
    with pytest.raises(ValueError, match="This Strudel is not fitted yet"):
        model_of(Strudel(n_components=1))
    with pytest.raises(TypeError, match="a Circuit, a Mixture or a fitted estimator, but got list"):
        model_of([1])
