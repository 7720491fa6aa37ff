"""Facts about where the parts of a drawing go."""

import numpy as np
import pytest

from strudel.circuits import figure_1_circuit
from strudel.circuits.builder import CircuitBuilder
from strudel.circuits.compile import compile_chow_liu, compile_factorized
from strudel.plotting.layout import drawn_circuit, layout_circuit
from strudel.queries.given import circuit_of
from strudel.trees.chow_liu import learn_chow_liu_tree
from strudel.trees.vtree import Vtree, balanced_vtree, vtree_from_chow_liu


def learned_tree_circuit(n_vars=7):
    rows = np.random.default_rng(1).integers(0, 2, size=(50, n_vars))
    tree = learn_chow_liu_tree(rows)
    return compile_chow_liu(tree, vtree_from_chow_liu(tree))


@pytest.mark.parametrize(
    "make",
    [
        figure_1_circuit,
        learned_tree_circuit,
        lambda: compile_factorized(balanced_vtree(5)),
        lambda: compile_factorized(balanced_vtree(1)),
    ],
)
def test_every_edge_has_its_lines_and_parameter_and_every_mark_its_place(make):
    circuit = drawn_circuit(circuit_of(make()))
    layout = layout_circuit(circuit)
    n_lines = np.bincount(layout.line_edge, minlength=circuit.n_edges)
    width = np.diff(circuit.node_edges)[circuit.edge_parent]
    expected = np.where(circuit.edge_right < 0, 1, np.where(width > 1, 3, 2))
    assert n_lines.tolist() == expected.tolist()
    assert np.all(layout.mark_x[layout.line_start] < layout.mark_x[layout.line_end])
    for x in np.unique(layout.mark_x):
        heights = np.sort(layout.mark_y[layout.mark_x == x])
        assert np.all(np.diff(heights) > 0.99)
    is_written = ~np.isnan(layout.line_theta)
    edges = layout.line_edge[is_written]
    assert np.allclose(layout.line_theta[is_written], circuit.theta[edges])
    assert np.all(width[edges] > 1)


def test_a_literal_used_by_a_product_and_by_a_sum_is_drawn_once_for_each():
    builder = CircuitBuilder(Vtree.from_nested((0, 1)))
    mixed = builder.add_leaf_sum(1, 0.3)
    on, off = builder.literal(0, 1), builder.literal(0, 0)
    root = builder.add_sum([(on, builder.literal(1, 1), 0.5), (off, mixed, 0.5)])
    layout = layout_circuit(drawn_circuit(circuit_of(builder.build(root))))
    assert layout.mark_label.count("x1") == 2
    assert layout.mark_label.count("¬x1") == 1
