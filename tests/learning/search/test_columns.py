"""Searches that start from a tree over columns: what is no code stays impossible."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from coded_tables import coded_tables, encode, one_hot, possible_rows, thermometer
from makers import search_options
from strategies import binary_tables
from strudel import log_likelihood
from strudel.circuits import why_not_deterministic
from strudel.data import pack_columns
from strudel.learning import SearchOptions, learn_structure
from strudel.learning.bits.fold import folded
from strudel.learning.search.learn_structure import first_circuit

SEARCHES = [
    {"search": "greedy"},
    {"search": "greedy", "variable_score": "gain", "smoothing": "hierarchical"},
    {"search": "best_first", "vtree": "bottom_up"},
    {"search": "learnpsdd"},
]


def assert_possible(circuit, columns):
    """Exactly the codes have a chance, and all of them together have every chance."""
    rows = oracle.all_rows(circuit.vtree.n_vars)
    p = np.exp(log_likelihood(circuit, rows))
    assert p.sum() == pytest.approx(1.0)
    assert {row for row, one in zip(rows, p, strict=True) if one > 0} == possible_rows(columns)


@pytest.mark.compiled
@settings(max_examples=8)
@given(coded_tables(max_columns=5, max_vars=9, max_rows=60), st.data())
@pytest.mark.parametrize("options", SEARCHES, ids=lambda one: one["search"])
def test_searches_keep_impossible_codes_impossible(options, table, data):
    columns, places, weight = table
    rows = pack_columns(encode(columns, places), weight)
    search = search_options(
        columns=columns, max_splits=data.draw(st.sampled_from([0, 3, 12])), **options
    )
    circuit, _ = learn_structure(rows, rows, search=search, rng=0)
    assert_possible(circuit, columns)
    assert why_not_deterministic(circuit) is None


def table_of(n_rows, seed=0):
    """Four columns that depend on a hidden one, in a way no tree shows."""
    rng = np.random.default_rng(seed)
    columns = [(0, one_hot(3)), (3, thermometer(4)), (6, [[0], [1]]), (7, one_hot(3))]
    hidden = rng.integers(0, 3, size=n_rows)
    noise = rng.random((n_rows, 4)) < 0.2
    values = np.stack([hidden, hidden + 1, hidden // 2, (hidden + 1) % 3], axis=1)
    return columns, encode(columns, np.where(noise, rng.integers(0, [3, 4, 2, 3]), values))


@pytest.mark.compiled
def test_a_race_of_searches_on_vtrees_of_columns():
    columns, X = table_of(600)
    for options in ({"search": "race"}, {"vtree": "auto"}):
        search = search_options(columns=columns, max_splits=30, **options)
        circuit, _ = learn_structure(X[:500], X[500:], search=search, rng=0)
        assert_possible(circuit, columns)


@pytest.mark.compiled
def test_knowing_the_codes_helps():
    columns, X = table_of(800)
    train, valid, test = X[:60], X[60:100], X[100:]
    known, _ = learn_structure(train, valid, search=SearchOptions(columns=columns))
    unknown, _ = learn_structure(train, valid)
    assert log_likelihood(known, test).mean() > log_likelihood(unknown, test).mean() + 0.05


@given(binary_tables(max_vars=5), st.sampled_from(["chow_liu", "bottom_up"]), st.booleans())
def test_bits_alone_start_as_without_columns(X, method, is_independent):
    init = "independent" if is_independent else "chow_liu"
    plain = SearchOptions(vtree=method, init=init)
    columns = [(var, [[0], [1]]) for var in range(X.shape[1])]
    coded = SearchOptions(vtree=method, init=init, columns=columns)
    one, other = (first_circuit(pack_columns(X), search) for search in (plain, coded))
    assert one.vtree == other.vtree
    assert np.array_equal(one.edge_left, other.edge_left)
    assert np.array_equal(one.edge_right, other.edge_right)
    assert np.array_equal(one.edge_log_theta, other.edge_log_theta)


def test_variables_of_no_column_are_free():
    X = np.array([[0, 1, 0, 0], [1, 0, 1, 1], [1, 1, 0, 1]], dtype=np.uint8)
    start = first_circuit(pack_columns(X), SearchOptions(columns=[(1, one_hot(2))]))
    assert_possible(folded(start), [(0, [[0], [1]]), (1, one_hot(2)), (3, [[0], [1]])])


@pytest.mark.parametrize("n_rows", [1, 3])
def test_few_rows_and_columns_that_tell_nothing(n_rows):
    columns = [
        (0, one_hot(3)),  # two values are never seen
        (3, [[1]]),  # has one value only
        (4, [[0, 1]]),
        (6, thermometer(3)),
        (8, [[0], [1]]),
    ]
    X = encode(columns, [[0, 0, 0, row % 3, 0] for row in range(n_rows)])
    for options in ({}, {"search": "learnpsdd"}, {"search": "best_first"}):
        search = search_options(columns=columns, max_splits=4, **options)
        circuit, _ = learn_structure(X, search=search)
        assert_possible(circuit, columns)


def test_a_table_of_nothing_but_one_value():
    for words in ([[1]], [[0, 1]]):
        X = np.array(words * 5, dtype=np.uint8)
        circuit, _ = learn_structure(X, X, search=SearchOptions(columns=[(0, words)]))
        assert_possible(circuit, [(0, words)])


def test_rows_that_are_no_code_are_refused():
    columns, X = table_of(20)
    wrong = X.copy()
    wrong[7, :3] = 0
    search = SearchOptions(columns=columns, max_splits=1)
    with pytest.raises(ValueError, match=r"Row 7 of the training rows holds \[0, 0, 0\]"):
        learn_structure(wrong, X, search=search)
    with pytest.raises(ValueError, match="Row 7 of the validation rows"):
        learn_structure(X, wrong, search=search)
