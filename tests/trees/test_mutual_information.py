from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import mutual_info_score

from strategies import binary_tables
from strudel.data.bits import pack_columns, pair_counts
from strudel.tables.column_codes import ColumnCode
from strudel.trees.mutual_information import column_information, pairwise_mutual_information

tables = binary_tables(max_rows=40, max_vars=5)


def information(X, alpha, sample_weight=None):
    bits = pack_columns(X, sample_weight)
    return pairwise_mutual_information(pair_counts(bits), bits.total_weight, alpha)


def close(value):
    return pytest.approx(value, abs=1e-12)


@given(tables)
def test_without_smoothing_it_is_the_mutual_information_of_the_sample(X):
    found = information(X, alpha=0.0)
    for i, j in combinations(range(X.shape[1]), 2):
        assert found[i, j] == close(mutual_info_score(X[:, i], X[:, j]))


@given(tables)
def test_smoothing_adds_one_row_of_each_kind(X):
    found = information(X, alpha=1.0)
    virtual = [[0, 0], [0, 1], [1, 0], [1, 1]]
    for i, j in combinations(range(X.shape[1]), 2):
        pair = np.vstack([X[:, [i, j]], virtual])
        assert found[i, j] == close(mutual_info_score(pair[:, 0], pair[:, 1]))


@given(tables, st.data())
def test_whole_weights_are_repetitions(X, data):
    times = data.draw(st.lists(st.integers(0, 4), min_size=len(X), max_size=len(X)))
    repeated = np.repeat(X, times, axis=0)
    assert np.array_equal(information(X, 1.0, times), information(repeated, 1.0))


def test_equal_and_opposite_columns_tie_to_the_last_bit(rng):
    X = (rng.random((300, 12)) < np.linspace(0.02, 0.6, 12)).astype(np.uint8)
    found = information(np.hstack([X, X, 1 - X]), 1.0)
    for i, j in combinations(range(12), 2):
        twins = found[np.ix_([i, i + 12, i + 24], [j, j + 12, j + 24])]
        assert np.all(twins == twins[0, 0])


def test_an_example_of_column_information():
    columns = [ColumnCode(0, [[0, 0], [1, 0], [1, 1]]), ColumnCode(2, [[0], [1]])]
    values = np.array([[0, 1, 2] * 100, [0, 1, 1] * 100], dtype=np.int32)
    assert column_information(columns, values, np.ones(300)).round(3).tolist() == [
        [0.0, 0.598],
        [0.598, 0.0],
    ]
