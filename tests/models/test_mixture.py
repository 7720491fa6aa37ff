import time

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_checks import PREDICTS_CLUSTERS, Thresholded
from strudel import EM, BaggedEM, BestFirst, Boosting, Greedy, Strudel
from strudel.errors import ExtraColumnsWarning, InterruptedWarning, WrongTableError
from strudel.learning import prepared_rows as prepared
from strudel.learning.mixtures import em
from strudel.learning.options import SEARCHES
from strudel.learning.search import learn_structure as run

QUICK = {"n_components": 3, "max_splits": 2, "random_state": 0}
FEW = {"max_iter": 5, "patience": 2}  # steps of EM


def clusters(seed, n_rows=300, n_vars=8):
    """Rows of three kinds that are the same for every seed."""
    centre = np.random.default_rng(7).choice([0.1, 0.9], (3, n_vars))
    rng = np.random.default_rng(seed)
    return (rng.random((n_rows, n_vars)) < centre[rng.integers(3, size=n_rows)]).astype(np.uint8)


def is_same(a, b):
    return np.array_equal(a.circuit_.edge_log_theta, b.circuit_.edge_log_theta) and np.array_equal(
        a.circuit_.log_weight, b.circuit_.log_weight
    )


@pytest.fixture(scope="module")
def model():
    return Strudel(**QUICK).fit(clusters(0))


CLUSTERS = PREDICTS_CLUSTERS | {
    "check_sample_weight_equivalence_on_dense_data": "k-means starts from other rows",
    "check_sample_weight_equivalence_on_sparse_data": "k-means starts from other rows",
}


@pytest.mark.compiled
@parametrize_with_checks([Thresholded(**QUICK)], expected_failed_checks=lambda _: CLUSTERS)
def test_scikit_learn_checks_on_thresholded_numbers(estimator, check):
    check(estimator)


# What a fitted model is


def test_feature_names_are_kept_and_compared():
    X = pd.DataFrame(clusters(0), columns=list("abcdefgh"))
    model = Strudel(**QUICK).fit(X)
    assert model.feature_names_in_.tolist() == list("abcdefgh")
    assert model.circuit_.columns.names == tuple("abcdefgh")
    with pytest.warns(ExtraColumnsWarning, match="X has 'z', which"):  # and "a" is unknown
        found = model.score_samples(X.rename(columns={"a": "z"}))
    assert found == pytest.approx(model.log_marginal(X.assign(a=np.nan)))
    assert model.score(X[list("hgfedcba")]) == model.score(X)
    with pytest.raises(WrongTableError, match="only 3 of the 8 columns"):
        model.score(X[["a", "b", "c"]])
    assert model.fit(clusters(0)).circuit_.columns.names[0] == "x0"


@pytest.mark.compiled
def test_the_seed_alone_decides_not_the_number_of_threads(monkeypatch):
    monkeypatch.setattr(em, "FEW_ADDITIONS", 0)  # small steps would take one thread all the same
    options = {"n_components": 5, "method": EM(n_runs=2, max_iter=10)}
    one, two, other = (
        Strudel(random_state=seed, n_jobs=n_jobs, **options).fit(clusters(0))
        for seed, n_jobs in ((0, 1), (0, 2), (1, 1))
    )
    assert is_same(one, two)
    assert [trial[:-2] for trial in one.trials_] == [trial[:-2] for trial in two.trials_]
    assert len(one.trials_) > 0
    assert not is_same(one, other)


def test_a_refused_fit_leaves_a_fitted_model_as_it_was():
    X = pd.DataFrame(clusters(0), columns=list("abcdefgh"))
    model = Strudel(**QUICK).fit(X)
    before = model.score(X), vars(model).keys()
    other = X.rename(columns={"a": "z"})
    for refused, arguments in (
        (clusters(0, n_vars=5), {"X_valid": clusters(0)}),
        (other, {"X_valid": X}),
        (other, {"sample_weight": [1.0]}),
    ):
        with pytest.raises(ValueError, match=r"X|sample_weight|feature names"):
            model.fit(refused, **arguments)
        assert (model.score(X), vars(model).keys()) == before
    with pytest.raises(ValueError, match="chosen on validation rows"):
        model.set_params(max_splits=None, validation_fraction=None).fit(other)
    with pytest.raises(ValueError, match="random_state must be"):
        model.set_params(**QUICK, validation_fraction=0.1).set_params(random_state="a").fit(other)
    assert (model.score(X), vars(model).keys()) == before


