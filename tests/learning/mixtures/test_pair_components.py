"""Components learned from pairs of columns: parameters by enumeration, and answers by counting."""

import numpy as np
import pytest

from column_circuits import as_bits
from strudel.circuits.compile import compile_factorized
from strudel.learning.bits.fold import folded
from strudel.learning.bits.mixture import as_mixture
from strudel.learning.mixtures import pair_components
from strudel.learning.mixtures.pair_components import learn_pair_components
from strudel.queries import log_likelihood, log_marginal
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
    return learn_pair_components(values, weight, codes, vtree, **given).mixture


def doors(n_columns, n_rows=4000, p=0.5, seed=0):
    """An alarm rings if one of two doors is open but not both; other columns know nothing of it."""
    values = (np.random.default_rng(seed).random((n_columns, n_rows)) < p).astype(np.int32)
    values[-1] = values[2] != values[5]
    return values


def table_of(mixture, codes=CODES):
    """The probability of every combination of values, from rows of their codes."""
    shape = tuple(code.n_values for code in codes)
    places = np.indices(shape).reshape(len(shape), -1)
    rows = np.hstack([code.codewords[own] for code, own in zip(codes, places, strict=True)])
    return np.exp(log_likelihood(folded(mixture), rows)).reshape(shape)


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


@pytest.mark.compiled
def test_pairs_of_columns_are_as_in_the_rows(truth):
    values = values_of(truth, 2000)
    found = table_of(learn(values, n_components=64))
    rows = np.zeros(SHAPE)
    np.add.at(rows, tuple(values), 1.0 / values.shape[1])
    for axis in range(3):
        np.testing.assert_allclose(found.sum(axis=axis), rows.sum(axis=axis), atol=0.003)


@pytest.mark.compiled
@pytest.mark.parametrize(("n_columns", "p"), [(10, 0.5), (10, 0.8), (60, 0.55)])
def test_three_columns_are_as_in_the_rows_though_no_two_depend_on_each_other(n_columns, p):
    codes = [ColumnCode(var, [[0], [1]]) for var in range(n_columns)]
    mixture = learn(doors(n_columns, p=p), codes=codes, n_components=200)
    rows = np.full((8, n_columns), np.nan)
    rows[:, [2, 5, n_columns - 1]] = np.indices((2, 2, 2)).reshape(3, 8).T
    seen = np.exp(log_marginal(folded(mixture), rows)).reshape(2, 2, 2)
    rings = seen[:, :, 1] / seen.sum(axis=2)
    np.testing.assert_allclose(rings, [[0.0, 1.0], [1.0, 0.0]], atol=0.05)


@pytest.mark.compiled
def test_equal_rows_with_their_number_say_as_much_of_three_columns():
    codes = [ColumnCode(var, [[0], [1]]) for var in range(6)]
    values = np.random.default_rng(0).integers(0, 2, (6, 4000)).astype(np.int32)
    values[5] = values[0] != values[1]
    distinct, counts = np.unique(values, axis=1, return_counts=True)
    vtree, rng = vtree_of_variables(balanced_vtree(6), codes), np.random.default_rng(0)
    found = learn_pair_components(
        distinct, counts.astype(float), codes, vtree, n_components=16, rng=rng
    )
    assert [one.columns for one in found.triples] == [(0, 1, 5)]
    assert found.triples[0].counts.sum() == pytest.approx(4000)


@pytest.mark.compiled
def test_a_triple_says_which_models_have_lost_it():
    codes = [ColumnCode(var, [[0], [1]]) for var in range(8)]
    vtree = vtree_of_variables(balanced_vtree(8), codes)
    values = doors(8)
    rng = np.random.default_rng(0)
    found = learn_pair_components(values, np.ones(4000), codes, vtree, n_components=200, rng=rng)
    assert [one.columns for one in found.triples] == [(2, 5, 7)]
    assert not found.triples[0].is_lost_by(found.mixture)
    independent = as_mixture(as_bits(compile_factorized(vtree, values.mean(axis=1))))
    assert found.triples[0].is_lost_by(independent)


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


def test_what_time_does_not_allow_is_not_learned(truth):
    class Up:
        is_up = True

    vtree = vtree_of_variables(balanced_vtree(3), CODES)
    values, rng = values_of(truth, 60), np.random.default_rng(0)
    weight = np.ones(60)
    assert not learn_pair_components(
        values, weight, CODES, vtree, n_components=16, rng=rng, clock=Up()
    )


def test_a_sample_of_many_rows_is_drawn_by_weight(truth, monkeypatch):
    monkeypatch.setattr(pair_components, "MOST_ROWS", 1000)
    values = np.zeros((3, 3000), dtype=np.int32)
    values[0, 0], weight = 3, np.ones(3000)
    weight[0] = 3000.0  # half of all
    table = table_of(learn(values, weight, n_components=4))
    assert table.sum(axis=(1, 2))[3] == pytest.approx(0.5, abs=0.05)
