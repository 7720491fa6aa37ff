"""What every fit says and keeps: progress, log-likelihoods, and which rows were held out."""

import math

import numpy as np
import pandas as pd
import pytest

from strudel import EM, Greedy, Strudel
from strudel.errors import InterruptedWarning
from strudel.learning import Progress
from strudel.tables import TableEncoder

CIRCUIT = {"max_splits": 6, "random_state": 0}
MIXTURE = {"n_components": 2, "max_splits": 2, "method": EM(max_iter=4), "random_state": 0}
ESTIMATORS = [Strudel(n_components=1, **CIRCUIT), Strudel(**MIXTURE)]


def clusters(n_rows=200, n_vars=6, seed=0):
    rng = np.random.default_rng(seed)
    centre = rng.choice([0.1, 0.9], (3, n_vars))
    return (rng.random((n_rows, n_vars)) < centre[rng.integers(3, size=n_rows)]).astype(np.uint8)


def hide(X, share=0.2, seed=1):
    hidden = X.astype(float)
    hidden[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return hidden


def new(estimator, **changes):
    return type(estimator)(**estimator.get_params(deep=False) | changes)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize(
    "kind",
    ["memory", "gaps"],
)
def test_the_kept_log_likelihoods_are_those_of_the_rows_that_were_kept_and_held_out(
    estimator, kind
):
    X = clusters()
    table = hide(X) if "gaps" in kind else X
    model = new(estimator).fit(table)
    held = np.isin(np.arange(len(X)), model.held_out_rows_)
    assert 0 < held.sum() < len(X) / 2
    assert model.log_likelihoods_.train == pytest.approx(model.score(table[~held]))
    assert model.log_likelihoods_.valid == pytest.approx(model.score(table[held]))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
def test_with_validation_rows_nothing_is_held_out(estimator):
    X, V = clusters(), clusters(seed=5)
    model = new(estimator).fit(X, X_valid=V)
    assert model.held_out_rows_ is None
    assert model.log_likelihoods_ == pytest.approx((model.score(X), model.score(V)))
    alone = new(estimator, validation_fraction=None).fit(X)
    assert alone.held_out_rows_ is None
    assert math.isnan(alone.log_likelihoods_.valid)


@pytest.mark.parametrize(
    "options",
    [
        {"search": Greedy(structure_rows=50)},
        pytest.param({"search": Greedy(sampled_rows=100)}, marks=pytest.mark.compiled),
        {"smoothing": "hierarchical", "search": "best_first"},
    ],
    ids=["structure rows", "sampled rows", "hierarchical"],
)
def test_log_likelihoods_are_of_the_rows_even_if_the_search_saw_others(options):
    X, V = clusters(), clusters(seed=5)
    model = Strudel(n_components=1, **CIRCUIT, **options).fit(X, X_valid=V)
    assert model.log_likelihoods_ == pytest.approx((model.score(X), model.score(V)))


def test_held_out_rows_are_numbers_of_the_table_that_was_given():
    frame = pd.DataFrame({"a": ["x", "y"] * 30, "b": np.arange(60) % 5})
    weight = np.ones(60)
    weight[::3] = 0.0  # an encoder does not see these
    model = Strudel(n_components=1, **CIRCUIT, columns=TableEncoder(n_bins=3)).fit(
        frame, sample_weight=weight
    )
    assert np.all(weight[model.held_out_rows_] == 1.0)
    assert model.log_likelihoods_.valid == pytest.approx(
        model.score(frame.iloc[model.held_out_rows_])
    )


def test_a_callback_sees_every_split_as_the_history_has_it():
    X, V, seen = clusters(), clusters(seed=5), []
    model = Strudel(n_components=1, **CIRCUIT).fit(X, X_valid=V, callback=seen.append)
    assert all(isinstance(one, Progress) for one in seen)
    assert {one.stage for one in seen} == {"structure"}
    history = model.history_
    assert [one.step for one in seen] == list(range(1, len(history)))
    assert [one.train for one in seen] == history.train[1:].tolist()
    assert [one.valid for one in seen] == history.valid[1:].tolist()
    assert [one.n_edges for one in seen] == history.n_edges[1:].tolist()
    assert [one.elapsed for one in seen] == history.seconds[1:].tolist()
    assert seen[-1].best_step == history.best
    assert seen[-1].best_valid == history.valid[history.best]
    assert f"split {len(history) - 1}: train" in seen[-1].message


def test_a_callback_sees_the_stages_of_a_mixture_in_order():
    seen = []
    model = Strudel(max_splits=3, max_components=10, random_state=0)
    model.fit(clusters(), X_valid=clusters(seed=5), callback=seen.append)
    stages = [one.stage for one in seen]
    assert set(stages) == {"structure", "choice"}  # the choice trains
    assert stages == sorted(stages, key=["structure", "choice", "training"].index)
    assert sum(stage == "choice" for stage in stages) == len(model.trials_)
    seen.clear()
    model = Strudel(**MIXTURE).fit(clusters(), callback=seen.append)
    training = [one for one in seen if one.stage == "training"]
    assert [one.train for one in training] == model.history_.train.tolist()


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
def test_an_interrupt_in_the_callback_keeps_the_best_so_far(estimator):
    def interrupt(progress):
        if progress.step == 2:
            raise KeyboardInterrupt

    with pytest.warns(InterruptedWarning):
        model = new(estimator).fit(clusters(), callback=interrupt)
    assert model.history_.stopped_because == "interrupted"
    assert np.isfinite(model.score(clusters()))


def test_an_error_in_the_callback_ends_the_fit_and_leaves_the_old_model():
    model = Strudel(n_components=1, **CIRCUIT).fit(clusters())
    before = model.circuit_

    def fail(progress):
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        model.fit(clusters(seed=3), callback=fail)
    assert model.circuit_ is before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"search": Greedy(sampled_rows=10), "constraint": "at_least(1, x0, x1)"}, "constraint"),
        ({"max_components": 5}, "max_components is for several components"),
        ({"device": "cuda"}, "needs several components"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(options, words):
    X = clusters()
    X[:, 0] = 1
    with pytest.raises(ValueError, match=words):
        Strudel(n_components=1, **CIRCUIT, **options).fit(X)


def test_options_behind_two_underscores_also_where_a_name_stands_for_an_object():
    model = Strudel(n_components=1, search="learnpsdd").set_params(search__copies="minimal")
    assert model.search.copies == "minimal"
    mixture = Strudel(n_components=10).set_params(method="bagged_em", method__n_bags=3)
    assert mixture.method.n_bags == 3