@pytest.mark.parametrize(
    "bad",
    [
        {"n_components": 0},
        {"n_components": "many"},
        {"max_splits": -1},
        {"max_splits": 1.5},
        {"method": "magic"},
        {"n_components": []},
        {"n_components": [2, 0]},
        {"search": "learnpsdd"},
        {"search": "race"},
        {"method": Greedy()},
        {"max_components": 0},
        {"smoothing": "none"},
        {"pseudocount": -1.0},
        {"max_seconds": "long"},
        {"validation_fraction": 1.0},
    ],
)
def test_bad_params_are_refused_by_name_in_fit(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        Strudel(**bad).fit(clusters(0))


@pytest.mark.parametrize(
    ("method", "name"),
    [
        (EM(n_runs=0), "n_runs"),
        (EM(init_params="here"), "init_params"),
        (BaggedEM(n_bags=0), "n_bags"),
        (Boosting(patience=0), "patience"),
    ],
    ids=str,
)
def test_bad_options_of_methods_are_refused_by_name_in_fit(method, name):
    with pytest.raises(ValueError, match=name):
        Strudel(n_components=10, method=method).fit(clusters(0))


def test_options_that_would_have_no_effect_are_refused():
    with pytest.raises(ValueError, match="structure_rows is for single circuits"):
        Strudel(n_components=10, search=Greedy(structure_rows=50)).fit(clusters(0))
    with pytest.raises(ValueError, match="sampled_rows is for single circuits"):
        Strudel(n_components=10, search=BestFirst(sampled_rows=50)).fit(clusters(0))


# Tables of all kinds


@pytest.mark.parametrize(
    "X",
    [
        [[1]],
        [[0], [0], [0]],
        [[0], [1], [1]],
        [[1, 1, 1]],
        [[1, 0, 1], [0, 1, 1]],
        np.zeros((5, 4)),
        [[1, 0, 1]] * 9,
        np.eye(3, 6),
    ],
    ids=["cell", "constant", "column", "row", "two rows", "zeros", "equal rows", "few rows"],
)
@pytest.mark.parametrize("method", ["em", BaggedEM(n_bags=2), "boosting"])
def test_small_and_odd_tables_work(X, method):
    model = Strudel(n_components=4, max_splits=500, method=method, random_state=0).fit(X)
    assert np.isfinite(model.score(X))
    assert model.chosen_["n_splits"] < 500
    assert model.sample(3, random_state=0).shape == (3, np.shape(X)[1])
    assert len(model.history_) > 0


def test_a_row_that_training_never_saw_is_possible():
    X = np.ones((30, 4))
    X[:, :2] = np.arange(30)[:, np.newaxis] % 2
    model = Strudel(**QUICK).fit(X, X_valid=[[1, 0, 0, 0], [0, 1, 0, 1]])
    assert np.isfinite(model.chosen_["valid"])


def test_weights_equal_repetition_when_validation_is_given():
    X, V = clusters(0), clusters(1)
    weight = np.random.default_rng(0).integers(0, 3, len(X))
    a = Strudel(**QUICK).fit(X, X_valid=V, sample_weight=weight)
    b = Strudel(**QUICK).fit(X.repeat(weight, axis=0), X_valid=V)
    assert is_same(a, b)


# What is learned


@pytest.mark.compiled
@pytest.mark.parametrize("method", [EM(**FEW), BaggedEM(n_bags=2, **FEW), Boosting(**FEW)])
@pytest.mark.parametrize("n_components", [2, "auto"])
@pytest.mark.parametrize("max_splits", [3, None])
def test_all_that_can_be_chosen_is_chosen_with_every_method(method, n_components, max_splits):
    X, V = clusters(0, 150), clusters(1, 50)
    model = Strudel(
        n_components=n_components,
        max_splits=max_splits,
        method=method,
        max_components=26,
        random_state=0,
    ).fit(X, X_valid=V)
    chosen = model.chosen_
    assert chosen["n_components"] * chosen["n_runs"] == model.circuit_.n_components <= 26
    assert chosen["valid"] == pytest.approx(model.score(V), abs=1e-4)
    assert len(model.history_) > 0
    if max_splits is not None:
        assert chosen["n_splits"] <= 3
        assert n_components == "auto" or chosen["n_splits"] == 3
    if n_components == 2:
        assert chosen["n_components"] <= 2


@pytest.mark.parametrize("method", ["em", EM(n_runs=2), BaggedEM(n_bags=2)])
def test_max_components_bounds_what_is_chosen(method):
    model = Strudel(max_splits=0, max_components=8, random_state=0, method=method)
    assert 1 <= model.fit(clusters(0)).circuit_.n_components <= 8


def test_more_components_than_allowed_are_refused():
    model = Strudel(n_components=4, max_splits=1, max_components=2, random_state=0)
    with pytest.raises(ValueError, match="n_components is 4, but max_components allows only 2"):
        model.fit(clusters(0))


def test_the_valid_likelihood_is_that_of_the_mixture_with_the_chosen_smoothing():
    X, V = clusters(0, 60), clusters(1)
    auto = Strudel(**QUICK).fit(X, X_valid=V)
    assert auto.chosen_["valid"] == pytest.approx(auto.score(V), abs=1e-12)
    training = em.TRAINING_STRENGTH
    fixed = Strudel(pseudocount=training, **QUICK).fit(X, X_valid=V)
    others = [Strudel(pseudocount=p, **QUICK).fit(X, X_valid=V) for p in (0.03, 30.0)]
    assert auto.score(V) > min(other.score(V) for other in others)
    assert auto.score(V) > fixed.score(V) - 1e-3


def test_without_validation_rows_numbers_are_needed():
    X = clusters(0)
    for params in ({"max_splits": 2}, {"max_splits": 2, "n_components": "auto"}, {}):
        params = {"n_components": 3, "max_splits": None} | params
        model = Strudel(validation_fraction=None, random_state=0, **params)
        if params["n_components"] == "auto" or params["max_splits"] is None:
            with pytest.raises(ValueError, match="chosen on validation rows"):
                model.fit(X)
        else:
            model.fit(X)
            assert np.isnan(model.chosen_["valid"])
            assert model.score(X) > Strudel(n_components=1, max_splits=2).fit(X).score(X)


@pytest.mark.parametrize("start", ["random", "k-means++"])
@pytest.mark.parametrize("smoothing", ["single", "uniform"])
def test_starts_and_smoothing(start, smoothing):
    model = Strudel(method=EM(init_params=start), smoothing=smoothing, **QUICK)
    model.fit(clusters(0))
    assert model.score(clusters(1)) > Strudel(n_components=1, max_splits=2).fit(clusters(0)).score(
        clusters(1)
    )


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("params", "search"),
    [
        ({}, "best_first"),
        ({"n_components": "auto", "max_components": 4}, "best_first"),
        ({"method": Boosting(max_iter=3)}, "best_first"),
        ({"max_splits": 4}, "greedy"),
    ],
)
def test_the_search_that_auto_stands_for(params, search):
    assert (
        Strudel(**{"n_components": 10} | params)._task(has_valid=True).search.search
        == SEARCHES[search]()
    )
    options = {
        "n_components": 2,
        "random_state": 0,
        "method": EM(max_iter=3),
    }
    X = clusters(0)
    model = Strudel(**options | params).fit(X)
    other = Strudel(**options | params, search=search).fit(X)
    assert np.array_equal(model.score_samples(X), other.score_samples(X))


