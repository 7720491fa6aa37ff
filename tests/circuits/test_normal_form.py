"""Graphs of sums and products into normal form, on given and on recovered vtrees."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from makers import graph_value, random_graph
from strategies import seeds, vtrees
from strudel.circuits.sum_product_graph import SumProductGraph, normal_form, recover_vtree
from strudel.errors import GraphError
from strudel.trees.vtree import Vtree, balanced_vtree, linear_vtree


@given(vtrees(max_vars=6), seeds)
def test_every_row_keeps_its_value(vtree, seed):
    graph = random_graph(vtree, random.Random(seed))
    for tree in (vtree, recover_vtree(graph)):
        circuit = normal_form(graph, tree)
        for row in oracle.all_rows(vtree.n_vars):
            assert oracle.probability(circuit, row) == pytest.approx(
                graph_value(graph, row), abs=1e-12
            )


def literals(graph, n_vars):
    return [graph.add_literal(2 * var + 1) for var in range(n_vars)]


def test_factors_stay_from_left_to_right():
    graph = SumProductGraph()
    a, b, c = literals(graph, 3)
    graph.add_product([graph.add_product([c, a]), b])
    assert recover_vtree(graph).to_nested() == ((2, 0), 1)


def test_scopes_that_cross_without_smoothness_are_grouped():
    graph = SumProductGraph()
    a, b, c, d = literals(graph, 4)
    # {a, c} and {a, d} must each stay together below the product with b: only (b, ...) does that.
    first = graph.add_product([b, graph.add_product([a, c])])
    second = graph.add_product([b, graph.add_product([a, d])])
    graph.add_sum([first, second], [0.0, 0.0])
    vtree = recover_vtree(graph)
    circuit = normal_form(graph, vtree, fill=True)
    for row in oracle.all_rows(4):
        assert oracle.probability(circuit, row) == graph_value(graph, row)


def test_products_that_follow_no_vtree_are_refused():
    graph = SumProductGraph()
    a, b, c, d = literals(graph, 4)
    first = graph.add_product([graph.add_product([a, b]), graph.add_product([c, d])])
    second = graph.add_product([graph.add_product([a, c]), graph.add_product([b, d])])
    graph.add_sum([first, second], [math.log(0.5)] * 2)
    with pytest.raises(GraphError, match="no common vtree"):
        recover_vtree(graph)
    with pytest.raises(GraphError, match="follow the vtree"):
        normal_form(graph, Vtree.from_nested(((0, 1), (2, 3))), fill=True)


def test_a_graph_that_is_not_smooth_is_refused_unless_filled():
    graph = SumProductGraph()
    a, b = literals(graph, 2)
    graph.add_sum([graph.add_product([a, b]), a], [math.log(0.5)] * 2)
    with pytest.raises(GraphError, match="does not mention variable 2"):
        normal_form(graph, linear_vtree(2))
    filled = normal_form(graph, linear_vtree(2), fill=True)
    assert oracle.probabilities(filled, oracle.all_rows(2)) == [0, 0, 0.5, 1]


def test_shared_variables_are_refused():
    graph = SumProductGraph()
    a, b = literals(graph, 2)
    graph.add_product([a, graph.add_product([b, a])])
    with pytest.raises(GraphError, match="share variable 1"):
        recover_vtree(graph)
    with pytest.raises(GraphError):
        normal_form(graph, linear_vtree(2))


def test_a_variable_that_is_missing_is_named():
    graph = SumProductGraph()
    graph.add_product([graph.add_literal(0), graph.add_literal(4)])
    with pytest.raises(GraphError, match="variable 3 but not variable 2"):
        recover_vtree(graph)
    assert recover_vtree(graph, n_vars=4).n_vars == 4


def test_sums_of_sums_of_sums_stay_small():
    graph = SumProductGraph()
    a, b = literals(graph, 2)
    x, y = graph.add_product([a, b]), graph.add_product([graph.add_literal(0), b])
    for _ in range(60):  # 2 ** 60 ways from the root down
        x, y = (graph.add_sum([x, y], [math.log(p), math.log(1 - p)]) for p in (0.3, 0.8))
    circuit = normal_form(graph, linear_vtree(2))
    assert circuit.n_edges == 2
    assert np.exp(circuit.edge_log_theta).sum() == pytest.approx(1.0)


def test_growth_without_end_is_refused(monkeypatch):
    monkeypatch.setattr("strudel.circuits.sum_product_graph.MAX_EDGES", 100)
    graph = SumProductGraph()
    graph.add_product(literals(graph, 1))
    with pytest.raises(GraphError, match="more than 100 edges"):
        normal_form(graph, balanced_vtree(100), fill=True)


@given(st.integers(1, 6))
def test_true_and_false(n_vars):
    graph = SumProductGraph()
    graph.add_product([])
    everything = normal_form(graph, linear_vtree(n_vars), fill=True)
    assert oracle.probabilities(everything) == [1.0] * 2**n_vars
    graph.add_sum([], [])
    assert normal_form(graph, linear_vtree(n_vars), fill=True) is None
