"""Automatic mixtures: EM, bagged EM and networks, weighed on validation rows."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import oracle
from column_circuits import components_of, mixture_of
from makers import check_interrupted, rows_of_kinds
from strudel import Continuous, Strudel
from strudel.errors import InterruptedWarning
from strudel.learning import learn_mixture as module
from strudel.learning.mixtures import choose

pytestmark = pytest.mark.compiled
SMALL = Continuous(
    max_iter=60, batch_size=64, n_points=32, latent_dim=2, width=16, depth=2, learning_rate=1e-2
)


def estimator(**options):
    return Strudel(**{"max_splits": 2, "random_state": 0} | options)


def arrays(model):
    return model.circuit_.edge_log_theta, model.circuit_.log_weight


def test_it_is_em_for_a_given_number_of_components():
    X = rows_of_kinds()
    automatic = Strudel(n_components=3, max_splits=2, random_state=0).fit(X)
    by_em = Strudel(n_components=3, max_splits=2, method="em", random_state=0).fit(X)
    np.testing.assert_array_equal(*(arrays(model)[0] for model in (automatic, by_em)))


@pytest.mark.parametrize("preset", ["fast", "accurate"])
def test_a_small_table_does_not_load_torch(preset):
    code = (
        "import sys, numpy as np; from strudel import Strudel; "
        "X = np.random.default_rng(0).integers(0, 2, (80, 4)); "
        f"Strudel(preset='{preset}', max_splits=0, random_state=0).fit(X); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Kinds


def patients(seed=0, n_rows=240):
    """A table whose columns depend on one another through the kind of a patient."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(3, size=n_rows)
    return pd.DataFrame(
        {
            "age": np.round(40.0 + 10.0 * kind + 6.0 * rng.normal(size=n_rows)),
            "smoker": np.where(rng.random(n_rows) < 0.2 + 0.3 * kind, "yes", "no"),
            "ward": np.array(["north", "south", "west"])[(kind + (rng.random(n_rows) < 0.2)) % 3],
        }
    )


@pytest.mark.parametrize("options", [{"init": "independent"}, {"constraint": "x0 | ~x0"}])
def test_where_there_is_nothing_to_average_em_is_alone(options):
    X, options = rows_of_kinds(), options | {"preset": "accurate"}  # whose bounds are those of EM
    automatic, by_em = (
        estimator(method=method, **options).fit(X).circuit_ for method in ("auto", "em")
    )
    np.testing.assert_array_equal(automatic.edge_log_theta, by_em.edge_log_theta)


# Networks


@pytest.fixture
def networks(monkeypatch):
    """Small networks, also of small tables."""
    pytest.importorskip("torch")
    monkeypatch.setattr(module, "MANY_CELLS", 0)
    monkeypatch.setattr(module, "FEWEST_STEPS", 1)
    monkeypatch.setattr(module, "FEWEST_POINTS", 1)
    monkeypatch.setattr(choose, "SURE", -1.0)  # of so few rows, nothing is surely better
    monkeypatch.setattr(choose, "NO_SHARE", 0.0)

    def several(n):
        for name in ("ON_CPU", "ON_GPU"):
            monkeypatch.setattr(module, name, module.NetworkEffort(1e18, n, (SMALL,)))

    several(1)
    return several


def with_networks(**options):
    given = {"preset": "accurate", "max_splits": 2, "max_components": 100}
    return Strudel(**given | {"random_state": 0, "n_jobs": 1} | options)


def rows_of_a_trait(seed=0, n_rows=500, n_vars=8):
    """Rows that depend on one number of each, which a network finds, and on their neighbours."""
    rng = np.random.default_rng(seed)
    trait = rng.uniform(-3.0, 3.0, (n_rows, 1))
    X = (rng.random((n_rows, n_vars)) < 1.0 / (1.0 + np.exp(-trait))).astype(np.uint8)
    X[:, 1] = X[:, 0] ^ (rng.random(n_rows) < 0.1)
    return X


@pytest.mark.parametrize("has_short_runs", [False, True])
def test_networks_on_several_prefixes_make_one_mixture(networks, has_short_runs, monkeypatch):
    networks(3)
    monkeypatch.setattr(module, "_is_on_gpu", lambda task: has_short_runs)
    X, V = rows_of_a_trait(), rows_of_a_trait(1)
    model = with_networks().fit(X, X_valid=V)
    mixture, chosen = mixture_of(model.circuit_), model.chosen_
    assert mixture.n_components == chosen["n_components"] <= 100
    assert {"continuous"} < set(chosen["shares"]) <= {"em", "bagged_em", "continuous"}
    assert sum(chosen["shares"].values()) == pytest.approx(1.0)
    share = f"with {100 * chosen['shares']['continuous']:.0f} % of the weight"
    assert share in chosen["explanation"]
    assert "network components on independent columns and 0 splits" in chosen["explanation"]
    assert chosen["n_splits"] == 0
    assert {trial.method for trial in model.trials_} == {"em", "bagged_em", "continuous"}
    assert sum(t.method == "continuous" for t in model.trials_) == (5 if has_short_runs else 3)
    parts = [oracle.probabilities(c) for c in components_of(mixture)]
    assert (mixture.weights @ np.array(parts)).sum() == pytest.approx(1.0, abs=1e-12)
    assert chosen["valid"] == pytest.approx(model.score(V))


def test_rows_with_unknown_values(networks):
    X, V = rows_of_kinds().astype(float), rows_of_kinds(1)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    model = with_networks().fit(X, X_valid=V)
    assert model.chosen_["valid"] == pytest.approx(model.score(V))


@pytest.mark.parametrize("words", ["round 1", "independent columns, ", "network 1"])
def test_an_interrupt_of_networks_keeps_the_best_so_far(words, networks, monkeypatch):
    monkeypatch.setattr(module, "_is_on_gpu", lambda task: True)  # which has short runs
    X, V = rows_of_kinds(n_rows=500), rows_of_kinds(1)
    check_interrupted(with_networks(), X, V, words, n_times=2)


def test_an_interrupt_after_the_networks_leaves_em(networks, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "weighted_average", interrupt)
    X, V = rows_of_kinds(n_rows=500), rows_of_kinds(1)
    with pytest.warns(InterruptedWarning):
        model = with_networks().fit(X, X_valid=V)
    assert "the fit was interrupted" in model.chosen_["explanation"]
    assert model.chosen_["valid"] == pytest.approx(model.score(V))


@pytest.mark.parametrize("most", [1, 3])
def test_few_components_stay_few_with_networks(most, networks):
    networks(3)
    model = with_networks(max_components=most).fit(rows_of_kinds())
    assert model.circuit_.n_components <= most
