"""Estimators on rows with unknown values."""

import math

import numpy as np
import pytest

import oracle
import strudel
from strudel import EM, BaggedEM, Greedy, Strudel
from strudel.circuits.properties import why_not_deterministic
from strudel.data.bits import pack_columns
from strudel.errors import InterruptedWarning, NothingKnownWarning
from strudel.learning import SearchOptions, learn_structure
from strudel.learning.incomplete import maximise

pytestmark = pytest.mark.compiled
nan = math.nan
SMALL = {"random_state": 0, "max_splits": 5}


def chains(seed, n_rows=300, n_vars=6):
    """Columns that are mostly equal to the one before."""
    rng = np.random.default_rng(seed)
    flips = rng.random((n_rows, n_vars)) < np.array([0.5] + [0.1] * (n_vars - 1))
    return np.cumsum(flips, axis=1) % 2


def hide(X, share, seed=100):
    """Hide values at random, but leave something of every row."""
    rng = np.random.default_rng(seed)
    is_hidden = rng.random(X.shape) < share
    is_hidden[np.arange(len(X)), rng.integers(X.shape[1], size=len(X))] = False
    return np.where(is_hidden, nan, X)


def total_probability(model, n_vars=6):
    return np.exp(model.score_samples(oracle.all_rows(n_vars))).sum()


def test_half_of_the_values_tell_nearly_as_much_as_all():
    X, X_test = chains(0, 2000), chains(1, 2000)
    known = Strudel(n_components=1, random_state=0).fit(X).score(X_test)
    hidden = Strudel(n_components=1, random_state=0).fit(hide(X, 0.5)).score(X_test)
    filled = np.where(np.isnan(hide(X, 0.5)), np.nanmedian(hide(X, 0.5), axis=0), X).round()
    median = Strudel(n_components=1, random_state=0).fit(filled).score(X_test)
    assert known - hidden < 0.1 * (known - median)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"search": "best_first"},
        {"search": "learnpsdd"},
        {"smoothing": "hierarchical"},
        {"vtree": "bottom_up"},
        {"init": "independent"},
        {"search": Greedy(variable_score="gain")},
        {"validation_fraction": None},
        {"vtree": strudel.trees.balanced_vtree(6)},
    ],
    ids=str,
)
def test_every_search_learns_a_distribution(options):
    model = Strudel(n_components=1, **SMALL | options).fit(hide(chains(0), 0.3))
    assert why_not_deterministic(model.circuit_) is None
    assert total_probability(model) == pytest.approx(1.0)
    assert model.score(chains(1)) > -6 * math.log(2)
    assert len(model.history_)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"method": BaggedEM(n_bags=3)},
        {"method": "boosting"},
        {"method": EM(n_runs=2)},
        {"pseudocount": 1.0, "smoothing": "uniform"},
        {"validation_fraction": None, "max_splits": 2},
    ],
    ids=str,
)
def test_every_mixture_learns_a_distribution(options):
    model = Strudel(**{"n_components": 2, "random_state": 0, "max_splits": 5} | options)
    model.fit(hide(chains(0), 0.3))
    assert total_probability(model) == pytest.approx(1.0)
    assert model.score(chains(1)) > -6 * math.log(2)
    X = hide(chains(2), 0.5)
    assert model.score_samples(X) == pytest.approx(model.log_marginal(X))


def test_the_same_seed_gives_the_same_model_on_any_number_of_threads():
    X = hide(chains(0), 0.3)
    one, two = (Strudel(n_components=1, **SMALL, n_jobs=n).fit(X).circuit_ for n in (1, 2))
    assert np.array_equal(one.edge_log_theta, two.edge_log_theta)
    one, two = (
        Strudel(n_components=2, max_splits=2, random_state=0, n_jobs=n).fit(X).circuit_
        for n in (1, 2)
    )
    assert np.array_equal(one.edge_log_theta, two.edge_log_theta)


