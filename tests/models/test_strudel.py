import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_checks import NEEDS_BINARY, PREDICTS_CLUSTERS, Thresholded
from strudel import Greedy, Strudel
from strudel.errors import InterruptedWarning
from strudel.learning.search import learn_structure as run


def clusters(seed, n_rows=300, n_vars=8):
    rng = np.random.default_rng(seed)
    centre = rng.random((3, n_vars))
    return (rng.random((n_rows, n_vars)) < centre[rng.integers(3, size=n_rows)]).astype(np.uint8)


@pytest.fixture(scope="module")
def model():
    return Strudel(n_components=1, random_state=0).fit(clusters(0))


@pytest.mark.compiled
@parametrize_with_checks(
    [Strudel(n_components=1, max_splits=5, random_state=0)],
    expected_failed_checks=lambda estimator: NEEDS_BINARY,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.compiled
@parametrize_with_checks(
    [Thresholded(n_components=1, max_splits=5, random_state=0)],
    expected_failed_checks=lambda _: PREDICTS_CLUSTERS,
)
def test_scikit_learn_checks_on_thresholded_numbers(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "container",
    [
        np.asarray,
        lambda X: X.tolist(),
        lambda X: X.astype(bool),
        lambda X: X.astype(float),
        np.asfortranarray,
        scipy.sparse.csr_matrix,
        scipy.sparse.coo_array,
        pd.DataFrame,
        lambda X: pd.DataFrame(X.astype(bool), columns=list("abcdefgh")),
        lambda X: pl.DataFrame(X, schema=list("abcdefgh")),
    ],
)
def test_every_container_gives_the_same_model(container, model):
    X = clusters(0)
    other = Strudel(n_components=1, random_state=0).fit(container(X))
    assert np.array_equal(other.circuit_.edge_log_theta, model.circuit_.edge_log_theta)
    assert other.n_features_in_ == 8
    assert other.score(container(X)) == model.score(X)


def test_params_can_be_cloned_set_and_searched():
    X = clusters(0)
    search = GridSearchCV(
        Strudel(n_components=1, random_state=0, max_splits=20), {"pseudocount": [0.1, 10.0]}, cv=3
    )
    search.fit(X)
    assert set(search.best_params_) == {"pseudocount"}
    assert clone(search.best_estimator_).get_params() == search.best_estimator_.get_params()
    assert cross_val_score(
        Strudel(n_components=1, random_state=0, max_splits=3), X, cv=3
    ).shape == (3,)


def test_given_validation_rows_nothing_is_held_out():
    X, V = clusters(0), clusters(1)
    a = Strudel(n_components=1, random_state=0).fit(X, X_valid=V)
    b = Strudel(n_components=1, random_state=99).fit(X, X_valid=V)
    assert np.array_equal(a.circuit_.edge_log_theta, b.circuit_.edge_log_theta)
    assert a.history_.valid[a.history_.best] == pytest.approx(a.score(V))


def test_without_validation_the_search_needs_a_bound():
    X = clusters(0)
    with pytest.raises(ValueError, match="never stop"):
        Strudel(n_components=1, validation_fraction=None).fit(X)
    model = Strudel(n_components=1, validation_fraction=None, max_splits=4).fit(X)
    assert len(model.history_) == 5
    assert model.history_.best == 4


@pytest.mark.parametrize(
    "X",
    [
        [[1]],
        [[0], [0], [0]],
        [[1, 1, 1]],
        np.zeros((5, 4)),
        np.ones((5, 4)),
        np.eye(3, 30),
        [[0, 1], [0, 1], [1, 0]],
    ],
    ids=["one cell", "constant", "one row", "zeros", "ones", "few rows", "opposites"],
)
def test_small_and_odd_tables_work(X):
    model = Strudel(n_components=1, random_state=0).fit(X)
    assert np.isfinite(model.score(X))
    assert model.sample(3, random_state=0).shape == (3, np.shape(X)[1])


def test_weights_equal_repetition_when_validation_is_given():
    X, V = clusters(0), clusters(1)
    weight = np.random.default_rng(0).integers(0, 3, len(X))
    a = Strudel(n_components=1, random_state=0).fit(X, X_valid=V, sample_weight=weight)
    b = Strudel(n_components=1, random_state=0).fit(X.repeat(weight, axis=0), X_valid=V)
    assert np.array_equal(a.circuit_.edge_log_theta, b.circuit_.edge_log_theta)


def test_an_interrupt_warns_and_keeps_the_best(monkeypatch):
    calls = []

    def interrupted(growing, *args):
        calls.append(1)
        if len(calls) > 5:
            raise KeyboardInterrupt
        return original(growing, *args)

    original = run.pick_edge
    monkeypatch.setattr(run, "pick_edge", interrupted)
    with pytest.warns(InterruptedWarning, match="after 5 splits"):
        model = Strudel(n_components=1, random_state=0).fit(clusters(0))
    assert model.history_.stopped_because == "interrupted"
    assert np.isfinite(model.score(clusters(0)))


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"search": Greedy(edge_score="most")}, "edge_score"),
        ({"search": "dreamy"}, "search"),
        ({"validation_fraction": 1.5}, "validation_fraction"),
        ({"patience": 0}, "patience"),
    ],
)
def test_bad_params_are_refused_by_name_in_fit(params, words):
    with pytest.raises(ValueError, match=words):
        Strudel(n_components=1, **params).fit(clusters(0))


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (np.zeros((0, 3)), "sample|row"),
        (np.zeros(3), "1D|2D|Reshape|reshape"),
    ],
)
def test_bad_tables_are_refused_with_a_reason(X, words):
    with pytest.raises(ValueError, match=words):
        Strudel(n_components=1).fit(X)


