from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given

import oracle
from joint import NAN, REL, models_with_rows, special_circuits
from strategies import examples
from strudel import (
    CircuitPropertyError,
    condition,
    log_conditional,
    log_likelihood,
    log_marginal,
    multiply,
)
from strudel.algebra import power
from strudel.circuits import CircuitBuilder, compile_factorized, figure_1_circuit
from strudel.trees.vtree import Vtree


@examples(150)
@given(models_with_rows(7, max_rows=3))
def test_bayes_rule(case):
    circuit, joint, rows = case
    for row in rows:
        given_row = condition(circuit, row)
        np.testing.assert_allclose(oracle.probabilities(given_row), joint.given(row), rtol=REL)
        states = joint.states
        log_p = log_likelihood(given_row, states)
        np.testing.assert_allclose(
            log_p, log_conditional(circuit, states, [row]), rtol=REL, atol=1e-13
        )
        assert given_row.is_in_normal_form
        assert given_row.n_edges <= circuit.n_edges
        if circuit.is_deterministic:
            assert given_row.is_deterministic


@given(models_with_rows(6, max_rows=2))
def test_unnormalised_it_is_the_joint(case):
    circuit, joint, rows = case
    row = rows[0]
    joint_with_row = condition(circuit, row, normalize=False)
    agrees = np.all(np.isnan(row) | (joint.states == np.array(row)), axis=1)
    np.testing.assert_allclose(oracle.probabilities(joint_with_row), joint.p * agrees, rtol=REL)
    total = log_marginal(joint_with_row, [[NAN] * circuit.n_vars])[0]
    assert total == pytest.approx(log_marginal(circuit, [row])[0], rel=REL, abs=1e-13)


def test_evidence_in_every_form():
    p = figure_1_circuit()
    expected = oracle.probabilities(condition(p, {"X3": 1}))
    for given_row in ([NAN, NAN, 1, NAN], [[NAN, NAN, 1, NAN]], {2: 1}, [{"X3": 1}]):
        assert oracle.probabilities(condition(p, given_row)) == expected
    assert oracle.probabilities(condition(p, None)) == pytest.approx(oracle.probabilities(p))
    assert condition(p, {"X3": 1}).feature_names == p.feature_names


def test_known_variables_become_literals():
    p = condition(figure_1_circuit(), {"X1": 1, "X2": 0, "X3": 1, "X4": 0})
    assert p.n_parameters == 0
    assert p.n_edges == 3  # one product per inner vtree node


def test_special_circuits():
    for circuit in special_circuits().values():
        rows = np.array(oracle.all_rows(circuit.n_vars), dtype=float)
        p = np.array(oracle.probabilities(circuit))
        best = rows[np.argmax(p)]
        best[1:] = NAN
        expected = p * (rows[:, 0] == best[0])
        found = oracle.probabilities(condition(circuit, best))
        np.testing.assert_allclose(found, expected / expected.sum(), rtol=REL)


def test_impossible_evidence():
    p = compile_factorized(figure_1_circuit().vtree, [0.0, 0.5, 0.5, 0.5])
    with pytest.raises(ValueError, match="probability zero"):
        condition(p, {0: 1})
    assert oracle.probabilities(condition(p, {0: 1}, normalize=False)) == [0.0] * 16


def test_one_row_at_a_time():
    with pytest.raises(ValueError, match="takes one row of evidence, but got 2"):
        condition(figure_1_circuit(), [[1, NAN, NAN, NAN], [0, NAN, NAN, NAN]])


# Events that are circuits


def exactly_one_of_two(names=None):
    """The event X0 + X1 = 1, with weights 1."""
    builder = CircuitBuilder(Vtree.from_nested((0, 1)), names)
    literal = builder.literal
    edges = [(literal(0, 1), literal(1, 0), 1.0), (literal(0, 0), literal(1, 1), 1.0)]
    return builder.build(builder.add_sum(edges))


def test_an_event_is_a_circuit_of_zeros_and_ones():
    event = exactly_one_of_two()
    p = compile_factorized(event.vtree, [0.3, 0.6])
    given_event = condition(p, event)
    expected = np.array([0.0, 0.7 * 0.6, 0.3 * 0.4, 0.0])
    np.testing.assert_allclose(oracle.probabilities(given_event), expected / 0.54)
    joint = condition(p, event, normalize=False)
    assert log_marginal(joint, [[NAN, NAN]])[0] == pytest.approx(math.log(0.54))
    with pytest.raises(ValueError, match="no row is possible under both"):
        condition(condition(p, {0: 1, 1: 1}), event)


def test_the_support_of_a_circuit_is_an_event():
    p = special_circuits()["zeros"]
    support = power(p, 0)
    q = compile_factorized(p.vtree)
    found = np.array(oracle.probabilities(multiply(q, support, normalize=True)))
    expected = np.array(oracle.probabilities(p)) > 0
    np.testing.assert_allclose(found, expected / expected.sum(), rtol=REL)


def test_events_are_checked():
    event = exactly_one_of_two()
    p = compile_factorized(event.vtree, [0.3, 0.6])
    with pytest.raises(ValueError, match="only the parameters 0 and 1"):
        condition(event, p)
    builder = CircuitBuilder(event.vtree)
    one = builder.literal(0, 1)
    twice = builder.build(builder.add_sum([(one, builder.literal(1, 1), 1.0)] * 2))
    with pytest.raises(CircuitPropertyError, match=r"event.*deterministic"):
        condition(p, twice)
