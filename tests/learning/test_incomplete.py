"""Expected flows of rows with unknown values by enumeration, and parameters by EM."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import oracle
from column_circuits import as_bits, bit_circuits, bit_mixtures, components_of
from makers import log_density_of_prior
from strategies import partly_observed_rows, weights
from strudel import sample
from strudel._compiling import Clock
from strudel._numba import use_threads
from strudel.circuits import figure_1_circuit
from strudel.learning.bits.compile import bits_of_tree, independent_bits
from strudel.learning.bits.flows import compute_flows
from strudel.learning.bits.fold import folded
from strudel.learning.bits.mixture import BitMixture, as_mixture
from strudel.learning.incomplete import (
    EmLimits,
    Passes,
    climb,
    expected_flows,
    maximise,
    partial_rows,
)
from strudel.learning.mixtures.em_steps import uniform_prior
from strudel.learning.parameters import closed_form
from strudel.trees import learn_chow_liu_tree, linear_vtree, vtree_from_chow_liu

nan = math.nan


def fit_incomplete(circuit, X, X_valid=None, pseudocount=1.0, max_iter=100, tol=1e-4):
    """A circuit with the parameters of the best step of EM."""
    rows = [
        None if one is None else partial_rows(one, None, circuit.n_vars) for one in (X, X_valid)
    ]
    prior, limits = uniform_prior(circuit, pseudocount), EmLimits(max_iter, tol)
    return climb(Passes.of(circuit), as_mixture(circuit), *rows, prior, limits).model.component(0)


def test_an_example_of_partial_rows():
    rows = partial_rows([[0, None], [1, 1], [0, None]])
    assert rows.codes.tolist() == [[0, 2], [1, 1]]
    assert rows.weight.tolist() == [2.0, 1.0]


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
@given(bit_circuits(max_vars=5), st.data())
def test_counts_of_a_circuit_are_those_of_all_completions(circuit, data):
    rows, weight = rows_of(data, circuit, lambda row: oracle.log_marginal(circuit, row))
    flows = expected_flows(circuit, rows, sample_weight=weight)
    count, total = flows_by_enumeration([circuit], [1.0], rows, weight)
    assert flows.edge_count == pytest.approx(count, abs=1e-9 * weight.sum())
    assert flows.log_likelihood == pytest.approx(total, abs=1e-9 * weight.sum())
    assert flows.component_weight == pytest.approx([weight.sum()])


@settings(max_examples=25)
@given(bit_mixtures(max_vars=4), st.data())
def test_counts_of_a_mixture_are_shared_by_responsibility(mixture, data):
    parts = components_of(mixture)

    def log_marginal(row):
        of_parts = [oracle.log_marginal(part, row) for part in parts]
        return max(of_parts)

    rows, weight = rows_of(data, mixture, log_marginal)
    flows = expected_flows(mixture, rows, sample_weight=weight)
    count, total = flows_by_enumeration(parts, mixture.weights, rows, weight)
    assert flows.edge_count == pytest.approx(count, abs=1e-9 * weight.sum())
    assert flows.log_likelihood == pytest.approx(total, abs=1e-8 * weight.sum())


def test_groups_are_mixtures_of_their_own():
    circuit = as_bits(figure_1_circuit())
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(circuit.n_edges, 4))
    parts = [circuit.with_parameters(_normalised(circuit, column)) for column in noise.T]
    log_theta = np.column_stack([part.edge_log_theta for part in parts])
    rows = np.where(rng.random((20, 4)) < 0.5, nan, rng.integers(0, 2, (20, 4)))
    both = BitMixture(circuit, log_theta, np.log([0.1, 0.4, 0.3, 0.2]))
    flows = Passes.of(both).expect(partial_rows(rows), both, n_groups=2)
    for group, share in ((slice(0, 2), [0.2, 0.8]), (slice(2, 4), [0.6, 0.4])):
        alone = expected_flows(BitMixture(circuit, log_theta[:, group], np.log(share)), rows)
        assert flows.edge_count[:, group] == pytest.approx(alone.edge_count)
        assert flows.component_weight[group] == pytest.approx(alone.component_weight)


def _normalised(circuit, column):
    theta = np.exp(column)
    total = np.bincount(circuit.edge_parent, weights=theta, minlength=circuit.n_nodes)
    return np.log(theta / total[circuit.edge_parent])


@settings(max_examples=25)
@given(bit_circuits(max_vars=6, min_vars=2), st.integers(0, 2**31))
def test_complete_rows_flow_as_ever(circuit, seed):
    rng = np.random.default_rng(seed)
    rows = [row for row in oracle.all_rows(circuit.n_vars) if oracle.probability(circuit, row) > 0]
    rows = [rows[i] for i in rng.integers(len(rows), size=9)]
    counts = expected_flows(circuit, rows).edge_count[:, 0]
    assert counts == pytest.approx(compute_flows(circuit, rows).edge_count)


@pytest.mark.compiled
def test_nothing_underflows_over_many_variables():
    circuit = independent_bits(linear_vtree(1200))
    theta = np.where(np.arange(circuit.n_edges) % 2, 0.001, 0.999)
    is_leaf = circuit.edge_right < 0
    circuit = circuit.with_parameters(np.where(is_leaf, np.log(theta), 0.0))
    row = np.full((1, 1200), 0.0)
    row[0, 5] = nan
    flows = expected_flows(circuit, row)
    assert flows.log_likelihood == pytest.approx(1199 * math.log(0.001))
    assert flows.edge_count.max() == pytest.approx(1.0)


def test_threads_change_nothing():
    circuit = as_bits(figure_1_circuit())
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
    circuit = as_bits(figure_1_circuit())
    never = circuit.with_parameters(np.full(circuit.n_edges, -math.inf))
    with pytest.raises(ValueError, match="probability zero"):
        expected_flows(never, [[1, 0, nan, 1]])


def some_rows(circuit, seed, n=12, share=0.4):
    """Rows that the circuit can give, with some values hidden."""
    rng = np.random.default_rng(seed)
    possible = [r for r in oracle.all_rows(circuit.n_vars) if oracle.probability(circuit, r) > 0]
    rows = np.array(possible, dtype=float)[rng.integers(len(possible), size=n)]
    rows[rng.random(rows.shape) < share] = nan
    return rows


@settings(max_examples=25)
@given(bit_circuits(max_vars=4), st.integers(0, 2**31))
def test_one_step_is_the_share_of_expected_counts(circuit, seed):
    rows = some_rows(circuit, seed)
    fitted = fit_incomplete(circuit, rows, pseudocount=2.0, max_iter=1, tol=-1.0)
    count = expected_flows(circuit, rows).edge_count[:, 0]
    for node in oracle.reached(circuit):
        edges = [edge for edge, _, _ in oracle.edges(circuit, node)]
        for edge in edges:
            smooth = (count[edge] + 2.0 / len(edges)) / (count[edges].sum() + 2.0)
            assert fitted.theta[edge] == pytest.approx(smooth)


@settings(max_examples=25)
@given(bit_mixtures(max_vars=4), st.integers(0, 2**31))
def test_no_step_lowers_likelihood_and_prior_together(mixture, seed):
    rows = partial_rows(some_rows(mixture.component(0), seed))
    passes = Passes.of(mixture)
    prior = uniform_prior(mixture.structure, 0.5)
    model = maximise(passes.circuit, passes.expect(rows, mixture), prior)
    before = -math.inf
    for _ in range(4):
        flows = passes.expect(rows, model)
        objective = flows.log_likelihood + log_density_of_prior(prior, model)
        assert objective >= before - 1e-9
        model, before = maximise(passes.circuit, flows, prior), objective


@settings(max_examples=25)
@given(bit_circuits(max_vars=6), st.integers(0, 2**31))
def test_complete_rows_need_one_step(circuit, seed):
    rows = some_rows(circuit, seed, share=0.0)
    fitted = fit_incomplete(circuit, rows, pseudocount=0.7)
    assert fitted.theta == pytest.approx(closed_form(circuit, rows, pseudocount=0.7).theta)


@pytest.mark.compiled
def test_parameters_are_recovered_when_a_known_value_hides_others():
    """What is hidden depends on what is known, so that dropping rows would mislead."""
    rng = np.random.default_rng(0)
    x0 = rng.random(40_000) < 0.5
    x1 = rng.random(40_000) < np.where(x0, 0.9, 0.2)
    X = np.column_stack([x0, x1]).astype(float)
    X[x1 & (rng.random(40_000) < 0.8), 0] = nan  # x0 is mostly hidden where x1 is 1
    tree = learn_chow_liu_tree(X)
    start = bits_of_tree(tree, vtree_from_chow_liu(tree))
    fitted = fit_incomplete(start, X, pseudocount=0.0, tol=1e-9, max_iter=500)
    found = oracle.probabilities(fitted, oracle.all_rows(2))
    assert found == pytest.approx([0.4, 0.1, 0.05, 0.45], abs=0.01)
    naive = np.nanmean(X[:, 0])  # what a dropped row costs
    assert abs(naive - 0.5) > 0.1


@pytest.mark.parametrize(("seconds", "n_steps"), [(0.0, 1), (9.0, 3), (None, 7)])
def test_a_step_that_would_end_too_late_is_not_begun(seconds, n_steps):
    """Each step takes two seconds here: the clock goes on by one whenever somebody looks at it."""
    table = np.random.default_rng(0).choice([0.0, 1.0, np.nan], (60, 4), p=[0.5, 0.2, 0.3])
    tree = learn_chow_liu_tree(table)
    circuit = bits_of_tree(tree, vtree_from_chow_liu(tree))
    ticks, steps = itertools.count(), []
    clock = Clock(seconds, lambda: float(next(ticks)))
    climb(
        Passes.of(circuit),
        as_mixture(circuit),
        partial_rows(table, None, 4),
        None,
        uniform_prior(circuit, 1.0),
        EmLimits(max_iter=6, tol=-np.inf, patience=100, clock=clock),
        on_iteration=lambda *_: steps.append(next(ticks)),
    )
    assert len(steps) == n_steps


def test_validation_rows_choose_the_step():
    circuit = bits_of_tree(
        tree := learn_chow_liu_tree(np.eye(3, dtype=int)), vtree_from_chow_liu(tree)
    )
    X = np.array([[1, 1, nan], [1, 0, 1.0]])
    same = fit_incomplete(
        circuit, X, X_valid=sample(folded(circuit), 500, random_state=0), pseudocount=0.0
    )
    assert np.array_equal(same.edge_log_theta, circuit.edge_log_theta)  # they prefer the start
