import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from makers import log_density_of_prior
from strategies import circuits, mixtures
from strudel import sample
from strudel._compiling import Clock
from strudel.circuits import compile_chow_liu
from strudel.circuits.mixture import as_mixture
from strudel.learning import expected_flows, fit_incomplete, fit_parameters
from strudel.learning.incomplete.em import EmLimits, climb, maximise
from strudel.learning.incomplete.expected_flows import Passes
from strudel.learning.incomplete.partial_rows import partial_rows
from strudel.learning.mixtures.em_steps import uniform_prior
from strudel.trees import learn_chow_liu_tree, vtree_from_chow_liu

nan = math.nan


def some_rows(circuit, seed, n=12, share=0.4):
    """Rows that the circuit can give, with some values hidden."""
    rng = np.random.default_rng(seed)
    possible = [r for r in oracle.all_rows(circuit.n_vars) if oracle.probability(circuit, r) > 0]
    rows = np.array(possible, dtype=float)[rng.integers(len(possible), size=n)]
    rows[rng.random(rows.shape) < share] = nan
    return rows


@settings(max_examples=25)
@given(circuits(max_vars=4), st.integers(0, 2**31))
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
@given(mixtures(max_vars=4), st.integers(0, 2**31))
def test_no_step_lowers_likelihood_and_prior_together(mixture, seed):
    rows = partial_rows(some_rows(mixture.to_circuit(), seed))
    passes = Passes.of(mixture, "test")
    prior = uniform_prior(mixture.structure, 0.5)
    model = maximise(passes.circuit, passes.expect(rows, mixture), prior)
    before = -math.inf
    for _ in range(4):
        flows = passes.expect(rows, model)
        objective = flows.log_likelihood + log_density_of_prior(prior, model)
        assert objective >= before - 1e-9
        model, before = maximise(passes.circuit, flows, prior), objective


@settings(max_examples=25)
@given(circuits(max_vars=6), st.integers(0, 2**31))
def test_complete_rows_need_one_step(circuit, seed):
    rows = some_rows(circuit, seed, share=0.0)
    fitted = fit_incomplete(circuit, rows, pseudocount=0.7)
    assert fitted.theta == pytest.approx(fit_parameters(circuit, rows, pseudocount=0.7).theta)


@pytest.mark.compiled
def test_parameters_are_recovered_when_a_known_value_hides_others():
    """What is hidden depends on what is known, so that dropping rows would mislead."""
    rng = np.random.default_rng(0)
    x0 = rng.random(40_000) < 0.5
    x1 = rng.random(40_000) < np.where(x0, 0.9, 0.2)
    X = np.column_stack([x0, x1]).astype(float)
    X[x1 & (rng.random(40_000) < 0.8), 0] = nan  # x0 is mostly hidden where x1 is 1
    tree = learn_chow_liu_tree(X)
    start = compile_chow_liu(tree, vtree_from_chow_liu(tree))
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
    circuit = compile_chow_liu(tree, vtree_from_chow_liu(tree))
    ticks, steps = itertools.count(), []
    clock = Clock(seconds, lambda: float(next(ticks)))
    climb(
        Passes.of(circuit, "fit"),
        as_mixture(circuit),
        partial_rows(table, None, 4),
        None,
        uniform_prior(circuit, 1.0),
        EmLimits(max_iter=6, tol=-np.inf, patience=100, clock=clock),
        on_iteration=lambda *_: steps.append(next(ticks)),
    )
    assert len(steps) == n_steps


def test_validation_rows_choose_the_step():
    circuit = compile_chow_liu(
        tree := learn_chow_liu_tree(np.eye(3, dtype=int)), vtree_from_chow_liu(tree)
    )
    X = np.array([[1, 1, nan], [1, 0, 1.0]])
    same = fit_incomplete(circuit, X, X_valid=sample(circuit, 500, random_state=0), pseudocount=0.0)
    assert np.array_equal(same.edge_log_theta, circuit.edge_log_theta)  # they prefer the start
