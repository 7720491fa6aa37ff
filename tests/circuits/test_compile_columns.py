"""Trees over columns, compiled: every code of a small table is looked at."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from coded_tables import PlainTree, all_places, coded_tables, encode, one_hot, thermometer
from strategies import binary_tables, seeds
from strudel import Vtree, log_likelihood, sample
from strudel.circuits import compile_chow_liu
from strudel.circuits.compile_columns import compile_column_tree
from strudel.data.bits import pack_columns
from strudel.tables.column_codes import ColumnCode, as_column_codes, column_values, complete_columns
from strudel.trees import learn_chow_liu_tree, vtree_from_chow_liu
from strudel.trees.column_tree import learn_column_tree, vtree_of_columns

METHODS = ["chow_liu", "bottom_up", "top_down", "clusters", "balanced", "linear", "random"]


def learn(columns, places, weight, **options):
    bits = pack_columns(encode(columns, places), weight)
    return learn_column_tree(bits, as_column_codes(columns), **options)


@settings(max_examples=40)
@given(coded_tables(), st.sampled_from(METHODS), st.booleans())
def test_probabilities_are_products_of_tables_and_zero_elsewhere(table, method, is_independent):
    columns, places, weight = table
    tree, vtree = learn(columns, places, weight, vtree=method, is_independent=is_independent, rng=0)
    circuit = compile_column_tree(tree, vtree)
    plain = PlainTree(columns, places, weight)
    expected = {row: 0.0 for row in oracle.all_rows(circuit.n_vars)}
    for row in all_places(columns):
        bits = tuple(encode(columns, [row])[0].tolist())
        expected[bits] = plain.probability(row, tree.column_parent.tolist())
    assert sum(expected.values()) == pytest.approx(1.0)
    found = oracle.probabilities(circuit)
    assert found == pytest.approx(list(expected.values()), abs=1e-12)
    assert [p == 0.0 for p in found] == [p == 0.0 for p in expected.values()]
    assert circuit.is_smooth
    assert circuit.is_deterministic
    assert circuit.is_structured_decomposable
    assert circuit.is_in_normal_form


@settings(max_examples=30)
@given(coded_tables())
def test_the_tree_has_the_largest_worth_of_all_forests(table):
    columns, places, weight = table
    tree, _ = learn(columns, places, weight)
    plain = PlainTree(columns, places, weight)
    parents = tree.column_parent.tolist()
    worth = sum(plain.worth(c, up) for c, up in enumerate(parents) if up >= 0)
    assert worth == pytest.approx(plain.best_forest(), abs=1e-9)


@settings(max_examples=25)
@given(coded_tables(), seeds)
def test_unknown_values_leave_pairs_the_rows_that_know_both(table, seed):
    columns, places, weight = table
    is_hidden = np.random.default_rng(seed).random(places.shape) < 0.3
    rows = encode(columns, places).astype(float)
    for c, (start, words) in enumerate(columns):
        rows[np.ix_(is_hidden[:, c], range(start, start + len(words[0])))] = np.nan
    tree, vtree = learn_column_tree(rows, as_column_codes(columns), sample_weight=weight)
    circuit = compile_column_tree(tree, vtree)
    plain = PlainTree(columns, np.where(is_hidden, -1, places), weight)
    parents = tree.column_parent.tolist()
    worth = sum(plain.worth(c, up) for c, up in enumerate(parents) if up >= 0)
    assert worth == pytest.approx(plain.best_forest(), abs=1e-9)
    possible = all_places(columns)
    expected = [plain.probability(row, parents) for row in possible]
    found = np.exp(log_likelihood(circuit, encode(columns, possible)))
    assert found == pytest.approx(np.array(expected), abs=1e-12)


@given(binary_tables(max_vars=6, min_vars=2))
def test_columns_of_one_bit_give_the_chow_liu_tree(X):
    bits = pack_columns(X)
    tree = learn_chow_liu_tree(X)
    chow_liu = compile_chow_liu(tree, vtree_from_chow_liu(tree))
    column_tree, vtree = learn_column_tree(bits, complete_columns((), X.shape[1]))
    circuit = compile_column_tree(column_tree, vtree)
    assert circuit.vtree == chow_liu.vtree
    assert circuit.n_edges == chow_liu.n_edges
    rows = oracle.all_rows(X.shape[1])
    assert log_likelihood(circuit, rows) == pytest.approx(log_likelihood(chow_liu, rows))


def test_size_is_that_of_the_tables_and_of_shared_codes():
    rng = np.random.default_rng(0)
    k, n_columns = 32, 12
    places = rng.integers(0, k, size=(40, 1)).repeat(n_columns, axis=1)
    for words in (one_hot(k), thermometer(k)):
        columns = [(c * len(words[0]), words) for c in range(n_columns)]
        # Enough weight to make every dependence worth its parameters.
        tree, vtree = learn(columns, places, np.full(40, 1000.0))
        assert (tree.column_parent >= 0).sum() == n_columns - 1
        circuit = compile_column_tree(tree, vtree)
        tables = sum(table.size for table in tree.column_table)
        codes = n_columns * k * np.log2(k)
        products = 2 * k * n_columns  # where the children of a column meet
        assert tables < circuit.n_edges <= tables + 1.2 * codes + products


def test_a_dependence_that_rows_cannot_show_is_left_out():
    rng = np.random.default_rng(1)
    places = rng.integers(0, 8, size=(60, 3))
    places[:, 2] = places[:, 0]
    columns = [(7 * c, thermometer(8)) for c in range(3)]
    tree, _ = learn(columns, places, np.ones(60))
    parents = tree.column_parent.tolist()
    assert parents[1] == -1
    assert [parents[0], parents[2]] in ([-1, 0], [2, -1])


def test_completions_of_rows_are_possible():
    rng = np.random.default_rng(2)
    columns = [(0, one_hot(4)), (4, thermometer(5)), (8, [[0], [1]])]
    places = rng.integers(0, [4, 5, 2], size=(50, 3))
    circuit = compile_column_tree(*learn(columns, places, np.ones(50)))
    rows = encode(columns, places).astype(float)
    rows[:25, :4] = np.nan
    rows[10:, 4:8] = np.nan
    drawn = sample(circuit, 3, rows, random_state=0).reshape(-1, 9)
    column_values(pack_columns(drawn), as_column_codes(columns))  # else an error


@pytest.mark.parametrize("nested", [((0, (1, 2)), 3), (3, ((2, 0), 1))])
def test_a_vtree_may_be_given(nested):
    vtree = Vtree.from_nested(nested)
    columns, places = [(0, one_hot(3)), (3, [[0], [1]])], [[0, 1], [1, 1], [2, 0]]
    tree, same = learn(columns, np.array(places), np.ones(3), vtree=vtree)
    assert same is vtree
    circuit = compile_column_tree(tree, vtree)
    assert sum(p > 0 for p in oracle.probabilities(circuit)) == 6


def test_a_vtree_that_mixes_columns_is_refused():
    columns = as_column_codes([(0, one_hot(3)), (3, [[0], [1]])])
    with pytest.raises(ValueError, match="variables 0 to 2 have none"):
        vtree_of_columns(Vtree.from_nested(((0, 3), (1, 2))), columns)
    with pytest.raises(ValueError, match="3 variables, but the columns have 4"):
        vtree_of_columns(Vtree.from_nested((0, (1, 2))), columns)


def test_columns_say_what_is_wrong_with_them():
    with pytest.raises(ValueError, match="variable 2 must differ"):
        ColumnCode(2, [[0, 1], [0, 1]])
    with pytest.raises(ValueError, match="only 0 and 1"):
        ColumnCode(0, [[0, 2]])
    with pytest.raises(ValueError, match="a row for every value"):
        ColumnCode(0, [0, 1])
    with pytest.raises(ValueError, match="variables 1 to 2"):
        complete_columns([ColumnCode(0, one_hot(3)), ColumnCode(1, one_hot(2))], 5)
    with pytest.raises(ValueError, match="within the 3 variables"):
        complete_columns([ColumnCode(2, one_hot(2))], 3)
    with pytest.raises(ValueError, match=r"Row 1 of the training rows holds \[1, 1\]"):
        column_values(pack_columns([[1, 0], [1, 1]]), [ColumnCode(0, one_hot(2))])


def test_columns_without_variables_are_left_out():
    columns = complete_columns([ColumnCode(0, np.zeros((1, 0))), ColumnCode(1, one_hot(2))], 3)
    assert [(column.start, column.stop) for column in columns] == [(0, 1), (1, 3)]


def test_an_example_of_compile_column_tree():
    columns = [ColumnCode(0, [[0], [1]]), ColumnCode(1, [[0, 0], [1, 0], [1, 1]])]
    bits = pack_columns([[0, 0, 0], [1, 1, 0], [1, 1, 1]] * 5)
    circuit = compile_column_tree(*learn_column_tree(bits, columns))
    assert log_likelihood(circuit, [[1, 1, 0], [1, 0, 1]]).round(2).tolist() == [-1.21, -np.inf]
