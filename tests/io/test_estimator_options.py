"""Model files keep searches, training methods and ranges, and refuse what is none."""

import math

import numpy as np
import pytest

from model_files import edit, state_of
from strudel import (
    EM,
    BaggedEM,
    BestFirst,
    Boosting,
    Greedy,
    LearnPSDD,
    Race,
    Strudel,
    StrudelImputer,
    load,
    save,
)
from strudel.errors import FileFormatError
from strudel.logic.terms import variables
from strudel.trees.vtree import balanced_vtree

RACE = Race(best_first=BestFirst(clones=False), learnpsdd=LearnPSDD(copies="minimal"))
HEURISTIC = LearnPSDD(operation_score="gain", clones=False, split_sides="both")
TREE = {"max_splits": 0, "random_state": 0}
SMALL = {"n_components": 2, "max_splits": 0, "random_state": 0}


def rows():
    rng = np.random.default_rng(0)
    return rng.integers(0, 2, (60, 1)).repeat(4, axis=1) ^ (rng.random((60, 4)) < 0.1)


@pytest.mark.parametrize(
    "model",
    [
        Strudel(n_components=1, **TREE),
        Strudel(n_components=1, **TREE, search="learnpsdd"),
        Strudel(n_components=1, **TREE, search=Greedy(edge_score="random", structure_rows=40)),
        Strudel(n_components=1, **TREE, search=HEURISTIC),
        Strudel(n_components=1, **TREE, search=RACE),
        Strudel(
            n_components=1,
            **TREE,
            max_seconds=math.inf,
            preset="accurate",
            search=BestFirst(sampled_rows=0),
        ),
        Strudel(**SMALL),
        Strudel(**SMALL, method="boosting"),
        Strudel(**SMALL, method=EM(n_runs=2, max_iter=3, tol=0.5)),
        Strudel(**SMALL, method=BaggedEM(n_bags=2)),
        Strudel(**SMALL, method=Boosting(n_init=3)),
        Strudel(**SMALL | {"n_components": [2, 3]}, search=BestFirst(clones=False)),
        Strudel(**SMALL | {"max_splits": 2}),
    ],
    ids=str,
)
@pytest.mark.compiled
def test_options_come_back(tmp_path, model):
    before = model.get_params()
    save(model.fit(rows(), X_valid=rows()), tmp_path / "m.strudel")
    again = load(tmp_path / "m.strudel")
    assert again.get_params() == before
    for name in ("search", "method", "max_splits"):
        assert type(getattr(again, name, None)) is type(getattr(model, name, None))
    np.testing.assert_array_equal(again.score_samples(rows()), model.score_samples(rows()))
    assert again.fit(rows(), X_valid=rows()).score(rows()) == model.score(rows())


@pytest.mark.compiled
def test_what_an_imputer_learns_with_comes_back(tmp_path):
    learner = Strudel(**SMALL, method=EM(max_iter=2), search=Greedy(tie_rule="depth_first"))
    save(StrudelImputer(learner).fit(rows().astype(float)), tmp_path / "m.strudel")
    again = load(tmp_path / "m.strudel").estimator
    assert again.get_params() == learner.get_params()


@pytest.mark.compiled
def test_events_and_vtrees_come_back(tmp_path):
    x = variables([f"x{var}" for var in range(4)])
    options = {"constraint": x["x0"] | ~x["x1"], "vtree": balanced_vtree(4)}
    model = Strudel(n_components=1, **TREE, **options).fit(rows()[:, [0, 0, 2, 3]])
    save(model, tmp_path / "m.strudel")
    again = load(tmp_path / "m.strudel")
    assert str(again.constraint) == str(model.constraint)
    assert again.vtree == model.vtree


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "m.strudel"
    save(Strudel(n_components=1, **TREE, search=Greedy()).fit(rows()), path)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("search", "words"),
    [
        ({"$object": 99}, "an object is missing"),
        ({"$range": 3}, "a list of values should be list, but is int"),
        ({"$range": [1, 2]}, "a range that is damaged"),
        ({"$range": [0, 5, 0]}, "a range that is damaged"),
        ({"$range": ["a", 5, 1]}, "a range that is damaged"),
        ({"$class": "Popen"}, "a list of values should be list"),
    ],
    ids=str,
)
def test_what_is_no_option_is_refused(tmp_path, good, search, words):
    (tmp_path / "bad.strudel").write_bytes(good)
    edit(
        tmp_path / "bad.strudel",
        lambda header, _: state_of(header, "Strudel")["options"].update(search=search),
    )
    with pytest.raises(FileFormatError, match=words):
        load(tmp_path / "bad.strudel", verify=False)


def test_options_of_a_search_are_those_that_it_has(tmp_path, good):
    (tmp_path / "bad.strudel").write_bytes(good)
    edit(tmp_path / "bad.strudel", lambda header, _: state_of(header, "Greedy").update(shell=1))
    with pytest.raises(FileFormatError, match="a Greedy with other parts"):
        load(tmp_path / "bad.strudel")
