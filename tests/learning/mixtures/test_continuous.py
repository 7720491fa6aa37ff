"""Continuous mixtures: a network ties the components, and what comes out is an ordinary mixture."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import oracle
from column_circuits import as_bits, components_of, mixture_of
from makers import rows_of_kinds
from strudel import Continuous, Strudel, log_likelihood
from strudel.data import pack_columns
from strudel.errors import AlikeComponentsWarning, InterruptedWarning
from strudel.learning import MixtureOptions
from strudel.learning.bits.fold import folded
from strudel.learning.mixtures.em import fit_mixture
from strudel.learning.options import SearchOptions
from strudel.learning.parameters import closed_form
from strudel.learning.search.learn_structure import first_circuit

torch = pytest.importorskip("torch")

from strudel.learning.mixtures import networks
from strudel.learning.mixtures.networks import (
    ALIKE,
    FreeEdges,
    Network,
    Points,
    _epoch,
    fit_continuous_mixture,
    judge,
)

SMALL = Continuous(
    max_iter=80, batch_size=64, n_points=32, latent_dim=2, width=16, depth=2, learning_rate=1e-2
)
LONGER = Continuous(**SMALL.get_params() | {"max_iter": 400})


def structure(X, init=None):
    return first_circuit(pack_columns(X), SearchOptions(init=init))


def estimator(**options):
    return Strudel(
        **{"n_components": 64, "max_splits": 0, "method": SMALL, "random_state": 0} | options
    )


def plain_log_likelihoods(mixture, rows):
    parts = [oracle.probabilities(c, rows) for c in components_of(mixture)]
    return np.log(mixture.weights @ np.array(parts))


# What comes out


def test_likelihoods_are_those_of_a_plain_recursion():
    X = rows_of_kinds()
    model = estimator(n_components=20, max_splits=3).fit(X)
    rows = X[:20]
    expected = plain_log_likelihoods(mixture_of(model.circuit_), rows)
    np.testing.assert_allclose(model.score_samples(rows), expected, rtol=1e-10)
    every = plain_log_likelihoods(mixture_of(model.circuit_), oracle.all_rows(6))
    assert np.exp(every).sum() == pytest.approx(1.0, abs=1e-12)
    assert abs(np.exp(model.circuit_.log_weight).sum() - 1.0) < 1e-12


@pytest.mark.compiled
def test_it_is_better_than_the_single_circuit():
    X, V = rows_of_kinds(n_rows=600), rows_of_kinds(1, 400)
    model = estimator(method=LONGER, init="independent").fit(X, X_valid=V)
    single = Strudel(n_components=1, max_splits=0, init="independent").fit(X, X_valid=V)
    assert model.score(V) > single.score(V) + 0.3
    assert model.log_likelihoods_.valid == pytest.approx(model.chosen_["valid"])
    assert model.history_.stopped_because in ("max_iter", "patience")


@pytest.mark.compiled
def test_validation_chooses_the_number_of_points_and_few_are_enough():
    X, V = rows_of_kinds(), rows_of_kinds(1)
    mixture = fit_continuous_mixture(
        structure(X, "independent"), X, (8, 64, 512), method=LONGER, X_valid=V, rng=0
    )
    assert 8 < mixture.n_components < 512


@pytest.mark.compiled
def test_points_that_move_make_validation_rows_more_likely(monkeypatch):
    X, V = rows_of_kinds(n_rows=600), rows_of_kinds(1, 400)
    fit = {"method": SMALL, "X_valid": V, "rng": 0}
    circuit = structure(X, "independent")
    monkeypatch.setattr(networks, "MOVING_RATE", 0.1)
    moved = fit_continuous_mixture(circuit, X, 4, **fit)
    monkeypatch.setattr(networks, "move", lambda rows, start, *_: start)
    still = fit_continuous_mixture(circuit, X, 4, **fit)
    assert log_likelihood(folded(moved), V).mean() > log_likelihood(folded(still), V).mean() + 1e-3


def test_an_interrupt_while_points_move_leaves_them_where_they_are(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(networks, "move", interrupted)
    model = estimator()
    with pytest.warns(InterruptedWarning):
        model.fit(rows_of_kinds())
    assert model.circuit_.n_components == 64
    assert np.ptp(model.circuit_.log_weight) > 0.0


@pytest.mark.compiled
def test_runs_make_one_mixture():
    X = rows_of_kinds()
    method = Continuous(**SMALL.get_params() | {"n_runs": 2})
    model = estimator(method=method, validation_fraction=None).fit(X)
    assert model.circuit_.n_components == 128
    assert len(np.unique(model.circuit_.leaf_log_p, axis=1).T) == 128


# The same seed, the same model


@pytest.mark.compiled
def test_a_seed_repeats_and_another_one_does_not():
    X, V = rows_of_kinds(), rows_of_kinds(1)
    fit = {"method": SMALL, "X_valid": V}
    one, again, other = (
        fit_continuous_mixture(structure(X), X, 32, rng=seed, **fit) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one.edge_log_theta, again.edge_log_theta)
    np.testing.assert_array_equal(one.log_weight, again.log_weight)
    assert not np.array_equal(one.edge_log_theta[:, 0], other.edge_log_theta[:, 0])


def test_random_numbers_of_others_do_not_matter_and_stay_as_they_were():
    X = rows_of_kinds()
    torch.manual_seed(1)
    one = fit_continuous_mixture(structure(X), X, 32, method=SMALL, rng=0)
    torch.manual_seed(2)
    before = torch.get_rng_state()
    again = fit_continuous_mixture(structure(X), X, 32, method=SMALL, rng=0)
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(one.edge_log_theta, again.edge_log_theta)


# Any rows, any structure


@pytest.mark.compiled
def test_a_weight_counts_like_repeated_rows():
    X, V = rows_of_kinds(n_rows=60), rows_of_kinds(1)
    times = np.random.default_rng(0).integers(0, 4, size=len(X))
    fit = {"method": SMALL, "X_valid": V, "rng": 0}
    circuit = structure(X)
    one = fit_continuous_mixture(circuit, X, 32, sample_weight=times, **fit)
    other = fit_continuous_mixture(circuit, np.repeat(X, times, axis=0), 32, **fit)
    np.testing.assert_allclose(
        log_likelihood(folded(one), V), log_likelihood(folded(other), V), atol=1e-3
    )


@pytest.mark.parametrize("factor", [1.0, 0.013, 1e5])
def test_rows_come_as_often_as_they_weigh(factor):
    weight = torch.tensor([1.0, 0.0, 3.0, 2.0], dtype=torch.float64) * factor
    rows = _epoch(weight, 600, torch.Generator().manual_seed(0))
    share = torch.bincount(rows, minlength=4) / len(rows)
    np.testing.assert_allclose(share, weight / weight.sum(), atol=1 / len(rows))


def test_a_structure_without_any_choice():
    X = np.ones((40, 2), dtype=np.uint8)
    model = estimator(constraint="x0 & x1").fit(X)
    assert model.circuit_.n_components == 1
    assert model.score(X) == pytest.approx(0.0)


@pytest.mark.compiled
def test_rows_with_unknown_values():
    X = rows_of_kinds().astype(float)
    X[::3, 2] = np.nan
    model = estimator(n_components=16).fit(X)
    assert np.isfinite(model.score(X))
    assert np.exp(model.score_samples(oracle.all_rows(6))).sum() == pytest.approx(1.0)


# What is chosen


@pytest.mark.compiled
def test_the_number_of_splits_is_chosen_by_short_runs():
    X, V = rows_of_kinds(n_rows=600), rows_of_kinds(1, 400)
    model = estimator(n_components="auto", max_splits=None, max_components=256)
    model.fit(X, X_valid=V)
    tried = [trial.n_splits for trial in model.trials_]
    assert tried[0] == 0
    assert len(tried) > 1
    assert model.chosen_["n_splits"] in tried
    assert model.circuit_.n_components <= 256


@pytest.mark.parametrize("options", [{"pseudocount": 1.0}, {"smoothing": "single"}])
def test_smoothing_is_refused(options):
    with pytest.raises(ValueError, match="leave it out for the method continuous"):
        estimator(**options).fit(rows_of_kinds())


def test_torch_is_needed(monkeypatch):
    from strudel.errors import MissingDependencyError

    monkeypatch.setattr("strudel._torch.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match="The method continuous needs PyTorch: pip"):
        estimator().fit(rows_of_kinds())


# What ends a fit


def interrupt_at(step):
    def callback(progress):
        if progress.stage == "training" and progress.step == step:
            raise KeyboardInterrupt

    return callback


def test_an_interrupt_keeps_the_best_so_far():
    model = estimator()
    with pytest.warns(InterruptedWarning):
        model.fit(rows_of_kinds(), callback=interrupt_at(4))
    assert len(model.history_) == 5
    assert model.circuit_.n_components == 64


@pytest.mark.compiled
def test_an_interrupt_in_a_second_run_keeps_the_first():
    X = rows_of_kinds()
    seen = []

    def callback(progress):
        seen.append(progress.step)
        if seen.count(3) == 2:
            raise KeyboardInterrupt

    method = Continuous(**SMALL.get_params() | {"n_runs": 2})
    model = estimator(method=method)
    with pytest.warns(InterruptedWarning):
        model.fit(X, callback=callback)
    assert model.circuit_.n_components == 64


def test_a_time_limit_ends_a_fit():
    model = estimator(max_seconds=1e-3, max_splits=None).fit(rows_of_kinds())
    assert model.history_.stopped_because == "max_seconds"


# Points that are alike


def test_points_that_are_alike_are_detected_and_start_again(monkeypatch):
    X = rows_of_kinds(n_rows=600)
    monkeypatch.setattr(networks, "STARTS", (0.0, 8.0))
    starts = []

    class Counted(networks.Training):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            starts.append(self)
            if len(starts) == 1:  # as if it had never learned to tell points apart
                self._network.tensors[0].requires_grad_(False).zero_()

    monkeypatch.setattr(networks, "Training", Counted)
    mixture = fit_continuous_mixture(
        structure(X, "independent"), X, 64, method=LONGER, X_valid=rows_of_kinds(1), rng=0
    )
    assert len(starts) == 2
    assert starts[0].is_alike
    assert not starts[1].is_alike
    assert len(starts[0].history) < len(starts[1].history)  # it gave up early
    assert mixture.n_components > 1


@pytest.mark.compiled
def test_points_that_stay_alike_are_the_single_circuit_and_a_warning(monkeypatch):
    X, V = rows_of_kinds(), rows_of_kinds(1)
    monkeypatch.setattr(networks, "ALIKE", 10.0)
    model = estimator(max_splits=2)
    with pytest.warns(AlikeComponentsWarning, match="hardly more than the single circuit"):
        model.fit(X, X_valid=V)
    assert model.circuit_.n_components == 1
    single = closed_form(as_bits(model.circuit_), pack_columns(X), pseudocount=1.0)
    np.testing.assert_allclose(model.score_samples(V), log_likelihood(folded(single), V))


@pytest.mark.compiled
def test_short_runs_that_choose_a_structure_do_not_warn(monkeypatch):
    def warn_if_short(*arguments, method, **others):
        if method.max_iter < SMALL.max_iter:
            warnings.warn("alike", AlikeComponentsWarning, stacklevel=1)
        return fit_continuous_mixture(*arguments, method=method, **others)

    monkeypatch.setattr(networks, "fit_continuous_mixture", warn_if_short)
    X, V = rows_of_kinds(n_rows=600), rows_of_kinds(1, 400)
    model = estimator(n_components=16, max_splits=None).fit(X, X_valid=V)
    assert len(model.trials_) > 1


def test_what_a_row_tells_of_its_point_is_their_mutual_information():
    X = rows_of_kinds(n_rows=50)
    circuit = structure(X)
    data = networks.MixtureData.of(circuit, pack_columns(X), None, MixtureOptions(pseudocount=0.0))
    edges = FreeEdges.of(circuit)
    rows = networks.RowEdges.of(edges, data.choices, data.train, torch.device("cpu"))
    network = Network.start(data.single, edges, SMALL, 8.0, torch.Generator().manual_seed(0))
    log_theta = network.copy().log_theta(Points(2, 5, 0, "cpu").first(5))
    log_p, information = judge(log_theta, rows)
    parameters = edges.of_all_edges(log_theta.double().numpy())
    distinct, weight = data.rows.unpack(), data.rows.weights / data.rows.total_weight
    by_point = np.array(
        [oracle.probabilities(circuit.with_parameters(column), distinct) for column in parameters.T]
    )
    mean = by_point.mean(axis=0)
    share = by_point / (5 * mean)
    assert log_p == pytest.approx(weight @ np.log(mean), rel=1e-5)
    assert information == pytest.approx(weight @ (share * np.log(5 * share)).sum(axis=0), rel=1e-4)
    assert information > ALIKE


# Parts


def test_a_network_can_begin_with_the_likeness_of_a_mixture():
    X = rows_of_kinds(n_rows=600)
    circuit = structure(X, "independent")
    mixture = fit_mixture(circuit, X, 4, rng=0)
    edges, generator = FreeEdges.of(circuit), torch.Generator().manual_seed(0)
    points = Points(4, 2048, 0, "cpu").first(2048)
    network = Network.start(mixture.component(0), edges, Continuous(latent_dim=4), 1.0, generator)
    network.imitate(mixture, points, generator)
    log_theta = edges.of_all_edges(network.copy().log_theta(points).double().numpy())
    # Every component has points that are nearer to it than to any other component.
    distance = ((log_theta[:, :, np.newaxis] - mixture.edge_log_theta[:, np.newaxis]) ** 2).sum(0)
    assert set(distance.argmin(axis=1)) == {0, 1, 2, 3}