@pytest.mark.parametrize("search", ["greedy", "best_first"])
def test_the_structure_is_that_of_the_search(search):
    X = clusters(0)
    mixture = Strudel(n_components=2, max_splits=7, search=search, random_state=0)
    mixture.fit(X, X_valid=clusters(1))
    single = Strudel(n_components=1, search=search, max_splits=7, validation_fraction=None).fit(X)
    own, other = mixture.circuit_, single.circuit_
    for name in ("leaf_column", "sum_vtree", "sum_edges", "edge_left", "edge_right"):
        assert np.array_equal(getattr(own, name), getattr(other, name)), name
    other = {"greedy": "best_first", "best_first": "greedy"}[search]
    assert mixture.set_params(search=other).fit(X).circuit_.n_edges != own.n_edges


def test_of_a_list_the_best_number_is_taken():
    X, V = clusters(0), clusters(1)
    model = Strudel([1, 2, 3], max_splits=0, random_state=0).fit(X, X_valid=V)
    tried = {trial.n_components: trial.valid for trial in model.trials_}
    assert set(tried) == {1, 2, 3}
    assert model.circuit_.n_components == model.chosen_["n_components"] == 3  # kinds of rows
    assert model.chosen_["n_runs"] == 1


# Queries


# Limits and interrupts


