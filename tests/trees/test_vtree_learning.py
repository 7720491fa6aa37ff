from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from strudel.data import pack_columns
from strudel.data.counts import pair_counts
from strudel.trees import (
    balanced_vtree,
    learn_chow_liu_tree,
    learn_vtree,
    linear_vtree,
    random_vtree,
    vtree_from_chow_liu,
)
from strudel.trees.mutual_information import pairwise_mutual_information

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


def best_pairs(weight, rows):
    """By trying all."""
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


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_vars", [1, 2, 3, 5])
def test_few_columns_and_constants(method, n_vars):
    rng = np.random.default_rng(0)
    for X in (
        np.zeros((10, n_vars)),
        np.ones((1, n_vars)),
        rng.integers(0, 2, (20, 1)).repeat(n_vars, 1),
    ):
        vtree = learn_vtree(X, method, rng=0)
        assert sorted(vtree.order.tolist()) == list(range(n_vars))
        assert learn_vtree(X, method, rng=0) == vtree


def test_the_other_names_are_the_other_functions():
    X = np.random.default_rng(0).integers(0, 2, (50, 7))
    tree = learn_chow_liu_tree(X)
    assert learn_vtree(X) == learn_vtree(X, "chow_liu") == vtree_from_chow_liu(tree)
    assert learn_vtree(X, "balanced") == balanced_vtree(7)
    assert learn_vtree(X, "linear") == linear_vtree(7)
    assert learn_vtree(X, "random", rng=3) == random_vtree(7, 3)


def test_weights_count_as_rows_do():
    X = np.random.default_rng(0).integers(0, 2, (30, 6), dtype=np.uint8)
    weight = np.arange(30) % 4.0
    often = np.repeat(X, weight.astype(int), axis=0)
    for method in ("bottom_up", "top_down"):
        assert learn_vtree(pack_columns(X, weight), method) == learn_vtree(often, method)


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"method must be one of chow_liu, bottom_up, .*'metis'"):
        learn_vtree([[0, 1]], "metis")
