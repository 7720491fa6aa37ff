"""Boosting: components added one after another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy.optimize import minimize_scalar

import oracle
from strategies import circuits, examples, seeds
from strudel._numba import use_threads
from strudel.circuits import CircuitBuilder, figure_1_circuit
from strudel.learning import MixtureOptions, fit_parameters
from strudel.learning.mixtures import boosting, em_steps
from strudel.learning.mixtures.boosting import best_share, fit_boosted_mixture
from strudel.trees import balanced_vtree


def possible_rows(circuit, n, rng):
    every = oracle.all_rows(circuit.n_vars)
    possible = [row for row in every if oracle.satisfied(circuit, row)[circuit.root]]
    return np.array(possible, dtype=np.uint8)[rng.integers(len(possible), size=n)]


def two_sources(seed, n_rows=200):
    """Rows of two kinds: many ones on the left, or on the right."""
    rng = np.random.default_rng(seed)
    chance = np.where(rng.random((n_rows, 1)) < 0.7, [0.9] * 3 + [0.1] * 3, [0.1] * 3 + [0.9] * 3)
    return (rng.random((n_rows, 6)) < chance).astype(np.uint8)


def independent(n_vars):
    """A structure that knows nothing of the pairs."""
    builder = CircuitBuilder(balanced_vtree(n_vars))
    vtree, nodes = builder.vtree, []
    for v in range(vtree.n_nodes):
        if vtree.node_var[v] >= 0:
            nodes.append(builder.add_leaf_sum(int(vtree.node_var[v]), 0.5))
        else:
            pair = (nodes[vtree.node_left[v]], nodes[vtree.node_right[v]], 1.0)
            nodes.append(builder.add_sum([pair]))
    return builder.build()


def log_density(mixture, rows):
    parts = np.array([oracle.probabilities(c, rows) for c in mixture.components()])
    with np.errstate(divide="ignore"):
        return np.log(mixture.weights @ parts)


# The line search


@given(npst.arrays(np.float64, 7, elements=st.floats(-30, 30)), seeds)
def test_the_share_maximises_the_likelihood(log_ratio, seed):
    weight = np.random.default_rng(seed).dirichlet(np.ones(7))

    def loss(a):
        return -weight @ np.logaddexp(np.log1p(-a), np.log(a) + log_ratio)

    found = best_share(log_ratio, weight)
    reference = minimize_scalar(loss, bounds=(1e-9, 1.0 - 1e-9), method="bounded")
    value = loss(found) if found else 0.0
    assert value <= min(reference.fun, 0.0) + 1e-9


def test_shares_of_extreme_ratios():
    even = np.array([0.5, 0.5])
    assert best_share(np.log([3.0, 0.5]), even) == pytest.approx(0.75)  # by hand
    assert best_share(np.array([-1.0, -2.0]), even) == 0.0
    assert best_share(np.array([-np.inf, -np.inf]), even) == 0.0
    assert best_share(np.array([1.0, 2.0]), even) == pytest.approx(1.0)
    assert best_share(np.array([1000.0, -np.inf]), even) == pytest.approx(0.5)
    assert best_share(np.zeros(2), even) == 0.0


# Growing


@given(circuits(max_vars=5), seeds, st.sampled_from([0.0, 1.0, 7.0]))
@examples(30)
def test_one_component_is_the_single_circuit(circuit, seed, pseudocount):
    rng = np.random.default_rng(seed)
    rows, weight = possible_rows(circuit, 20, rng), rng.gamma(1.0, size=20)
    options = MixtureOptions(pseudocount=pseudocount)
    mixture = fit_boosted_mixture(circuit, rows, 1, sample_weight=weight, options=options)
    single = fit_parameters(circuit, rows, sample_weight=weight, pseudocount=pseudocount)
    np.testing.assert_allclose(np.exp(mixture.edge_log_theta[:, 0]), single.theta, atol=1e-12)
    assert mixture.log_weight.tolist() == [0.0]


@given(circuits(max_vars=5), seeds, st.sampled_from([0.0, 1.0]), st.booleans())
@examples(15)
def test_no_component_lowers_the_training_likelihood(circuit, seed, pseudocount, is_single):
    rng = np.random.default_rng(seed)
    rows, weight = possible_rows(circuit, 25, rng), rng.integers(1, 4, 25) + 0.25
    smoothing = "single" if is_single else "uniform"
    options = MixtureOptions(pseudocount=pseudocount, smoothing=smoothing, tol=0.0)
    histories = []
    mixture = fit_boosted_mixture(
        circuit,
        rows,
        4,
        sample_weight=weight,
        options=options,
        rng=seed,
        on_iteration=histories.append,
    )
    train = histories[-1].train
    assert np.all(np.diff(train) >= -1e-12)
    # What it says is what the mixture has, up to the error of float32.
    exact = weight @ log_density(mixture, rows) / weight.sum()
    assert exact == pytest.approx(train[histories[-1].best], rel=1e-5, abs=1e-5)
    assert mixture.weights.sum() == pytest.approx(1.0)


def test_two_sources_beat_the_single_circuit():
    X, T = two_sources(0, 400), two_sources(1, 400)
    single = fit_parameters(independent(6), X)
    one = np.mean(oracle.log_likelihoods(single, T))
    mixture = fit_boosted_mixture(independent(6), X, 3, rng=0)
    assert log_density(mixture, T).mean() > one + 0.5


def test_a_new_component_is_fitted_to_its_responsibilities(monkeypatch):
    monkeypatch.setattr(boosting, "MOST_STEPS", 500)
    X = two_sources(0)
    options = MixtureOptions(pseudocount=0.0, tol=0.0)
    mixture = fit_boosted_mixture(independent(6), X, 2, options=options, rng=0)
    p = np.array([oracle.probabilities(c, X) for c in mixture.components()])
    joint = mixture.weights[:, np.newaxis] * p
    share = joint[1] / joint.sum(axis=0)
    assert 0.1 < share.mean() < 0.9
    expected = fit_parameters(independent(6), X, sample_weight=share, pseudocount=0)
    np.testing.assert_allclose(np.exp(mixture.edge_log_theta[:, 1]), expected.theta, atol=1e-3)
    assert mixture.weights[1] == pytest.approx(share.mean(), abs=1e-3)


def test_the_first_components_do_not_depend_on_how_many_follow():
    X = two_sources(0)
    options = MixtureOptions(tol=0.0)
    two, four = (fit_boosted_mixture(independent(6), X, k, options=options, rng=0) for k in (2, 4))
    np.testing.assert_array_equal(two.edge_log_theta, four.edge_log_theta[:, :2])
    ratio = four.weights[:2] / two.weights
    assert ratio[0] == pytest.approx(ratio[1])


def test_validation_stops_and_keeps_the_best_components():
    X, V = two_sources(0, 40), two_sources(1)
    options = MixtureOptions(pseudocount=0.01, patience=2)
    histories = []
    mixture = fit_boosted_mixture(
        independent(6), X, 30, X_valid=V, options=options, rng=0, on_iteration=histories.append
    )
    history = histories[-1]
    assert history.stopped_because == "patience"
    assert 0 < history.best == np.argmax(history.valid) < len(history) - 1 < 29
    assert mixture.n_components == history.best + 1
    assert log_density(mixture, V).mean() == pytest.approx(history.valid.max(), rel=1e-5)


def test_reasons_to_stop():
    histories = []
    X = two_sources(0)
    for n_components, options, because in (
        (3, MixtureOptions(), "n_components"),
        (1, MixtureOptions(), "n_components"),
        (9, MixtureOptions(max_seconds=0), "max_seconds"),
    ):
        mixture = fit_boosted_mixture(
            independent(6), X, n_components, options=options, rng=0, on_iteration=histories.append
        )
        assert histories[-1].stopped_because == because
        assert mixture.n_components == len(histories[-1])
    fit_boosted_mixture(independent(1), [[0], [1]], 9, rng=0, on_iteration=histories.append)
    assert histories[-1].stopped_because == "nothing left to gain"


def test_an_interrupt_returns_the_best_so_far():
    X, V = two_sources(0), two_sources(1)
    histories = []

    def interrupt(history):
        histories.append(history)
        if len(history) == 2:
            raise KeyboardInterrupt

    mixture = fit_boosted_mixture(independent(6), X, 9, X_valid=V, rng=0, on_iteration=interrupt)
    assert histories[-1].stopped_because == "interrupted"
    assert mixture.n_components == 2
    best = histories[-1].valid.max()
    assert log_density(mixture, V).mean() == pytest.approx(best, rel=1e-5)


def test_threads_seeds_and_blocks_change_nothing(monkeypatch):
    X, V = two_sources(0, 600), two_sources(1)
    results = []
    for n_jobs in (1, 2, 2):
        with use_threads(n_jobs):
            results.append(fit_boosted_mixture(independent(6), X, 3, X_valid=V, rng=3))
    monkeypatch.setattr(em_steps, "BLOCK_ROWS", 16 * 4)
    results.append(fit_boosted_mixture(independent(6), X, 3, X_valid=V, rng=3))
    for other in results[1:3]:
        np.testing.assert_array_equal(results[0].edge_log_theta, other.edge_log_theta)
        np.testing.assert_array_equal(results[0].log_weight, other.log_weight)
    np.testing.assert_allclose(results[0].edge_log_theta, results[3].edge_log_theta, rtol=1e-6)


def test_weights_are_repeated_rows():
    X, weight = two_sources(0, 60), np.random.default_rng(0).integers(0, 4, 60)
    one = fit_boosted_mixture(independent(6), X, 3, sample_weight=weight, rng=0)
    other = fit_boosted_mixture(independent(6), np.repeat(X, weight, axis=0), 3, rng=0)
    np.testing.assert_array_equal(one.edge_log_theta, other.edge_log_theta)
    np.testing.assert_array_equal(one.log_weight, other.log_weight)


def test_validation_rows_never_seen_are_minus_infinity_without_smoothing():
    X = two_sources(0, 30)
    X[:, 0] = 1
    unseen = X[:3].copy()
    unseen[:, 0] = 0
    histories = []
    mixture = fit_boosted_mixture(
        independent(6),
        X,
        4,
        X_valid=np.concatenate([X, unseen]),
        rng=0,
        options=MixtureOptions(pseudocount=0.0, patience=2),
        on_iteration=histories.append,
    )
    assert np.all(histories[-1].valid == -np.inf)
    assert np.all(np.isfinite(histories[-1].train))
    assert mixture.n_components == 1  # none is better than the first


def test_few_rows_one_variable_and_a_known_one():
    mixture = fit_boosted_mixture(figure_1_circuit(), [[1, 0, 1, 0]], 5, rng=0)
    assert np.exp(log_density(mixture, oracle.all_rows(4))).sum() == pytest.approx(1.0)
    known = CircuitBuilder(balanced_vtree(1))
    circuit = known.build(known.literal(0, 1))
    assert fit_boosted_mixture(circuit, [[1], [1]], 2, X_valid=[[1]]).n_components == 1
    with pytest.raises(ValueError, match="Row 1 of X is impossible"):
        fit_boosted_mixture(circuit, [[1], [0]], 2)


def test_an_example_of_best_share():
    assert best_share(np.log([3.0, 0.5]), np.array([0.5, 0.5])) == 0.75
