"""Facts about Graphviz text."""

import pytest

from strudel.circuits.compile import figure_1_chow_liu_tree, figure_1_circuit
from strudel.plotting.dot import quote, to_dot
from strudel.trees.vtree import Vtree


def test_circuit_has_a_mark_for_every_sum_with_a_choice_and_every_product():
    text = to_dot(figure_1_circuit())
    assert text.count('label="⊕"') == 7
    assert text.count('label="⊗"') == 8
    assert text.count("shape=box") == 8
    assert text.count(" -> ") == 8 + 2 * 8 + 6  # literals to sums, into products, to their sums


def test_circuit_carries_parameters_and_names():
    text = to_dot(figure_1_circuit())
    assert 'label="0.9"' in text
    assert 'label="¬X3"' in text
    assert 'label="¬c"' in to_dot(figure_1_circuit(), ["a", "b", "c", "d"])


def test_chow_liu_tree_points_from_parent_to_child():
    text = to_dot(figure_1_chow_liu_tree())
    assert "x3 -> x2;" in text
    assert "x2 -> x0;" in text
    assert text.count("->") == 3


@pytest.mark.parametrize(
    ("label", "quoted"),
    [
        ("age", '"age"'),
        ('say "hi"', r'"say \"hi\""'),
        ("back\\slash", r'"back\\slash"'),
        ("two\nlines", r'"two\nlines"'),
        ("; } digraph {", '"; } digraph {"'),
    ],
)
def test_labels_are_escaped(label, quoted):
    assert quote(label) == quoted
    assert f"[label={quoted}]" in to_dot(Vtree.from_nested((0, 1)), [label, "other"])


def test_active_edges_of_a_row_are_red():
    text = to_dot(figure_1_circuit(), row=[1, 0, 1, 0])
    # The same ten lines that plot_circuit draws in red.
    assert text.count("color=red, fontcolor=red") == 10
    assert 'label="0.6", color=red' in text
    with pytest.raises(ValueError, match="row has 2"):
        to_dot(figure_1_circuit(), row=[1, 0])
    with pytest.raises(ValueError, match="Only a circuit"):
        to_dot(Vtree.from_nested((0, 1)), row=[1, 0])
