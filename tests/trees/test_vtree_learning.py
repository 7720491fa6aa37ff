"""Vtrees from data, and the trees that a vtree has room for."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import examples, seeds, vtrees
from strudel import log_likelihood
from strudel.circuits import compile_chow_liu
from strudel.data import pack_columns
from strudel.data.bits import pair_counts
from strudel.trees import (
    learn_chow_liu_tree,
    learn_tree_for_vtree,
    learn_vtree,
    vtree_from_chow_liu,
)
from strudel.trees.mutual_information import pairwise_mutual_information
from strudel.trees.vtree_learning import best_parents, bisect, pair_up


def symmetric(n, rng, power=3):
    weight = np.triu(rng.random((n, n)) ** power, 1)
    return weight + weight.T


def cut(weight, side):
    return sum(
        weight[i, j] for i in range(len(side)) for j in range(i) if bool(side[i]) != bool(side[j])
    )


def smallest_cut(weight):
    n = len(weight)
    return min(cut(weight, np.isin(range(n), half)) for half in combinations(range(n), n // 2))


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 7, 8])
def test_the_cut_is_the_smallest_of_all(n):
    rng = np.random.default_rng(n)
    for _ in range(10):
        weight = symmetric(n, rng)
        side = bisect(weight)
        assert np.sum(side == 0) == n // 2
        assert cut(weight, side) == pytest.approx(smallest_cut(weight), abs=1e-12)


@pytest.mark.compiled
def test_planted_halves_are_found():
    rng = np.random.default_rng(1)
    n = 301
    hidden = rng.permutation(n) % 2 == 0  # 151 and 150
    weight = symmetric(n, rng, power=1) + 0.4 * (hidden[:, None] == hidden)
    np.fill_diagonal(weight, 0.0)
    side = bisect(weight)
    assert np.array_equal(side == 1, hidden)
    assert np.array_equal(bisect(weight), side)


NONE = -1


def total(weight, partner):
    return sum(weight[i, p] for i, p in enumerate(partner.tolist()) if p != NONE) / 2


def best_pairs(weight, rows):
    """By trying all: the first row with every other, or, if the number is odd, left out."""
    if len(rows) < 2:
        return 0.0, []
    first, rest = rows[0], rows[1:]
    found = []
    for other in rest:
        value, pairs = best_pairs(weight, tuple(r for r in rest if r != other))
        found.append((value + weight[first, other], [(first, other), *pairs]))
    if len(rows) % 2:
        found.append(best_pairs(weight, rest))
    return max(found)


def assert_pairs(partner):
    alone = np.flatnonzero(partner == NONE)
    assert len(alone) == len(partner) % 2
    paired = np.flatnonzero(partner != NONE)
    assert np.array_equal(partner[partner[paired]], paired)
    assert not np.any(partner[paired] == paired)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 8, 9])
def test_the_pairs_are_the_best_of_all(n):
    rng = np.random.default_rng(n)
    for _ in range(10):
        weight = symmetric(n, rng)
        partner = pair_up(weight)
        assert_pairs(partner)
        assert total(weight, partner) == pytest.approx(best_pairs(weight, tuple(range(n)))[0])


@pytest.mark.compiled
def test_planted_pairs_of_three_hundred_are_found():
    rng = np.random.default_rng(0)
    order = rng.permutation(301)
    weight = symmetric(301, rng, power=1)
    first, second = order[:300:2], order[1:300:2]
    weight[first, second] = weight[second, first] = 1.1
    partner = pair_up(weight)
    assert_pairs(partner)
    assert np.array_equal(partner[first], second)
    assert partner[order[300]] == NONE
    assert np.array_equal(pair_up(weight), partner)


METHODS = ["chow_liu", "bottom_up", "top_down", "clusters", "balanced", "linear", "random"]


def blocks(n_rows, sizes, rng):
    """Groups of columns that agree within, in random order; and the group of every column."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    rng.shuffle(group)
    hidden = rng.integers(0, 2, (n_rows, len(sizes)))
    return hidden[:, group] ^ (rng.random((n_rows, len(group))) < 0.1), group


