"""Passes against the circuit's own recursion, and their order."""

import numpy as np
import pytest
from hypothesis import given

from column_circuits import column_circuits
from joint import learned_circuit, special_circuits
from strudel.circuits.on_device.levels import (
    MOST_TERMS,
    choice_edges,
    graph_of,
    pass_down,
    pass_up,
)
from strudel.queries.given import circuit_of


def evaluated(way, table, base, theta):
    """Fill a table sum by sum, as the levels say."""
    for level in way.levels:
        for block in level.blocks():
            terms = np.arange(block.terms.start, block.terms.stop).reshape(-1, block.width)
            for s, own in zip(range(block.first_sum, block.last_sum), terms, strict=True):
                assert not np.isnan(table[way.left[own]]).any()
                parts = theta[way.theta[own]] * table[way.left[own]] * base[way.right[own]]
                table[way.out[s]] = parts.sum()
    return table


def root_value(graph, theta, inputs):
    value = np.zeros(graph.n_nodes)
    value[: len(inputs)] = inputs
    for node in range(len(inputs), graph.n_nodes):
        for e in range(graph.node_edges[node], graph.node_edges[node + 1]):
            value[node] += theta[e] * value[graph.edge_left[e]] * value[graph.edge_right[e]]
    return value[-1]


def check(circuit, seed=0):
    graph, rng = graph_of(circuit), np.random.default_rng(seed)
    chosen = choice_edges(graph)
    edge_theta = np.ones(len(graph.edge_left))
    edge_theta[chosen] = rng.random(len(chosen))
    theta, inputs = np.append(edge_theta[chosen], [1.0, 0.0]), rng.random(graph.n_inputs)
    up, down = pass_up(graph), pass_down(graph)
    values = np.full(up.n_slots, np.nan)
    values[: len(inputs)], values[graph.n_nodes] = inputs, 1.0
    values = evaluated(up, values, values, theta)
    factors = np.full(down.n_slots, np.nan)
    factors[down.idle] = 0.0
    factors[graph.n_nodes - 1] = 1.0
    factors = evaluated(down, factors, values, theta)
    root = values[graph.n_nodes - 1]
    np.testing.assert_allclose(root, root_value(graph, edge_theta, inputs), rtol=1e-12)
    for i in range(len(inputs)):  # the root's value is linear in every input
        more = inputs.copy()
        more[i] += 1.0
        slope = root_value(graph, edge_theta, more) - root
        np.testing.assert_allclose(factors[i], slope, rtol=1e-9, atol=1e-12)
    for way in (up, down):
        assert all(block.width <= MOST_TERMS for level in way.levels for block in level.blocks())
        assert len(np.unique(way.out)) == len(way.out)
    before = [way.out[level.first_sum] for level in down.levels[: down.input_level]]
    assert all(node >= len(inputs) for node in before)


@pytest.mark.parametrize("name", special_circuits())
def test_special_circuits(name):
    check(circuit_of(special_circuits()[name]))


@given(column_circuits())
def test_any_circuit(circuit):
    check(circuit)


def test_a_sum_of_many_edges_is_summed_in_parts():
    circuit = circuit_of(learned_circuit(0, n_vars=7, n_rows=400, n_splits=150))
    assert np.diff(circuit.sum_edges).max() > MOST_TERMS
    check(circuit)
    assert pass_up(graph_of(circuit)).n_slots > circuit.n_nodes + 1


def test_nothing_that_is_padded_counts_twice():
    graph = graph_of(circuit_of(learned_circuit(1, n_vars=7, n_rows=400, n_splits=60)))
    up = pass_up(graph)
    n_choices = len(choice_edges(graph))
    real = up.theta[up.theta < n_choices]
    assert sorted(real) == list(range(n_choices))
