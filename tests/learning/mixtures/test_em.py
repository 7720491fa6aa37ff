"""EM for mixtures on one structure, against enumeration, the single circuit, and its own laws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

import oracle
from makers import log_density_of_prior
from strategies import circuits, examples, seeds
from strudel import sample
from strudel._numba import use_threads
from strudel.circuits import CircuitBuilder, figure_1_circuit
from strudel.circuits.flows import flow_log_likelihood
from strudel.circuits.mixture import average
from strudel.data import pack_columns
from strudel.learning import MixtureOptions, fit_mixture, fit_parameters
from strudel.learning.mixtures import em_steps
from strudel.learning.mixtures.em import MixtureData, train_runs
from strudel.learning.mixtures.em_steps import Ensemble, weighted_sums
from strudel.trees import balanced_vtree

FLOAT32 = 1e-6  # relative error of sums of logs in float32

pseudocounts = st.sampled_from([0.0, 1.0, 7.0])
smoothings = st.sampled_from(["uniform", "single"])


def possible_rows(circuit, n, rng):
    every = oracle.all_rows(circuit.n_vars)
    possible = [row for row in every if oracle.satisfied(circuit, row)[circuit.root]]
    return np.array(possible, dtype=np.uint8)[rng.integers(len(possible), size=n)]


def log_density(mixture, rows):
    """Log-likelihood of every row by enumeration of nodes and components."""
    parts = np.array([oracle.probabilities(c, rows) for c in mixture.components()])
    with np.errstate(divide="ignore"):
        return np.log(mixture.weights @ parts)


def exact_log_likelihood(mixture, rows):
    """The same in float64, by flows: for more rows than enumeration can take."""
    parts = [flow_log_likelihood(c, rows) for c in mixture.components()]
    return logsumexp(np.array(parts) + mixture.log_weight[:, np.newaxis], axis=0)


def two_sources(seed, n_rows=200):
    """Rows of two kinds: many ones on the left, or on the right."""
    rng = np.random.default_rng(seed)
    chance = np.where(rng.random((n_rows, 1)) < 0.5, [0.9] * 3 + [0.1] * 3, [0.1] * 3 + [0.9] * 3)
    return (rng.random((n_rows, 6)) < chance).astype(np.uint8)


def independent(n_vars):
    """A structure that knows nothing of the pairs."""
    builder = CircuitBuilder(balanced_vtree(n_vars))
    nodes = []
    vtree = builder.vtree
    for v in range(vtree.n_nodes):
        if vtree.node_var[v] >= 0:
            nodes.append(builder.add_leaf_sum(int(vtree.node_var[v]), 0.5))
        else:
            nodes.append(
                builder.add_sum([(nodes[vtree.node_left[v]], nodes[vtree.node_right[v]], 1.0)])
            )
    return builder.build()


def start_ensemble(circuit, rows, k, options, rng, weight=None, share=None):
    """Data, ensemble and weights after the first counts, from random shares."""
    data = MixtureData.of(circuit, pack_columns(rows, weight), None, options)
    ensemble = Ensemble(data.choices, data.prior(options), 1, k)
    if share is None:
        share = rng.dirichlet(np.full(k, 0.3), size=data.rows.n_rows)
    (bag,) = data.train
    ensemble.add(bag, share.astype(np.float32), bag.weight[np.newaxis])
    return data, ensemble, [bag.weight[np.newaxis]]


# One step


@given(circuits(max_vars=4), seeds, st.integers(1, 3), pseudocounts, smoothings)
@examples(30)
def test_responsibilities_and_counts_equal_enumeration(circuit, seed, k, pseudocount, smoothing):
    rng = np.random.default_rng(seed)
    rows, weight = possible_rows(circuit, 8, rng), rng.integers(1, 4, 8) + 0.5
    options = MixtureOptions(pseudocount=pseudocount, smoothing=smoothing)
    data, ensemble, weights = start_ensemble(circuit, rows, k, options, rng, weight)
    ensemble.maximise()
    (mixture,) = ensemble.mixtures()
    mass = ensemble.total  # one virtual row is shared by the weights
    np.testing.assert_allclose(mixture.weights, (mass + 1.0 / k) / (mass.sum() + 1.0))
    distinct, weight = data.rows.unpack(), data.rows.weights
    joint = mixture.weights * np.array(
        [[oracle.probability(c, row) for c in mixture.components()] for row in distinct]
    )
    share = joint / joint.sum(axis=1, keepdims=True)
    by_group, of_average = ensemble.expect(data.train, weights)
    ensemble.maximise()  # completes the counts
    expected = np.zeros((circuit.n_edges, k))
    for row, w, s in zip(distinct, weight, share, strict=True):
        expected[oracle.active_edges(circuit, row)] += w * s
    edge = data.choices.edge
    np.testing.assert_allclose(ensemble.total, weight @ share, atol=1e-5)
    np.testing.assert_allclose(ensemble.count[: len(edge)], expected[edge], atol=1e-4)
    log_p = weight @ np.log(joint.sum(axis=1))
    assert by_group[0] == pytest.approx(log_p, rel=FLOAT32, abs=1e-5)
    assert of_average == pytest.approx(log_p, rel=FLOAT32, abs=1e-5)


@given(circuits(max_vars=5), seeds, st.integers(1, 4), pseudocounts, smoothings, st.booleans())
@examples(30)
def test_no_step_lowers_the_penalised_likelihood(circuit, seed, k, pseudocount, smoothing, is_hard):
    rng = np.random.default_rng(seed)
    rows, weight = possible_rows(circuit, 25, rng), rng.integers(1, 4, 25) + 0.25
    options = MixtureOptions(pseudocount=pseudocount, smoothing=smoothing)
    share = np.eye(k)[rng.integers(k, size=len(np.unique(rows, axis=0)))] if is_hard else None
    data, ensemble, weights = start_ensemble(circuit, rows, k, options, rng, weight, share)
    before = -np.inf
    for _ in range(8):
        ensemble.maximise()
        (mixture,) = ensemble.mixtures()
        log_p = exact_log_likelihood(mixture, data.rows)
        now = data.rows.weights @ log_p + log_density_of_prior(ensemble.prior, mixture)
        assert now >= before - FLOAT32 * abs(now)
        before = now
        ensemble.expect(data.train, weights)


# One component


@given(circuits(max_vars=5), seeds, pseudocounts, st.sampled_from(["kmeans", "random"]))
@examples(30)
def test_one_component_is_the_single_circuit(circuit, seed, pseudocount, start):
    rng = np.random.default_rng(seed)
    rows, weight = possible_rows(circuit, 20, rng), rng.gamma(1.0, size=20)
    options = MixtureOptions(pseudocount=pseudocount, init_params=start, max_iter=3)
    mixture = fit_mixture(circuit, rows, 1, sample_weight=weight, options=options, rng=0)
    single = fit_parameters(circuit, rows, sample_weight=weight, pseudocount=pseudocount)
    np.testing.assert_allclose(np.exp(mixture.edge_log_theta[:, 0]), single.theta, atol=1e-12)
    assert mixture.log_weight[0] == 0.0


def test_smoothing_towards_the_single_circuit_draws_to_it():
    X = two_sources(0)
    circuit = independent(6)
    single = fit_parameters(circuit, X)
    far = [
        np.abs(np.exp(m.edge_log_theta) - single.theta[:, np.newaxis]).max()
        for m in (
            fit_mixture(
                circuit, X, 2, rng=0, options=MixtureOptions(smoothing="single", pseudocount=p)
            )
            for p in (1.0, 1e6)
        )
    ]
    assert far[0] > 0.2
    assert far[1] < 1e-3


# What must not matter


def test_permuting_the_components_permutes_the_result():
    circuit, rng = figure_1_circuit(), np.random.default_rng(0)
    rows = possible_rows(circuit, 100, rng)
    share = rng.dirichlet(np.full(4, 0.3), size=len(np.unique(rows, axis=0)))
    order = [2, 0, 3, 1]
    results = []
    for shares in (share, share[:, order]):
        data, ensemble, weights = start_ensemble(
            circuit, rows, 4, MixtureOptions(), rng, share=shares
        )
        for _ in range(5):
            ensemble.maximise()
            ensemble.expect(data.train, weights)
        ensemble.maximise()
        results += ensemble.mixtures()
    one, other = results
    np.testing.assert_allclose(one.edge_log_theta[:, order], other.edge_log_theta, atol=1e-4)
    np.testing.assert_allclose(one.log_weight[order], other.log_weight, atol=1e-4)


def test_the_number_of_threads_changes_nothing_and_a_seed_repeats():
    X, V = two_sources(0), two_sources(1)
    results = []
    for n_jobs in (1, 2, 2):
        with use_threads(n_jobs):
            results.append(
                fit_mixture(
                    independent(6), X, 3, X_valid=V, rng=7, options=MixtureOptions(n_runs=2)
                )
            )
    for other in results[1:]:
        np.testing.assert_array_equal(results[0].edge_log_theta, other.edge_log_theta)
        np.testing.assert_array_equal(results[0].log_weight, other.log_weight)


@pytest.mark.parametrize("start", ["kmeans", "k-means++", "random"])
def test_weights_are_repeated_rows(start):
    rng = np.random.default_rng(0)
    X, weight = two_sources(0, 60), rng.integers(0, 4, 60)
    options = MixtureOptions(init_params=start, max_iter=10)
    one = fit_mixture(independent(6), X, 3, sample_weight=weight, options=options, rng=0)
    other = fit_mixture(independent(6), np.repeat(X, weight, axis=0), 3, options=options, rng=0)
    np.testing.assert_array_equal(one.edge_log_theta, other.edge_log_theta)
    np.testing.assert_array_equal(one.log_weight, other.log_weight)


def test_blocks_of_rows_give_what_one_block_gives(monkeypatch):
    rng = np.random.default_rng(0)
    X, V = (rng.random((2, 400, 9)) < rng.random((2, 400, 1))).astype(np.uint8)
    options = MixtureOptions(max_iter=10)
    one = fit_mixture(independent(9), X, 3, X_valid=V, options=options, rng=0)
    monkeypatch.setattr(em_steps, "BLOCK_ROWS", 64)
    data = MixtureData.of(independent(9), pack_columns(X), V, options)
    assert len(data.train) > 2
    many = fit_mixture(independent(9), X, 3, X_valid=V, options=options, rng=0)
    np.testing.assert_allclose(many.edge_log_theta, one.edge_log_theta, rtol=1e-9)
    np.testing.assert_allclose(many.log_weight, one.log_weight, rtol=1e-9)


# What is kept


def test_the_step_with_the_best_validation_is_kept():
    X, V = two_sources(0, 60), two_sources(1)
    histories = []
    options = MixtureOptions(pseudocount=0.1, patience=5, tol=0.0)
    mixture = fit_mixture(
        independent(6), X, 8, X_valid=V, options=options, rng=0, on_iteration=histories.append
    )
    history = histories[-1]
    assert history.best == np.argmax(history.valid) < len(history) - 1
    assert history.stopped_because == "patience"
    assert log_density(mixture, V).mean() == pytest.approx(history.valid[history.best], rel=1e-5)
    assert log_density(mixture, X).mean() == pytest.approx(history.train[history.best], rel=1e-5)


def test_runs_are_averaged():
    X = two_sources(0)
    options = MixtureOptions(n_components=2, n_runs=3, init_params="random", max_iter=4)
    data = MixtureData.of(independent(6), pack_columns(X), None, options)
    runs = train_runs(data, options, np.random.default_rng(0)).mixtures(data.prior(options))
    mixture = fit_mixture(independent(6), X, 2, options=options, rng=0)
    assert mixture.n_components == 6
    assert np.ptp([log_density(run, X[:1])[0] for run in runs]) > 1e-6
    expected = np.mean([np.exp(log_density(run, X[:9])) for run in runs], axis=0)
    np.testing.assert_allclose(np.exp(log_density(mixture, X[:9])), expected, rtol=1e-9)
    np.testing.assert_array_equal(average(runs).edge_log_theta, mixture.edge_log_theta)


@pytest.mark.parametrize("has_valid", [True, False])
def test_the_best_restart_is_kept(has_valid):
    X, V = two_sources(0), two_sources(1)
    judge = V if has_valid else X
    options = MixtureOptions(n_components=3, init_params="random", max_iter=1)
    data = MixtureData.of(independent(6), pack_columns(X), V if has_valid else None, options)
    every = train_runs(data, replace(options, n_runs=6), np.random.default_rng(0))
    restarts = replace(options, n_init=3, n_runs=2)
    trained = train_runs(data, restarts, np.random.default_rng(0))
    assert trained.history.best == every.history.best == 1
    means = [log_density(mixture, judge).mean() for mixture in every.mixtures(data.prior(options))]
    expected = [max(means[:3]), max(means[3:])]
    kept = [log_density(mixture, judge).mean() for mixture in trained.mixtures(data.prior(options))]
    assert kept == pytest.approx(expected, rel=1e-9)
    if has_valid:  # the history tells of what is kept
        log_p = log_density(average(trained.mixtures(data.prior(options))), V)
        assert trained.history.valid[-1] == pytest.approx(log_p.mean(), rel=1e-5)


def test_an_interrupt_returns_the_best_so_far():
    X, V = two_sources(0), two_sources(1)
    histories = []

    def interrupt(history):
        histories.append(history)
        if len(history) == 4:
            raise KeyboardInterrupt

    mixture = fit_mixture(independent(6), X, 3, X_valid=V, rng=0, on_iteration=interrupt)
    history = histories[-1]
    assert len(history) == 4
    assert history.stopped_because == "interrupted"
    assert log_density(mixture, V).mean() == pytest.approx(history.valid.max(), rel=1e-5)


def test_limits_on_steps_and_seconds():
    histories = []
    for limit in ({"max_iter": 2}, {"max_seconds": 0}):
        options = MixtureOptions(**limit)
        fit_mixture(
            independent(6), two_sources(0), 2, options=options, on_iteration=histories.append
        )
        assert histories[-1].stopped_because == next(iter(limit))
        assert len(histories[-1]) == (3 if "max_iter" in limit else 1)


def test_a_mixture_finds_two_sources():
    X, T = two_sources(0, 400), two_sources(1, 400)
    single = fit_parameters(independent(6), X)
    mixture = fit_mixture(independent(6), X, 2, rng=0)
    one = np.mean(oracle.log_likelihoods(single, T))
    assert log_density(mixture, T).mean() > one + 1.0
    assert mixture.weights == pytest.approx([0.5, 0.5], abs=0.1)


# Edges


def only_ones_first():
    """Two variables, the first of them always 1."""
    builder = CircuitBuilder(balanced_vtree(2))
    return builder.build(
        builder.add_sum([(builder.literal(0, 1), builder.add_leaf_sum(1, 0.5), 1.0)])
    )


def test_impossible_rows_are_refused_by_their_number():
    X = [[1, 0], [1, 0], [1, 1], [1, 1], [0, 1]]
    with pytest.raises(ValueError, match="Row 4 of X is impossible"):
        fit_mixture(only_ones_first(), X, 2)
    with pytest.raises(ValueError, match="Row 4 of X_valid is impossible"):
        fit_mixture(only_ones_first(), X[:4], 2, X_valid=X)
    mixture = fit_mixture(only_ones_first(), X, 2, sample_weight=[1, 1, 1, 1, 0])
    assert np.exp(log_density(mixture, [[0, 1], [1, 1], [1, 0]]))[0] == 0.0


def test_rows_of_weight_zero_are_as_if_they_were_not_there():
    X, weight = two_sources(0), np.zeros(200)
    weight[:5] = 1.0
    for start in ("kmeans", "k-means++", "random"):
        options = MixtureOptions(init_params=start, pseudocount=0.0, max_iter=5)
        one = fit_mixture(independent(6), X, 7, sample_weight=weight, options=options, rng=0)
        other = fit_mixture(independent(6), X[:5], 7, options=options, rng=0)
        np.testing.assert_array_equal(one.edge_log_theta, other.edge_log_theta)
    with pytest.raises(ValueError, match="at least one row"):
        fit_mixture(independent(6), pack_columns(X, np.zeros(200)), 2)
    no_valid = fit_mixture(independent(6), X, 2, X_valid=pack_columns(X, np.zeros(200)), rng=0)
    other = fit_mixture(independent(6), X, 2, rng=0)
    np.testing.assert_array_equal(no_valid.edge_log_theta, other.edge_log_theta)


def test_one_variable_and_a_known_one():
    builder = CircuitBuilder(balanced_vtree(1))
    mixture = fit_mixture(builder.build(builder.add_leaf_sum(0, 0.5)), [[1], [0], [1]], 2, rng=0)
    assert np.exp(log_density(mixture, [[0], [1]])).sum() == pytest.approx(1.0)
    known = CircuitBuilder(balanced_vtree(1))
    circuit = known.build(known.literal(0, 1))
    mixture = fit_mixture(circuit, [[1], [1]], 2, X_valid=[[1]], rng=0)
    assert mixture.edge_log_theta.shape == (0, 2)
    with pytest.raises(ValueError, match="Row 1 of X is impossible"):
        fit_mixture(circuit, [[1], [0]], 2)


@pytest.mark.parametrize("start", ["kmeans", "k-means++", "random"])
@pytest.mark.parametrize("pseudocount", [0.0, 1e-300, 1.0])
def test_few_rows_and_constant_columns(start, pseudocount):
    X = np.array([[1, 0, 0, 1, 0, 1], [1, 0, 1, 1, 0, 1]], dtype=np.uint8)
    options = MixtureOptions(init_params=start, pseudocount=pseudocount)
    mixture = fit_mixture(independent(6), X, 5, options=options, rng=0)
    assert np.exp(log_density(mixture, oracle.all_rows(6))).sum() == pytest.approx(1.0)
    if pseudocount < 1.0:
        assert np.exp(log_density(mixture, X)).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("n_runs", [1, 3])
def test_validation_rows_never_seen_are_minus_infinity_without_smoothing(n_runs):
    X = two_sources(0, 30)
    X[:, 0] = 1
    unseen = X[:3].copy()
    unseen[:, 0] = 0
    histories = []
    mixture = fit_mixture(
        independent(6),
        X,
        3,
        X_valid=np.concatenate([X, unseen]),
        options=MixtureOptions(pseudocount=0.0, n_runs=n_runs, n_init=2, patience=3),
        rng=0,
        on_iteration=histories.append,
    )
    assert np.all(histories[-1].valid == -np.inf)
    assert np.all(np.isfinite(histories[-1].train))
    assert np.all(log_density(mixture, unseen) == -np.inf)
    assert np.all(np.isfinite(log_density(mixture, X)))


def test_impossible_rows_of_weight_zero_cost_nothing():
    log_p = np.array([[-1.0, -np.inf], [-np.inf, -3.0]])
    assert weighted_sums(np.array([[2.0, 0.0], [0.0, 1.0]]), log_p).tolist() == [-2.0, -3.0]
    assert weighted_sums(np.array([[2.0, 0.0]]), log_p).tolist() == [-2.0, -np.inf]


@pytest.mark.parametrize("n_init", [1, 2])
def test_bags_without_a_row_that_another_holds(n_init):
    X = np.eye(6, dtype=np.uint8)
    options = MixtureOptions(
        n_components=2, n_runs=2, n_init=n_init, pseudocount=0.0, init_params="random"
    )
    data = MixtureData.of(independent(6), pack_columns(X), None, options)
    row_weight = np.array([[2.0, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 2]])
    trained = train_runs(data, options, np.random.default_rng(0), row_weight=row_weight)
    first, second = (log_density(mixture, X) for mixture in trained.mixtures(data.prior(options)))
    assert np.isfinite(first).tolist() == [True] * 3 + [False] * 3
    assert np.isfinite(second).tolist() == [False] * 3 + [True] * 3


def test_names_are_kept():
    circuit = figure_1_circuit().with_names(tuple("abcd"))
    mixture = fit_mixture(circuit, sample(circuit, 20, random_state=0), 2, rng=0)
    assert mixture.feature_names == tuple("abcd")
