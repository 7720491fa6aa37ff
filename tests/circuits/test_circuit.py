from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest
from hypothesis import given

import oracle
from strategies import circuits
from strudel.circuits.compile import compile_factorized
from strudel.circuits.examples import figure_1_circuit
from strudel.learning.bits.circuit import BitCircuit
from strudel.trees.vtree import Vtree, balanced_vtree, linear_vtree

NONE = -1


@given(circuits(max_vars=6), circuits(max_vars=6, deterministic=False))
def test_sizes_agree_with_plain_counts(first, second):
    for circuit in (first, second):
        width = [len(list(oracle.edges(circuit, node))) for node in range(circuit.n_nodes)]
        assert circuit.n_vars == oracle.n_vars(circuit)
        assert circuit.n_edges == sum(width)
        assert circuit.n_parameters == sum(k for k in width if k > 1)
        assert circuit.edge_parent.tolist() == [n for n, k in enumerate(width) for _ in range(k)]
        assert circuit.depth == height(circuit)[circuit.root]


def height(circuit):
    heights = []
    for node in range(circuit.n_nodes):
        below = [heights[child] for _, kids, _ in oracle.edges(circuit, node) for child in kids]
        heights.append(1 + max(below) if below else 0)
    return heights


@given(circuits(max_vars=6))
def test_every_edge_belongs_to_the_vtree_node_of_its_parent(circuit):
    found = []
    for v in range(circuit.vtree.n_nodes):
        edges = circuit.vtree_edges(v).tolist()
        assert all(circuit.node_vtree[circuit.edge_parent[edge]] == v for edge in edges)
        found += edges
    assert sorted(found) == list(range(circuit.n_edges))


def test_arrays_are_read_only():
    circuit = figure_1_circuit()
    with pytest.raises(ValueError, match="read-only"):
        circuit.edge_log_theta[0] = 0.0
    with pytest.raises(FrozenInstanceError):
        circuit.feature_names = None


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))]
)
def test_copies_are_equal_and_read_only(copied):
    circuit = figure_1_circuit()
    again = copied(circuit)
    assert again.vtree == circuit.vtree
    assert again.feature_names == circuit.feature_names
    for name in ("node_vtree", "node_edges", "edge_left", "edge_right", "edge_log_theta"):
        np.testing.assert_array_equal(getattr(again, name), getattr(circuit, name))
        assert not getattr(again, name).flags.writeable


def test_with_parameters_keeps_the_structure_and_the_old_circuit():
    circuit = compile_factorized(balanced_vtree(2))
    before = circuit.edge_log_theta.copy()
    other = circuit.with_parameters(np.log([0.9, 0.1, 0.2, 0.8, 1.0]))
    assert oracle.probability(other, (1, 0)) == pytest.approx(0.9 * 0.8)
    np.testing.assert_array_equal(circuit.edge_log_theta, before)
    np.testing.assert_allclose(other.theta, [0.9, 0.1, 0.2, 0.8, 1.0])


def test_what_is_known_of_a_structure_stays_known(learned_circuits_are_trusted):
    circuit = replace(figure_1_circuit())
    assert not circuit.is_known_deterministic
    assert circuit.is_deterministic
    assert circuit.with_parameters(circuit.edge_log_theta).is_known_deterministic
    assert circuit.with_names(("a", "b", "c", "d")).is_known_deterministic
    assert not pickle.loads(pickle.dumps(circuit)).is_known_deterministic


def parts():
    """The fields of a small circuit: x0 and x1 independent."""
    circuit = compile_factorized(Vtree.from_nested((0, 1)))
    return {
        field.name: copy.deepcopy(getattr(circuit, field.name)) for field in fields(circuit)
    }  # sums 4 and 5 over literals, root 6; edges 0-1, 2-3, 4


def changed(name, index, value):
    arrays = parts()
    arrays[name] = arrays[name].copy()
    arrays[name][index] = value
    return arrays


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        (parts() | {"edge_left": np.zeros(4, np.int32)}, "the edge arrays differ in length"),
        (parts() | {"edge_right": np.zeros(4, np.int32)}, "the edge arrays differ in length"),
        (changed("node_edges", 0, 1), "node_edges must start at 0"),
        (changed("node_edges", -1, 4), "node_edges must start at 0, end at n_edges"),
        (changed("node_edges", 5, 5), "node_edges must not decrease"),
        (changed("node_edges", 4, 1), "a literal must not have edges"),
        (changed("node_edges", 5, 0), "sum node 4 has no edges"),
        (changed("node_vtree", 4, 3), "node_vtree points outside the vtree"),
        (changed("node_vtree", 4, -1), "node_vtree points outside the vtree"),
        (changed("node_vtree", 0, 1), "node 2 [*] v [+] value must be a literal at the leaf"),
        (changed("edge_left", 0, 4), "the left child of every edge must come before its parent"),
        (changed("edge_left", 0, NONE), "the left child of every edge must come before its parent"),
        (changed("edge_right", 4, 6), "the right child of every edge must be NONE or come before"),
        (changed("edge_right", 4, -2), "the right child of every edge must be NONE or come before"),
        (changed("edge_log_theta", 0, np.nan), "log-parameters must be numbers up to"),
        (changed("edge_log_theta", 0, np.inf), "log-parameters must be numbers up to"),
        (parts() | {"feature_names": ("a",)}, "there are 1 feature names for 2 variables"),
        (parts() | {"vtree": linear_vtree(4)}, "4 variables need 8 literals and a root"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused_with_the_reason(arrays, reason):
    with pytest.raises(ValueError, match=f"These arrays are not a circuit: {reason}"):
        BitCircuit(**arrays)


def test_edge_counts_that_overflow_are_refused():
    circuit = compile_factorized(linear_vtree(3))
    node_edges = circuit.node_edges.copy()
    node_edges[7:10] = [2**31 - 1, -(2**31), -1]
    with pytest.raises(ValueError, match="node_edges must not decrease"):
        replace(circuit, node_edges=node_edges)
