"""The automatic mixture: EM, bagged EM and networks, weighed on validation."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import oracle
from makers import check_interrupted, rows_of_kinds
from strudel import Continuous, Strudel
from strudel.errors import InterruptedWarning, MissingDependencyError
from strudel.learning import learn_kinds, learn_mixture
from strudel.learning.mixtures import weighted_average
from strudel.learning.options import EM, Auto

pytestmark = pytest.mark.compiled
SMALL = Continuous(
    max_iter=60, batch_size=64, n_points=32, latent_dim=2, width=16, depth=2, learning_rate=1e-2
)


def estimator(**options):
    given = {"n_components": "auto", "max_splits": 3, "method": Auto(continuous=SMALL)}
    given |= {"max_components": 100, "random_state": 0, "n_jobs": 1}
    return Strudel(**given | options)


def rows_of_a_trait(seed=0, n_rows=500, n_vars=8):
    """Rows that depend on one number of each, which a network finds, and on their neighbours."""
    rng = np.random.default_rng(seed)
    trait = rng.uniform(-3.0, 3.0, (n_rows, 1))
    X = (rng.random((n_rows, n_vars)) < 1.0 / (1.0 + np.exp(-trait))).astype(np.uint8)
    X[:, 1] = X[:, 0] ^ (rng.random(n_rows) < 0.1)
    return X


def arrays(model):
    return model.circuit_.edge_log_theta, model.circuit_.log_weight


# What it stands for


def test_it_is_em_for_a_given_number_of_components():
    X = rows_of_kinds()
    automatic = Strudel(n_components=3, max_splits=2, random_state=0).fit(X)
    by_em = Strudel(n_components=3, max_splits=2, method="em", random_state=0).fit(X)
    np.testing.assert_array_equal(*(arrays(model)[0] for model in (automatic, by_em)))


@pytest.mark.parametrize("is_here", [True, False])
def test_a_small_table_and_one_without_torch_have_no_networks(is_here, monkeypatch):
    if not is_here:
        monkeypatch.setattr("strudel._torch.find_spec", lambda name: None)
        monkeypatch.setattr(learn_mixture, "MANY_CELLS", 0)
    monkeypatch.setattr(learn_kinds, "SURE", -np.inf)
    X, options = rows_of_kinds(), {"preset": "accurate", "max_splits": 1, "random_state": 0}
    automatic = Strudel(**options, max_components=50).fit(X)
    by_em = Strudel(method="em", **options, max_components=25).fit(X)
    log_theta, expected = (arrays(model)[0] for model in (automatic, by_em))
    np.testing.assert_array_equal(log_theta[:, : expected.shape[1]], expected)
    assert set(automatic.chosen_["shares"]) == {"em", "independent", "tilted"}


@pytest.mark.compiled
def test_a_small_table_does_not_load_torch():
    code = (
        "import sys, numpy as np; from strudel import Strudel; "
        "X = np.random.default_rng(0).integers(0, 2, (80, 4)); "
        "Strudel(max_splits=0, random_state=0).fit(X); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_options_of_networks_are_never_ignored(monkeypatch):
    pytest.importorskip("torch")
    X = rows_of_kinds()
    with pytest.raises(ValueError, match="needs n_components='auto'"):
        estimator(n_components=3).fit(X)
    with pytest.raises(ValueError, match="continuous must be None or a Continuous"):
        estimator(method=Auto(continuous=EM())).fit(X)
    monkeypatch.setattr("strudel._torch.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match="needs PyTorch"):
        estimator().fit(X)


# What comes out


@pytest.fixture(scope="module")
def fitted():
    pytest.importorskip("torch")
    from strudel.learning import learn_auto

    X, V = rows_of_a_trait(), rows_of_a_trait(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learn_auto, "SURE", -1.0)  # of so few rows, nothing is surely better
        patch.setattr(weighted_average, "NO_SHARE", 0.0)
        yield estimator().fit(X, X_valid=V), X, V


def test_the_parts_add_up_to_one_mixture(fitted):
    model, _, V = fitted
    mixture, chosen = model.circuit_, model.chosen_
    assert mixture.n_components == chosen["n_components"] <= 100
    assert sum(chosen["shares"].values()) == pytest.approx(1.0)
    assert {"continuous"} < set(chosen["shares"]) <= {"em", "bagged_em", "continuous"}
    circuit = mixture.structure
    first = circuit.node_edges[2 * circuit.n_vars : -1]
    total = np.add.reduceat(np.exp(mixture.edge_log_theta), first)
    np.testing.assert_allclose(total, 1.0, rtol=0.0, atol=1e-12)
    assert abs(mixture.weights.sum() - 1.0) < 1e-12
    parts = [oracle.probabilities(c, V[:8]) for c in mixture.components()]
    plain = np.log(mixture.weights @ np.array(parts))
    np.testing.assert_allclose(model.score_samples(V[:8]), plain, rtol=1e-10)


def test_it_says_what_won_in_a_sentence(fitted):
    model, _, V = fitted
    chosen, by_em = model.chosen_, [t for t in model.trials_ if t.method != "continuous"]
    share = f"with {100 * chosen['shares']['continuous']:.0f} % of the weight"
    assert share in chosen["explanation"]
    assert "a network on independent columns" in chosen["explanation"]
    assert f"on a {chosen['n_splits']}-split structure" in chosen["explanation"]
    assert chosen["valid"] == pytest.approx(model.score(V))
    own = [trial.valid for trial in by_em if trial.n_splits == chosen["n_splits"]]
    assert chosen["valid"] >= max(own) - 1e-9  # the weights of both are the best there are


@pytest.mark.parametrize("has_short_runs", [False, True])
def test_networks_on_several_prefixes_make_one_mixture(has_short_runs, monkeypatch):
    pytest.importorskip("torch")
    from strudel.learning import learn_auto

    monkeypatch.setattr(learn_auto, "SURE", -1.0)
    monkeypatch.setattr(weighted_average, "NO_SHARE", 0.0)
    monkeypatch.setattr(learn_auto._Networks, "_is_on_gpu", has_short_runs)
    X, V = rows_of_a_trait(), rows_of_a_trait(1)
    method = Auto(continuous=Continuous(**SMALL.get_params() | {"n_runs": 3}))
    model = estimator(method=method, max_splits=2).fit(X, X_valid=V)
    mixture, chosen = model.circuit_, model.chosen_
    assert "3 networks on independent columns and 0 splits" in chosen["explanation"]
    assert chosen["n_splits"] == 0
    assert sum(t.method == "continuous" for t in model.trials_) == (5 if has_short_runs else 3)
    parts = [oracle.probabilities(c) for c in mixture.components()]
    assert (mixture.weights @ np.array(parts)).sum() == pytest.approx(1.0, abs=1e-12)
    assert chosen["valid"] == pytest.approx(model.score(V))


def test_a_kind_that_hardly_helps_is_left_out(rng, monkeypatch):
    pytest.importorskip("torch")
    from strudel.learning import learn_auto

    monkeypatch.setattr(learn_auto, "SURE", 2.0)
    weight, own = np.ones(1000), rng.normal(-5.0, 1.0, 1000)

    def kinds(others):
        groups = [
            weighted_average.Group("em", 0, None, others),
            weighted_average.Group("continuous", 0, None, own),
        ]
        return {group.kind for group in learn_auto._that_count(groups, weight)}

    assert len(kinds(own + rng.normal(0.0, 1e-3, 1000))) == 1
    assert kinds(own - 2.0) == {"continuous"}
    assert kinds(own + 2.0) == {"em"}
    assert kinds(own + np.where(np.arange(1000) % 2, 2.0, -2.0)) == {"em", "continuous"}


def test_every_kind_takes_part(fitted):
    model, _, _ = fitted
    assert {trial.method for trial in model.trials_} == {"em", "bagged_em", "continuous"}


def test_a_seed_repeats(fitted):
    model, X, V = fitted
    again = estimator().fit(X, X_valid=V)
    for one, other in zip(arrays(model), arrays(again), strict=True):
        np.testing.assert_array_equal(one, other)


def test_rows_with_unknown_values():
    pytest.importorskip("torch")
    X, V = rows_of_kinds().astype(float), rows_of_kinds(1)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    model = estimator().fit(X, X_valid=V)
    assert model.chosen_["valid"] == pytest.approx(model.score(V))


# What ends a fit


@pytest.mark.parametrize("words", ["round 1", "independent columns, ", "network 1"])
def test_an_interrupt_keeps_the_best_so_far(words, monkeypatch):
    pytest.importorskip("torch")
    from strudel.learning import learn_auto

    monkeypatch.setattr(learn_auto._Networks, "_is_on_gpu", True)  # which has short runs
    X, V = rows_of_kinds(n_rows=500), rows_of_kinds(1)
    check_interrupted(estimator(), X, V, words, n_times=2)


def test_an_interrupt_after_the_networks_leaves_em(monkeypatch):
    pytest.importorskip("torch")
    from strudel.learning import learn_auto

    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(learn_auto, "SURE", -1.0)
    monkeypatch.setattr(learn_auto, "weighted_average", interrupt)
    X, V = rows_of_kinds(n_rows=500), rows_of_kinds(1)
    with pytest.warns(InterruptedWarning):
        model = estimator().fit(X, X_valid=V)
    assert "the fit was interrupted" in model.chosen_["explanation"]
    assert model.chosen_["valid"] == pytest.approx(model.score(V))


@pytest.mark.parametrize("most", [1, 3])
def test_few_components_stay_few(most):
    pytest.importorskip("torch")
    method = Auto(continuous=Continuous(**SMALL.get_params() | {"n_runs": 3}))
    model = estimator(max_components=most, method=method).fit(rows_of_kinds())
    assert model.circuit_.n_components <= most


def test_a_time_limit_ends_a_fit():
    pytest.importorskip("torch")
    model = estimator(max_seconds=1e-4).fit(rows_of_kinds())
    assert model.history_.stopped_because == "max_seconds"
