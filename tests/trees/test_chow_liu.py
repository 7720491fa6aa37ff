from __future__ import annotations

import itertools
import math
import tracemalloc
from collections import deque
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from strategies import binary_tables, weights
from strudel.data.bits import exact_weights, pack_columns, pair_counts
from strudel.trees import chow_liu
from strudel.trees.chow_liu import (
    available_cases,
    jordan_centre,
    learn_chow_liu_tree,
    learn_class_tree,
    spanning_tree,
)
from strudel.trees.mutual_information import pairwise_mutual_information

NONE = -1
tables = binary_tables(max_rows=30, max_vars=7)
nan = math.nan


def kruskal(weight):
    """The reference: edges by larger, then smaller endpoint, sorted stably and joined in turn."""
    n_vars = len(weight)
    edges = [(i, j) for j in range(n_vars) for i in range(j)]
    edges.sort(key=lambda edge: -weight[edge])
    group = list(range(n_vars))
    tree = set()
    for i, j in edges:
        if group[i] != group[j]:
            tree.add((i, j))
            group = [group[i] if g == group[j] else g for g in group]
    return tree


def edge_set(neighbour):
    return {
        (min(v, w), max(v, w)) for v, w in enumerate(np.asarray(neighbour).tolist()) if w != NONE
    }


def eccentricity(edges, n_vars, start):
    """Hops to the farthest variable, breadth first."""
    adjacent = {v: {b if a == v else a for a, b in edges if v in (a, b)} for v in range(n_vars)}
    hops, queue = {start: 0}, deque([start])
    while queue:
        v = queue.popleft()
        for w in adjacent[v] - hops.keys():
            hops[w] = hops[v] + 1
            queue.append(w)
    return max(hops.values())


def first_centre(edges, n_vars):
    return min(range(n_vars), key=lambda v: (eccentricity(edges, n_vars, v), v))


@st.composite
def symmetric_weights(draw, max_vars=8):
    """Few distinct weights, so that most edges tie."""
    n_vars = draw(st.integers(1, max_vars))
    weight = draw(npst.arrays(np.float64, (n_vars, n_vars), elements=st.integers(0, 3)))
    return np.triu(weight, 1) + np.triu(weight, 1).T


@st.composite
def tree_neighbours(draw, max_vars=12):
    """One neighbour per variable of a random tree whose variables are numbered at random."""
    n_vars = draw(st.integers(1, max_vars))
    label = draw(st.permutations(range(n_vars)))
    neighbour = np.full(n_vars, NONE, dtype=np.int32)
    for v in range(1, n_vars):
        neighbour[label[v]] = label[draw(st.integers(0, v - 1))]
    return neighbour


@given(symmetric_weights())
def test_ties_go_to_the_edge_that_kruskal_meets_first(weight):
    assert edge_set(spanning_tree(weight)) == kruskal(weight)


@given(tree_neighbours())
def test_the_centre_has_the_least_eccentricity_and_then_the_lowest_index(neighbour):
    edges = edge_set(neighbour)
    assert jordan_centre(neighbour) == first_centre(edges, len(neighbour))


@given(tables, st.sampled_from([0.0, 1.0]))
def test_the_tree_is_kruskals_and_hangs_from_its_centre(X, alpha):
    tree = learn_chow_liu_tree(X, alpha=alpha)
    weight = pairwise_mutual_information(pair_counts(pack_columns(X)), len(X), alpha)
    assert edge_set(tree.var_parent) == kruskal(weight)
    assert tree.roots.tolist() == [first_centre(kruskal(weight), X.shape[1])]


@given(tables)
def test_without_smoothing_tables_are_conditional_frequencies(X):
    tree = learn_chow_liu_tree(X, alpha=0.0)
    for v, parent in enumerate(tree.var_parent):
        for value in (0, 1):
            rows = X[X[:, parent] == value] if parent != NONE else X
            expected = rows[:, v].mean() if len(rows) else 0.5
            assert tree.var_theta[v, value] == pytest.approx(expected)


@given(binary_tables(max_rows=20, max_vars=5))
def test_the_smoothed_tree_keeps_the_smoothed_margins(X):
    tree = learn_chow_liu_tree(X, alpha=1.0)
    n_rows, n_vars = X.shape
    total, margin = 0.0, np.zeros(n_vars)
    for world in product((0, 1), repeat=n_vars):
        probability = 1.0
        for v, parent in enumerate(tree.var_parent):
            one = tree.var_theta[v, world[parent] if parent != NONE else 0]
            probability *= one if world[v] else 1.0 - one
        total += probability
        margin += probability * np.array(world)
    assert total == pytest.approx(1.0)
    assert margin == pytest.approx((X.sum(axis=0) + 2) / (n_rows + 4))


@given(tables, st.data())
def test_whole_weights_are_repetitions(X, data):
    times = data.draw(st.lists(st.integers(0, 3), min_size=len(X), max_size=len(X)).filter(any))
    weighted = learn_chow_liu_tree(X, sample_weight=times)
    repeated = learn_chow_liu_tree(np.repeat(X, times, axis=0))
    assert np.array_equal(weighted.var_parent, repeated.var_parent)
    assert np.array_equal(weighted.var_theta, repeated.var_theta)


