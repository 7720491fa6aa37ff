"""Searches on vtrees of all kinds."""

from __future__ import annotations

import numpy as np
import pytest

import oracle
from column_circuits import joint_of
from strudel import Strudel, Vtree, load, save
from strudel.circuits import why_not_deterministic
from strudel.data import pack_columns
from strudel.learning import SearchOptions, learn_structure
from strudel.learning.search.learn_structure import first_circuit
from strudel.trees import learn_chow_liu_tree, learn_vtree, vtree_from_chow_liu
from strudel.trees.vtree import linear_vtree

METHODS = ["chow_liu", "bottom_up", "top_down", "clusters", "balanced", "linear", "random"]


def clusters(seed, n_rows=300, n_vars=7):
    rng = np.random.default_rng(seed)
    centre = np.random.default_rng(7).random((3, n_vars))
    return (rng.random((n_rows, n_vars)) < centre[rng.integers(3, size=n_rows)]).astype(np.uint8)


TRAIN, VALID = clusters(0), clusters(1)


@pytest.mark.parametrize("init", ["chow_liu", "independent"])
@pytest.mark.parametrize("method", METHODS)
def test_every_vtree_gives_a_distribution_that_learns(method, init):
    search = SearchOptions(init=init, vtree=method, max_splits=25)
    circuit, history = learn_structure(TRAIN, VALID, search=search, rng=3)
    assert circuit.vtree == learn_vtree(TRAIN, method, rng=3)
    assert why_not_deterministic(circuit) is None
    assert sum(oracle.probabilities(circuit)) == pytest.approx(1.0)
    assert history.valid[history.best] > history.valid[0]


def test_independent_is_the_product_of_the_columns():
    one = (TRAIN.sum(axis=0) + 0.5) / (len(TRAIN) + 1)
    expected = np.where(VALID == 1, np.log(one), np.log1p(-one)).sum(axis=1).mean()
    for method in METHODS:
        search = SearchOptions(init="independent", vtree=method, max_splits=0)
        _, history = learn_structure(TRAIN, VALID, search=search)
        assert history.valid[0] == pytest.approx(expected)


def test_a_tree_is_a_better_start_than_coins_on_every_vtree():
    for method in METHODS:
        first = [
            learn_structure(
                TRAIN, search=SearchOptions(init=init, vtree=method, max_splits=0), rng=0
            )[1].train[0]
            for init in ("chow_liu", "independent")
        ]
        assert first[0] > first[1] + 0.01


def test_the_vtree_of_the_chow_liu_tree_may_be_given():
    tree = learn_chow_liu_tree(TRAIN)
    given = SearchOptions(vtree=vtree_from_chow_liu(tree))
    for search in (given, SearchOptions(vtree=vtree_from_chow_liu(tree, "linear"))):
        bits = pack_columns(TRAIN)
        named, found = first_circuit(bits, SearchOptions()), first_circuit(bits, search)
        assert oracle.probabilities(found) == pytest.approx(oracle.probabilities(named))
    circuit, _ = learn_structure(TRAIN, VALID, search=given)
    expected, _ = learn_structure(TRAIN, VALID)
    assert np.array_equal(circuit.edge_left, expected.edge_left)
    assert np.array_equal(circuit.edge_log_theta, expected.edge_log_theta)


def test_any_root_of_the_chow_liu_tree_gives_the_same_start():
    values = []
    for root in range(7):
        vtree = vtree_from_chow_liu(learn_chow_liu_tree(TRAIN, root=root))
        search = SearchOptions(vtree=vtree, max_splits=0, pseudocount=0.0)
        values.append(learn_structure(TRAIN, search=search)[1].train[0])
    assert values == pytest.approx([values[0]] * 7)


@pytest.mark.parametrize("init", ["chow_liu", "independent"])
@pytest.mark.parametrize("n_vars", [1, 2])
def test_one_or_two_columns(n_vars, init):
    rows = np.random.default_rng(0).integers(0, 2, (40, n_vars))
    for method in METHODS:
        model = Strudel(n_components=1, vtree=method, init=init, random_state=0).fit(rows)
        assert joint_of(model.circuit_).sum() == pytest.approx(1.0)


# Estimators


def test_an_estimator_keeps_its_vtree_in_files(tmp_path):
    vtree = Vtree.from_nested((((0, 1), (2, 3)), (4, (5, 6))))
    for model in (
        Strudel(n_components=1, vtree=vtree, max_splits=3, random_state=0),
        Strudel(n_components=2, max_splits=2, vtree=vtree, random_state=0),
    ):
        save(model.fit(TRAIN), tmp_path / "m.strudel")
        loaded = load(tmp_path / "m.strudel")
        assert loaded.vtree == vtree
        assert loaded.fit(TRAIN).score(VALID) == pytest.approx(model.score(VALID))
    named = Strudel(n_components=1, vtree="top_down", max_splits=1).fit(TRAIN)
    save(named, tmp_path / "m.strudel")
    assert load(tmp_path / "m.strudel").vtree == "top_down"


def test_a_random_vtree_follows_the_seed():
    trees = [
        Strudel(n_components=1, vtree="random", max_splits=0, random_state=seed)
        .fit(TRAIN)
        .circuit_.vtree
        for seed in (0, 0, 1)
    ]
    assert trees[0] == trees[1] != trees[2]


def test_a_constraint_on_another_vtree():
    rows = TRAIN[TRAIN[:, :3].any(axis=1)]
    for method in METHODS:
        model = Strudel(
            n_components=1, constraint="x0 | x1 | x2", vtree=method, max_splits=5, random_state=0
        ).fit(rows)
        p = joint_of(model.circuit_)
        assert all((p[row] > 0) == any(row[:3]) for row in oracle.all_rows(7))


@pytest.mark.parametrize("vtree", ["auto tree", 3, "Chow_liu"])
def test_what_is_no_vtree_is_refused(vtree):
    with pytest.raises(ValueError, match=r"vtree must be a Vtree, or one of chow_liu, bottom_up"):
        Strudel(n_components=1, vtree=vtree).fit(TRAIN)


def test_a_vtree_over_other_variables_is_refused():
    with pytest.raises(ValueError, match="7 columns, but the vtree has 4 variables"):
        Strudel(n_components=1, vtree=linear_vtree(4)).fit(TRAIN)
