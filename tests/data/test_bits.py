from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import binary_tables, weights
from strudel.data.bits import (
    LARGEST_TABLE,
    exact_weights,
    merge_equal_rows,
    pack_columns,
    pack_rows,
    pair_counts,
    x_log_x,
    x_log_x_in,
    x_log_x_of,
    x_log_x_table,
)

tables = binary_tables(max_rows=150, max_vars=5)  # past two words


def ones(line):
    """The places of the ones, as a set."""
    return {place for place, cell in enumerate(line) if cell}


def ones_of_words(words):
    return {
        64 * w + bit for w, word in enumerate(words) for bit in range(64) if int(word) >> bit & 1
    }


@given(tables)
def test_a_packed_column_is_the_set_of_its_rows(X):
    bits = pack_columns(X)
    assert bits.words.dtype == np.uint64
    assert bits.words.flags.c_contiguous
    assert [ones_of_words(words) for words in bits.words] == [ones(column) for column in X.T]


@given(tables)
def test_a_packed_row_is_the_set_of_its_variables(X):
    assert [ones_of_words(words) for words in pack_rows(X)] == [ones(row) for row in X]


@given(tables)
def test_unpack_undoes_pack(X):
    unpacked = pack_columns(X).unpack()
    assert unpacked.dtype == np.uint8
    assert unpacked.flags.c_contiguous
    assert np.array_equal(unpacked, X)


@pytest.mark.parametrize("n_rows", [0, 1, 63, 64, 65, 128])
def test_sizes_around_a_word(n_rows):
    bits = pack_columns(np.ones((n_rows, 2), dtype=np.uint8))
    assert (bits.n_rows, bits.n_vars) == (n_rows, 2)
    assert bits.words.shape == (2, math.ceil(n_rows / 64))
    assert ones_of_words(bits.words[1]) == set(range(n_rows))
    assert bits.unpack().shape == (n_rows, 2)


def test_booleans_lists_and_other_layouts_pack_alike():
    X = [[1, 0, 1], [0, 0, 1]]
    expected = pack_columns(np.array(X, dtype=np.uint8)).words
    for same in (X, np.array(X, dtype=bool), np.asfortranarray(X), np.array(X)[:, ::-1][:, ::-1]):
        assert np.array_equal(pack_columns(same).words, expected)


def test_weights_default_to_one_per_row():
    bits = pack_columns([[0], [1], [1]])
    assert bits.row_weight is None
    assert bits.total_weight == 3.0
    assert bits.weights.tolist() == [1.0, 1.0, 1.0]


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=40).filter(any), st.randoms())
def test_sums_of_exact_weights_do_not_depend_on_their_order(values, random):
    weight = exact_weights(values).tolist()
    shuffled = random.sample(weight, len(weight))
    assert sum(shuffled) == math.fsum(weight) == sum(map(Fraction, weight))


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=40))
def test_whole_weights_do_not_change(values):
    assert exact_weights(values).tolist() == values


def test_weights_next_to_the_smallest_number_survive():
    assert exact_weights([5e-324, 1e-323]).tolist() == [5e-324, 1e-323]


@given(binary_tables(max_rows=90, max_vars=3), st.data())
def test_merging_counts_equal_rows(X, data):
    weight = data.draw(st.none() | weights(len(X)))
    bits = pack_columns(X, weight)
    merged, place = merge_equal_rows(bits)

    rows = [tuple(row) for row in X.tolist()]
    distinct = list(dict.fromkeys(rows))  # in order of first appearance
    assert [tuple(row) for row in merged.unpack().tolist()] == distinct
    assert [distinct[i] for i in place] == rows
    expected = Counter()
    for row, w in zip(rows, bits.weights.tolist(), strict=True):
        expected[row] += w
    assert merged.weights.tolist() == [expected[row] for row in distinct]
    assert merged.total_weight == bits.total_weight


@given(tables)
def test_counts_are_the_table_times_itself(X):
    expected = X.T.astype(int) @ X.astype(int)
    assert np.array_equal(pair_counts(pack_columns(X)), expected)


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


@pytest.mark.parametrize("x", [0.25, 1.0, 7.0, 1e6])
def test_numbers_and_arrays_agree_with_the_formula(x):
    assert x_log_x(x) == pytest.approx(x * log(x))
    assert x_log_x_of(np.array([x]))[0] == pytest.approx(x * log(x))


def test_a_table_of_whole_weights_says_the_same_to_the_last_digit():
    table = x_log_x_table(np.array([3.0, 40.0, 7.0]))
    assert len(table) == 51
    assert [x_log_x_in(table, float(x)) for x in range(51)] == [
        x_log_x(float(x)) for x in range(51)
    ]


def test_other_weights_have_no_table():
    table = x_log_x_table(np.array([0.5, 2.0]))
    assert len(table) == 0
    assert len(x_log_x_table(np.array([float(LARGEST_TABLE)]))) == 0
    assert x_log_x_in(table, 2.5) == x_log_x(2.5)