def test_children_are_listed_in_increasing_order():
    tree = learn_chow_liu_tree(np.repeat([[0], [1]], 4, axis=1))
    assert tree.children() == [[1, 2, 3], [], [], []]
    assert repr(tree) == "ChowLiuTree(n_vars=4, roots=[0])"


@given(tables)
def test_any_root_gives_the_same_tree(X):
    centre = learn_chow_liu_tree(X)
    for root in ("hub", *range(X.shape[1])):
        tree = learn_chow_liu_tree(X, root=root)
        assert edge_set(tree.var_parent) == edge_set(centre.var_parent)
        if root == "hub":
            degree = np.bincount(np.array(list(edge_set(tree.var_parent)), dtype=int).ravel())
            assert tree.roots.tolist() == [int(degree.argmax()) if len(degree) else 0]
        else:
            assert tree.roots.tolist() == [root]


@pytest.mark.parametrize("root", ["center", 2, -1, 0.5, None])
def test_a_root_that_is_none_is_refused(root):
    with pytest.raises(ValueError, match="root must be 'centre', 'hub' or a variable from 0 to 1"):
        learn_chow_liu_tree([[0, 1], [1, 0]], root=root)


def test_an_example_of_learn_class_tree():
    rows = np.array([[0, 0, 1], [0, 1, 0], [0, 0, 1], [0, 1, 0]], dtype=np.uint8)
    assert learn_class_tree([pack_columns(rows), pack_columns(1 - rows)]).var_parent.tolist() == [
        1,
        -1,
        1,
    ]


@st.composite
def partly_known_tables(draw):
    n_rows, n_vars = draw(st.integers(1, 12)), draw(st.integers(1, 5))
    cells = st.lists(st.sampled_from([0.0, 1.0, nan]), min_size=n_vars, max_size=n_vars)
    return np.array([draw(cells) for _ in range(n_rows)])


@given(partly_known_tables(), st.data())
def test_every_pair_is_counted_on_the_rows_that_know_both(X, data):
    weight = exact_weights(data.draw(weights(len(X))))
    cases = available_cases(X, weight)
    for i, j in itertools.product(range(X.shape[1]), repeat=2):
        known = one = both = 0.0
        for row, w in zip(X.tolist(), weight.tolist(), strict=True):
            if not math.isnan(row[i]) and not math.isnan(row[j]):
                known += w
                one += w * (row[i] == 1)
                both += w * (row[i] == 1 and row[j] == 1)
        assert (cases.known[i, j], cases.one[i, j], cases.both[i, j]) == (known, one, both)


@given(partly_known_tables(), st.sampled_from([0.0, 0.5, 1.0]))
def test_information_of_a_pair_is_that_of_its_complete_rows(X, alpha):
    information = available_cases(X).mutual_information(alpha)
    for i, j in itertools.combinations(range(X.shape[1]), 2):
        pair = X[:, [i, j]]
        pair = pair[~np.isnan(pair).any(axis=1)]
        counts = pair.T @ pair
        expected = pairwise_mutual_information(counts, float(len(pair)), alpha)[0, 1]
        assert information[i, j] == pytest.approx(expected, abs=1e-12)
        assert information[j, i] == information[i, j]


def test_a_tree_of_complete_rows_is_the_usual_one():
    X = np.random.default_rng(0).integers(0, 2, (60, 1)).repeat(5, axis=1).astype(float)
    X = np.where(np.random.default_rng(1).random(X.shape) < 0.2, 1 - X, X)
    usual = learn_chow_liu_tree(X)
    cases = available_cases(X)
    assert cases.conditional_tables(usual.var_parent, 1.0) == pytest.approx(usual.var_theta)
    with_gap = np.vstack([X, np.full((1, 5), nan)])  # a row that tells nothing
    again = learn_chow_liu_tree(with_gap)
    assert np.array_equal(again.var_parent, usual.var_parent)
    assert again.var_theta == pytest.approx(usual.var_theta)


@given(tables, st.sampled_from(["centre", "hub", 0]), st.sampled_from([0.0, 1.0]), st.data())
def test_a_wide_table_gives_the_same_tree_without_all_pairs(X, root, alpha, data):
    weight = data.draw(st.none() | weights(len(X)))
    narrow = learn_chow_liu_tree(X, sample_weight=weight, alpha=alpha, root=root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chow_liu, "MANY_VARIABLES", 0)
        wide = learn_chow_liu_tree(X, sample_weight=weight, alpha=alpha, root=root)
    np.testing.assert_array_equal(wide.var_parent, narrow.var_parent)
    np.testing.assert_array_equal(wide.var_theta, narrow.var_theta)


@pytest.mark.compiled
def test_a_wide_table_needs_no_memory_for_all_pairs():
    X = np.random.default_rng(0).integers(0, 2, size=(30, 5000), dtype=np.uint8)
    bits = pack_columns(X)
    tracemalloc.start()
    learn_chow_liu_tree(bits)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20e6  # two tables of all pairs are 400 MB
