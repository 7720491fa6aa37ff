"""Bagged EM: bootstrap samples as weights of the same rows, averaged."""

from __future__ import annotations

import numpy as np
import pytest

import oracle
from strudel._numba import use_threads
from strudel.circuits import CircuitBuilder, figure_1_circuit
from strudel.circuits.mixture import average
from strudel.data import pack_columns
from strudel.learning import MixtureOptions
from strudel.learning.mixtures import em as bagging
from strudel.learning.mixtures.em import MixtureData, fit_bagged_mixture, train_runs
from strudel.learning.parameters import fit_parameters
from strudel.trees import balanced_vtree


def rows_of(seed, n_rows=120):
    """Rows over four variables that come in two kinds."""
    rng = np.random.default_rng(seed)
    chance = np.where(rng.random((n_rows, 1)) < 0.5, [0.9, 0.9, 0.2, 0.1], [0.1, 0.3, 0.8, 0.9])
    return (rng.random((n_rows, 4)) < chance).astype(np.uint8)


def density(mixture, rows):
    parts = [oracle.probabilities(c, rows) for c in mixture.components()]
    return mixture.weights @ np.array(parts)


def test_a_bag_has_as_many_draws_as_the_rows_weigh_in_proportion_to_their_weights():
    rows = pack_columns(np.eye(4, dtype=np.uint8), [1.0, 2.0, 0.5, 6.6])
    bags = bagging.draw_bags(rows, 4000, np.random.default_rng(0))
    assert bags.shape == (4000, 4)
    assert np.all(bags.sum(axis=1) == 10.0)
    assert np.all(bags == np.round(bags))
    expected = 10.0 * np.array([1.0, 2.0, 0.5, 6.6]) / 10.1
    assert bags.mean(axis=0) == pytest.approx(expected, abs=0.15)  # six standard errors
    share = expected / 10.0
    assert bags.var(axis=0) == pytest.approx(10.0 * share * (1.0 - share), rel=0.15)


def test_tiny_weights_still_give_one_draw():
    rows = pack_columns(np.eye(2, dtype=np.uint8), [0.1, 0.1])
    assert bagging.draw_bags(rows, 3, np.random.default_rng(0)).sum(axis=1).tolist() == [1, 1, 1]


def test_one_component_per_bag_is_the_single_circuit_of_the_bag():
    X, circuit = rows_of(0), figure_1_circuit()
    mixture = fit_bagged_mixture(circuit, X, 1, n_bags=4, rng=0)
    data = MixtureData.of(circuit, pack_columns(X), None, MixtureOptions())
    bags = bagging.draw_bags(data.rows, 4, np.random.default_rng(0))
    assert mixture.weights == pytest.approx([0.25] * 4)
    for b, bag in enumerate(bags):
        single = fit_parameters(circuit, data.rows.unpack(), sample_weight=bag)
        np.testing.assert_allclose(np.exp(mixture.edge_log_theta[:, b]), single.theta, atol=1e-12)


def test_the_density_is_the_mean_of_the_bags_densities():
    X, circuit = rows_of(0), figure_1_circuit()
    options = MixtureOptions(n_components=2, n_runs=3, max_iter=5)
    mixture = fit_bagged_mixture(circuit, X, 2, n_bags=3, options=options, rng=0)
    rng = np.random.default_rng(0)
    data = MixtureData.of(circuit, pack_columns(X), None, options)
    runs = train_runs(data, options, rng, row_weight=bagging.draw_bags(data.rows, 3, rng))
    every = oracle.all_rows(4)
    parts = np.array([density(run, every) for run in runs.mixtures(data.prior(options))])
    assert np.ptp(parts, axis=0).max() > 1e-3
    np.testing.assert_allclose(density(mixture, every), parts.mean(axis=0), rtol=1e-9)


def test_validation_judges_the_average():
    X, V = rows_of(0, 60), rows_of(1)
    histories = []
    options = MixtureOptions(pseudocount=0.1, tol=0.0, patience=4, init_params="random")
    mixture = fit_bagged_mixture(
        figure_1_circuit(),
        X,
        3,
        n_bags=3,
        X_valid=V,
        options=options,
        rng=0,
        on_iteration=histories.append,
    )
    history = histories[-1]
    assert history.best == np.argmax(history.valid)
    assert np.log(density(mixture, V)).mean() == pytest.approx(history.valid.max(), rel=1e-5)
    train = history.train[history.best]
    assert np.log(density(mixture, X)).mean() == pytest.approx(train, rel=1e-5)


