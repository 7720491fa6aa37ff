from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import examples, seeds, vtrees
from strudel import Vtree, log_likelihood
from strudel.circuits import compile_chow_liu
from strudel.trees import (
    learn_chow_liu_tree,
    learn_tree_for_vtree,
    learn_vtree,
    vtree_from_chow_liu,
)
from strudel.trees.chow_liu import ChowLiuTree
from strudel.trees.tree_for_vtree import best_parents

NONE = -1


def rooted_trees(n_vars):
    """The parents of all labelled trees with a root."""
    for parent in product(range(-1, n_vars), repeat=n_vars):
        if sum(p == NONE for p in parent) == 1 and all(
            reaches_root(parent, var) for var in range(n_vars)
        ):
            yield parent


def reaches_root(parent, var):
    for _ in range(len(parent)):
        if var != NONE:
            var = parent[var]
    return var == NONE


TREES = {n_vars: list(rooted_trees(n_vars)) for n_vars in range(1, 6)}


def fits(parent, vtree):
    """By definition: the edges that leave a vtree node share one end.

    That is a variable outside, or else one inside whose parent is not.
    """
    for v in range(vtree.n_nodes):
        below = set(vtree.scope(v))
        leaving = [
            (p, c) for c, p in enumerate(parent) if p != NONE and (c in below) != (p in below)
        ]
        inner = {c if c in below else p for p, c in leaving}
        outer = {p if c in below else c for p, c in leaving}
        down = [(p, c) for p, c in leaving if p in below]  # parent below v, child outside
        if down and (len(inner) > 1 or parent[down[0][0]] in below):
            return False
        if not down and len(outer) > 1:
            return False
    return True


def total(weight, parent):
    return sum(weight[var, up] for var, up in enumerate(parent) if up != NONE)


def as_tree(parent):
    return ChowLiuTree(np.array(parent, dtype=np.int32), np.full((len(parent), 2), 0.3))


@examples(40)
@given(vtrees(max_vars=5), seeds)
def test_it_is_the_best_of_all_trees_that_fit(vtree, seed):
    n_vars = vtree.n_vars
    weight = np.random.default_rng(seed).random((n_vars, n_vars))
    weight = weight + weight.T
    parent = best_parents(weight, vtree).tolist()
    assert fits(parent, vtree)
    best = max(total(weight, other) for other in TREES[n_vars] if fits(other, vtree))
    assert total(weight, parent) == pytest.approx(best)


@examples(10)
@given(vtrees(max_vars=4))
def test_what_fits_is_what_can_be_compiled(vtree):
    for parent in TREES[vtree.n_vars]:
        if fits(parent, vtree):
            assert compile_chow_liu(as_tree(parent), vtree).n_edges <= 8 * vtree.n_vars
        else:
            with pytest.raises(ValueError, match="does not fit the tree"):
                compile_chow_liu(as_tree(parent), vtree)


@given(vtrees(max_vars=8), seeds)
def test_the_compiled_tree_is_a_bayesian_network(vtree, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (30, vtree.n_vars))
    tree = learn_tree_for_vtree(X, vtree)
    circuit = compile_chow_liu(tree, vtree)
    expected = np.zeros(len(X))
    for var, up in enumerate(tree.var_parent):
        one = tree.var_theta[var][X[:, up] if up != NONE else 0]
        expected += np.log(np.where(X[:, var] == 1, one, 1.0 - one))
    assert log_likelihood(circuit, X) == pytest.approx(expected)
    assert circuit.is_deterministic
    assert circuit.is_in_normal_form


@given(st.integers(1, 9), seeds, st.sampled_from(["balanced", "linear"]))
def test_on_its_own_vtree_the_chow_liu_tree_is_found_again(n_vars, seed, shape):
    rng = np.random.default_rng(seed)
    # 97 rows and noise on every column: no two pairs have the same mutual information.
    X = rng.integers(0, 2, (97, 1)) ^ (rng.random((97, n_vars)) < rng.random(n_vars) / 2)
    for root in ("centre", "hub"):
        tree = learn_chow_liu_tree(X, root=root)
        found = learn_tree_for_vtree(X, vtree_from_chow_liu(tree, shape))
        edges = {frozenset((v, int(p))) for v, p in enumerate(tree.var_parent) if p != NONE}
        again = {frozenset((v, int(p))) for v, p in enumerate(found.var_parent) if p != NONE}
        assert edges == again


@pytest.mark.compiled
def test_three_hundred_variables_on_a_deep_vtree():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (200, 10)).repeat(30, axis=1) ^ (rng.random((200, 300)) < 0.1)
    for method, least in (("linear", -140), ("top_down", -140), ("random", -190)):  # coins: -208
        vtree = learn_vtree(X, method, rng=0)
        circuit = compile_chow_liu(learn_tree_for_vtree(X, vtree), vtree)
        assert circuit.n_edges <= 8 * 300
        assert log_likelihood(circuit, X).mean() > least


def test_rows_and_vtree_have_the_same_variables():
    with pytest.raises(ValueError, match="3 columns, but the vtree has 2 variables"):
        learn_tree_for_vtree([[0, 1, 1]], Vtree.from_nested((0, 1)))
