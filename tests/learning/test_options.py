"""Options: what they may hold, in an estimator and in a grid; presets; bounds of what is tried."""

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from strudel import EM, BaggedEM, BestFirst, Boosting, Continuous, Greedy, LearnPSDD, Race, Strudel
from strudel.learning import SearchOptions
from strudel.learning import options as module
from strudel.learning.options import (
    ACCURATE,
    DEFAULT,
    EFFORTS,
    FAST,
    METHODS,
    SEARCHES,
    Round,
    named_options,
)
from strudel.learning.search.learn_structure import entrants
from strudel.trees import balanced_vtree

KINDS = [*SEARCHES.values(), *METHODS.values()]


def clusters(seed, n_rows=150, n_vars=6):
    rng = np.random.default_rng(seed)
    centre = rng.random((3, n_vars)) < 0.5
    flips = rng.random((n_rows, n_vars)) < 0.1
    return (centre[rng.integers(3, size=n_rows)] ^ flips).astype(np.uint8)


def rows_of_kinds(n_rows=300, n_vars=8, seed=0):
    """Two kinds of rows, in each of which neighbours agree."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, (n_rows, 1))
    X = rng.random((n_rows, n_vars)) < np.where(kind, 0.8, 0.2)
    X[:, 1::2] = X[:, ::2] ^ (rng.random((n_rows, n_vars // 2)) < 0.1)
    return X.astype(np.uint8)


@pytest.mark.parametrize("kind", KINDS)
def test_options_come_back_as_they_were_set(kind):
    one = kind()
    params = one.get_params()
    assert kind(**params) == one
    assert one.set_params(**params) is one
    assert all(getattr(one, name) is value for name, value in params.items())
    other = clone(one)
    assert type(other) is kind
    assert other == one
    assert other is not one


def test_options_of_objects_inside_have_long_names():
    params = Strudel(n_components=1, search=Race(learnpsdd=LearnPSDD(copy_levels=2))).get_params()
    assert params["search__learnpsdd__copy_levels"] == 2
    assert params["search__sampled_rows"] is None
    assert set(Race(learnpsdd=LearnPSDD()).get_params(deep=False)) == set(Race().get_params())


def test_options_are_set_by_name_one_after_another():
    search = LearnPSDD().set_params(copies="minimal", clones=False)
    assert search == LearnPSDD(copies="minimal", clones=False)
    with pytest.raises(ValueError, match=r"no option 'clone'\. Did you mean 'clones'"):
        BestFirst().set_params(clone=False)
    with pytest.raises(ValueError, match=r"EM has no option 'n_bags'\. Choose from 'n_init'"):
        EM().set_params(n_bags=3)


def test_an_option_that_a_single_search_has_chooses_it():
    model = Strudel(n_components=3).set_params(search__copies="minimal", method__patience=4)
    assert model.search == LearnPSDD(copies="minimal")
    assert model.method == EM(patience=4)  # what a given number of components is trained by
    race = Strudel().set_params(search__learnpsdd__copy_levels=2).search
    assert race == Race(learnpsdd=LearnPSDD(copy_levels=2))
    for params, words in (
        ({"search__clones": False}, "goes with search best_first or learnpsdd, not with auto"),
        ({"search": "greedy", "search__copies": "depth"}, "goes with search learnpsdd, not with"),
        ({"method__wdith": 1}, "No method has an option 'wdith'"),
    ):
        with pytest.raises(ValueError, match=words):
            Strudel().set_params(**params)


def test_options_of_columns_are_set_by_name_also():
    model = Strudel().set_params(columns__zip="category", columns__n_bins=5)
    assert (model.columns.kinds, model.columns.n_bins) == ({"zip": "category"}, 5)


def test_a_name_stands_for_the_defaults():
    for name, kind in SEARCHES.items():
        assert named_options("search", name, SEARCHES) == kind()
    own = BestFirst(clones=False)
    assert named_options("search", own, SEARCHES) is own


@pytest.mark.parametrize("wrong", ["lernpsdd", EM(), LearnPSDD, None, 3])
def test_what_is_no_search_is_refused_and_the_searches_are_named(wrong):
    with pytest.raises(ValueError, match="search must be one of greedy, best_first, learnpsdd"):
        named_options("search", wrong, SEARCHES)


def test_a_name_that_is_nearly_right_is_found():
    for model, words in (
        (Strudel(n_components=1, search="lernpsdd"), "Did you mean 'learnpsdd'"),
        (Strudel(n_components=10, method="baged_em"), "Did you mean 'bagged_em'"),
        (Strudel(n_components=10, search="best-first"), "Did you mean 'best_first'"),
    ):
        with pytest.raises(ValueError, match=words):
            model.fit([[0, 1], [1, 0], [1, 1]])


def test_options_are_checked_when_they_are_used():
    search = Greedy(copy_depth=-1)  # not before: a grid may set one option after another
    with pytest.raises(ValueError, match="copy_depth must be a whole number of at least 0"):
        Strudel(n_components=1, search=search).fit([[0, 1], [1, 0]])


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("options", "grid"),
    [
        ({"search": LearnPSDD()}, {"search__copies": ["minimal", "complete"]}),
        ({}, {"search": ["greedy", BestFirst(clones=False)]}),
        ({"n_components": 2, "method": BaggedEM(max_iter=3)}, {"method__n_bags": [2, 3]}),
    ],
    ids=str,
)
def test_a_grid_over_options(options, grid):
    model = Strudel(**{"n_components": 1, "max_splits": 3, "random_state": 0} | options)
    found = GridSearchCV(model, grid, cv=2).fit(clusters(0))
    assert np.isfinite(found.cv_results_["mean_test_score"]).all()
    again = clone(model).set_params(**found.best_params_).fit(clusters(0))
    best = found.best_estimator_.circuit_
    assert np.array_equal(again.circuit_.edge_log_theta, best.edge_log_theta)


@pytest.mark.compiled
@pytest.mark.parametrize("name", [name for name in METHODS if name != "continuous"])
def test_a_name_is_the_method_with_its_defaults_which_a_fit_leaves_alone(name):
    options = {"n_components": 2, "max_splits": 1, "random_state": 0}
    X, method = clusters(0), METHODS[name]()
    one, other = (Strudel(method=given, **options).fit(X) for given in (name, method))
    assert np.array_equal(one.score_samples(X), other.score_samples(X))
    assert method == METHODS[name]()


@pytest.mark.parametrize(
    ("search", "words"),
    [
        (Greedy(edge_score="most"), "edge_score must be one of flow, random"),
        (Greedy(variable_score="best"), "variable_score must be one of"),
        (Greedy(tie_rule="last"), "tie_rule must be one of"),
        (Greedy(copy_depth=0.5), "copy_depth must be a whole number"),
        (Greedy(sampled_rows=-1), "sampled_rows must be"),
        (Greedy(structure_rows=0), "structure_rows must be"),
        (BestFirst(structure_rows="many"), "structure_rows must be"),
        (Race(learnpsdd=LearnPSDD(copies="all")), "copies must be one of"),
        (Race(best_first=LearnPSDD()), "best_first must be a BestFirst"),
    ],
    ids=str,
)
def test_wrong_values_are_refused_by_name(search, words):
    with pytest.raises(ValueError, match=words):
        SearchOptions(search=search)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (EM(n_init=0), "n_init must be"),
        (EM(max_iter=0), "max_iter must be"),
        (EM(patience=1.5), "patience must be"),
        (EM(tol=-1e-3), "tol must be"),
        (EM(n_runs=0), "n_runs must be"),
        (EM(init_params="k-means"), "init_params must be one of kmeans, k-means"),
        (BaggedEM(n_bags=None), "n_bags must be"),
        (Boosting(n_init="many"), "n_init must be"),
        (Continuous(n_points=0), "n_points must be"),
        (Continuous(learning_rate=-1.0), "learning_rate must be"),
    ],
    ids=str,
)
def test_wrong_values_of_methods_are_refused_by_name(method, words):
    with pytest.raises(ValueError, match=words):
        method.check()


@pytest.mark.parametrize(
    "search",
    [
        Race(best_first=BestFirst(sampled_rows=10)),
        Race(learnpsdd=LearnPSDD(structure_rows=10)),
    ],
    ids=str,
)
def test_options_that_would_have_no_effect_are_refused(search):
    with pytest.raises(ValueError, match="belong"):
        SearchOptions(search=search)


def test_where_a_search_starts_by_default():
    starts = {
        kind: (SearchOptions(search=kind).init, SearchOptions(search=kind).vtree)
        for kind in ("greedy", "best_first", "learnpsdd", "race")
    }
    plain = ("chow_liu", "chow_liu")
    assert starts == {
        "greedy": plain,
        "best_first": plain,
        "learnpsdd": ("independent", "bottom_up"),
        "race": (None, "auto"),  # what each start has
    }
    vtree = balanced_vtree(4)
    given = SearchOptions(search="learnpsdd", init="chow_liu", vtree=vtree)
    assert (given.init, given.vtree) == ("chow_liu", vtree)


@pytest.mark.parametrize("search", [Greedy(), BestFirst(), LearnPSDD(), Race()], ids=str)
@pytest.mark.parametrize("n_vars", [6, 1000])
def test_an_init_that_is_given_is_that_of_all_starts(search, n_vars):
    for init in ("chow_liu", "independent"):
        given = SearchOptions(search=search, vtree="auto", init=init)
        found = entrants(given, n_vars)
        assert {one.init for one in found} == {init}
        assert len({(type(one.search), one.vtree) for one in found}) == len(found) > 1
    several = entrants(SearchOptions(search=search, vtree="auto"), 6)
    assert {one.init for one in several} == {"chow_liu", "independent"}


def test_the_paper_is_the_default():
    search, sampled_rows = Strudel(n_components=1)._circuit_options()
    assert (search.search, search.smoothing, search.vtree) == (Greedy(), "uniform", "chow_liu")
    assert sampled_rows is None


@pytest.mark.parametrize(
    ("preset", "given", "found"),
    [
        ("accurate", {"search": "greedy"}, {"search": Greedy()}),
        ("accurate", {"search": Greedy()}, {"search": Greedy()}),
        ("accurate", {"patience": 100}, {"patience": 100}),
        ("accurate", {"smoothing": "uniform"}, {"smoothing": "uniform"}),
        ("accurate", {"vtree": "chow_liu"}, {"vtree": "chow_liu"}),
        ("accurate", {"max_seconds": math.inf}, {"max_seconds": None}),
        ("fast", {"max_seconds": math.inf}, {"max_seconds": None}),
        ("fast", {"patience": 100}, {"patience": 100}),
        ("paper", {"search": "race"}, {"search": Race(), "vtree": "auto"}),
        ("paper", {"vtree": "auto"}, {"vtree": "auto"}),
        ("fast", {}, {"search": Greedy(), "max_seconds": 2.0, "patience": 30}),
        ("accurate", {}, {"search": Race(), "max_seconds": 240.0, "patience": 500}),
    ],
    ids=str,
)
def test_what_is_given_is_used_even_if_it_is_the_default_of_another_preset(preset, given, found):
    search, _ = Strudel(n_components=1, preset=preset, **given)._circuit_options()
    assert {name: getattr(search, name) for name in found} == found
    left = {"search", "smoothing", "vtree", "patience", "max_seconds"} - {*given, *found}
    by_preset, _ = Strudel(n_components=1, preset=preset)._circuit_options()
    for name in left - {"vtree"} if "search" in given else left:
        assert getattr(search, name) == getattr(by_preset, name)


def test_an_unknown_preset_is_refused_by_name():
    with pytest.raises(ValueError, match="preset must be one of paper, fast, accurate"):
        Strudel(n_components=1, preset="best").fit(clusters(0))


@pytest.mark.parametrize("effort", EFFORTS.values(), ids=EFFORTS)
def test_larger_tables_have_no_more_components(effort):
    sizes = [effort.most_components(n_cells) for n_cells in (1, 10**5, 10**7, 10**9)]
    assert sizes == sorted(sizes, reverse=True)
    assert min(sizes) >= module.FEWEST


def test_more_effort_is_more_of_everything():
    for name in ("max_components", "max_work", "structure_cells", "max_copies"):
        values = [getattr(effort, name) for effort in (FAST, DEFAULT, ACCURATE)]
        assert values == sorted(values), name
    assert ACCURATE.structure_rows(100) is None  # all rows
    assert DEFAULT.structure_rows(100) * 100 <= DEFAULT.structure_cells


def test_a_fit_keeps_to_its_bounds(monkeypatch):
    rounds = (Round(10**9, 1, 3, 3), Round(1, 4, 5, 3))
    small = replace(
        DEFAULT, max_components=18, sizes=(3, 5), rounds=rounds, splits=(0,), max_splits=2
    )
    monkeypatch.setitem(EFFORTS, "default", small)
    model = Strudel(patience=100, random_state=0).fit(rows_of_kinds())
    assert model.circuit_.n_components <= 18
    assert {trial.n_splits for trial in model.trials_} <= {-1, 0, 1, 2}
    assert {trial.n_components for trial in model.trials_} <= {3, 5}
    assert all(trial.n_runs <= 4 for trial in model.trials_)


def test_a_method_that_is_named_has_no_bounds(monkeypatch):
    monkeypatch.setitem(EFFORTS, "default", replace(DEFAULT, max_components=15, sizes=(5,)))
    X, options = rows_of_kinds(), {"max_splits": 1, "max_components": 60, "random_state": 0}
    by_em = Strudel(method="em", **options).fit(X)
    assert {trial.n_components for trial in by_em.trials_} == {25}
