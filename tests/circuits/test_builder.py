from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import oracle
from column_circuits import as_bits
from strategies import circuits
from strudel.circuits.builder import CircuitBuilder
from strudel.learning.bits.circuit import assemble_bits
from strudel.trees.vtree import Vtree


@pytest.fixture
def builder():
    return CircuitBuilder(Vtree.from_nested((0, (1, 2))), feature_names=["a", "b", "c"])


def test_a_bayesian_network_by_hand(builder):
    # P(a) = 0.3; b copies a; c is 1 with 0.9 if b, else with 0.2.
    often, rarely = builder.add_leaf_sum(2, 0.9), builder.add_leaf_sum(2, 0.2)
    with_b = builder.add_sum([(builder.literal(1, 1), often, 1.0)])
    without_b = builder.add_sum([(builder.literal(1, 0), rarely, 1.0)])
    root = builder.add_sum(
        [(builder.literal(0, 1), with_b, 0.3), (builder.literal(0, 0), without_b, 0.7)]
    )
    circuit = builder.build(root)
    assert circuit.columns.names == ("a", "b", "c")
    assert oracle.probability(circuit, (1, 1, 1)) == pytest.approx(0.3 * 0.9)
    assert oracle.probability(circuit, (0, 0, 1)) == pytest.approx(0.7 * 0.2)
    assert oracle.probability(circuit, (1, 0, 1)) == 0.0
    assert sum(oracle.probabilities(circuit)) == pytest.approx(1.0)


def test_build_drops_what_the_root_does_not_reach(builder):
    kept = [builder.add_leaf_sum(var, 0.5) for var in range(3)]
    for var in range(3):
        builder.add_leaf_sum(var, 0.25)
    below = builder.add_sum([(kept[1], kept[2], 1.0)])
    root = builder.add_sum([(kept[0], below, 1.0)])
    builder.add_sum([(kept[0], below, 1.0)])
    circuit = builder.build(root)
    assert circuit.n_nodes == 5
    assert oracle.reached(circuit) == list(range(circuit.n_nodes))


def test_the_last_node_is_the_root_unless_another_is_named(builder):
    leaves = [builder.add_leaf_sum(var, 0.5) for var in range(3)]
    below = builder.add_sum([(leaves[1], leaves[2], 1.0)])
    builder.add_sum([(leaves[0], below, 1.0)])
    builder.add_sum([(builder.literal(0, 1), below, 1.0)])
    assert oracle.probability(builder.build(), (0, 1, 1)) == 0.0


def test_a_zero_parameter_is_minus_infinity(builder):
    node = builder.add_leaf_sum(0, 1.0)
    below = builder.add_sum([(builder.literal(1, 1), builder.literal(2, 1), 1.0)])
    circuit = builder.build(builder.add_sum([(node, below, 1.0)]))
    assert circuit.leaf_table(0)[0, :, 0].tolist() == [-np.inf, 0.0]


@pytest.mark.parametrize(
    ("var", "value"), [(3, 0), (-1, 0), (0, 2), (0, -1)], ids=["high", "negative", "two", "minus"]
)
def test_a_literal_that_does_not_exist(builder, var, value):
    with pytest.raises(ValueError, match=r"variable in 0\.\.2 and one of its values"):
        builder.literal(var, value)


@pytest.mark.parametrize("theta", [-0.1, 1.1, float("nan")])
def test_a_leaf_sum_needs_a_probability(builder, theta):
    with pytest.raises(ValueError, match="theta must be a probability, but is"):
        builder.add_leaf_sum(0, theta)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([], "A sum node needs at least one edge"),
        ([(2, 99, 1.0)], "Node 99 does not exist yet"),
        ([(-1, 4, 1.0)], "Node -1 does not exist yet"),
        ([(2, 4, -1.0)], "theta must be zero or more, but is -1.0"),
        ([(2, 4, float("nan"))], "theta must be zero or more, but is nan"),
        ([(4, 2, 1.0)], "No vtree node has left child 2 and right child 1"),
        ([(0, 2, 1.0)], "No vtree node has left child 0 and right child 1"),
        ([(2, 4, 0.5), (2, 0, 0.5)], "All products of a sum must be normalised for one vtree node"),
    ],
)
def test_a_sum_that_does_not_fit(builder, edges, message):
    with pytest.raises(ValueError, match=message):
        builder.add_sum(edges)


@pytest.mark.parametrize("root", [0, 5, 99, -7])
def test_the_root_must_be_a_sum(builder, root):
    builder.add_sum([(2, 4, 1.0)])
    with pytest.raises(
        ValueError, match=f"The root must be a node at the root of the vtree.*is node {root}"
    ):
        builder.build(root)


def test_a_single_variable():
    builder = CircuitBuilder(Vtree.from_nested(0))
    circuit = builder.build(builder.add_leaf_sum(0, 0.3))
    np.testing.assert_allclose(oracle.probabilities(circuit), [0.7, 0.3])
    assert oracle.probabilities(builder.build(builder.literal(0, 1))) == [0.0, 1.0]
    assert oracle.probabilities(builder.build(builder.literal(0, 0))) == [1.0, 0.0]


def test_weights_that_do_not_add_up_are_a_total(builder):
    leaves = [builder.add_leaf_sum(var, 0.5) for var in range(3)]
    below = builder.add_sum([(leaves[1], leaves[2], 3.0)])
    circuit = builder.build(builder.add_sum([(leaves[0], below, 0.5)]))
    assert np.exp(circuit.log_total) == pytest.approx(1.5)
    assert oracle.probability(circuit, (1, 0, 1)) == pytest.approx(1.5 / 8)


@given(circuits(max_vars=5, deterministic=False))
def test_edges_may_come_in_any_order_of_parents(circuit):
    circuit = as_bits(circuit)
    for order in (np.arange(circuit.n_edges), np.argsort(-circuit.edge_parent, kind="stable")):
        again = assemble_bits(
            circuit.vtree,
            circuit.node_vtree,
            circuit.edge_parent[order],
            circuit.edge_left[order],
            circuit.edge_right[order],
            circuit.edge_log_theta[order],
            circuit.root,
        )
        for name in ("node_vtree", "node_edges", "edge_left", "edge_right", "edge_log_theta"):
            np.testing.assert_array_equal(getattr(again, name), getattr(circuit, name))
