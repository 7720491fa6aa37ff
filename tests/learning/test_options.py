"""Small objects of options, as scikit-learn knows estimators."""

import pytest
from sklearn.base import clone

from strudel import EM, BestFirst, Greedy, LearnPSDD, Race, Strudel
from strudel.learning.mixture_methods import METHODS
from strudel.learning.options import named_options
from strudel.learning.search_options import SEARCHES

KINDS = [*SEARCHES.values(), *METHODS.values()]


@pytest.mark.parametrize("kind", KINDS)
def test_options_come_back_as_they_were_set(kind):
    one = kind()
    params = one.get_params()
    assert kind(**params) == one
    assert one.set_params(**params) is one
    for name, value in params.items():
        assert getattr(one, name) is value


@pytest.mark.parametrize("kind", KINDS)
def test_scikit_learn_makes_a_copy(kind):
    one = kind()
    other = clone(one)
    assert type(other) is kind
    assert other == one
    assert other is not one


def test_a_copy_of_an_estimator_has_its_own_objects():
    model = Strudel(n_components=1, search=Race(learnpsdd=LearnPSDD(copies="minimal")))
    other = clone(model).set_params(search__learnpsdd__copies="complete")
    assert other.search.learnpsdd.copies == "complete"
    assert model.search.learnpsdd.copies == "minimal"


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


def test_an_object_that_is_not_there_has_no_options():
    with pytest.raises(ValueError, match=r"learnpsdd__copies .* learnpsdd is None"):
        Race().set_params(learnpsdd__copies="minimal")
    with pytest.raises(ValueError, match=r"operation_score__tie_rule .* 'per_edge'"):
        LearnPSDD().set_params(operation_score__tie_rule="depth_first")


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


def test_objects_with_the_same_options_are_equal():
    assert Greedy() == Greedy()
    assert Greedy(edge_score="random") != Greedy()
    assert Greedy() != BestFirst()
    assert repr(LearnPSDD(copies="minimal")).startswith("LearnPSDD(")


def test_an_example_of_named_options():
    assert (
        repr(named_options("search", "best_first", SEARCHES))
        == "BestFirst(sampled_rows=None, structure_rows=None, clones=True)"
    )
