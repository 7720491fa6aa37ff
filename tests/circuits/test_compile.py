from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from coded_tables import PlainTree, all_places, coded_tables, encode, one_hot, thermometer
from strategies import binary_tables, seeds, vtrees
from strudel import Strudel, Vtree, log_likelihood
from strudel.circuits import compile_chow_liu, compile_factorized, why_not_deterministic
from strudel.circuits.compile import figure_1_chow_liu_tree
from strudel.data.bits import pack_columns
from strudel.errors import NothingKnownWarning
from strudel.learning.bits.compile import compile_column_tree
from strudel.learning.bits.fold import folded
from strudel.learning.bits.likelihood import rows_log_likelihood
from strudel.tables import TableEncoder
from strudel.tables.column_codes import ColumnCode, as_column_codes, column_values, complete_columns
from strudel.trees import learn_chow_liu_tree
from strudel.trees.chow_liu import ChowLiuTree
from strudel.trees.column_tree import learn_column_tree, vtree_of_columns
from strudel.trees.vtree import balanced_vtree, linear_vtree, vtree_from_chow_liu

NONE = -1
probabilities = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0])
METHODS = ["chow_liu", "bottom_up", "top_down", "clusters", "balanced", "linear", "random"]


@st.composite
def chow_liu_trees(draw, max_vars=6):
    """Any forest over the variables, any tables."""
    n_vars = draw(st.integers(1, max_vars))
    order = draw(st.permutations(range(n_vars)))
    parent, theta = [NONE] * n_vars, [None] * n_vars
    for place, var in enumerate(order):
        above = draw(st.integers(-1, place - 1))
        parent[var] = NONE if above < 0 else order[above]
        given_0, given_1 = draw(probabilities), draw(probabilities)
        theta[var] = [given_1, given_1] if above < 0 else [given_0, given_1]
    return ChowLiuTree(np.array(parent, dtype=np.int32), np.array(theta))


def bayesian_network(tree, row):
    """The product of the conditional tables."""
    probability = 1.0
    for var, up in enumerate(tree.var_parent):
        one = tree.var_theta[var][row[up] if up != NONE else 0]
        probability *= one if row[var] else 1.0 - one
    return probability


@pytest.mark.parametrize("shape", ["balanced", "linear"])
@given(tree=chow_liu_trees())
def test_a_compiled_tree_has_the_distribution_of_the_bayesian_network(shape, tree):
    circuit = compile_chow_liu(tree, vtree_from_chow_liu(tree, shape))
    for row in oracle.all_rows(tree.n_vars):
        expected = bayesian_network(tree, row)
        assert math.isclose(oracle.probability(circuit, row), expected, abs_tol=1e-15)


@given(chow_liu_trees(max_vars=8))
def test_a_compiled_tree_has_all_properties(tree):
    circuit = compile_chow_liu(tree, vtree_from_chow_liu(tree))
    assert why_not_deterministic(replace(circuit)) is None


def test_a_tree_and_a_vtree_of_different_sizes():
    with pytest.raises(ValueError, match="The tree has 4 variables, but the vtree has 3"):
        compile_chow_liu(figure_1_chow_liu_tree(), balanced_vtree(3))


def test_a_vtree_that_was_not_made_from_the_tree():
    with pytest.raises(
        ValueError, match=r"does not fit the tree: the parts of variables .* meet in it"
    ):
        compile_chow_liu(figure_1_chow_liu_tree(), linear_vtree(4))


@given(vtrees(max_vars=6), st.data())
def test_factorised_is_the_product_of_the_variables(vtree, data):
    size = {"min_size": vtree.n_vars, "max_size": vtree.n_vars}
    theta = data.draw(st.lists(st.floats(0.0, 1.0), **size))
    circuit = compile_factorized(vtree, theta)
    for row in oracle.all_rows(vtree.n_vars):
        expected = math.prod(p if x else 1.0 - p for x, p in zip(row, theta, strict=True))
        assert oracle.probability(circuit, row) == pytest.approx(expected, rel=1e-9, abs=1e-300)
    assert why_not_deterministic(replace(circuit)) is None


def test_factorised_needs_one_probability_per_variable():
    with pytest.raises(ValueError, match=r"probabilities must have shape \(3,\), but has \(2,\)"):
        compile_factorized(balanced_vtree(3), [0.5, 0.5])


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
    expected = {row: 0.0 for row in oracle.all_rows(circuit.vtree.n_vars)}
    for row in all_places(columns):
        bits = tuple(encode(columns, [row])[0].tolist())
        expected[bits] = plain.probability(row, tree.column_parent.tolist())
    assert sum(expected.values()) == pytest.approx(1.0)
    found = oracle.probabilities(circuit)
    assert found == pytest.approx(list(expected.values()), abs=1e-12)
    assert [p == 0.0 for p in found] == [p == 0.0 for p in expected.values()]
    assert why_not_deterministic(replace(folded(circuit))) is None


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
    found = np.exp(rows_log_likelihood(circuit, encode(columns, possible)))
    assert found == pytest.approx(np.array(expected), abs=1e-12)


@given(binary_tables(max_vars=6, min_vars=2))
def test_columns_of_one_bit_give_the_chow_liu_tree(X):
    bits = pack_columns(X)
    tree = learn_chow_liu_tree(X)
    chow_liu = compile_chow_liu(tree, vtree_from_chow_liu(tree))
    column_tree, vtree = learn_column_tree(bits, complete_columns((), X.shape[1]))
    circuit = compile_column_tree(column_tree, vtree)
    assert circuit.vtree == chow_liu.vtree
    circuit = folded(circuit)
    assert circuit.size == chow_liu.size
    rows = oracle.all_rows(X.shape[1])
    assert log_likelihood(circuit, rows) == pytest.approx(log_likelihood(chow_liu, rows))


def test_a_dependence_that_rows_cannot_show_is_left_out():
    rng = np.random.default_rng(1)
    places = rng.integers(0, 8, size=(60, 3))
    places[:, 2] = places[:, 0]
    columns = [(7 * c, thermometer(8)) for c in range(3)]
    tree, _ = learn(columns, places, np.ones(60))
    parents = tree.column_parent.tolist()
    assert parents[1] == -1
    assert [parents[0], parents[2]] in ([-1, 0], [2, -1])


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


@pytest.mark.parametrize("value", [0, 1])
def test_a_single_column_of_one_value_is_certain(value):
    rows = np.full((20, 1), value, dtype=np.uint8)
    tree, vtree = learn_column_tree(pack_columns(rows), [ColumnCode(0, [[value]])])
    circuit = compile_column_tree(tree, vtree)
    assert oracle.probabilities(circuit, [[value], [1 - value]]) == [1.0, 0.0]


def test_a_table_of_one_value_and_gaps_is_certain():
    X = pd.DataFrame({"colour": ["red", None] * 10})
    with pytest.warns(NothingKnownWarning, match="without a known value are left out"):
        model = Strudel(n_components=1, columns=TableEncoder(), random_state=0).fit(X)
    assert model.log_marginal({"colour": "red"}) == pytest.approx(0.0)
    assert model.log_marginal({}) == pytest.approx(0.0)
