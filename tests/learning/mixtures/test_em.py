"""EM, bags and boosting on one structure: against enumeration, the single circuit, their laws."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

import oracle
from column_circuits import as_bits, bit_circuits, components_of
from makers import log_density_of_prior
from strategies import examples, seeds
from strudel._numba import use_threads
from strudel.circuits import CircuitBuilder, figure_1_circuit
from strudel.data import pack_columns
from strudel.learning import MixtureOptions
from strudel.learning.bits.circuit import bits_of
from strudel.learning.bits.likelihood import rows_log_likelihood
from strudel.learning.bits.mixture import average
from strudel.learning.mixtures import boosting, em_steps
from strudel.learning.mixtures.boosting import best_share, fit_boosted_mixture
from strudel.learning.mixtures.em import MixtureData, draw_bags, fit_mixture, train_runs
from strudel.learning.mixtures.em_steps import (
    Ensemble,
    share_flows,
    uniform_prior,
    weighted_sums,
)
from strudel.learning.parameters import closed_form
from strudel.trees import balanced_vtree

FLOAT32 = 1e-6  # relative error of sums of logs in float32
FITS = {"em": fit_mixture, "bags": partial(fit_mixture, n_bags=3), "boosting": fit_boosted_mixture}

pseudocounts = st.sampled_from([0.0, 1.0, 7.0])
smoothings = st.sampled_from(["uniform", "single"])
fits = pytest.mark.parametrize("fit", FITS.values(), ids=FITS)


def possible_rows(circuit, n, rng):
    every = oracle.all_rows(circuit.n_vars)
    possible = [row for row in every if oracle.satisfied(circuit, row)[circuit.root]]
    return np.array(possible, dtype=np.uint8)[rng.integers(len(possible), size=n)]


def log_density(mixture, rows):
    """Log-likelihood of every row by enumeration of nodes and components."""
    parts = np.array([oracle.probabilities(c, rows) for c in components_of(mixture)])
    with np.errstate(divide="ignore"):
        return np.log(mixture.weights @ parts)


def exact_log_likelihood(mixture, rows):
    """The same in float64, by flows: for more rows than enumeration can take."""
    parts = [rows_log_likelihood(c, rows) for c in components_of(mixture)]
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
    return bits_of(builder)


def start_ensemble(circuit, rows, k, options, rng, weight=None, share=None):
    """Data, ensemble and weights after the first counts, from random shares."""
    data = MixtureData.of(circuit, pack_columns(rows, weight), None, options)
    ensemble = Ensemble(data.choices, data.prior(options), 1, k)
    if share is None:
        share = rng.dirichlet(np.full(k, 0.3), size=data.rows.n_rows)
    (bag,) = data.train
    ensemble.add(bag, share.astype(np.float32), bag.weight[np.newaxis])
    return data, ensemble, [bag.weight[np.newaxis]]


def assert_same(one, other):
    np.testing.assert_array_equal(one.edge_log_theta, other.edge_log_theta)
    np.testing.assert_array_equal(one.log_weight, other.log_weight)


# What rows take


def choices_of_row(circuit, row):
    """The edges with a parameter that a row takes, by enumeration."""
    width = np.diff(circuit.node_edges)[circuit.edge_parent]
    return [edge for edge in oracle.active_edges(circuit, row) if width[edge] > 1]


def places_of(choices):
    """The states of every place."""
    return [choices.place_state[i:j] for i, j in pairwise(choices.place_first)]


@given(bit_circuits(max_vars=5), seeds, st.booleans())
def test_bags_and_defaults_tell_the_edges_of_every_row(circuit, seed, has_defaults):
    rows = possible_rows(circuit, 9, np.random.default_rng(seed))
    choices, [bags] = share_flows(circuit, pack_columns(rows), has_defaults=has_defaults)
    (bag,) = bags
    for r, row in enumerate(rows):
        listed = bag.row_state[bag.row_first[r] : bag.row_first[r + 1]]
        taken = set()
        for place, default in zip(places_of(choices), choices.default, strict=True):
            here = [s for s in listed if s in place]
            assert len(here) <= 1
            assert here or has_defaults
            taken.add(int(here[0] if here else default))
        edges = sorted(int(choices.edge[s]) for s in taken if s < len(choices.edge))
        assert edges == choices_of_row(circuit, row)


def test_the_default_is_what_most_rows_take():
    builder = CircuitBuilder(balanced_vtree(1))
    circuit = bits_of(builder, builder.add_leaf_sum(0, 0.5))  # edges: X = 1, X = 0
    choices, [[bag]] = share_flows(circuit, pack_columns([[0], [1], [0]]))
    assert circuit.edge_left[choices.edge[choices.default[0]]] == 0
    assert np.diff(bag.row_first).tolist() == [0, 1, 0]


@given(bit_circuits(max_vars=5), seeds, st.booleans())
def test_counts_are_weighted_sums_over_the_rows(circuit, seed, has_defaults):
    rng = np.random.default_rng(seed)
    rows, weight = possible_rows(circuit, 9, rng), rng.gamma(1.0, size=9)
    share = rng.dirichlet(np.ones(3), size=9).astype(np.float32)
    choices, [[bag]] = share_flows(circuit, pack_columns(rows), has_defaults=has_defaults)
    ensemble = Ensemble(choices, uniform_prior(circuit, 1.0), 1, 3)
    ensemble.add(bag, share, weight[np.newaxis])
    ensemble.maximise()  # gives the defaults what the others leave over
    expected = np.zeros((circuit.n_edges, 3))
    for row, w, s in zip(rows, weight, share, strict=True):
        expected[choices_of_row(circuit, row)] += w * s
    np.testing.assert_allclose(ensemble.total, weight @ share, rtol=1e-12)
    np.testing.assert_allclose(
        ensemble.count[: len(choices.edge)], expected[choices.edge], atol=1e-12
    )
    assert not np.delete(expected, choices.edge, axis=0).any()


def test_groups_count_their_own_weights():
    circuit, rng = as_bits(figure_1_circuit()), np.random.default_rng(0)
    rows, weight = possible_rows(circuit, 20, rng), rng.gamma(1.0, size=(3, 20))
    share = rng.dirichlet(np.ones(2), size=(3, 20)).astype(np.float32)
    choices, [[bag]] = share_flows(circuit, pack_columns(rows))
    together = Ensemble(choices, uniform_prior(circuit, 1.0), 3, 2)
    together.add(bag, np.concatenate(share, axis=1), weight)
    for g in range(3):
        alone = Ensemble(choices, uniform_prior(circuit, 1.0), 1, 2)
        alone.add(bag, share[g], weight[g][np.newaxis])
        np.testing.assert_array_equal(together.count[:, 2 * g : 2 * g + 2], alone.count)
        np.testing.assert_array_equal(together.total[2 * g : 2 * g + 2], alone.total)


def test_blocks_hold_the_rows_in_order(monkeypatch):
    circuit, rng = as_bits(figure_1_circuit()), np.random.default_rng(0)
    rows = pack_columns(possible_rows(circuit, 150, rng), rng.integers(1, 5, 150))
    _, [[whole]] = share_flows(circuit, rows)
    monkeypatch.setattr(em_steps, "BLOCK_ROWS", 64)
    _, [bags] = share_flows(circuit, rows)
    assert [bag.n_rows for bag in bags] == [64, 64, 22]
    np.testing.assert_array_equal(np.concatenate([b.row_state for b in bags]), whole.row_state)
    np.testing.assert_array_equal(np.concatenate([b.weight for b in bags]), whole.weight)


def test_an_impossible_row_is_named(monkeypatch):
    builder = CircuitBuilder(balanced_vtree(2))
    circuit = bits_of(
        builder, builder.add_sum([(builder.literal(0, 1), builder.add_leaf_sum(1, 0.5), 1.0)])
    )
    monkeypatch.setattr(em_steps, "BLOCK_ROWS", 64)
    rows = np.ones((100, 2), dtype=np.uint8)
    rows[77, 0] = 0
    with pytest.raises(ValueError, match="Row 77 is impossible") as caught:
        share_flows(circuit, pack_columns(rows[:50]), pack_columns(rows))
    assert caught.value.table == 1


# One step


@given(bit_circuits(max_vars=4), seeds, st.integers(1, 3), pseudocounts, smoothings)
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
        [[oracle.probability(c, row) for c in components_of(mixture)] for row in distinct]
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


@given(bit_circuits(max_vars=5), seeds, st.integers(1, 4), pseudocounts, smoothings, st.booleans())
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
        log_p = exact_log_likelihood(mixture, data.rows.unpack())
        now = data.rows.weights @ log_p + log_density_of_prior(ensemble.prior, mixture)
        assert now >= before - FLOAT32 * abs(now)
        before = now
        ensemble.expect(data.train, weights)


def test_impossible_rows_of_weight_zero_cost_nothing():
    log_p = np.array([[-1.0, -np.inf], [-np.inf, -3.0]])
    assert weighted_sums(np.array([[2.0, 0.0], [0.0, 1.0]]), log_p).tolist() == [-2.0, -3.0]
    assert weighted_sums(np.array([[2.0, 0.0]]), log_p).tolist() == [-2.0, -np.inf]


# One component


@given(
    bit_circuits(max_vars=5), seeds, pseudocounts, st.sampled_from(["kmeans", "random", "boosting"])
)
@examples(30)
def test_one_component_is_the_single_circuit(circuit, seed, pseudocount, start):
    rng = np.random.default_rng(seed)
    rows, weight = possible_rows(circuit, 20, rng), rng.gamma(1.0, size=20)
    is_boosted = start == "boosting"
    start = "kmeans" if is_boosted else start
    options = MixtureOptions(pseudocount=pseudocount, init_params=start, max_iter=3)
    fit = fit_boosted_mixture if is_boosted else fit_mixture
    mixture = fit(circuit, rows, 1, sample_weight=weight, options=options, rng=0)
    single = closed_form(circuit, rows, sample_weight=weight, pseudocount=pseudocount)
    np.testing.assert_allclose(np.exp(mixture.edge_log_theta[:, 0]), single.theta, atol=1e-12)
    assert mixture.log_weight[0] == 0.0


# What must not matter


@fits
def test_the_number_of_threads_changes_nothing_and_a_seed_repeats(fit):
    X, V = two_sources(0), two_sources(1)
    results = []
    for n_jobs, seed in ((1, 7), (2, 7), (2, 8)):
        with use_threads(n_jobs):
            options = MixtureOptions(n_runs=2)
            results.append(fit(independent(6), X, 3, X_valid=V, rng=seed, options=options))
    assert_same(*results[:2])
    assert not np.array_equal(results[0].log_weight, results[2].log_weight)


@fits
@pytest.mark.parametrize("start", ["kmeans", "k-means++", "random"])
def test_weights_are_repeated_rows_and_rows_of_weight_zero_are_not_there(fit, start):
    X, weight = two_sources(0, 60), np.random.default_rng(0).integers(0, 4, 60)
    options = MixtureOptions(init_params=start, max_iter=10)
    one = fit(independent(6), X, 3, sample_weight=weight, options=options, rng=0)
    assert_same(one, fit(independent(6), np.repeat(X, weight, axis=0), 3, options=options, rng=0))
    nothing = pack_columns(X, np.zeros(60))
    with pytest.raises(ValueError, match="at least one row"):
        fit(independent(6), nothing, 2)


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


@fits
def test_the_step_with_the_best_validation_is_kept(fit):
    X, V = two_sources(0, 40), two_sources(1)
    histories = []
    options = MixtureOptions(pseudocount=0.01, patience=3, tol=0.0)
    mixture = fit(
        independent(6), X, 30, X_valid=V, options=options, rng=0, on_iteration=histories.append
    )
    history = histories[-1]
    assert history.best == np.argmax(history.valid) < len(history) - 1
    assert history.stopped_because == "patience"
    assert log_density(mixture, V).mean() == pytest.approx(history.valid[history.best], rel=1e-5)
    assert log_density(mixture, X).mean() == pytest.approx(history.train[history.best], rel=1e-5)
    if fit is fit_boosted_mixture:
        assert mixture.n_components == history.best + 1


@fits
def test_an_interrupt_returns_the_best_so_far(fit):
    X, V = two_sources(0), two_sources(1)
    histories = []

    def interrupt(history):
        histories.append(history)
        if len(history) == 3:
            raise KeyboardInterrupt

    mixture = fit(independent(6), X, 9, X_valid=V, rng=0, on_iteration=interrupt)
    history = histories[-1]
    assert len(history) == 3
    assert history.stopped_because == "interrupted"
    assert log_density(mixture, V).mean() == pytest.approx(history.valid.max(), rel=1e-5)


@fits
def test_limits_on_steps_and_seconds(fit):
    X, histories = two_sources(0), []
    for limit, because in (
        ({"max_iter": 2, "tol": 0.0}, "n_components" if fit is fit_boosted_mixture else "max_iter"),
        ({"max_seconds": 0}, "max_seconds"),
    ):
        options = MixtureOptions(**limit)
        fit(independent(6), X, 3, options=options, rng=0, on_iteration=histories.append)
        assert histories[-1].stopped_because == because
        assert len(histories[-1]) == (1 if "max_seconds" in limit else 3)


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


# Bags


def test_a_bag_has_as_many_draws_as_the_rows_weigh_in_proportion_to_their_weights():
    rows = pack_columns(np.eye(4, dtype=np.uint8), [1.0, 2.0, 0.5, 6.6])
    bags = draw_bags(rows, 4000, np.random.default_rng(0))
    assert bags.shape == (4000, 4)
    assert np.all(bags.sum(axis=1) == 10.0)
    assert np.all(bags == np.round(bags))
    expected = 10.0 * np.array([1.0, 2.0, 0.5, 6.6]) / 10.1
    assert bags.mean(axis=0) == pytest.approx(expected, abs=0.15)  # six standard errors
    share = expected / 10.0
    assert bags.var(axis=0) == pytest.approx(10.0 * share * (1.0 - share), rel=0.15)


def test_one_component_per_bag_is_the_single_circuit_of_the_bag():
    X, circuit = two_sources(0)[:, :4], as_bits(figure_1_circuit())
    mixture = fit_mixture(circuit, X, 1, n_bags=4, rng=0)
    data = MixtureData.of(circuit, pack_columns(X), None, MixtureOptions())
    bags = draw_bags(data.rows, 4, np.random.default_rng(0))
    assert mixture.weights == pytest.approx([0.25] * 4)
    for b, bag in enumerate(bags):
        single = closed_form(circuit, data.rows.unpack(), sample_weight=bag)
        np.testing.assert_allclose(np.exp(mixture.edge_log_theta[:, b]), single.theta, atol=1e-12)


def test_the_density_is_the_mean_of_the_bags_densities():
    X, circuit = two_sources(0)[:, :4], as_bits(figure_1_circuit())
    options = MixtureOptions(n_components=2, n_runs=3, max_iter=5)
    mixture = fit_mixture(circuit, X, 2, n_bags=3, options=options, rng=0)
    rng = np.random.default_rng(0)
    data = MixtureData.of(circuit, pack_columns(X), None, options)
    runs = train_runs(data, options, rng, row_weight=draw_bags(data.rows, 3, rng))
    every = oracle.all_rows(4)
    parts = np.array(
        [np.exp(log_density(run, every)) for run in runs.mixtures(data.prior(options))]
    )
    assert np.ptp(parts, axis=0).max() > 1e-3
    np.testing.assert_allclose(np.exp(log_density(mixture, every)), parts.mean(axis=0), rtol=1e-9)


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


# Boosting


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


@given(bit_circuits(max_vars=5), seeds, st.sampled_from([0.0, 1.0]), st.booleans())
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


def test_a_new_component_is_fitted_to_its_responsibilities(monkeypatch):
    monkeypatch.setattr(boosting, "MOST_STEPS", 500)
    X = two_sources(0)
    options = MixtureOptions(pseudocount=0.0, tol=0.0)
    mixture = fit_boosted_mixture(independent(6), X, 2, options=options, rng=0)
    p = np.array([oracle.probabilities(c, X) for c in components_of(mixture)])
    joint = mixture.weights[:, np.newaxis] * p
    share = joint[1] / joint.sum(axis=0)
    assert 0.1 < share.mean() < 0.9
    expected = closed_form(independent(6), X, sample_weight=share, pseudocount=0)
    np.testing.assert_allclose(np.exp(mixture.edge_log_theta[:, 1]), expected.theta, atol=1e-3)
    assert mixture.weights[1] == pytest.approx(share.mean(), abs=1e-3)


def test_boosting_ends_where_nothing_is_left_to_gain():
    histories = []
    fit_boosted_mixture(independent(1), [[0], [1]], 9, rng=0, on_iteration=histories.append)
    assert histories[-1].stopped_because == "nothing left to gain"


# Edges


def only_ones_first():
    """Two variables, the first of them always 1."""
    builder = CircuitBuilder(balanced_vtree(2))
    return bits_of(
        builder, builder.add_sum([(builder.literal(0, 1), builder.add_leaf_sum(1, 0.5), 1.0)])
    )


def test_impossible_rows_are_refused_by_their_number():
    X = [[1, 0], [1, 0], [1, 1], [1, 1], [0, 1]]
    with pytest.raises(ValueError, match="Row 4 of X is impossible"):
        fit_mixture(only_ones_first(), X, 2)
    with pytest.raises(ValueError, match="Row 4 of X_valid is impossible"):
        fit_mixture(only_ones_first(), X[:4], 2, X_valid=X)
    mixture = fit_mixture(only_ones_first(), X, 2, sample_weight=[1, 1, 1, 1, 0])
    assert np.exp(log_density(mixture, [[0, 1], [1, 1], [1, 0]]))[0] == 0.0


@fits
def test_one_variable_a_known_one_and_one_row(fit):
    builder = CircuitBuilder(balanced_vtree(1))
    free = bits_of(builder, builder.add_leaf_sum(0, 0.5))
    mixture = fit(free, [[1], [0], [1]], 2, rng=0)
    assert np.exp(log_density(mixture, [[0], [1]])).sum() == pytest.approx(1.0)
    known = CircuitBuilder(balanced_vtree(1))
    circuit = bits_of(known, known.literal(0, 1))
    assert len(fit(circuit, [[1], [1]], 2, X_valid=[[1]], rng=0).edge_log_theta) == 1
    with pytest.raises(ValueError, match="Row 1 of X is impossible"):
        fit(circuit, [[1], [0]], 2)
    mixture = fit(as_bits(figure_1_circuit()), [[1, 0, 1, 0]], 5, rng=0)
    assert np.exp(log_density(mixture, oracle.all_rows(4))).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("start", ["kmeans", "k-means++", "random"])
@pytest.mark.parametrize("pseudocount", [0.0, 1e-300, 1.0])
def test_few_rows_and_constant_columns(start, pseudocount):
    X = np.array([[1, 0, 0, 1, 0, 1], [1, 0, 1, 1, 0, 1]], dtype=np.uint8)
    options = MixtureOptions(init_params=start, pseudocount=pseudocount)
    mixture = fit_mixture(independent(6), X, 5, options=options, rng=0)
    assert np.exp(log_density(mixture, oracle.all_rows(6))).sum() == pytest.approx(1.0)
    if pseudocount < 1.0:
        assert np.exp(log_density(mixture, X)).sum() == pytest.approx(1.0)


@fits
def test_validation_rows_never_seen_are_minus_infinity_without_smoothing(fit):
    X = two_sources(0, 30)
    X[:, 0] = 1
    unseen = X[:3].copy()
    unseen[:, 0] = 0
    histories = []
    mixture = fit(
        independent(6),
        X,
        3,
        X_valid=np.concatenate([X, unseen]),
        options=MixtureOptions(pseudocount=0.0, n_runs=2, n_init=2, patience=3),
        rng=0,
        on_iteration=histories.append,
    )
    assert np.all(histories[-1].valid == -np.inf)
    assert np.all(np.isfinite(histories[-1].train))
    assert np.all(log_density(mixture, unseen) == -np.inf)
