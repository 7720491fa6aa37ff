"""Parameters that add up to one, without a change of the distribution."""

import math

import numpy as np
import pytest
from hypothesis import given

import oracle
from strategies import circuits, seeds
from strudel.circuits import figure_1_circuit
from strudel.circuits.normalization import normalized_columns


def normalized(circuit):
    log_theta, log_total = normalized_columns(
        circuit.edges, circuit.edge_log_theta[:, np.newaxis], circuit.n_vars
    )
    return circuit.with_parameters(log_theta[:, 0]), log_total[0]


@given(circuits(max_vars=5, deterministic=False), seeds)
def test_rows_are_divided_by_their_total(circuit, seed):
    scale = np.random.default_rng(seed).normal(size=circuit.n_edges)
    loose = circuit.with_parameters(circuit.edge_log_theta + scale)
    before = oracle.probabilities(loose)
    total = math.fsum(before)
    tight, log_total = normalized(loose)
    assert log_total == pytest.approx(math.log(total))
    assert oracle.probabilities(tight) == pytest.approx([p / total for p in before], rel=1e-10)
    sums = np.add.reduceat(tight.theta, tight.node_edges[2 * tight.n_vars : -1])
    assert np.all(np.isclose(sums, 1.0) | (sums == 0.0))


def test_no_row_at_all():
    circuit = figure_1_circuit()
    nothing = circuit.with_parameters(np.full(circuit.n_edges, -np.inf))
    assert normalized(nothing)[1] == -np.inf
