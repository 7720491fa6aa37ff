"""Automatic mixtures: three kinds by EM, or EM, bagged EM and networks, weighed on validation."""

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
from strudel.tables import TableEncoder

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


@pytest.mark.parametrize("is_here", [True, False])
def test_a_small_table_and_one_without_torch_have_no_networks(is_here, monkeypatch):
    if not is_here:
        monkeypatch.setattr("strudel._torch.find_spec", lambda name: None)
        monkeypatch.setattr(module, "MANY_CELLS", 0)
    monkeypatch.setattr(choose, "SURE", -np.inf)
    X, options = rows_of_kinds(), {"preset": "accurate", "max_splits": 1, "random_state": 0}
    automatic = Strudel(**options, max_components=50).fit(X)
    by_em = Strudel(method="em", **options, max_components=25).fit(X)
    log_theta, expected = (arrays(model)[0] for model in (automatic, by_em))
    np.testing.assert_array_equal(log_theta[:, : expected.shape[1]], expected)
    assert set(automatic.chosen_["shares"]) == {"em", "independent", "tilted"}


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


@pytest.fixture(scope="module")
def fitted():
    X, V = rows_of_kinds(), rows_of_kinds(1)
    return estimator().fit(X, X_valid=V), X, V


@pytest.fixture(scope="module")
def all_kinds(fitted):
    """A mixture in which all three kinds take part, and where each of them begins."""
    _, X, V = fitted
    original, sizes = module.weighted_average, []

    def keep(groups, shares):
        sizes.extend(group.mixture.n_components for group in groups)
        return original(groups, shares)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choose, "SURE", -np.inf)
        patch.setattr(choose, "NO_SHARE", 0.0)
        patch.setattr(module, "weighted_average", keep)
        model = estimator().fit(X, X_valid=V)
    assert list(model.chosen_["shares"]) == ["em", "independent", "tilted"]
    return model, X, V, np.append(0, np.cumsum(sizes))


def test_the_average_is_one_distribution(fitted):
    model, _, V = fitted
    mixture, chosen = mixture_of(model.circuit_), model.chosen_
    assert set(chosen["shares"]) <= {"em", "independent", "tilted"}
    assert len(chosen["shares"]) > 1
    assert sum(chosen["shares"].values()) == pytest.approx(1.0)
    parts = np.array([oracle.probabilities(one) for one in components_of(mixture)])
    assert (mixture.weights @ parts).sum() == pytest.approx(1.0, abs=1e-12)
    assert chosen["valid"] == pytest.approx(model.score(V))


def test_the_first_kind_is_what_em_learns_alone(all_kinds):
    model, X, V, first = all_kinds
    room = len(np.unique(X, axis=0)) * 3 // 2  # half of what so many rows may have
    alone = estimator(method="em", max_components=room).fit(X, X_valid=V).circuit_
    own = slice(first[0], first[1])
    np.testing.assert_array_equal(model.circuit_.edge_log_theta[:, own], alone.edge_log_theta)
    share = np.exp(model.circuit_.log_weight[own]).sum()
    assert share == pytest.approx(model.chosen_["shares"]["em"])


def test_variables_of_the_second_kind_are_independent(all_kinds):
    model, _, _, first = all_kinds
    mixture = mixture_of(model.circuit_)
    for c in range(first[1], first[2]):
        component = mixture.component(c)
        rows = np.array(oracle.all_rows(component.n_vars))
        p = np.array(oracle.probabilities(component, rows))
        ones = p @ rows  # the chance of 1, by enumeration
        product = np.prod(np.where(rows == 1, ones, 1.0 - ones), axis=1)
        np.testing.assert_allclose(p, product, atol=1e-12)


def test_the_third_kind_differs_from_one_circuit_variable_by_variable(all_kinds):
    model, _, _, first = all_kinds
    mixture = mixture_of(model.circuit_)
    components = [mixture.component(c) for c in range(first[2], first[3])]
    rows = np.array(oracle.all_rows(components[0].n_vars))
    design = np.hstack([np.ones((len(rows), 1)), rows])
    logs = [np.log(oracle.probabilities(one, rows)) for one in components]
    for log_p in logs[1:]:
        apart = log_p - logs[0]
        found, *_ = np.linalg.lstsq(design, apart, rcond=None)
        np.testing.assert_allclose(design @ found, apart, atol=1e-9)


def test_rows_with_gaps_leave_the_third_kind_tilted(monkeypatch):
    """EM on what is known would give its components parameters of their own."""
    original, refitted = module.refit_mixture, []

    def refit(mixture, rows, options, *rest):
        refitted.append(options.is_tilted)
        return original(mixture, rows, options, *rest)

    monkeypatch.setattr(module, "refit_mixture", refit)
    X = rows_of_kinds().astype(float)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    assert "tilted" in estimator().fit(X).chosen_["shares"]
    assert refitted
    assert not any(refitted)


