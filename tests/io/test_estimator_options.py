"""Model files keep searches, training methods and ranges, and refuse what is none."""

import json
import math
import zipfile

import numpy as np
import pytest

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


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "m.strudel"
    save(Strudel(n_components=1, **TREE).fit(rows()), path)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize(
    ("search", "words"),
    [
        ({"__class__": "Popen", "params": {}}, "options of the unknown class 'Popen'"),
        ({"__class__": ["Greedy"], "params": {}}, "options of the unknown class"),
        ({"__class__": "Greedy", "params": [1]}, "the options should be dict, but is list"),
        ({"__class__": "Greedy"}, "the options should be dict"),
        ({"__class__": "Greedy", "params": {"shell": 1}}, "options that Greedy does not have"),
        ({"__range__": 3}, "a range should be list, but is int"),
        ({"__range__": [1, 2]}, "a range that is damaged"),
        ({"__range__": [0, 5, 0]}, "a range that is damaged"),
        ({"__range__": ["a", 5, 1]}, "a range that is damaged"),
    ],
    ids=str,
)
def test_what_is_no_option_is_refused(tmp_path, content, search, words):
    meta = json.loads(content["meta.json"])
    meta["params"]["search"] = search
    with zipfile.ZipFile(tmp_path / "bad.strudel", "w") as archive:
        for name, data in (content | {"meta.json": json.dumps(meta)}).items():
            archive.writestr(name, data)
    with pytest.raises(FileFormatError, match=words):
        load(tmp_path / "bad.strudel", verify=False)