def test_the_time_limit_is_for_the_whole_fit(monkeypatch):
    """Structure search, choice and last fit share it: a clock that ticks with every look."""
    clock = iter(np.arange(0.0, 10**6, 1.0))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    model = Strudel(n_components=3, max_seconds=60.0, random_state=0).fit(clusters(0))
    assert model.history_.stopped_because == "max_seconds"
    assert next(clock) < 150


def interrupt(monkeypatch, owner, name, call):
    """Raise KeyboardInterrupt at the n-th call of a function, and only then."""
    original, calls = getattr(owner, name), []

    def interrupted(*args, **kwargs):
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, interrupted)


@pytest.mark.parametrize(
    "params",
    [{}, {"n_components": "auto", "patience": 90}, {"max_splits": 30}, {"search": "greedy"}],
)
def test_an_interrupt_of_the_structure_search_keeps_the_circuit(monkeypatch, params):
    is_greedy = "max_splits" in params or "search" in params
    interrupt(monkeypatch, *((run, "pick_edge") if is_greedy else (run.BestFirstSearch, "next")), 6)
    with pytest.warns(InterruptedWarning, match="best model so far"):
        model = Strudel(**{"n_components": 10, "random_state": 0} | params).fit(clusters(0))
    assert model.circuit_.n_components == model.chosen_["n_components"] == 1
    assert model.chosen_["n_splits"] <= 5
    assert model.history_.stopped_because == "interrupted"
    assert model.trials_ == []
    assert np.isfinite(model.score(clusters(1)))


@pytest.mark.parametrize(
    "params", [{"n_components": "auto", "init": "chow_liu"}, {}, {"max_splits": 2}]
)
@pytest.mark.parametrize("call", [1, 2, 6])
def test_an_interrupt_of_em_keeps_the_best_so_far(monkeypatch, params, call):
    V = clusters(1)
    interrupt(monkeypatch, em.Ensemble, "expect", call)
    options = {"n_components": 10, "max_components": 75, "random_state": 0}
    with pytest.warns(InterruptedWarning):
        model = Strudel(**options | params).fit(clusters(0), X_valid=V)
    assert model.history_.stopped_because == "interrupted"
    assert model.chosen_["valid"] == pytest.approx(model.score(V), abs=1e-4)


def test_an_interrupt_before_anything_is_known_leaves_the_old_model(monkeypatch):
    model = Strudel(**QUICK).fit(clusters(0))
    before, history = model.score(clusters(1)), model.history_

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(prepared, "grow", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(clusters(2))
    assert model.history_ is history
    assert model.score(clusters(1)) == before
