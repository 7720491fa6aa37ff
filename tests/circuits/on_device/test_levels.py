"""Passes against the circuit's own recursion, and their order."""

import numpy as np
import pytest
from hypothesis import given

from joint import learned_circuit, models, special_circuits
from strudel._types import NONE
from strudel.circuits.on_device.levels import (
    MOST_TERMS,
    choice_edges,
    graph_of_bits,
    pass_down,
    pass_up,
)


def evaluated(way, circuit, table, base, theta):
    """Fill a table sum by sum, as the levels say."""
    for level in way.levels:
        for block in level.blocks():
            terms = np.arange(block.terms.start, block.terms.stop).reshape(-1, block.width)
            for s, own in zip(range(block.first_sum, block.last_sum), terms, strict=True):
                assert not np.isnan(table[way.left[own]]).any()
                parts = theta[way.theta[own]] * table[way.left[own]] * base[way.right[own]]
                table[way.out[s]] = parts.sum()
    return table


def tables(circuit, rng):
    theta = np.append(circuit.theta[choice_edges(graph_of_bits(circuit))], [1.0, 0.0])
    literals = rng.random(2 * circuit.n_vars)
    up, down = pass_up(graph_of_bits(circuit)), pass_down(graph_of_bits(circuit))
    values = np.full(up.n_slots, np.nan)
    values[: len(literals)], values[circuit.n_nodes] = literals, 1.0
    values = evaluated(up, circuit, values, values, theta)
    factors = np.full(down.n_slots, np.nan)
    factors[down.idle] = 0.0
    factors[circuit.root] = 1.0
    return up, down, values, evaluated(down, circuit, factors, values, theta), literals


def root_value(circuit, literals):
    value = np.zeros(circuit.n_nodes)
    value[: len(literals)] = literals
    for node in range(len(literals), circuit.n_nodes):
        for e in range(circuit.node_edges[node], circuit.node_edges[node + 1]):
            right = circuit.edge_right[e]
            below = value[circuit.edge_left[e]] * (1.0 if right == NONE else value[right])
            value[node] += circuit.theta[e] * below
    return value[circuit.root]


def check(circuit, seed=0):
    up, down, values, factors, literals = tables(circuit, np.random.default_rng(seed))
    np.testing.assert_allclose(values[circuit.root], root_value(circuit, literals), rtol=1e-12)
    for i in range(len(literals)):  # the root's value is linear in every literal
        more = literals.copy()
        more[i] += 1.0
        slope = root_value(circuit, more) - values[circuit.root]
        np.testing.assert_allclose(factors[i], slope, rtol=1e-9, atol=1e-12)
    for way in (up, down):
        assert all(block.width <= MOST_TERMS for level in way.levels for block in level.blocks())
        assert len(np.unique(way.out)) == len(way.out)
    before = [way.out[level.first_sum] for level in down.levels[: down.input_level]]
    assert all(node >= len(literals) for node in before)


@pytest.mark.parametrize("name", special_circuits())
def test_special_circuits(name):
    check(special_circuits()[name])


@given(models())
def test_any_circuit(circuit):
    check(circuit)


def test_a_sum_of_many_edges_is_summed_in_parts():
    circuit = learned_circuit(0, n_vars=7, n_rows=400, n_splits=150)
    assert np.diff(circuit.node_edges).max() > MOST_TERMS
    check(circuit)
    assert pass_up(graph_of_bits(circuit)).n_slots > circuit.n_nodes + 1


def test_nothing_that_is_padded_counts_twice():
    circuit = learned_circuit(1, n_vars=7, n_rows=400, n_splits=60)
    up = pass_up(graph_of_bits(circuit))
    n_choices = len(choice_edges(graph_of_bits(circuit)))
    real = up.theta[up.theta < n_choices]
    assert sorted(real) == list(range(n_choices))