def test_bags_in_batches_are_the_same_bags(monkeypatch):
    X, circuit = rows_of(0), figure_1_circuit()
    # No validation and few steps, so that batches stop together.
    options = MixtureOptions(max_iter=2, init_params="random", max_seconds=1e6)
    together = fit_bagged_mixture(circuit, X, 2, n_bags=5, options=options, rng=0)
    monkeypatch.setattr(bagging, "MOST_BYTES", 1)
    apart = fit_bagged_mixture(circuit, X, 2, n_bags=5, options=options, rng=0)
    np.testing.assert_array_equal(together.edge_log_theta, apart.edge_log_theta)
    np.testing.assert_array_equal(together.log_weight, apart.log_weight)


def test_an_interrupt_returns_the_best_so_far():
    X, V = rows_of(0), rows_of(1)
    histories = []

    def interrupt(history):
        histories.append(history)
        if len(history) == 3:
            raise KeyboardInterrupt

    mixture = fit_bagged_mixture(
        figure_1_circuit(), X, 2, n_bags=3, X_valid=V, rng=0, on_iteration=interrupt
    )
    assert histories[-1].stopped_because == "interrupted"
    best = histories[-1].valid.max()
    assert np.log(density(mixture, V)).mean() == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize(("call", "n_bags"), [(2, 2), (4, 2)])
def test_an_interrupt_of_a_later_batch_keeps_the_bags_before(monkeypatch, call, n_bags):
    monkeypatch.setattr(bagging, "MOST_BYTES", 1)
    calls = []

    def interrupt(history):
        calls.append(history)
        if len(calls) == call:
            raise KeyboardInterrupt

    options = MixtureOptions(max_iter=1)  # two rows of history per batch of one bag
    mixture = fit_bagged_mixture(
        figure_1_circuit(), rows_of(0), 2, n_bags=4, options=options, rng=0, on_iteration=interrupt
    )
    assert mixture.n_components == 2 * (1 if call == 2 else n_bags)


def test_an_interrupt_before_the_first_step_is_passed_on(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(bagging, "train_runs", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fit_bagged_mixture(figure_1_circuit(), rows_of(0), 2, rng=0)


def test_threads_and_seeds():
    X = rows_of(0)
    results = []
    for n_jobs in (1, 2):
        with use_threads(n_jobs):
            results.append(fit_bagged_mixture(figure_1_circuit(), X, 2, n_bags=3, rng=5))
    np.testing.assert_array_equal(results[0].edge_log_theta, results[1].edge_log_theta)
    other = fit_bagged_mixture(figure_1_circuit(), X, 2, n_bags=3, rng=6)
    assert not np.array_equal(results[0].edge_log_theta, other.edge_log_theta)


def test_weights_are_repeated_rows():
    X, weight = rows_of(0, 30), np.random.default_rng(0).integers(0, 4, 30)
    circuit = figure_1_circuit()
    one = fit_bagged_mixture(circuit, X, 2, n_bags=3, sample_weight=weight, rng=0)
    other = fit_bagged_mixture(circuit, np.repeat(X, weight, axis=0), 2, n_bags=3, rng=0)
    np.testing.assert_array_equal(one.edge_log_theta, other.edge_log_theta)


@pytest.mark.parametrize("has_valid", [True, False])
def test_no_smoothing_and_bags_that_miss_rows(has_valid):
    builder = CircuitBuilder(balanced_vtree(1))
    circuit = builder.build(builder.add_leaf_sum(0, 0.5))
    X = [[1]] * 9 + [[0]]
    options = MixtureOptions(pseudocount=0.0, n_init=2)
    mixture = fit_bagged_mixture(
        circuit, X, 2, n_bags=8, X_valid=X if has_valid else None, options=options, rng=0
    )
    of_bags = np.exp(mixture.edge_log_theta)  # X = 1 and X = 0
    assert (of_bags == 0.0).any()  # some bag has only ones
    assert density(mixture, [[0], [1]]).sum() == pytest.approx(1.0)
    assert average([mixture]).n_components == 16
