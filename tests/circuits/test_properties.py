from __future__ import annotations

import random
import re

import numpy as np
import pytest
from hypothesis import given

import oracle
from strategies import (
    Nodes,
    any_circuits,
    circuits,
    examples,
    vtrees,
)
from strudel.circuits import figure_1_circuit
from strudel.circuits.compile import compile_factorized
from strudel.errors import CircuitPropertyError
from strudel.learning.bits.circuit import BitCircuit
from strudel.learning.bits.properties import (
    check_properties,
    why_not_decomposable,
    why_not_deterministic,
    why_not_in_normal_form,
    why_not_smooth,
    why_not_structured_decomposable,
)
from strudel.trees.vtree import Vtree, balanced_vtree

NONE = -1
many = examples(300)


def make(nested, sums, names=None):
    """A circuit over a nested vtree; a sum is (vtree node, [(left, right or NONE), ...])."""
    vtree = Vtree.from_nested(nested)
    width = [len(edges) for _, edges in sums]
    edges = np.array([edge for _, edges in sums for edge in edges], dtype=np.int32)
    return BitCircuit(
        vtree,
        np.concatenate([np.repeat(vtree.var_leaf, 2), [v for v, _ in sums]]).astype(np.int32),
        np.cumsum([0] * (2 * vtree.n_vars + 1) + width).astype(np.int32),
        edges[:, 0].copy(),
        edges[:, 1].copy(),
        np.concatenate([np.log(np.full(k, 1 / k)) for k in width]),
        names,
    )


# Against enumeration


@many
@given(any_circuits(max_vars=5))
def test_smoothness_agrees_with_the_oracle(circuit):
    assert (why_not_smooth(circuit) is None) == oracle.is_smooth(circuit)


@many
@given(any_circuits(max_vars=5))
def test_decomposability_agrees_with_the_oracle(circuit):
    assert (why_not_decomposable(circuit) is None) == oracle.is_decomposable(circuit)


@many
@given(any_circuits(max_vars=5), vtrees(min_vars=3, max_vars=5))
def test_structured_decomposability_agrees_with_the_oracle(circuit, vtree):
    found = why_not_structured_decomposable(circuit)
    assert (found is None) == oracle.is_structured_decomposable(circuit)
    if circuit.n_vars == vtree.n_vars:
        found = why_not_structured_decomposable(circuit, vtree)
        assert (found is None) == oracle.is_structured_decomposable(circuit, vtree)


@many
@given(any_circuits(max_vars=5))
def test_determinism_agrees_with_the_oracle(circuit):
    reason = why_not_deterministic(circuit)
    if reason is not None and "could not be shown" in reason:
        assert not circuit.is_structured_decomposable
        return
    assert (reason is None) == oracle.is_deterministic(circuit)
    if reason is not None:
        check_example(circuit, reason)


@many
@given(circuits(max_vars=6, deterministic=False))
def test_determinism_of_random_sums_agrees_with_the_oracle(circuit):
    reason = why_not_deterministic(circuit)
    assert (reason is None) == oracle.is_deterministic(circuit)
    if reason is not None:
        check_example(circuit, reason)


def check_example(circuit, reason):
    """The row in the reason satisfies the two edges it names."""
    pattern = r"edges (\d+) and (\d+) of node (\d+) are both satisfied by (.*)"
    first, second, node, values = re.fullmatch(pattern, reason).groups()
    row = [0] * circuit.n_vars
    for var, value in re.findall(r"x(\d+)=([01])", values):
        row[int(var)] = int(value)
    assert first != second
    assert {int(first), int(second)} <= set(oracle.satisfied_edges(circuit, int(node), row))


@many
@given(circuits(max_vars=6))
def test_circuits_deterministic_by_construction_have_all_properties(circuit):
    assert oracle.is_deterministic(circuit)
    assert circuit.is_deterministic
    assert circuit.is_smooth
    assert circuit.is_decomposable
    assert circuit.is_structured_decomposable
    assert why_not_in_normal_form(circuit) is None


@many
@given(any_circuits(max_vars=5))
def test_normal_form_implies_smooth_and_structured_decomposable(circuit):
    if why_not_in_normal_form(circuit) is None:
        assert oracle.is_smooth(circuit)
        assert oracle.is_structured_decomposable(circuit)


# By hand


def test_not_smooth_names_edge_node_and_variable():
    # Node 4 is x0 x1 or x0 alone.
    circuit = make((0, 1), [(2, [(1, 3), (1, NONE)])], names=("rain", "wind"))
    assert why_not_smooth(circuit) == (
        "edge 1 of node 4 does not mention wind, unlike another edge of that node"
    )
    assert not circuit.is_smooth


def test_a_root_that_misses_a_variable_is_not_smooth():
    circuit = make((0, 1), [(0, [(1, NONE), (0, NONE)])])
    assert why_not_smooth(circuit) == "the root, node 4, does not mention x1"


def test_not_decomposable_names_edge_node_and_variable():
    circuit = make((0, 1), [(0, [(1, NONE), (0, NONE)]), (2, [(4, 0)])], names=("a", "b"))
    assert why_not_decomposable(circuit) == "both children of edge 2 of node 5 mention a"


