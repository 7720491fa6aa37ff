from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from strategies import binary_tables, weights
from strudel.data.bits import pack_columns
from strudel.data.counts import pair_counts

tables = binary_tables(max_rows=150, max_vars=6)


@given(tables)
def test_counts_are_the_table_times_itself(X):
    expected = X.T.astype(int) @ X.astype(int)
    assert np.array_equal(pair_counts(pack_columns(X)), expected)


def test_counts_of_a_wide_table(rng):
    X = rng.integers(0, 2, (300, 70))
    assert np.array_equal(pair_counts(pack_columns(X)), X.T @ X)


@given(tables, st.data())
def test_whole_weights_are_repetitions(X, data):
    times = data.draw(st.lists(st.integers(0, 4), min_size=len(X), max_size=len(X)))
    repeated = np.repeat(X, times, axis=0)
    weighted = pair_counts(pack_columns(X, times))
    assert np.array_equal(weighted, pair_counts(pack_columns(repeated)))


@given(tables, st.data())
def test_weighted_counts_are_a_weighted_product(X, data):
    bits = pack_columns(X, data.draw(weights(len(X))))
    expected = np.einsum("r,ri,rj->ij", bits.weights, X, X)
    assert np.array_equal(pair_counts(bits), expected)  # to the last bit: the weights are exact


def test_counts_of_a_constant_column():
    assert pair_counts(pack_columns([[0, 1], [0, 1]])).tolist() == [[0, 0], [0, 2]]


def test_counts_of_no_rows():
    assert pair_counts(pack_columns(np.zeros((0, 3)))).tolist() == [[0, 0, 0]] * 3


def test_an_example_of_pair_counts():
    assert pair_counts(pack_columns([[1, 1], [1, 0], [1, 1]])).tolist() == [[3.0, 2.0], [2.0, 2.0]]
