"""Training methods as objects: what they may hold, in an estimator and in a grid."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from strudel import EM, BaggedEM, Boosting, Strudel
from strudel.learning import MixtureOptions
from strudel.learning.mixture_methods import METHODS


def clusters(seed, n_rows=120, n_vars=5):
    rng = np.random.default_rng(seed)
    centre = np.random.default_rng(7).choice([0.1, 0.9], (3, n_vars))
    return (rng.random((n_rows, n_vars)) < centre[rng.integers(3, size=n_rows)]).astype(np.uint8)


@pytest.mark.compiled
def test_a_grid_over_the_options_of_a_method():
    model = Strudel(n_components=2, max_splits=0, method=BaggedEM(max_iter=3), random_state=0)
    grid = GridSearchCV(model, {"method__n_bags": [2, 3]}, cv=2).fit(clusters(0))
    n_bags = grid.best_params_["method__n_bags"]
    assert grid.best_estimator_.method == BaggedEM(n_bags=n_bags, max_iter=3)
    assert grid.best_estimator_.circuit_.n_components == 2 * n_bags


@pytest.mark.compiled
@pytest.mark.parametrize("method", [EM(), BaggedEM(n_bags=2), Boosting()])
def test_a_fit_leaves_the_object_as_it_was(method):
    before = method.get_params()
    Strudel(n_components=2, max_splits=1, method=method, random_state=0).fit(clusters(0))
    assert method.get_params() == before


@pytest.mark.compiled
@pytest.mark.parametrize("name", [name for name in METHODS if name != "continuous"])
def test_a_name_is_the_method_with_its_defaults(name):
    options = {"n_components": 2, "max_splits": 1, "random_state": 0}
    X = clusters(0)
    one = Strudel(method=name, **options).fit(X)
    other = Strudel(method=METHODS[name](), **options).fit(X)
    assert np.array_equal(one.score_samples(X), other.score_samples(X))


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
    ],
    ids=str,
)
def test_wrong_values_are_refused_by_name(method, words):
    with pytest.raises(ValueError, match=words):
        method.check()


def test_what_a_method_says_of_training():
    options = EM(n_runs=3, n_init=2, init_params="random", max_iter=7, patience=4, tol=0.5)
    assert options.mixture_options(n_components=5, pseudocount=2.0) == MixtureOptions(
        n_components=5,
        n_runs=3,
        n_init=2,
        init_params="random",
        max_iter=7,
        patience=4,
        tol=0.5,
        pseudocount=2.0,
    )
    assert BaggedEM(n_bags=7).mixture_options().n_runs == 1
    assert EM().mixture_options() == MixtureOptions()
