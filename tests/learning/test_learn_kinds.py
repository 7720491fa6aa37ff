"""Three kinds of mixtures by EM, averaged: on a searched structure, independent columns, tilted."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import oracle
from makers import check_interrupted, rows_of_kinds
from strudel import Strudel
from strudel.errors import InterruptedWarning, NothingKnownWarning
from strudel.learning import learn_kinds, mixture_learner
from strudel.learning.mixtures import weighted_average
from strudel.tables import TableEncoder

pytestmark = pytest.mark.compiled


def estimator(**options):
    return Strudel(**{"max_splits": 2, "random_state": 0} | options)


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
    original, sizes = learn_kinds.weighted_average, []

    def keep(groups, shares):
        sizes.extend(group.mixture.n_components for group in groups)
        return original(groups, shares)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learn_kinds, "SURE", -np.inf)
        patch.setattr(weighted_average, "NO_SHARE", 0.0)
        patch.setattr(learn_kinds, "weighted_average", keep)
        model = estimator().fit(X, X_valid=V)
    assert list(model.chosen_["shares"]) == ["em", "independent", "tilted"]
    return model, X, V, np.append(0, np.cumsum(sizes))


def test_the_average_is_one_distribution(fitted):
    model, _, V = fitted
    mixture, chosen = model.circuit_, model.chosen_
    assert set(chosen["shares"]) <= {"em", "independent", "tilted"}
    assert len(chosen["shares"]) > 1
    assert sum(chosen["shares"].values()) == pytest.approx(1.0)
    parts = np.array([oracle.probabilities(one) for one in mixture.components()])
    assert (mixture.weights @ parts).sum() == pytest.approx(1.0, abs=1e-12)
    assert chosen["valid"] == pytest.approx(model.score(V))


def test_the_first_kind_is_what_em_learns_alone(all_kinds):
    model, X, V, first = all_kinds
    room = len(np.unique(X, axis=0)) * 3 // 2  # half of what so many rows may have
    alone = estimator(method="em", max_components=room).fit(X, X_valid=V).circuit_
    own = slice(first[0], first[1])
    np.testing.assert_array_equal(model.circuit_.edge_log_theta[:, own], alone.edge_log_theta)
    share = model.circuit_.weights[own].sum()
    assert share == pytest.approx(model.chosen_["shares"]["em"])


def test_variables_of_the_second_kind_are_independent(all_kinds):
    model, _, _, first = all_kinds
    mixture = model.circuit_
    for c in range(first[1], first[2]):
        component = mixture.component(c)
        rows = np.array(oracle.all_rows(component.n_vars))
        p = np.array(oracle.probabilities(component, rows))
        ones = p @ rows  # the chance of 1, by enumeration
        product = np.prod(np.where(rows == 1, ones, 1.0 - ones), axis=1)
        np.testing.assert_allclose(p, product, atol=1e-12)


def test_the_third_kind_differs_from_one_circuit_variable_by_variable(all_kinds):
    model, _, _, first = all_kinds
    components = [model.circuit_.component(c) for c in range(first[2], first[3])]
    rows = np.array(oracle.all_rows(components[0].n_vars))
    design = np.hstack([np.ones((len(rows), 1)), rows])
    logs = [np.log(oracle.probabilities(one, rows)) for one in components]
    for log_p in logs[1:]:
        apart = log_p - logs[0]
        found, *_ = np.linalg.lstsq(design, apart, rcond=None)
        np.testing.assert_allclose(design @ found, apart, atol=1e-9)


def test_rows_with_gaps_leave_the_third_kind_tilted(monkeypatch):
    """EM on what is known would give its components parameters of their own."""
    original, refitted = mixture_learner.refit_mixture, []

    def refit(mixture, rows, options, *rest):
        refitted.append(options.is_tilted)
        return original(mixture, rows, options, *rest)

    monkeypatch.setattr(mixture_learner, "refit_mixture", refit)
    X = rows_of_kinds().astype(float)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    assert "tilted" in estimator().fit(X).chosen_["shares"]
    assert refitted
    assert not any(refitted)


def test_all_kinds_have_room(all_kinds):
    """Half of the components are for the first kind, at most, and the others share the rest."""
    _, X, _, first = all_kinds
    most = 3 * len(np.unique(X, axis=0))
    by_em, independent, tilted = np.diff(first)
    assert by_em <= most - most // 2
    assert 1 <= independent <= (most - by_em) // 2
    assert 1 <= tilted <= most - by_em - independent


def test_without_tilted_components_the_first_kind_always_takes_part():
    weight, log_p = np.ones(50), np.full(50, -1.0)
    by_em, independent, tilted = (
        weighted_average.Group(kind, 0, None, log_p) for kind in ("em", "independent", "tilted")
    )
    assert learn_kinds._that_count([by_em, independent], weight) == [by_em, independent]
    assert learn_kinds._that_count([by_em, tilted], weight) == [tilted]
    better = weighted_average.Group("em", 0, None, log_p + np.linspace(0.5, 1.0, 50))
    assert learn_kinds._that_count([better, tilted], weight) == [better, tilted]
    assert learn_kinds._that_count([better, tilted], 1e200 * weight) == [better, tilted]


def test_the_first_kind_takes_part_only_where_it_is_surely_better(fitted, monkeypatch):
    _, X, V = fitted
    monkeypatch.setattr(learn_kinds, "SURE", np.inf)
    assert "em" not in estimator().fit(X, X_valid=V).chosen_["shares"]


def test_rows_of_kinds_are_more_likely_than_by_em_alone(fitted):
    model, X, V = fitted
    new = rows_of_kinds(2, n_rows=2000)
    assert model.score(new) > estimator(method="em").fit(X, X_valid=V).score(new)


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


def test_a_column_of_which_nothing_is_known_takes_part():
    X = rows_of_kinds().astype(float)
    X[:, 2] = np.nan
    V = X[:80]
    with pytest.warns(NothingKnownWarning):
        model = estimator().fit(X, X_valid=V)
    assert model.chosen_["valid"] == pytest.approx(model.log_marginal(V).mean())
    assert {"independent", "tilted"} <= set(model.chosen_["shares"])
    assert model.marginal_probabilities()[2] == pytest.approx(0.5)


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


# What ends a fit


@pytest.mark.parametrize("name", ["_log_p", "shares_of", "weighted_average"])
def test_an_interrupt_of_the_average_keeps_the_first_kind(name, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(learn_kinds, name, interrupt)
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


def test_where_one_kind_is_enough_it_is_said(monkeypatch):
    monkeypatch.setattr(weighted_average, "NO_SHARE", 0.6)
    X, V = rows_of_kinds(), rows_of_kinds(1)
    monkeypatch.setattr(learn_kinds, "VIRTUAL_ROWS", 0.0)
    chosen = estimator().fit(X, X_valid=V).chosen_
    assert chosen["init"] == "independent"
    assert chosen["n_splits"] == 0


def test_the_accurate_preset_needs_no_networks_for_a_small_table():
    code = (
        "import sys, numpy as np; from strudel import Strudel; "
        "X = np.random.default_rng(0).integers(0, 2, (80, 4)); "
        "Strudel(preset='accurate', max_splits=3, random_state=0).fit(X); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_time_limit_ends_a_fit():
    model = estimator(max_seconds=1e-3).fit(rows_of_kinds())
    assert model.history_.stopped_because == "max_seconds"
