"""Small components of independent columns: parameters by enumeration, and answers by counting."""

import numpy as np
import pytest

from strudel.learning.mixtures.column_components import learn_column_components
from strudel.queries import log_likelihood
from strudel.tables.column_codes import ColumnCode
from strudel.trees import balanced_vtree

CODES = (
    ColumnCode(0, np.tri(4, 3, -1)),  # ordered values
    ColumnCode(3, np.eye(3)),  # categories
    ColumnCode(6, [[0], [1]]),
)
SHAPE = tuple(code.n_values for code in CODES)


def vtree_of_codes():
    from strudel.trees.column_tree import vtree_of_variables

    return vtree_of_variables(balanced_vtree(len(CODES)), CODES)


def learn(values, weight=None, **options):
    weight = np.ones(values.shape[1]) if weight is None else weight
    given = {"n_components": 8, "n_runs": 2, "rng": np.random.default_rng(0)} | options
    return learn_column_components(values, weight, CODES, vtree_of_codes(), **given)


def table_of(mixture):
    """The probability of every combination of values, from rows of their codes."""
    places = np.indices(SHAPE).reshape(len(SHAPE), -1)
    rows = np.hstack([code.codewords[own] for code, own in zip(CODES, places, strict=True)])
    return np.exp(log_likelihood(mixture, rows)).reshape(SHAPE)


def values_of(table, n_rows, seed=0):
    """Rows of values drawn from a table of probabilities, `(n_columns, n_rows)`."""
    rng = np.random.default_rng(seed)
    state = rng.choice(table.size, n_rows, p=table.ravel())
    return np.array(np.unravel_index(state, table.shape), dtype=np.int32)


@pytest.fixture(scope="module")
def truth():
    """Columns that depend on each other in pairs and as three."""
    return np.random.default_rng(3).dirichlet(np.full(24, 0.4)).reshape(SHAPE)


def test_the_values_of_all_columns_add_up_to_one(truth):
    mixture = learn(values_of(truth, 60))
    assert mixture.n_components == 16
    assert table_of(mixture).sum() == pytest.approx(1.0)


def test_one_component_has_the_shares_of_the_columns(truth):
    values = values_of(truth, 400)
    found = table_of(learn(values, n_components=1, n_runs=1))
    for axis, size in ((1, 3), (2, 2)):  # counts of ordered values also reach their neighbours
        others = tuple({0, 1, 2} - {axis})
        shares = np.bincount(values[axis], minlength=size) / values.shape[1]
        np.testing.assert_allclose(found.sum(axis=others), shares, atol=1e-3)


@pytest.mark.compiled
def test_pairs_of_columns_are_as_in_the_rows(truth):
    values = values_of(truth, 2000)
    found = table_of(learn(values, n_components=64))
    rows = np.zeros(SHAPE)
    np.add.at(rows, tuple(values), 1.0 / values.shape[1])
    for axis in range(3):
        np.testing.assert_allclose(found.sum(axis=axis), rows.sum(axis=axis), atol=0.02)


def test_a_weight_is_a_number_of_equal_rows(truth):
    values = values_of(truth, 40)
    weight = np.arange(40) % 3 + 1.0
    once = learn(values, weight, n_components=1, n_runs=1)
    often = learn(values.repeat(weight.astype(int), axis=1), n_components=1, n_runs=1)
    np.testing.assert_allclose(table_of(once), table_of(often), rtol=1e-9)


def test_what_is_unknown_counts_for_nothing(truth):
    values = values_of(truth, 300)
    hidden = values.copy()
    hidden[1, ::2] = -1
    found = table_of(learn(hidden, n_components=1, n_runs=1)).sum(axis=(0, 2))
    shares = np.bincount(values[1, 1::2], minlength=3) / 150
    np.testing.assert_allclose(found, shares, atol=2e-3)


def test_a_seed_says_the_components(truth):
    values = values_of(truth, 100)
    one, other = learn(values), learn(values)
    assert np.array_equal(one.edge_log_theta, other.edge_log_theta)
    different = learn(values, rng=np.random.default_rng(1))
    assert not np.array_equal(one.edge_log_theta, different.edge_log_theta)