def test_history_becomes_a_frame_and_round_trips(model):
    frame = model.history_.to_frame()
    assert list(frame) == ["n_splits", "train", "valid", "n_edges", "rows_moved", "seconds"]
    assert len(frame) == len(model.history_)
    again = type(model.history_).from_columns(model.history_.columns(), model.history_.best)
    assert np.array_equal(again.valid, model.history_.valid)


def test_errors_name_the_argument(model):
    with pytest.raises(ValueError, match=r"^X_valid must"):
        Strudel(n_components=1).fit(clusters(0), X_valid=[[2] * 8])
    with pytest.raises(ValueError, match="given"):
        model.most_probable_state([1, 0])
    with pytest.raises(ValueError, match="x0"):
        model.log_marginal({"x0": [2]})


@pytest.mark.parametrize(
    "bad",
    [{"patience": 1.5}, {"max_splits": "3"}, {"pseudocount": np.inf}, {"validation_fraction": "a"}],
)
def test_options_of_the_wrong_kind_are_refused_by_name(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        Strudel(n_components=1, **bad).fit(clusters(0))


def test_a_copy_depth_beyond_the_vtree_is_the_whole_vtree():
    X = clusters(0, 60, 5)
    deep = Strudel(
        n_components=1, random_state=0, search=Greedy(copy_depth=10**9), max_splits=4
    ).fit(X)
    deeper = Strudel(
        n_components=1, random_state=0, search=Greedy(copy_depth=10**6), max_splits=4
    ).fit(X)
    assert deep.history_.n_edges.tolist() == deeper.history_.n_edges.tolist()


def test_kernels_work_where_compiled_code_cannot_be_kept(tmp_path):
    code = (
        "import numba, warnings; warnings.simplefilter('ignore'); real = numba.njit\n"
        "def njit(*args, cache=False, **options):\n"
        "    if cache: raise RuntimeError('cannot cache function: no locator available')\n"
        "    return real(*args, **options)\n"
        "numba.njit = njit\n"
        "from strudel.data.bits import pack_columns\n"
        "from strudel.data.bits import pair_counts\n"
        "print(int(pair_counts(pack_columns([[1], [1]]))[0, 0]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "2"
