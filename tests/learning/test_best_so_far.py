"""Facts about the best model so far: it is in a file, and a fit can go on from there."""

import numpy as np
import pytest

from makers import rows_of_kinds
from strudel import EM, Boosting, Strudel, load, log_likelihood, probability
from strudel.errors import InterruptedWarning

X, V = rows_of_kinds(n_rows=400), rows_of_kinds(1, 300)
KINDS = {
    "circuit": {"n_components": 1, "max_splits": 8},
    "race": {"n_components": 1, "search": "race", "max_splits": 8},
    "mixture": {"n_components": 3, "max_splits": 2, "method": EM(max_iter=8)},
    "boosting": {"n_components": 3, "max_splits": 2, "method": Boosting()},
    "auto": {"max_components": 60},
}


def estimator(kind, **more):
    return Strudel(random_state=0, **KINDS[kind] | more)


@pytest.fixture
def always(monkeypatch):
    """Written after every step, not every minute."""
    monkeypatch.setattr("strudel.learning.progress.SECONDS", 0.0)


class KilledError(BaseException):
    """Ends a fit as a signal would: nothing may catch it."""


def kill_at(stage, n):
    steps = []

    def callback(progress):
        steps.extend([None] if progress.stage == stage else [])
        if len(steps) == n:
            raise KilledError

    return callback


@pytest.mark.compiled
@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_that_is_killed_leaves_its_best_model(kind, tmp_path, always):
    path, stage = tmp_path / "best.strudel", "training"
    if kind in ("circuit", "race"):
        stage = "structure"
    n_steps = 45 if kind == "auto" else 3  # of all its runs
    with pytest.raises(KilledError):
        estimator(kind).fit(X, X_valid=V, save_to=path, callback=kill_at(stage, n_steps))
    alone = estimator("circuit", max_splits=0).fit(X, X_valid=V)
    assert log_likelihood(load(path), V).mean() > alone.score(V) - 0.1


@pytest.mark.parametrize("kind", ["circuit", "mixture"])
def test_at_the_end_the_file_holds_the_model(kind, tmp_path, always):
    model = estimator(kind).fit(X, X_valid=V, save_to=tmp_path / "best.strudel")
    assert np.array_equal(
        load(tmp_path / "best.strudel").edge_log_theta, model.circuit_.edge_log_theta
    )
    other = estimator(kind).fit(X, X_valid=V)
    assert np.array_equal(other.circuit_.edge_log_theta, model.circuit_.edge_log_theta)


def test_columns_of_a_table_keep_their_names(tmp_path, always):
    import pandas as pd

    frame = pd.DataFrame({"n": np.arange(80) % 9, "word": ["a", "b", None, "c"] * 20})
    with pytest.raises(KilledError):
        estimator("auto").fit(
            frame, save_to=tmp_path / "m.strudel", callback=kill_at("training", 30)
        )
    model = load(tmp_path / "m.strudel")
    assert probability(model, "n > 3") == pytest.approx((frame["n"] > 3).mean(), abs=0.1)


def test_a_search_goes_on_from_a_file_a_circuit_or_an_estimator(tmp_path):
    first = estimator("circuit").fit(X, X_valid=V, save_to=tmp_path / "m.strudel")
    expected = estimator("circuit").fit(X, X_valid=V).fit(X, X_valid=V, warm_start=True)
    for start in (tmp_path / "m.strudel", first.circuit_, first):
        found = estimator("circuit").fit(X, X_valid=V, warm_start=start)
        assert np.array_equal(found.circuit_.edge_log_theta, expected.circuit_.edge_log_theta)
        assert len(found.history_) == 9  # its own


@pytest.mark.parametrize("has_gaps", [False, True])
def test_components_learn_on_from_where_they_were(has_gaps, tmp_path):
    table = X.astype(float)
    if has_gaps:
        table[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    short = estimator("mixture", method=EM(max_iter=1)).fit(table[:60], X_valid=V)
    on = estimator("mixture").fit(table, X_valid=V, warm_start=short.circuit_)
    assert on.score(V) > short.score(V)
    assert on.circuit_.n_edges == short.circuit_.n_edges
    again = Strudel(random_state=0).fit(table, X_valid=V, warm_start=on)
    assert again.score(V) >= on.score(V)


def test_steps_that_do_not_help_are_not_kept():
    best = estimator("mixture", pseudocount=0.3).fit(X, X_valid=V)
    worse = Strudel(random_state=0, pseudocount=1000.0, smoothing="uniform")
    on = worse.fit(X, X_valid=V, warm_start=best)
    assert np.array_equal(on.circuit_.edge_log_theta, best.circuit_.edge_log_theta)


def test_an_interrupt_keeps_the_best_in_the_file(tmp_path, always):
    def interrupt(progress):
        if progress.step == 4:
            raise KeyboardInterrupt

    with pytest.warns(InterruptedWarning):
        model = estimator("circuit").fit(
            X, X_valid=V, save_to=tmp_path / "m.strudel", callback=interrupt
        )
    assert load(tmp_path / "m.strudel").n_edges == model.circuit_.n_edges


@pytest.mark.parametrize(
    ("kind", "start", "message"),
    [
        ("circuit", "mixture", "warm_start has 3 components"),
        ("boosting", "mixture", "takes the method em"),
    ],
)
def test_what_cannot_go_on_is_refused(kind, start, message):
    last = estimator(start).fit(X, X_valid=V)
    with pytest.raises(ValueError, match=message):
        estimator(kind).fit(X, X_valid=V, warm_start=last)


def test_a_number_of_components_must_be_that_of_the_start():
    last = estimator("mixture").fit(X, X_valid=V)
    with pytest.raises(ValueError, match="n_components='auto' or 3, but it is 4"):
        estimator("mixture", n_components=4).fit(X, X_valid=V, warm_start=last)


def test_a_folder_that_is_not_there_is_refused_before_learning(tmp_path):
    with pytest.raises(ValueError, match="save_to must be a file in a folder that exists"):
        estimator("circuit").fit(X, save_to=tmp_path / "none" / "m.strudel")
