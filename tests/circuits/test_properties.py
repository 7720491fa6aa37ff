"""Determinism of circuits, against enumeration."""

from __future__ import annotations

import random

import pytest
from hypothesis import given

import oracle
from strategies import Nodes, circuits, examples
from strudel.circuits import why_not_deterministic
from strudel.trees.vtree import Vtree, balanced_vtree

NONE = -1


@examples(300)
@given(circuits(max_vars=6, deterministic=False))
def test_determinism_of_random_sums_agrees_with_the_oracle(circuit):
    live = {edge for n in range(circuit.n_nodes) for edge, _, p in oracle.edges(circuit, n) if p}
    reason = why_not_deterministic(circuit)
    if len(live) == circuit.n_edges:
        assert (reason is None) == oracle.is_deterministic(circuit)
    if reason is not None:
        node = int(reason.split()[-1])
        rows = oracle.all_rows(circuit.vtree.n_vars)
        assert any(len(oracle.satisfied_edges(circuit, node, row)) > 1 for row in rows)


@examples(200)
@given(circuits(max_vars=6))
def test_circuits_are_deterministic_by_construction(circuit):
    assert oracle.is_deterministic(circuit)
    assert why_not_deterministic(circuit) is None


def test_determinism_that_no_single_variable_shows():
    # x0 == x1 against x0 != x1, each with any x2: every variable takes both values on both sides.
    nodes = Nodes(Vtree.from_nested(((0, 1), 2)), random.Random(0))
    any_x2 = nodes.add(3, [(5, NONE), (4, NONE)])
    equal, other = nodes.add(2, [(1, 3), (0, 2)]), nodes.add(2, [(1, 2), (0, 3)])
    root = nodes.add(4, [(equal, any_x2), (other, any_x2)])
    assert why_not_deterministic(nodes.build(root, zeros=0.0)) is None
    root = nodes.add(4, [(equal, any_x2), (equal, 5)])
    found = why_not_deterministic(nodes.build(root, zeros=0.0))
    assert found.startswith("some row satisfies two edges of sum node")


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
    assert why_not_deterministic(nodes.build(counts[-1][30])) is None
