import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import weights
from strudel.data.bits import exact_weights
from strudel.trees import learn_chow_liu_tree
from strudel.trees.available_cases import available_cases
from strudel.trees.mutual_information import pairwise_mutual_information

nan = math.nan


@st.composite
def tables(draw):
    n_rows, n_vars = draw(st.integers(1, 12)), draw(st.integers(1, 5))
    cells = st.lists(st.sampled_from([0.0, 1.0, nan]), min_size=n_vars, max_size=n_vars)
    return np.array([draw(cells) for _ in range(n_rows)])


@given(tables(), st.data())
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


@given(tables(), st.sampled_from([0.0, 0.5, 1.0]))
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


def test_tables_of_a_tree_count_pairs_of_known_values():
    X = np.array([[1, 1], [1, 0], [1, nan], [nan, 1], [0, 1.0]])
    tree = learn_chow_liu_tree(X, alpha=0.0, root=0, sample_weight=[1, 1, 5, 5, 2])
    assert tree.var_theta[0] == pytest.approx([7 / 9, 7 / 9])
    assert tree.var_theta[1] == pytest.approx([1.0, 0.5])


def test_an_example_of_available_cases():
    cases = available_cases(np.array([[1, 1], [1, np.nan], [0, 1]]))
    assert cases.known.tolist() == [[3.0, 2.0], [2.0, 2.0]]
