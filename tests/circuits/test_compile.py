from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from strategies import vtrees
from strudel.circuits.compile import compile_chow_liu, compile_factorized
from strudel.circuits.examples import figure_1_chow_liu_tree, figure_1_circuit
from strudel.circuits.properties import why_not_deterministic, why_not_in_normal_form
from strudel.trees.chow_liu import ChowLiuTree
from strudel.trees.vtree import balanced_vtree, linear_vtree, vtree_from_chow_liu

NONE = -1
probabilities = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0])


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
    assert why_not_in_normal_form(circuit) is None
    assert why_not_deterministic(circuit) is None


def test_the_size_is_linear():
    for n_vars in (10, 20, 40):
        parent = np.arange(-1, n_vars - 1, dtype=np.int32)
        tree = ChowLiuTree(parent, np.full((n_vars, 2), 0.5))
        assert compile_chow_liu(tree, vtree_from_chow_liu(tree)).n_edges <= 6 * n_vars


def test_figure_1_probability_matches_the_paper():
    circuit = figure_1_circuit()
    assert oracle.probability(circuit, (1, 0, 1, 0)) == pytest.approx(0.6 * 0.8 * 0.4 * 0.1)
    assert sum(oracle.probabilities(circuit)) == pytest.approx(1.0)


def test_figure_1_is_its_bayesian_network():
    tree, circuit = figure_1_chow_liu_tree(), figure_1_circuit()
    for row in oracle.all_rows(4):
        assert oracle.probability(circuit, row) == pytest.approx(bayesian_network(tree, row))


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
    assert why_not_in_normal_form(circuit) is None
    assert why_not_deterministic(circuit) is None


def test_factorised_is_uniform_by_default():
    assert oracle.probabilities(compile_factorized(balanced_vtree(3))) == pytest.approx([1 / 8] * 8)


def test_factorised_needs_one_probability_per_variable():
    with pytest.raises(ValueError, match=r"probabilities must have shape \(3,\), but has \(2,\)"):
        compile_factorized(balanced_vtree(3), [0.5, 0.5])