def test_a_kind_that_hardly_helps_is_left_out(rng):
    weight, own = np.ones(1000), rng.normal(-5.0, 1.0, 1000)
    names = ["em", "tilted"]

    def kinds(others, those=names, virtual_rows=0.0, weight=weight):
        logs = zip(names, (others, own), strict=True)
        groups = [choose.Group(kind, 0, None, log_p) for kind, log_p in logs]
        return {group.kind for group in choose.that_count(groups, weight, those, virtual_rows)}

    assert len(kinds(own + rng.normal(0.0, 1e-3, 1000))) == 1
    assert kinds(own - 2.0) == {"tilted"}
    assert kinds(own + 2.0) == {"em"}
    assert kinds(own + np.where(np.arange(1000) % 2, 2.0, -2.0)) == set(names)
    # Where only EM may be left out, it stays if it is surely better.
    assert kinds(own, ["em"], 10.0) == {"tilted"}
    better = own + np.linspace(0.5, 1.0, 1000)
    assert kinds(better, ["em"], 10.0) == kinds(better, ["em"], 10.0, 1e200 * weight) == set(names)


def test_the_first_kind_takes_part_only_where_it_is_surely_better(fitted, monkeypatch):
    _, X, V = fitted
    monkeypatch.setattr(choose, "SURE", np.inf)
    assert "em" not in estimator().fit(X, X_valid=V).chosen_["shares"]


def test_it_says_what_it_is_made_of(fitted):
    model, _, _ = fitted
    share = model.chosen_["shares"]["independent"]
    assert f"on independent columns with {100 * share:.0f} %" in model.chosen_["explanation"]
    assert {trial.n_splits for trial in model.trials_} >= {-1, 0}


@pytest.mark.parametrize("has_gaps", [False, True])
def test_an_encoded_table_is_answered_by_several_kinds(has_gaps):
    X, V = patients(), patients(1, 80)
    if has_gaps:
        X = X.mask(np.random.default_rng(0).random(X.shape) < 0.1)
        V = V.mask(np.random.default_rng(1).random(V.shape) < 0.1)
    model = estimator(columns=TableEncoder()).fit(X, X_valid=V)
    assert {"independent", "tilted"} <= set(model.chosen_["shares"])
    wards = [
        np.exp(model.log_conditional({"ward": ward}, given={"age": (56, None)})[0])
        for ward in ("north", "south", "west")
    ]
    assert sum(wards) == pytest.approx(1.0)
    counted = (X.ward[X.age > 55] == "west").mean()
    assert wards[2] == pytest.approx(counted, abs=0.15)


def test_columns_that_determine_each_other_stay_together():
    """A pension is paid to the retired alone: no component may say otherwise."""
    X = patients(n_rows=600)
    retired = X.age > 60
    X["retired"], X["pension"] = np.where(retired, "yes", "no"), np.where(retired, "paid", "none")
    model = estimator(columns=TableEncoder()).fit(X)
    paid = np.exp(model.log_conditional({"pension": "paid"}, given={"retired": "no"})[0])
    assert paid < 0.005


@pytest.mark.parametrize("options", [{"init": "independent"}, {"constraint": "x0 | ~x0"}])
def test_where_there_is_nothing_to_average_em_is_alone(options):
    X, options = rows_of_kinds(), options | {"preset": "accurate"}  # whose bounds are those of EM
    automatic, by_em = (
        estimator(method=method, **options).fit(X).circuit_ for method in ("auto", "em")
    )
    np.testing.assert_array_equal(automatic.edge_log_theta, by_em.edge_log_theta)


@pytest.mark.parametrize("most", [1, 3, 30])
def test_few_components_stay_few(most):
    assert estimator(max_components=most).fit(rows_of_kinds()).circuit_.n_components <= most


@pytest.mark.parametrize("name", ["log_p_of", "shares_of", "weighted_average"])
def test_an_interrupt_of_the_average_keeps_the_first_kind(name, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, name, interrupt)
    with pytest.warns(InterruptedWarning):
        model = estimator().fit(rows_of_kinds())
    assert model.history_.stopped_because == "interrupted"
    assert "shares" not in model.chosen_


@pytest.mark.parametrize("words", ["independent columns", "tilted"])
def test_an_interrupt_keeps_the_kinds_so_far(words):
    check_interrupted(estimator(), rows_of_kinds(), rows_of_kinds(1), words)


@pytest.mark.parametrize("n_calls", [6, 9, 12])
def test_an_interrupt_ends_a_fit_with_gaps(n_calls):
    """In any round of completions: no other kind is learned after it."""
    X = rows_of_kinds(n_rows=120).astype(float)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    seen = []

    def callback(progress):
        seen.append(progress.message)
        if len(seen) == n_calls:
            raise KeyboardInterrupt

    with pytest.warns(InterruptedWarning):
        model = estimator().fit(X, callback=callback)
    assert model.history_.stopped_because == "interrupted"
    assert len(seen) <= n_calls + 1


def test_a_time_limit_ends_a_fit():
    model = estimator(max_seconds=1e-3).fit(rows_of_kinds())
    assert model.history_.stopped_because == "max_seconds"


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