def test_not_structured_decomposable_names_the_two_sides():
    # Decomposable, but x0 and x2 meet below x1 in a vtree that has x0 and x1 together.
    sums = [(4, [(1, 5)]), (4, [(6, 3)])]
    circuit = make(((0, 1), 2), sums)
    assert circuit.is_decomposable
    assert why_not_structured_decomposable(circuit) == (
        "edge 1 of node 7 joins x0 and x2 with x1, which no vtree node separates"
    )
    assert why_not_structured_decomposable(circuit, Vtree.from_nested(((0, 2), 1))) is None


def test_not_deterministic_gives_an_example_with_names():
    circuit = make((0, 1), [(1, [(3, NONE), (2, NONE)]), (2, [(1, 4), (1, 3)])], names=("a", "b"))
    assert why_not_deterministic(circuit) == (
        "edges 2 and 3 of node 5 are both satisfied by a=1, b=1"
    )


def test_determinism_that_no_single_variable_shows():
    # x0 == x1 against x0 != x1, each with any x2: every variable takes both values on both sides.
    sums = [
        (4, [(5, NONE), (4, NONE)]),
        (2, [(1, 3), (0, 2)]),
        (2, [(1, 2), (0, 3)]),
        (4, [(7, 6), (8, 6)]),
    ]
    circuit = make(((0, 1), 2), [(3, sums[0][1]), sums[1], sums[2], sums[3]])
    assert why_not_deterministic(circuit) is None


def test_a_product_that_contradicts_itself_overlaps_with_nothing():
    circuit = make((0, 1), [(2, [(1, 0)]), (2, [(4, 3), (1, 3)])])
    assert not circuit.is_decomposable
    assert circuit.is_deterministic


def test_products_without_a_common_vtree_cannot_be_certified():
    # x0 == x2 against x0 != x2, in a vtree that has x0 and x1 together.
    equal, other = (4, [(1, 5), (0, 4)]), (4, [(1, 4), (0, 5)])
    rest = (1, [(3, NONE), (2, NONE)])
    circuit = make(((0, 1), 2), [equal, other, rest, (4, [(6, 8), (7, 8)])])
    assert oracle.is_deterministic(circuit)
    assert "could not be shown to exclude each other" in why_not_deterministic(circuit)
    assert not circuit.is_deterministic


def test_long_lists_of_variables_are_cut():
    circuit = compile_factorized(balanced_vtree(30))
    spoilt = BitCircuit(
        circuit.vtree,
        circuit.node_vtree.copy(),
        circuit.node_edges.copy(),
        circuit.edge_left.copy(),
        np.where(np.arange(circuit.n_edges) == circuit.n_edges - 1, NONE, circuit.edge_right),
        circuit.edge_log_theta.copy(),
    )
    assert why_not_smooth(spoilt) == (
        "the root, node 118, does not mention x15, x16, x17, x18, x19, x20, x21, x22, x23, x24, "
        "x25, x26 and 3 more"
    )


def test_normal_form_needs_the_vtree_nodes_that_nodes_name():
    circuit = figure_1_circuit()
    node_vtree = circuit.node_vtree.copy()
    node_vtree[circuit.root] = 0
    moved = BitCircuit(
        circuit.vtree,
        node_vtree,
        circuit.node_edges.copy(),
        circuit.edge_left.copy(),
        circuit.edge_right.copy(),
        circuit.edge_log_theta.copy(),
    )
    assert "are not normalised for the children of vtree node 0" in why_not_in_normal_form(moved)
    assert moved.is_structured_decomposable  # what is really below a node is still in order


def test_normal_form_needs_the_root_at_the_root_of_the_vtree():
    circuit = make((0, 1), [(0, [(1, NONE), (0, NONE)])])
    assert why_not_in_normal_form(circuit) == (
        "the root, node 4, is not normalised for the root of the vtree"
    )


# Checks for queries


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("smooth", "ask needs a smooth circuit, but edge 1 of node 5 does not mention x1, "),
        ("decomposable", "ask needs a decomposable circuit, but both children of edge 2 of"),
        ("structured_decomposable", "ask needs a structured-decomposable circuit, but edge 2"),
        (
            "deterministic",
            "ask needs a deterministic circuit, but edges 1 and 2 of node 5 could not be",
        ),
        ("in_normal_form", "ask needs a circuit in normal form, but the children of edge 1 of"),
    ],
)
def test_checks_raise_the_reason_for_a_query(name, message):
    circuit = make((0, 1), [(0, [(1, NONE)]), (2, [(4, NONE), (4, 1), (1, 3)])])
    with pytest.raises(CircuitPropertyError, match=f"^{re.escape(message)}.*[.]$"):
        check_properties(circuit, "ask", name)


# Large circuits


@pytest.mark.compiled
def test_a_counting_circuit_is_certified_though_no_variable_tells_its_edges_apart():
    # Node j at a vtree node: exactly j of its variables are 1.
    vtree = balanced_vtree(60)
    nodes = Nodes(vtree, random.Random(0))
    counts = []
    for v in range(vtree.n_nodes):
        if vtree.node_var[v] != NONE:
            counts.append([2 * int(vtree.node_var[v]), 2 * int(vtree.node_var[v]) + 1])
            continue
        left, right = counts[vtree.node_left[v]], counts[vtree.node_right[v]]
        ways = [
            [(left[i], right[j - i]) for i in range(len(left)) if 0 <= j - i < len(right)]
            for j in range(len(left) + len(right) - 1)
        ]
        counts.append([nodes.add(v, way) for way in ways])
    circuit = nodes.build(counts[-1][30])
    assert why_not_deterministic(circuit) is None