def information(X):
    bits = pack_columns(np.asarray(X, dtype=np.uint8))
    return pairwise_mutual_information(pair_counts(bits), bits.total_weight)


def scopes(vtree):
    return {frozenset(vtree.scope(v)) for v in range(vtree.n_nodes)}


def test_top_down_halves_every_set_in_the_best_way():
    rng = np.random.default_rng(0)
    X, _ = blocks(300, [3, 3, 2], rng)
    mutual, vtree = information(X), learn_vtree(X, "top_down")
    for v in np.flatnonzero(vtree.node_var < 0):
        below = vtree.scope(v)
        left, right = vtree.scope(vtree.node_left[v]), vtree.scope(vtree.node_right[v])
        assert len(left) == len(below) // 2
        best = min(
            mutual[np.ix_(half, [i for i in below if i not in half])].sum()
            for half in combinations(below, len(below) // 2)
        )
        assert mutual[np.ix_(left, right)].sum() == pytest.approx(best)


def test_bottom_up_pairs_the_sets_of_every_round_in_the_best_way():
    rng = np.random.default_rng(1)
    X, _ = blocks(300, [2, 3, 4], rng)
    mutual = information(X)
    sets = [[i] for i in range(9)]
    vtree = learn_vtree(X, "bottom_up")
    while len(sets) > 1:
        mean = np.array([[mutual[np.ix_(a, b)].mean() for b in sets] for a in sets])
        pairs = best_pairs(mean, tuple(range(len(sets))))[1]
        paired = [i for pair in pairs for i in pair]
        sets = [sets[i] + sets[j] for i, j in pairs] + [
            s for i, s in enumerate(sets) if i not in paired
        ]
        assert {frozenset(s) for s in sets} <= scopes(vtree)


def test_clusters_join_the_sets_whose_farthest_variables_are_nearest():
    X, _ = blocks(300, [2, 3, 4], np.random.default_rng(4))
    mutual, vtree = information(X), learn_vtree(X, "clusters")
    sets = [frozenset([i]) for i in range(9)]
    while len(sets) > 1:
        a, b = max(combinations(sets, 2), key=lambda pair: mutual[np.ix_(*map(list, pair))].min())
        sets = [s for s in sets if s not in (a, b)] + [a | b]
        assert a | b in scopes(vtree)


@pytest.mark.compiled
@pytest.mark.parametrize(("method", "size"), [("bottom_up", 4), ("top_down", 75), ("clusters", 12)])
def test_groups_of_three_hundred_columns_are_kept_together(method, size):
    # Pairs of pairs are four columns, and halves of halves of 300 are 75.
    rng = np.random.default_rng(2)
    X, group = blocks(1000, [size] * (300 // size), rng)
    vtree = learn_vtree(X, method)
    for g in range(300 // size):
        assert frozenset(np.flatnonzero(group == g).tolist()) in scopes(vtree)
    assert method == "clusters" or vtree.depth == 9
    assert learn_vtree(X, method) == vtree


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"method must be one of chow_liu, bottom_up, .*'metis'"):
        learn_vtree([[0, 1]], "metis")


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


def weight_of_tree(weight, parent):
    return sum(weight[var, up] for var, up in enumerate(parent) if up != NONE)


@examples(40)
@given(vtrees(max_vars=5), seeds)
def test_it_is_the_best_of_all_trees_that_fit(vtree, seed):
    n_vars = vtree.n_vars
    weight = np.random.default_rng(seed).random((n_vars, n_vars))
    weight = weight + weight.T
    parent = best_parents(weight, vtree).tolist()
    assert fits(parent, vtree)
    best = max(weight_of_tree(weight, other) for other in TREES[n_vars] if fits(other, vtree))
    assert weight_of_tree(weight, parent) == pytest.approx(best)


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
