"""Components learned from pairs of columns: parameters by enumeration, and answers by counting."""

import numpy as np
import pytest

from strudel.learning.mixtures.pair_components import learn_pair_components
from strudel.queries import log_likelihood
from strudel.tables.column_codes import ColumnCode
from strudel.trees import balanced_vtree
from strudel.trees.column_tree import vtree_of_variables

CODES = (
    ColumnCode(0, np.tri(4, 3, -1)),  # ordered values
    ColumnCode(3, np.eye(3)),  # categories
    ColumnCode(6, [[0], [1]]),
)
SHAPE = tuple(code.n_values for code in CODES)


def learn(values, weight=None, codes=CODES, **options):
    weight = np.ones(values.shape[1]) if weight is None else weight
    vtree = vtree_of_variables(balanced_vtree(len(codes)), codes)
    given = {"n_components": 16, "rng": np.random.default_rng(0)} | options
    return learn_pair_components(values, weight, codes, vtree, **given)


def table_of(mixture, codes=CODES):
    """The probability of every combination of values, from rows of their codes."""
    shape = tuple(code.n_values for code in codes)
    places = np.indices(shape).reshape(len(shape), -1)
    rows = np.hstack([code.codewords[own] for code, own in zip(codes, places, strict=True)])
    return np.exp(log_likelihood(mixture, rows)).reshape(shape)


def values_of(table, n_rows, seed=0):
    """Rows of values drawn from a table of probabilities, `(n_columns, n_rows)`."""
    state = np.random.default_rng(seed).choice(table.size, n_rows, p=table.ravel())
    return np.array(np.unravel_index(state, table.shape), dtype=np.int32)


@pytest.fixture(scope="module")
def truth():
    """Columns that depend on each other in pairs and as three."""
    return np.random.default_rng(3).dirichlet(np.full(24, 0.4)).reshape(SHAPE)


def test_the_values_of_all_columns_add_up_to_one(truth):
    mixture = learn(values_of(truth, 60))
    assert mixture.n_components == 16
    assert mixture.known is None
    assert table_of(mixture).sum() == pytest.approx(1.0)


def test_one_component_has_the_shares_of_the_columns(truth):
    values = values_of(truth, 400)
    found = table_of(learn(values, n_components=1))
    for axis in range(3):
        others = tuple({0, 1, 2} - {axis})
        shares = np.bincount(values[axis], minlength=SHAPE[axis]) / values.shape[1]
        np.testing.assert_allclose(found.sum(axis=others), shares, atol=2e-3)


@pytest.mark.compiled
def test_pairs_of_columns_are_as_in_the_rows(truth):
    values = values_of(truth, 2000)
    found = table_of(learn(values, n_components=64))
    rows = np.zeros(SHAPE)
    np.add.at(rows, tuple(values), 1.0 / values.shape[1])
    for axis in range(3):
        np.testing.assert_allclose(found.sum(axis=axis), rows.sum(axis=axis), atol=0.003)


@pytest.mark.compiled
def test_three_columns_are_as_in_the_rows_though_no_two_depend_on_each_other():
    """An alarm rings if one of two doors is open; many other columns know nothing of it."""
    codes = [ColumnCode(var, [[0], [1]]) for var in range(10)]
    values = np.random.default_rng(0).integers(0, 2, (10, 3000)).astype(np.int32)
    values[9] = values[2] != values[5]
    found = table_of(learn(values, codes=codes, n_components=200), codes)
    seen = found.sum(axis=(0, 1, 3, 4, 6, 7, 8))  # of the doors and the alarm
    assert np.abs(seen[1, 0] / seen[1, 0].sum() - [0, 1]).max() < 0.05
    assert np.abs(seen[1, 1] / seen[1, 1].sum() - [1, 0]).max() < 0.05


def test_a_weight_is_a_number_of_equal_rows(truth):
    values = values_of(truth, 40)
    weight = np.arange(40) % 3 + 1.0
    once = learn(values, weight, n_components=1)
    often = learn(values.repeat(weight.astype(int), axis=1), n_components=1)
    np.testing.assert_allclose(table_of(once), table_of(often), atol=2e-3)


@pytest.mark.compiled
def test_components_know_how_often_a_value_is_missing(truth):
    values = values_of(truth, 3000)
    hidden = values.copy()
    hidden[1, values[2] == 1] = -1  # a category is known where the last column is 0
    mixture = learn(hidden, n_components=64)
    known = mixture.known[CODES[1].start] * mixture.weights
    assert known.sum() == pytest.approx((values[2] == 0).mean(), abs=0.01)
    np.testing.assert_allclose(mixture.known[CODES[0].start], 1.0)
    kept = np.log(np.maximum(known / known.sum(), 1e-300))
    among_known = table_of(type(mixture)(mixture.structure, mixture.edge_log_theta, kept))
    rows = np.zeros(SHAPE)
    np.add.at(rows, tuple(values[:, values[2] == 0]), 1.0 / (values[2] == 0).sum())
    np.testing.assert_allclose(among_known.sum(axis=0), rows.sum(axis=0), atol=0.01)


def test_a_seed_says_the_components(truth):
    values = values_of(truth, 100)
    one, other = learn(values), learn(values)
    assert np.array_equal(one.edge_log_theta, other.edge_log_theta)
    different = learn(values, rng=np.random.default_rng(1))
    assert not np.array_equal(one.edge_log_theta, different.edge_log_theta)


def test_time_that_is_up_leaves_components_that_add_up_to_one(truth):
    class Up:
        is_up = True

    assert table_of(learn(values_of(truth, 60), clock=Up())).sum() == pytest.approx(1.0)