def test_complete_rows_never_meet_the_code_for_unknown_values(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("complete rows need no completion")

    for name in (
        "fit.learn_incomplete",
        "learn_mixture.learn_incomplete",
        "prepared_rows.Incomplete",
    ):
        monkeypatch.setattr(f"strudel.learning.{name}", refuse)
    X = chains(0)
    as_floats = Strudel(n_components=1, **SMALL).fit(X.astype(float)).circuit_
    as_bytes = Strudel(n_components=1, **SMALL).fit(X.astype(np.uint8)).circuit_
    assert np.array_equal(as_floats.edge_log_theta, as_bytes.edge_log_theta)
    Strudel(n_components=2, max_splits=1, random_state=0).fit(X)


def test_weights_count_rows():
    X = hide(chains(0, 80), 0.3)
    weight = np.random.default_rng(0).integers(0, 4, 80)
    common = {"X_valid": chains(1)}
    model = Strudel(n_components=1, **SMALL).fit(X, sample_weight=weight, **common)
    again = Strudel(n_components=1, **SMALL).fit(
        X[weight > 0], sample_weight=weight[weight > 0], **common
    )
    assert np.array_equal(model.circuit_.edge_log_theta, again.circuit_.edge_log_theta)
    tripled = Strudel(n_components=1, **SMALL).fit(X, sample_weight=3.0 * weight, **common)
    assert abs(tripled.score(chains(2)) - model.score(chains(2))) < 0.2


def test_a_constraint_holds_for_what_is_unknown():
    pytest.importorskip("pysdd")
    X = chains(0)
    X[:, 5] = X[:, 0] | X[:, 1]
    rule = "x5 == (x0 | x1)"
    gaps = hide(X, 0.3)
    for model in (
        Strudel(n_components=1, **SMALL, constraint=rule),
        Strudel(n_components=2, max_splits=2, random_state=0, constraint=rule),
    ):
        model.fit(gaps)
        assert model.probability(rule) == pytest.approx(1.0)
        bad = np.where(np.arange(6) == 5, 0.0, gaps)
        bad[7] = [1, nan, nan, nan, nan, 0]
        with pytest.raises(ValueError, match=r"row \d+ does not"):
            model.fit(bad)


def test_learning_goes_on_from_the_last_circuit():
    X = hide(chains(0), 0.3)
    model = Strudel(n_components=1, random_state=0, max_splits=2).fit(X)
    n_edges = model.circuit_.n_edges
    model.fit(X, warm_start=True)
    assert model.circuit_.n_edges >= n_edges
    assert total_probability(model) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "model",
    [
        Strudel(n_components=1, random_state=0, max_splits=5),
        Strudel(n_components=10, random_state=0, max_splits=5),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_column_of_which_nothing_is_known_is_a_coin_and_said(model):
    X = hide(chains(0), 0.2)
    X[:, 2] = nan
    with pytest.warns(NothingKnownWarning, match="'x2'"):
        model.fit(X, X_valid=hide(chains(1), 0.2))
    p = model.marginal_probabilities(given=[[1, 1, nan, 1, 1, 1], [0, 0, nan, 0, 1, 1]])
    assert p[:, 2] == pytest.approx([0.5, 0.5])
    assert model.log_likelihoods_.train == pytest.approx(model.score(X))
    flipped = chains(3)
    flipped[:, 2] ^= 1
    assert model.score_samples(flipped) == pytest.approx(model.score_samples(chains(3)))


def test_rows_that_know_nothing_are_left_out_and_said():
    X = hide(chains(0), 0.2)
    empty = np.vstack([X, np.full((3, 6), nan)])
    X_valid = chains(1)
    with pytest.warns(NothingKnownWarning, match="3 of 303"):
        model = Strudel(n_components=1, **SMALL).fit(empty, X_valid=X_valid)
    again = Strudel(n_components=1, **SMALL).fit(X, X_valid=X_valid)
    assert np.array_equal(model.circuit_.edge_log_theta, again.circuit_.edge_log_theta)


def test_nothing_at_all_is_refused():
    with pytest.warns(NothingKnownWarning), pytest.raises(ValueError, match="known value"):
        Strudel(n_components=1, **SMALL).fit(np.full((4, 3), nan))


def test_an_interrupt_keeps_the_best_so_far(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("strudel.learning.prepared_rows.first_mixture", interrupt)
    with pytest.raises(KeyboardInterrupt):  # nothing is learned yet
        Strudel(n_components=1, **SMALL).fit(hide(chains(0), 0.3))
    monkeypatch.undo()
    monkeypatch.setattr("strudel.learning.fit.refit_circuit", interrupt)
    with pytest.warns(InterruptedWarning):  # what completions gave is kept
        model = Strudel(n_components=1, **SMALL).fit(hide(chains(0), 0.3))
    assert total_probability(model) == pytest.approx(1.0)
    monkeypatch.undo()
    model = Strudel(n_components=1, **SMALL)
    with pytest.warns(InterruptedWarning):
        model.fit(hide(chains(0), 0.3), callback=interrupt)
    assert model.history_.stopped_because == "interrupted"
    assert total_probability(model) == pytest.approx(1.0)


@pytest.mark.parametrize(("step", "is_kept"), [(1, False), (3, False), (5, True), (7, True)])
def test_an_interrupt_of_em_ends_the_fit(monkeypatch, step, is_kept):
    """EM fits the model that completes rows, for four steps, and then what is learned of them."""
    steps = []

    def interrupt(*args):
        steps.append(None)
        if len(steps) == step:
            raise KeyboardInterrupt
        return maximise(*args)

    monkeypatch.setattr("strudel.learning.incomplete.maximise", interrupt)
    model = Strudel(n_components=1, **SMALL)
    expected = pytest.warns(InterruptedWarning) if is_kept else pytest.raises(KeyboardInterrupt)
    with expected:
        model.fit(hide(chains(0), 0.3))
    assert len(steps) == step
    assert hasattr(model, "circuit_") == is_kept


def test_a_saved_model_remembers_that_values_were_unknown(tmp_path):
    model = Strudel(n_components=1, **SMALL).fit(hide(chains(0), 0.3))
    strudel.save(model, tmp_path / "gaps.strudel")
    again = strudel.load(tmp_path / "gaps.strudel")
    assert again.data_ == model.data_
    assert again.data_["unknown"] > 0
    assert again.score(hide(chains(1), 0.2)) == model.score(hide(chains(1), 0.2))


def test_rows_that_count_a_quarter_are_split_like_whole_rows():
    X = np.random.default_rng(0).integers(0, 2, (80, 9)) | chains(0, 80, 9)
    quarter = SearchOptions(max_splits=8, pseudocount=0.25, alpha=0.25)
    whole = learn_structure(X, search=SearchOptions(max_splits=8), rng=0)[0]
    same = learn_structure(pack_columns(X, np.full(80, 0.25)), search=quarter, rng=0)[0]
    assert np.array_equal(whole.edge_left, same.edge_left)
    assert whole.edge_log_theta == pytest.approx(same.edge_log_theta)
