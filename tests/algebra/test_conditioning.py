from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from joint import NAN, REL, Joint, mixture_models, models, special_circuits
from strategies import examples, partly_observed_rows
from strudel import (
    CircuitPropertyError,
    Mixture,
    condition,
    log_likelihood,
    log_marginal,
    multiply,
)
from strudel.algebra import power
from strudel.circuits import CircuitBuilder, compile_factorized, figure_1_circuit
from strudel.trees.vtree import Vtree


@examples(200)
@given(st.one_of(models(7), mixture_models(6)), st.data())
def test_bayes_rule(model, data):
    joint, row = Joint(model), data.draw(partly_observed_rows(model.n_vars))
    unnormalised = Joint(condition(model, row, normalize=False))
    np.testing.assert_allclose(unnormalised.p, joint.p * joint.agrees(row), rtol=REL)
    expected = joint.given(row)
    if expected is None:
        with pytest.raises(ValueError, match="probability zero"):
            condition(model, row)
        return
    found = condition(model, row)
    np.testing.assert_allclose(Joint(found).p, expected, rtol=REL)
    log_p = log_likelihood(found, joint.states)
    np.testing.assert_allclose(np.exp(log_p), expected, rtol=REL, atol=1e-300)
    assert found.n_edges <= model.n_edges
    is_mixture = isinstance(found, Mixture)
    structure = found.structure if is_mixture else found
    assert structure.is_in_normal_form
    if isinstance(model, Mixture):
        posterior = joint.responsibilities(row)
        weights = found.weights if is_mixture else [1.0]
        np.testing.assert_allclose(weights, posterior[posterior > 0], rtol=REL)
    elif model.is_deterministic:
        assert found.is_deterministic


def test_known_variables_become_literals():
    p = condition(figure_1_circuit(), {"X1": 1, "X2": 0, "X3": 1, "X4": 0})
    assert p.n_parameters == 0
    assert p.n_edges == 3  # one product per inner vtree node


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
