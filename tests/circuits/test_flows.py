import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from strategies import circuits
from strudel import CircuitPropertyError, Vtree
from strudel._types import NONE
from strudel.circuits import CircuitBuilder, figure_1_circuit
from strudel.learning.bits.flows import compute_flows, dense_flows, flow_log_likelihood


@given(circuits(max_vars=6, deterministic=True), st.integers(0, 2**31))
def test_active_edges_are_those_of_the_induced_tree(circuit, seed):
    rng = np.random.default_rng(seed)
    rows = np.array(oracle.all_rows(circuit.n_vars))[rng.integers(2**circuit.n_vars, size=9)]
    weight = rng.integers(1, 5, 9)
    flows = compute_flows(circuit, rows, sample_weight=weight)
    count = np.zeros(circuit.n_edges)
    for s, row in enumerate(rows):
        active = sorted(oracle.active_edges(circuit, row))
        assert sorted(flows.active_edge[flows.active_edge[:, s] != NONE, s]) == active
        count[active] += weight[s]
    assert np.array_equal(flows.edge_count, count)


@given(circuits(max_vars=6, deterministic=True))
def test_likelihood_through_flows_is_the_evaluated_one(circuit):
    rows = oracle.all_rows(circuit.n_vars)
    expected = oracle.log_likelihoods(circuit, rows)
    assert flow_log_likelihood(circuit, rows) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("n_rows", [1, 63, 64, 65, 511, 512, 513, 1200])
def test_blocks_of_rows_join_without_a_seam(n_rows):
    rows = np.random.default_rng(n_rows).integers(0, 2, (n_rows, 4))
    circuit = figure_1_circuit()
    flows = compute_flows(circuit, rows)
    dense = dense_flows(circuit, rows)
    for e in range(circuit.n_edges):
        through = np.flatnonzero(np.unpackbits(dense[e].view(np.uint8), bitorder="little"))
        v = circuit.node_vtree[circuit.edge_parent[e]]
        assert np.array_equal(through, np.flatnonzero(flows.active_edge[v] == e))
        assert flows.edge_count[e] == len(through)
    assert flow_log_likelihood(circuit, rows) == pytest.approx(
        oracle.log_likelihoods(circuit, rows), rel=1e-12
    )


def test_an_impossible_row_has_no_active_edge_and_no_likelihood():
    builder = CircuitBuilder(Vtree.from_nested((0, 1)))
    root = builder.add_sum([(builder.literal(0, 1), builder.add_leaf_sum(1, 0.5), 1.0)])
    circuit = builder.build(root)
    flows = compute_flows(circuit, [[0, 1], [1, 1]])
    assert flows.is_possible.tolist() == [False, True]
    assert np.all(flows.active_edge[:, 0] == NONE)
    assert flow_log_likelihood(circuit, [[0, 1]]).tolist() == [-np.inf]


def test_a_row_with_two_ways_is_refused():
    builder = CircuitBuilder(Vtree.from_nested((0, 1)))
    a, b, c, d = (builder.add_leaf_sum(var, 0.5) for var in (0, 0, 1, 1))
    circuit = builder.build(builder.add_sum([(a, c, 0.5), (b, d, 0.5)]))
    with pytest.raises(CircuitPropertyError, match="deterministic"):
        compute_flows(circuit, [[0, 1]])


def test_a_wrong_width_is_refused():
    with pytest.raises(ValueError, match=r"3 columns.*4 variables"):
        compute_flows(figure_1_circuit(), [[0, 1, 1]])
