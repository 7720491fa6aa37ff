import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import oracle
from strategies import circuits, mixtures, partly_observed_rows, weights
from strudel._numba import use_threads
from strudel.circuits import compile_factorized, compute_flows, figure_1_circuit
from strudel.circuits.mixture import Mixture
from strudel.learning import expected_flows
from strudel.learning.incomplete.expected_flows import Passes
from strudel.learning.incomplete.partial_rows import partial_rows
from strudel.trees import linear_vtree

nan = math.nan


def flows_by_enumeration(components, shares, rows, weight):
    """Every completion of every row goes its way, with the probability it has given the row."""
    count = np.zeros((components[0].n_edges, len(components)))
    total = 0.0
    for row, w in zip(rows, weight, strict=True):
        joint = np.array(
            [
                [share * oracle.probability(circuit, full) for full in oracle.completions(row)]
                for circuit, share in zip(components, shares, strict=True)
            ]
        )
        total += w * math.log(joint.sum())
        for c, circuit in enumerate(components):
            for full, p in zip(oracle.completions(row), joint[c], strict=True):
                count[oracle.active_edges(circuit, full), c] += w * p / joint.sum()
    return count, total


def rows_of(data, model, log_marginal):
    rows = data.draw(st.lists(partly_observed_rows(model.n_vars), min_size=1, max_size=5))
    rows = [row for row in rows if log_marginal(row) > -math.inf]
    assume(rows)
    weight = data.draw(weights(len(rows)))
    return [row for row, w in zip(rows, weight, strict=True) if w], weight[weight > 0]


@settings(max_examples=25)
@given(circuits(max_vars=5), st.data())
def test_counts_of_a_circuit_are_those_of_all_completions(circuit, data):
    rows, weight = rows_of(data, circuit, lambda row: oracle.log_marginal(circuit, row))
    flows = expected_flows(circuit, rows, sample_weight=weight)
    count, total = flows_by_enumeration([circuit], [1.0], rows, weight)
    assert flows.edge_count == pytest.approx(count, abs=1e-9 * weight.sum())
    assert flows.log_likelihood == pytest.approx(total, abs=1e-9 * weight.sum())
    assert flows.component_weight == pytest.approx([weight.sum()])


@settings(max_examples=25)
@given(mixtures(max_vars=4), st.data())
def test_counts_of_a_mixture_are_shared_by_responsibility(mixture, data):
    parts = mixture.components()

    def log_marginal(row):
        of_parts = [oracle.log_marginal(part, row) for part in parts]
        return max(of_parts)

    rows, weight = rows_of(data, mixture, log_marginal)
    flows = expected_flows(mixture, rows, sample_weight=weight)
    count, total = flows_by_enumeration(parts, mixture.weights, rows, weight)
    assert flows.edge_count == pytest.approx(count, abs=1e-9 * weight.sum())
    assert flows.log_likelihood == pytest.approx(total, abs=1e-8 * weight.sum())


def test_groups_are_mixtures_of_their_own():
    circuit = figure_1_circuit()
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(circuit.n_edges, 4))
    parts = [circuit.with_parameters(_normalised(circuit, column)) for column in noise.T]
    log_theta = np.column_stack([part.edge_log_theta for part in parts])
    rows = np.where(rng.random((20, 4)) < 0.5, nan, rng.integers(0, 2, (20, 4)))
    both = Mixture(circuit, log_theta, np.log([0.1, 0.4, 0.3, 0.2]))
    flows = Passes.of(both, "test").expect(partial_rows(rows), both, n_groups=2)
    for group, share in ((slice(0, 2), [0.2, 0.8]), (slice(2, 4), [0.6, 0.4])):
        alone = expected_flows(Mixture(circuit, log_theta[:, group], np.log(share)), rows)
        assert flows.edge_count[:, group] == pytest.approx(alone.edge_count)
        assert flows.component_weight[group] == pytest.approx(alone.component_weight)


def _normalised(circuit, column):
    theta = np.exp(column)
    total = np.bincount(circuit.edge_parent, weights=theta, minlength=circuit.n_nodes)
    return np.log(theta / total[circuit.edge_parent])


@settings(max_examples=25)
@given(circuits(max_vars=6, min_vars=2), st.integers(0, 2**31))
def test_complete_rows_flow_as_ever(circuit, seed):
    rng = np.random.default_rng(seed)
    rows = [row for row in oracle.all_rows(circuit.n_vars) if oracle.probability(circuit, row) > 0]
    rows = [rows[i] for i in rng.integers(len(rows), size=9)]
    counts = expected_flows(circuit, rows).edge_count[:, 0]
    assert counts == pytest.approx(compute_flows(circuit, rows).edge_count)


@pytest.mark.compiled
def test_nothing_underflows_over_many_variables():
    circuit = compile_factorized(linear_vtree(1200))
    theta = np.where(np.arange(circuit.n_edges) % 2, 0.001, 0.999)
    is_leaf = circuit.edge_right < 0
    circuit = circuit.with_parameters(np.where(is_leaf, np.log(theta), 0.0))
    row = np.full((1, 1200), 0.0)
    row[0, 5] = nan
    flows = expected_flows(circuit, row)
    assert flows.log_likelihood == pytest.approx(1199 * math.log(0.001))
    assert flows.edge_count.max() == pytest.approx(1.0)


def test_threads_change_nothing():
    circuit = figure_1_circuit()
    rng = np.random.default_rng(1)
    rows = np.where(rng.random((400, 4)) < 0.3, nan, rng.integers(0, 2, (400, 4)))
    weight = rng.random(400)
    with use_threads(1):
        one = expected_flows(circuit, rows, sample_weight=weight)
    with use_threads(2):
        two = expected_flows(circuit, rows, sample_weight=weight)
    assert np.array_equal(one.edge_count, two.edge_count)
    assert one.log_likelihood == two.log_likelihood


def test_an_impossible_row_is_refused():
    circuit = figure_1_circuit()
    never = circuit.with_parameters(np.full(circuit.n_edges, -math.inf))
    with pytest.raises(ValueError, match="probability zero"):
        expected_flows(never, [[1, 0, nan, 1]])
