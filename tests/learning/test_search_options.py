"""Searches as objects: what they may hold, in an estimator and in a grid."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from strudel import BestFirst, Greedy, LearnPSDD, Race, Strudel
from strudel.learning import SearchOptions
from strudel.learning.search.learn_structure import entrants
from strudel.trees import balanced_vtree


def clusters(seed, n_rows=150, n_vars=6):
    rng = np.random.default_rng(seed)
    centre = rng.random((3, n_vars)) < 0.5
    flips = rng.random((n_rows, n_vars)) < 0.1
    return (centre[rng.integers(3, size=n_rows)] ^ flips).astype(np.uint8)


@pytest.mark.compiled
def test_a_grid_over_the_options_of_a_search():
    grid = GridSearchCV(
        Strudel(n_components=1, search=LearnPSDD(), max_splits=4, random_state=0),
        {"search__copies": ["minimal", "complete"], "search__clones": [True, False]},
        cv=2,
    ).fit(clusters(0))
    assert len(grid.cv_results_["params"]) == 4
    best = grid.best_estimator_
    assert best.search.copies == grid.best_params_["search__copies"]
    assert best.search.clones == grid.best_params_["search__clones"]
    again = Strudel(n_components=1, search=best.search, max_splits=4, random_state=0).fit(
        clusters(0)
    )
    assert np.array_equal(again.circuit_.edge_log_theta, best.circuit_.edge_log_theta)


@pytest.mark.compiled
def test_a_grid_over_searches():
    grid = GridSearchCV(
        Strudel(n_components=1, max_splits=3, random_state=0),
        {"search": ["greedy", BestFirst(clones=False)]},
        cv=2,
    ).fit(clusters(0))
    assert np.isfinite(grid.cv_results_["mean_test_score"]).all()


@pytest.mark.compiled
@pytest.mark.parametrize("search", [Greedy(), BestFirst(), LearnPSDD(), Race()])
def test_a_fit_leaves_the_object_as_it_was(search):
    before = search.get_params()
    Strudel(n_components=1, search=search, max_splits=3, random_state=0).fit(clusters(0))
    assert search.get_params() == before


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
        (LearnPSDD(operation_score=Greedy(tie_rule="last")), "tie_rule must be one of"),
        (Race(learnpsdd=LearnPSDD(copies="all")), "copies must be one of"),
        (Race(best_first=LearnPSDD()), "best_first must be a BestFirst"),
    ],
    ids=str,
)
def test_wrong_values_are_refused_by_name(search, words):
    with pytest.raises(ValueError, match=words):
        SearchOptions(search=search)


@pytest.mark.parametrize(
    "search",
    [
        Race(best_first=BestFirst(sampled_rows=10)),
        Race(learnpsdd=LearnPSDD(structure_rows=10)),
        LearnPSDD(operation_score=Greedy(copy_depth=3), clones=False, split_sides="both"),
        LearnPSDD(operation_score=Greedy(sampled_rows=3), clones=False, split_sides="both"),
    ],
    ids=str,
)
def test_options_that_would_have_no_effect_are_refused(search):
    with pytest.raises(ValueError, match=r"belong|operation_score takes"):
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


def test_the_searches_of_a_race():
    own = Race(best_first=BestFirst(clones=False), learnpsdd=LearnPSDD(copies="minimal"))
    assert Race().entrants == {
        "best_first": BestFirst(),
        "learnpsdd": LearnPSDD(split_sides="both"),
    }
    assert own.entrants == {
        "best_first": BestFirst(clones=False),
        "learnpsdd": LearnPSDD(copies="minimal", split_sides="both"),
    }
